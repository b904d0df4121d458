"""Histories of three devices that share a memory, by chance: merges in every order are compared, and repeated.

    python tests/benchmarks/bench_merge.py [--histories 100000] [--files 200] [--seed 1]

Needs no data. Most are on the states that merges join, the others on files. A difference ends it with an error.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from devices import DEEDS, Step, check_files, check_states


def history(chance: random.Random, most: int) -> list[Step]:
    """Return a history of up to `most` steps."""
    steps = range(chance.randrange(most + 1))
    return [(chance.randrange(3), chance.choice(DEEDS), chance.randrange(4), chance.randrange(2)) for _ in steps]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, count in (("histories", 100_000), ("files", 200), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=count)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    for _ in range(given.histories):
        check_states(history(chance, 4), history(chance, 16))
    for _ in range(given.files):
        with tempfile.TemporaryDirectory() as folder:
            check_files(Path(folder), history(chance, 4), history(chance, 8))
    print(f"{given.histories:,} histories on states and {given.files:,} on files: no difference")


if __name__ == "__main__":
    main()
