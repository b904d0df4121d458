"""Parsing of a model's answers: the text without its thinking, the JSON in it, and values under alternative keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from epic_core.errors import EpicError

Record: TypeAlias = Mapping[str, Any]
"""A JSON object in an answer."""


class UnreadableAnswer(EpicError):  # noqa: N818
    """Error for a model's answer that holds nothing reliable; the message says why."""


def value_of(record: Record, keys: Sequence[str]) -> Any:
    """Return the value of the first key that the record has, ignoring case and punctuation, or None."""
    plain = {_letters(key): value for key, value in record.items() if isinstance(key, str)}
    for key in keys:
        if plain.get(key) is not None:
            return plain[key]
    return None


def line_of(value: Any) -> str:
    """Return a text on one line, cut to 600 characters; empty if the value is not a text."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        return ""
    text = " ".join(re.sub(r"[\x00-\x1f\x7f]", " ", paired(value)).split()).strip("`*").strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 4].rsplit(" ", 1)[0] + " ..."


def is_no(value: Any) -> bool:
    """Tell whether a value stands for no, or is a text that says only that something is not relevant."""
    if isinstance(value, str):
        return _NO_ALONE.fullmatch(value) is not None
    return isinstance(value, (bool, int, float)) and value == 0


_LONGEST_LINE = 600


_NO_ALONE = re.compile(
    r"\W{0,9}(?:no|none|false|never|n/a|(?:it(?:['’]s|\s+is)\s+)?(?:not\s+(?:at\s+all\s+)?|ir|un)"
    r"(?:relevant|related|applicable)(?:\s+at\s+all)?)\W{0,9}",
    re.I,
)


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def paired(text: str) -> str:
    """Return the text with surrogate pairs joined that JSON escapes had left separate."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# The time for repairing grows with the square of the length.
_LONGEST_REPAIR = 8_000


_DEEPEST = 4


OPENING = re.compile(r"[{\[]")


_FENCE = re.compile(r"^[ \t]*```", re.M)


STRING_OR_BRACKET = re.compile(
    r""""[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)|'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)|[{}\[\]]""", re.S
)


class Piece(NamedTuple):
    """An object or a list in an answer.

    Attributes:
        value: Its content.
        whole: Whether it has an end.
        strict: Whether it is valid JSON, rather than repaired.
        begin, end: Its position in the text.
    """

    value: Any
    whole: bool
    strict: bool
    begin: int
    end: int


def json_pieces(said: str, answers: Callable[[Record], object] = lambda _: False) -> list[Piece]:
    """Return the objects and lists of a text, in their order.

    Args:
        said: The text.
        answers: Tells whether an object is an answer by itself: the text before it and after it is repaired separately.

    Raises:
        UnreadableAnswer: if they are nested too deeply to be read.
    """
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_object)
    pieces: list[Piece] = []
    broken: list[int] = []
    place = 0
    while (opening := OPENING.search(said, place)) is not None:
        try:
            value, place = decoder.raw_decode(said, opening.start())
        except RecursionError:
            raise UnreadableAnswer("it is nested too deeply") from None
        except ValueError:
            broken.append(opening.start())
            place = opening.end()
            continue
        pieces.append(Piece(value, True, True, opening.start(), place))
    # Repair the broken stretches between those that hold a valid answer.
    sure = [(piece.begin, piece.end) for piece in pieces if any(map(answers, mappings(piece.value, answers)))]
    fences = [fence.span() for fence in _FENCE.finditer(said)]
    begin = 0
    for end, following in [*sorted(sure + fences), (len(said), len(said))]:
        first = next((place for place in broken if begin <= place < end), None)
        repaired = None if first is None else _repaired(said, first, end)
        pieces += [repaired] if repaired else []
        begin = max(begin, following)
    return sorted(pieces, key=lambda piece: piece.begin)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as an object; two different texts under one key are joined."""
    made: dict[str, Any] = {}
    for key, value in pairs:
        twice = isinstance(made.get(key), str) and isinstance(value, str) and made[key] != value
        made[key] = f"{made[key]} / {value}" if twice else value
    return made


def _repaired(said: str, begin: int, end: int) -> Piece | None:
    text = said[begin:end]
    if len(text) > _LONGEST_REPAIR:
        return None
    try:
        # If only closing brackets are missing, nothing has to be guessed.
        value = json.loads(text.rstrip("`.,; \t\n") + _missing(text), strict=False, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        try:
            import json_repair

            value = json_repair.loads(text)
        except Exception:  # whatever the library stumbles over, the answer cannot be read
            return None
    return Piece(value, _closed(text), False, begin, end) if value and isinstance(value, (dict, list)) else None


def _missing(text: str) -> str:
    """Return the brackets that would close those still open."""
    opened: list[str] = []
    for part in STRING_OR_BRACKET.finditer(text):
        if part.group() in ("{", "["):
            opened.append("}" if part.group() == "{" else "]")
        elif part.group() in ("}", "]") and opened:
            opened.pop()
    return "".join(reversed(opened))


def _closed(text: str) -> bool:
    """Tell whether all brackets are closed, except at the very end, and no string or number is cut off."""
    depth = place = last = 0
    while (part := (STRING_OR_BRACKET if depth > 0 else OPENING).search(text, place)) is not None:
        place = part.end()
        if part.group() in "{[":
            depth += 1
        elif part.group() in "}]":
            depth, last = depth - 1, place
        elif part.group(1) == '"':
            last = place
    return depth == 0 or not text[last:].strip("`.,; \t\n")


def mappings(value: Any, answers: Callable[[Record], object] = lambda _: False, *, depth: int = 0) -> Iterator[Record]:
    """Yield an object and the objects inside it, but not those inside one that is an answer by itself."""
    if isinstance(value, Mapping):
        yield value
        if depth < _DEEPEST and not answers(value):
            for inner in value.values():
                yield from mappings(inner, answers, depth=depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST:
        for inner in value:
            yield from mappings(inner, answers, depth=depth + 1)


_LONGEST_ANSWER = 20_000


_THINKING = re.compile(
    r"<(/?)(?:[a-z]{1,12}:)?(think|thinking|thoughts?|reasoning|analysis|reflection|scratchpad)\s{0,3}>"
    r"|\[(/?)(think)\]|◁(/?)(think)▷|<\|(start|end|begin_of|end_of)_(thinking|thought)\|>"
    r"|<\|(channel)\|>\s{0,3}(\w+)[^<|]{0,80}(?:<\|constrain\|>[^<|]{0,80})?<\|message\|>|<\|(end)()\|>",
    re.I,
)


_TEMPLATE_TOKEN = re.compile(
    r"<[|｜][^|｜<>]{1,30}[|｜]>|</?s>|<(?:start|end)_of_turn>|\[/?INST\]|</?(?:answer|output|response)>", re.I
)


_QUOTED_LINE = re.compile(r"^[ \t>]{0,20}\|.*$", re.M)


def said_in(text: str) -> str:
    """Return the text outside the model's thinking; everything else becomes spaces, so that positions stay the same."""
    said: list[tuple[int, int]] = []
    thinking, since = "", 0
    for mark in _THINKING.finditer(text):
        marker, name = (group.casefold() for group in mark.groups() if group is not None)
        kind = "channel" if marker == "channel" or not name else name[:5]
        final = marker == "channel" and name == "final"
        ends = final or marker.startswith(("/", "end"))
        if final or (ends and not thinking and name):
            # All text before this mark was thinking, whether or not it was marked as such.
            said.clear()
            thinking, since = "", mark.end()
        elif ends and thinking == kind:
            thinking, since = "", mark.end()
        elif not ends and not thinking:
            said.append((since, mark.start()))
            thinking = kind
    if not thinking:
        said.append((since, len(text)))
    made, place = "", 0
    for begin, end in said:
        made += " " * (begin - place) + text[begin:end]
        place = end
    begins = len(made) - len(made.lstrip())
    return _TEMPLATE_TOKEN.sub(_blank, made[: begins + _LONGEST_ANSWER])


def _blank(match: re.Match[str]) -> str:
    return " " * (match.end() - match.start())


def own_lines(said: str) -> str:
    """Return the text without lines that repeat a document in the way the prompt marks its lines."""
    return _QUOTED_LINE.sub(_blank, said)
