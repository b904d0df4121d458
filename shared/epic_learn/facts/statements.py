"""Statements about a user's life, taken apart: topic words, names, values (numbers, times, dates), signs of a change.

All of this is English. A statement in another language has words, but few values and no signs of a change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from epic_memory.text.phrases import sections, word_set
from epic_memory.text.stems import stem
from epic_memory.text.turns import MONTHS as CAPITAL_MONTHS


def _sign(lines: list[str]) -> re.Pattern[str]:
    """Return a pattern for whole words, from lines of alternatives."""
    either = "|".join(lines).replace("DAY_OR_MONTH", "|".join((*DAYS, *MONTHS)))
    return re.compile(rf"\b(?:{either})\b", re.I)


# data/words/statements.txt says what each section is for.
_WORDS = sections("statements", "epic_learn")
_UNITS, _TENS, DAYS = (" ".join(_WORDS[name]).split() for name in ("units", "tens", "days"))
MONTHS = [month.lower() for month in CAPITAL_MONTHS]
NUMBERS = {word: number for number, word in enumerate(_UNITS)} | {
    word: 10 * tens for tens, word in enumerate(_TENS, start=2)
}
_DAY = {name: day for day in DAYS for name in (day, day + "s")}
_HOUR = rf"(?:\d{{1,2}}|{'|'.join(_UNITS[1:13])})"
_CLOCK = re.compile(r"\b(\d{1,2})[.:](\d\d)(?!\d)")
_ON_THE_HOUR = re.compile(rf"\b(?:at|around|by|before|after|until) ({_HOUR})\b|\b({_HOUR}) ?(?:am|pm|o'clock)\b")
_DATED = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({'|'.join(MONTHS)})\b")
_DATED_FIRST = re.compile(rf"\b({'|'.join(MONTHS)}) (\d{{1,2}})(?:st|nd|rd|th)?\b")
_TOKEN = re.compile(r"[A-Za-zÀ-ÿ0-9][\w'#À-ÿ-]*(?:[.:,/]\d+|@[\w-]+|\.[a-z]{2,}\b)*")
_LOWER_NAMES = frozenset(_DAY) | frozenset(MONTHS) | {"i", "i'm", "i've", "i'd", "i'll", "mot"}
_NO_TOPIC = word_set(*_WORDS["no_topic"])
_NO_LEAD = (
    _NO_TOPIC
    | {*_DAY, *MONTHS, *NUMBERS}
    | word_set("poor old christmas easter summer winter home birthday just many people somebody")
)
_SIGNS = {
    **{name: _sign(_WORDS[name]) for name in ("now", "changed", "ended")},
    # Something new was begun, bought, found.
    "new": re.compile(
        r"(?:^|[,;:(-] ?)new\b|\b(?:my|our|the|a|an|got|have) (?:brand[- ])?new\b|\bnew (?:job|one|boss|code|number)\b"
        r"|\b(?:start(?:ed|ing) (?:at|a|as|with|on)|taken on|took (?:over|on)|taken (?:over|\w+ over)|joined|hired"
        r"|elected|promoted|bought|ordered|found|chosen|settled (?:on|in))\b",
        re.I,
    ),
}
SIGNS = ("now", "changed", "new", "ended")
CHANGES = frozenset({"now", "changed", "new"})


_THING_LINES = [line.split() for line in _WORDS["things"]]
_PHRASES = [word for line in _THING_LINES for word in line if "_" in word]
_THING_OF = {stem(word): f"#{number}" for number, line in enumerate(_THING_LINES) for word in line}


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement taken apart.

    Attributes:
        topic: The words that tell what it is about, small letters, each once, in order.
        names: The names in it, small letters.
        lead: Its first word in small letters, if that has a capital: a name, or any word that begins a sentence.
        when: Its weekdays, dates and times, normalised.
        numbers: Its other numbers and codes, normalised.
        signs: Which of `SIGNS` it has.
    """

    topic: tuple[str, ...]
    names: frozenset[str]
    lead: str
    when: frozenset[str]
    numbers: frozenset[str]
    signs: frozenset[str]

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the topic."""
        return frozenset(map(stem, self.topic))

    @cached_property
    def values(self) -> frozenset[str]:
        """Words that may have another value at another time, without names."""
        return self.when | self.numbers

    @cached_property
    def all_names(self) -> frozenset[str]:
        """Its names, and the word that it begins with, which may be one."""
        return self.names | {self.lead} if self.lead else self.names

    def begins_unlike(self, other: Statement) -> bool:
        """Tell whether it begins with a word of its own, as with a name: "Otto is feeding the cats"."""
        return bool(self.lead) and self.lead not in other.all_names and stem(self.lead) not in other.stems


@lru_cache(maxsize=4096)
def statement_of(text: str) -> Statement:
    """Return a statement taken apart."""
    text = " ".join(text.replace("’", "'").split())
    signs = frozenset(name for name, sign in _SIGNS.items() if sign.search(text))
    lower, when = _timed(text.lower())
    tokens = _TOKEN.findall(text)
    topic: dict[str, None] = {phrase: None for phrase in _PHRASES if phrase.replace("_", " ") in lower}
    names = {_bare(word) for word in tokens[1:] if word[0].isupper() and word.lower() not in _LOWER_NAMES}
    names = {name for name in names if name not in _NO_TOPIC and not any(map(str.isdigit, name))}
    lead = _bare(tokens[0]) if tokens and tokens[0][0].isupper() else ""
    if "'" in lead or not _NO_LEAD.isdisjoint({lead, *lead.split("-")}):
        lead = ""
    numbers: set[str] = set()
    for word in _TOKEN.findall(lower):
        bare = _bare(word)
        if any(map(str.isdigit, bare)) or "." in bare or "@" in bare:
            numbers.add(bare.replace(",", "").strip(".#"))
        elif bare in NUMBERS and bare != "one":
            numbers.add(str(NUMBERS[bare]))
        elif bare not in _NO_TOPIC and word not in _NO_TOPIC and bare not in names and len(bare) > 1:
            topic[bare] = None
    return Statement(
        topic=tuple(topic),
        names=frozenset(names),
        lead=lead,
        when=frozenset(when),
        numbers=frozenset(numbers),
        signs=signs,
    )


def thing_of(word: str) -> str:
    """Return the thing that a word speaks of; empty for none of those that are known."""
    return _THING_OF.get(stem(word), "")


def _bare(word: str) -> str:
    return re.sub(r"'s$|'$", "", word.lower()).strip("'-")


def _timed(lower: str) -> tuple[str, set[str]]:
    """Return a text without its days, dates and times, and those, normalised."""
    when: set[str] = set()

    def taken(value: str) -> str:
        when.add(value)
        return " "

    lower = _DATED.sub(lambda match: taken(f"{match[1]} {match[2]}"), lower)
    lower = _DATED_FIRST.sub(lambda match: taken(f"{match[2]} {match[1]}"), lower)
    lower = _CLOCK.sub(lambda match: taken(f"{int(match[1])}:{match[2]}"), lower)
    lower = _ON_THE_HOUR.sub(lambda match: taken(f"{NUMBERS.get(hour := match[1] or match[2], hour)}:00"), lower)
    for name in re.findall(r"[a-z]+", lower):
        if name in _DAY:
            when.add(_DAY[name])
        elif (name in MONTHS and name not in ("may", "march")) or name in ("noon", "midday", "midnight"):
            when.add(name)
    lower = re.sub(rf"\b(?:{'|'.join([*_DAY, *MONTHS, 'noon', 'midday', 'midnight'])})\b", " ", lower)
    return lower, when
