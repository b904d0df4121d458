"""Commands that start a program of `epic_apps`, or have others start it: mcp, inspect, connect, doctor."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Annotated, get_args

from typer import Argument, Option

from epic_apps.cli.options import Common, InFile, Model
from epic_apps.cli.printing import visible
from epic_apps.connect import CLIENTS, Client, Connected, disconnect, shown_entry
from epic_apps.connect import connect as connect_client
from epic_memory.errors import InvalidInputError, MissingExtraError

_TOKEN = "EPIC_MCP_TOKEN"


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
) -> None:
    """Let assistants that speak MCP use a memory."""
    _check_rights(model, read_only=read_only, allow_writes=allow_writes)
    try:
        from epic_apps.local import HOST
        from epic_apps.mcp import memory_server
        from epic_apps.mcp_memory import Access, UserMemory
        from epic_apps.mcp_serving import PATH, run_http, run_stdio
    except ImportError as error:
        raise MissingExtraError(error.name or "mcp", "mcp") from None

    access: Access = "read" if read_only else "write" if allow_writes else "propose"
    llm, settings = model.asked(file.settings(file.memory))
    opened = UserMemory(file.memory, access=access, any_user=any_user, encoder=file.encoder, llm=llm, settings=settings)
    with opened as memory:
        server = memory_server(memory)
        if http is None:
            run_stdio(server)
            return
        given = os.environ.get(_TOKEN)
        token = given or secrets.token_urlsafe(24)
        shown = f"the token in {_TOKEN}" if given else f"the header  Authorization: Bearer {token}"
        sys.stderr.write(visible(f"http://{HOST}:{http}{PATH} with {shown}") + "\n")
        run_http(server, port=http, token=token)


def _check_rights(model: Model, *, read_only: bool, allow_writes: bool) -> None:
    if read_only and allow_writes:
        raise InvalidInputError("--allow-writes is not allowed with --read-only. Give one of them.")
    if read_only and model.llm is not None:
        raise InvalidInputError("--llm is not allowed with --read-only: nothing that a model says could be kept.")


def connect(
    common: Common,
    model: Model,
    client: Annotated[Client, Argument(metavar="CLIENT", help=", ".join(get_args(Client)))],
    memory: Annotated[str | None, Argument(metavar="FILE", help="the memory's file")] = None,
    read_only: Annotated[bool, Option("--read-only", help="the assistant may only read")] = False,
    allow_writes: Annotated[
        bool, Option("--allow-writes", help="the assistant may change and forget by itself; without it, it proposes")
    ] = False,
    print_: Annotated[bool, Option("--print", help="only print the entry")] = False,
    undo: Annotated[bool, Option("--undo", help="take the entry out again")] = False,
) -> None:
    """Have an assistant use a memory: writes the entry into its settings, and keeps them as they were beside it."""
    if undo:
        done: Connected = disconnect(client)
        common.show(done, str(done))
        return
    if memory is None or not Path(memory).is_file():
        raise InvalidInputError(f"Say which memory: epic connect {client} FILE. There is no file {memory or 'given'}.")
    _check_rights(model, read_only=read_only, allow_writes=allow_writes)
    with InFile(memory=memory, encoder=common.encoder, namespace=common.namespace).open(read_only=True):
        pass  # raises an error for what is no memory
    model.asked(common.settings(memory))  # likewise for a model that does not answer
    arguments = ["mcp", str(Path(memory).absolute())]
    arguments += ["--read-only"] * read_only + ["--allow-writes"] * allow_writes
    arguments += [] if common.namespace == "default" else ["--namespace", common.namespace]
    arguments += [] if common.encoder is None else ["--encoder", common.encoder]
    arguments += model.arguments()
    if print_:
        # Not by `show`, which breaks long lines on a terminal.
        sys.stdout.write(f"{shown_entry(client, arguments)}\n")
        sys.stderr.write(f"This belongs into {CLIENTS[client].hint or CLIENTS[client].path}.\n")
        return
    done = connect_client(client, arguments)
    common.show(done, str(done))


def doctor(
    common: Common,
    memory: Annotated[str | None, Argument(metavar="FILE", help="the memory's file")] = None,
    sizes: Annotated[bool, Option("--sizes", help="only say what the light install weighs, part by part")] = False,
) -> None:
    """Check installation, file, encoder, rights and connected assistants, and say what to do."""
    if sizes:
        from epic_apps.sizes import sizes as measured

        found = measured()
        light = sum(one.bytes for one in found)
        lines = [f"{one.bytes / 1e6:7.1f} MB  {one.kind:8}{one.part}" for one in found]
        common.show([one._asdict() for one in found], *lines, f"{light / 1e6:7.1f} MB  the light install")
        return
    from epic_apps.doctor import examine

    checks = examine(memory, encoder=common.encoder, namespace=common.namespace)
    common.show(checks, *map(str, checks))
    if problems := sum(check.state == "problem" for check in checks):
        raise InvalidInputError(f"{problems} of this does not work yet.")


COMMANDS = (mcp, inspect, connect, doctor)
