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
    from epic_langchain.agents import EpicMemoryMiddleware as EpicMemoryMiddleware
    from epic_langchain.agents import EpicStore as EpicStore

__all__ = [
    "EpicDocumentTransformer",
    "EpicEmbeddings",
    "EpicRetriever",
    "EpicVectorStore",
    "LangChainEncoder",
    "LangChainLM",
    "SteeredRetriever",
]


# Not in `__all__`: `import *` has to work without their extra.
_OF_AGENTS = ("EpicMemoryMiddleware", "EpicStore")


def __getattr__(name: str) -> object:
    if name not in _OF_AGENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from epic_langchain import agents

    value: object = getattr(agents, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_OF_AGENTS])
