"""Extractor that asks a language model for a passage's entities and facts, in one call for each passage."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from epic_graph.extraction.base import LONGEST_NAME, Extraction, Fact, Unextracted, entity_key
from epic_memory.errors import InvalidInputError
from epic_memory.lm.answers import Line, Shape, letters, lines
from epic_memory.lm.base import LanguageModel
from epic_memory.lm.client import LMReader, Reading, RetryPolicy
from epic_memory.lm.prompting import section

_MOST_TOKENS = 1024
_MOST_ENTITIES = 64
_MOST_FACTS = 64
_NONE = frozenset({"none", "na", "no", "nothing"})
_SOMETHING = re.compile(r"[^\W_]")


def _triples(given: Any) -> Any:
    """Return the triples of a list, which small models also write as objects of three values."""
    if not isinstance(given, list):
        return given
    parts = [list(each.values()) if isinstance(each, Mapping) else each for each in given]
    return [each for each in parts if isinstance(each, list) and len(each) == 3][:_MOST_FACTS]


class Read(Shape):
    """Entities and facts as a model gives them."""

    entities: Annotated[tuple[Line, ...], BeforeValidator(lines(_MOST_ENTITIES)), Field(max_length=_MOST_ENTITIES)]
    facts: Annotated[
        tuple[Annotated[tuple[Line, ...], Field(min_length=3, max_length=3)], ...],
        BeforeValidator(_triples),
        Field(max_length=_MOST_FACTS),
    ]


class LMExtractor:
    """Extractor that has a language model read passages.

        extractor = LMExtractor(OllamaLM("qwen3:4b"))
        ((_, extraction),) = extractor.stream(["Idris Pell scored for Sallow Green."])

    An unreadable answer is asked for once more; a call that fails is tried again. Whether facts are true to the passage
    cannot be checked, but an entity that the passage does not name is left out, unless a fact connects it to one that
    is named.

    Args:
        lm: Any `LanguageModel`. Its `concurrency` is how many passages are read at once.
        retries: Attempts after the first, for calls that failed. After a timeout there is only one more.
        backoff: Seconds before the second attempt; doubled for each later one.

    Attributes:
        name: Made of model and prompt.

    Raises:
        InvalidInputError: for anything but a language model, or an invalid argument.
    """

    def __init__(self, lm: LanguageModel, *, retries: int = 3, backoff: float = 0.5) -> None:
        self._reader: LMReader[str, Read] = LMReader(
            lm,
            "entities",
            Read,
            lambda text: {"passage": section(text, "passage")},
            max_tokens=_MOST_TOKENS,
            patience=RetryPolicy(retries=retries, backoff=backoff),
        )
        self.name = self._reader.name

    def stream(self, texts: Sequence[str]) -> Iterator[tuple[int, Extraction | Unextracted]]:
        """Yield `(position, extraction)` for each text, as soon as it is read.

        Raises:
            InvalidInputError: for anything but a sequence of strings.
        """
        _check(texts)
        for place, reading in self._reader.stream(texts):
            yield place, _extraction(texts[place], reading)

    async def astream(self, texts: Sequence[str]) -> AsyncIterator[tuple[int, Extraction | Unextracted]]:
        """Do the same as `stream` without blocking the event loop."""
        _check(texts)
        async with aclosing(self._reader.astream(texts)) as readings:
            async for place, reading in readings:
                yield place, _extraction(texts[place], reading)


def _extraction(text: str, reading: Reading[Read]) -> Extraction | Unextracted:
    if reading.value is None:
        return Unextracted(reading.failure, reading.answer, reading.usage)
    names = [name for each in reading.value.entities if (name := _name(each))]
    found = _grounded(text, names, list(_facts(reading.value.facts)))
    return Extraction(found.entities, found.facts, reading.usage)


def _check(texts: object) -> None:
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise InvalidInputError(f"Passages must be a sequence of strings, not a {type(texts).__name__}.")
    for text in texts:
        if not isinstance(text, str):
            raise InvalidInputError(f"A passage must be a string, not a {type(text).__name__}.")


def _facts(triples: Sequence[Sequence[str]]) -> Iterator[Fact]:
    """Yield the facts of triples whose ends are two names."""
    for subject, relation, object_ in triples:
        ends = _name(subject), _name(object_)
        if all(ends) and entity_key(ends[0]) != entity_key(ends[1]):
            yield Fact(ends[0], relation if len(relation) <= LONGEST_NAME else "", ends[1])


def _name(line: str) -> str:
    """Return a name without quotes and marks at its ends; empty if it is none."""
    name = line.strip(" \"'.;,|")
    return name if len(name) <= LONGEST_NAME and _SOMETHING.search(name) and letters(name) not in _NONE else ""


def _grounded(passage: str, names: Sequence[str], facts: Sequence[Fact]) -> Extraction:
    """Return the extraction without names that are not in the passage and that no fact connects to a name in it."""
    plain = entity_key(passage)
    words = frozenset(plain.split())

    def said(name: str) -> bool:
        key = entity_key(name)
        # In scripts without spaces between words, a name may stand inside a word.
        return bool(key) and (words.issuperset(key.split()) or (not key.isascii() and key in plain))

    stated: dict[tuple[str, str, str], Fact] = {}
    for fact in facts:
        if said(fact.subject) or said(fact.object):
            stated.setdefault((entity_key(fact.subject), fact.relation.casefold(), entity_key(fact.object)), fact)
    kept = list(stated.values())[:_MOST_FACTS]
    spelt: dict[str, str] = {}
    # Entities of facts first: none of them may be missing.
    for name in [*(end for fact in kept for end in (fact.subject, fact.object)), *filter(said, names)]:
        if len(spelt) < _MOST_ENTITIES + 2 * len(kept):
            spelt.setdefault(entity_key(name), name)
    facts = [Fact(spelt[entity_key(fact.subject)], fact.relation, spelt[entity_key(fact.object)]) for fact in kept]
    return Extraction(tuple(spelt.values()), tuple(facts))
