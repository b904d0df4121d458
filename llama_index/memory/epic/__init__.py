"""EPIC for LlamaIndex: the memory block, under the name that integrations have."""

from epic_llamaindex import EpicMemoryBlock

__all__ = ["EpicMemoryBlock"]
