"""Patterns made of lists of phrases."""

from __future__ import annotations

import re


def phrases(text: str) -> re.Pattern[str]:
    r"""Return a pattern for any of the lines, as whole words; eight spaces more carry a line on."""
    lines = [line.strip() for line in re.sub(r"\n {8}", "", text.strip()).splitlines()]
    return re.compile(rf"(?<![\w'-])(?:{'|'.join(lines)})(?![\w'])", re.I)


def anywhere(text: str) -> re.Pattern[str]:
    """Return a pattern for any of the lines, within words too; eight spaces more carry a line on."""
    lines = [line.strip() for line in re.sub(r"\n {8}", "", text.strip()).splitlines()]
    return re.compile("|".join(lines), re.I)
