"""Reader of fields: asks a language model for a value, and believes what the memory's words support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from epic_learn.forms.dates import days_in
from epic_learn.forms.fields import Field, FilledField, FilledForm, Value
from epic_learn.forms.values import values_in
from epic_memory.lm.answers import Line, Shape, letters
from epic_memory.lm.base import LanguageModel
from epic_memory.lm.client import LMReader, Reading, readings_of
from epic_memory.lm.prompting import one_line
from epic_memory.runtime.effects import Effects
from epic_memory.types import Item, Preference, Usage

_MOST_TOKENS = 300
_LONGEST = 1200
_KINDS = {
    "text": "",
    "number": "The value is a number, in digits.",
    "date": "The value is a date, like 2031-05-03; like --05-03 if the note tells no year.",
    "boolean": 'The value is "yes" or "no".',
}
_NOTHING = frozenset({"", "none", "no", "nothing", "unknown", "na", "null", "false", "notspecified", "notstated"})
_Text = Annotated[Line, BeforeValidator(lambda given: str(given) if isinstance(given, (bool, int, float)) else given)]


class Filled(Shape):
    """Value of a field, and the note that says it, counted from 1."""

    number: int = 0
    quote: Line = ""
    value: _Text


Asked: TypeAlias = tuple[Field, Sequence[Item | Preference]]


def _values(asked: Asked) -> Mapping[str, str]:
    wanted, items = asked
    notes = "\n".join(f"| {number}. {_shown(item)}" for number, item in enumerate(items, start=1))
    kind = f"The value is one of: {'; '.join(wanted.choices)}." if wanted.choices else _KINDS[wanted.type]
    return {"notes": notes, "field": f"| {one_line(wanted.question)}\n{one_line(kind)}".strip()}


def read_fields(
    lm: LanguageModel, fields: Sequence[Field], found: Sequence[Sequence[Item | Preference]]
) -> Effects[FilledForm]:
    """Ask a model for the values of fields; what the memories' words do not support is undecided.

    Args:
        lm: The model.
        fields: The fields.
        found: For each field the memories that may answer; fields without any are not asked about.
    """
    made = {place: FilledField(field=each, reason="nothing relevant is known") for place, each in enumerate(fields)}
    asked = [(place, fields[place], items) for place, items in enumerate(found) if items]
    usage = Usage()
    if asked:
        jobs = [(each, items) for _, each, items in asked]
        reader = LMReader(lm, "field", Filled, _values, max_tokens=_MOST_TOKENS)
        readings, failure = yield from readings_of(lm, reader, jobs, "fields")
        for number, (place, each, items) in enumerate(asked):
            reading = readings.get(number) or Reading(failure=failure or "the model was not asked")
            usage.add(reading.usage)
            made[place] = _supported(each, items, reading, lm.name)
    return FilledForm(fields=tuple(made.values()), usage=usage)


def _supported(wanted: Field, items: Sequence[Item | Preference], reading: Reading[Filled], name: str) -> FilledField:
    """Return the value of an answer if the note that it names has the quote, and the quote the value."""
    given = reading.value
    if given is None:
        return FilledField(field=wanted, state="undecided", reason=f"{name} did not answer: {reading.failure}")
    text, quote = one_line(given.value), given.quote
    if not text or (given.number == 0 and not quote) or (wanted.type != "boolean" and letters(text) in _NOTHING):
        return FilledField(field=wanted, reason="nothing relevant is known")
    words = _plain(quote)
    # A small model copies better than it counts.
    first = [items[given.number - 1]] if 1 <= given.number <= len(items) else []
    item = next((item for item in (*first, *items) if words and words in _plain(_shown(item))), None)
    if item is None:
        return _unsupported(wanted, name, text, "no memory has the words that it quotes")
    value = _value(wanted, text, quote)
    if value is None:
        return _unsupported(wanted, name, text, f'"{quote}" does not say so')
    return FilledField(field=wanted, value=value, source=item, quote=" ".join(quote.split()), state="filled")


def _unsupported(wanted: Field, name: str, text: str, why: str) -> FilledField:
    return FilledField(field=wanted, state="undecided", reason=f'{name} said "{text}", but {why}')


def _value(wanted: Field, text: str, quote: str) -> Value:
    """Return the value in a form's own form; None if a quote does not support it."""
    if wanted.type == "boolean":
        return {"yes": True, "true": True, "no": False, "false": False}.get(letters(text))
    if wanted.type == "choice":
        return next((choice for choice in wanted.choices if letters(choice) == letters(text)), None)
    if wanted.type == "date":
        stated = {str(day) for day, _, _ in days_in(quote)}
        named = [text] if text in stated else [str(day) for day, _, _ in days_in(text)]
        return next((day for day in named if day in stated), None)
    if wanted.type == "number":
        stated_numbers, named_numbers = values_in(wanted, quote), values_in(wanted, text)
        return named_numbers[0] if len(named_numbers) == 1 and named_numbers[0] in stated_numbers else None
    return text if _plain(text) and _plain(text) in _plain(quote) else None


def _shown(item: Item | Preference) -> str:
    return one_line(item.text)[:_LONGEST]


def _plain(text: str) -> str:
    """Return a text to be compared: on one line, in small letters, without marks at its ends."""
    return one_line(text).casefold().strip(" .,;:!?\"'“”‘’")
