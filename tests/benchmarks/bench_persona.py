"""One PrefWiki persona over the Wikipedia passages and the assistant answers: what is kept, and how big it is."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from common import personas, script_options, sources
from epic_memory import EpicMemory, Settings


def main() -> None:
    options = script_options(__doc__, data=True, persona=0, limit=50)
    preferences = [preference for preference, _ in personas(options.data, "PrefWiki")[options.persona]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "persona.epic"
        started = time.perf_counter()
        with EpicMemory.open(path, preferences) as memory:
            report = memory.add(sources(options.data))
            print(report)
            print(f"whole run {time.perf_counter() - started:.2f} s")
            print(memory.stats())
        print(f"\nfile after close: {path.stat().st_size} bytes for {report.entries} entries")
        _small_state(Path(folder) / "small.epic", preferences, options)


def _small_state(path: Path, preferences: list[str], options: argparse.Namespace) -> None:
    # What was kept for the persona by itself: the light tier would fill the file up to its reserve.
    with EpicMemory.open(path, preferences, settings=Settings(reserve=0)) as memory:
        for item in sources(options.data):
            if memory.stats().counts["entries"] >= options.limit:
                break
            memory.add(item)
        entries = memory.stats().counts["entries"]
        items = len(memory)
        print(memory.stats())
    print(
        f"state of {items} items, {entries} entries: {path.stat().st_size / 1e6:.4f} MB (at most 0.20; the paper: 0.27)"
    )


if __name__ == "__main__":
    main()
