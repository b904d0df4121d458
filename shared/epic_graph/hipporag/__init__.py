"""Layer over HippoRAG 2: its graph over the items of a memory, steered, with safe extraction."""

from epic_graph.hipporag.adapter import EpicHippoRAG

__all__ = ["EpicHippoRAG"]
