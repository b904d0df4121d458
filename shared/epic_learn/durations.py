"""Durations: for how long a statement holds, by its words and the time at which it was said."""

from __future__ import annotations

import re
from datetime import datetime

from epic_learn.boundaries import phrases
from epic_learn.facts.statements import DAYS, MONTHS
from epic_learn.times import MONTH, UNTIL, end_of_date, end_of_day, end_of_month, in_calendar, stated_end

_TODAY = phrases(r"""
    (?:just |only )?(?:for )?today(?!'s)|tonight|this (?:time|once|morning|afternoon|evening)
    (?:just |only )?for (?:now|the moment)|right now|at the moment|(?:just )?for once|just once|for a change|this trip
    currently|temporarily|in the mood for
    (?:for|on|in) this (?:trip|one|meal|recipe|party|visit|stay|occasion|letter|e-?mail|invoice|text|post|report|game)
    for the (?:trip|meal|recipe|party|visit|stay|occasion)|for tonight's \w+|for the rest of the day
    for the next (?:\w+ )?(?:minutes|hours?)
    for the next (?:few|couple of) (?:days|hours)
""")
_WEEK = phrases("this week(?:end)?|(?:till|until) (?:the weekend|next week)|(?:end|rest) of the week")
_MONTH = phrases("this month|(?:till|until) next month|(?:end|rest) of the month")
_UNTIL_DAY_OF_MONTH = re.compile(rf"{UNTIL}(?:the (?P<day>\d{{1,2}})|(?P<ordinal>\d{{1,2}})(?=st|nd|rd|th))", re.I)
_UNTIL_DAY = re.compile(rf"{UNTIL}(?P<day>{'|'.join(DAYS)})\b", re.I)
_THIS_MONTH = re.compile(rf"\b(?:this|(?:until|till) the end of) {MONTH}\b(?!,? \d{{4}})", re.I)
_BEFORE_END = re.compile(
    r"(?:from .{1,30} to )?(?:(?:just|only|but|until|till|'?til|up|to|through|for|over|during|by|before|on|in|the|this|"
    r"these|next|coming) )*",
    re.I,
)
_DAY_IN_WORDS = re.compile(rf"\b(?:{'|'.join(DAYS)}|the \d{{1,2}}(?:st|nd|rd|th))\b", re.I)
# Days until what has an end that nobody can compute is over.
_UNKNOWN_END = 30
# Until when these hold nobody can say.
OPEN_END = re.compile(
    r"\b(?:until|till|this (?:term|year|summer|winter|spring|autumn|season)|next (?:week|month|few|two|three)|"
    r"for the next|for (?:a|two|three|\d+) (?:days?|weeks?|months?|few)|lent|easter|ramadan)\b",
    re.I,
)


def end_of(scope: str, now: datetime) -> datetime | None:
    """Return the end that is said: of the day, of the week, or of a day until which something holds."""
    return in_calendar(_said_end, scope, now)


def end_in_words(words: str, now: datetime) -> tuple[datetime, bool]:
    """Return the end that words alone mean ("till next Tuesday", "two weeks"), and whether they say a day.

    Where they do not ("while my knee heals"), it is some weeks ahead.
    """
    core = _BEFORE_END.sub("", words.strip(" .,;!"))
    nouns = [f"the {core}"] if core[:1].isalpha() else []
    days = [*nouns, *_DAY_IN_WORDS.findall(core)[-1:]]
    for said in (f"until {core}", f"the next {core}", words, *(f"until {day}" for day in days)):
        if (end := end_of(said, now)) is not None and end > now:
            return end, True
    return end_of_day(now, _UNKNOWN_END), False


def _said_end(scope: str, now: datetime) -> datetime | None:
    if (end := stated_end(scope, now)) is not None:
        return end
    if match := _UNTIL_DAY_OF_MONTH.search(scope):
        return end_of_date(int(match["day"] or match["ordinal"]), None, None, now)
    if match := _UNTIL_DAY.search(scope):
        return end_of_day(now, (DAYS.index(match["day"].casefold()) - now.weekday()) % 7 or 7)
    if match := _THIS_MONTH.search(scope):
        month = MONTHS.index(match["month"].casefold()) + 1
        return end_of_month(match["month"], now.year + (month < now.month), now)
    if _WEEK.search(scope):
        return end_of_day(now, 6 - now.weekday())
    if _MONTH.search(scope):
        return end_of_month(MONTHS[now.month - 1], now.year, now)
    if re.search(r"\btomorrow\b", scope, re.I):
        return end_of_day(now, 1)
    return end_of_day(now) if _TODAY.search(scope) else None
