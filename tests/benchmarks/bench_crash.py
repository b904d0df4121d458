"""Processes killed in the midst of changing a memory's file, and what each left.

Each file is killed at five times in a row, at random moments while batches are added, preferences change, items are
forgotten and the file is written anew; every fourth file has a byte budget. After each kill the file has to open, to
pass `verify`, to hold what was acknowledged, and to hold what was under way whole or not at all.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import script_options
from crashing import Kill, killed, killers

ON_ONE_FILE = 5
BUDGET = 150_000


def kills(folder: Path, seeds: range, count: int) -> list[Kill]:
    """So many kills, on files of their own."""
    done: list[Kill] = []
    with killers() as workers:
        for seed in seeds:
            budget = BUDGET if seed % 4 == 3 else None
            wanted = min(ON_ONE_FILE, count - len(done))
            if wanted <= 0:
                break
            done += killed(workers, folder / f"{seed}.epic", seed=seed, kills=wanted, budget=budget)
    return done


def main() -> None:
    options = script_options(__doc__, kills=200, seed=0, folder=Path)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, ThreadPoolExecutor(2) as pool:
        half = (options.kills + 1) // 2
        first = 4 * options.seed
        parts = [
            pool.submit(kills, Path(folder), range(first, 10**9, 2), half),
            pool.submit(kills, Path(folder), range(first + 1, 10**9, 2), options.kills - half),
        ]
        done = [kill for part in parts for kill in part.result()]
    for kill in done:
        if kill.failure:
            print(kill.seed, kill.during, kill.failure)
    during = Counter(kill.during for kill in done)
    preferences = sum(during[kind] for kind in ("prefer", "drop", "replace"))
    print(
        f"{len(done)} kills in {time.perf_counter() - began:.0f} s: {during['add']} during add, {preferences} during a"
        f" preference change, {during['compact']} during compaction, {during['forget']} during forget, {during['open']}"
        f" during opening; {sum(kill.journal for kill in done)} left a journal;"
        f" {sum(kill.acknowledged for kill in done)} changes were acknowledged;"
        f" {sum(bool(kill.failure) for kill in done)} failures"
    )


if __name__ == "__main__":
    main()
