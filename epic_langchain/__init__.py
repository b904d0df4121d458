"""EPIC for LangChain: preference-aligned memory as components of langchain-core (extra `langchain`).

The components for agents need the extra `agents`; these and `EpicGraphRetriever` are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from epic_memory.errors import MissingExtraError

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    raise MissingExtraError("langchain-core", "langchain") from error

from epic_langchain.compressor import EpicCompressor
from epic_langchain.filters import EpicTranslator
from epic_langchain.models import EpicEmbeddings, LangChainEncoder, LangChainLM
from epic_langchain.reranker import EpicReranker
from epic_langchain.retriever import EpicRetriever
from epic_langchain.steered_retriever import SteeredRetriever
from epic_langchain.transformer import EpicDocumentTransformer
from epic_langchain.vectorstore import EpicVectorStore

if TYPE_CHECKING:
    from epic_langchain.agents import EpicMemoryMiddleware as EpicMemoryMiddleware
    from epic_langchain.agents import EpicStore as EpicStore
    from epic_langchain.agents import epic_tools as epic_tools
    from epic_langchain.graph_retriever import EpicGraphRetriever as EpicGraphRetriever

__all__ = [
    "EpicCompressor",
    "EpicDocumentTransformer",
    "EpicEmbeddings",
    "EpicGraphRetriever",
    "EpicReranker",
    "EpicRetriever",
    "EpicTranslator",
    "EpicVectorStore",
    "LangChainEncoder",
    "LangChainLM",
    "SteeredRetriever",
]


# `__all__` leaves out the names that need an extra: `import *` has to work without any.
_LATER = {
    "EpicGraphRetriever": "graph_retriever",
    "EpicMemoryMiddleware": "agents",
    "EpicStore": "agents",
    "epic_tools": "agents",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"epic_langchain.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER})
