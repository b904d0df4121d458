"""EPIC for LangChain: preference-aligned memory as components of langchain-core (extra `langchain`)."""

from epic_core.errors import MissingExtraError

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    raise MissingExtraError("langchain-core", "langchain") from error

from epic_langchain.embeddings import EpicEmbeddings
from epic_langchain.retrievers import EpicRetriever
from epic_langchain.transformer import EpicDocumentTransformer
from epic_langchain.vectorstore import EpicVectorStore

__all__ = ["EpicDocumentTransformer", "EpicEmbeddings", "EpicRetriever", "EpicVectorStore"]
