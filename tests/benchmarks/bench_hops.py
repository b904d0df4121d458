"""What one call crosses, by tracing it: files and functions of the project, hops between files, SQL statements.

    python tests/benchmarks/bench_hops.py [--list]

Needs no data. The calls are a warm `search` and the `add` of a text that is kept, of a memory with the default settings
in a file. A reader who follows a call has to open these files; those on the way (*) are the memory, its pipeline, its
store and what runs them. A hop is a call from one file into another. A comprehension is no function. What triggers do
is part of the statement that sets them off. --list names every function and statement.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import epic_memory
from epic_memory import EpicMemory

ROOT = Path(epic_memory.__file__).parents[1]
PREFERENCES = ["I avoid hotels with on-site casinos.", "I prefer trains over flights.", "I follow a vegan diet."]
TEXT = "The Bellmore is a quiet hotel off the Strip in Las Vegas, without a casino and with a garden pool."
WAY = ("memory.py", "pipeline", "runtime", "storage")
QUERY = "Where should I stay in Las Vegas?"


@dataclass
class Trace:
    """What a call crossed.

    Attributes:
        functions: How often each function was entered, by file and name.
        hops: Calls from one file into another.
        statements: The SQL statements, in order.
    """

    functions: Counter[tuple[str, str]] = field(default_factory=Counter)
    hops: int = 0
    statements: list[str] = field(default_factory=list)

    @property
    def files(self) -> Counter[str]:
        """How often each file was entered."""
        files: Counter[str] = Counter()
        for (file, _), count in self.functions.items():
            files[file] += count
        return files

    def line(self) -> str:
        """The counts."""
        named = [name for _, name in self.functions if not name.endswith(("comp>", "<genexpr>"))]
        statements = [one for one, _ in groupby(self.statements)]
        begun = sum(one.startswith("BEGIN IMMEDIATE") for one in statements)
        return (
            f"{len(self.files)} files, {len(named)} functions ({len(self.functions)} with comprehensions), {self.hops}"
            f" hops, {len(statements)} statements, {begun} write transactions"
        )


def traced(memory: EpicMemory, call: Callable[[], object]) -> Trace:
    """Trace a call."""
    trace = Trace()
    known: dict[str, str | None] = {}

    def file_of(frame: FrameType | None) -> str | None:
        if frame is None:
            return None
        name = frame.f_code.co_filename
        if name not in known:
            ours = name.startswith(str(ROOT / "epic_"))
            known[name] = Path(name).relative_to(ROOT).as_posix().removeprefix("epic_memory/") if ours else None
        return known[name]

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (file := file_of(frame)) is not None:
            trace.functions[file, getattr(frame.f_code, "co_qualname", frame.f_code.co_name)] += 1
            trace.hops += file_of(frame.f_back) not in (file, None)

    connection = memory._session.store.connection
    connection.set_trace_callback(trace.statements.append)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        connection.set_trace_callback(None)
    return trace


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--list", action="store_true", help="name every function and statement")
    listed = made.parse_args().list
    with tempfile.TemporaryDirectory() as folder, EpicMemory.open(Path(folder) / "me.epic", PREFERENCES) as memory:
        memory.add(["The Golden Ace is a Las Vegas hotel with a casino floor that never closes."])
        memory.search(QUERY)
        memory.search(QUERY)
        for name, call in (("search", lambda: memory.search(QUERY)), ("add", lambda: memory.add([TEXT]))):
            trace = traced(memory, call)
            way = [file for file in trace.files if file.split("/")[0] in WAY]
            print(f"{name}: {trace.line()}; {len(way)} files on the way")
            for file, count in sorted(trace.files.items()):
                print(f"  {'*' if file in way else ' '} {file:40}{count:>7}")
                if listed:
                    print("\n".join(f"        {n:>5} {one}" for (f, one), n in trace.functions.items() if f == file))
            if listed:
                print("\n".join(f"    {' '.join(statement.split())[:160]}" for statement in trace.statements))


if __name__ == "__main__":
    main()
