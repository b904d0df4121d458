"""Cost of a locked file beside one that is not: opening, searching, adding, bytes.

    python tests/benchmarks/bench_locked.py [--items 2000] [--rounds 7]

Needs no data, and the extra "encryption". Times are the processor's, the least of the rounds; the key is derived apart.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import script_options
from epic_memory import EpicMemory, Item, Settings
from epic_memory.storage.sqlite.locking import Key

THINGS = "hotel casino train flight garden vegan stew steak pool lift museum market river bridge opera café".split()  # noqa: SIM905
PREFERENCES = ["I avoid hotels with casinos.", "I prefer trains over flights.", "I follow a strict vegan diet."]


def least(rounds: int, what: Callable[[], object]) -> float:
    """Return the least milliseconds of some rounds."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        what()
        times.append(1000 * (time.process_time() - started))
    return min(times)


def measured(path: Path, key: str | None, items: int, rounds: int) -> dict[str, float]:
    """Return the figures of a file, locked or not."""
    chance, known = random.Random(1), Settings(key=key)
    texts = [[*chance.choices(THINGS, k=30), *(f"w{chance.random():.6f}" for _ in range(40))] for _ in range(items)]
    made = [Item(id=f"note-{number}", text=f"A note: {' '.join(words)}.") for number, words in enumerate(texts)]
    queries = [f"Which {thing} is near the {other}?" for thing in THINGS for other in THINGS]
    with EpicMemory.open(path, PREFERENCES, settings=known) as memory:
        adding = least(1, lambda: memory.add(made)) / items
        memory.search(queries[0])
        searching = least(rounds, lambda: [memory.search(query) for query in queries]) / len(queries)
    opening = least(rounds, lambda: EpicMemory.open(path, settings=known).close())
    derived = 0.0 if key is None else least(rounds, lambda: Key(key).raw(path.read_bytes()[:16]))
    figures = {"open, ms": opening, "the key, ms": derived, "search, ms": searching, "add, ms an item": adding}
    return {**figures, "bytes, MB": path.stat().st_size / 1e6}


def main() -> None:
    given = script_options(__doc__, items=2_000, rounds=7)
    with tempfile.TemporaryDirectory() as folder:
        plain = measured(Path(folder) / "plain.epic", None, given.items, given.rounds)
        locked = measured(Path(folder) / "locked.epic", "correct horse battery", given.items, given.rounds)
    print(f"{given.items:,} items{'':9}not locked    locked   times")
    for name, figure in plain.items():
        print(f"{name:20}{figure:>10.2f}{locked[name]:>10.2f}" + (f"{locked[name] / figure:>8.2f}" if figure else ""))


if __name__ == "__main__":
    main()
