"""Commands that start a program of `epic_apps`: mcp, inspect."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option, Typer

from epic_apps.cli.options import InFile, Model, command
from epic_apps.cli.printing import visible
from epic_memory.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from epic_memory import Settings

_TOKEN = "EPIC_MCP_TOKEN"
Client = Literal["claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "zed", "gemini", "codex"]
_CLIENTS: dict[Client, tuple[str, dict[str, str], str]] = {
    "claude-desktop": ("mcpServers", {}, "claude_desktop_config.json (Settings, Developer, Edit Config)"),
    "claude-code": ("mcpServers", {"type": "stdio"}, ".mcp.json in a project, or ~/.claude.json"),
    "cursor": ("mcpServers", {}, "~/.cursor/mcp.json"),
    "vscode": ("servers", {"type": "stdio"}, ".vscode/mcp.json in a project, or `MCP: Open User Configuration`"),
    "windsurf": ("mcpServers", {}, "~/.codeium/windsurf/mcp_config.json"),
    "zed": ("context_servers", {"source": "custom"}, "~/.config/zed/settings.json"),
    "gemini": ("mcpServers", {}, "~/.gemini/settings.json"),
    "codex": ("mcp_servers", {}, "~/.codex/config.toml"),
}
"""The key of servers in each client's settings, what a server's entry has besides, and where the settings are."""


def add_commands(app: Typer) -> None:
    """Add the commands."""
    command(app)(mcp)
    command(app)(inspect)


def inspect(
    file: InFile,
    model: Model,
    write: Annotated[bool, Option("--write", help="the page may change the memory; without it, it shows it")] = False,
    port: Annotated[int | None, Option(metavar="PORT", help="the port of 127.0.0.1; default: a free one")] = None,
    no_browser: Annotated[bool, Option("--no-browser", help="only print the address")] = False,
) -> None:
    """Look at a memory in your browser, and change it there."""
    if model.llm is not None and not write:
        raise InvalidInputError("Nothing that a model says could be kept: --llm is for --write.")
    try:
        from epic_apps.inspect import run_inspect
    except ImportError as error:
        raise MissingExtraError(error.name or "starlette", "inspect") from None

    def announce(address: str) -> None:
        sys.stderr.write(visible(f"{address}\nCtrl-C ends it. The address is for you alone.") + "\n")

    with file.open(model, read_only=not write) as memory:
        run_inspect(memory, announce, write=write, port=port, browser=not no_browser)


def mcp(
    file: InFile,
    model: Model,
    read_only: Annotated[bool, Option("--read-only", help="assistants may only read")] = False,
    allow_writes: Annotated[
        bool,
        Option("--allow-writes", help="assistants may change and forget by themselves; without it they propose"),
    ] = False,
    any_user: Annotated[bool, Option("--any-user", help="calls may name other users of the file by user_id")] = False,
    http: Annotated[
        int | None,
        Option(
            metavar="PORT",
            help=f"streamable HTTP on 127.0.0.1 instead of stdio; its token is {_TOKEN}, or a new one that is shown",
        ),
    ] = None,
    print_config: Annotated[
        Client | None, Option(metavar="CLIENT", help=f"print what a client reads to start this: {', '.join(_CLIENTS)}")
    ] = None,
) -> None:
    """Let assistants that speak MCP use a memory. With --llm client, the assistant's own model is asked, too."""
    if read_only and allow_writes:
        raise InvalidInputError("--allow-writes is not allowed with --read-only. Give one of them.")
    if http is not None and print_config is not None:
        raise InvalidInputError("--print-config is for a server over stdio: it is not allowed with --http.")
    if read_only and model.llm is not None:
        raise InvalidInputError("--llm is not allowed with --read-only: nothing that a model says could be kept.")
    try:
        from epic_apps.mcp import CLIENT, HOST, PATH, Access, UserMemory, memory_server, run_http, run_stdio
    except ImportError as error:
        raise MissingExtraError(error.name or "mcp", "mcp") from None

    from epic_memory import Settings
    from epic_memory.lm.base import SECONDS

    access: Access = "read" if read_only else "write" if allow_writes else "propose"
    llm, settings = _asked(model, CLIENT, Settings(namespace=file.namespace))
    with UserMemory(
        file.memory,
        access=access,
        any_user=any_user,
        encoder=file.encoder,
        llm=llm,
        timeout=SECONDS if model.timeout is None else model.timeout,
        settings=settings,
    ) as memory:
        if print_config is not None:
            options = {"--read-only": read_only, "--allow-writes": allow_writes, "--any-user": any_user}
            whose = [] if file.namespace == "default" else ["--namespace", file.namespace]
            made_with = [] if file.encoder is None else ["--encoder", file.encoder]
            flags = [name for name, asked in options.items() if asked]
            place = str(Path(file.memory).absolute())
            config = _config(print_config, [place, *flags, *whose, *made_with, *model.arguments()])
            # Not by `show`, which breaks long lines on a terminal.
            sys.stdout.write(f"{config}\n")
            sys.stderr.write(f"This belongs into {_CLIENTS[print_config][2]}.\n")
            return
        server = memory_server(memory)
        if http is None:
            run_stdio(server)
            return
        given = os.environ.get(_TOKEN)
        token = given or secrets.token_urlsafe(24)
        shown = f"the token in {_TOKEN}" if given else f"the header  Authorization: Bearer {token}"
        sys.stderr.write(visible(f"http://{HOST}:{http}{PATH} with {shown}") + "\n")
        run_http(server, port=http, token=token)


def _asked(model: Model, client: str, settings: Settings) -> tuple[Any, Settings]:
    """Return which model is asked, and the settings with how much; the client's own cannot be asked yet."""
    if model.llm != client:
        return model.asked(settings)
    if model.llm_url or model.concurrency:
        raise InvalidInputError("--llm client is asked through the client: it has no server.")
    return client, model.how_much(settings)


def _config(client: Client, arguments: list[str]) -> str:
    """Return the configuration with which a client starts `epic mcp`, wherever it starts it from."""
    python = Path(sys.executable).absolute()
    epic = shutil.which("epic", path=str(python.parent))
    command = [epic] if epic else [str(python), "-m", "epic_apps"]
    key, more, _ = _CLIENTS[client]
    server = {**more, "command": command[0], "args": [*command[1:], "mcp", *arguments]}
    if client == "codex":
        lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in server.items())
        return "\n".join([f"[{key}.epic-memory]", *lines])
    return json.dumps({key: {"epic-memory": server}}, indent=2)
