"""Connection of assistants: the entry with which a client starts `epic mcp`, put into its settings and taken out."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from epic_memory.errors import InvalidInputError

Client: TypeAlias = Literal[
    "claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "zed", "lm-studio", "gemini", "codex", "open-webui"
]
"""Clients that start the server themselves, and the last, which connects to an address."""
SERVER = "epic-memory"
"""Name of our entry."""

_BACKUP = ".before-epic-memory"
# Stands in the copy of settings that were not there; as settings, no program could read it.
_ABSENT = "null\n"


@dataclass(frozen=True)
class Settings:
    """Settings of a client.

    Attributes:
        key: The key of its servers.
        path: The file; CONFIG and ROAMING are where this machine's programs keep their settings. Empty for none.
        entry: What an entry has besides command and arguments.
        hint: Where its settings are, in words, if the path does not say it.
    """

    key: str
    path: str = ""
    entry: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""


_STDIO = {"type": "stdio"}
_ROAMING = {"win32": "~/AppData/Roaming"}
_CONFIG = {**_ROAMING, "darwin": "~/Library/Application Support"}
_DESKTOP, _MCP = "claude_desktop_config.json", "mcpServers"
CLIENTS: Mapping[Client, Settings] = {
    "claude-desktop": Settings(_MCP, f"CONFIG/Claude/{_DESKTOP}", {}, f"{_DESKTOP} (Settings, Developer, Edit Config)"),
    "claude-code": Settings(_MCP, "~/.claude.json", _STDIO, ".mcp.json in a project, or ~/.claude.json"),
    "cursor": Settings(_MCP, "~/.cursor/mcp.json"),
    "vscode": Settings("servers", "CONFIG/Code/User/mcp.json", _STDIO, "`MCP: Open User Configuration`"),
    "windsurf": Settings(_MCP, "~/.codeium/windsurf/mcp_config.json"),
    "zed": Settings("context_servers", "ROAMING/zed/settings.json", {"source": "custom"}, "`zed: open settings file`"),
    "lm-studio": Settings(_MCP, "~/.lmstudio/mcp.json"),
    "gemini": Settings(_MCP, "~/.gemini/settings.json"),
    "codex": Settings("mcp_servers", hint="~/.codex/config.toml"),
    "open-webui": Settings("", hint="Admin Settings, External Tools, +, MCP (Streamable HTTP)"),
}
"""Settings of each client; those without a path take an entry by hand."""


@dataclass(frozen=True, kw_only=True)
class Connected:
    """Result of connecting a client.

    Attributes:
        client: The client.
        path: Its settings.
        status: What was done.
        backup: The settings as they were, or None.
    """

    client: Client
    path: Path
    status: Literal["connected", "connected already", "disconnected", "not connected"]
    backup: Path | None = None

    def __str__(self) -> str:
        kept = f" (as it was: {self.backup})" if self.backup else ""
        then = "" if self.status in ("connected already", "not connected") else f" Start {self.client} anew."
        return f"{self.client}: {self.status}, in {self.path}{kept}.{then}"


def settings_path(client: Client) -> Path | None:
    """Return the file of a client's settings on this machine, whether or not it is there; None if there is none."""
    path = CLIENTS[client].path
    for name, places in (("CONFIG", _CONFIG), ("ROAMING", _ROAMING)):
        path = path.replace(name, places.get(sys.platform, "~/.config"))
    return Path(path).expanduser() if path else None


def entry_of(client: Client, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the entry with which a client starts `epic` with arguments, wherever it starts it from."""
    python = Path(sys.executable).absolute()
    epic = shutil.which("epic", path=str(python.parent))
    command = [epic] if epic else [str(python), "-m", "epic_apps"]
    return {**CLIENTS[client].entry, "command": command[0], "args": [*command[1:], *arguments]}


def shown_entry(client: Client, arguments: Sequence[str]) -> str:
    """Return the entry as it stands in the client's settings, or what to do for a client without such a file."""
    server = entry_of(client, arguments)
    key = CLIENTS[client].key
    if client == "open-webui":
        memory = arguments[1] if len(arguments) > 1 else "me.epic"
        return (
            f"Start:  EPIC_MCP_TOKEN=A_TOKEN_OF_YOURS epic mcp {memory} --http 8765\n"
            f"Add:    {CLIENTS[client].hint}\n"
            "        URL http://127.0.0.1:8765/mcp, Auth Bearer, Key A_TOKEN_OF_YOURS"
        )
    if client == "codex":
        lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in server.items())
        return "\n".join([f"[{key}.{SERVER}]", *lines])
    return json.dumps({key: {SERVER: server}}, indent=2)


def connect(client: Client, arguments: Sequence[str], *, path: Path | None = None) -> Connected:
    """Write our entry into a client's settings; what else is there stays, and a copy is kept beside it.

    Args:
        client: The client.
        arguments: What follows `epic`, with absolute paths.
        path: Its settings; default: where they are on this machine.

    Raises:
        InvalidInputError: for settings that cannot be changed without loss, with the entry to paste.
    """
    path, key = _path(client, arguments, path), CLIENTS[client].key
    by_hand = f"Paste this into it:\n{shown_entry(client, arguments)}"
    text = _text(path)
    settings = _parsed(path, text, by_hand)
    servers = settings.setdefault(key, {})
    if not isinstance(servers, dict):
        raise InvalidInputError(f"{path}: {key!r} is no object. Mend it first.")
    entry = entry_of(client, arguments)
    if servers.get(SERVER) == entry:
        return Connected(client=client, path=path, status="connected already")
    backup = path.with_name(f"{path.name}{_BACKUP}")
    had = SERVER in servers
    servers[SERVER] = entry
    changed = _dumped(settings, text, path, by_hand)
    if not had or not backup.exists():
        _write(backup, _ABSENT if text is None else text, like=path)
    _write(path, changed, like=path)
    kept = None if _text(backup) == _ABSENT else backup
    return Connected(client=client, path=path, status="connected", backup=kept)


def disconnect(client: Client, *, path: Path | None = None) -> Connected:
    """Take our entry out of a client's settings; they are byte by byte as before if nothing else changed since.

    An entry of the same name that was there before comes back.

    Raises:
        InvalidInputError: for settings that cannot be changed without loss, or an entry that we did not write.
    """
    path, key = _path(client, [], path), CLIENTS[client].key
    text = _text(path)
    by_hand = f"Take it out of {key!r} by hand."
    settings = _parsed(path, text, by_hand)
    servers = settings.get(key)
    if not isinstance(servers, dict) or SERVER not in servers:
        return Connected(client=client, path=path, status="not connected")
    backup = path.with_name(f"{path.name}{_BACKUP}")
    before = _text(backup)
    was: dict[str, Any] = {}
    with suppress(InvalidInputError):  # a backup that was damaged since has nothing to give back
        was = {} if before in (None, _ABSENT) else _parsed(backup, before, by_hand)
    earlier = (was.setdefault(key, {}) or {}).get(SERVER)
    if before is None or servers[SERVER] == earlier:
        raise InvalidInputError(f"{path}: {SERVER!r} was not written by epic connect. {by_hand}")
    del servers[SERVER]
    if earlier is not None:  # as it was written by hand
        servers[SERVER] = earlier
    is_same = settings == was
    if not is_same:
        _write(path, _dumped(settings, text, path, by_hand), like=path)
    elif before == _ABSENT:
        path.unlink()
    else:
        _write(path, before, like=path)
    if is_same or before == _ABSENT:
        backup.unlink()
    return Connected(client=client, path=path, status="disconnected")


def entry_in(client: Client, path: Path) -> Any:
    """Return our entry in a client's settings, or None.

    Raises:
        InvalidInputError: for settings that are no plain JSON.
    """
    servers = _parsed(path, _text(path), "").get(CLIENTS[client].key)
    return servers.get(SERVER) if isinstance(servers, dict) else None


def _path(client: Client, arguments: Sequence[str], path: Path | None) -> Path:
    if client not in get_args(Client):
        raise InvalidInputError(f"There is no client {client!r}. There are: {', '.join(get_args(Client))}.")
    found = path or settings_path(client)
    if found is None:
        raise InvalidInputError(
            f"{client} has no settings that a program can change. Do this by hand:\n{shown_entry(client, arguments)}"
        )
    # Of a link, as those who keep their settings elsewhere have it, the file that it leads to is changed.
    return found.resolve()


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _parsed(path: Path, text: str | None, by_hand: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise ValueError("a key stands twice")
        return made

    try:
        settings = json.loads((text or "").removeprefix("\ufeff").strip() or "{}", object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{path} is no plain JSON ({error}): comments, for example, would be lost. Nothing was changed. {by_hand}"
        ) from None
    if not isinstance(settings, dict):
        raise InvalidInputError(f"{path} holds no object. Nothing was changed. {by_hand}")
    return settings


def _dumped(settings: Mapping[str, Any], before: str | None, path: Path, by_hand: str) -> str:
    """Return settings as JSON, indented as they were.

    Raises:
        InvalidInputError: if a text among them is none that a file can hold.
    """
    lines = (before or "").splitlines()
    inner = next((line for line in lines[1:] if line.strip()), "  ")
    indent = inner[: len(inner) - len(inner.lstrip())] or ("  " if len(lines) != 1 else None)
    mark = "\ufeff" if (before or "").startswith("\ufeff") else ""
    made = f"{mark}{json.dumps(settings, indent=indent, ensure_ascii=False)}\n"
    try:
        made.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{path} holds half a character ({error.reason}). Nothing was changed. {by_hand}"
        ) from None
    return made


def _write(path: Path, text: str, *, like: Path) -> None:
    """Write a file whole or not at all, with the rights of another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        mode = like.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o600
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")
    try:
        with os.fdopen(handle, "wb") as made:
            made.write(text.encode("utf-8"))
            made.flush()
            os.fsync(made.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
