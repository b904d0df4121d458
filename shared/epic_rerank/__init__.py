"""Order and choice of results: a reranker that learns (PURPLE), selection that stops by itself, tags, fallbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_memory.runtime.optional import imported_later

if TYPE_CHECKING:
    from epic_rerank.feedback import Feedback, alearn, forget, learn, reranker_of, set_reranker
    from epic_rerank.reranker import SIGNALS, LearnedReranker
    from epic_rerank.selection import Adaptive
    from epic_rerank.training import Example, TrainingSettings

# Imported on first use: a memory's file needs the tables only.
_MODULES = {
    "SIGNALS": "reranker",
    "Adaptive": "selection",
    "Example": "training",
    "LearnedReranker": "reranker",
    "TrainingSettings": "training",
}

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

__getattr__, __dir__ = imported_later(__name__, dict.fromkeys(__all__, "feedback") | _MODULES)
