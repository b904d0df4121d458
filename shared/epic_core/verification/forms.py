"""The forms an answer comes in: JSON, the paper's XML, labelled lines; well-formed or not, among other things."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from epic_core.types import Decision
from epic_core.verification.values import (
    DISCARD_WORDS,
    INSTRUCTION_KEYS,
    KEEP_WORDS,
    NUMBER_KEYS,
    PREFERENCES_KEYS,
    RATIONALE_KEYS,
    Answer,
    Record,
    Relevant,
    UnreadableAnswer,
    decision_in,
    decision_of,
    line_of,
    places_of,
    stance_of,
    value_of,
)

_LONGEST_ANSWER = 20_000
_DEEPEST = 4

_THINKING = re.compile(
    r"<(think|thinking|thought|reasoning|analysis)>.*?</\1>|\[think\].*?\[/think\]|◁think▷.*?◁/think▷", re.I | re.S
)
_THINKING_ENDS = re.compile(r"</(?:think|thinking|thought|reasoning|analysis)>|\[/think\]|◁/think▷", re.I)
_THINKING_BEGINS = re.compile(r"<(?:think|thinking|thought|reasoning|analysis)>|\[think\]|◁think▷", re.I)
_FINAL_CHANNEL = re.compile(r"<\|channel\|>final(?:<\|[^|]*\|>[^<]*)*?<\|message\|>", re.I)
_TEMPLATE_TOKEN = re.compile(r"<\|[^|<>]{1,30}\|>|</s>")

_KEY = r"(?:decision|verdict|judge?ment|action|label|answer|result)"
_STATED = re.compile(rf"""["']{_KEY}["']\s*:\s*["']\W{{0,3}}((keep|discard)[^,}}\n]{{0,80}})""", re.I)
_STATED_SOMEHOW = re.compile(
    rf"""\b{_KEY}["']?\s*[:=]\s*["']?[^\w\n{{}}\[\]]{{0,3}}((keep|discard)[^,}}\n]{{0,80}})""", re.I
)
_LABEL = r"^[^\w\n]{{0,20}}_{{0,4}}{}\s*(?:\([^)\n]*\))?[\s*_]{{0,20}}[:=–-][ \t*_]{{0,20}}(.*)$"
_DECISION_LINE = re.compile(_LABEL.format(r"(?:final\s+)?(?:decision|verdict)"), re.I | re.M)
_RATIONALE_LINE = re.compile(_LABEL.format(r"(?:rationale|reason(?:ing)?|explanation)"), re.I | re.M)
_PREFERENCES_LINE = re.compile(_LABEL.format(r"(?:relevant\s+|matched\s+)?preferences?(?:\s+numbers?)?"), re.I | re.M)
INSTRUCTION_LINE = re.compile(_LABEL.format(r"instructions?"), re.I | re.M)
STANCE_LINE = re.compile(_LABEL.format(r"stance"), re.I | re.M)
_PREFERENCE_LINE = re.compile(r"^[^\w\n]{0,20}preference\s*#?(\d+)\s*(?:\(([^)\n]*)\))?\s*[:=–-]\s*(.+)$", re.I | re.M)
_FIRST_WORD = re.compile(r"^\W*(keep|discard)\b", re.I)


# the answer without what is not part of it


def said_in(text: str) -> str:
    """What was said aloud, everything else blanked out so that positions stay."""
    text = text[:_LONGEST_ANSWER]
    for final in list(_FINAL_CHANNEL.finditer(text))[-1:]:
        text = " " * final.end() + text[final.end() :]
    text = _THINKING.sub(_blank, text)
    ends = list(_THINKING_ENDS.finditer(text))
    if ends:
        text = " " * ends[-1].end() + text[ends[-1].end() :]
    begun = _THINKING_BEGINS.search(text)
    if begun:
        text = text[: begun.start()]
    return _TEMPLATE_TOKEN.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    return " " * (match.end() - match.start())


# JSON


def json_values(said: str) -> Iterator[tuple[Any, bool]]:
    """Top-level objects and lists, and whether each is whole."""
    for value, whole, _, _ in _json_pieces(said):
        yield value, whole


def _json_pieces(said: str) -> Iterator[tuple[Any, bool, bool, tuple[int, int]]]:
    """Top-level objects and lists: value, whether it is whole, whether it is strict JSON, begin and end."""
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_object)
    place, broken = 0, None
    while (opening := re.compile(r"[{\[]").search(said, place)) is not None:
        try:
            value, end = decoder.raw_decode(said, opening.start())
        except (ValueError, RecursionError):
            broken = opening.start() if broken is None else broken
            place = opening.end()
            continue
        yield value, True, True, (opening.start(), end)
        place = end
    if broken is not None:
        yield from _repaired(said, broken)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; what is said twice under one name is both."""
    made: dict[str, Any] = {}
    for key, value in pairs:
        twice = isinstance(made.get(key), str) and isinstance(value, str) and made[key] != value
        made[key] = f"{made[key]} / {value}" if twice else value
    return made


def _repaired(said: str, begin: int) -> Iterator[tuple[Any, bool, bool, tuple[int, int]]]:
    import json_repair

    piece = re.split(r"\n\s*```", said[begin:], maxsplit=1)[0]
    try:
        value = json_repair.loads(piece)
    except (ValueError, RecursionError):
        return
    if isinstance(value, (dict, list)) and value:
        yield value, _closed(piece), False, (begin, begin + len(piece))


def _closed(piece: str) -> bool:
    """Whether what was opened was closed, so that the last string in it is whole."""
    return piece.rstrip().rstrip("`.,; \n").endswith(("}", "]"))


def json_records(said: str) -> Iterator[tuple[Record, tuple[int, int] | None, bool]]:
    """Objects that state a decision, with the decision's place, and whether they are whole."""
    for value, whole, strict, (begin, end) in _json_pieces(said):
        records = [record for record in mappings(value) if decision_in(record) is not None]
        stated = list((_STATED if strict else _STATED_SOMEHOW).finditer(said, begin, end))
        if not strict and any(decision_of(match.group(1)) is None for match in stated):
            raise UnreadableAnswer("it does not settle on one decision")
        spans = [match.span(2) for match in stated]
        certain = len(spans) == len(records)
        for place, record in enumerate(records):
            yield record, spans[place] if certain else None, whole


def mappings(value: Any, depth: int = 0) -> Iterator[Record]:
    """An object and the objects inside it, but not those inside one that states a decision."""
    if isinstance(value, Mapping):
        yield value
        if depth < _DEEPEST and decision_in(value) is None:
            for inner in value.values():
                yield from mappings(inner, depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST:
        for inner in value:
            yield from mappings(inner, depth + 1)


def json_answers(said: str, preferences: Sequence[str]) -> Iterator[tuple[Answer, bool]]:
    """What JSON in an answer states, and whether it is whole."""
    for record, span, whole in json_records(said):
        answer = answer_of(record, preferences, span)
        if answer is not None:
            yield answer, whole


def answer_of(record: Record, preferences: Sequence[str], span: tuple[int, int] | None) -> Answer | None:
    """What one object states, if it states a decision."""
    decision = decision_in(record)
    if decision is None:
        return None
    shared = Relevant(
        index=0,
        stance=stance_of(value_of(record, ("stance",))),
        instruction=line_of(value_of(record, INSTRUCTION_KEYS)),
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
    for one in _each(given):
        if isinstance(one, Mapping):
            places = places_of(value_of(one, NUMBER_KEYS), preferences)
            stance = value_of(one, ("stance",))
            instruction = line_of(value_of(one, INSTRUCTION_KEYS))
        else:
            places, stance, instruction = places_of(one, preferences), None, ""
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
            inner = value if isinstance(value, Mapping) else {"instruction": value}
            yield {**inner, "preference": key}
    else:
        yield given


# XML


def xml_answers(said: str, preferences: Sequence[str]) -> Iterator[tuple[Answer, bool]]:
    """What XML in an answer states: the paper's form, and what models make of it."""
    for match in re.finditer(r"<decision\b[^>]*>\s*(.*?)\s*(?:</\s*decision\s*>|<|\n|$)", said, re.I | re.S):
        decision = decision_of(match.group(1))
        if decision is None:
            raise UnreadableAnswer(f"its decision is {line_of(match.group(1))[:40]!r}, neither Keep nor Discard")
        rest = said[match.end() :]
        following = re.search(r"<decision\b", rest, re.I)
        block = rest[: following.start()] if following else rest
        before = said[: match.start()]
        shared = Relevant(
            index=0, stance=stance_of(tag("stance", block)), instruction=line_of(tag("instruction", block))
        )
        word = re.search(r"keep|discard", match.group(1), re.I)
        start = match.start(1)
        yield (
            Answer(
                decision=decision,
                rationale=line_of(tag("reason", block) or tag("rationale", block) or tag("reason", before)),
                relevant=tuple(_xml_relevant(block, preferences, shared)),
                span=(start + word.start(), start + word.end()) if word else None,
            ),
            True,
        )


def _xml_relevant(block: str, preferences: Sequence[str], shared: Relevant) -> Iterator[Relevant]:
    listed = tag("relevant_preferences", block) or tag("preferences", block) or tag("relevant_preference", block)
    inside = re.findall(r"<preference\b([^>]*)>(.*?)</\s*preference\s*>", listed or block, re.I | re.S)
    given: list[Any] = []
    for attributes, content in inside:
        number = re.search(r"""(?:number|id|index|n)\s*=\s*["']?(\d+)""", attributes, re.I)
        stance = re.search(r"""stance\s*=\s*["']?(\w+)""", attributes, re.I)
        plain = line_of(re.sub(r"<(\w+)\b[^>]*>.*?</\1>", " ", content, flags=re.S))
        given.append(
            {
                "preference": number.group(1) if number else (tag("number", content) or tag("text", content) or plain),
                "stance": stance.group(1) if stance else (tag("stance", content) or None),
                "instruction": tag("instruction", content) or (plain if number else ""),
            }
        )
    if not given and listed:
        given = [line for line in re.sub(r"<[^>]*>", "\n", listed).splitlines() if line.strip()]
    yield from _relevant(given, preferences, shared)


def tag(name: str, text: str) -> str:
    """What stands in the first pair of these tags; empty if there is none."""
    match = re.search(rf"<{name}\b[^>]*>(.*?)</\s*{name}\s*>", text, re.I | re.S)
    return match.group(1).strip() if match else ""


# plain lines


def line_answers(said: str, preferences: Sequence[str]) -> Iterator[tuple[Answer, bool]]:
    """What labelled lines state, or an answer that begins with its decision."""
    stated = list(_DECISION_LINE.finditer(said))
    for match in stated:
        decision = decision_of(match.group(1))
        if decision is None:
            raise UnreadableAnswer(f"its decision is {line_of(match.group(1))[:40]!r}, neither Keep nor Discard")
        word = re.search(r"keep|discard", match.group(1), re.I)
        start = match.start(1)
        yield _labelled(said, decision, (start + word.start(), start + word.end()) if word else None, preferences)
    if stated:
        return
    first = _FIRST_WORD.match(said)
    if first:
        words = set(re.findall(r"[a-z]+", said.casefold()))
        decision = Decision.KEEP if first.group(1).casefold() == "keep" else Decision.DISCARD
        if words & (DISCARD_WORDS if decision is Decision.KEEP else KEEP_WORDS):
            raise UnreadableAnswer("it names both decisions")
        yield _labelled(said, decision, first.span(1), preferences)


def _labelled(
    said: str, decision: Decision, span: tuple[int, int] | None, preferences: Sequence[str]
) -> tuple[Answer, bool]:
    def line(pattern: re.Pattern[str]) -> str:
        match = pattern.search(said)
        return line_of(match.group(1)) if match else ""

    shared = Relevant(index=0, stance=stance_of(line(STANCE_LINE)), instruction=line(INSTRUCTION_LINE))
    given: list[Any] = [
        {"preference": number, "stance": stance or None, "instruction": instruction}
        for number, stance, instruction in _PREFERENCE_LINE.findall(said)
    ]
    listed = line(_PREFERENCES_LINE)
    relevant = tuple(_relevant(given or listed, preferences, shared))
    return Answer(decision=decision, rationale=line(_RATIONALE_LINE), relevant=relevant, span=span), True
