"""Figures that the papers print, by table, arm, set and model, and what does not add up in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from epic_eval.arms import BY_MODEL
from epic_eval.report import Part, Text
from epic_memory.lm import LanguageModel

_LETTERS = {"PrefWiki": "W", "PrefRQ": "R", "PrefELI5": "L", "PrefEval": "E"}
_BACKBONES = {"qwen": "Qwen3-4B", "gpt-oss": "gpt-oss"}


@cache
def paper_figures() -> dict[str, Any]:
    """Return the papers' figures by table."""
    found: dict[str, Any] = json.loads((files("epic_eval") / "data" / "paper_figures.json").read_text("utf-8"))
    return found


def paper_row(table: str, arm: str) -> Any:
    """Return the papers' row for an arm of ours, or None."""
    return paper_figures()[table].get(paper_figures()["same_as"].get(base_name(arm)))


def base_name(arm: str) -> str:
    """Return an arm's name without the mark of one that a model verifies."""
    return arm.removesuffix(BY_MODEL)


def backbone(lm: LanguageModel | None) -> str:
    """Return the papers' model whose figures stand beside ours: the one of the same name, else Llama-3.1-8B."""
    known = (theirs for part, theirs in _BACKBONES.items() if lm is not None and part in lm.name.lower())
    return next(known, "Llama-8B")


def letter(name: str) -> str:
    """Return the papers' letter of a set, or its name."""
    return _LETTERS.get(name, name)


def accuracies(arm: str, sets: Sequence[str], model: str = "Llama-8B") -> list[str]:
    """Return the papers' accuracies of an arm with a model, in the order of the sets."""
    known = dict(zip(paper_figures()["table2"]["columns"], paper_row("table2", arm) or (), strict=False))
    return [f"{known[key]:.2f}" if (key := f"{model} {letter(name)}") in known else "-" for name in sets]


def footnotes() -> list[Part]:
    """Return what does not add up in the papers."""
    return [Text(f"Note {number}. {note}") for number, note in enumerate(paper_figures()["footnotes"], start=1)]
