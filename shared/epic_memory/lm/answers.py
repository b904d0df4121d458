"""JSON in a model's answer: found behind its thinking, repaired if not well-formed, and validated by a shape."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from epic_memory.errors import EpicError
from epic_memory.lm.base import Completion

S = TypeVar("S", bound="Shape")

_LONGEST_ANSWER = 40_000
_LONGEST_LINE = 600
# The time for repairing grows with the square of the length, and of the number of brackets.
_LONGEST_REPAIR, _MOST_BRACKETS = 8_000, 1_000
_WORDS = re.compile(r"[^\W_]")
_ANNOTATIONS = ("title", "default", "description")

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


Line = Annotated[str, BeforeValidator(line_of)]
"""A text on one line; empty for anything that is not a text."""


class Shape(BaseModel):
    """Base of the shape of an answer. Keys count in any case; keys that the shape does not have are ignored."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _lower(cls, given: Any) -> Any:
        return {str(key).lower(): value for key, value in given.items()} if isinstance(given, Mapping) else given


def lines(most: int) -> Callable[[Any], Any]:
    """Return a validator for a list of texts: each on one line and once, the first `most` of them; None is no text."""

    def cleaned(given: Any) -> Any:
        listed = [] if given is None else [given] if isinstance(given, str) else given
        if not isinstance(listed, list):
            return given
        return list(dict.fromkeys(line for each in listed if (line := line_of(each))))[:most]

    return cleaned


@cache
def schema_of(shape: type[Shape]) -> dict[str, Any]:
    """Return the JSON schema of a shape: without references, every property required, and no others allowed."""
    schema = shape.model_json_schema()
    plain: dict[str, Any] = _plain(schema, schema.pop("$defs", {}))
    return plain


def read_as(shape: type[S], completion: Completion) -> S:
    """Return the one object of a shape in an answer; none, several or a cut one are an `UnreadableAnswer`."""
    said = said_in(completion.text)
    pieces = json_pieces(said)
    check_whole(completion, said, pieces[-1].end if pieces else 0)
    found: list[S] = []
    reason = "it holds no JSON object" if said.strip() else "it is empty"
    for piece in pieces:
        if not piece.whole:
            raise UnreadableAnswer("it is cut off")
        value = piece.value[0] if isinstance(piece.value, list) and len(piece.value) == 1 else piece.value
        try:
            found.append(shape.model_validate(value))
        except ValidationError as error:
            reason = reason_of(error)
    if not found:
        raise UnreadableAnswer(reason)
    if any(one != found[0] for one in found):
        raise UnreadableAnswer("it gives several answers that differ")
    return found[0]


def check_whole(completion: Completion, said: str, end: int) -> None:
    """Raise an `UnreadableAnswer` if an answer was cut after its JSON: then that was only a draft."""
    if completion.cut and _WORDS.search(said, end):
        raise UnreadableAnswer("it is cut off")


def reason_of(error: ValidationError) -> str:
    """Return the first thing that is wrong with an answer, in words that a model understands."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]


def _plain(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(each, definitions) for each in node]
    if not isinstance(node, Mapping):
        return node
    if "$ref" in node:
        return _plain(definitions[node["$ref"].rsplit("/", 1)[-1]], definitions)
    plain = {key: _plain(value, definitions) for key, value in node.items() if key not in _ANNOTATIONS}
    if "properties" in node:
        properties = {name: _plain(value, definitions) for name, value in node["properties"].items()}
        plain |= {"properties": properties, "required": list(properties), "additionalProperties": False}
    return plain
