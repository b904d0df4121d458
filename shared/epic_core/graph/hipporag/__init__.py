"""A layer over HippoRAG 2: its graph over what a memory keeps, steered, with safe extraction."""

from epic_core.graph.hipporag.adapter import EpicHippoRAG

__all__ = ["EpicHippoRAG"]
