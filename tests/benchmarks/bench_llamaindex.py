"""What LlamaIndex's retrievers cost beyond what they wrap: no data needed.

`EpicRetriever.retrieve` against `EpicMemory.search`, `SteeredRetriever.retrieve` against the leaf it steers.
"""

from __future__ import annotations

import argparse
import asyncio

from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from common import medians
from epic_llamaindex import EpicEmbedding, EpicRetriever, SteeredRetriever
from epic_memory import EpicMemory, Settings

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with on-site casinos.", "I only drive electric cars."]
SUBJECTS = ("A vegan dish of lentils", "A hotel without a casino", "An electric car for the town", "The old canal")


class Nothing(BaseRetriever):
    """What the framework takes for itself."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return []


def compare(memory: EpicMemory, retriever: EpicRetriever, runs: int, what: str) -> None:
    """What a retriever costs beyond its memory, sync and async."""
    loop = asyncio.new_event_loop()
    found = medians(
        runs,
        nothing=Nothing().retrieve,
        search=memory.search,
        retrieve=retriever.retrieve,
        asearch=lambda query: loop.run_until_complete(memory.asearch(query)),
        aretrieve=lambda query: loop.run_until_complete(retriever.aretrieve(query)),
    )
    loop.close()
    print(
        f"EpicMemory.search {found['search']:.3f} ms, EpicRetriever.retrieve {found['retrieve']:.3f} ms:"
        f" {found['retrieve'] - found['search']:.3f} ms more; asearch {found['asearch']:.3f} ms, aretrieve"
        f" {found['aretrieve']:.3f} ms: {found['aretrieve'] - found['asearch']:.3f} ms more; a retriever that does"
        f" nothing {found['nothing']:.3f} ms ({what})"
    )


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--texts", type=int, default=1000)
    made.add_argument("--runs", type=int, default=1000)
    options = made.parse_args()
    texts = [f"{SUBJECTS[n % len(SUBJECTS)]}, number {n} of the catalogue." for n in range(options.texts)]

    for fine in (False, True):
        memory = EpicMemory(PREFERENCES, settings=Settings(tau=0.0, fine=fine))
        memory.add(texts)
        what = f"{len(memory)} items, {'with' if fine else 'without'} guidance"
        compare(memory, EpicRetriever(memory), options.runs, what)

    index = VectorStoreIndex([TextNode(text=text) for text in texts], embed_model=EpicEmbedding())
    leaf = index.as_retriever(similarity_top_k=5)
    steered = SteeredRetriever(leaf, PREFERENCES)
    found = medians(max(1, options.runs // 20), leaf=leaf.retrieve, steered=steered.retrieve)
    print(
        f"VectorIndexRetriever.retrieve {found['leaf']:.3f} ms, steered {found['steered']:.3f} ms"
        f" ({len(texts)} texts in a SimpleVectorStore)"
    )


if __name__ == "__main__":
    main()
