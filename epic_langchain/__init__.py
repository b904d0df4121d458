"""EPIC for LangChain: preference-aligned memory as components of langchain-core (extra `langchain`).

The components for agents need the extra `agents`, and are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from epic_memory.errors import MissingExtraError

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    raise MissingExtraError("langchain-core", "langchain") from error

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

__all__ = [
    "EpicDocumentTransformer",
    "EpicEmbeddings",
    "EpicReranker",
    "EpicRetriever",
    "EpicVectorStore",
    "LangChainEncoder",
    "LangChainLM",
    "SteeredRetriever",
]


# `__all__` leaves out the names that need an extra: `import *` has to work without it.
_LATER = ("EpicMemoryMiddleware", "EpicStore", "epic_tools")


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module("epic_langchain.agents"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER})
