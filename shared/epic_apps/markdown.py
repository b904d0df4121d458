"""Markdown of a memory: a folder to read, with preferences that can be edited; edits come back as proposals."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

from epic_apps.cli.reasons import reason
from epic_learn.types import Proposal, plain
from epic_memory.errors import AlreadyThereError, InvalidInputError
from epic_memory.memory import EpicMemory
from epic_memory.types import Preference

MARK = "<!-- epic-memory export"
"""Beginning of each file that is written here: none of it is taken in again as a note."""

PREFERENCES = "preferences.md"
_FACTS, _KEPT = "facts.md", "kept.md"
_ID = 8
_LISTED = re.compile(r"<!-- epic-memory export: ([0-9a-f ]*) -->")
_LINE = re.compile(r"[ \t]*[-*+][ \t]+(.*?)[ \t]*(?:<!-- ([0-9a-f]{8}) -->)?[ \t]*$")
_HOW = """\
Edit this list, and give it back: epic sync FILE THIS_FOLDER. A line that you change, add or delete is a change that
waits for your decision: epic proposals FILE. Leave the marks behind the lines as they are.
"""


def export_markdown(memory: EpicMemory, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
    """Write preferences, facts and kept texts as Markdown, and return the files.

    Args:
        memory: The memory.
        folder: Where to; it is made if it is not there.
        overwrite: Whether files of an earlier export are replaced.

    Raises:
        AlreadyThereError: if one of the files is there already.
    """
    folder = Path(folder)
    contents = {PREFERENCES: _preferences(memory), _FACTS: _facts(memory), _KEPT: _kept(memory)}
    there = [folder / name for name in contents if (folder / name).exists()]
    if there and not overwrite:
        raise AlreadyThereError(f"{there[0]} is there already. Give another folder, or --overwrite.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in contents.items():
        with (folder / name).open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    return [folder / name for name in contents]


def is_export(path: Path) -> bool:
    """Tell whether a file was written by `export_markdown`."""
    if path.suffix.lower() != ".md":
        return False
    with path.open("rb") as file:
        return file.read(len(BOM_UTF8) + len(MARK)).removeprefix(BOM_UTF8).startswith(MARK.encode())


def edits_of(memory: EpicMemory, path: Path) -> list[Proposal]:
    """Propose the changes that the user has made in an exported list of preferences; return what waits of them.

    Args:
        memory: The memory.
        path: The file.

    Raises:
        InvalidInputError: if it is no text in UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is no text in UTF-8 ({error.reason} at byte {error.start}).") from None
    listed = _LISTED.match(text)
    held = {each.id[:_ID]: each for each in memory.preferences}
    known = {plain(each.text) for each in held.values()}
    left: set[str] = set()
    changes: list[Proposal] = []
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None or not found[1]:
            continue
        said, mark = found[1].strip(), found[2]
        old = held.get(mark) if mark and mark not in left else None
        if mark:
            left.add(mark)
        removed = old is None and mark and Preference(text=said).id.startswith(mark)
        if plain(said) in known or removed:  # not edited; the memory has lost it meanwhile, or not
            continue
        changes.append(_proposal(said, old))
    gone = [mark for mark in listed[1].split() if mark in held and mark not in left] if listed else []
    changes += [_proposal("", held[mark]) for mark in gone]
    return list(memory.proposals.add(changes, again=True))


def _proposal(text: str, old: Preference | None) -> Proposal:
    if old is None:
        return Proposal(kind="add_preference", text=text, quote=text, source=PREFERENCES)
    if not text:
        return Proposal(kind="remove_preference", old=old.text, quote=old.text, source=PREFERENCES)
    return Proposal(kind="replace_preference", text=text, old=old.text, quote=text, source=PREFERENCES)


def _preferences(memory: EpicMemory) -> Iterator[str]:
    ids = " ".join(each.id[:_ID] for each in memory.preferences)
    yield from (f"{MARK}: {ids} -->", "", "# Preferences", "", *_HOW.splitlines(), "")
    for each in memory.preferences:
        yield f"- {_one_line(each.text)} <!-- {each.id[:_ID]} -->"


def _facts(memory: EpicMemory) -> Iterator[str]:
    yield from (f"{MARK} -->", "", "# Facts", "")
    for item in memory.facts:
        until = f" (until {item.expires_at:%Y-%m-%d})" if item.expires_at else ""
        yield f"- {_one_line(item.text)}{until}"


def _kept(memory: EpicMemory) -> Iterator[str]:
    yield from (f"{MARK} -->", "", "# Kept, and why", "")
    items = [item for item in memory.items() if not item.fact]
    entries = memory.file.entries([item.id for item in items])
    for item in items:
        title = _one_line(str(item.metadata.get("title") or item.metadata.get("heading") or item.id))
        yield from (f"## {title}", "", *(f"> {line}" for line in item.text.splitlines()), "")
        yield from (f"- {reason(entry, item.text)}" for entry in entries.get(item.id, []))
        where = ", ".join(str(item.metadata[key]) for key in ("source", "time", "origin") if item.metadata.get(key))
        yield from ([f"- from {where}"] if where else [])
        yield ""


def _one_line(text: str) -> str:
    return " ".join(text.replace("<!--", "").replace("-->", "").split())
