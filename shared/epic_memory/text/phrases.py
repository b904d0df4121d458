"""Lists of words and phrases in the package's data."""

from __future__ import annotations

import re
from importlib.resources import files


def sections(name: str, package: str = "epic_memory") -> dict[str, list[str]]:
    """Return the lines of each section of a package's `data/words/NAME.txt`: of what follows a line `[section]`.

    Empty lines, and those that begin with a hash sign and a space, are left out.
    """
    text = (files(package) / "data" / "words" / f"{name}.txt").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            lines = found[heading[1]] = []
        elif line and not line.startswith("# "):
            lines.append(line)
    return found


def word_set(*lines: str) -> frozenset[str]:
    """Return the words of lines as a set."""
    return frozenset(word for line in lines for word in line.split())
