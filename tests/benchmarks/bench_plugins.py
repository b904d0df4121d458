"""What the components of LangChain and LlamaIndex cost beyond what they wrap: no data needed.

`EpicRetriever` of both against `EpicMemory.search`; LangChain's `EpicVectorStore.similarity_search` against
`InMemoryVectorStore`'s; LlamaIndex's `SteeredRetriever.retrieve` against the leaf it steers.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator

from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode

import epic_langchain
import epic_llamaindex
from common import medians
from epic_langchain import EpicEmbeddings, EpicVectorStore
from epic_llamaindex import EpicEmbedding, SteeredRetriever
from epic_memory import EpicMemory, Settings

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with on-site casinos.", "I only drive electric cars."]
SUBJECTS = ("A vegan dish of lentils", "A hotel without a casino", "An electric car for the town", "The old canal")


def memories(texts: list[str]) -> Iterator[tuple[EpicMemory, str]]:
    """A memory without guidance, and one with it."""
    for fine in (False, True):
        memory = EpicMemory(PREFERENCES, settings=Settings(tau=0.0, fine=fine))
        memory.add(texts)
        yield memory, f"{len(memory)} items, {'with' if fine else 'without'} guidance"


def retrievers(memory: EpicMemory, runs: int, what: str) -> None:
    loop = asyncio.new_event_loop()
    theirs, ours = epic_langchain.EpicRetriever(memory=memory, k=5), epic_llamaindex.EpicRetriever(memory)
    found = medians(
        runs,
        search=lambda query: memory.search(query, 5),
        asearch=lambda query: loop.run_until_complete(memory.asearch(query, 5)),
        langchain=theirs.invoke,
        llamaindex=ours.retrieve,
        llamaindex_async=lambda query: loop.run_until_complete(ours.aretrieve(query)),
    )
    loop.close()
    print(f"EpicMemory.search {found['search']:.3f} ms ({what}); beyond it, in ms:")
    print(f"    LangChain, EpicRetriever.invoke {found['langchain'] - found['search']:.3f}")
    print(f"    LlamaIndex, EpicRetriever.retrieve {found['llamaindex'] - found['search']:.3f}", end="")
    print(f", aretrieve {found['llamaindex_async'] - found['asearch']:.3f} beyond asearch")


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--texts", type=int, default=1000)
    made.add_argument("--runs", type=int, default=500)
    options = made.parse_args()
    texts = [f"{SUBJECTS[n % len(SUBJECTS)]}, number {n} of the catalogue." for n in range(options.texts)]
    for memory, what in memories(texts):
        retrievers(memory, options.runs, what)
    stores = {
        "InMemoryVectorStore": InMemoryVectorStore(EpicEmbeddings()),
        "EpicVectorStore": EpicVectorStore(EpicEmbeddings()),
        "steered": EpicVectorStore(EpicEmbeddings(), preferences=PREFERENCES),
    }
    for store in stores.values():
        store.add_texts(texts)
    index = VectorStoreIndex([TextNode(text=text) for text in texts], embed_model=EpicEmbedding())
    leaf = index.as_retriever(similarity_top_k=5)
    found = medians(
        options.runs // 20,
        **{name: lambda query, store=store: store.similarity_search(query, 5) for name, store in stores.items()},
        VectorIndexRetriever=leaf.retrieve,
        SteeredRetriever=SteeredRetriever(leaf, PREFERENCES).retrieve,
    )
    print("searches by vector: " + ", ".join(f"{name} {taken:.3f} ms" for name, taken in found.items()))


if __name__ == "__main__":
    main()
