"""Forms of an answer other than JSON: an object's values, the paper's XML, and labelled lines."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from epic_core.lm.answers import Record, UnreadableAnswer, is_no, line_of, own_lines, value_of
from epic_core.types import Decision
from epic_core.verification.values import (
    INSTRUCTION_KEYS,
    NUMBER_KEYS,
    PREFERENCES_KEYS,
    RATIONALE_KEYS,
    Answer,
    Relevant,
    decision_of,
    instruction_of,
    names_decision,
    places_of,
    relevance_of,
    stance_of,
    stated_in,
)

# Most entries of a list of preferences that are examined: this many, plus this many times the number of preferences.
_FEWEST_LISTED = 16
_LISTED_TIMES = 4


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


# objects


def word_in(match: re.Match[str], group: int) -> tuple[int, int]:
    """Return where the decision word stands in a group of a match."""
    word = re.compile("keep|discard", re.I).search(match.string, *match.span(group))
    return word.span() if word else match.span(group)


def answer_of(record: Record, preferences: Sequence[str], span: tuple[int, int] | None) -> Answer:
    """Return the answer that one object states.

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
    """Yield the relevant preferences, each once; `shared` holds the values stated for all of them."""
    if given is None or given in ("", []):
        # With a single preference, a Keep can mean only that one.
        if len(preferences) == 1:
            yield shared
        return
    seen: set[int] = set()
    # This limit allows each preference to be listed several times.
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
    """Yield the answers that XML states, in the paper's form or in models' variants of it."""
    stated = list(re.finditer(r"<decision\b[^<>]{0,200}>([^<]*)", said, re.I))
    for match, following in zip(stated, [*stated[1:], None], strict=False):
        decision = decision_of(match.group(1))
        if decision is None:
            raise UnreadableAnswer(f"its decision is {line_of(match.group(1))[:40]!r}, neither Keep nor Discard")
        # The values of a decision may come before it, if there is no other decision.
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
    """Yield attributes and content of the elements with a name, as far as they are closed."""
    opening, closing = (re.compile(rf"<{slash}{name}\b([^<>]*)>", re.I) for slash in ("", r"/\s{0,3}"))
    begun = opening.search(text)
    while begun is not None and (ended := closing.search(text, begun.end())) is not None:
        yield begun.group(1), html.unescape(text[begun.end() : ended.start()]).strip()
        begun = opening.search(text, ended.end())


def tag(name: str, text: str) -> str:
    """Return the content of the first pair of these tags; empty if there is none."""
    return next((content for _, content in _elements(name, text)), "")


# plain lines


def line_answers(said: str, preferences: Sequence[str], *, alone: bool) -> Iterator[tuple[Answer, bool]]:
    """Yield the answers of labelled lines; or, if nothing else was stated, one that begins with its decision."""
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
