"""Commands about a memory's file: stats, explain, verify, compact, backup, export, forget, not-kept."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from epic_core.cli.options import add_command, open_memory, show


def add_shown(commands: Any) -> None:
    """Add the commands that show what a memory holds."""
    add_command(commands, "stats", _stats, "counts and sizes")
    parser = add_command(commands, "explain", _explain, "why an item was kept")
    parser.add_argument("id", help="the item's id, as `epic ask` shows it")


def add_commands(commands: Any) -> None:
    """Add the commands that check, copy or shorten a file."""
    add_command(commands, "verify", _verify, "check that a memory's file is as it was written")
    add_command(commands, "compact", _compact, "write a memory's file anew without gaps")
    for name, run, about in (
        ("backup", _backup, "copy a memory, also while it is in use"),
        ("export", _export, "write a memory as lines of JSON"),
    ):
        parser = add_command(commands, name, run, about)
        parser.add_argument("to", metavar="TO", help="the file to write")
        parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    parser = add_command(commands, "forget", _forget, "forget items for good")
    parser.add_argument("id", nargs="+", help="their ids, as `epic ask` shows them")
    add_command(commands, "not-kept", _not_kept, "what is on record of items that were not kept, and why")


def _stats(options: argparse.Namespace) -> None:
    with open_memory(options) as memory:
        show(memory.stats())


def _explain(options: argparse.Namespace) -> None:
    with open_memory(options) as memory:
        show(memory.explain(options.id))


def _verify(options: argparse.Namespace) -> None:
    with open_memory(options, read_only=True) as memory:
        rows = memory.verify()
        show(f"{options.memory}: sound, {rows} rows, {Path(options.memory).stat().st_size} bytes")


def _compact(options: argparse.Namespace) -> None:
    with open_memory(options) as memory:
        saved = memory.compact()
    show(f"{options.memory}: {Path(options.memory).stat().st_size} bytes, {max(0, saved)} fewer than before")


def _backup(options: argparse.Namespace) -> None:
    with open_memory(options, read_only=True) as memory:
        memory.backup(options.to, overwrite=options.overwrite)
    show(f"{options.to}: {Path(options.to).stat().st_size} bytes")


def _export(options: argparse.Namespace) -> None:
    with open_memory(options, read_only=True) as memory:
        items = memory.export(options.to, overwrite=options.overwrite)
    show(f"{options.to}: {items} items")


def _forget(options: argparse.Namespace) -> None:
    with open_memory(options) as memory:
        memory.forget(*options.id)
        show(f"forgotten; {len(memory)} items are left")


def _not_kept(options: argparse.Namespace) -> None:
    with open_memory(options, read_only=True) as memory:
        records = memory.not_kept()
        for record in records:
            show(record)
        if not records:
            show("Nothing is on record of what was not kept.")
