"""Reader of notes that Evernote, Apple Notes and others export as one .enex file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from epic_apps.cli.readers.base import Left, Section, library
from epic_apps.cli.readers.pages import page_of
from epic_memory.errors import InvalidInputError

_LARGEST_NOTE = 9_000_000


def read_enex(path: Path) -> Iterator[Section | Left]:
    """Read each note as sections, with its title, tags and times; a note clipped from the web is a page's text.

    One note at a time is held in memory, without its attachments' contents.
    """
    etree = library("lxml.etree")
    # No entity is expanded, so that the length of a text, such as an attachment's, is all that it can take.
    safe = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": True}
    events = etree.iterparse(str(path), events=("end",), tag=("note", "data"), **safe)
    number = 0
    try:
        for _, element in events:
            if element.tag == "data":
                element.clear()  # an attachment, which would be held up to the end of its note
                continue
            number += 1
            yield from _note(element, f"{path}, note {number}")
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise InvalidInputError(f"{path}: after {number} notes it is no ENEX ({error}). Export it anew.") from None


def _note(note: Any, place: str) -> Iterator[Section | Left]:
    title = " ".join((note.findtext("title") or "").split())[:200]
    content = (note.findtext("content") or "").encode()
    known: dict[str, Any] = {
        "title": title,
        "tags": [tag.text for tag in note.findall("tag") if tag.text],
        "time": _time(note.findtext("created") or ""),
        "link": note.findtext("note-attributes/source-url") or "",
        "author": note.findtext("note-attributes/author") or "",
    }
    if known["link"]:
        known["origin"] = "page"
    known = {name: value for name, value in known.items() if value}
    if len(content) > _LARGEST_NOTE:
        yield Left(f"{place} has more than {_LARGEST_NOTE // 1_000_000} MB")
        return
    if count := len(note.findall("resource")):
        yield Left(f"{place}: {count} attachments", failed=False)
    _, sections = page_of(content, "utf-8")
    for section in sections or ([Section(title)] if title else []):
        yield replace(section, metadata=known)
    if not sections and not title:
        yield Left(f"{place} has no text", failed=False)


def _time(text: str) -> str:
    try:
        return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).isoformat()
    except ValueError:
        return ""
