"""Commands about a memory's file: verify, compact, backup, export, forget, not-kept."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from epic_core.memory import EpicMemory

Open: TypeAlias = "Callable[..., EpicMemory]"
Print: TypeAlias = Callable[[object], None]


def add_commands(commands: Any, common: Callable[..., None], opened: Open, printed: Print) -> None:
    """Add the commands to a parser.

    Args:
        commands: The subparsers.
        common: Adds the options that every command has.
        opened: Opens the memory that options name.
        printed: Prints text that may come from a document.
    """

    def command(name: str, run: Callable[[argparse.Namespace], None], about: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(name, help=about)
        common(parser)
        parser.set_defaults(run=run)
        return parser

    def verify(options: argparse.Namespace) -> None:
        with opened(options, read_only=True) as memory:
            rows = memory.verify()
            printed(f"{options.memory}: sound, {rows} rows, {Path(options.memory).stat().st_size} bytes")

    def compact(options: argparse.Namespace) -> None:
        with opened(options) as memory:
            saved = memory.compact()
        printed(f"{options.memory}: {Path(options.memory).stat().st_size} bytes, {max(0, saved)} fewer than before")

    def backup(options: argparse.Namespace) -> None:
        with opened(options, read_only=True) as memory:
            memory.backup(options.to, overwrite=options.overwrite)
        printed(f"{options.to}: {Path(options.to).stat().st_size} bytes")

    def export(options: argparse.Namespace) -> None:
        with opened(options, read_only=True) as memory:
            items = memory.export(options.to, overwrite=options.overwrite)
        printed(f"{options.to}: {items} items")

    def forget(options: argparse.Namespace) -> None:
        with opened(options) as memory:
            memory.forget(*options.id)
            printed(f"forgotten; {len(memory)} items are left")

    def not_kept(options: argparse.Namespace) -> None:
        with opened(options, read_only=True) as memory:
            records = memory.not_kept()
            for record in records:
                printed(record)
            if not records:
                printed("Nothing is on record of what was not kept.")

    command("verify", verify, "check that a memory's file is as it was written")
    command("compact", compact, "write a memory's file anew without gaps")
    for name, run, about in (
        ("backup", backup, "copy a memory, also while it is in use"),
        ("export", export, "write a memory as lines of JSON"),
    ):
        parser = command(name, run, about)
        parser.add_argument("to", metavar="TO", help="the file to write")
        parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    parser = command("forget", forget, "forget items for good")
    parser.add_argument("id", nargs="+", help="their ids, as `epic ask` shows them")
    command("not-kept", not_kept, "what is on record of items that were not kept, and why")
