"""Values of an answer: the forms that a decision, a number, a stance or a text may have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from epic_core.lm.answers import Record, UnreadableAnswer, is_no, letters, line_of, value_of
from epic_core.types import Decision, Stance

# Most entries of a list of preferences that are examined: this many, plus this many times the number of preferences.
_FEWEST_LISTED = 16
_LISTED_TIMES = 4
_LONGEST_NUMBERS = 300
# Fewest letters with which a part of a preference can stand for it.
_SHORTEST_PART = 12

_DECISION_KEYS = ("decision", "verdict", "judgement", "judgment")
# These keys may hold a decision, or something else.
_POSSIBLE_DECISION_KEYS = ("action", "label", "answer", "result")
_RATIONALE_KEYS = ("rationale", "reason", "reasoning", "explanation", "why")
_PREFERENCES_KEYS = ("preferences", "relevantpreferences", "relevantpreference", "relevant", "preference", "matches")
_NUMBER_KEYS = ("preference", "number", "preferencenumber", "preferenceid", "id", "index", "text", "relevantpreference")
INSTRUCTION_KEYS = ("instruction", "instructions", "guidance")
_RELEVANCE_KEYS = ("relevant", "isrelevant", "relevance", "applies", "applicable", "match", "matches")
CHUNK_KEYS = ("chunk", "chunknumber", "number", "index", "id", "item", "document")
TEXT_KEYS = ("text", "rewrite", "rewritten", "rewrittenchunk", "chunk", "content", "answer")

_KEEP_WORDS, _DISCARD_WORDS = {"keep", "keeps", "keeping"}, {"discard", "discards", "discarded", "discarding"}
_DOUBT = frozenset(
    re.findall(
        r"\w+",
        "not no non don dont never or nor neither either cannot maybe perhaps possibly unless if whether isn t vs "
        "versus would could should might unsure uncertain unclear depends wrong incorrect false",
    )
)
_SENTENCE_ENDS = re.compile(r"[.!]\s|\n")
_ONE_NUMBER = r"(?:(?:preferences?|prefs?|numbers?|no|nr|p)[\s.#:]{0,5}|#)?\d+"
_NUMBERS = re.compile(rf"^\W{{0,20}}{_ONE_NUMBER}(?:(?: ?[,;/&] ?(?:and )?| and | ){_ONE_NUMBER})*\W{{0,20}}$", re.I)
_NO = re.compile(r"\W{0,9}(?:no|none|not|false|never|irrelevant|unrelated|n/a)\b", re.I)
_YES = re.compile(r"\W{0,9}(?:yes|true|relevant)\b", re.I)
_LEADING_NUMBER = re.compile(r"^\W*(?:preference\s*|p)?#?(\d{1,5})\s*[.):\]-]+\s*(.+)$", re.I | re.S)


@dataclass(frozen=True, kw_only=True)
class Relevant:
    """One relevant preference of an answer: its place in the list that was shown, from 0."""

    index: int
    stance: Stance = Stance.NEUTRAL
    instruction: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A decision as a model stated it: Keep or Discard.

    Attributes:
        relevant: P'_rel(x), at least one for Keep.
        span: The position of the decision word in the answer; None if it is not certain.
    """

    decision: Decision
    rationale: str = ""
    relevant: tuple[Relevant, ...] = ()
    span: tuple[int, int] | None = None


def stated_in(record: Record) -> set[Decision | None]:
    """Return the decisions that an object states; None among them stands for an unclear one."""
    stated: set[Decision | None] = set()
    for key, value in record.items():
        name = letters(key) if isinstance(key, str) else ""
        if name == "keep" and isinstance(value, bool):
            stated.add(Decision.KEEP if value else Decision.DISCARD)
        elif name == "discard" and value is True:
            stated.add(Decision.DISCARD)
        elif isinstance(value, str) and (
            name in _DECISION_KEYS or (name in _POSSIBLE_DECISION_KEYS and names_decision(value))
        ):
            stated.add(decision_of(value))
    return stated


def decision_of(value: str) -> Decision | None:
    """Return Keep or Discard if a text begins with one of them and does not cast doubt on it, else None."""
    words = _words(value)
    if not words or words[0] not in _KEEP_WORDS | _DISCARD_WORDS:
        return None
    keeps, discards = bool(_KEEP_WORDS & set(words)), bool(_DISCARD_WORDS & set(words))
    said = _SENTENCE_ENDS.split(value.strip(), maxsplit=1)[0]
    if keeps == discards or "?" in said or _DOUBT & set(_words(said)):
        return None
    return Decision.KEEP if keeps else Decision.DISCARD


def names_decision(value: str) -> bool:
    """Tell whether a text names a decision, even if it doubts it."""
    return bool((_KEEP_WORDS | _DISCARD_WORDS) & set(_words(value)))


def _words(value: str) -> list[str]:
    return re.findall(r"[a-z]+", value.casefold())


def _places_of(value: Any, preferences: Sequence[str]) -> list[int]:
    """Return the places of the preferences meant by a number, several numbers, or a quoted text."""
    number = whole_number(value)
    if number is not None:
        return [number - 1] if 1 <= number <= len(preferences) else []
    if not isinstance(value, str) or not value.strip():
        return []
    value = " ".join(value.split())
    if len(value) <= _LONGEST_NUMBERS and _NUMBERS.match(value):
        numbers = [int(digits[:6]) for digits in re.findall(r"\d+", value)]
        return [number - 1 for number in numbers if 1 <= number <= len(preferences)]
    leading = _LEADING_NUMBER.match(value)
    for text in (value, leading.group(2)) if leading else (value,):
        place = _quoted_place(text, preferences)
        if place is not None:
            return [place]
    # "1. quiet rooms" means the first preference; "1-3" does not.
    if leading and letters(leading.group(2)).strip("0123456789") and 1 <= int(leading.group(1)) <= len(preferences):
        return [int(leading.group(1)) - 1]
    return list(range(len(preferences))) if value.strip().casefold() in ("all", "all of them") else []


def _quoted_place(text: str, preferences: Sequence[str]) -> int | None:
    wanted, known = letters(text), _letters_of(tuple(preferences))
    if wanted and wanted in known:
        return known.index(wanted)
    if len(wanted) < _SHORTEST_PART:
        return None
    alike = (n for n, one in enumerate(known) if wanted in one or (len(one) >= _SHORTEST_PART and one in wanted))
    place = next(alike, None)
    return place if next(alike, None) is None else None


@lru_cache(maxsize=4)
def _letters_of(preferences: tuple[str, ...]) -> tuple[str, ...]:
    """Return the letters of preferences; cached, because an answer may quote them many times."""
    return tuple(letters(preference) for preference in preferences)


def whole_number(value: Any) -> int | None:
    """Return a value as a whole number, however it is written, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(?:chunk\s*)?#?(\d{1,6})\s*", value, re.I)):
        return int(match.group(1))
    return None


_STANCES = {
    re.compile("support|satisf"): Stance.SUPPORTS,
    re.compile("conflict|contradict|oppos"): Stance.CONFLICTS,
    re.compile("mix|both"): Stance.MIXED,
    re.compile("neutral"): Stance.NEUTRAL,
}


def stance_of(value: Any) -> Stance:
    """Return the stance that a word begins with; neutral if there is none.

    Raises:
        UnreadableAnswer: for anything else than one of the four stances.
    """
    if value is None or value == "" or is_no(value):
        return Stance.NEUTRAL
    word = letters(value) if isinstance(value, str) else ""
    named = {stance for words, stance in _STANCES.items() if words.search(word)}
    for words, stance in _STANCES.items():
        # "mixed: it supports ..., but conflicts with ..." is one stance, "supports | conflicts" is none.
        if words.match(word) and (stance is Stance.MIXED or named == {stance}):
            return stance
    raise UnreadableAnswer(f"its stance is {line_of(value)[:40]!r}, which is none of {', '.join(Stance)}")


def relevance_of(record: Record) -> bool | None:
    """Tell whether an object calls its subject relevant; None if it does not say."""
    values = [value for key, value in record.items() if isinstance(key, str) and letters(key) in _RELEVANCE_KEYS]
    if any(is_no(value) or (isinstance(value, str) and _NO.match(value)) for value in values):
        return False
    return True if any(value is True or (isinstance(value, str) and _YES.match(value)) for value in values) else None


def instruction_of(value: Any) -> str:
    """Return an instruction on one line; empty for a value without meaning, such as a dash, "N/A" or "..."."""
    line = line_of(value)
    says_something = re.search(r"[^\W\d_]", line) and (" " in line or not line.isascii())
    return line if says_something else ""


def answer_in(record: Record, preferences: Sequence[str], span: tuple[int, int] | None) -> Answer:
    """Return the answer that one object states, if it settles on one decision, with the place of the decision word."""
    decisions = stated_in(record)
    decision = decisions.pop() if len(decisions) == 1 else None
    if decision is None or relevance_of(record) is (decision is Decision.DISCARD):
        raise UnreadableAnswer("it does not settle on one decision, Keep or Discard")
    return Answer(
        decision=decision,
        rationale=line_of(value_of(record, _RATIONALE_KEYS)),
        relevant=tuple(_relevant(record, preferences)) if decision is Decision.KEEP else (),
        span=span,
    )


def _relevant(record: Record, preferences: Sequence[str]) -> Iterator[Relevant]:
    """Yield the relevant preferences of an object, each once."""
    shared = value_of(record, ("stance",)), instruction_of(value_of(record, INSTRUCTION_KEYS))
    given = value_of(record, _PREFERENCES_KEYS)
    if given is None or given in ("", []):
        # With a single preference, a Keep can mean only that one.
        if len(preferences) == 1:
            yield Relevant(index=0, stance=stance_of(shared[0]), instruction=shared[1])
        return
    seen: set[int] = set()
    # This limit allows each preference to be listed several times.
    for one in islice(_each(given), _FEWEST_LISTED + _LISTED_TIMES * len(preferences)):
        if isinstance(one, Mapping):
            if Decision.DISCARD in stated_in(one) or relevance_of(one) is False:
                continue
            places = _places_of(value_of(one, _NUMBER_KEYS), preferences)
            stance = value_of(one, ("stance",))
            instruction = instruction_of(value_of(one, INSTRUCTION_KEYS))
        else:
            places, stance, instruction = _places_of(one, preferences), None, ""
        if " " in instruction and is_no(instruction):
            continue
        for place in places:
            if place not in seen:
                seen.add(place)
                yield Relevant(
                    index=place,
                    stance=stance_of(shared[0] if stance is None else stance),
                    instruction=instruction or shared[1],
                )


def _each(given: Any) -> Iterator[Any]:
    if isinstance(given, list):
        yield from given
    elif isinstance(given, Mapping) and value_of(given, _NUMBER_KEYS) is None:
        # Numbers as keys: {"1": {"stance": ..., "instruction": ...}} or {"1": "instruction"}
        for key, value in given.items():
            if value is not None and not is_no(value):
                inner = value if isinstance(value, Mapping) else {"instruction": value}
                yield {**inner, "preference": key}
    else:
        yield given
