"""Graph RAG over the items of a memory: an embedded graph, and a layer over HippoRAG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_memory.runtime.optional import imported_later

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

__getattr__, __dir__ = imported_later(__name__, _MODULES)
