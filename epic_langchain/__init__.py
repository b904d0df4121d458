"""EPIC for LangChain: preference-aligned memory as components of langchain-core (extra `langchain`).

The components for agents come with the extra `agents`, and are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_core.errors import MissingExtraError

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    raise MissingExtraError("langchain-core", "langchain") from error

from epic_langchain.adapters import LangChainEncoder, LangChainLM
from epic_langchain.embeddings import EpicEmbeddings
from epic_langchain.retrievers import EpicRetriever
from epic_langchain.steered import SteeredRetriever
from epic_langchain.transformer import EpicDocumentTransformer
from epic_langchain.vectorstore import EpicVectorStore

if TYPE_CHECKING:
    from epic_langchain.agents import EpicMemoryMiddleware, EpicStore

__all__ = [
    "EpicDocumentTransformer",
    "EpicEmbeddings",
    "EpicMemoryMiddleware",
    "EpicRetriever",
    "EpicStore",
    "EpicVectorStore",
    "LangChainEncoder",
    "LangChainLM",
    "SteeredRetriever",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from epic_langchain import agents

    value: object = getattr(agents, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
