"""Order and choice of results: a reranker that learns (PURPLE), selection that stops by itself, tags, fallbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'feedback')}"), name)
    return value
