"""EPIC for LlamaIndex: the vector store, under the name that integrations have."""

from epic_llamaindex import EpicVectorStore

__all__ = ["EpicVectorStore"]
