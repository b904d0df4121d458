"""Graph RAG over the items of a memory: an embedded graph, and a layer over HippoRAG."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epic_graph.extraction.base import Extraction, Extractor, Fact, PhraseExtractor, Unextracted, entity_key
    from epic_graph.extraction.lm import LMExtractor
    from epic_graph.hipporag.adapter import EpicHippoRAG
    from epic_graph.hipporag.report import HippoReport
    from epic_graph.memory import GraphMemory
    from epic_graph.reports import GraphReport
    from epic_graph.search import GraphHits
    from epic_graph.tagging import PhraseTagger

# Imported on first use: a graph without a language model needs no module that talks to one.
_MODULES = {
    "EpicHippoRAG": "hipporag.adapter",
    "Extraction": "extraction.base",
    "Extractor": "extraction.base",
    "Fact": "extraction.base",
    "GraphHits": "search",
    "GraphMemory": "memory",
    "GraphReport": "reports",
    "HippoReport": "hipporag.report",
    "LMExtractor": "extraction.lm",
    "PhraseExtractor": "extraction.base",
    "PhraseTagger": "tagging",
    "Unextracted": "extraction.base",
    "entity_key": "extraction.base",
}

__all__ = [
    "EpicHippoRAG",
    "Extraction",
    "Extractor",
    "Fact",
    "GraphHits",
    "GraphMemory",
    "GraphReport",
    "HippoReport",
    "LMExtractor",
    "PhraseExtractor",
    "PhraseTagger",
    "Unextracted",
    "entity_key",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
