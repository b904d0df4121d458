"""Commands that use what is known of the user: `epic fill` fills in a form, `epic due` lists what is coming up."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from epic_core.cli.options import add_command, asked_model, open_memory, show


def add_commands(commands: Any) -> None:
    """Add the commands to the parser of `epic`."""
    fill = add_command(commands, "fill", _fill, "fill in a form from what is held, each value with its memory")
    fill.add_argument("form", metavar="FORM", help='JSON: {"fields": [{"name": ..., "question": ..., "type": ...}]}')
    fill.add_argument("--out", metavar="FILE", help="write the values into this file, as JSON by name")
    fill.add_argument("--llm", metavar="MODEL", help="a language model that reads the values: ollama/MODEL")
    fill.add_argument("--llm-url", metavar="URL", help="its server")
    fill.add_argument("--timeout", type=float, metavar="S", help="seconds for an answer (default 120)")
    fill.add_argument("--concurrency", type=int, metavar="N", help="calls at the same time (default 1)")
    due = add_command(commands, "due", _due, "list what is held about the days that are coming up")
    due.add_argument("--before", metavar="DAY", help="up to which day, like 2027-03-31 (default: 30 days from now)")


def _fill(options: argparse.Namespace) -> None:
    from epic_core.forms import Form
    from epic_core.memory import EpicMemory
    from epic_core.storage.sqlite.files import new_file

    form = Form.of(options.form)
    lm = None if options.llm is None else asked_model(options.llm, options)
    with EpicMemory.open(
        options.memory, encoder=options.encoder, namespace=options.namespace, must_exist=True
    ) as memory:
        filled = memory.fill(form, lm)
    for each in filled:
        show(each)
    count = sum(each.state == "filled" for each in filled)
    show(f"{count} of {len(filled.fields)} fields filled in.")
    if options.out:
        with new_file(Path(options.out), overwrite=False) as made:
            Path(made).write_text(json.dumps(filled.values, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _due(options: argparse.Namespace) -> None:
    with open_memory(options) as memory:
        found = memory.due(options.before)
    for each in found:
        show(each)
    if not found:
        show("Nothing is coming up.")
