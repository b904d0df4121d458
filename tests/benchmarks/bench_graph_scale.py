"""A graph of 100,000 passages and more than a million edges: what a query and a change cost.

Passages mention eight to twelve entities, as rare and as common as words are (Zipf); some facts. Where a
machine is shared, processor time says more than the clock.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from epic_graph.pagerank import Network

WEIGHT_OF_PASSAGES = 0.05
# As in the other files of this kind: goals beside what is measured.
QUERY, ADD = 150e-3, 20e-3


class Parts(NamedTuple):
    """A made-up graph, as `Network.of` takes it."""

    starts: np.ndarray
    entities: np.ndarray
    fact_starts: np.ndarray
    facts: np.ndarray
    names: int

    @property
    def passages(self) -> int:
        return len(self.starts) - 1

    def network(self) -> Network:
        made = Network()
        rows = np.repeat(np.arange(self.passages), np.diff(self.starts))
        owners = np.repeat(np.arange(self.passages), np.diff(self.fact_starts))
        made.add(
            np.arange(self.passages),
            np.stack([rows, self.entities], axis=1),
            np.column_stack([owners, self.facts]),
        )
        return made


def made(passages: int, names: int, facts: int, seed: int = 0) -> Parts:
    """Passages that mention entities drawn by Zipf's law, and facts between two of them."""
    generator = np.random.default_rng(seed)
    shares = np.cumsum(1.0 / (np.arange(names) + 3.0))
    rows = np.repeat(np.arange(passages), generator.integers(8, 13, passages))
    drawn = np.minimum(np.searchsorted(shares / shares[-1], generator.random(len(rows))), names - 1)
    keys = np.unique(rows * names + generator.permutation(names)[drawn])
    rows, entities = np.divmod(keys, names)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=passages))])
    owner = np.repeat(np.arange(passages), facts)
    width = np.diff(starts)[owner]
    said = np.stack(
        [entities[starts[owner] + (generator.random(len(owner)) * width).astype(int)] for _ in "ab"], axis=1
    )
    return Parts(
        starts,
        entities,
        np.arange(passages + 1) * facts,
        said,
        names,
    )


def seeds(parts: Parts, number: int) -> tuple[dict[int, float], dict[int, float]]:
    """A few entities, and fifty passages a little, as a search has it."""
    generator = np.random.default_rng(number)
    found = {int(entity): 1.0 for entity in generator.choice(parts.entities, 5)}
    near = generator.choice(parts.passages, 50, replace=False).tolist()
    return found, dict(zip(near, (WEIGHT_OF_PASSAGES * generator.random(50)).tolist(), strict=True))


def timed(action: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - clock, time.process_time() - processor


def shown(what: str, taken: list[tuple[float, float]], goal: float | None = None) -> None:
    """A line of a table: medians and the least by the clock and of the processor, and the goal."""
    clock, processor = ([1e3 * pair[side] for pair in taken] for side in (0, 1))
    said = "" if goal is None else f"   (at most {1e3 * goal:.0f} ms)"
    print(
        f"{what:42} clock: median {statistics.median(clock):8.2f} ms, least {min(clock):8.2f};"
        f" processor: median {statistics.median(processor):8.2f} ms, least {min(processor):8.2f}{said}"
    )


def changed(parts: Parts, network: Network, runs: int) -> None:
    """Queries, then passages added and removed, and queries again."""
    generator = np.random.default_rng(1)
    shown("query", [timed(lambda n=n: network.pagerank(*seeds(parts, n))) for n in range(runs)], QUERY)
    few = {7: 1.0, 8: 0.5}
    shown("query, few seeds", [timed(lambda: network.pagerank(few, few)) for _ in range(runs)], QUERY)
    both = [threading.Thread(target=network.pagerank, args=seeds(parts, n)) for n in range(2)]
    shown("two queries in two threads", [timed(lambda: [*(t.start() for t in both), *(t.join() for t in both)])])

    def add(passage: int, mentioned: list[int]) -> None:
        facts = [(passage, mentioned[0], mentioned[1]), (passage, mentioned[2], mentioned[-1])]
        network.add(np.array([passage]), np.array([(passage, entity) for entity in mentioned]), np.array(facts))

    def grow(number: int) -> None:
        mentioned = [*generator.choice(parts.entities, 9).tolist(), parts.names + number]
        add(parts.passages + number, mentioned)

    shown("add a passage", [timed(lambda n=n: grow(n)) for n in range(100)], ADD)
    shown(
        "query after 100 were added",
        [timed(lambda n=n: network.pagerank(*seeds(parts, n))) for n in range(runs)],
        QUERY,
    )
    removed = generator.permutation(parts.passages)[:200].tolist()
    shown("replace a passage", [timed(lambda p=p: add(p, [1, 2, 3])) for p in removed[:100]], ADD)
    shown("remove a passage", [timed(lambda p=p: network.remove(np.array([p]))) for p in removed[100:]], ADD)
    shown(
        "query after 100 were removed",
        [timed(lambda n=n: network.pagerank(*seeds(parts, n))) for n in range(runs)],
        QUERY,
    )


def main() -> None:
    made_parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made_parser.add_argument("data", nargs="?", help="not read: everything here is made up")
    made_parser.add_argument("--passages", type=int, default=100_000)
    made_parser.add_argument("--facts", type=int, default=3, help="facts of a passage")
    made_parser.add_argument("--runs", type=int, default=10)
    options = made_parser.parse_args()
    parts = made(options.passages, 3 * options.passages // 2, options.facts)
    shown("load", [timed(parts.network) for _ in range(3)])
    network = parts.network()
    held = sum(column.nbytes for column in vars(network).values())
    print(f"{parts.passages} passages, {parts.names} entities, {network.edges} edges, {held / 1e6:.1f} MB held")
    print()
    changed(parts, network, options.runs)
    small = made(50, 120, 3)
    little = small.network()
    shown("query, 50 passages", [timed(lambda n=n: little.pagerank(*seeds(small, n))) for n in range(200)])


if __name__ == "__main__":
    main()
