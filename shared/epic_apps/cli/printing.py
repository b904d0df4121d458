"""Output of the command line: text, tables and JSON, harmless to a terminal whatever a document holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

# Control characters, and those that change the direction or the line of what is shown.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
LONGEST = 2_000
"""Most characters of a text that are shown where the whole is not asked for."""


def visible(text: object) -> str:
    """Return text that may come from outside with a sign in place of control characters, which a terminal obeys."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text))


def plain(text: object, style: str = "", *, longest: int | None = None) -> Text:
    """Return text that may come from outside as it is, never read as markup; cut to a length, which it then says."""
    shown = visible(text)
    if longest is not None and len(shown) > longest:
        shown = f"{shown[:longest].rstrip()}… ({len(shown):,} characters)"
    return Text(shown, style)


def one_line(text: object, longest: int) -> Text:
    """Return the beginning of a text on one line."""
    # Cut first: what a page may hold must not be split into words for eighty characters of it.
    line = " ".join(str(text)[: 4 * longest].split())
    if len(line) <= longest:
        return plain(line)
    words, space, _ = line[:longest].rpartition(" ")
    return plain(f"{(words if space else line[: longest - 1]).rstrip('.,;:')}…")


class _Console(Console):
    """A console that leaves it to the command what happens when its reader has gone."""

    def on_broken_pipe(self) -> None:
        """Raise what was raised."""
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """Return a console over the stream as it is now: coloured on a terminal only, unless NO_COLOR is set."""
    made = _Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        # A line of a file or a pipe is never broken.
        made.width = 10_000
    return made


def show(*parts: RenderableType) -> None:
    """Print parts, each on lines of its own; a string may come from a document."""
    out = console()
    for part in parts:
        is_text = isinstance(part, (str, Text))
        out.print(plain(part) if isinstance(part, str) else part, soft_wrap=is_text and not out.is_terminal)


def show_json(value: Any) -> None:
    """Print dataclasses and what they hold as JSON, in ASCII."""
    from pydantic_core import to_jsonable_python

    print(json.dumps(to_jsonable_python(value, fallback=str), indent=2))


def warn(message: object, kind: str = "warning") -> None:
    """Print a message that is no part of the answer, on stderr."""
    out = console(stderr=True)
    out.print(Text.assemble((f"{kind}: ", "yellow"), plain(message)), soft_wrap=True)


def first(lines: Sequence[str], most: int = 20) -> list[str]:
    """Return the first of many lines, and how many more there are."""
    return [*lines[:most], *([f"{len(lines) - most} more"] if len(lines) > most else [])]


def fail(message: object) -> None:
    """Print why a command ended."""
    console(stderr=True).print(Text.assemble(("epic: ", "bold red"), plain(message)), soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table; a column whose name ends with ">" holds numbers."""
    made = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
        show_header=any(name.rstrip(">") for name in columns),
    )
    for place, name in enumerate(columns):
        right = name.endswith(">")
        made.add_column(
            name.rstrip(">"), justify="right" if right else "left", no_wrap=right or not place, overflow="fold"
        )
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else plain(cell) for cell in row))
    return made
