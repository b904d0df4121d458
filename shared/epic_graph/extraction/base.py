"""Entities and facts of passages, the protocol of extractors, and the extractor without a model."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from epic_graph.extraction.keys import entity_key
from epic_graph.extraction.noun_phrases import Phrase, phrases
from epic_memory.errors import InvalidInputError
from epic_memory.runtime.batching import checked_part
from epic_memory.runtime.effects import in_thread
from epic_memory.types import Usage

__all__ = ["Extraction", "Extractor", "Fact", "PhraseExtractor", "Unextracted", "entity_key"]

# The most entities of a passage; a chunk has far fewer.
MOST_ENTITIES = 500
LONGEST_NAME = 160
_LONGEST_RELATION = 48
_MOST_WORDS = 6
_WORDS_ONLY = re.compile(r"[^\W_][\w \'\u2019-]*")
_AT_ONCE = 64


@dataclass(frozen=True)
class Fact:
    """A fact of a passage about two entities.

    Attributes:
        subject, object: Names of entities.
        relation: The words between them; empty if they are only named together.
    """

    subject: str
    relation: str
    object: str


@dataclass(frozen=True)
class Extraction:
    """The entities and facts of a passage.

    Attributes:
        entities: Names as a reader would write them, each once by `entity_key`; the entities of facts are included.
        facts: In the passage's order.
        usage: The usage of a language model, if one was asked.
    """

    entities: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    usage: Usage = field(default_factory=Usage, compare=False, repr=False)


@dataclass(frozen=True)
class Unextracted:
    """A passage for which an extractor failed; it can be tried again.

    Attributes:
        reason: What went wrong.
        answer: The language model's unusable answer, if there is one.
        usage: The usage of the language model.
    """

    reason: str
    answer: str = ""
    usage: Usage = field(default_factory=Usage, compare=False, repr=False)


@runtime_checkable
class Extractor(Protocol):
    """Anything that finds the entities and facts of passages.

    Attributes:
        name: Has to change when the results would; `GraphMemory.reextract` extracts passages of another name again.
    """

    name: str

    def stream(self, texts: Sequence[str]) -> Iterator[tuple[int, Extraction | Unextracted]]:
        """Yield `(position, extraction)` for each text, in any order, each once."""
        ...

    def astream(self, texts: Sequence[str]) -> AsyncIterator[tuple[int, Extraction | Unextracted]]:
        """Do the same as `stream` without blocking the event loop."""
        ...


def checked_extractor(extractor: Extractor) -> Extractor:
    """Check an extractor, and return it.

    Raises:
        InvalidInputError: if it is none.
    """
    for method in ("stream", "astream"):
        checked_part("extractor", extractor, method)
    # A framework's chat model has both methods, but no name.
    if not isinstance(getattr(extractor, "name", None), str):
        raise InvalidInputError("extractor must have a name, which changes when what it would find changes.")
    return extractor


class PhraseExtractor:
    """Extractor of names and noun phrases, and of pairs that stand side by side: no language model, any script.

        PhraseExtractor().names("Who sold the tractor to Idris Pell?")    # ('tractor', 'Idris Pell')

    It reads English best; other languages by their function words and capitals, text without spaces by runs of its
    scripts. A name in a longer phrase is an entity, too: "Sallow Green" in "the Sallow Green team".

    Attributes:
        name: Changes when the results do.
    """

    name = "phrases-v1"

    def names(self, text: str) -> tuple[str, ...]:
        """Return the entities of a text or a query, in order, each once by `entity_key`; none if it names nothing.

        Raises:
            InvalidInputError: for anything but a string.
        """
        return self.extract(text).entities

    def extract(self, text: str) -> Extraction:
        """Return the entities of a text, and a fact for entities that one sentence names side by side.

        Raises:
            InvalidInputError: for anything but a string.
        """
        if not isinstance(text, str):
            raise InvalidInputError(f"A text to find names in must be a string, not a {type(text).__name__}.")
        spelt: dict[str, str] = {}
        whole: list[tuple[str, Phrase]] = []
        for phrase in phrases(text):
            key = entity_key(phrase.name)
            if not key or len(phrase.name) > LONGEST_NAME:
                continue
            if key not in spelt:
                if len(spelt) == MOST_ENTITIES:
                    break
                spelt[key] = phrase.name
            if not phrase.within:
                whole.append((key, phrase))
        return Extraction(tuple(spelt.values()), tuple(_facts(text, spelt, whole)))

    def stream(self, texts: Sequence[str]) -> Iterator[tuple[int, Extraction | Unextracted]]:
        """Yield `(position, extraction)` for each text, in order."""
        for place, text in enumerate(texts):
            yield place, self.extract(text)

    async def astream(self, texts: Sequence[str]) -> AsyncIterator[tuple[int, Extraction | Unextracted]]:
        """Do the same as `stream` in a worker thread."""
        for begin in range(0, len(texts), _AT_ONCE):
            part = map(self.extract, texts[begin : begin + _AT_ONCE])
            for place, found in enumerate(await in_thread(list[Extraction], part), begin):
                yield place, found


def _facts(text: str, spelt: Mapping[str, str], whole: Sequence[tuple[str, Phrase]]) -> Iterator[Fact]:
    """Yield a fact for two phrases, or two names, that follow one another in a sentence."""
    stated: set[tuple[str, str]] = set()
    named: tuple[str, Phrase] | None = None
    for (key, phrase), before in zip(whole, [None, *whole], strict=False):
        pairs = [before, named] if phrase.proper else [before]
        if phrase.proper:
            named = key, phrase
        for other in pairs:
            if other is None or other[1].sentence != phrase.sentence or other[0] == key:
                continue
            pair = min(other[0], key), max(other[0], key)
            if pair not in stated:
                stated.add(pair)
                yield Fact(spelt[other[0]], _between(text, other[1], phrase), spelt[key])


def _between(text: str, first: Phrase, second: Phrase) -> str:
    """Return the words between two phrases, if they are few and without punctuation, else ""."""
    said = " ".join(text[first.end : min(second.begin, first.end + _LONGEST_RELATION + 1)].split())
    words = said if second.begin - first.end <= _LONGEST_RELATION else ""
    return words if words.count(" ") < _MOST_WORDS and _WORDS_ONLY.fullmatch(words) else ""
