"""Sizes of what is installed: our packages and their tables, what they need, and what is there for the extras."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_OURS = "memory learn graph rerank plugins apps eval scale langchain llamaindex"
_TABLE = 100_000
# What a line of requirements says of an extra, and of one that only who works on this project has.
_EXTRA = re.compile(r"\bextra\s*==")
_DEVELOPMENT = re.compile(r"\bextra\s*==\s*['\"](?:bench|ci|dev|docs|lint)['\"]")


class Size(NamedTuple):
    """Bytes of the files of a part; `kind` is "ours" or "needed", which are the light install, or "extra"."""

    part: str
    bytes: int
    kind: str


def sizes() -> list[Size]:
    """Return the size of each part that is installed, by kind, the largest first."""
    found = [Size(part, size, "ours") for name in _OURS.split() for part, size in _own(f"epic_{name}")]
    needed = _required("epic-memory")
    for name, one in {**needed, **_required("epic-memory", extras=True)}.items():
        weight = sum(map(_weight, (Path(str(file.locate())) for file in one.files or ())))
        found.append(Size(name, weight, "needed" if name in needed else "extra"))
    kinds = ("ours", "needed", "extra")
    return sorted(found, key=lambda one: (kinds.index(one.kind), -one.bytes))


def _required(name: str, *, extras: bool = False) -> dict[str, metadata.Distribution]:
    """Return what a distribution needs and is installed, by name; on request also what its extras need."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [(name, extras)]
    while waiting:
        each, extras = waiting.pop()
        try:
            one = found[each] = metadata.distribution(each)
        except metadata.PackageNotFoundError:
            continue  # for another system or Python, or an extra that is not installed
        left_out = _DEVELOPMENT if extras else _EXTRA
        lines = [line for line in one.requires or () if not left_out.search(line)]
        names = (re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", line, maxsplit=1)[0]).lower() for line in lines)
        waiting += [(wanted, False) for wanted in names if wanted not in found]
    found.pop(name, None)  # a clone need not be installed
    return found


def _own(package: str) -> Iterator[tuple[str, int]]:
    """Yield a package of ours and its large tables, wherever it lies: a clone lists no files."""
    spec = find_spec(package)
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent
        weights = {f"{package}/data/{each.name}": _weight(each) for each in folder.glob("data/*")}
        tables = {part: size for part, size in weights.items() if size >= _TABLE}
        yield from {package: _weight(folder) - sum(tables.values()), **tables}.items()


def _weight(path: Path) -> int:
    return sum(each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file())
