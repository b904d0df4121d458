"""Order and choice of results: a reranker that learns (PURPLE), selection that stops by itself, tags, fallbacks."""

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
