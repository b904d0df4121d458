"""What JSON in an answer states: whole, cut off or sloppy, and among other things."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from epic_core.types import Decision
from epic_core.verification.forms import answer_of, word_in
from epic_core.verification.values import (
    INSTRUCTION_KEYS,
    PREFERENCES_KEYS,
    Answer,
    Record,
    UnreadableAnswer,
    decision_of,
    names_decision,
    stated_in,
    value_of,
)

# Repairing takes time that grows with the square of the length.
_LONGEST_REPAIR = 8_000
_DEEPEST = 4
OPENING = re.compile(r"[{\[]")
_FENCE = re.compile(r"^[ \t]*```", re.M)
_KEY = r"(?:decision|verdict|judge?ment|action|label|answer|result)"
_STATED = re.compile(rf"""["']{_KEY}["']\s*:\s*["']\W{{0,3}}(keep|discard)""", re.I)
_STATED_SOMEHOW = re.compile(rf"""(?<![a-z]){_KEY}["'”’]?\s{{0,9}}[:=]([^,{{}}\[\]\n]{{0,80}})""", re.I)
STRING_OR_BRACKET = re.compile(
    r""""[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)|'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)|[{}\[\]]""", re.S
)


class Piece(NamedTuple):
    """An object or a list in an answer.

    Attributes:
        value: What it holds.
        whole: Whether it has an end.
        strict: Whether it is JSON as it should be, rather than repaired.
        begin, end: Where it stands.
    """

    value: Any
    whole: bool
    strict: bool
    begin: int
    end: int

    @property
    def records(self) -> list[Record]:
        """The objects in it that state a decision, or do not settle on one."""
        return [record for record in mappings(self.value) if stated_in(record)]


def json_pieces(said: str) -> list[Piece]:
    """Objects and lists, in their order.

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
    # What is broken is repaired, as far as it does not hold what is not.
    sure = [(piece.begin, piece.end) for piece in pieces if piece.records]
    fences = [fence.span() for fence in _FENCE.finditer(said)]
    begin = 0
    for end, following in [*sorted(sure + fences), (len(said), len(said))]:
        first = next((place for place in broken if begin <= place < end), None)
        repaired = None if first is None else _repaired(said, first, end)
        pieces += [repaired] if repaired else []
        begin = max(begin, following)
    return sorted(pieces, key=lambda piece: piece.begin)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; what is said twice under one name is both."""
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
        # Where nothing but brackets is missing, nothing has to be guessed.
        value = json.loads(text.rstrip("`.,; \t\n") + _missing(text), strict=False, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        try:
            import json_repair

            value = json_repair.loads(text)
        except Exception:  # whatever it trips over, the answer cannot be read
            return None
    return Piece(value, _closed(text), False, begin, end) if value and isinstance(value, (dict, list)) else None


def _missing(text: str) -> str:
    """The brackets that would close what is open."""
    opened: list[str] = []
    for part in STRING_OR_BRACKET.finditer(text):
        if part.group() in ("{", "["):
            opened.append("}" if part.group() == "{" else "]")
        elif part.group() in ("}", "]") and opened:
            opened.pop()
    return "".join(reversed(opened))


def _closed(text: str) -> bool:
    """Whether what was opened was closed, but for brackets at the very end, and no string or number is cut."""
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


def json_records(pieces: Sequence[Piece], said: str) -> Iterator[tuple[Record, tuple[int, int] | None, bool]]:
    """Objects that state a decision, with the decision's place, and whether what they list is whole.

    Raises:
        UnreadableAnswer: if what was repaired states something else than what it was made of.
    """
    for piece in pieces:
        records = piece.records
        spans = _spans(piece, records, said)
        for place, record in enumerate(records):
            span = spans[place] if len(spans) == len(records) else None
            if piece.whole or place < len(records) - 1:
                yield record, span, True
            else:
                *others, last = record
                # What comes last may be cut: an instruction is left out, and of a list its end is.
                kept = others if _one_of(last, (*INSTRUCTION_KEYS, "stance")) else record
                yield {key: record[key] for key in kept}, span, not _one_of(last, PREFERENCES_KEYS)


def _spans(piece: Piece, records: Sequence[Record], said: str) -> list[tuple[int, int]]:
    """Where the decisions stand that a piece states."""
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


def mappings(value: Any, depth: int = 0) -> Iterator[Record]:
    """An object and the objects inside it, but not those inside one that states a decision."""
    if isinstance(value, Mapping):
        yield value
        if depth < _DEEPEST and not stated_in(value):
            for inner in value.values():
                yield from mappings(inner, depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST:
        for inner in value:
            yield from mappings(inner, depth + 1)


def json_answers(pieces: Sequence[Piece], said: str, preferences: Sequence[str]) -> Iterator[tuple[Answer, bool]]:
    """What JSON in an answer states, and whether what it lists is whole."""
    for record, span, whole in json_records(pieces, said):
        yield answer_of(record, preferences, span), whole
