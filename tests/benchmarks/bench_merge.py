"""Histories of three devices that share a memory, by chance: merges in every order are compared, and repeated.

    python tests/benchmarks/bench_merge.py [--histories 100000] [--files 200] [--seed 1]

Needs no data. Most are on the states that merges join, the others on files. A difference ends it with an error.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from common import script_options
from devices import DEEDS, Step, check_files, check_states


def history(chance: random.Random, most: int) -> list[Step]:
    """Return a history of up to `most` steps."""
    steps = range(chance.randrange(most + 1))
    return [(chance.randrange(3), chance.choice(DEEDS), chance.randrange(4), chance.randrange(2)) for _ in steps]


def main() -> None:
    given = script_options(__doc__, histories=100_000, files=200, seed=1)
    chance = random.Random(given.seed)
    for _ in range(given.histories):
        check_states(history(chance, 4), history(chance, 16))
    for _ in range(given.files):
        with tempfile.TemporaryDirectory() as folder:
            check_files(Path(folder), history(chance, 4), history(chance, 8))
    print(f"{given.histories:,} histories on states and {given.files:,} on files: no difference")


if __name__ == "__main__":
    main()
