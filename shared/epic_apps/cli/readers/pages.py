"""Readers of HTML, of bookmarks, of EPUB books, which are HTML in an archive, and of Evernote's notes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from epic_apps.cli.readers.base import Left, Outline, Section, archive_of, content_of, library
from epic_memory.errors import InvalidInputError
from epic_memory.types.validation import moment

# The parser stops at texts of this length, without a word.
_LARGEST_PAGE = _LARGEST_NOTE = 9_000_000
_LEVELS = {f"h{level}": level for level in range(1, 7)}
_UNSEEN = {"script", "style", "noscript", "template", "svg", "math", "iframe", "object"}
_INLINE = {"a", "abbr", "b", "bdi", "cite", "code", "em", "font", "i", "kbd", "mark", "q", "s", "small", "span"} | {
    *("strong", "sub", "sup", "time", "u", "var", "wbr", "img", "ins", "del", "label")
}
_CONTAINER = "META-INF/container.xml"
_HEADING_OF = "preceding-sibling::*[descendant-or-self::h3][1]/descendant-or-self::h3"
_BOOKMARKS = b"NETSCAPE-Bookmark-file"


class _Page:
    """A target of the parser's events: the text of a page, cut at its headings."""

    def __init__(self) -> None:
        self.title = ""
        self.sections: list[Section] = []
        self._outline = Outline()
        self._words: list[str] = []
        self._unseen = 0

    def start(self, tag: Any, attributes: Any) -> None:
        """Begin an element."""
        self._unseen += tag in _UNSEEN
        if tag not in _INLINE:
            self._break()

    def end(self, tag: Any) -> None:
        """End an element."""
        self._unseen -= tag in _UNSEEN
        if tag == "title" and not self.title:
            self.title = " ".join("".join(self._words).split())[:500]
            self._words = []
        elif tag in _LEVELS:
            self.sections += self._outline.heading(_LEVELS[tag], "".join(self._words))
            self._words = []
        elif tag not in _INLINE:
            self._break()

    def data(self, text: str) -> None:
        """Add text."""
        if not self._unseen:
            self._words.append(text)

    def close(self) -> _Page:
        """End the page."""
        self._break()
        self.sections += self._outline.end()
        return self

    def _break(self) -> None:
        if line := " ".join("".join(self._words).split()):
            self._outline.line(line)
        self._words = []


def page_of(content: bytes, encoding: str | None = None) -> tuple[str, list[Section]]:
    """Return the title and the sections of an HTML page.

    Raises:
        InvalidInputError: for a page that is too large.
    """
    etree = library("lxml.etree")
    if len(content) > _LARGEST_PAGE:
        raise InvalidInputError(f"It has more than {_LARGEST_PAGE // 1_000_000} MB of HTML. Divide it first.")
    if encoding is None:
        try:
            content.decode("utf-8")
            encoding = "utf-8"
        except UnicodeDecodeError:
            pass  # as the page says itself
    if not content.strip():
        return "", []
    page: _Page = etree.fromstring(content, etree.HTMLParser(target=_Page(), encoding=encoding, no_network=True))
    return page.title, page.sections


def read_html(path: Path) -> Iterator[Section | Left]:
    """Read a page as a section for each heading that has a text, without scripts; or bookmarks, one by one."""
    content = content_of(path)
    if _BOOKMARKS in content[:1000]:
        yield from _bookmarks(content)
        return
    title, sections = page_of(content)
    for section in sections:
        yield replace(section, metadata={"title": title} if title else {})


def _bookmarks(content: bytes) -> Iterator[Section]:
    """Yield each bookmark of a browser's export, under the folders that it is in."""
    etree = library("lxml.etree")
    root = etree.fromstring(content, etree.HTMLParser(encoding="utf-8", no_network=True))
    for link in root.iter("a"):
        name, address = " ".join("".join(link.itertext()).split()), link.get("href", "")
        if not name or not address.startswith(("http://", "https://")):
            continue
        # A parser of HTML puts a folder's list behind its heading, not into it.
        above = [folder.xpath(_HEADING_OF) for folder in reversed(list(link.iterancestors("dl")))]
        folders = [" ".join("".join(found[-1].itertext()).split()) for found in above if found]
        known = {"link": address, "title": name, "time": _time(link.get("add_date", ""))}
        yield Section(f"{name} ({address})", " > ".join(folders), {key: value for key, value in known.items() if value})


def _time(added: str) -> str:
    """Return when a bookmark was made, which browsers write in seconds, and some in milli- or microseconds."""
    try:
        seconds = int(added)
        return moment(seconds // (1 if seconds < 10**11 else 1000 if seconds < 10**14 else 10**6)).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


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
        "time": _created(note.findtext("created") or ""),
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


def _created(text: str) -> str:
    try:
        return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).isoformat()
    except ValueError:
        return ""


def read_epub(path: Path) -> Iterator[Section | Left]:
    """Read a book's pages in their order."""
    etree = library("lxml.etree")
    with archive_of(path) as archive:

        def xml(name: str) -> Any:
            parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
            return etree.fromstring(archive.read(name), parser)

        try:
            root = next(xml(_CONTAINER).iter("{*}rootfile")).get("full-path")
            package = xml(root)
            pages = {item.get("id"): item.get("href") for item in package.iter("{*}item")}
            order = [pages[each.get("idref")] for each in package.iter("{*}itemref")]
        except (KeyError, StopIteration, TypeError, etree.XMLSyntaxError) as error:
            raise InvalidInputError(f"{path} is no EPUB book that can be read ({error}).") from None
        title = next((" ".join((each.text or "").split()) for each in package.iter("{*}title")), "")[:500]
        for href in dict.fromkeys(order):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(root), unquote(href)))
            try:
                _, sections = page_of(archive.read(name))
            except Exception as error:
                yield Left(f"{path}: its page {name} cannot be read ({error})")
                continue
            for section in sections:
                yield replace(section, metadata={"title": title} if title else {})
