"""EPIC for LlamaIndex: the node postprocessors, under the name that integrations have."""

from epic_llamaindex import EpicCompressor, EpicNodePostprocessor, EpicReranker

__all__ = ["EpicCompressor", "EpicNodePostprocessor", "EpicReranker"]
