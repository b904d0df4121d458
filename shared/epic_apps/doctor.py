"""Checks of a memory's surroundings: its file, encoder, rights, the clients that use it; each with what to do."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

from epic_apps.connect import Client, entry_in, settings_path
from epic_apps.keys import key_for
from epic_memory import EpicMemory, Settings, __version__
from epic_memory.errors import EncoderError, EpicError, InvalidInputError

_LITTLE_SPACE = 100_000_000
_EXTRAS = {
    "files": ("lxml", "pypdf", "docx", "yaml"),
    "imports": ("icalendar", "ijson", "pathspec"),
    "watch": ("watchfiles",),
    "mcp": ("mcp",),
    "inspect": ("jinja2", "python_multipart", "starlette", "uvicorn"),
    "minilm": ("epic_minilm",),
    "multilingual": ("epic_multilingual",),
    "encryption": ("sqlcipher3",),
}


@dataclass(frozen=True, kw_only=True)
class Check:
    """Finding of one check.

    Attributes:
        about: What was looked at.
        state: "ok"; "note" for what may be wanted; "problem" for what does not work.
        found: What was found.
        do: What to do about it; empty for nothing.
    """

    about: str
    state: Literal["ok", "note", "problem"]
    found: str
    do: str = ""

    def __str__(self) -> str:
        sign = {"ok": "✓", "note": "·", "problem": "✗"}[self.state]
        return f"{sign} {self.about}: {self.found}" + (f"\n    {self.do}" if self.do else "")


def examine(path: str | Path | None = None, *, encoder: Any = None, namespace: str = "default") -> list[Check]:
    """Check the installation and the clients, and a memory's file if one is given. Nothing is changed.

    Args:
        path: The memory's file.
        encoder, namespace: As for `EpicMemory.open`.
    """
    version = f"epic-memory {__version__}, Python {sys.version.partition(' ')[0]}"
    checks = [Check(about="version", state="ok", found=version), *_extras()]
    if path is not None:
        checks += _file(Path(path), encoder, namespace)
    return [*checks, *_clients()]


def _extras() -> Iterator[Check]:
    missing = {extra: [each for each in needed if not find_spec(each)] for extra, needed in _EXTRAS.items()}
    there = [extra for extra, names in missing.items() if not names]
    yield Check(about="extras", state="ok", found=", ".join(there) or "none")
    gone = [extra for extra, names in missing.items() if names and extra not in ("minilm", "multilingual")]
    if gone:
        wanted = ",".join(gone)
        yield Check(
            about="extras", state="note", found=f"not installed: {', '.join(gone)}",
            do=f"If you need them: pip install 'epic-memory[{wanted}]'",
        )  # fmt: skip
    if not missing["mcp"]:
        yield Check(about="MCP", state="ok", found=f"SDK {metadata.version('mcp')}")


def _file(path: Path, encoder: Any, namespace: str) -> Iterator[Check]:
    if not path.is_file():
        made = f"Make it: epic onboard {path}, or epic import {path} SOURCE"
        yield Check(about="file", state="problem", found=f"there is no {path}", do=made)
        return
    try:
        settings = Settings(must_exist=True, read_only=True, namespace=namespace, key=key_for(path))
        with EpicMemory.open(path, encoder=encoder, settings=settings) as memory:
            rows, stats, waiting = memory.file.verify(), memory.stats(), len(memory.proposals)
            held = sum(stats.counts[name] for name in ("items", "light", "facts"))
            yield Check(
                about="file", state="ok",
                found=f"{path}, sound, {rows} rows, {held} texts, {len(memory.preferences)} preferences",
            )  # fmt: skip
            yield Check(about="encoder", state="ok", found=f"{stats.encoder}, as the file was made with")
    except EncoderError as error:
        yield Check(about="encoder", state="problem", found=str(error), do="Give --encoder NAME, or epic reencode.")
        return
    except EpicError as error:
        do = "Go back to a copy (epic backup makes them)."
        yield Check(about="file", state="problem", found=str(error), do=do)
        return
    if not stats.counts["preferences"]:
        do = f"epic onboard {path}, or epic import {path} SOURCE"
        yield Check(about="preferences", state="note", found="none: nothing ranks what is found", do=do)
    if waiting:
        yield Check(about="proposals", state="note", found=f"{waiting} wait for you", do=f"epic proposals {path}")
    if stats.waiting:
        yield Check(about="model", state="note", found=f"waiting: {stats.waiting}", do=f"epic retry {path} --llm MODEL")
    yield from _rights(path)


def _rights(path: Path) -> Iterator[Check]:
    status = path.stat()
    if os.name == "posix" and status.st_mode & 0o077:
        others = f"others on this machine may read it ({status.st_mode & 0o777:o})"
        yield Check(about="rights", state="note", found=others, do=f"chmod 600 {path}")
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        do = f"Give yourself the right to write into {path.parent}."
        yield Check(about="rights", state="problem", found=f"{path} or its folder cannot be written", do=do)
    free = shutil.disk_usage(path.parent).free
    if free < max(_LITTLE_SPACE, 2 * status.st_size):
        do = "Make room: a memory needs its own size again when it is compacted."
        yield Check(about="disk", state="problem", found=f"{free / 1e6:.0f} MB are free", do=do)


def _clients() -> Iterator[Check]:
    """Check the entries of the clients that are connected."""
    connected = False
    for client in get_args(Client):
        place = settings_path(client)
        if place is None or not place.is_file():
            continue
        try:
            entry = entry_in(client, place)
        except InvalidInputError:
            yield Check(about=client, state="note", found=f"{place} has comments or is broken: not looked into")
            continue
        if entry is not None:
            connected = True
            yield _client(client, entry)
    if not connected:
        do = f"epic connect CLIENT FILE; CLIENT is one of {', '.join(get_args(Client))}"
        yield Check(about="clients", state="note", found="none is connected", do=do)


def _client(client: str, entry: Any) -> Check:
    command = entry.get("command") if isinstance(entry, dict) else None
    arguments = entry.get("args") if isinstance(entry, dict) else None
    again = f"epic connect {client} FILE"
    if not isinstance(command, str) or not isinstance(arguments, list):
        return Check(about=client, state="problem", found="its entry is not as it should be", do=again)
    if not os.access(command, os.X_OK):
        return Check(about=client, state="problem", found=f"{command} is not there any more", do=again)
    given = [*map(str, arguments)]
    paths = (Path(two) for one, two in pairwise(given) if one != "--encoder")
    memory = next((each for each in paths if each.is_absolute() and each.is_file()), None)
    if memory is None:
        return Check(about=client, state="problem", found=f"no memory is there in {' '.join(given)}", do=again)
    return Check(about=client, state="ok", found=f"starts {command} with {memory}")
