"""Files and functions of the project that one call crosses, by tracing it: an item from `add` to the file, a query.

    python tests/benchmarks/bench_hops.py

Needs no data. A reader who follows a call has to open these files: those on the way, which are the memory, its
pipeline, its store and what runs them; those of the models and of texts, each behind a protocol or a function; and
types, which check themselves.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import epic_memory
from epic_memory import EpicMemory

ROOT = Path(epic_memory.__file__).parent
PREFERENCES = ["I avoid hotels with on-site casinos.", "I prefer trains over flights.", "I follow a vegan diet."]
TEXT = "The Bellmore is a quiet hotel off the Strip in Las Vegas, without a casino and with a garden pool."
WAY = ("memory.py", "pipeline", "runtime", "storage")
TYPES = ("types", "errors.py", "filters.py")
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
            rooms = {file: file.split("/")[0] for file in files}
            calls, many = sum(files.values()), len(set(rooms.values()))
            print(f"{name}: {len(files)} files, {functions} functions, {calls} calls, {many} rooms")
            way = [file for file in files if rooms[file] in WAY]
            types = [file for file in files if rooms[file] in TYPES]
            others = files.keys() - {*way, *types}
            for part, chosen in (("on the way", way), ("models and texts", others), ("types and checks", types)):
                print(f"  {part}: {len(chosen)} files")
                for file in sorted(chosen):
                    print(f"    {file:40}{files[file]:>7}")


if __name__ == "__main__":
    main()
