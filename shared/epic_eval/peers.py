"""Peers: other stores for texts, each in a process of its own, with the same texts and the same encoder.

`python -m epic_eval.peers NAME FILE FOLDER` measures one and prints a line of JSON; `measure_all` runs it for all.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from epic_eval.datasets import read_passages
from epic_eval.journal import read_lines
from epic_eval.report import Part, Table, Text

K = 10
OURS = "EPIC, everything"
_DIMENSION = 256
_USER = "user"


class Peer(Protocol):
    """Protocol of a store."""

    def add(self, texts: Sequence[str]) -> None:
        """Take texts in, as its users do."""
        ...

    def search(self, query: str) -> Sequence[str]:
        """Return the texts found, ten at most."""
        ...

    def close(self) -> None:
        """Have everything on disk, if it keeps anything there."""
        ...


def _encode(texts: Sequence[str]) -> list[list[float]]:
    from epic_core.encoders import default_encoder

    made: list[list[float]] = default_encoder().encode(list(texts)).tolist()
    return made


class _Epic:
    def __init__(self, folder: Path, **options: Any) -> None:
        from epic_core import EpicMemory

        self.memory = EpicMemory.open(folder / "me.epic", **options)

    def add(self, texts: Sequence[str]) -> None:
        self.memory.add(texts)

    def search(self, query: str) -> Sequence[str]:
        return [hit.item.text for hit in self.memory.search(query, K)]

    def close(self) -> None:
        self.memory.close()


class _Everything(_Epic):
    """Our file as a store of everything, which asks no preferences: what the peers are."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, coarse=False, fine=False, reserve=0)


class _Preferences(_Epic):
    """Our file as it comes, with ten preferences."""

    def __init__(self, folder: Path) -> None:
        preferences = (folder.parent / "preferences.txt").read_text(encoding="utf-8").splitlines()
        super().__init__(folder, preferences=preferences)


class _Faiss:
    def __init__(self, folder: Path) -> None:
        import faiss

        self.folder, self.texts = folder, list[str]()
        self.index = faiss.IndexFlatIP(_DIMENSION)

    def add(self, texts: Sequence[str]) -> None:
        import faiss
        import numpy as np

        self.texts += texts
        self.index.add(np.array(_encode(texts), dtype=np.float32))
        faiss.write_index(self.index, str(self.folder / "index.faiss"))
        (self.folder / "texts.json").write_text(json.dumps(self.texts), encoding="utf-8")

    def search(self, query: str) -> Sequence[str]:
        import numpy as np

        return [self.texts[row] for row in self.index.search(np.array(_encode([query]), dtype=np.float32), K)[1][0]]

    def close(self) -> None:
        """Everything is written."""


class _Chroma:
    def __init__(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        self.client = chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
        self.collection: Any = self.client.create_collection("texts", metadata={"hnsw:space": "cosine"})

    def add(self, texts: Sequence[str]) -> None:
        for start in range(0, len(texts), 1000):
            part = list(texts[start : start + 1000])
            ids = [str(start + number) for number in range(len(part))]
            self.collection.add(ids=ids, documents=part, embeddings=_encode(part))

    def search(self, query: str) -> Sequence[str]:
        found = self.collection.query(query_embeddings=_encode([query]), n_results=K)
        return list(found["documents"][0])

    def close(self) -> None:
        """Everything is written."""


class _LanceDB:
    def __init__(self, folder: Path) -> None:
        import lancedb

        self.database = lancedb.connect(str(folder))
        self.table: Any = None

    def add(self, texts: Sequence[str]) -> None:
        vectors = _encode(texts)
        rows = [{"vector": vector, "text": text} for vector, text in zip(vectors, texts, strict=True)]
        self.table = self.database.create_table("texts", data=rows)

    def search(self, query: str) -> Sequence[str]:
        return [row["text"] for row in self.table.search(_encode([query])[0]).limit(K).to_list()]

    def close(self) -> None:
        """Everything is written."""


class _LangMem:
    def __init__(self, folder: Path) -> None:
        from langgraph.store.memory import InMemoryStore
        from langmem import create_manage_memory_tool, create_search_memory_tool

        self.store = InMemoryStore(index={"dims": _DIMENSION, "embed": _encode})
        self._manage = create_manage_memory_tool(namespace=("memories",), store=self.store)
        self._search = create_search_memory_tool(namespace=("memories",), store=self.store)

    def add(self, texts: Sequence[str]) -> None:
        for text in texts:
            self._manage.invoke({"content": text, "action": "create"})

    def search(self, query: str) -> Sequence[str]:
        found = json.loads(self._search.invoke({"query": query, "limit": K}))
        return [str(each["value"]["content"]) for each in found]

    def close(self) -> None:
        """This store keeps nothing on disk."""


class _LlamaIndexBlock:
    def __init__(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings
        from llama_index.core.base.embeddings.base import BaseEmbedding
        from llama_index.core.memory import VectorMemoryBlock
        from llama_index.vector_stores.chroma import ChromaVectorStore

        class Embedding(BaseEmbedding):
            def _get_text_embedding(self, text: str) -> list[float]:
                return _encode([text])[0]

            def _get_query_embedding(self, query: str) -> list[float]:
                return _encode([query])[0]

            async def _aget_query_embedding(self, query: str) -> list[float]:
                return _encode([query])[0]

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

    def close(self) -> None:
        """Everything is written."""


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


class _Mem0:
    infer = False

    def __init__(self, folder: Path) -> None:
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder), "OPENAI_API_KEY": "none"}
        from mem0 import Memory

        class Embedding:
            config: Any = None

            def embed(self, text: str, memory_action: str | None = None) -> list[float]:
                return _encode([text])[0]

            def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
                return _encode(texts)

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


@dataclass(frozen=True)
class Known:
    """A peer, the package it is from, and what is imported first."""

    make: Callable[[Path], Peer]
    package: str
    module: str


PEERS: dict[str, Known] = {
    OURS: Known(_Everything, "epic-memory", "epic_core.memory"),
    "EPIC, ten preferences": Known(_Preferences, "epic-memory", "epic_core.memory"),
    "FAISS flat": Known(_Faiss, "faiss-cpu", "faiss"),
    "Chroma": Known(_Chroma, "chromadb", "chromadb"),
    "LanceDB": Known(_LanceDB, "lancedb", "lancedb"),
    "LangMem": Known(_LangMem, "langmem", "langmem"),
    "VectorMemoryBlock over Chroma": Known(
        _LlamaIndexBlock, "llama-index-vector-stores-chroma", "llama_index.vector_stores.chroma"
    ),
    "mem0, infer off": Known(_Mem0, "mem0ai", "mem0"),
    "mem0, infer on, scripted model": Known(_Mem0Infers, "mem0ai", "mem0"),
}


def measure(name: str, texts: Path, folder: Path) -> dict[str, Any]:
    """Measure one peer in this process, which should be a fresh one.

    Returns:
        Seconds of start and add; median milliseconds of a search, the query's encoding included; bytes on
        disk; the process's peak of RAM in bytes; share of questions whose evidence was found; calls of a language
        model while adding, and characters it was sent.
    """
    known = PEERS[name]
    content = json.loads(texts.read_text(encoding="utf-8"))
    # The encoder is the same for all: it is there before the clock starts.
    _encode(["warm"])
    before = _peak()
    importlib.import_module(known.module)
    imported = time.perf_counter()
    peer = known.make(folder)
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
        "start": begun - imported,
        "add": added - begun,
        "search": 1000 * statistics.median(taken),
        "bytes": size,
        "ram": _peak() - before,
        "found": sum(found) / len(found) if found else None,
        "calls": calls,
        "characters": characters,
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def texts_of(data: Path, count: int) -> dict[str, Any]:
    """Return texts and queries: the turns of one conversation with questions about it, and passages around them.

    Args:
        data: The folder of docs/data.md; without conversations in it, the queries are the titles of passages.
        count: How many texts.
    """
    texts: list[str] = []
    queries: list[tuple[str, list[str]]] = []
    path = data / "locomo_conversations.json"
    if path.exists():
        conversation = json.loads(path.read_text(encoding="utf-8"))[0]
        turns = {turn["id"]: f"{turn['speaker']}: {turn['text']}" for turn in conversation["turns"]}
        texts += turns.values()
        for question in conversation["questions"]:
            evidence = [turns[turn] for turn in question["evidence"] if turn in turns]
            if evidence and question["category"] != 5:
                queries.append((question["question"], evidence))
    from epic_core.text.chunking import WordChunker

    short = WordChunker(max_words=30)
    for file in [*sorted(data.glob("*passages.jsonl")), *sorted(data.glob("*answers.jsonl"))]:
        texts += [piece for _, chunk in read_passages(file) for piece in short.chunks(chunk)]
        queries += [] if path.exists() else [(record["title"], []) for record in read_lines(file)[:50]]
    return {"texts": list(dict.fromkeys(texts))[:count], "queries": queries[:100]}


def measure_all(
    data: Path,
    folder: Path,
    sizes: Sequence[int],
    *,
    names: Sequence[str],
    seconds: float,
    say: Callable[[str], object],
) -> dict[tuple[str, int], dict[str, Any] | str]:
    """Measure peers, each in a process of its own; what is not installed or fails is a reason in place of figures.

    Args:
        data: The data folder.
        folder: For their files, which are removed.
        sizes: Numbers of texts.
        names: Of `PEERS`.
        seconds: How long each may take.
        say: Is told how far it is.
    """
    import shutil

    folder.mkdir(parents=True, exist_ok=True)
    made: dict[tuple[str, int], dict[str, Any] | str] = {}
    path = next(iter(sorted((data / "personas").glob("*.json"))))
    blocks = json.loads(path.read_text(encoding="utf-8"))[0]["preference_blocks"]
    (folder / "preferences.txt").write_text("\n".join(block["preference"] for block in blocks), encoding="utf-8")
    for size in sizes:
        texts = folder / f"texts_{size}.json"
        texts.write_text(json.dumps(texts_of(data, size)), encoding="utf-8")
        for name in names:
            try:
                version(PEERS[name].package)
            except PackageNotFoundError:
                made[name, size] = "not installed"
                continue
            store = folder / "store"
            shutil.rmtree(store, ignore_errors=True)
            store.mkdir()
            command = [sys.executable, "-m", "epic_eval.peers", name, str(texts), str(store)]
            try:
                taken = min(_import_seconds(PEERS[name].module) for _ in range(3))
                done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
                lines = done.stdout.strip().splitlines()
                failed = (done.stderr.strip().splitlines() or ["no output"])[-1]
                good = done.returncode == 0 and lines
                made[name, size] = {**json.loads(lines[-1]), "import": taken} if good else f"failed: {failed}"
            except subprocess.TimeoutExpired:
                made[name, size] = f"more than {seconds:.0f} s"
            shutil.rmtree(store, ignore_errors=True)
            say(f"{name}, {size} texts: {made[name, size]}")
    return made


def _import_seconds(module: str) -> float:
    """Return how long a process that has imported nothing else takes to import a module."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def peers_report(made: dict[tuple[str, int], dict[str, Any] | str]) -> list[Part]:
    """Build a table for each size, with ratios to our file as a store of everything."""
    parts: list[Part] = [
        Text(
            "The same texts and the same encoder (static, 256 dimensions) for all, each in a process of its own. In"
            f" brackets: times the figure of {OURS!r}, in the same run; below 1 is better than ours. RAM is the peak"
            " above what the process had with the encoder loaded; import is that of a fresh process, the best of three."
            f" found: of LoCoMo's questions about one conversation, those whose evidence is among {K} texts. Model"
            " calls: while adding, with prompt tokens, a quarter of the characters; the scripted model answers at once"
            " and keeps every text, so a real one's time comes on top."
        )
    ]
    columns = (("add", "s"), ("search", "ms"), ("bytes", "MiB"), ("ram", "MiB"), ("import", "s"), ("start", "s"))
    for size in dict.fromkeys(size for _, size in made):
        ours, rows = made.get((OURS, size)), []
        for name in dict.fromkeys(name for name, _ in made):
            found = made[name, size]
            known = PEERS[name]
            if isinstance(found, str):
                rows.append((name, "-", found, *["-"] * (len(columns) + 1)))
                continue
            cells = []
            for key, unit in columns:
                value = found[key] / 2**20 if unit == "MiB" else found[key]
                base = ours[key] if isinstance(ours, dict) else 0
                ratio = f" ({found[key] / base:.2f})" if base else ""
                kept = key != "bytes" or found[key] > 0
                cells.append(f"{value:.2f}{ratio}" if kept else "none kept")
            share = "-" if found["found"] is None else f"{found['found']:.2f}"
            asked = f"{found['calls']:,} ({found['characters'] / 4e6:.2f} million)"
            rows.append((name, version(known.package), share, *cells, asked if found["calls"] else "0"))
        header = ("", "version", "found", *(f"{key} {unit}" for key, unit in columns), "model calls (tokens)")
        parts.append(Table(f"{size:,} texts", header, tuple(rows)))
    return parts


def main() -> None:
    """Measure the peer of the command line."""
    name, texts, folder = sys.argv[1:]
    sys.stdout.write(json.dumps(measure(name, Path(texts), Path(folder))) + "\n")


if __name__ == "__main__":
    main()
