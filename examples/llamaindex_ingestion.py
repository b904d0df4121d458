"""A folder of notes becomes an index that follows one user's preferences, in LlamaIndex.

python examples/llamaindex_ingestion.py    # needs epic-memory[llamaindex], nothing else: no server, no download

With the line marked below changed, a model on Ollama decides what is kept, and answers.
"""

from __future__ import annotations

import json
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import Document
from llama_index.core.storage.docstore import SimpleDocumentStore

from epic_llamaindex import EpicEmbedding, EpicRetriever, EpicTransform, EpicVectorStore

SAMPLE = files("epic_memory") / "data"
PREFERENCES = (SAMPLE / "preferences.txt").read_text(encoding="utf-8").splitlines()
QUESTION = "What dessert could I bring to Oscar's birthday dinner?"

llm: Any = None  # on Ollama: from llama_index.llms.ollama import Ollama; llm = Ollama(model="qwen3:4b", temperature=0)


def documents() -> list[Document]:
    """The user's notes and clippings, as a reader would give them."""
    records = map(json.loads, (SAMPLE / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    return [Document(id_=r["id"], text=r["text"], metadata={"title": r["title"]}) for r in records]


def show(nodes: list[Any]) -> None:
    for found in nodes:
        print(f"{found.score:.2f} {found.node.metadata['title']}: {found.node.metadata['epic_stance']}")


def main(folder: Path) -> None:
    # 1. A step of an ingestion, after the splitter. What comes out carries its guidance; ids and texts stay.
    keep = EpicTransform(preferences=PREFERENCES[:-1], llm=llm)
    store = EpicVectorStore(path=folder / "notes.vectors", preferences=PREFERENCES)  # one file
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(), keep, EpicEmbedding()], docstore=SimpleDocumentStore(), vector_store=store
    )
    nodes = pipeline.run(documents=documents())
    print(keep.report)
    first = nodes[0].metadata
    print(f"\n{first['title']!r} was kept for {first['epic_preference']!r}: {first['epic_stance']}")
    print(f"  {first['epic_instruction']}\n")

    # 2. An index over the store; searches find nodes by their instructions, and follow the preferences.
    index = VectorStoreIndex.from_vector_store(store, embed_model=EpicEmbedding())
    show(index.as_retriever(similarity_top_k=3).retrieve(QUESTION))

    # 3. A new preference. The docstore would skip documents that did not change: they are taken up again.
    keep.preferences = PREFERENCES
    known = {node.ref_doc_id for node in nodes}
    new = [node for node in keep.reingest(pipeline) if node.ref_doc_id not in known]
    print(f"\nFor {PREFERENCES[-1]!r}, {len(new)} nodes came in:")
    print("\n".join(f"  {node.metadata['title']}" for node in new[:3]))
    store.close()

    # 4. Or all of it at once: a memory in one file, and its retriever in a query engine.
    retriever = EpicRetriever.from_defaults(
        documents=documents(), path=folder / "notes.epic", preferences=PREFERENCES, similarity_top_k=3, guidance="text"
    )
    found = retriever.retrieve(QUESTION)
    print("\nWhat a model is given:\n" + "\n\n".join(node.get_content() for node in found))
    if llm is not None:
        print(RetrieverQueryEngine.from_args(retriever, llm=llm).query(QUESTION))
    retriever.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
