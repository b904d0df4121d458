"""Plan past this machine: a cost model fitted on runs here and tried on a larger one, and a million users' files.

    python tests/benchmarks/bench_plan.py ../shared/data

The model predicts a build for many people (`bench_scale_out.staged`) from the numbers of chunks and people. It is
fitted on small runs, and judged on one with ten times as many chunks and other people. The users' files: Zipf traffic
over a million users; those whose turn comes have a file of their own, the other names are hard links to files of the
same sizes. What is open before is what a long prefix of the traffic leaves open.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench_pool import make
from bench_scale_out import corpus, staged
from common import (
    clock_and_cpu,
    passage_texts,
    preferences_in,
    print_load,
    print_percentiles,
    script_options,
)
from epic_scale import MemoryPool, name_of
from epic_scale.opened import resident_bytes

FITTED = ((1_000, 20), (1_000, 100), (3_000, 50), (10_000, 20))
JUDGED = ((100_000, 10),)
PLANNED = ((10**6, 10**3), (10**7, 10**4), (10**8, 10**6))
EACH = 4
OPEN, LINKED = 500, 300

# What each figure of a run depends on, each with a coefficient that is at least zero.
DEPENDS = {
    "pairs": ("chunks x preferences",),
    "entries": ("pairs",),
    "people": ("preferences",),
    "encode": ("chunks",),
    "filter": ("products", "pairs"),
    "verify": ("pairs",),
    "write": ("users", "entries"),
    "bytes": ("users", "entries"),
}
SECONDS = ("people", "encode", "filter", "verify", "write")
Figures = dict[str, float]


@dataclass(frozen=True)
class Model:
    """A cost model: for each figure of a run its coefficients."""

    coefficients: dict[str, tuple[float, ...]]

    @classmethod
    def fitted(cls, runs: Sequence[Figures]) -> Model:
        """Fit the figures of runs, so that relative errors count."""
        found = {}
        for name, causes in DEPENDS.items():
            wanted = np.array([run[name] for run in runs])
            given = np.array([[run[cause] for cause in causes] for run in runs])
            found[name] = _at_least_zero(given / wanted[:, None], np.ones(len(runs)))
        return cls(found)

    def predicted(self, chunks: float, users: float, preferences: float, vectors: float, dimension: int) -> Figures:
        """Return the figures of a run, of which only its size is known.

        Args:
            chunks, users: Their numbers.
            preferences: How many different ones there are.
            vectors: How many vectors a chunk is compared with: preferences, their phrases and questions.
            dimension: Of a vector.
        """
        run = sizes(chunks, users, preferences, vectors, dimension)
        for name, causes in DEPENDS.items():
            run[name] = sum(factor * run[cause] for factor, cause in zip(self.coefficients[name], causes, strict=True))
        return run | {"seconds": sum(run[part] for part in SECONDS)}


def sizes(chunks: float, users: float, preferences: float, vectors: float, dimension: int) -> Figures:
    """The size of a run: what its figures depend on."""
    return {
        "chunks": chunks,
        "users": users,
        "preferences": preferences,
        "chunks x preferences": chunks * users * EACH,
        "products": chunks * vectors * dimension,
    }


def _at_least_zero(given: np.ndarray, wanted: np.ndarray) -> tuple[float, ...]:
    """Return the least squares' coefficients, of which none is negative: a cause that would be is left out."""
    kept = list(range(given.shape[1]))
    while True:
        found = np.linalg.lstsq(given[:, kept], wanted, rcond=None)[0]
        if (found >= 0).all():
            return tuple(float(found[kept.index(n)]) if n in kept else 0.0 for n in range(given.shape[1]))
        kept.remove(kept[int(np.argmin(found))])


def measured(chunks: int, users: int, preferences: Sequence[str], texts: Sequence[str]) -> Figures:
    """The figures of a run here."""
    chance = random.Random(users)
    people = {f"user {n}": chance.sample(preferences, EACH) for n in range(users)}
    run = staged(people, corpus(texts, chunks))
    distinct = len({one for each in people.values() for one in each})
    run |= sizes(chunks, users, distinct, run["vectors"], int(run["dimension"]))
    return run | {"seconds": sum(run[part] for part in SECONDS)}


def plan(preferences: Sequence[str], texts: Sequence[str]) -> None:
    """Fit, judge, and print what is predicted past this machine."""
    runs = [measured(*size, preferences, texts) for size in FITTED]
    model = Model.fitted(runs)
    print(f"cost model, fitted on {len(runs)} runs of {FITTED[0][0]:,} to {FITTED[-1][0]:,} chunks; per unit:")
    for name, causes in DEPENDS.items():
        print(
            f"  {name:8}"
            + " + ".join(f"{c:.3g} x {of}" for c, of in zip(model.coefficients[name], causes, strict=True))
        )
    for size in JUDGED:
        run = measured(*size, preferences, texts)
        guess = model.predicted(*size, run["preferences"], run["vectors"], int(run["dimension"]))
        print(f"never seen in fitting, {size[0]:,} chunks x {size[1]} people: predicted, measured, error")
        for name in ("seconds", *DEPENDS):
            print(f"  {name:8}{guess[name]:14,.1f}{run[name]:14,.1f}{guess[name] / run[name] - 1:+8.0%}")
    each = np.mean([run["vectors"] / run["preferences"] for run in runs])
    print("predicted: chunks x people, processor hours (embed, filter, verify, write), pairs = calls of a model, kept")
    for chunks, users in PLANNED:
        # Of many users' preferences some are the same: as many as there are in the data folder, times ten.
        distinct = min(EACH * users, 10 * len(preferences))
        guess = model.predicted(chunks, users, distinct, each * distinct, int(runs[0]["dimension"]))
        parts = ", ".join(f"{guess[part] / 3600:,.3g}" for part in SECONDS[1:])
        print(
            f"  {chunks:>11,} x {users:<9,} {guess['seconds'] / 3600:12,.3g} h ({parts}); {guess['pairs']:,.3g} pairs;"
            f" {guess['bytes'] / 1e9:,.3g} GB, {guess['bytes'] / users / 1e6:,.3g} MB a person;"
            f" digests of judged chunks {8 * chunks / 1e6:,.3g} MB a worker"
        )


def traffic(users: int, count: int, exponent: float) -> list[int]:
    """Users in the order of their turns: the n-th most active has a share that falls as n to the minus `exponent`."""
    shares = np.arange(1, users + 1, dtype=np.float64) ** -exponent
    bounds = np.cumsum(shares / shares.sum())
    return np.searchsorted(bounds, np.random.default_rng(7).random(count)).clip(max=users - 1).tolist()


def left_open(turns: Iterable[int], most: int) -> tuple[list[int], float]:
    """Return what a pool that closes the least used has open in the end, and the last half's share of hits."""
    held: OrderedDict[int, None] = OrderedDict()
    hits = []
    for user in turns:
        hits.append(user in held)
        held[user] = None
        held.move_to_end(user)
        if len(held) > most:
            held.popitem(last=False)
    return list(held), float(np.mean(hits[len(hits) // 2 :]))


def million(options: argparse.Namespace, folder: Path, preferences: list[str], texts: list[str]) -> None:
    """Make the users' files, serve the last turns of the traffic, and print times, RAM and disk."""
    users, count = options.users, options.turns
    # The users are numbered as they come, as their files are named by a hash.
    ranks = traffic(users, 40 * OPEN + count, options.zipf)
    number = {rank: n for n, rank in enumerate(dict.fromkeys([*ranks[-count:], *left_open(ranks[:-count], OPEN)[0]]))}
    number |= {rank: n for n, rank in enumerate(dict.fromkeys(r for r in ranks if r not in number), len(number))}
    turns = [number[rank] for rank in ranks]
    before, share = left_open(turns[:-count], OPEN)
    last = turns[-count:]
    own = sorted({*before, *last})
    began = resident_bytes()
    with MemoryPool(folder, encoder="static", max_open=OPEN) as pool:
        make(pool, own, preferences, texts)
        files = [folder / f"{name_of(f'user {user}')}.epic" for user in own]
        blocks = np.mean([file.stat().st_blocks * 512 for file in files])
        for part in range(4096):
            (folder / f"{part:03x}").mkdir(exist_ok=True)
        sources = [str(file) for file in files[:LINKED]]
        for n in range(users):
            with suppress(FileExistsError):
                os.link(sources[n % len(sources)], f"{folder}/{name_of(f'user {n}')}.epic")
        names = sum(1 for _ in folder.glob("???/*.epic"))
        print(f"{names:,} files of {users:,} users, {len(own):,} of them of their own; Zipf {options.zipf}:")
        print(f"  disk {blocks / 1e3:.0f} KB each, {blocks * users / 1e9:.0f} GB for all; hits before {share:.0%}")

        def search(user: int) -> None:
            with pool.get(f"user {user}", read_only=True) as memory:
                memory.search("What should I do on a free evening?")

        for user in before:
            search(user)
        print(f"  RAM with {pool.health().open} open {pool.health().rss / 1e6:.0f} MB, before {began / 1e6:.0f} MB")
        spent: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for user in last:
            opened = pool.health().opened
            took = clock_and_cpu(lambda user=user: search(user))
            spent[pool.health().opened > opened].append(took)
        for name, some in (("opened and searched", spent[True]), ("open already", spent[False])):
            print_percentiles(f"  {name}", some)
        print(f"  RAM afterwards {pool.health().rss / 1e6:.0f} MB")


def main() -> None:
    options = script_options(
        __doc__, data=True, users=1000000, turns=600, zipf=1.1, only=("model", "files"), folder=str
    )
    preferences = preferences_in(options.data)
    texts = passage_texts(options.data)
    print_load()
    if options.only != "files":
        plan(preferences, texts)
    if options.only != "model":
        folder = Path(options.folder or tempfile.mkdtemp())
        try:
            million(options, folder, preferences, texts)
        finally:
            if not options.folder:
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
