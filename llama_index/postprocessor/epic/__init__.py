"""EPIC for LlamaIndex: the node postprocessors, under the name that integrations have."""

from epic_llamaindex import EpicNodePostprocessor, EpicReranker

__all__ = ["EpicNodePostprocessor", "EpicReranker"]
