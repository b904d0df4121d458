"""A graph of 100,000 passages and more than a million edges: what a query costs.

Passages mention eight to twelve entities, as rare and as common as words are (Zipf); some facts. Where a
machine is shared, processor time says more than the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from common import clock_and_cpu, script_options
from epic_graph.pagerank import Network

WEIGHT_OF_PASSAGES = 0.05


def mentions(passages: int, names: int, generator: np.random.Generator) -> np.ndarray:
    """Rows of a passage and an entity that it mentions, drawn by Zipf's law."""
    shares = np.cumsum(1.0 / (np.arange(names) + 3.0))
    rows = np.repeat(np.arange(passages), generator.integers(8, 13, passages))
    drawn = np.minimum(np.searchsorted(shares / shares[-1], generator.random(len(rows))), names - 1)
    keys = np.unique(rows * names + generator.permutation(names)[drawn])
    return np.stack(np.divmod(keys, names), axis=1)


def facts(mentioned: np.ndarray, passages: int, each: int, generator: np.random.Generator) -> np.ndarray:
    """Rows of a passage and two of the entities that it mentions."""
    starts = np.searchsorted(mentioned[:, 0], np.arange(passages + 1))
    owner = np.repeat(np.arange(passages), each)
    width = np.diff(starts)[owner]
    sides = [mentioned[starts[owner] + (generator.random(len(owner)) * width).astype(int), 1] for _ in range(2)]
    return np.column_stack([owner, *sides])


def shown(what: str, runs: int, action: Callable[[int], Any]) -> None:
    """Print medians and the least of an action's milliseconds, by the clock and of the processor."""
    taken = 1e3 * np.array([clock_and_cpu(lambda n=n: action(n)) for n in range(runs)])
    (clock, processor), (clock_least, least) = np.median(taken, axis=0), taken.min(axis=0)
    print(
        f"{what:30} clock: median {clock:8.2f} ms, least {clock_least:8.2f};"
        f" processor: median {processor:8.2f} ms, least {least:8.2f}"
    )


def main() -> None:
    options = script_options(__doc__, passages=100_000, facts=3, runs=10)
    count, names, generator = options.passages, 3 * options.passages // 2, np.random.default_rng(0)
    mentioned = mentions(count, names, generator)
    network, said = Network(), facts(mentioned, count, options.facts, generator)
    shown("load", 1, lambda _: network.add(np.arange(count), mentioned, said))
    held = sum(column.nbytes for column in vars(network).values())
    print(f"{count} passages, {names} entities, {network.edges} edges, {held / 1e6:.1f} MB held")

    def query(number: int) -> None:
        """Walk from a few entities, and from fifty passages a little, as a search does."""
        draw = np.random.default_rng(number)
        found = {int(entity): 1.0 for entity in draw.choice(mentioned[:, 1], 5)}
        near = draw.choice(count, 50, replace=False).tolist()
        network.pagerank(found, dict(zip(near, (WEIGHT_OF_PASSAGES * draw.random(50)).tolist(), strict=True)))

    shown("query", options.runs, query)


if __name__ == "__main__":
    main()
