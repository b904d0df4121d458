"""Pool of memories: searches hot, cold and under Zipf traffic, RAM at 500 open memories and after closing them.

    python tests/benchmarks/bench_pool.py ../shared/data --users 10000 --folder /var/tmp/pool

Each user has some of the preferences and of the texts of the data folder, a file of some tens of kilobytes. `--folder`
is kept, and used again. Times are of the clock, and of the processor, which another process's load does not change
much. `tests/robustness/test_pool_crash.py` has the writers that are killed.
"""

from __future__ import annotations

import gc
import random
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from common import (
    clock_and_cpu,
    passage_texts,
    preferences_in,
    print_load,
    print_percentiles,
    script_options,
    seconds_of,
)
from epic_memory import EpicMemory, Settings
from epic_memory.encoders import encoder_of
from epic_scale import MemoryPool
from epic_scale.opened import give_back, resident_bytes

PREFERENCES, TEXTS, OPEN = 3, 30, 500


def make(pool: MemoryPool, users: Iterable[int], preferences: list[str], texts: list[str]) -> None:
    """Make the files of users that have none."""
    encoder = encoder_of("static")
    for user in users:
        if pool.has(f"user {user}"):
            continue
        chance = random.Random(user)
        settings = Settings(namespace=f"user {user}", reserve=60_000)
        with EpicMemory(chance.sample(preferences, PREFERENCES), encoder=encoder, settings=settings) as memory:
            memory.add(chance.sample(texts, TEXTS))
            pool.put(memory)


def main() -> None:
    options = script_options(__doc__, data=True, users=1_000, folder="", searches=500, gc=False)
    if options.gc:
        gc.set_threshold(50_000, 50, 50)
    preferences = preferences_in(options.data)
    texts = passage_texts(options.data)
    folder = options.folder or tempfile.mkdtemp()
    chance = random.Random(1)
    print_load()
    with MemoryPool(folder, encoder="static", max_open=OPEN) as pool:
        taken = seconds_of(lambda: make(pool, range(options.users), preferences, texts))
        print(f"made {options.users} files in {taken:.0f} s")
        sizes = [file.stat().st_size for file in Path(folder).rglob("*.epic")]
        print(f"{len(sizes)} files, {np.mean(sizes) / 1e3:.0f} KB each")

        def search(user: int) -> None:
            with pool.get(f"user {user}", read_only=True) as memory:
                memory.search("What should I do on a free evening?")

        def timed(name: str, users: Iterable[int]) -> None:
            print_percentiles(name, [clock_and_cpu(lambda user=user: search(user)) for user in users])

        search(0)
        give_back()
        base = resident_bytes()
        cold = chance.sample(range(options.users), min(options.searches, options.users))
        timed("cold: opened, then searched", cold)
        give_back()
        held = pool.health()
        print(f"RAM with {held.open} open: {held.rss / 1e6:.0f} MB, of which {base / 1e6:.0f} MB before")
        timed("hot: open already", chance.choices(cold[-held.open :], k=options.searches))
        zipf = np.random.default_rng(1).zipf(1.2, 4 * options.searches) % options.users
        timed("Zipf traffic (1.2)", zipf.tolist())
        print(f"of these, opened: {pool.health().opened - held.opened} of {len(zipf)}")
        pool.close_idle(0)
        print(f"RAM after closing all: {resident_bytes() / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
