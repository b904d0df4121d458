"""The forms an answer comes in: JSON, the paper's XML, labelled lines; well-formed or not, among other things."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from epic_core.types import Decision
from epic_core.verification.values import (
    INSTRUCTION_KEYS,
    NUMBER_KEYS,
    PREFERENCES_KEYS,
    RATIONALE_KEYS,
    Answer,
    Record,
    Relevant,
    UnreadableAnswer,
    decision_of,
    instruction_of,
    is_no,
    line_of,
    names_decision,
    places_of,
    relevance_of,
    stance_of,
    stated_in,
    value_of,
)

_LONGEST_ANSWER = 20_000
# Repairing takes time that grows with the square of the length.
_LONGEST_REPAIR = 8_000
_DEEPEST = 4
# Of a list of preferences as many entries are looked at: so many, and so many times the number of preferences.
_FEWEST_LISTED = 16
_LISTED_TIMES = 4

_THINKING = re.compile(
    r"<(/?)(?:[a-z]{1,12}:)?(think|thinking|thoughts?|reasoning|analysis|reflection|scratchpad)\s{0,3}>"
    r"|\[(/?)(think)\]|◁(/?)(think)▷|<\|(start|end|begin_of|end_of)_(thinking|thought)\|>"
    r"|<\|(channel)\|>\s{0,3}(\w+)[^<|]{0,80}(?:<\|constrain\|>[^<|]{0,80})?<\|message\|>|<\|(end)()\|>",
    re.I,
)
_TEMPLATE_TOKEN = re.compile(
    r"<[|｜][^|｜<>]{1,30}[|｜]>|</?s>|<(?:start|end)_of_turn>|\[/?INST\]|</?(?:answer|output|response)>", re.I
)
OPENING = re.compile(r"[{\[]")
_QUOTED_LINE = re.compile(r"^[ \t>]{0,20}\|.*$", re.M)
_FENCE = re.compile(r"^[ \t]*```", re.M)

_KEY = r"(?:decision|verdict|judge?ment|action|label|answer|result)"
_STATED = re.compile(rf"""["']{_KEY}["']\s*:\s*["']\W{{0,3}}(keep|discard)""", re.I)
_STATED_SOMEHOW = re.compile(rf"""(?<![a-z]){_KEY}["'”’]?\s{{0,9}}[:=]([^,{{}}\[\]\n]{{0,80}})""", re.I)
STRING_OR_BRACKET = re.compile(
    r""""[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)|'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)|[{}\[\]]""", re.S
)

_BEGINS = r"^[^\w\n]{0,20}(?:\d{1,2}[.)][^\w\n]{0,9})?_{0,4}"
_LABEL = _BEGINS + r"%s\s*(?:\([^)\n]*\))?[\s*_]{0,20}[:=–-][ \t*_]{0,20}(.*)$"
_DECISION_LINE = re.compile(
    _BEGINS + r"(?:(?:my|the|final)\s{1,3}){0,2}(?:(answer)|decision|verdict|judge?ment)\s{0,3}(?:\([^)\n]*\))?"
    r"(?:[ \t*_]{0,20}[:=–-][ \t*_]{0,20}\n{0,2}|[ \t*_]{0,20}\n{1,2})(.*)$",
    re.I | re.M,
)
_RATIONALE_LINE = re.compile(_LABEL % r"(?:rationale|reason(?:ing)?|explanation)", re.I | re.M)
_PREFERENCES_LINE = re.compile(_LABEL % r"(?:relevant\s+|matched\s+)?preferences?(?:\s+numbers?)?", re.I | re.M)
INSTRUCTION_LINE = re.compile(_LABEL % r"instructions?", re.I | re.M)
STANCE_LINE = re.compile(_LABEL % r"stance", re.I | re.M)
_PREFERENCE_LINE = re.compile(_BEGINS + r"preference\s*#?(\d+)\s*(?:\(([^)\n]*)\))?\s*[:=–-]\s*(.+)$", re.I | re.M)
_FIRST_WORD = re.compile(
    r"^\W*(keep|discard)\b(?=(?:\s+it|\s+(?:the|this)\s+(?:chunk|document))?[*_\"'`]*\s*(?:$|[.,:;!(\n–—-]))", re.I
)


# the answer without what is not part of it


def said_in(text: str) -> str:
    """What was said aloud, everything else blanked out so that positions stay."""
    said: list[tuple[int, int]] = []
    thinking, since = "", 0
    for mark in _THINKING.finditer(text):
        marker, name = (group.casefold() for group in mark.groups() if group is not None)
        kind = "channel" if marker == "channel" or not name else name[:5]
        final = marker == "channel" and name == "final"
        ends = final or marker.startswith(("/", "end"))
        if final or (ends and not thinking and name):
            # All before it was thinking, whether or not something said so.
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


# JSON


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
        import json_repair

        value = json_repair.loads(text)
    except Exception:  # whatever it trips over, the answer cannot be read
        return None
    return Piece(value, _closed(text), False, begin, end) if value and isinstance(value, (dict, list)) else None


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


def word_in(match: re.Match[str], group: int) -> tuple[int, int]:
    """Where the decision word stands in a group of a match."""
    word = re.compile("keep|discard", re.I).search(match.string, *match.span(group))
    return word.span() if word else match.span(group)


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


def answer_of(record: Record, preferences: Sequence[str], span: tuple[int, int] | None) -> Answer:
    """What one object states.

    Raises:
        UnreadableAnswer: if it does not settle on one decision.
    """
    stated = stated_in(record)
    decision = stated.pop() if len(stated) == 1 else None
    if decision is None or relevance_of(record) is (decision is Decision.DISCARD):
        raise UnreadableAnswer("it does not settle on one decision")
    shared = Relevant(
        index=0,
        stance=stance_of(value_of(record, ("stance",))),
        instruction=instruction_of(value_of(record, INSTRUCTION_KEYS)),
    )
    given = value_of(record, PREFERENCES_KEYS)
    return Answer(
        decision=decision,
        rationale=line_of(value_of(record, RATIONALE_KEYS)),
        relevant=tuple(_relevant(given, preferences, shared)),
        span=span,
    )


def _relevant(given: Any, preferences: Sequence[str], shared: Relevant) -> Iterator[Relevant]:
    """The relevant preferences, each once; `shared` is what is said for all of them."""
    if given is None or given in ("", []):
        # Under a single preference there is only one a Keep can mean.
        if len(preferences) == 1:
            yield shared
        return
    seen: set[int] = set()
    # No more than it takes to list each of them several times.
    for one in islice(_each(given), _FEWEST_LISTED + _LISTED_TIMES * len(preferences)):
        if isinstance(one, Mapping):
            if Decision.DISCARD in stated_in(one) or relevance_of(one) is False:
                continue
            places = places_of(value_of(one, NUMBER_KEYS), preferences)
            stance = value_of(one, ("stance",))
            instruction = instruction_of(value_of(one, INSTRUCTION_KEYS))
        else:
            places, stance, instruction = places_of(one, preferences), None, ""
        if " " in instruction and is_no(instruction):
            continue
        for place in places:
            if place not in seen:
                seen.add(place)
                yield Relevant(
                    index=place,
                    stance=shared.stance if stance is None else stance_of(stance),
                    instruction=instruction or shared.instruction,
                )


def _each(given: Any) -> Iterator[Any]:
    if isinstance(given, list):
        yield from given
    elif isinstance(given, Mapping):
        if value_of(given, NUMBER_KEYS) is not None:
            yield given
            return
        # Numbers as keys: {"1": {"stance": ..., "instruction": ...}} or {"1": "instruction"}
        for key, value in given.items():
            if value is not None and not is_no(value):
                inner = value if isinstance(value, Mapping) else {"instruction": value}
                yield {**inner, "preference": key}
    else:
        yield given


# XML


def xml_answers(said: str, preferences: Sequence[str]) -> Iterator[tuple[Answer, bool]]:
    """What XML in an answer states: the paper's form, and what models make of it."""
    stated = list(re.finditer(r"<decision\b[^<>]{0,200}>([^<]*)", said, re.I))
    for match, following in zip(stated, [*stated[1:], None], strict=False):
        decision = decision_of(match.group(1))
        if decision is None:
            raise UnreadableAnswer(f"its decision is {line_of(match.group(1))[:40]!r}, neither Keep nor Discard")
        # What belongs to a decision can stand before it, if there is no other.
        block = said if len(stated) == 1 else said[match.end() : following.start() if following else len(said)]
        shared = Relevant(
            index=0, stance=stance_of(tag("stance", block)), instruction=instruction_of(tag("instruction", block))
        )
        answer = Answer(
            decision=decision,
            rationale=line_of(tag("reason", block) or tag("rationale", block)),
            relevant=tuple(_xml_relevant(block, preferences, shared)),
            span=word_in(match, 1),
        )
        yield answer, True


def _xml_relevant(block: str, preferences: Sequence[str], shared: Relevant) -> Iterator[Relevant]:
    listed = tag("relevant_preferences", block) or tag("preferences", block) or tag("relevant_preference", block)
    given: list[Any] = []
    for attributes, content in _elements("preference", listed or block):
        number = re.search(r"""\b(?:number|id|index|n)\s{0,3}=\s{0,3}["']?(\d+)""", attributes, re.I)
        stance = re.search(r"""\bstance\s{0,3}=\s{0,3}["']?(\w+)""", attributes, re.I)
        relevant = re.search(r"""\brelevant\s{0,3}=\s{0,3}["']?(\w+)""", attributes, re.I)
        plain = line_of(content.split("<")[0])
        given.append(
            {
                "preference": number.group(1) if number else (tag("number", content) or tag("text", content) or plain),
                "stance": stance.group(1) if stance else (tag("stance", content) or None),
                "relevant": relevant.group(1) if relevant else (tag("relevant", content) or None),
                "instruction": tag("instruction", content) or (plain if number else ""),
            }
        )
    if not given and listed:
        given = [line for line in re.sub(r"<[^<>]*>", "\n", listed).splitlines() if line.strip()]
    yield from _relevant(given, preferences, shared)


def _elements(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Attributes and content of the elements of a name, as far as they are closed."""
    opening, closing = (re.compile(rf"<{slash}{name}\b([^<>]*)>", re.I) for slash in ("", r"/\s{0,3}"))
    begun = opening.search(text)
    while begun is not None and (ended := closing.search(text, begun.end())) is not None:
        yield begun.group(1), html.unescape(text[begun.end() : ended.start()]).strip()
        begun = opening.search(text, ended.end())


def tag(name: str, text: str) -> str:
    """What stands in the first pair of these tags; empty if there is none."""
    return next((content for _, content in _elements(name, text)), "")


# plain lines


def own_lines(said: str) -> str:
    """What was said, without lines of a document that were repeated as the prompt marked them."""
    return _QUOTED_LINE.sub(_blank, said)


def line_answers(said: str, preferences: Sequence[str], *, alone: bool) -> Iterator[tuple[Answer, bool]]:
    """What labelled lines state; or, if they stand alone, an answer that begins with its decision."""
    said = own_lines(said)
    stated = False
    for match in _DECISION_LINE.finditer(said):
        decision = decision_of(match.group(2))
        if decision is not None:
            stated = True
            yield _labelled(said, decision, word_in(match, 2), preferences)
        elif names_decision(match.group(2)) or (alone and not match.group(1) and match.group(2).strip()):
            raise UnreadableAnswer(f"its decision is {line_of(match.group(2))[:40]!r}, neither Keep nor Discard")
    first = _FIRST_WORD.match(said)
    if alone and not stated and first:
        begin = first.start(1)
        decision = decision_of(said[begin:])
        if decision is None:
            raise UnreadableAnswer("it does not settle on one decision")
        yield _labelled(said, decision, first.span(1), preferences)


def _labelled(said: str, decision: Decision, span: tuple[int, int], preferences: Sequence[str]) -> tuple[Answer, bool]:
    def line(pattern: re.Pattern[str]) -> str:
        match = pattern.search(said)
        return line_of(match.group(1)) if match else ""

    shared = Relevant(index=0, stance=stance_of(line(STANCE_LINE)), instruction=instruction_of(line(INSTRUCTION_LINE)))
    given: list[Any] = [
        {"preference": number, "stance": stance or None, "instruction": instruction}
        for number, stance, instruction in _PREFERENCE_LINE.findall(said)
    ]
    listed = line(_PREFERENCES_LINE)
    relevant = tuple(_relevant(given or listed, preferences, shared))
    return Answer(decision=decision, rationale=line(_RATIONALE_LINE), relevant=relevant, span=span), True
