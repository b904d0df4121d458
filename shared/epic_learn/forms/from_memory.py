"""Forms and reminders of a memory: what it holds is searched for each field, or for the days that are coming up."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

from epic_learn.forms.fields import FilledForm, Form
from epic_learn.forms.filling import CANDIDATES, filled
from epic_learn.forms.reminders import Due, due_among
from epic_memory.lm.base import LanguageModel
from epic_memory.memory import EpicMemory, checked_memory
from epic_memory.pipeline.search import checked_search, search
from epic_memory.runtime.effects import Clock, Effects, arun, run
from epic_memory.settings import asked_model
from epic_memory.types import Hits
from epic_memory.types.search_options import SearchOptions


def fill(
    memory: EpicMemory,
    form: Form | Mapping[str, Any] | str | Path,
    lm: LanguageModel | str | None = None,
    *,
    namespace: str | None = None,
) -> FilledForm:
    """Fill in a form from what is held: for each field the value, and the memory that it comes from.

        form = fill(memory, {"fields": [{"name": "born", "question": "When was I born?", "type": "date"}]})
        print(form.values)

    Nothing is guessed. Without a model, the value is read off the one sentence that answers a field's question, in
    English; a field stays empty where nothing relevant is known, and undecided where what is known does not tell.

    Args:
        memory: The memory.
        form: Fields, each with a name, and a question, a type ("text", "number", "date", "choice", "boolean") and
            choices if it needs them; or the path of a file of JSON.
        lm: A language model that reads the values, one call a field, or its name (`lm_of`); default: the memory's
            `llm`. What it says counts if the words that it quotes are a memory's, and the value is in them; else
            the field is undecided.
        namespace: Another user's memory in the same file.

    Raises:
        InvalidInputError: for what is no form.
    """
    clock = Clock()
    return run(_filling(memory, form, lm, namespace, clock), clock)


async def afill(
    memory: EpicMemory,
    form: Form | Mapping[str, Any] | str | Path,
    lm: LanguageModel | str | None = None,
    *,
    namespace: str | None = None,
) -> FilledForm:
    """As `fill`, without blocking the event loop."""
    clock = Clock()
    return await arun(_filling(memory, form, lm, namespace, clock), clock)


def _filling(
    memory: EpicMemory,
    form: Form | Mapping[str, Any] | str | Path,
    lm: LanguageModel | str | None,
    namespace: str | None,
    clock: Clock,
) -> Effects[FilledForm]:
    session = checked_memory(memory)._session
    lm = session.lm if lm is None else asked_model(lm)[0]

    def looked_up(question: str) -> Effects[Hits]:
        options = SearchOptions(steering="signed", stance_policy="any")
        asked = checked_search(session, question, CANDIDATES, namespace=namespace, options=options)
        return search(session, asked, clock)

    return filled(Form.of(form), looked_up, lm)


def due(memory: EpicMemory, before: date | datetime | str | None = None, *, namespace: str | None = None) -> list[Due]:
    """Return what is held about the days that are coming up, soonest first: reminders.

    Facts count by the days that their words name ("Mia's birthday is on 4 May", "the lease ends on 2027-03-31"),
    and everything by its `expires_at`. Days are those of local time; one without a year is the next of its kind.

    Args:
        memory: The memory.
        before: The first day that is too late, also as text like "2027-03-31"; None for 30 days from today.
        namespace: Another user's memory in the same file.

    Raises:
        InvalidInputError: for what is no day.
    """
    return due_among(checked_memory(memory).items(namespace=namespace), before)
