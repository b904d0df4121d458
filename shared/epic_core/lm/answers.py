"""Parsing of a model's answers: the text without its thinking, the JSON in it, and values under alternative keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from epic_core.errors import EpicError

Record: TypeAlias = Mapping[str, Any]
"""A JSON object in an answer."""

_LONGEST_ANSWER = 20_000
_LONGEST_LINE = 600
# The time for repairing grows with the square of the length.
_LONGEST_REPAIR = 8_000
_DEEPEST = 4

_NO_ALONE = re.compile(
    r"\W{0,9}(?:no|none|false|never|n/a|(?:it(?:['’]s|\s+is)\s+)?(?:not\s+(?:at\s+all\s+)?|ir|un)"
    r"(?:relevant|related|applicable)(?:\s+at\s+all)?)\W{0,9}",
    re.I,
)
# The beginning of an object or of a list of objects, unlike a bracket in a sentence.
_OPENING = re.compile(r"""\{(?=\s*(?:["'“‘}/]|(?:\w+\s*)?(?::|\Z)))|\[(?=\s*(?:["'“‘{\[\]]|\Z))""")
_CLOSING_TAG = re.compile(r"</\w{1,40}>")
_SAYS = re.compile(r"[^\W_]")
# A quote inside a string may lack its backslash: one that ends the string is followed by a comma, a colon or a bracket.
_STRING_OR_BRACKET = re.compile(
    r""""[^"\\]*(?:(?:\\.|"(?!\s*[,:}\]]))[^"\\]*)*(?:"|\\?\Z)"""
    r"""|(?<!\w)'[^'\\]*(?:(?:\\.|'(?!\s*[,:}\]]))[^'\\]*)*(?:'|\\?\Z)|[{}\[\]]""",
    re.S,
)
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


class UnreadableAnswer(EpicError):  # noqa: N818
    """Error for a model's answer that holds nothing reliable; the message says why."""


def value_of(record: Record, keys: Sequence[str]) -> Any:
    """Return the value of the first key that the record has, ignoring case and punctuation, or None."""
    plain = {letters(key): value for key, value in record.items() if isinstance(key, str)}
    return next((plain[key] for key in keys if plain.get(key) is not None), None)


def letters(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    return re.sub(r"[\W_]+", "", text.casefold())


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


def paired(text: str) -> str:
    """Return the text with surrogate pairs joined that JSON escapes had left separate."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Piece(NamedTuple):
    """An object or a list in an answer.

    Attributes:
        value: Its content, repaired if it is not valid JSON; empty if it cannot be repaired.
        whole: Whether it has an end. If not, its last part may be incomplete, or an end of the answer be missing.
        strict: Whether it is valid JSON.
        begin, end: Its position in the text.
    """

    value: Any
    whole: bool
    strict: bool
    begin: int
    end: int


def json_pieces(said: str) -> list[Piece]:
    """Return the objects and lists of a text, in their order, those inside another one not by themselves.

    Raises:
        UnreadableAnswer: if they are nested too deeply to be read.
    """
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_object)
    pieces: list[Piece] = []
    place = 0
    while (opening := _OPENING.search(said, place)) is not None:
        begin = opening.start()
        try:
            value, place = decoder.raw_decode(said, begin)
            pieces.append(Piece(value, True, True, begin, place))
        except RecursionError:
            raise UnreadableAnswer("it is nested too deeply") from None
        except ValueError:
            end = _end(said, begin)
            place = len(said) if end is None else end
            pieces.append(Piece(_repaired(said[begin:place]), end is not None, False, begin, place))
    return pieces


def whole_pieces(said: str) -> list[Piece]:
    """Return the objects and lists of a text as `json_pieces` does; one without an end is an `UnreadableAnswer`."""
    pieces = json_pieces(said)
    whole = [piece for piece in pieces if piece.whole]
    # A bracket alone at the end, after an answer, begins nothing of it.
    if len(whole) < len(pieces) and not (whole and said[pieces[-1].begin :].strip() in ("{", "[")):
        raise UnreadableAnswer("it is cut off")
    return whole


def has_end(text: str) -> bool:
    """Tell whether an answer that was cut ends in a whole object or a closed tag; one before other words is a draft."""
    said = said_in(text)
    if _is_thought_over(said, text):
        return False
    pieces = json_pieces(said)
    ends = [match.end() for match in _CLOSING_TAG.finditer(said)]
    if pieces and pieces[-1].end >= max(ends, default=0):
        return pieces[-1].whole and bool(pieces[-1].value) and not _SAYS.search(said, pieces[-1].end)
    return bool(ends) and not _SAYS.search(said, ends[-1])


def without_drafts(text: str) -> str:
    """Return a cut answer without what stands before words between its objects, or at its end; all else in place."""
    said = said_in(text)
    if _is_thought_over(said, text):
        return " " * len(text)
    begin = place = 0
    for piece in json_pieces(said):
        begin = piece.begin if place and _SAYS.search(said, place, piece.begin) else begin
        place = piece.end
    if not place:
        place = max((match.end() for match in _CLOSING_TAG.finditer(said)), default=0)
    rest = said[place:].strip()
    return " " * len(text) if place and not rest.startswith("<") and _SAYS.search(rest) else " " * begin + text[begin:]


def _is_thought_over(said: str, text: str) -> bool:
    """Tell whether a text goes on, with thinking that has no end, behind what is said in it."""
    return bool(text[len(said) :].strip())


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as an object; two different texts under one key are joined."""
    made: dict[str, Any] = {}
    for key, value in pairs:
        twice = isinstance(made.get(key), str) and isinstance(value, str) and made[key] != value
        made[key] = f"{made[key]} / {value}" if twice else value
    return made


def _end(said: str, begin: int) -> int | None:
    """Return where the bracket that opens at `begin` is closed, or None."""
    depth = 0
    for part in _STRING_OR_BRACKET.finditer(said, begin):
        depth += (part.group() in ("{", "[")) - (part.group() in ("}", "]"))
        if depth == 0:
            return part.end()
    return None


def _repaired(text: str) -> Any:
    if len(text) > _LONGEST_REPAIR:
        return {}
    try:
        import json_repair

        value = json_repair.loads(text)
    except Exception:  # whatever the library stumbles over, the answer cannot be read
        return {}
    return value if isinstance(value, (dict, list)) else {}


def mappings(value: Any, answers: Callable[[Record], object] = lambda _: False, *, depth: int = 0) -> Iterator[Record]:
    """Yield an object and the objects inside it, but not those inside one that is an answer by itself."""
    if isinstance(value, Mapping):
        yield value
        value = [] if answers(value) else list(value.values())
    if isinstance(value, list) and depth < _DEEPEST:
        for inner in value:
            yield from mappings(inner, answers, depth=depth + 1)


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
    return _TEMPLATE_TOKEN.sub(blank, made[: begins + _LONGEST_ANSWER])


def blank(match: re.Match[str]) -> str:
    """Return as many spaces as a match has characters."""
    return " " * (match.end() - match.start())


def own_lines(said: str) -> str:
    """Return the text without lines that repeat a document in the way the prompt marks its lines."""
    return _QUOTED_LINE.sub(blank, said)
