"""Tagger by the names and noun phrases of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from epic_graph.extraction.keys import entity_key
from epic_graph.extraction.noun_phrases import phrases
from epic_memory.runtime.effects import in_thread
from epic_rerank.tags import Tags

_MOST, _LONGEST = 12, 60
_CHOICE = re.compile(r"\b(?:recommend\w*|suggest\w*|which|should (?:i|we)|best|ideas?|options?)\b", re.I)
_EXPLANATION = re.compile(r"\b(?:why|how (?:do|does|did|is|are|can)|explain|what (?:is|are|does)|difference)\b", re.I)


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
