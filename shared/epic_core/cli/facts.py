"""Commands about facts of the user: `epic note` adds one, `epic facts` lists them and takes edits back."""

from __future__ import annotations

import argparse
from typing import Any

from epic_core.cli.options import add_command, open_memory, show
from epic_core.errors import UnknownItemError
from epic_core.types.edits import Edit


def add_commands(commands: Any) -> None:
    """Add the commands to the parser of `epic`."""
    note = add_command(commands, "note", _note, "add facts of the user, and show what each one changed")
    note.add_argument("text", nargs="+", metavar="TEXT", help='a short statement, such as "I work night shifts"')
    note.add_argument("--until", metavar="TIME", help="when it stops to hold, like 2027-03-31T12:00:00+01:00")
    facts = add_command(commands, "facts", _facts, "list the facts of the user, forget one, or undo an edit")
    facts.add_argument(
        "--history", action="store_true", help="show the last edits with their numbers, and the ids of the facts"
    )
    facts.add_argument("--undo", type=int, metavar="NUMBER", help="take an edit back")
    facts.add_argument(
        "--forget", metavar="ID", help="forget a fact and its history, also one that was replaced or ended"
    )


def _note(options: argparse.Namespace) -> None:
    with open_memory(options) as memory:
        for text in options.text:
            for edit in memory.add_fact(text, expires_at=options.until).edits:
                show(str(edit) + (f"  (epic facts {options.memory} --undo {edit.id})" if edit.id else ""))


def _facts(options: argparse.Namespace) -> None:
    with open_memory(options) as memory:
        if options.undo is not None:
            show(f"undone: {memory.undo(options.undo)}")
        if options.forget is not None:
            past = {item for edit in memory.edits() for item in _ids(edit)}
            if options.forget not in past | {fact.id for fact in memory.facts()}:
                raise UnknownItemError(f"No fact has the id {options.forget!r}: epic facts {options.memory}")
            memory.forget(options.forget)
        for fact in memory.facts():
            end = "" if fact.expires_at is None else f"  (until {fact.expires_at.isoformat()})"
            show(f"{fact.id}  {fact.text}{end}")
        for edit in memory.edits() if options.history else ():
            show(f"{edit.id:>6}  {edit}  [{', '.join(_ids(edit))}]")


def _ids(edit: Edit) -> list[str]:
    """Return the ids of a new fact and of the one it replaced or ended, each of which can be forgotten."""
    return list(dict.fromkeys(item.id for item in (edit.item, edit.old) if item is not None))
