"""What the retrievers of LangChain and LlamaIndex cost beyond `EpicMemory.search`: no data needed."""

from __future__ import annotations

import asyncio

import epic_langchain
import epic_llamaindex
from common import medians, script_options
from epic_memory import EpicMemory, Settings

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with on-site casinos.", "I only drive electric cars."]
SUBJECTS = ("A vegan dish of lentils", "A hotel without a casino", "An electric car for the town", "The old canal")


def main() -> None:
    options = script_options(__doc__, texts=1_000, runs=500)
    texts = [f"{SUBJECTS[n % len(SUBJECTS)]}, number {n} of the catalogue." for n in range(options.texts)]
    loop = asyncio.new_event_loop()
    for fine in (False, True):
        memory = EpicMemory(PREFERENCES, settings=Settings(tau=0.0, fine=fine))
        memory.add(texts)
        theirs, ours = epic_langchain.EpicRetriever(memory=memory, k=5), epic_llamaindex.EpicRetriever(memory)
        found = medians(
            options.runs,
            search=lambda query, m=memory: m.search(query, 5),
            asearch=lambda query, m=memory: loop.run_until_complete(m.asearch(query, 5)),
            langchain=theirs.invoke,
            llamaindex=ours.retrieve,
            llamaindex_async=lambda query, r=ours: loop.run_until_complete(r.aretrieve(query)),
        )
        what = f"{len(memory)} items, {'with' if fine else 'without'} guidance"
        print(f"EpicMemory.search {found['search']:.3f} ms ({what}); beyond it, in ms:")
        print(f"    LangChain, EpicRetriever.invoke {found['langchain'] - found['search']:.3f}")
        print(f"    LlamaIndex, EpicRetriever.retrieve {found['llamaindex'] - found['search']:.3f}", end="")
        print(f", aretrieve {found['llamaindex_async'] - found['asearch']:.3f} beyond asearch")
    loop.close()


if __name__ == "__main__":
    main()
