"""Models that a user gives to a plugin's components: the framework's own, those of epic_memory, or the name of one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from epic_memory.encoders import Encoder, by_name
from epic_memory.encoders.base import Embed
from epic_memory.errors import InvalidInputError
from epic_memory.lm import LanguageModel
from epic_memory.lm import by_name as lm_by_name
from epic_memory.lm.failures import kind_of
from epic_memory.memory import EpicMemory
from epic_memory.runtime.effects import Effects
from epic_memory.settings import Settings, asked_model, checked_settings
from epic_memory.types import BuildReport, FloatArray
from epic_memory.verification import Verifier, embedded

if TYPE_CHECKING:
    from epic_graph.memory import GraphMemory
    from epic_graph.reports import GraphReport

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Models:
    """Conversions of a framework's models to encoders, language models and verifiers.

    Attributes:
        component: The base class of the framework's components: none of them is a model of epic_memory by its methods.
        wrapped: The plugin's class around an encoder, which has it as `encoder`.
        embedding, encoder: The framework's embedding model, and its adapter.
        chat, lm: The framework's language model, and its adapter.
        no_embedding, no_chat: The beginnings of the error messages for anything else.
        argument: The name under which the plugin's components take embeddings.
    """

    component: type
    wrapped: type
    embedding: type
    encoder: Callable[[Any], Encoder]
    chat: type
    lm: Callable[[Any], LanguageModel]
    no_embedding: str
    no_chat: str
    argument: str

    def encoder_of(self, given: object) -> Encoder:
        """Return an encoder for the embeddings that a user gave: None is the embedded encoder, a string one's name.

        Raises:
            InvalidInputError: for anything else.
        """
        if given is None:
            return by_name.encoder_of(None)
        if isinstance(given, self.wrapped):
            return given.encoder  # type: ignore[attr-defined, no-any-return]
        if isinstance(given, self.embedding):
            return self.encoder(given)
        if by_name.is_encoder_name(given) or (not isinstance(given, str) and _is_encoder(given)):
            return by_name.encoder_of(given)  # type: ignore[arg-type]
        raise InvalidInputError(
            f"{self.no_embedding}, an encoder of epic_memory, the name of one ({by_name.NAMES}), or None for the"
            f" embedded one; not {_shown(given)}."
        )

    def lm_of(self, given: object) -> LanguageModel:
        """Return a language model for the model that a user gave: the framework's, or any that `epic_memory` takes.

        Raises:
            InvalidInputError: for anything else.
        """
        if isinstance(given, self.chat):
            return self.lm(given)
        if isinstance(given, str):
            return lm_by_name.lm_of(given)
        if not self._is_component(given):
            with suppress(InvalidInputError):
                return lm_by_name.lm_of(cast("LanguageModel", given))
        raise InvalidInputError(f"{self.no_chat}; not {kind_of(given)}.")

    def verifier_of(self, given: object, encoder: Encoder, settings: Settings | None = None) -> Verifier:
        """Return a verifier for the model that a user gave; by default that of the settings, else the embedded one.

        Raises:
            InvalidInputError: for anything else, or a budget without a language model.
        """
        how = checked_settings(settings)
        ready = not self._is_component(given) and isinstance(given, Verifier)
        lm, _ = asked_model(None if given is None or ready else self.lm_of(given), how.model_budget)
        return embedded.verifier_of(cast("Verifier", given) if ready else how.verifier, encoder, lm, how.language)

    def memory_of(
        self, memory: object, embeddings: object = None, llm: object = None, settings: Settings | None = None
    ) -> EpicMemory:
        """Return a memory that is open, or open the one in a file, which has to exist.

        Raises:
            InvalidInputError: for another type, for embeddings that are not those of an open memory, or a model or
                settings beside one.
            StoreError: if the file cannot be opened.
        """
        if isinstance(memory, (str, Path)):
            encoder = None if embeddings is None else self.encoder_of(embeddings)
            lm = None if llm is None else self.lm_of(llm)
            how = replace(checked_settings(settings), must_exist=True)
            return EpicMemory.open(memory, encoder=encoder, llm=lm, settings=how)
        check_open(llm, settings)
        if not isinstance(memory, EpicMemory):
            raise InvalidInputError(f"memory is an EpicMemory or the name of its file, not {type(memory).__name__}.")
        if embeddings is not None:
            given, own = self.encoder_of(embeddings).name, memory.encoder.name
            if given != own:
                raise InvalidInputError(
                    f"The memory is open, with the encoder {own}: leave out {self.argument}={given}."
                )
        return memory

    def searched_of(
        self, memory: object, embeddings: object = None, llm: object = None, settings: Settings | None = None
    ) -> EpicMemory | GraphMemory:
        """Return what a retriever searches: a memory, as `memory_of` returns it, or a graph over one.

        Raises:
            InvalidInputError: as `memory_of` raises it.
            StoreError: if the file cannot be opened.
        """
        inside = getattr(memory, "memory", None)
        if not isinstance(inside, EpicMemory):
            return self.memory_of(memory, embeddings, llm, settings)
        self.memory_of(inside, embeddings, llm, settings)
        return cast("GraphMemory", memory)

    def _is_component(self, given: object) -> bool:
        return isinstance(given, (type, self.component))


def in_namespace(searched: EpicMemory | GraphMemory, namespace: str | None) -> dict[str, str | None]:
    """Return the argument with which a namespace is searched; a graph belongs to one.

    Raises:
        InvalidInputError: for another namespace than the graph's.
    """
    if isinstance(searched, EpicMemory):
        return {"namespace": namespace}
    own = searched.memory.namespace
    if namespace not in (None, own):
        raise InvalidInputError(f"This graph is of the namespace {own!r}. Make a retriever for {namespace!r}.")
    return {}


def memory_report(report: BuildReport | GraphReport) -> BuildReport:
    """Return the memory's part of a report, and log a warning if a graph's extractor failed for passages."""
    if isinstance(report, BuildReport):
        return report
    if report.failed:
        reason = next(iter(report.failures.values()), "no reason was given")
        told = "%d passages are in the graph without entities, as the extractor failed; graph.retry() tries again: %s"
        _logger.warning(told, report.failed, reason)
    return report.memory


def check_open(llm: object, settings: Settings | None) -> None:
    """Refuse a model and settings for a memory that is open already."""
    for name, value in (("llm", llm), ("settings", settings)):
        if value is not None:
            raise InvalidInputError(f"The memory is open: leave out {name}=, and give it to EpicMemory.open(...).")


def own_encoder(given: Encoder | str | None, others: str) -> Encoder:
    """Return an encoder of epic_memory, given as itself or by its name; None is the embedded one.

    Raises:
        InvalidInputError: for anything else; `others` says how the framework's own models are used.
    """
    if given is not None and not by_name.is_encoder_name(given) and not _is_encoder(given):
        raise InvalidInputError(
            f"encoder must be an encoder of epic_memory, such as StaticEncoder(), or the name of one ({by_name.NAMES}),"
            f" not {_shown(given)}. {others}"
        )
    return by_name.encoder_of(given)


def embeddings_of(encoder: Encoder, texts: Sequence[str], *, query: bool = False) -> Effects[list[list[float]]]:
    """Return the unit vectors of texts, or of one query in a list, as lists of numbers.

    Raises:
        InvalidInputError: for anything but a list of texts.
    """
    if isinstance(texts, str):
        raise InvalidInputError(
            "Embeddings are made of a list of texts, not of one text. A query has a method of its own."
        )
    for text in texts:
        if not isinstance(text, str):
            raise InvalidInputError(f"Only texts can be embedded, not {type(text).__name__}.")
    if not texts:
        return []
    vectors: FloatArray = yield Embed(encoder, texts, "", query=query)
    rows: list[list[float]] = vectors.tolist()
    return rows


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else kind_of(value)


def _is_encoder(value: object) -> bool:
    """Tell whether a value is an encoder; a check against the protocol would ask a server for the dimension."""
    methods = (getattr(value, name, None) for name in ("encode", "aencode"))
    return not isinstance(value, type) and all(map(callable, methods))
