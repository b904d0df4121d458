"""Answers to the verifier's prompt: what a model decides of each chunk, or why that cannot be relied on.

A decision counts if its object is whole, fits the shape, and no other object of the answer contradicts it. So an answer
that ends too early is worth all of the chunks before its end, and never a Keep without a preference that was to come.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ValidationError

from epic_memory.lm.answers import (
    Line,
    Piece,
    Shape,
    UnreadableAnswer,
    check_whole,
    json_pieces,
    reason_of,
    said_in,
    schema_of,
)
from epic_memory.lm.base import Completion, probability
from epic_memory.types import Stance

_DECISION = re.compile(r"""(?<![a-z])["']?decision["']?\s{0,9}:\s{0,9}["']?(Keep|Discard)?""", re.I)
_Titled = BeforeValidator(lambda given: given.strip().title() if isinstance(given, str) else given)
_Lower = BeforeValidator(lambda given: given.strip().lower() if isinstance(given, str) else given)


def _saying(line: str) -> str:
    # A single word is a placeholder, such as "string"; not every language has spaces between words.
    if not re.search(r"[^\W\d_]", line) or (line.isascii() and " " not in line):
        raise ValueError("an instruction is needed")
    return line


class Aligned(Shape):
    """A preference that a chunk is kept for, by its number in the prompt."""

    preference: int
    stance: Annotated[Stance, _Lower]
    instruction: Annotated[Line, AfterValidator(_saying)]


class Judged(Shape):
    """Decision of a model on one chunk."""

    chunk: int
    decision: Annotated[Literal["Keep", "Discard"], _Titled]
    preferences: tuple[Aligned, ...] = ()
    evidence: Line = ""


class Answers(Shape):
    """Decisions of a model on several chunks."""

    answers: tuple[Judged, ...]


_SCHEMA = schema_of(Answers)


@dataclass(frozen=True)
class Decided:
    """A decision that can be relied on.

    Attributes:
        judged: The decision; its preferences are those that were asked about, each once.
        confidence: Probability of the decision, or None.
    """

    judged: Judged
    confidence: float | None


def answers_schema(chunks: int, preferences: int) -> dict[str, Any]:
    """Return the schema of the answer about so many chunks and preferences."""
    answer = _SCHEMA["properties"]["answers"]["items"]
    aligned = answer["properties"]["preferences"]["items"]
    numbered = {**aligned["properties"], "preference": _number(preferences)}
    listed = {"type": "array", "items": {**aligned, "properties": numbered}, "maxItems": preferences}
    properties = {**answer["properties"], "chunk": _number(chunks), "preferences": listed}
    several = {"type": "array", "items": {**answer, "properties": properties}, "minItems": chunks, "maxItems": chunks}
    return {**_SCHEMA, "properties": {"answers": several}}


def _number(highest: int) -> dict[str, Any]:
    return {"type": "integer", "enum": list(range(1, highest + 1))}


def read_answers(completion: Completion, asked: Sequence[frozenset[int]]) -> dict[int, Decided | str]:
    """Return for each chunk, by its place, what was decided, or why that cannot be relied on.

    Args:
        completion: The answer.
        asked: For each chunk the numbers of the preferences under which it was to be judged; others are ignored.

    Raises:
        UnreadableAnswer: if nothing of the answer can be relied on.
    """
    said = said_in(completion.text)
    pieces = json_pieces(said)
    check_whole(completion, said, pieces[-1].end if pieces else 0)
    stated = [one for piece in pieces for one in _stated(piece, said)]
    if not stated:
        raise UnreadableAnswer("it decides nothing" if said.strip() else "it is empty")
    if len(stated) == len(asked) and not any("chunk" in record for record, _ in stated):
        stated = [({**record, "chunk": number}, span) for number, (record, span) in enumerate(stated, start=1)]
    behind = len(completion.text) - len(said)
    found: dict[int, Decided | str] = {}
    for record, span in stated:
        place = _place(record, len(asked))
        if place is None:
            continue
        decided: Decided | str
        judged = _judged(record, asked[place])
        if isinstance(judged, Judged):
            spot = None if span is None else (span[0] + behind, span[1] + behind)
            decided = Decided(judged, probability(completion.tokens, completion.text, spot))
        else:
            decided = judged
        found[place] = _agreed(found.get(place, decided), decided)
    return found


def _stated(piece: Piece, said: str) -> Iterator[tuple[Mapping[str, Any], tuple[int, int] | None]]:
    """Yield the objects of a piece that decide something, with the place of the word; without one that has no end."""
    value = piece.value
    if isinstance(value, Mapping):
        value = next((each for key, each in value.items() if str(key).lower() == "answers"), [value])
    records = [
        {str(key).lower(): each for key, each in record.items()}
        for record in (value if isinstance(value, list) else [])
        if isinstance(record, Mapping)
    ]
    words = [match.span(1) for match in _DECISION.finditer(said, piece.begin, piece.end)]
    if not piece.whole:
        records = records[:-1]
        words = words[: max(len(records), len(words) - 1)]
    if not piece.strict and len(words) != len(records):
        raise UnreadableAnswer("it is no JSON, and does not decide once for each chunk")
    for place, record in enumerate(records):
        if "decision" in record:
            yield record, words[place] if len(words) == len(records) else None


def _place(record: Mapping[str, Any], chunks: int) -> int | None:
    """Return the place of the chunk that an object is about; of one chunk, the number does not matter."""
    if chunks == 1:
        return 0
    digits = str(record.get("chunk")).strip()
    number = int(digits) if digits.isdecimal() and len(digits) <= len(str(chunks)) else 0
    return number - 1 if 1 <= number <= chunks else None


def _judged(record: Mapping[str, Any], asked: frozenset[int]) -> Judged | str:
    try:
        judged = Judged.model_validate({"chunk": 1, **record})
    except ValidationError as error:
        return reason_of(error)
    if judged.decision == "Discard":
        return judged.model_copy(update={"preferences": ()})
    first: dict[int, Aligned] = {}
    for one in judged.preferences:
        if one.preference in asked and first.setdefault(one.preference, one).stance is not one.stance:
            return f"it gives two stances to preference {one.preference}"
    if not first:
        return "it keeps a chunk, but for none of the preferences named above it"
    return judged.model_copy(update={"preferences": tuple(first.values())})


def _agreed(one: Decided | str, other: Decided | str) -> Decided | str:
    """Return the first of two answers about one chunk if they say the same."""
    if isinstance(one, str) or isinstance(other, str):
        return one if isinstance(one, str) else other
    stances = [
        (each.judged.decision, {(p.preference, p.stance) for p in each.judged.preferences}) for each in (one, other)
    ]
    return one if stances[0] == stances[1] else "it decides twice about one chunk, and differently"
