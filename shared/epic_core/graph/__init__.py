"""Graph RAG over what a memory keeps: an embedded graph, and a layer over HippoRAG."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epic_core.graph.extraction import Extraction, Extractor, Fact, PhraseExtractor, Unextracted, entity_key
    from epic_core.graph.hipporag import EpicHippoRAG
    from epic_core.graph.hipporag_building import HippoReport
    from epic_core.graph.lm_extractor import LMExtractor
    from epic_core.graph.memory import GraphMemory
    from epic_core.graph.reports import GraphReport, Neighbour
    from epic_core.graph.searching import GraphHits

# Imported when first used: who has a graph without a model needs no module that talks to one.
_MODULES = {
    "EpicHippoRAG": "hipporag",
    "Extraction": "extraction",
    "Extractor": "extraction",
    "Fact": "extraction",
    "GraphHits": "searching",
    "GraphMemory": "memory",
    "GraphReport": "reports",
    "HippoReport": "hipporag_building",
    "LMExtractor": "lm_extractor",
    "Neighbour": "reports",
    "PhraseExtractor": "extraction",
    "Unextracted": "extraction",
    "entity_key": "extraction",
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
    "Neighbour",
    "PhraseExtractor",
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
