"""Commands that use what is known of the user: `epic fill` fills in a form, `epic due` lists what is coming up."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option, Typer

from epic_apps.cli.options import InFile, Model, command


def add_commands(app: Typer) -> None:
    """Add the commands."""
    command(app)(fill)
    command(app)(due)


def fill(
    file: InFile,
    model: Model,
    form: Annotated[
        str, Argument(metavar="FORM", help='JSON: {"fields": [{"name": ..., "question": ..., "type": ...}]}')
    ],
) -> None:
    """Fill in a form from what is held, each value with its memory; --json prints what a program reads."""
    from epic_learn.forms import Form
    from epic_learn.forms import fill as fill_form

    asked = Form.of(form)
    with file.open(model) as memory:
        filled = fill_form(memory, asked)
    count = sum(each.state == "filled" for each in filled)
    file.show(filled.fields, *map(str, filled), f"{count} of {len(filled.fields)} fields filled in.")


def due(
    file: InFile,
    before: Annotated[
        str | None, Option(metavar="DAY", help="up to which day, like 2027-03-31 (default: 30 days from now)")
    ] = None,
) -> None:
    """List the facts that name a day that is coming up, and what expires by then."""
    from epic_learn.forms import due as due_in

    with file.open() as memory:
        found = due_in(memory, before)
    nothing = "No fact names a day that is coming up, and nothing expires by then."
    file.show(found, *(map(str, found) if found else [nothing]))
