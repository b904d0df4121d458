"""Readers of files as sections of text, by the files' suffixes; each imports its library when it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from epic_apps.cli.readers.base import Left, Section
from epic_apps.cli.readers.cards import read_ics, read_vcf
from epic_apps.cli.readers.documents import read_docx, read_pdf
from epic_apps.cli.readers.mail import read_eml, read_mbox
from epic_apps.cli.readers.markdown import read_markdown, read_text
from epic_apps.cli.readers.pages import read_enex, read_epub, read_html

Reader: TypeAlias = Callable[[Path], Iterator[Section | Left]]

READERS: Mapping[str, Reader] = {
    ".txt": read_text,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".pdf": read_pdf,
    ".epub": read_epub,
    ".docx": read_docx,
    ".eml": read_eml,
    ".mbox": read_mbox,
    ".enex": read_enex,
    ".vcf": read_vcf,
    ".ics": read_ics,
}
"""The reader of each kind of document."""
