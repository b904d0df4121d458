"""Extraction: the entities and facts of a passage, found without a model or by a language model."""

from epic_graph.extraction.base import Extraction, Extractor, Fact, PhraseExtractor, Unextracted, entity_key

__all__ = ["Extraction", "Extractor", "Fact", "PhraseExtractor", "Unextracted", "entity_key"]
