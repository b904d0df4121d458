"""Durations: for how long a statement holds, by its words and the time at which it was said."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone

from dateutil.easter import easter

from epic_memory.text.phrases import phrases
from epic_memory.text.statements import DAYS, MONTHS, NUMBERS
from epic_memory.text.times import iso_time

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
_YEAR = phrases("this year|(?:till|until) next year|(?:end|rest) of the year")
_UNTIL = (
    r"\b(?:(?:until|till|through)|(?:expires?|expiring|lapses?|runs? out|ends?|ending|valid)"
    r"(?: (?:on|until|till|through|up to|to|in))?) (?:the end of )?(?:[\w' ]{0,25} on )?"
)
# A number alone is no day: "open until 6". A year that is none of these is no reason to take the next one.
_IN_YEAR = r"(?:,? (?P<year>(?:19|20|21)\d\d))?\b(?![:/.-]?\d)(?!,? \d{4})"
_NAMED = rf"(?P<month>{'|'.join(MONTHS)})"
_DATES = (
    re.compile(rf"{_UNTIL}(?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_NAMED}{_IN_YEAR}", re.I),
    re.compile(rf"{_UNTIL}(?:the )?{_NAMED} (?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?{_IN_YEAR}", re.I),
)
_UNTIL_MONTH = re.compile(rf"{_UNTIL}{_NAMED} (?P<year>(?:19|20|21)\d\d)\b", re.I)
_UNTIL_FIGURES = re.compile(rf"{_UNTIL}(?P<date>\d{{1,4}}([/.-])\d{{1,2}}\2\d{{1,4}})\b", re.I)
_UNTIL_DAY_OF_MONTH = re.compile(rf"{_UNTIL}(?:the (?P<day>\d{{1,2}})|(?P<ordinal>\d{{1,2}})(?=st|nd|rd|th))", re.I)
_UNTIL_DAY = re.compile(rf"{_UNTIL}(?P<day>{'|'.join(DAYS)})\b", re.I)
_UNTIL_FEAST = re.compile(
    r"\b(?:until|till|through|before) (?P<feast>easter|christmas|xmas|new year)\b(?!,? \d{4})", re.I
)
_THIS_MONTH = re.compile(rf"\b(?:this|(?:until|till) the end of) {_NAMED}\b(?!,? \d{{4}})", re.I)
_NEXT_DAYS = re.compile(
    rf"\bthe next (?P<count>\d{{1,2}}|a|{'|'.join(NUMBERS)})(?: or so)? (?P<unit>day|week|month)s?\b", re.I
)
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30}
# What comes again each year does not end.
_AGAIN = re.compile(r"\b(?:every|each|always|yearly|annual\w*)\b", re.I)
# A limit alone, which what stands behind it has.
LIMIT = re.compile(
    r"\s*(?:(?:just|only|but|so|and) )*(?:(?:for|over|until|till|through) [\w' ]{3,40}|today|tonight|tomorrow|"
    r"(?:on |in )?this (?:time|once|morning|afternoon|evening|week\w*|month|year|trip)|just this once|right now)\s*",
    re.I,
)
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


def end_of_day(now: datetime, days: int = 0) -> datetime:
    """Return the last second of a day, or of one some days later."""
    return datetime.combine(now.date() + timedelta(days=days), time(23, 59, 59), now.tzinfo)


def end_of_fact(text: str) -> datetime | None:
    """Return the end that a fact states itself if it lies ahead: "My voucher expires on 14 May 2027"."""
    now = datetime.now(timezone.utc).astimezone()
    end = _in_calendar(_stated_end, text, now)
    return end if end is not None and end > now else None


def end_of(scope: str, now: datetime) -> datetime | None:
    """Return the end that is said: of the day, of the week, or of a day until which something holds."""
    return _in_calendar(_said_end, scope, now)


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
    end = _in_calendar(_date_alone, core, now)
    return (end_of_day(now, _UNKNOWN_END), False) if end is None else (end, True)


def _date_alone(words: str, now: datetime) -> datetime | None:
    from dateutil.parser import parse
    from dateutil.relativedelta import relativedelta

    if not re.search(r"[^\W\d_]", words):
        return None  # "6", or "03/04/2027", which can be read in two ways
    end = end_of_day(parse(words, default=end_of_day(now).replace(tzinfo=None)).replace(tzinfo=now.tzinfo))
    end = end if end > now else end + relativedelta(years=1)
    return end if now < end <= now + relativedelta(years=2) else None


def _in_calendar(find: Callable[[str, datetime], datetime | None], text: str, now: datetime) -> datetime | None:
    """Return the end that is found in a text; None for one that is beyond the year 9999, here or in UTC."""
    try:
        end = find(text, now)
        return end if end is None or end.astimezone(timezone.utc) else None
    except (OverflowError, ValueError):
        return None


def _stated_end(text: str, now: datetime) -> datetime | None:
    """Return the date that a text states as the end of what it says: until then, or for the next days from now.

    A date in figures that can be read in two ways, such as 03/04/2027, is none.
    """
    if _AGAIN.search(text):
        return None
    if match := _UNTIL_FIGURES.search(text):
        iso = iso_time(match["date"])
        return None if iso is None else datetime.combine(datetime.fromisoformat(iso), time(23, 59, 59), now.tzinfo)
    if match := _DATES[0].search(text) or _DATES[1].search(text):
        return _end_of_date(int(match["day"]), match["month"], match["year"], now)
    if match := _UNTIL_MONTH.search(text):
        return _end_of_month(match["month"], int(match["year"]), now)
    if match := _NEXT_DAYS.search(text):
        count = match["count"].casefold()
        number = int(count) if count.isdigit() else NUMBERS.get(count, 1)
        return end_of_day(now, number * _UNIT_DAYS[match["unit"].casefold()])
    return None


def _said_end(scope: str, now: datetime) -> datetime | None:
    if (end := _stated_end(scope, now)) is not None:
        return end
    if match := _UNTIL_DAY_OF_MONTH.search(scope):
        return _end_of_date(int(match["day"] or match["ordinal"]), None, None, now)
    if match := _UNTIL_DAY.search(scope):
        return end_of_day(now, (DAYS.index(match["day"].casefold()) - now.weekday()) % 7 or 7)
    if match := _UNTIL_FEAST.search(scope):
        return _end_of_feast(match["feast"].casefold(), now)
    if match := _THIS_MONTH.search(scope):
        month = MONTHS.index(match["month"].casefold()) + 1
        return _end_of_month(match["month"], now.year + (month < now.month), now)
    if _YEAR.search(scope):
        return _end_of_month("december", now.year, now)
    if _WEEK.search(scope):
        return end_of_day(now, 6 - now.weekday())
    if _MONTH.search(scope):
        return _end_of_month(MONTHS[now.month - 1], now.year, now)
    if re.search(r"\btomorrow\b", scope, re.I):
        return end_of_day(now, 1)
    return end_of_day(now) if _TODAY.search(scope) else None


def _end_of_feast(feast: str, now: datetime) -> datetime:
    """Return the end of the next Easter Sunday, Christmas Day or New Year's Eve."""
    for year in (now.year, now.year + 1):
        day = easter(year) if feast == "easter" else date(year, 12, 31 if feast == "new year" else 25)
        if day >= now.date():
            break
    return datetime.combine(day, time(23, 59, 59), now.tzinfo)


def _end_of_month(name: str, year: int, now: datetime) -> datetime:
    month = MONTHS.index(name.casefold()) + 1
    return datetime(year, month, monthrange(year, month)[1], 23, 59, 59, tzinfo=now.tzinfo)


def _end_of_date(day: int, month: str | None, year: str | None, now: datetime) -> datetime | None:
    """Return the end of the next date with a day of the month, and a month and a year if they are given, or None."""
    wanted = None if month is None else MONTHS.index(month.casefold()) + 1
    if year is not None and wanted is not None:
        return datetime(int(year), wanted, day, 23, 59, 59, tzinfo=now.tzinfo)
    for ahead in range(366):
        end = end_of_day(now, ahead)
        if end.day == day and wanted in (None, end.month):
            return end
    return None
