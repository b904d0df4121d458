"""A reranker of search results that learns from what helped (PURPLE), and selection that stops by itself (EMG-RAG)."""

from epic_rerank.reranker import SIGNALS, LearnedReranker
from epic_rerank.training import Example, Settings

__all__ = ["SIGNALS", "Example", "LearnedReranker", "Settings"]
