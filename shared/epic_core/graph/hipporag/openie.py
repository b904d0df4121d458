"""Extraction for HippoRAG with its own language model, whose answers are read as JSON and never evaluated.

HippoRAG's own extraction looks for a dictionary in its model's answer, and passes it to Python's `eval`. A passage can
tell a model what to answer, so anybody who writes a passage can run code. `SafeOpenIE` asks the same model the same
questions, and only reads the answers.
"""

from __future__ import annotations

import dis
import inspect
import json
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from epic_core.errors import InvalidInputError
from epic_core.graph.extraction.base import LONGEST_NAME, Extractor, Unextracted
from epic_core.lm.answers import UnreadableAnswer, json_pieces, mappings
from epic_core.lm.failures import said

_MOST_ENTITIES = 100
_MOST_TRIPLES = 200
_AT_ONCE = 8
# The relation between two entities where an extractor found no words between them.
_NAMED_TOGETHER = "is mentioned with"


class UnsafeExtractionWarning(UserWarning):
    """Warning that a HippoRAG instance evaluates a language model's answers as Python."""


@dataclass
class Entities:
    """The entities of a passage, in HippoRAG's form."""

    chunk_id: str
    response: str
    unique_entities: list[str]
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Triples:
    """The facts of a passage, in HippoRAG's form."""

    chunk_id: str
    response: str
    triples: list[list[str]]
    metadata: dict[str, Any] = field(default_factory=dict)


class Extracting(ABC):
    """Base of replacements for a HippoRAG instance's `openie`, which also report failures.

    Attributes:
        failed: The passages whose extraction failed: text to reason.
        left_out: How many facts were left out because HippoRAG would keep nothing of their names: it drops every letter
            outside of A-Z, so that all names in other scripts would be the same entity.
    """

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}
        self.left_out = 0

    @abstractmethod
    def batch_openie(self, chunks: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Entities], dict[str, Triples]]:
        """Return entities and facts of each passage, by its key; a failed passage has none, and is in `failed`."""

    def _found(self, key: str, passage: str, entities: Entities, triples: Triples) -> tuple[str, Entities, Triples]:
        plain = []
        for subject, relation, object_ in triples.triples[:_MOST_TRIPLES]:
            triple = [_latin(subject), _latin(relation) or _NAMED_TOGETHER, _latin(object_)]
            if _names(triple[0]) and _names(triple[2]):
                plain.append(triple)
            else:
                self.left_out += 1
        entities.unique_entities = list(dict.fromkeys(map(_latin, entities.unique_entities)))[:_MOST_ENTITIES]
        triples.triples = plain
        reason = triples.metadata.get("error") or (None if plain else entities.metadata.get("error"))
        if reason is not None:
            self.failed[passage] = reason
        return key, entities, triples


class SafeOpenIE(Extracting):
    """HippoRAG's extraction with its own prompts and language model, whose answers are read as JSON.

        hipporag.openie = SafeOpenIE(hipporag.openie)    # `EpicHippoRAG` does this for its own calls

    Args:
        own: The instance's `openie`: its prompts (`prompt_template_manager`) and its model (`llm_model`) are used.
        attempts: How often passages were tried before, by text: after an unreadable answer the model is asked with
            another seed, so that its cache does not repeat the answer.

    Raises:
        InvalidInputError: for an `openie` without prompts or a model.
    """

    def __init__(self, own: Any, *, attempts: Mapping[str, int] | None = None) -> None:
        super().__init__()
        render = getattr(getattr(own, "prompt_template_manager", None), "render", None)
        infer = getattr(getattr(own, "llm_model", None), "infer", None)
        if not callable(render) or not callable(infer):
            raise InvalidInputError(
                f"This {type(own).__name__} has no prompt_template_manager.render or no llm_model.infer to extract"
                " with. Give extraction= an extractor, such as epic_core.graph.extraction.base.PhraseExtractor()."
            )
        self._render: Callable[..., Any] = render
        self._infer: Callable[..., Any] = infer
        self._attempts = attempts or {}

    def ner(self, chunk_key: str, passage: str) -> Entities:
        """Return the named entities of a passage."""
        response, metadata, found = self._asked("ner", "named_entities", passage, passage=passage)
        names = [name for name in map(_name, found) if name]
        return Entities(chunk_key, response, list(dict.fromkeys(names)), metadata)

    def triple_extraction(self, chunk_key: str, passage: str, named_entities: Sequence[str]) -> Triples:
        """Return the facts of a passage: each a subject, a relation and an object."""
        named = json.dumps({"named_entities": list(named_entities)})
        response, metadata, found = self._asked(
            "triple_extraction", "triples", passage, passage=passage, named_entity_json=named
        )
        triples = [triple for triple in map(_triple, found) if triple is not None]
        unique = [list(triple) for triple in dict.fromkeys(map(tuple, triples))]
        return Triples(chunk_key, response, unique, metadata)

    def openie(self, chunk_key: str, passage: str) -> dict[str, Any]:
        """Return the entities and the facts of one passage."""
        _, entities, triples = self._both(chunk_key, passage)
        return {"ner": entities, "triplets": triples}

    def batch_openie(self, chunks: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Entities], dict[str, Triples]]:
        """Return entities and facts of each passage, by its key; a failed passage has none, and is in `failed`."""
        passages = {key: str(chunk["content"]) for key, chunk in chunks.items()}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(self._both, passages.keys(), passages.values()))
        return {key: entities for key, entities, _ in found}, {key: triples for key, _, triples in found}

    def _both(self, key: str, passage: str) -> tuple[str, Entities, Triples]:
        entities = self.ner(key, passage)
        if "error" in entities.metadata and not entities.response:
            # The model gave no answer at all, and would give none to the second question.
            triples = Triples(key, "", [], entities.metadata)
        else:
            triples = self.triple_extraction(key, passage, entities.unique_entities)
        return self._found(key, passage, entities, triples)

    def _asked(self, prompt: str, wanted: str, text: str, **parts: str) -> tuple[str, dict[str, Any], list[Any]]:
        """Return the model's answer, the details of the call, and the list under a name in the answer."""
        again = self._attempts.get(text, 0)
        response, metadata = "", {}
        try:
            messages = self._render(name=prompt, **parts)
            options = {"seed": again} if again else {}
            response, told, cached = self._infer(messages=messages, **options)
            metadata = {**told, "cache_hit": cached}
            return response, metadata, _listed(response, wanted)
        except Exception as error:  # a model's client raises anything; the passage is indexed without facts
            # Code that repeats calls wraps the exceptions they raised.
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            return response, {**metadata, "error": f"{prompt}: {said(cause)}"}, []


class ExtractorOpenIE(Extracting):
    """An `Extractor` of epic_core in place of HippoRAG's own extraction.

    Args:
        extractor: Finds entities and facts, such as `PhraseExtractor()`, which asks no language model.
    """

    def __init__(self, extractor: Extractor) -> None:
        super().__init__()
        self._extractor = extractor

    def batch_openie(self, chunks: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Entities], dict[str, Triples]]:
        """Return entities and facts of each passage, by its key; a failed passage has none, and is in `failed`."""
        keys = list(chunks)
        texts = [str(chunks[key]["content"]) for key in keys]
        names: dict[str, Entities] = {}
        facts: dict[str, Triples] = {}
        for place, one in self._extractor.stream(texts):
            key = keys[place]
            if isinstance(one, Unextracted):
                error = {"error": one.reason}
                entities, triples = Entities(key, one.answer, [], error), Triples(key, one.answer, [], error)
            else:
                entities = Entities(key, "", list(one.entities))
                triples = Triples(key, "", [[fact.subject, fact.relation, fact.object] for fact in one.facts])
            _, names[key], facts[key] = self._found(key, texts[place], entities, triples)
        return names, facts


def evaluates(openie: Any) -> bool:
    """Tell whether a HippoRAG instance's extraction passes text to Python's `eval`, as far as its code shows."""
    kind = type(openie)
    package = kind.__module__.partition(".")[0]
    found: list[Any] = [getattr(kind, "batch_openie", None)]
    seen: set[CodeType] = set()
    while found:
        function = inspect.unwrap(found.pop())
        if not inspect.isfunction(function) or function.__code__ in seen:
            continue
        seen.add(function.__code__)
        for code in _codes(function.__code__):
            loaded = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
            if loaded & {"eval", "exec"}:
                return True
            called = [function.__globals__.get(name) for name in loaded]
            found += [one for one in called if str(getattr(one, "__module__", "")).partition(".")[0] == package]
            found += [getattr(kind, name, None) for name in code.co_names]
    return False


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code, and that of the functions in it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _listed(answer: object, name: str) -> list[Any]:
    """Return the list under a name in an answer's JSON, or the JSON itself if it is a list.

    Raises:
        UnreadableAnswer: if there is none.
    """
    if not isinstance(answer, str):
        raise UnreadableAnswer(f"the answer is no text but {type(answer).__name__}")
    pieces = json_pieces(answer)
    for piece in pieces:
        for record in mappings(piece.value):
            listed = record.get(name)
            if isinstance(listed, list):
                # A list that is cut off may end in the middle of a name.
                return listed if piece.whole else listed[:-1]
    if len(pieces) == 1 and isinstance(pieces[0].value, list):
        return pieces[0].value if pieces[0].whole else pieces[0].value[:-1]
    raise UnreadableAnswer(f"the answer has no list {name!r}")


def _name(value: object) -> str:
    """Return a name, or "" if the value is not one."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    name = " ".join(str(value).split())
    return name if len(name) <= LONGEST_NAME else ""


def _triple(value: object) -> list[str] | None:
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        return None
    subject, relation, object_ = map(_name, value)
    return [subject, relation, object_] if subject and object_ else None


def _latin(name: str) -> str:
    """Return a name without accents: HippoRAG replaces every letter outside of A-Z by a gap."""
    apart = unicodedata.normalize("NFKD", name)
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def _names(name: str) -> bool:
    return any(letter.isascii() and letter.isalnum() for letter in name)
