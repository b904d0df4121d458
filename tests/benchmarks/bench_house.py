"""Sizes of the project: lines of packages, tests and benchmarks, public members, parameters, words of the docs.

    python tests/benchmarks/bench_house.py [--check]

Needs no data. What has an allowance is printed with it, and `--check` ends with code 1 if one is passed.
`bench_hops.py` has the files, functions and statements that a call crosses.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from epic_memory import EpicMemory

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "epic_memory",
    "epic_learn",
    "epic_graph",
    "epic_rerank",
    "epic_plugins",
    "epic_apps",
    "epic_eval",
    "epic_scale",
)
PLUGINS = ("epic_langchain", "epic_llamaindex")
ALLOWED = {
    "lines of epic_memory": 20_890,
    "lines of epic_scale": 2_870,
    "lines of all packages": 58_600,
    "lines of tests": 44_630,
    "lines of benchmarks": 6_055,
    "public members of EpicMemory": 30,
    "most parameters of a method": 6,
    "words of the docs": 21_705,
}
"""The most that each may have: lowered with every change that makes the project smaller; raised for a new feature."""


def lines(folder: Path) -> int:
    """Count the lines of a folder's modules."""
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in folder.rglob("*.py"))


def parameters(kind: type) -> Iterator[int]:
    """Count the parameters of each public method, and of the constructor."""
    for name, member in inspect.getmembers(kind, callable):
        if name == "__init__" or not name.startswith("_"):
            given = inspect.signature(member).parameters
            yield sum(not one.startswith("_") and one != "self" for one in given)


def measured() -> Iterator[tuple[str, int]]:
    """Return each figure with its name."""
    sizes = {name: lines(ROOT / "shared" / name) for name in PACKAGES}
    sizes |= {name: lines(ROOT / name) for name in PLUGINS}
    yield from ((f"lines of {name}", size) for name, size in sizes.items())
    yield "lines of all packages", sum(sizes.values())
    benchmarks = lines(ROOT / "tests" / "benchmarks")
    yield "lines of tests", lines(ROOT / "tests") - benchmarks
    yield "lines of benchmarks", benchmarks
    yield "public members of EpicMemory", sum(not name.startswith("_") for name in dir(EpicMemory))
    yield "most parameters of a method", max(parameters(EpicMemory))
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    yield "words of the docs", sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="end with code 1 if an allowance is passed")
    check = parser.parse_args().check
    passed = []
    for name, figure in measured():
        most = ALLOWED.get(name)
        print(f"{name:32}{figure:>8,}" + ("" if most is None else f"  of {most:,}"))
        if most is not None and figure > most:
            passed.append(name)
    if check and passed:
        sys.exit("More than is allowed: " + ", ".join(passed))


if __name__ == "__main__":
    main()
