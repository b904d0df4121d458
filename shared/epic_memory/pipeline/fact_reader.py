"""Reader of facts: asks a language model what a new fact does to those that are held, where its words do not tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from epic_memory.lm.base import LanguageModel
from epic_memory.lm.client import LMReader, readings_of
from epic_memory.lm.prompting import one_line, section
from epic_memory.lm.shapes import Line, Shape, lines
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


@dataclass(frozen=True, kw_only=True)
class FactReading:
    """Relation of a new fact to one that is held.

    Attributes:
        relation: What it does; "new" without an answer.
        place: To which of the facts shown, from 0; -1 for none.
        questions: Questions that it answers.
    """

    relation: Relation = "new"
    place: int = -1
    questions: tuple[str, ...] = ()


def read_facts(
    lm: LanguageModel, asked: Sequence[tuple[str, Sequence[str]]], report: BuildReport
) -> Effects[list[FactReading]]:
    """Ask a model what new facts do to others; what it does not answer counts as new, and is reported.

    Args:
        lm: The model.
        asked: Each new fact with the facts that it may be about.
        report: Gets usage and failures.
    """
    reader = LMReader(lm, "fact", Compared, _values, max_tokens=_MOST_TOKENS)
    readings, failure = yield from readings_of(lm, reader, asked, "facts")
    if failure:
        report.warnings.append(f"{lm.name} was not asked about some facts: {failure}")
    made = [FactReading()] * len(asked)
    for place, reading in readings.items():
        report.usage.add(reading.usage)
        value = reading.value
        if value is None:
            report.warnings.append(
                f"{lm.name} did not say what a fact changes ({asked[place][0]!r}): {reading.failure}"
            )
        elif value.decision != "new" and 1 <= value.number <= len(asked[place][1]):
            made[place] = FactReading(relation=value.decision, place=value.number - 1, questions=value.questions)
        else:
            made[place] = FactReading(questions=value.questions)
    return made


def _values(asked: tuple[str, Sequence[str]]) -> Mapping[str, str]:
    statement, facts = asked
    shown = "\n".join(f"| {number}. {one_line(fact)}" for number, fact in enumerate(facts, start=1))
    return {"statement": section(statement, "statement"), "facts": shown}
