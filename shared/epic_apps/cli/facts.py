"""Commands about facts of the user: `epic note` adds one, `epic facts` lists them and takes edits back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from epic_apps.cli.options import InFile, Model, command
from epic_apps.cli.printing import table, warn

if TYPE_CHECKING:
    from epic_memory.types import Item
    from epic_memory.types.edits import Edit


def add_commands(app: Typer) -> None:
    """Add the commands."""
    command(app)(note)
    command(app)(facts)


def note(
    file: InFile,
    model: Model,
    texts: Annotated[
        list[str],
        Argument(metavar="TEXT...", help='a short statement, such as "I work night shifts"; - reads lines of them'),
    ],
    until: Annotated[
        str | None, Option(metavar="TIME", help="when it stops to hold, like 2027-03-31T12:00:00+01:00")
    ] = None,
) -> None:
    """Add facts of the user, and show what each one changed."""
    from epic_apps.cli.readers.base import standard_input

    given = [line for text in texts for line in (standard_input().splitlines() if text == "-" else [text])]
    with file.open(model) as memory:
        reports = [memory.facts.add(line, expires_at=until) for line in given if line or "-" not in texts]
    for warning in dict.fromkeys(warning for report in reports for warning in report.warnings):
        warn(warning)
    edits = [edit for report in reports for edit in report.edits]
    file.show(
        edits, *(str(edit) + (f"  (epic facts {file.memory} --undo {edit.id})" if edit.id else "") for edit in edits)
    )


def facts(
    file: InFile,
    history: Annotated[
        bool, Option("--history", help="show the last edits with their numbers, and the ids of the facts")
    ] = False,
    undo: Annotated[int | None, Option(metavar="NUMBER", help="take an edit back")] = None,
) -> None:
    """List the facts of the user, or undo an edit; `epic forget` takes their ids."""
    with file.open() as memory:
        undone = None if undo is None else memory.facts.undo(undo)
        held, edits = list(memory.facts), memory.facts.edits() if history else []
    rows = [(fact.id, fact.text, _beside(fact)) for fact in held]
    file.show(
        {"facts": held, **({"history": edits} if history else {})},
        *([] if undone is None else [f"undone: {undone}"]),
        table(("id", "fact", ""), rows) if rows else "No facts of the user are held.",
        *(f"{edit.id:>6}  {edit}  [{', '.join(_ids(edit))}]" for edit in edits),
    )


def _beside(fact: Item) -> str:
    """Return until when a fact holds, when it was said, and whether an assistant has worded it."""
    until = "" if fact.expires_at is None else f"until {fact.expires_at.isoformat()}"
    worded = "worded by an assistant" if fact.metadata.get("origin") == "assistant" else ""
    return ", ".join(filter(None, (until, str(fact.metadata.get("said", "")), worded)))


def _ids(edit: Edit) -> list[str]:
    """Return the ids of a new fact and of the one it replaced or ended, each of which can be forgotten."""
    return list(dict.fromkeys(item.id for item in (edit.item, edit.old) if item is not None))
