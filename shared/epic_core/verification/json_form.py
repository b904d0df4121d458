"""JSON form of an answer: complete, cut off or sloppy, and among other text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from epic_core.lm.answers import Piece, Record, UnreadableAnswer, mappings, value_of
from epic_core.types import Decision
from epic_core.verification.forms import answer_of, word_in
from epic_core.verification.values import (
    INSTRUCTION_KEYS,
    PREFERENCES_KEYS,
    Answer,
    decision_of,
    names_decision,
    stated_in,
)

_KEY = r"(?:decision|verdict|judge?ment|action|label|answer|result)"
_STATED = re.compile(rf"""["']{_KEY}["']\s*:\s*["']\W{{0,3}}(keep|discard)""", re.I)
_STATED_SOMEHOW = re.compile(rf"""(?<![a-z]){_KEY}["'”’]?\s{{0,9}}[:=]([^,{{}}\[\]\n]{{0,80}})""", re.I)


def records_of(piece: Piece) -> list[Record]:
    """Return the objects in a piece that state a decision, or that do not settle on one."""
    return [record for record in mappings(piece.value, stated_in) if stated_in(record)]


def json_records(pieces: Sequence[Piece], said: str) -> Iterator[tuple[Record, tuple[int, int] | None, bool]]:
    """Yield objects that state a decision, with the decision's place, and whether their list is complete.

    Raises:
        UnreadableAnswer: if a repaired piece states something else than the text it was made from.
    """
    for piece in pieces:
        records = records_of(piece)
        spans = _spans(piece, records, said)
        for place, record in enumerate(records):
            span = spans[place] if len(spans) == len(records) else None
            if piece.whole or place < len(records) - 1:
                yield record, span, True
            else:
                *others, last = record
                # The last value may be cut off: an instruction is left out, and a list is marked as incomplete.
                kept = others if _one_of(last, (*INSTRUCTION_KEYS, "stance")) else record
                yield {key: record[key] for key in kept}, span, not _one_of(last, PREFERENCES_KEYS)


def _spans(piece: Piece, records: Sequence[Record], said: str) -> list[tuple[int, int]]:
    """Return where the decisions of a piece stand."""
    if piece.strict or not records:
        return [match.span(1) for match in _STATED.finditer(said, piece.begin, piece.end)]
    stated: list[Decision | None] = []
    spans = []
    for match in _STATED_SOMEHOW.finditer(said, piece.begin, piece.end):
        if names_decision(match.group(1)):
            stated.append(decision_of(match.group(1)))
            spans.append(word_in(match, 1))
    made = [decision for record in records for decision in stated_in(record)]
    same = len(set(made)) == 1 and set(stated) == set(made)
    if None in stated or not (same or Counter(stated) == Counter(made)):
        raise UnreadableAnswer("it does not settle on one decision")
    return spans


def _one_of(key: str, keys: Sequence[str]) -> bool:
    return value_of({key: True}, keys) is not None


def json_answers(pieces: Sequence[Piece], said: str, preferences: Sequence[str]) -> Iterator[tuple[Answer, bool]]:
    """Yield the answers that JSON states, each with whether its list is complete."""
    for record, span, whole in json_records(pieces, said):
        yield answer_of(record, preferences, span), whole
