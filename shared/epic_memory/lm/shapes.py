"""Shapes of answers: pydantic models that give the schema a server is held to, and that validate what came."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from epic_memory.lm.answers import UnreadableAnswer, json_pieces, line_of, said_in
from epic_memory.lm.base import Completion

S = TypeVar("S", bound="Shape")

_WORDS = re.compile(r"[^\W_]")
_ANNOTATIONS = ("title", "default", "description")

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


def valid(shape: type[S], given: Any, most: int) -> Any:
    """Return the first elements of a list that fit a shape, at most so many; anything that is no list as it is."""
    if not isinstance(given, list):
        return given
    kept = []
    for each in given:
        try:
            kept.append(shape.model_validate(each))
        except ValidationError:
            continue
    return kept[:most]


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
