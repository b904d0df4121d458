"""Extraction for HippoRAG whose answers are read as JSON and never evaluated.

HippoRAG's own extraction looks for a dictionary in its model's answer, and passes it to Python's `eval`. A passage can
tell a model what to answer, so anybody who writes a passage can run code. `HippoExtractor` asks the same model the same
questions, and only reads the answers.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

from epic_graph.extraction.base import LONGEST_NAME, Extraction, Fact, Unextracted
from epic_memory.lm.answers import UnreadableAnswer, json_pieces, said_in
from epic_memory.lm.failures import said

_MOST_FACTS = 200
_AT_ONCE = 8
# The relation between two entities where an extractor found no words between them.
_NAMED_TOGETHER = "is mentioned with"

Stream: TypeAlias = Callable[[Sequence[str]], Iterator[tuple[int, Extraction | Unextracted]]]
"""`Extractor.stream`."""


class HippoExtractor:
    """Extractor with the prompts and the language model of a HippoRAG instance.

    Args:
        openie: The instance's own extraction.
        attempts: How often passages were tried before, by text: after an unreadable answer the model is asked with
            another seed, so that its cache does not repeat the answer.
    """

    def __init__(self, openie: Any, attempts: Mapping[str, int]) -> None:
        self._openie = openie
        self._attempts = attempts

    def stream(self, texts: Sequence[str]) -> Iterator[tuple[int, Extraction | Unextracted]]:
        """Yield `(position, extraction)` for each text, in order."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            yield from enumerate(pool.map(self._extraction, texts))

    def _extraction(self, text: str) -> Extraction | Unextracted:
        unread, names = None, []
        try:
            try:
                names = [name for name in self._asked("ner", "named_entities", text) if isinstance(name, str)]
            except UnreadableAnswer as error:
                unread = error
            named = json.dumps({"named_entities": names})
            answered = self._asked("triple_extraction", "triples", text, named_entity_json=named)
            facts = [fact for fact in map(_fact, answered) if fact is not None]
            if unread is not None and not facts:
                raise unread
        except Exception as error:  # a model's client raises anything; the passage is indexed without facts
            # Code that repeats calls wraps the exceptions they raised.
            return Unextracted(said(error.__cause__ if isinstance(error.__cause__, Exception) else error))
        return Extraction(tuple(dict.fromkeys(names)), tuple(dict.fromkeys(facts))[:_MOST_FACTS])

    def _asked(self, prompt: str, wanted: str, text: str, **parts: str) -> list[Any]:
        """Ask the model, and return the list under a name in its answer."""
        messages = self._openie.prompt_template_manager.render(name=prompt, passage=text, **parts)
        options = {"seed": self._attempts[text]} if text in self._attempts else {}
        response, *_ = self._openie.llm_model.infer(messages=messages, **options)
        return _listed(response, wanted)


@dataclass(frozen=True)
class Extracted:
    """Entities and facts of a passage, under the names by which HippoRAG reads both."""

    unique_entities: list[str]
    triples: list[list[str]]


class SafeOpenIE:
    """A replacement for the `openie` of a HippoRAG instance, which reports failures.

    Args:
        stream: Finds entities and facts in texts, as an extractor does.

    Attributes:
        failed: The passages whose extraction failed: text to reason.
        left_out: How many facts were left out because HippoRAG would keep nothing of their names: it drops every letter
            outside of A-Z, so that all names in other scripts would be the same entity.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.failed: dict[str, str] = {}
        self.left_out = 0

    def batch_openie(
        self, chunks: Mapping[str, Mapping[str, Any]]
    ) -> tuple[dict[str, Extracted], dict[str, Extracted]]:
        """Return entities and facts of each passage, by its key; a failed passage has none, and is in `failed`."""
        keys, texts = list(chunks), [str(chunk["content"]) for chunk in chunks.values()]
        found = {}
        for place, answer in self._stream(texts):
            if isinstance(answer, Unextracted):
                self.failed[texts[place]] = answer.reason
                found[keys[place]] = Extracted([], [])
            else:
                found[keys[place]] = Extracted(list(answer.entities), list(self._triples(answer.facts)))
        return found, found

    def _triples(self, facts: Sequence[Fact]) -> Iterator[list[str]]:
        for fact in facts:
            subject, relation, object_ = map(_latin, (fact.subject, fact.relation, fact.object))
            if all(any(letter.isascii() and letter.isalnum() for letter in name) for name in (subject, object_)):
                yield [subject, relation or _NAMED_TOGETHER, object_]
            else:
                self.left_out += 1


def _listed(answer: str, name: str) -> list[Any]:
    """Return the list under a name in an answer's JSON, or the JSON itself if it is a list.

    Raises:
        UnreadableAnswer: if there is none.
    """
    for piece in json_pieces(said_in(answer)):
        listed = piece.value.get(name) if isinstance(piece.value, dict) else piece.value
        if isinstance(listed, list):
            # A list that is cut off may end in the middle of a name.
            return listed if piece.whole else listed[:-1]
    raise UnreadableAnswer(f"the answer has no list {name!r}")


def _fact(value: object) -> Fact | None:
    if not isinstance(value, (list, tuple)) or not all(isinstance(part, (str, int, float)) for part in value):
        return None
    parts = [" ".join(str(part).split()) for part in value]
    if len(parts) != 3 or not parts[0] or not parts[2] or max(map(len, parts)) > LONGEST_NAME:
        return None
    return Fact(*parts)


def _latin(name: str) -> str:
    """Return a name without accents: HippoRAG replaces every letter outside of A-Z by a gap."""
    apart = unicodedata.normalize("NFKD", name)
    return "".join(letter for letter in apart if not unicodedata.combining(letter))
