"""Two-hop questions: how often both passages are found, by dense retrieval and by a walk over the graph.

Our own questions over the sample corpus (`shared/tools/written/two_hop.jsonl`): each needs two passages that share an
entity, its bridge, which it does not name. Everything is kept and nothing steers: what is compared is
`EpicMemory.search` and `GraphMemory.search` over the same passages. The intervals are of the paired difference,
bootstrapped over questions.

The questions of even number were looked at when the walk's constants were compared with HippoRAG 2's, which were kept;
those of odd number were not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common import interval, read_jsonl
from epic_graph.memory import GraphMemory
from epic_memory import Item, Settings
from epic_memory.encoders import default_encoder
from epic_memory.encoders.base import Encoder
from epic_memory.types import Hits
from fitting import written

AMONG = (2, 5, 10)


class Question(NamedTuple):
    text: str
    passages: frozenset[str]


def corpus() -> list[Item]:
    records = read_jsonl(Path(str(files("epic_memory") / "data" / "corpus.jsonl")))
    return [Item(id=one["id"], text=one["text"], metadata={"title": one["title"]}) for one in records]


def questions() -> list[Question]:
    records = written("two_hop.jsonl")
    return [Question(one["question"], frozenset(one["passages"])) for one in records]


def found(search: Callable[..., Hits], asked: Sequence[Question]) -> tuple[np.ndarray, float]:
    """Whether both passages are among the first so many, shape (questions, len(AMONG)), and milliseconds a query."""
    both, seconds = [], []
    for question in asked:
        search(question.text, k=AMONG[-1])
        started = time.perf_counter()
        hits = search(question.text, k=AMONG[-1])
        seconds.append(time.perf_counter() - started)
        ids = [hit.item.id for hit in hits]
        both.append([question.passages <= set(ids[:count]) for count in AMONG])
    return np.array(both, dtype=float), 1000 * statistics.median(seconds)


def print_part(name: str, dense: np.ndarray, graph: np.ndarray) -> None:
    cells = []
    for column in range(len(AMONG)):
        low, high = interval(graph[:, column] - dense[:, column])
        cells.append(
            f"{dense[:, column].mean():.3f} {graph[:, column].mean():.3f}"
            f" {(graph - dense)[:, column].mean():+.3f} [{low:+.3f}, {high:+.3f}]"
        )
    print(f"{name:16} {len(dense):4}   " + "   ".join(cells), flush=True)


def measure(encoder: Encoder, asked: Sequence[Question]) -> None:
    started = time.perf_counter()
    graph = GraphMemory(encoder=encoder, settings=Settings(coarse=False, fine=False))
    graph.add(corpus())
    taken = time.perf_counter() - started
    dense, dense_ms = found(graph.memory.search, asked)
    walked, walk_ms = found(graph.search, asked)
    none = sum(not graph.search(question.text, k=1).entities for question in asked)
    counts = ", ".join(f"{count} {what}" for what, count in graph.counts().items())
    print(f"\n{encoder.name}: {counts}; built in {taken:.2f} s")
    print(
        f"a query: dense {dense_ms:.2f} ms, graph {walk_ms:.2f} ms; {none} questions name nothing that the graph knows"
    )
    head = "   ".join(f"{f'first {count}: dense, graph, difference':38}" for count in AMONG)
    print(f"{'both found among':21}   {head}")
    print_part("questions", dense, walked)
    for name, first in (("even, looked at", 0), ("odd, unseen", 1)):
        print_part(name, dense[first::2], walked[first::2])
    graph.close()


def main() -> None:
    asked = questions()
    print(f"{len(asked)} questions, {len(corpus())} passages")
    measure(default_encoder(), asked)


if __name__ == "__main__":
    main()
