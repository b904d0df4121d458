"""Sizes of the light install: our packages and their tables, and what they need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_OURS = "memory learn graph rerank plugins apps eval scale langchain llamaindex"
_TABLE = 100_000
_EXTRA = re.compile(r"\bextra\s*==")


class Size(NamedTuple):
    """Bytes of the files of a part; `kind` is "ours" or "needed"."""

    part: str
    bytes: int
    kind: str


def sizes() -> list[Size]:
    """Return the size of each part of the light install, by kind, the largest first."""
    found = [Size(part, size, "ours") for name in _OURS.split() for part, size in _own(f"epic_{name}")]
    for name, one in _required("epic-memory").items():
        found.append(Size(name, sum(_weight(Path(str(file.locate()))) for file in one.files or ()), "needed"))
    return sorted(found, key=lambda one: (one.kind != "ours", -one.bytes))


def _required(name: str) -> dict[str, metadata.Distribution]:
    """Return what a distribution needs and is installed, by name, without what its extras need."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        each = waiting.pop()
        try:
            one = found[each] = metadata.distribution(each)
        except metadata.PackageNotFoundError:
            continue  # for another system or Python
        lines = [line for line in one.requires or () if not _EXTRA.search(line)]
        names = (re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", line, maxsplit=1)[0]).lower() for line in lines)
        waiting += [wanted for wanted in names if wanted not in found]
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
