"""Evaluation of retrieval for personal assistants as in the papers of EPIC: data, arms, answers, judge and reports."""

from __future__ import annotations

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
