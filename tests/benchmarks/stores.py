"""Stores that are measured beside ours: each takes texts in and searches them as its users do.

`python tests/benchmarks/stores.py NAME FILE FOLDER` measures one in a fresh process, and prints a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

K = 10
OURS = "EPIC, everything"
_DIMENSION = 256
_USER = "user"


class Peer:
    """A store: takes texts in and searches them as its users do."""

    def add(self, texts: Sequence[str]) -> None:
        """Take texts in."""
        raise NotImplementedError

    def search(self, query: str) -> Sequence[str]:
        """Return the texts found, ten at most."""
        raise NotImplementedError

    def close(self) -> None:
        """Have everything on disk; most have it there already, or never."""


def encode(texts: Sequence[str]) -> list[list[float]]:
    """Return the embeddings that all stores are given, of the static encoder."""
    from epic_memory.encoders import default_encoder

    made: list[list[float]] = default_encoder().encode(list(texts)).tolist()
    return made


class _Epic(Peer):
    def __init__(self, folder: Path, preferences: Sequence[str] = (), **settings: Any) -> None:
        from epic_memory import EpicMemory, Settings

        self.memory = EpicMemory.open(folder / "me.epic", preferences, settings=Settings(**settings))

    def add(self, texts: Sequence[str]) -> None:
        self.memory.add(texts)

    def search(self, query: str) -> Sequence[str]:
        return [hit.item.text for hit in self.memory.search(query, K)]

    def close(self) -> None:
        self.memory.close()


def _everything(folder: Path) -> Peer:
    """Return our file as a store of everything, which asks no preferences: what the peers are."""
    return _Epic(folder, coarse=False, fine=False, reserve=0)


def _ten_preferences(folder: Path) -> Peer:
    """Return our file as it comes, with ten preferences."""
    return _Epic(folder, (folder.parent / "preferences.txt").read_text(encoding="utf-8").splitlines())


class _Faiss(Peer):
    def __init__(self, folder: Path) -> None:
        import faiss

        self.folder, self.texts = folder, list[str]()
        self.index = faiss.IndexFlatIP(_DIMENSION)

    def add(self, texts: Sequence[str]) -> None:
        import faiss
        import numpy as np

        self.texts += texts
        self.index.add(np.array(encode(texts), dtype=np.float32))
        faiss.write_index(self.index, str(self.folder / "index.faiss"))
        (self.folder / "texts.json").write_text(json.dumps(self.texts), encoding="utf-8")

    def search(self, query: str) -> Sequence[str]:
        import numpy as np

        return [self.texts[row] for row in self.index.search(np.array(encode([query]), dtype=np.float32), K)[1][0]]


class _Chroma(Peer):
    def __init__(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        self.client = chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
        self.collection: Any = self.client.create_collection("texts", metadata={"hnsw:space": "cosine"})

    def add(self, texts: Sequence[str]) -> None:
        for start in range(0, len(texts), 1000):
            part = list(texts[start : start + 1000])
            ids = [str(start + number) for number in range(len(part))]
            self.collection.add(ids=ids, documents=part, embeddings=encode(part))

    def search(self, query: str) -> Sequence[str]:
        found = self.collection.query(query_embeddings=encode([query]), n_results=K)
        return list(found["documents"][0])


class _LanceDB(Peer):
    def __init__(self, folder: Path) -> None:
        import lancedb

        self.database = lancedb.connect(str(folder))
        self.table: Any = None

    def add(self, texts: Sequence[str]) -> None:
        vectors = encode(texts)
        rows = [{"vector": vector, "text": text} for vector, text in zip(vectors, texts, strict=True)]
        self.table = self.database.create_table("texts", data=rows)

    def search(self, query: str) -> Sequence[str]:
        return [row["text"] for row in self.table.search(encode([query])[0]).limit(K).to_list()]


class _LangMem(Peer):
    def __init__(self, folder: Path) -> None:
        from langgraph.store.memory import InMemoryStore
        from langmem import create_manage_memory_tool, create_search_memory_tool

        self.store = InMemoryStore(index={"dims": _DIMENSION, "embed": encode})
        self._manage = create_manage_memory_tool(namespace=("memories",), store=self.store)
        self._search = create_search_memory_tool(namespace=("memories",), store=self.store)

    def add(self, texts: Sequence[str]) -> None:
        for text in texts:
            self._manage.invoke({"content": text, "action": "create"})

    def search(self, query: str) -> Sequence[str]:
        found = json.loads(self._search.invoke({"query": query, "limit": K}))
        return [str(each["value"]["content"]) for each in found]


class _LlamaIndexBlock(Peer):
    def __init__(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings
        from llama_index.core.base.embeddings.base import BaseEmbedding
        from llama_index.core.memory import VectorMemoryBlock
        from llama_index.vector_stores.chroma import ChromaVectorStore

        class Embedding(BaseEmbedding):
            def _get_text_embedding(self, text: str) -> list[float]:
                return encode([text])[0]

            def _get_query_embedding(self, query: str) -> list[float]:
                return encode([query])[0]

            async def _aget_query_embedding(self, query: str) -> list[float]:
                return encode([query])[0]

        # The block takes only stores that hold the texts, which LlamaIndex's own simple one does not.
        client = chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
        store = ChromaVectorStore(chroma_collection=client.create_collection("texts"))
        self._block = VectorMemoryBlock(vector_store=store, embed_model=Embedding(), similarity_top_k=K)

    def add(self, texts: Sequence[str]) -> None:
        from llama_index.core.base.llms.types import ChatMessage

        async def put() -> None:
            for text in texts:
                await self._block.aput([ChatMessage(role="user", content=text)])

        asyncio.run(put())

    def search(self, query: str) -> Sequence[str]:
        from llama_index.core.base.llms.types import ChatMessage

        return [str(asyncio.run(self._block.aget([ChatMessage(role="user", content=query)])))]


class _Scripted:
    """A language model in mem0's place for one, which keeps every message as it is: what mem0 itself costs with one."""

    config: Any = None

    def __init__(self) -> None:
        self.calls = self.characters = 0

    def generate_response(self, messages: Sequence[dict[str, str]], **options: Any) -> str:
        self.calls += 1
        self.characters += sum(len(message["content"]) for message in messages)
        new = messages[-1]["content"].rsplit("## New Messages\n", 1)[1].split("\n\n## ", 1)[0]
        return json.dumps({"memory": [{"id": "0", "text": new.strip().removeprefix("user: ")}]})


class _Mem0(Peer):
    infer = False

    def __init__(self, folder: Path) -> None:
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder), "OPENAI_API_KEY": "none"}
        from mem0 import Memory

        class Embedding:
            config: Any = None

            def embed(self, text: str, memory_action: str | None = None) -> list[float]:
                return encode([text])[0]

            def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
                return encode(texts)

        store = {"path": str(folder / "qdrant"), "embedding_model_dims": _DIMENSION, "on_disk": True}
        self.memory: Any = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": str(folder / "history.db"),
            }
        )
        embedding = Embedding()
        embedding.config = self.memory.embedding_model.config
        self.memory.embedding_model = embedding
        self.llm = _Scripted()
        self.memory.llm = self.llm

    def add(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.memory.add(text, user_id=_USER, infer=self.infer)

    def search(self, query: str) -> Sequence[str]:
        found = self.memory.search(query, top_k=K, filters={"user_id": _USER}, threshold=0.0)
        return [each["memory"] for each in found["results"]]

    def close(self) -> None:
        self.memory.vector_store.client.close()


class _Mem0Infers(_Mem0):
    infer = True


class Known(NamedTuple):
    """A peer, and the package it is from."""

    make: Callable[[Path], Peer]
    package: str


PEERS: dict[str, Known] = {
    OURS: Known(_everything, "epic-memory"),
    "EPIC, ten preferences": Known(_ten_preferences, "epic-memory"),
    "FAISS flat": Known(_Faiss, "faiss-cpu"),
    "Chroma": Known(_Chroma, "chromadb"),
    "LanceDB": Known(_LanceDB, "lancedb"),
    "LangMem": Known(_LangMem, "langmem"),
    "VectorMemoryBlock over Chroma": Known(_LlamaIndexBlock, "llama-index-vector-stores-chroma"),
    "mem0, infer off": Known(_Mem0, "mem0ai"),
    "mem0, infer on, scripted model": Known(_Mem0Infers, "mem0ai"),
}


def measure(name: str, texts: Path, folder: Path) -> dict[str, Any]:
    """Measure one peer in this process, which should be a fresh one.

    Returns:
        Seconds of add; median milliseconds of a search, the query's encoding included; bytes on disk; share of
        questions whose evidence was found; calls of a language model while adding, and characters it was sent.
    """
    content = json.loads(texts.read_text(encoding="utf-8"))
    # The encoder is the same for all: it is there before the clock starts.
    encode(["warm"])
    peer = PEERS[name].make(folder)
    begun = time.perf_counter()
    peer.add(content["texts"])
    added = time.perf_counter()
    lm = getattr(peer, "llm", None)
    calls, characters = (lm.calls, lm.characters) if lm is not None else (0, 0)
    taken, found = [], []
    for query, evidence in content["queries"]:
        start = time.perf_counter()
        hits = peer.search(query)
        taken.append(time.perf_counter() - start)
        if evidence:
            found.append(any(text in hit for text in evidence for hit in hits))
    peer.close()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "add": added - begun,
        "search": 1000 * statistics.median(taken),
        "bytes": size,
        "found": sum(found) / len(found) if found else None,
        "calls": calls,
        "characters": characters,
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))))
