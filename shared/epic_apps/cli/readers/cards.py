"""Readers of address books (vCard) and calendars (iCalendar), each entry as a text of its own."""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

from epic_apps.cli.readers.base import Left, Section, content_of, library
from epic_memory.errors import InvalidInputError

_EXTRA = "imports"
_NAMES = {
    "ORG": "Organisation",
    "TITLE": "Title",
    "ROLE": "Role",
    "NICKNAME": "Nickname",
    "BDAY": "Birthday",
    "ANNIVERSARY": "Anniversary",
    "TEL": "Phone",
    "EMAIL": "E-mail",
    "ADR": "Address",
    "URL": "Page",
    "NOTE": "Note",
}
# Version 2.1 of vCard folds quoted-printable lines by an equals sign.
_SOFT_BREAK = re.compile(r"=\r?\n[ \t]?")
_ENTRIES = ("VEVENT", "VTODO", "VJOURNAL")
_BROKEN = (ValueError, IndexError, KeyError)
_ESCAPED = re.compile(r"\\([\\,;nN])")


def read_vcf(path: Path) -> Iterator[Section | Left]:
    """Read each card of an address book: name, organisation, birthday, phone, mail, address, note."""
    parser = library("icalendar.parser", _EXTRA)
    text = content_of(path).decode("utf-8-sig", "replace")
    if "QUOTED-PRINTABLE" in text.upper():
        text = _SOFT_BREAK.sub("", text)
    card: list[tuple[str, str]] | None = None
    number = 0
    for line in parser.Contentlines.from_ical(text):
        if not line:
            continue
        try:
            name, parameters, value = line.parts()
        except ValueError:
            continue  # a line that is none
        name = name.upper().rpartition(".")[2]
        if name == "BEGIN":
            card, number = [], number + 1
        elif name == "END":
            yield _card(card or [], f"{path}, card {number}")
            card = None
        elif card is not None:
            card.append((name, _value(value, parameters)))
    if card is not None:
        yield Left(f"{path}, card {number} has no end")
    if not number:
        raise InvalidInputError(f"{path} holds no card. Export it anew as vCard.")


def _value(value: str, parameters: Any) -> str:
    if "QUOTED-PRINTABLE" in str(parameters.get("ENCODING", "")).upper() or "QUOTED-PRINTABLE" in parameters:
        value = quopri.decodestring(value.encode()).decode("utf-8", "replace")
    parts = (_ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], part) for part in value.split(";"))
    return ", ".join(part.strip() for part in parts if part.strip())


def _card(card: list[tuple[str, str]], place: str) -> Section | Left:
    name = next((value for key, value in card if key == "FN" and value), "")
    name = name or next((value for key, value in card if key in ("N", "ORG", "EMAIL") and value), "")
    if not name:
        return Left(f"{place} has no name", failed=False)
    lines = [f"{_NAMES[key]}: {value}" for key, value in card if key in _NAMES and value]
    return Section("\n".join([name, *lines]), metadata={"title": name[:200], "kind": "contact"})


def read_ics(path: Path) -> Iterator[Section | Left]:
    """Read each event and task of a calendar: what, when, how often, where, with whom."""
    calendar_of, content = library("icalendar", _EXTRA).Calendar, content_of(path)
    entries: list[Any] = []
    try:
        entries += _entries(calendar_of.from_ical(content, multiple=True))
    except _BROKEN as error:
        pieces = _pieces(content.decode("utf-8-sig", "replace"))
        for number, piece in enumerate(pieces, start=1):
            try:
                entries += _entries(calendar_of.from_ical(piece, multiple=True))
            except _BROKEN as reason:
                yield Left(f"{path}, entry {number} cannot be read ({str(reason)[:200]})")
        if not entries:
            raise InvalidInputError(f"{path} is no calendar that can be read ({error}). Export it anew.") from None
    for entry in entries:
        for name, _ in entry.errors:
            yield Left(f"{path}: {name or 'a line'} of {str(entry.get('SUMMARY', ''))[:100]!r} cannot be read")
        try:
            yield _entry(entry, path)
        except (*_BROKEN, AttributeError, TypeError) as reason:
            yield Left(f"{path}: {str(entry.get('SUMMARY', ''))[:100]!r} cannot be read ({str(reason)[:200]})")


def _entries(calendars: Iterable[Any]) -> list[Any]:
    return [each for calendar in calendars for each in calendar.walk() if each.name in _ENTRIES]


def _pieces(text: str) -> list[str]:
    """Return each entry of a calendar as a calendar of its own: one that is broken spoils no other."""
    pieces, lines, kind = list[str](), list[str](), ""
    for line in text.split("\n"):
        mark, _, name = line.strip().upper().partition(":")
        if mark == "BEGIN" and name in _ENTRIES:
            kind, lines = name, []
        if kind:
            lines.append(line.rstrip("\r"))
        if kind and (mark, name) == ("END", kind):
            pieces.append("\r\n".join(["BEGIN:VCALENDAR", *lines, "END:VCALENDAR", ""]))
            kind = ""
    return pieces


def _entry(entry: Any, path: Path) -> Section | Left:
    title = " ".join(str(entry.get("SUMMARY", "")).split())
    if not title:
        return Left(f"{path}: an entry without a title", failed=False)
    starts, ends = _moment(entry.get("DTSTART") or entry.get("DUE")), _moment(entry.get("DTEND"))
    every = entry.get("RRULE")
    invited = entry.get("ATTENDEE") or []
    lines = {
        "When": f"{starts} to {ends}" if starts and ends and ends != starts else starts,
        "Repeats": "" if every is None else every.to_ical().decode("utf-8", "replace"),
        "Where": str(entry.get("LOCATION", "")),
        "With": ", ".join(filter(None, map(_person, invited if isinstance(invited, list) else [invited]))),
        "Notes": str(entry.get("DESCRIPTION", "")).strip(),
    }
    text = "\n".join([title, *(f"{name}: {value}" for name, value in lines.items() if value)])
    # An invitation is in the words of whoever sent it.
    origin = "other" if entry.get("ORGANIZER") is not None else ""
    known = {"title": title[:200], "time": starts, "kind": "event", "origin": origin}
    return Section(text, metadata={name: value for name, value in known.items() if value})


def _moment(value: Any) -> str:
    try:
        at = getattr(value, "dt", None)
    except (*_BROKEN, TypeError):
        return ""  # as no calendar writes it
    return at.isoformat() if isinstance(at, (date, datetime)) else ""


def _person(attendee: Any) -> str:
    name = str(getattr(attendee, "params", {}).get("CN", ""))
    return name or str(attendee).removeprefix("mailto:").removeprefix("MAILTO:")
