"""EPIC for LlamaIndex: preference-aligned memory as components of llama-index-core (extra `llamaindex`)."""

from epic_memory.errors import MissingExtraError

try:
    import llama_index.core  # noqa: F401
except ImportError as error:
    raise MissingExtraError("llama-index-core", "llamaindex") from error

from epic_llamaindex.ingestion import EpicTransform
from epic_llamaindex.memory_block import EpicMemoryBlock
from epic_llamaindex.models import EpicEmbedding, LlamaIndexEncoder, LlamaIndexLM
from epic_llamaindex.postprocessor import EpicNodePostprocessor
from epic_llamaindex.property_graph import SteeredVectorContextRetriever
from epic_llamaindex.reranker import EpicReranker
from epic_llamaindex.retriever import EpicRetriever
from epic_llamaindex.steered_retriever import SteeredRetriever
from epic_llamaindex.tools import epic_tools
from epic_llamaindex.vectorstore import EpicVectorStore

__all__ = [
    "EpicEmbedding",
    "EpicMemoryBlock",
    "EpicNodePostprocessor",
    "EpicReranker",
    "EpicRetriever",
    "EpicTransform",
    "EpicVectorStore",
    "LlamaIndexEncoder",
    "LlamaIndexLM",
    "SteeredRetriever",
    "SteeredVectorContextRetriever",
    "epic_tools",
]
