"""Readers of PDF by pages, and of Word documents by headings."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from epic_apps.cli.readers.base import Left, Outline, Section, archive_of, content_of, library
from epic_memory.errors import InvalidInputError

_MOST_PAGES = 10_000
_LONGEST_READING = 120.0
_HEADING = re.compile(r"heading ([1-9])$", re.IGNORECASE)


def read_pdf(path: Path) -> Iterator[Section | Left]:
    """Read a PDF as a section for each page that has a text; a scan has none."""
    pypdf = library("pypdf")
    content_of(path)  # refuses one that is too large
    began = time.monotonic()
    with pypdf.PdfReader(path) as reader:
        if reader.is_encrypted and not reader.decrypt(""):
            raise InvalidInputError(f"{path} needs a password. Save it without one.")
        title = str((reader.metadata or {}).get("/Title") or "").strip()[:500]
        count, empty = len(reader.pages), 0
        for number in range(1, count + 1):
            if number > _MOST_PAGES or time.monotonic() - began > _LONGEST_READING:
                yield Left(f"{path}: pages {number} to {count}, after {_LONGEST_READING:.0f} s or {_MOST_PAGES} pages")
                return
            try:
                text = reader.pages[number - 1].extract_text().strip()
            except Exception as error:
                yield Left(f"{path}: page {number} cannot be read ({_told(error)})")
                continue
            empty += not text
            if text:
                yield Section(text, metadata={"page": number, **({"title": title} if title else {})})
        if empty:
            yield Left(f"{path}: {empty} of {count} pages without text, such as scans", failed=False)


def read_docx(path: Path) -> Iterator[Section | Left]:
    """Read a Word document as a section for each heading that has a text; tables by their cells."""
    docx, qualified = library("docx"), library("docx.oxml.ns").qn
    archive_of(path).close()
    try:
        document = docx.Document(str(path))
    except (KeyError, ValueError) as error:
        raise InvalidInputError(f"{path} is no Word document that can be read ({_told(error)}).") from None
    levels = {style.style_id: _level(style.name or "") for style in document.styles}
    title = (document.core_properties.title or "").strip()[:500]
    paragraph_of, outline = library("docx.text.paragraph").Paragraph, Outline()
    metadata = {"title": title} if title else {}
    for element in document.element.body.iter(qualified("w:p")):
        text = paragraph_of(element, document).text
        if level := levels.get(element.style, 0):
            for section in outline.heading(level, text):
                yield replace(section, metadata=metadata)
        else:
            outline.line(text)
    for section in outline.end():
        yield replace(section, metadata=metadata)


def _level(style: str) -> int:
    if style.lower() == "title":
        return 1
    return int(found[1]) if (found := _HEADING.match(style)) else 0


def _told(error: Any) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
