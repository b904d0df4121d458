"""A reranker of search results that learns from what helped (PURPLE), and selection that stops by itself (EMG-RAG)."""

from epic_core.reranking.reranker import SIGNALS, LearnedReranker
from epic_core.reranking.training import Example, Settings

__all__ = ["SIGNALS", "Example", "LearnedReranker", "Settings"]
