"""Search of a single large memory: exact, by the approximate index, and what FAISS's IVF would give.

    python tests/benchmarks/bench_large.py ../shared/data --texts 200000

A text is two sentences of the data folder; E(x) is the mean of theirs. Questions are the personas'. Times are of one
thread's processor, so that other programs change them less.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from common import personas, read_jsonl, script_options, unit
from epic_memory import EpicMemory, Item
from epic_memory.encoders import embed, encoder_of
from epic_memory.storage import vector_index
from epic_memory.storage.vector_index import LEAST_RECALL, ApproximateIndex, one_thread

K, AT_ONCE = 10, 5_000
Search = Callable[[np.ndarray], np.ndarray]


def spent(action: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of this thread's processor, and what came out."""
    started = time.thread_time()
    found = action()
    return time.thread_time() - started, found


def tried(name: str, build: float, search: Search, vectors: np.ndarray, questions: np.ndarray, best: Any) -> float:
    """Print the build's seconds, a search's ms with exact scoring, and recall; return the recall."""
    taken, hits = [], []
    for question, wanted in zip(questions, best, strict=True):

        def scored(question: np.ndarray = question) -> np.ndarray:
            found = search(question)
            return found[np.argsort(-(vectors[found] @ question))[:K]]

        seconds, found = spent(scored)
        taken.append(seconds)
        hits.append(len({*found.tolist()} & {*wanted.tolist()}) / K)
    print(
        f"  {name:26} built in {build:6.1f} s, {1e3 * np.median(taken):6.2f} ms, recall {np.mean(hits):.3f}", flush=True
    )
    return float(np.mean(hits))


def indexes(vectors: np.ndarray, questions: np.ndarray) -> None:
    """Try each index over the same vectors, with the least effort that has the recall."""
    import faiss

    best = [np.argsort(-(vectors @ question))[:K] for question in questions]
    exactly = [spent(lambda q=q: np.argpartition(-(vectors @ q), K)[:K])[0] for q in questions]
    print(f"  {'exact product':26} {1e3 * np.median(exactly):6.2f} ms")
    build, ours = spent(lambda: ApproximateIndex(vectors))
    tried(f"ours, {ours.looked_at} looked at", build, ours.near, vectors, questions, best)
    dimension, lists = vectors.shape[1], int(4 * len(vectors) ** 0.5)
    quantizer = faiss.IndexFlatIP(dimension)
    ivf = faiss.IndexIVFFlat(quantizer, dimension, lists, faiss.METRIC_INNER_PRODUCT)
    with one_thread():
        build = spent(lambda: (ivf.train(vectors[: 40 * lists]), ivf.add(vectors)))[0]
        for share in (0.05, 0.1, 0.2, 0.4):
            ivf.nprobe = int(share * lists)
            name = f"IVF, {ivf.nprobe} of {lists} lists"
            if tried(name, build, lambda q: ivf.search(q[None], K)[1][0], vectors, questions, best) >= LEAST_RECALL:
                break


def whole(path: Path, questions: list[str]) -> None:
    """Open a memory and search, by an index from the first search on, and exactly."""
    vector_index.PAYS_AFTER = 0
    for name, least in (("by the index", vector_index.LEAST_ROWS), ("exactly", 10**12)):
        vector_index.LEAST_ROWS = least
        with EpicMemory.open(path) as memory:
            first = spent(lambda m=memory: m.search(questions[0]))[0]
            taken = [spent(lambda q=q, m=memory: m.search(q))[0] for q in questions]
            print(
                f"  search {name:13} median {1e3 * np.median(taken):6.1f} ms, the first one, which reads all vectors,"
                f" {first:.1f} s; {memory.stats().searched}"
            )


def main() -> None:
    options = script_options(__doc__, data=True, texts=200_000)
    texts = [r["text"] for n in ("wiki_passages", "assistant_answers") for r in read_jsonl(options.data / f"{n}.jsonl")]
    sentences = sorted({one.strip() for text in texts for one in re.split(r"(?<=[.!?])\s+|\n+", text) if len(one) > 25})
    asked = sorted({q for one in personas(options.data, "PrefWiki") for _, questions in one for q in questions})[:100]
    encoder = encoder_of("static")
    known, questions = embed(encoder, sentences), embed(encoder, asked)
    first, second = np.random.default_rng(0).integers(len(sentences), size=(2, options.texts))
    vectors = unit(known[first] + known[second]).astype(np.float32)
    print(f"{options.texts:,} texts:")
    indexes(vectors, questions)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.epic"
        with EpicMemory.open(path, ["I am vegan."]) as memory:
            store = memory._session.store
            for start in range(0, options.texts, AT_ONCE):
                pairs = zip(first[start : start + AT_ONCE], second[start : start + AT_ONCE], strict=True)
                items = [
                    Item(id=f"{start + n}", text=f"{sentences[a]} {sentences[b]}") for n, (a, b) in enumerate(pairs)
                ]
                with store.transaction():
                    store.items.put_all("default", items, vectors[start : start + AT_ONCE])
        whole(path, asked)


if __name__ == "__main__":
    main()
