"""Files and functions of the project that one call crosses, by tracing it: an item from `add` to the file, a query.

    python tests/benchmarks/bench_hops.py

Needs no data. A reader who follows a call has to open these files.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import epic_core
from epic_core import EpicMemory

ROOT = Path(epic_core.__file__).parent
PREFERENCES = ["I avoid hotels with on-site casinos.", "I prefer trains over flights.", "I follow a vegan diet."]
TEXT = "The Bellmore is a quiet hotel off the Strip in Las Vegas, without a casino and with a garden pool."
QUERY = "Where should I stay in Las Vegas?"


def traced(call: Callable[[], object]) -> tuple[Counter[str], int]:
    """Return how often each file was entered, and how many functions were."""
    files: Counter[str] = Counter()
    functions: set[tuple[str, str]] = set()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT)):
            file = Path(name).relative_to(ROOT).as_posix()
            files[file] += 1
            functions.add((file, frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files, len(functions)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, EpicMemory.open(Path(folder) / "me.epic", PREFERENCES) as memory:
        memory.add(["The Golden Ace is a Las Vegas hotel with a casino floor that never closes."])
        memory.search(QUERY)
        for name, call in (("add", lambda: memory.add([TEXT])), ("search", lambda: memory.search(QUERY))):
            files, functions = traced(call)
            rooms = {file.split("/")[0] for file in files}
            print(f"{name}: {len(files)} files, {functions} functions, {sum(files.values())} calls, {len(rooms)} rooms")
            for file, count in sorted(files.items()):
                print(f"  {file:40}{count:>7}")


if __name__ == "__main__":
    main()
