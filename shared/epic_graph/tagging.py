"""Taggers: by the names and noun phrases of a text, or by a language model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from epic_graph.extraction.keys import entity_key
from epic_graph.extraction.noun_phrases import phrases
from epic_memory.lm.answers import Line, Shape, lines
from epic_memory.lm.base import LanguageModel
from epic_memory.lm.client import LMReader, Reading, RetryPolicy
from epic_memory.lm.prompting import section
from epic_memory.runtime.effects import in_thread
from epic_memory.text.tagging import Tags

_MOST, _LONGEST = 12, 60
_MOST_TOKENS = 400
_CHOICE = re.compile(r"\b(?:recommend\w*|suggest\w*|which|should (?:i|we)|best|ideas?|options?)\b", re.I)
_EXPLANATION = re.compile(r"\b(?:why|how (?:do|does|did|is|are|can)|explain|what (?:is|are|does)|difference)\b", re.I)


def _short(given: Any) -> Any:
    listed = lines(_MOST)(given)
    return [line for line in listed if len(line) <= _LONGEST] if isinstance(listed, list) else listed


_Tags = Annotated[tuple[Line, ...], BeforeValidator(_short), Field(max_length=_MOST)]


class TagsShape(Shape):
    """Tags as a model gives them."""

    topics: _Tags
    entities: _Tags = ()
    kind: _Tags = ()
    intent: _Tags = ()
    preferences: _Tags = ()


class PhraseTagger:
    """Tagger without a model: entities are the names in a text, topics its noun phrases.

    `kind` is "question" or "statement", `intent` "choice" or "explanation" where English words say so.
    """

    name = "phrases-1"

    def tag(self, texts: Sequence[str]) -> list[Tags | None]:
        """Return the tags of each text, in order."""
        return list(map(_by_phrases, texts))

    async def atag(self, texts: Sequence[str]) -> list[Tags | None]:
        """Do the same as `tag` in a worker thread."""
        return await in_thread(self.tag, texts)


def _by_phrases(text: str) -> Tags:
    names: dict[str, str] = {}
    topics: dict[str, str] = {}
    for phrase in phrases(text):
        if len(phrase.name) <= _LONGEST and (key := entity_key(phrase.name)):
            (names if phrase.proper else topics).setdefault(key, phrase.name)
    asks = text.rstrip().endswith("?")
    intent = "choice" if _CHOICE.search(text) else "explanation" if _EXPLANATION.search(text) else ""
    return {
        "topics": [name.lower() for name in topics.values()][:_MOST],
        "entities": list(names.values())[:_MOST],
        "kind": ["question" if asks else "statement"],
        "intent": [intent] if asks and intent else [],
    }


class LMTagger:
    """Tagger that asks a language model, one call for each text.

    Raises:
        InvalidInputError: for anything but a language model.
    """

    def __init__(self, lm: LanguageModel, *, retries: int = 3) -> None:
        self._reader = LMReader(
            lm, "tags", TagsShape, _shown, max_tokens=_MOST_TOKENS, patience=RetryPolicy(retries=retries)
        )
        self.name = self._reader.name

    def tag(self, texts: Sequence[str]) -> list[Tags | None]:
        """Return the tags of each text, in order; None where the model failed, or gave no tags twice."""
        return _in_order(dict(self._reader.stream(texts)))

    async def atag(self, texts: Sequence[str]) -> list[Tags | None]:
        """Do the same as `tag` without blocking the event loop."""
        return _in_order({place: reading async for place, reading in self._reader.astream(texts)})


def _shown(text: str) -> Mapping[str, str]:
    return {"text": section(text, "text")}


def _in_order(readings: Mapping[int, Reading[TagsShape]]) -> list[Tags | None]:
    values = [readings[place].value for place in sorted(readings)]
    return [None if value is None else value.model_dump(mode="json") for value in values]
