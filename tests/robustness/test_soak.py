"""A memory under random calls from several threads and processes for some time; `EPIC_SOAK_SECONDS` says how long."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

import pytest

from soaking import BUDGET, HELD_TOPICS, OTHER_TOPIC, opened, soaked

SECONDS = float(os.environ.get("EPIC_SOAK_SECONDS", "20"))
PROCESSES = 2
# What one process may grow by after it has warmed up.
_MEGABYTES = 20.0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from /proc")
def test_nothing_acknowledged_is_lost_and_memory_does_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    opened(path).close()
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        accounts = pool.starmap(soaked, [(path, seed, SECONDS) for seed in range(PROCESSES)])

    failures = [failure for account in accounts for failure in account.failures]
    assert not failures, failures[:3]
    assert path.stat().st_size <= BUDGET
    with opened(path) as memory:
        memory.file.verify()
        held = {item.id for item in memory.items()}
        assert {text for text in map(str, memory.preferences) if OTHER_TOPIC not in text} == set(HELD_TOPICS)
    kept = set().union(*(account.kept for account in accounts))
    forgotten = set().union(*(account.forgotten for account in accounts))
    evicted = sum(account.evicted for account in accounts)
    lost = kept - forgotten - held
    print(f"{len(kept)} kept, {len(held)} held, {len(forgotten)} forgotten, {len(lost)} gone, {evicted} evicted")
    print([(dict(account.calls), account.megabytes) for account in accounts])
    assert held <= kept - forgotten
    # Each had one entry. Some of those that were evicted were forgotten later.
    assert 0 < len(lost) <= evicted <= len(lost) + len(forgotten)
    for account in accounts:
        warm, end = account.megabytes
        assert end - warm < _MEGABYTES, account.megabytes
