"""Helpers for the plugins' components over a graph: the sources they accept, and the warnings they log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from epic_graph.extraction.base import Extractor
from epic_graph.extraction.lm import LMExtractor
from epic_graph.memory import GraphMemory
from epic_graph.reports import GraphReport
from epic_memory.errors import InvalidInputError
from epic_memory.lm.base import LanguageModel
from epic_memory.memory import EpicMemory

Source: TypeAlias = GraphMemory | EpicMemory | str | Path
"""A graph, a memory over which one is made, or the name of a file."""


def checked_source(graph: object) -> Source:
    """Check the source of a component over a graph, and return it.

    Raises:
        InvalidInputError: for anything else.
    """
    if not isinstance(graph, (GraphMemory, EpicMemory, str, Path)):
        raise InvalidInputError(
            f"graph is a GraphMemory, an EpicMemory or the name of its file, not {type(graph).__name__}."
        )
    return graph


def graph_over(source: GraphMemory | EpicMemory, extractor: Extractor | None) -> GraphMemory:
    """Return the graph, or make one over the memory with this extractor.

    Raises:
        InvalidInputError: if the graph has another extractor.
    """
    if isinstance(source, EpicMemory):
        return GraphMemory(memory=source, extractor=extractor)
    if extractor is not None and extractor.name != source.extractor.name:
        raise InvalidInputError(
            f"The GraphMemory has an extractor, {source.extractor.name}: leave out extractor={extractor.name}."
        )
    return source


def extractor_of(given: object, component: type, lm_of: Callable[[object], LanguageModel]) -> Extractor | None:
    """Return the extractor that a user gave; a language model reads the passages, None is the graph's default.

    Args:
        given: The extractor, or a model.
        component: The base class of the framework's components: none of them is an extractor by its methods.
        lm_of: Returns the language model for a model, and refuses anything else.

    Raises:
        InvalidInputError: for anything else.
    """
    if given is None or (isinstance(given, Extractor) and not isinstance(given, (type, component))):
        return given
    try:
        return LMExtractor(lm_of(given))
    except InvalidInputError as error:
        raise InvalidInputError(
            f"extractor must be an extractor of epic_memory, a model, or None for the one that needs no model. {error}"
        ) from None


def warn_of_failures(report: GraphReport, logger: logging.Logger) -> None:
    """Log a warning if an extractor failed for passages."""
    if report.failed:
        logger.warning(
            "%d of %d passages are in the graph without entities, as the extractor failed; graph.retry() tries"
            " again: %s",
            report.failed,
            report.passages,
            next(iter(report.failures.values()), "no reason was given"),
        )
