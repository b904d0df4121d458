"""Durations: for how long a statement holds, by its words and the time at which it was said."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, datetime, time, timedelta

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
UNTIL_DATE = re.compile(
    rf"\b(?:until|till|through) (?:[\w' ]{{0,25}} on )?(?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)?"
    rf"(?: (?P<month>{'|'.join(MONTHS)}))?\b(?![:/.-]\d)",
    re.I,
)
UNTIL_FIGURES = re.compile(r"\b(?:until|till|through) (?P<date>\d{1,4}([/.-])\d{1,2}\2\d{1,4})\b", re.I)
UNTIL_DAY = re.compile(rf"\b(?:until|till|through) (?:[\w' ]{{0,25}} on )?(?P<day>{'|'.join(DAYS)})\b", re.I)
UNTIL_FEAST = re.compile(r"\b(?:until|till|through|before) (?P<feast>easter|christmas|xmas|new year)\b", re.I)
THIS_MONTH = re.compile(
    rf"\b(?:(?:for|in|during|all)? ?this|(?:until|till) the end of) (?P<month>{'|'.join(MONTHS)})\b", re.I
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
    r"the next \w+ days)(?: only)?,?\s*$"
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


def end_of(scope: str, now: datetime) -> datetime | None:
    """Return the end that is said: of the day, of the week, or of a day until which something holds.

    A date in figures that can be read in two ways, such as 03/04/2027, is none.
    """
    if match := UNTIL_FIGURES.search(scope):
        iso = iso_time(match["date"])
        return None if iso is None else datetime.combine(datetime.fromisoformat(iso), time(23, 59, 59), now.tzinfo)
    if match := UNTIL_DATE.search(scope):
        return _end_of_date(int(match["day"]), match["month"], now)
    if match := UNTIL_DAY.search(scope):
        return end_of_day(now, (DAYS.index(match["day"].casefold()) - now.weekday()) % 7 or 7)
    if match := UNTIL_FEAST.search(scope):
        return _end_of_feast(match["feast"].casefold(), now)
    if match := NEXT_DAYS.search(scope):
        count = match["count"].casefold()
        return end_of_day(now, (_COUNTS.get(count) or int(count)) * _UNIT_DAYS[match["unit"].casefold()])
    if match := THIS_MONTH.search(scope):
        month = MONTHS.index(match["month"].casefold()) + 1
        year = now.year + (month < now.month)
        return datetime(year, month, monthrange(year, month)[1], 23, 59, 59, tzinfo=now.tzinfo)
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


def _end_of_date(day: int, month: str | None, now: datetime) -> datetime | None:
    """Return the end of the next date with a day of the month, and a month if one is given; None if there is none."""
    wanted = None if month is None else MONTHS.index(month.casefold()) + 1
    for ahead in range(366):
        end = end_of_day(now, ahead)
        if end.day == day and wanted in (None, end.month):
            return end
    return None
