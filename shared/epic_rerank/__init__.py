"""A reranker of search results that learns from what helped (PURPLE), and selection that stops by itself (EMG-RAG)."""

from epic_rerank.feedback import Feedback, alearn, forget, learn, reranker_of, set_reranker
from epic_rerank.reranker import SIGNALS, LearnedReranker
from epic_rerank.selection import Adaptive
from epic_rerank.training import Example, TrainingSettings

__all__ = [
    "SIGNALS",
    "Adaptive",
    "Example",
    "Feedback",
    "LearnedReranker",
    "TrainingSettings",
    "alearn",
    "forget",
    "learn",
    "reranker_of",
    "set_reranker",
]
