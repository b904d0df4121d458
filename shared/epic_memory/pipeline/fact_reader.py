"""Reader of facts: asks a language model what a new fact does to those that are held, where its words do not tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from epic_memory.lm.answers import Line, Shape, lines
from epic_memory.lm.base import LanguageModel
from epic_memory.lm.client import LMReader, readings_of
from epic_memory.lm.prompting import one_line, section
from epic_memory.runtime.effects import Effects
from epic_memory.types import BuildReport

Relation: TypeAlias = Literal["new", "same", "update", "over"]
MOST_SHOWN = 8
"""Most facts that a model is shown beside a new one."""
_MOST_TOKENS = 240
_QUESTIONS, _LONGEST_QUESTION = 3, 120


def _short(given: Any) -> Any:
    listed = lines(_QUESTIONS)(given)
    return [each for each in listed if len(each) <= _LONGEST_QUESTION] if isinstance(listed, list) else ()


class Compared(Shape):
    """Relation of a new fact to one of the facts shown, counted from 1; 0 for none; and questions that it answers."""

    decision: Annotated[Relation, BeforeValidator(lambda given: str(given).strip().lower())]
    number: int = 0
    questions: Annotated[tuple[Line, ...], BeforeValidator(_short), Field(max_length=_QUESTIONS)] = ()


def read_facts(
    lm: LanguageModel, asked: Sequence[tuple[str, Sequence[str]]], report: BuildReport
) -> Effects[list[Compared]]:
    """Ask a model what new facts do to the facts that each may be about; report usage and failures.

    What it does not answer, or says of no fact that was shown, counts as new.
    """
    reader = LMReader(lm, "fact", Compared, _values, max_tokens=_MOST_TOKENS)
    readings, failure = yield from readings_of(lm, reader, asked, "facts")
    if failure:
        report.warnings.append(f"{lm.name} was not asked about some facts: {failure}")
    made = [Compared(decision="new")] * len(asked)
    for place, reading in readings.items():
        report.usage.add(reading.usage)
        value = reading.value
        if value is None:
            warning = f"{lm.name} did not say what a fact changes ({asked[place][0]!r}): {reading.failure}"
            report.warnings.append(warning)
        elif 1 <= value.number <= len(asked[place][1]):
            made[place] = value
        else:
            made[place] = value.model_copy(update={"decision": "new"})
    return made


def _values(asked: tuple[str, Sequence[str]]) -> Mapping[str, str]:
    statement, facts = asked
    shown = "\n".join(f"| {number}. {one_line(fact)}" for number, fact in enumerate(facts, start=1))
    return {"statement": section(statement, "statement"), "facts": shown}
