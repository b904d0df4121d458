"""Fields and forms: what is asked for, and what was filled in, each value with the memory that it comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from epic_memory.errors import InvalidInputError
from epic_memory.types import Item, Preference
from epic_memory.types.validation import checked_text, one_of

FieldType: TypeAlias = Literal["text", "number", "date", "choice", "boolean"]
# Usual names of fields, and what a person would ask.
_USUAL = {
    **dict.fromkeys(("date of birth", "birth date", "birthday", "born"), "When was I born?"),
    **dict.fromkeys(("address", "home address", "town", "city"), "Where do I live?"),
    **dict.fromkeys(("employer", "company", "workplace"), "Where do I work?"),
    **dict.fromkeys(("phone", "telephone", "mobile"), "What is my phone number?"),
    **dict.fromkeys(("allergies", "allergy"), "What am I allergic to?"),
    "age": "How old am I?",
    "weight": "How much do I weigh?",
    "height": "How tall am I?",
}
State: TypeAlias = Literal["filled", "empty", "undecided"]
Value: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a form.

    Attributes:
        name: Unique in its form.
        question: What is to be known, such as "When does my passport expire?". Default: made of the name.
        type: "text", "number", "date", "choice" or "boolean" (yes or no).
        choices: The values of a choice, at least two; of no other type.

    Raises:
        InvalidInputError: for an empty name, another type, or choices that do not fit it.
    """

    name: str
    question: str = ""
    type: FieldType = "text"
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checked_text(self.name, "The name of a field")
        if not self.question:
            plain = self.name.replace("_", " ").replace("-", " ")
            object.__setattr__(self, "question", _USUAL.get(plain.lower(), f"What is my {plain}?"))
        checked_text(self.question, f"The question of the field {self.name!r}")
        one_of(f"The type of the field {self.name!r}", self.type, get_args(FieldType))
        given = self.choices if isinstance(self.choices, (list, tuple)) else ()
        choices = tuple(checked_text(choice, f"A choice of the field {self.name!r}") for choice in given)
        if (self.type == "choice") != (len(set(choices)) > 1) or (self.choices and not choices):
            raise InvalidInputError(
                f"The field {self.name!r}: a choice has two or more choices, other types have none."
            )
        object.__setattr__(self, "choices", choices)


@dataclass(frozen=True, kw_only=True)
class Form:
    """Fields to be filled.

    Attributes:
        fields: At least one; their names differ.
    """

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        names = [each.name for each in self.fields]
        if not names or len(set(names)) < len(names):
            raise InvalidInputError("A form has one field or more, each with a name of its own.")

    @classmethod
    def of(cls, form: Form | Mapping[str, Any] | str | Path) -> Form:
        """Return a form, given as one, as an object, or as a path of a file of JSON.

            {"fields": [{"name": "passport", "question": "When does my passport expire?", "type": "date"}]}

        Raises:
            InvalidInputError: for anything else, or a file that holds no form.
        """
        if isinstance(form, Form):
            return form
        where = "The form"
        if isinstance(form, (str, Path)):
            where = str(form)
            try:
                form = json.loads(Path(form).read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise InvalidInputError(f"{where} is no JSON: {error}") from None
        listed = form.get("fields") if isinstance(form, Mapping) else None
        if not isinstance(listed, (list, tuple)):
            raise InvalidInputError(f'{where} has no fields. Write {{"fields": [{{"name": ..., "question": ...}}]}}.')
        fields = []
        for number, each in enumerate(listed, start=1):
            known = set(Field.__dataclass_fields__)
            if isinstance(each, Field):
                fields.append(each)
            elif isinstance(each, Mapping) and "name" in each and set(each) <= known:
                fields.append(Field(**each))
            else:
                raise InvalidInputError(
                    f"{where}, field {number}: a field has a name, and may have a question, a type and choices."
                )
        return cls(fields=tuple(fields))


@dataclass(frozen=True, kw_only=True)
class FilledField:
    """Value of a field, with the item that it comes from.

    Attributes:
        field: The field.
        value: A text, a number, a choice, True or False; a date as "2031-05-03", or as "--05-03" where no year is
            known. None where nothing was filled in.
        source: The memory that the value comes from, an item or a preference; None without a value.
        quote: Its words that say so.
        reason: Why there is no value; else empty.
        state: "filled"; "empty", if nothing is known; "undecided", if what is known does not tell.
    """

    field: Field
    value: Value = None
    source: Item | Preference | None = None
    quote: str = ""
    reason: str = ""
    state: State = "empty"

    def __str__(self) -> str:
        if self.source is None:
            return f"{self.field.name}: ({self.reason})"
        value = {True: "yes", False: "no"}[self.value] if isinstance(self.value, bool) else self.value
        return f'{self.field.name}: {value}  [{self.source.id}: "{self.quote}"]'


@dataclass(frozen=True, kw_only=True)
class FilledForm:
    """A form with what was found.

    Attributes:
        fields: Of the form, in order.
    """

    fields: tuple[FilledField, ...]

    @property
    def values(self) -> dict[str, Value]:
        """The values by the names of the fields; None where nothing was filled in."""
        return {each.field.name: each.value for each in self.fields}

    def __getitem__(self, name: str) -> FilledField:
        return {each.field.name: each for each in self}[name]

    def __iter__(self) -> Iterator[FilledField]:
        return iter(self.fields)

    def __str__(self) -> str:
        return "\n".join(map(str, self.fields))
