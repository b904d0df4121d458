"""Commands that start a program of `epic_apps`: mcp, inspect."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from typing import Any

from epic_core.cli.options import add_command, open_memory, visible
from epic_core.errors import MissingExtraError

_TOKEN = "EPIC_MCP_TOKEN"


def add_commands(commands: Any) -> None:
    """Add the commands."""
    parser = add_command(commands, "mcp", _mcp, "let assistants that speak MCP use a memory")
    access = parser.add_mutually_exclusive_group()
    access.add_argument("--read-only", action="store_true", help="assistants may only read")
    access.add_argument(
        "--allow-writes",
        action="store_true",
        help="assistants may change and forget by themselves; without it they propose",
    )
    parser.add_argument("--any-user", action="store_true", help="calls may name other users of the file by user_id")
    parser.add_argument(
        "--http",
        type=int,
        metavar="PORT",
        help=f"streamable HTTP on 127.0.0.1 instead of stdio; its token is {_TOKEN}, or a new one that is shown",
    )

    parser = add_command(commands, "inspect", _inspect, "look at a memory in your browser, and change it there")
    parser.add_argument("--write", action="store_true", help="the page may change the memory; without it, it shows it")
    parser.add_argument("--port", type=int, metavar="PORT", help="the port of 127.0.0.1; default: a free one")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def _inspect(options: argparse.Namespace) -> None:
    try:
        from epic_apps.inspect import run_inspect
    except ImportError as error:
        raise MissingExtraError(error.name or "starlette", "inspect") from None

    def announce(address: str) -> None:
        sys.stderr.write(visible(f"{address}\nCtrl-C ends it. The address is for you alone.") + "\n")

    with open_memory(options, read_only=not options.write) as memory:
        run_inspect(memory, announce, write=options.write, port=options.port, browser=not options.no_browser)


def _mcp(options: argparse.Namespace) -> None:
    try:
        from epic_apps.mcp import HOST, PATH, Access, UserMemory, memory_server, run_http, run_stdio
    except ImportError as error:
        raise MissingExtraError(error.name or "mcp", "mcp") from None

    access: Access = "read" if options.read_only else "write" if options.allow_writes else "propose"
    with UserMemory(
        options.memory,
        access=access,
        namespace=options.namespace,
        any_user=options.any_user,
        encoder=options.encoder,
    ) as memory:
        server = memory_server(memory)
        if options.http is None:
            run_stdio(server)
            return
        given = os.environ.get(_TOKEN)
        token = given or secrets.token_urlsafe(24)
        shown = f"the token in {_TOKEN}" if given else f"the header  Authorization: Bearer {token}"
        sys.stderr.write(visible(f"http://{HOST}:{options.http}{PATH} with {shown}") + "\n")
        run_http(server, port=options.http, token=token)
