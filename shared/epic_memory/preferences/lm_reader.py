"""Reader of preferences with a language model: aspects (liked and avoided phrases) and expansions, in one call each."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import Self

from epic_memory.lm.answers import Line, Shape, lines
from epic_memory.lm.base import LanguageModel
from epic_memory.lm.client import LMReader, Reading, RetryPolicy
from epic_memory.lm.prompting import section
from epic_memory.runtime.effects import Effects
from epic_memory.types import Preference, Usage
from epic_memory.types.preferences import FIRMNESS, Aspects, Expansion

_MOST_TOKENS = 900
_MOST_PHRASES = 16
_LONGEST_PHRASE = 160
_QUESTIONS, _THINGS = 6, 10
_NO_SIDES = "it names nothing that is liked or avoided"

_NUMBERED = re.compile(r"^(?:[-*\u2022\u2013]|\d{1,2}[.)])[ \t]{1,9}")
# Characters that change the direction of writing or show nothing.
_UNSEEN = re.compile("[\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_NOTHING = re.compile(
    r"\W*(?:no|none|n/a|nothing|null|empty|unknown|unspecified|not specified|always|everywhere|any ?time)?\W*", re.I
)


def _phrases(most: int) -> Any:
    def cleaned(given: Any) -> Any:
        listed = lines(2 * _MOST_PHRASES)(given)
        if not isinstance(listed, list):
            return listed
        first: dict[str, str] = {}
        for phrase in filter(None, map(_phrase, listed)):
            first.setdefault(phrase.casefold(), phrase)
        return list(first.values())[:most]

    return BeforeValidator(cleaned)


def _phrase(line: str) -> str:
    """Return a phrase without numbering and marks at its ends; empty if it says nothing, such as "none" or "..."."""
    phrase = _NUMBERED.sub("", " ".join(_UNSEEN.sub(" ", line).split())).strip(" .;,")
    return "" if _NOTHING.fullmatch(phrase) or len(phrase) > _LONGEST_PHRASE else phrase


def _firmness(given: Any) -> str:
    word = str(given).strip().lower()
    return next((name for name in FIRMNESS if word.startswith(name)), "strong")


_Phrases = Annotated[tuple[Line, ...], _phrases(_MOST_PHRASES), Field(max_length=_MOST_PHRASES)]
_Things = Annotated[tuple[Line, ...], _phrases(_THINGS), Field(max_length=_THINGS)]


class Stated(Shape):
    """Aspects of a preference, and its expansion, as a model reads them."""

    liked: _Phrases = ()
    avoided: _Phrases = ()
    firmness: Annotated[Literal["strict", "strong", "mild"], BeforeValidator(_firmness)] = "strong"
    scope: Line = ""
    questions: Annotated[tuple[Line, ...], _phrases(_QUESTIONS), Field(max_length=_QUESTIONS)] = ()
    follows: _Things = ()
    breaks: _Things = ()

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.aspects() is None and self.expansion() is None:
            raise ValueError(_NO_SIDES)
        return self

    def aspects(self) -> Aspects | None:
        """Return the aspects, if there are any; what is on both sides is avoided."""
        if not self.liked and not self.avoided:
            return None
        against = {phrase.casefold() for phrase in self.avoided}
        return Aspects(
            liked=tuple(phrase for phrase in self.liked if phrase.casefold() not in against),
            avoided=self.avoided,
            firmness=FIRMNESS[self.firmness],
            scope=_phrase(self.scope),
            source="model",
        )

    def expansion(self) -> Expansion | None:
        """Return the expansion, without what is on both sides; None if there is nothing."""
        both = {one.casefold() for one in self.follows} & {one.casefold() for one in self.breaks}
        follows, breaks = (
            tuple(one for one in side if one.casefold() not in both) for side in (self.follows, self.breaks)
        )
        if not (self.questions or follows or breaks):
            return None
        return Expansion(questions=self.questions, follows=follows, breaks=breaks, source="model")


@dataclass(frozen=True, kw_only=True)
class AspectReading:
    """A model's reading of a preference; without aspects, it holds the reason and the unreadable answer.

    Attributes:
        aspects: The liked and avoided phrases; None if the model gave none.
        expansion: The meaning in practice; None if the model gave none.
        failure: Why there are no aspects.
        answer: The model's answer, if nothing of it could be understood.
        usage: Calls, tokens and seconds of the model.
    """

    aspects: Aspects | None = None
    expansion: Expansion | None = None
    failure: str = ""
    answer: str = ""
    usage: Usage = field(default_factory=Usage, compare=False, repr=False)


@runtime_checkable
class Reader(Protocol):
    """Protocol of a reader of preferences; a verifier may have one as its attribute `aspect_reader`.

    Attributes:
        name: Identifies the model and its prompt.
    """

    name: str

    def stream(self, preferences: Sequence[Preference]) -> Iterator[tuple[int, AspectReading]]:
        """Yield `(position, reading)` for each preference, in any order."""
        ...

    def astream(self, preferences: Sequence[Preference]) -> AsyncIterator[tuple[int, AspectReading]]:
        """Yield readings as `stream` does, without blocking the event loop."""
        ...


class AspectReader:
    """A reader that asks a language model what preferences like and avoid, and what that means in practice.

        (reading,) = AspectReader(OllamaLM("qwen3:4b")).read(["I avoid hotels with on-site casinos."])
        reading.aspects.avoided, reading.expansion.breaks

    The model is asked once more if its answer cannot be understood, and a call that fails is tried again. A memory
    whose verifier has a model reads its preferences this way by itself.

    Args:
        lm: Any `LanguageModel`. Its `concurrency` is how many preferences are read at once.
        patience: Policy for calls that fail, which another client of the same model may have too.

    Attributes:
        name: Made of model and prompt.

    Raises:
        InvalidInputError: for an object that is not a language model, or invalid arguments.
    """

    def __init__(self, lm: LanguageModel, *, patience: RetryPolicy | None = None) -> None:
        self._reader = LMReader(lm, "preference", Stated, _values, max_tokens=_MOST_TOKENS, patience=patience)
        self.name = self._reader.name

    @property
    def lm(self) -> LanguageModel:
        """The language model that is asked."""
        return self._reader.client.lm

    def read(self, preferences: Sequence[str | Preference]) -> list[AspectReading]:
        """Return one reading for each preference, in order."""
        given = [preferences] if isinstance(preferences, (str, Preference)) else preferences
        readings = self.stream([Preference.of(preference) for preference in given])
        return [reading for _, reading in sorted(readings, key=lambda one: one[0])]

    def stream(self, preferences: Sequence[Preference]) -> Iterator[tuple[int, AspectReading]]:
        """Yield positions and readings, in the order in which they are ready."""
        return self._reader.client.stream(lambda one: self._reading(*one), list(enumerate(preferences)))

    def astream(self, preferences: Sequence[Preference]) -> AsyncIterator[tuple[int, AspectReading]]:
        """Yield readings as `stream` does, without blocking the event loop."""
        return self._reader.client.astream(lambda one: self._reading(*one), list(enumerate(preferences)))

    def _reading(self, place: int, preference: Preference) -> Effects[tuple[int, AspectReading]]:
        reading: Reading[Stated] = yield from self._reader.reading(preference)
        value = reading.value
        aspects = None if value is None else value.aspects()
        incomplete = value is not None and aspects is None
        return place, AspectReading(
            aspects=aspects,
            expansion=None if value is None else value.expansion(),
            failure=f"The model's answer is not complete: {_NO_SIDES}." if incomplete else reading.failure,
            answer=reading.answer,
            usage=reading.usage,
        )


def _values(preference: Preference) -> Mapping[str, str]:
    return {"preference": section(preference.text, "preference")}
