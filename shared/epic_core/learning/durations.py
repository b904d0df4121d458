"""Durations: for how long a statement holds, by its words and the time at which it was said."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone

from dateutil.easter import easter

from epic_core.learning.conversations import iso_time
from epic_core.learning.vocabulary import anywhere, phrases
from epic_core.text.statements import DAYS, MONTHS

TODAY = phrases(r"""
    (?:just |only )?(?:for )?today
    tonight
    this (?:time|once|morning|afternoon|evening)
    (?:just |only )?for (?:now|the moment)
    (?:right now|at the moment|(?:just )?for once|just once|for a change|this trip|currently|temporarily|
        in the mood for)
    (?:for|on|in) this (?:trip|one|meal|recipe|party|visit|stay|occasion|letter|e-?mail|invoice|text|post|report|game)
    for the (?:trip|meal|recipe|party|visit|stay|occasion)|for tonight's \w+|for the rest of the day
    for the next (?:\w+ )?(?:minutes|hours?)
    for the next (?:few|couple of|two|three|\d) (?:days|hours)
""")
NOT_TODAY = phrases("today's\nthese days\nnowadays\nfrom now on")
WEEK = phrases(r"""
    this (?:week|weekend)
    (?:till|until) (?:sunday|the weekend|next week|the end of the week)
    for the rest of the week
""")
MONTH = phrases("this month\n(?:till|until) (?:the end of the|next) month\nfor the rest of the month")
YEAR = phrases("this year\n(?:till|until) (?:the end of the|next) year\nfor the rest of the year")
_UNTIL = (
    r"\b(?:(?:until|till|through)|(?:expires?|expiring|lapses?|runs? out|ends?|ending|valid)"
    r"(?: (?:on|until|till|through|up to|to|in))?) (?:the end of )?"
)
_ABOUT = r"(?:[\w' ]{0,25} on )?"
_YEAR = r"(?P<year>(?:19|20|21)\d\d)"
_MONTH = rf"(?P<month>{'|'.join(MONTHS)})"
# A year that is none of these is no reason to take the next one.
_NO_YEAR = r"(?!,? \d{4})"
_NO_MORE = rf"\b(?![:/.-]?\d){_NO_YEAR}"
# A number alone is no day: "open until 6".
UNTIL_DATE = re.compile(
    rf"{_UNTIL}{_ABOUT}(?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}(?:,? {_YEAR})?{_NO_MORE}", re.I
)
UNTIL_DATE_FIRST = re.compile(
    rf"{_UNTIL}{_ABOUT}(?:the )?{_MONTH} (?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,? {_YEAR})?{_NO_MORE}", re.I
)
UNTIL_MONTH = re.compile(rf"{_UNTIL}{_MONTH} {_YEAR}\b", re.I)
UNTIL_FIGURES = re.compile(rf"{_UNTIL}{_ABOUT}(?P<date>\d{{1,4}}([/.-])\d{{1,2}}\2\d{{1,4}})\b", re.I)
UNTIL_DAY_OF_MONTH = re.compile(
    rf"{_UNTIL}{_ABOUT}(?:the (?P<day>\d{{1,2}})|(?P<ordinal>\d{{1,2}})(?=st|nd|rd|th))", re.I
)
UNTIL_DAY = re.compile(rf"{_UNTIL}{_ABOUT}(?P<day>{'|'.join(DAYS)})\b", re.I)
# What comes again each year does not end.
_AGAIN = re.compile(r"\b(?:every|each|always|yearly|annual\w*)\b", re.I)
UNTIL_FEAST = re.compile(
    rf"\b(?:until|till|through|before) (?P<feast>easter|christmas|xmas|new year)\b{_NO_YEAR}", re.I
)
THIS_MONTH = re.compile(
    rf"\b(?:(?:for|in|during|all)? ?this|(?:until|till) the end of) (?P<month>{'|'.join(MONTHS)})\b{_NO_YEAR}", re.I
)
NEXT_DAYS = re.compile(
    r"\b(?:for |over |in )?the next (?P<count>\d{1,2}|a|one|two|three|four|five|six|seven|eight|nine)"
    r"(?: or so)? (?P<unit>day|week|month)s?\b",
    re.I,
)
_COUNTS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30}
TIME_IN_FRONT = anywhere(
    r"(?<!\w)(?:(?:just|only|but|so|and) )*(?:for )?(?:today|tonight|tomorrow|(?:right|for) now|^now|once|this \w+|"
    r"(?:until|till) (?:\w+ )?\w+|the rest of the (?:day|week)|(?:on |in )?this \w+|tonight's \w+|"
    r"the next \w+ (?:days?|weeks?|months?))(?: only)?,?\s*$"
)
# Where a limit stands in front of a sentence, whatever follows.
SENTENCE_LIMIT = re.compile(
    r"\s*(?:(?:just|only|but|so|and) )*(?:for|over|until|till|through) [^,.;]{3,40}?(?=,| (?:i|we|my|our|no)\b)", re.I
)
# Where a limit stands behind what a statement ends with: "window seats, please, this time".
TIME_BEHIND = re.compile(rf"[\s,]*(?:please[\s,]*)?(?:but )?{TODAY.pattern}", re.I)
# Until when these hold nobody can say.
OPEN_END = anywhere(
    r"\b(?:until|till|this (?:term|year|summer|winter|spring|autumn|season)|next (?:week|month|few|two|three)|"
    r"for the next|for (?:a|two|three|\d+) (?:days?|weeks?|months?|few)|lent|easter|ramadan)\b"
)


def end_of_day(now: datetime, days: int = 0) -> datetime:
    """Return the last second of a day, or of one some days later."""
    return datetime.combine(now.date() + timedelta(days=days), time(23, 59, 59), now.tzinfo)


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
    if match := UNTIL_FIGURES.search(text):
        iso = iso_time(match["date"])
        return None if iso is None else datetime.combine(datetime.fromisoformat(iso), time(23, 59, 59), now.tzinfo)
    if match := UNTIL_DATE.search(text) or UNTIL_DATE_FIRST.search(text):
        return _end_of_date(int(match["day"]), match["month"], match["year"], now)
    if match := UNTIL_MONTH.search(text):
        return _end_of_month(MONTHS.index(match["month"].casefold()) + 1, int(match["year"]), now)
    if match := NEXT_DAYS.search(text):
        count = match["count"].casefold()
        return end_of_day(now, (_COUNTS.get(count) or int(count)) * _UNIT_DAYS[match["unit"].casefold()])
    return None


def end_of_fact(text: str) -> datetime | None:
    """Return the end that a fact states itself if it lies ahead: "My voucher expires on 14 May 2027"."""
    now = datetime.now(timezone.utc).astimezone()
    end = _in_calendar(_stated_end, text, now)
    return end if end is not None and end > now else None


def end_of(scope: str, now: datetime) -> datetime | None:
    """Return the end that is said: of the day, of the week, or of a day until which something holds."""
    return _in_calendar(_said_end, scope, now)


def _said_end(scope: str, now: datetime) -> datetime | None:
    if (end := _stated_end(scope, now)) is not None:
        return end
    if match := UNTIL_DAY_OF_MONTH.search(scope):
        return _end_of_date(int(match["day"] or match["ordinal"]), None, None, now)
    if match := UNTIL_DAY.search(scope):
        return end_of_day(now, (DAYS.index(match["day"].casefold()) - now.weekday()) % 7 or 7)
    if match := UNTIL_FEAST.search(scope):
        return _end_of_feast(match["feast"].casefold(), now)
    if match := THIS_MONTH.search(scope):
        month = MONTHS.index(match["month"].casefold()) + 1
        return _end_of_month(month, now.year + (month < now.month), now)
    if YEAR.search(scope):
        return datetime(now.year, 12, 31, 23, 59, 59, tzinfo=now.tzinfo)
    if WEEK.search(scope):
        return end_of_day(now, 6 - now.weekday())
    if MONTH.search(scope):
        return end_of_day(now, monthrange(now.year, now.month)[1] - now.day)
    if re.search(r"\btomorrow\b", scope, re.I):
        return end_of_day(now, 1)
    return end_of_day(now) if TODAY.search(NOT_TODAY.sub("", scope)) else None


def _end_of_feast(feast: str, now: datetime) -> datetime:
    """Return the end of the next Easter Sunday, Christmas Day or New Year's Eve."""
    for year in (now.year, now.year + 1):
        day = easter(year) if feast == "easter" else date(year, 12, 31 if feast == "new year" else 25)
        if day >= now.date():
            break
    return datetime.combine(day, time(23, 59, 59), now.tzinfo)


def _end_of_month(month: int, year: int, now: datetime) -> datetime:
    return datetime(year, month, monthrange(year, month)[1], 23, 59, 59, tzinfo=now.tzinfo)


def _end_of_date(day: int, month: str | None, year: str | None, now: datetime) -> datetime | None:
    """Return the end of the next date with a day of the month, and a month and a year if they are given, or None."""
    wanted = None if month is None else MONTHS.index(month.casefold()) + 1
    if year is not None and wanted is not None:
        days = monthrange(int(year), wanted)[1]
        return datetime(int(year), wanted, day, 23, 59, 59, tzinfo=now.tzinfo) if 0 < day <= days else None
    for ahead in range(366):
        end = end_of_day(now, ahead)
        if end.day == day and wanted in (None, end.month):
            return end
    return None
