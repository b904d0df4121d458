"""JSON in a model's answer: found behind its thinking and around code fences, and repaired if it is not well-formed."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from epic_memory.errors import EpicError

_LONGEST_ANSWER = 40_000
_LONGEST_LINE = 600
# The time for repairing grows with the square of the length, and of the number of brackets.
_LONGEST_REPAIR, _MOST_BRACKETS = 8_000, 1_000

_MARKS = r"(?:\w{1,12}:)?(?:think(?:ing)?|thoughts?|reasoning|analysis|reflection)\s{0,3}>"
_THINKING = re.compile(rf"<{_MARKS}|\[THINK\]|◁think▷|<\|channel\|>", re.I)
_THOUGHT = re.compile(
    rf"</{_MARKS}|\[/THINK\]|◁/think▷"
    r"|<\|channel\|>\s{0,3}final\b[^<|]{0,80}(?:<\|constrain\|>[^<|]{0,80})?<\|message\|>",
    re.I,
)
# The beginning of an object or of a list, unlike a bracket in a sentence.
_OPENING = re.compile(r"""\{(?=\s*(?:["'“}]|\w{1,40}\s{0,3}:|\Z))|\[(?=\s*["'“{\[\]])""")
# A quote inside a string may lack its backslash: one that ends the string is followed by a comma, a colon or a bracket.
_STRING_OR_BRACKET = re.compile(
    r""""[^"\\]*(?:(?:\\.|"(?!\s*[,:}\]]))[^"\\]*)*(?:"|\\?\Z)"""
    r"""|(?<!\w)'[^'\\]*(?:(?:\\.|'(?!\s*[,:}\]]))[^'\\]*)*(?:'|\\?\Z)|[{}\[\]]""",
    re.S,
)


class UnreadableAnswer(EpicError):  # noqa: N818
    """Error for a model's answer that holds nothing reliable; the message says why."""


class Piece(NamedTuple):
    """An object or a list in an answer.

    Attributes:
        value: Its content, repaired if it is not valid JSON; empty if it cannot be repaired.
        whole: Whether it has an end. If not, its last part may be incomplete.
        strict: Whether it is valid JSON.
        begin, end: Its position in the text.
    """

    value: Any
    whole: bool
    strict: bool
    begin: int
    end: int


def said_in(text: str) -> str:
    """Return the end of an answer, behind the model's thinking; empty if the thinking has no end."""
    begin = max((mark.end() for mark in _THOUGHT.finditer(text)), default=0)
    return "" if _THINKING.search(text, begin) else text[begin:]


def json_pieces(said: str) -> list[Piece]:
    """Return the objects and lists of a text in their order, without those inside another one.

    Raises:
        UnreadableAnswer: if they are nested too deeply, or an object gives two values under one key.
    """
    said = said[:_LONGEST_ANSWER]
    pieces: list[Piece] = []
    place = 0
    while (opening := _OPENING.search(said, place)) is not None:
        begin = opening.start()
        try:
            value, place = _DECODER.raw_decode(said, begin)
            pieces.append(Piece(value, True, True, begin, place))
        except RecursionError:
            raise UnreadableAnswer("it is nested too deeply") from None
        except ValueError:
            end = _end(said, begin)
            place = len(said) if end is None else end
            pieces.append(Piece(_repaired(said[begin:place]), end is not None, False, begin, place))
    return pieces


def line_of(value: Any) -> str:
    """Return a text on one line, cut to 600 characters; empty if the value is not a text."""
    if not isinstance(value, str):
        return ""
    # JSON escapes may have left surrogate pairs separate.
    joined = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = " ".join(re.sub(r"[\x00-\x1f\x7f]", " ", joined).split())
    return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 4].rsplit(" ", 1)[0] + " ..."


def letters(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    return re.sub(r"[\W_]+", "", text.casefold())


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if made.setdefault(key, value) != value:
            raise UnreadableAnswer(f"it gives two values for {key[:40]!r}")
    return made


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object)


def _end(said: str, begin: int) -> int | None:
    """Return where the bracket that opens at `begin` is closed, or None."""
    depth = 0
    for part in _STRING_OR_BRACKET.finditer(said, begin):
        depth += (part.group() in ("{", "[")) - (part.group() in ("}", "]"))
        if depth == 0:
            return part.end()
    return None


def _repaired(text: str) -> Any:
    if len(text) > _LONGEST_REPAIR or text.count("{") + text.count("[") > _MOST_BRACKETS:
        return {}
    try:
        import json_repair

        value = json_repair.loads(text)
    except Exception:  # whatever the library stumbles over, the answer cannot be read
        return {}
    return value if isinstance(value, (dict, list)) else {}
