"""Evaluation of retrieval for personal assistants as in the papers of EPIC: data, arms, answers, judge and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epic_eval.arms import ARMS, Arm, Passage, Retrieved, arm_of
    from epic_eval.datasets import Case, Data, Dataset, Persona, Question, read_data, read_dataset

__all__ = [
    "ARMS",
    "Arm",
    "Case",
    "Data",
    "Dataset",
    "Passage",
    "Persona",
    "Question",
    "Retrieved",
    "arm_of",
    "read_data",
    "read_dataset",
]

_OF_ARMS = {"ARMS", "Arm", "Passage", "Retrieved", "arm_of"}


def __getattr__(name: str) -> object:
    # Imported when first used: a peer's process must not pay for our arms.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{'arms' if name in _OF_ARMS else 'datasets'}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
