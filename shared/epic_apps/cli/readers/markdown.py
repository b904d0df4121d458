"""Readers of plain text, and of Markdown by its headings, with the links, tags and front matter of Obsidian."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from epic_apps.cli.readers.base import Left, Outline, Section, library, text_of
from epic_memory.errors import MissingExtraError

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_FRONT = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_TAG = re.compile(r"(?<![^\s(,;])#([^\W\d_][\w/-]{0,99})")
_WIKI_LINK = re.compile(r"\[\[([^\[\]|#\n]{1,200})")
_LINK = re.compile(r"\]\(<?([^\s()<>]{1,500})")
# Front matter in which what clips pages, and readers' apps, name the page.
_CLIPPED = ("source", "url", "link")
_ADDRESS = re.compile(r"https?://\S", re.IGNORECASE)
_NESTS = re.compile(r"[\[{]|[-?] ")
_MOST = 50
# The library takes time that grows with the square of what is nested.
_LONGEST_FRONT, _MOST_NESTED = 20_000, 200


def read_text(path: Path) -> Iterator[Section | Left]:
    """Read a text as one section."""
    if (text := text_of(path)).strip():
        yield Section(text)


def read_markdown(path: Path) -> Iterator[Section | Left]:
    """Read Markdown as a section for each heading that has a text; headings inside code are none."""
    text = text_of(path).replace("\r\n", "\n")
    metadata: dict[str, Any] = {}
    if front := _FRONT.match(text):
        try:
            metadata = _front_matter(front[1])
        except (ValueError, MissingExtraError) as error:
            yield Left(f"{path}: its front matter. {error}")
        else:
            text = text[front.end() :]
    address = next((each for key in _CLIPPED if _ADDRESS.match(each := str(metadata.get(key, "")))), None)
    if address is not None:
        metadata |= {"link": address, "origin": "page"}
    tags = _words(metadata.pop("tags", metadata.pop("tag", ())))
    for section in _sections(text):
        found = [*tags, *_TAG.findall(section.text)]
        links = [link.strip() for link in (*_WIKI_LINK.findall(section.text), *_LINK.findall(section.text))]
        named = {"tags": list(dict.fromkeys(found))[:_MOST], "links": list(dict.fromkeys(links))[:_MOST]}
        yield replace(section, metadata={**metadata, **{name: words for name, words in named.items() if words}})


def _sections(text: str) -> Iterator[Section]:
    outline, fence = Outline(), ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            # Only as many of the same marks end it, with nothing behind them.
            if mark and mark[1].startswith(fence) and not line.strip(f" {fence[0]}"):
                fence = ""
        elif mark:
            fence = mark[1]
        elif heading := _HEADING.match(line):
            yield from outline.heading(len(heading[1]), (heading[2] or "").rstrip().rstrip("#"))
            continue
        outline.line(line)
    yield from outline.end()


def _front_matter(text: str) -> dict[str, Any]:
    """Return front matter as JSON values.

    Raises:
        ValueError: for what is no YAML mapping, or hides a large one in aliases.
        MissingExtraError: if the library is not installed.
    """
    yaml = library("yaml")
    if len(text) > _LONGEST_FRONT:
        raise ValueError(f"It has more than {_LONGEST_FRONT} characters.")
    if len(_NESTS.findall(text)) > _MOST_NESTED:
        raise ValueError(f"It has more than {_MOST_NESTED} lists, mappings and list items.")
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, yaml.SafeLoader)):
            raise ValueError("It has aliases.")
        read = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"It is no YAML that is read here: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(read, dict | None):
        raise ValueError("It is no mapping.")
    metadata: dict[str, Any] = json.loads(
        json.dumps({str(key): value for key, value in (read or {}).items()}, default=str)
    )
    return metadata


def _words(tags: Any) -> list[str]:
    """Return tags given as a list, or as one text."""
    if isinstance(tags, str):
        tags = re.split(r"[\s,]+", tags)
    return [str(tag).lstrip("#") for tag in tags if str(tag).strip()] if isinstance(tags, Iterable) else []
