"""EPIC for LlamaIndex: preference-aligned memory as components of llama-index-core (extra `llamaindex`)."""

from epic_core.errors import MissingExtraError

try:
    import llama_index.core  # noqa: F401
except ImportError as error:
    raise MissingExtraError("llama-index-core", "llamaindex") from error

from epic_llamaindex.retrievers import EpicRetriever

__all__ = ["EpicRetriever"]
