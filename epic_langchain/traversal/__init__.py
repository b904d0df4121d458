"""EPIC for `langchain-graph-retriever`: adapters for its `GraphRetriever` (extra `graph-retriever`)."""

from epic_memory.errors import MissingExtraError

try:
    import langchain_graph_retriever  # noqa: F401
except ImportError as error:
    raise MissingExtraError("langchain-graph-retriever", "graph-retriever") from error

from epic_langchain.traversal.epic_adapter import EpicGraphAdapter
from epic_langchain.traversal.steered_adapter import SteeredGraphAdapter

__all__ = ["EpicGraphAdapter", "SteeredGraphAdapter"]
