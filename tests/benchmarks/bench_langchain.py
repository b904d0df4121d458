"""What LangChain's components cost beyond what they wrap: no data needed.

`EpicRetriever.invoke` against `EpicMemory.search`, `EpicVectorStore.similarity_search` against `InMemoryVectorStore`'s.
"""

from __future__ import annotations

import argparse

from langchain_core.vectorstores import InMemoryVectorStore

from common import medians
from epic_langchain import EpicEmbeddings, EpicRetriever, EpicVectorStore
from epic_memory import EpicMemory, Settings

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with on-site casinos.", "I only drive electric cars."]
SUBJECTS = ("A vegan dish of lentils", "A hotel without a casino", "An electric car for the town", "The old canal")


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--texts", type=int, default=1000)
    made.add_argument("--runs", type=int, default=1000)
    options = made.parse_args()
    texts = [f"{SUBJECTS[n % len(SUBJECTS)]}, number {n} of the catalogue." for n in range(options.texts)]

    memory = EpicMemory(PREFERENCES, settings=Settings(tau=0.0, fine=False))
    memory.add(texts)
    retriever = EpicRetriever(memory=memory, k=5)
    found = medians(options.runs, search=lambda q: memory.search(q, 5), invoke=retriever.invoke)
    print(
        f"EpicMemory.search {found['search']:.3f} ms, EpicRetriever.invoke {found['invoke']:.3f} ms:"
        f" {found['invoke'] - found['search']:.3f} ms more ({len(memory)} items)"
    )

    theirs = InMemoryVectorStore(EpicEmbeddings())
    ours = EpicVectorStore(EpicEmbeddings())
    steered = EpicVectorStore(EpicEmbeddings(), preferences=PREFERENCES)
    for store in (theirs, ours, steered):
        store.add_texts(texts)
    found = medians(
        options.runs // 5,
        theirs=lambda q: theirs.similarity_search(q, 5),
        ours=lambda q: ours.similarity_search(q, 5),
        steered=lambda q: steered.similarity_search(q, 5),
    )
    print(
        f"similarity_search: InMemoryVectorStore {found['theirs']:.3f} ms, EpicVectorStore {found['ours']:.3f} ms,"
        f" steered {found['steered']:.3f} ms ({len(texts)} texts)"
    )


if __name__ == "__main__":
    main()
