"""Arms by name: baselines of the papers and the product's own ways, behind one protocol."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from epic_eval.arms.base import Arm, BaseArm, BuildCost, CorpusEncoder, Nothing, Passage, Retrieved
from epic_eval.arms.dense import Dense
from epic_eval.arms.epic import PAPER, PAPER_SEARCH, Epic, verified
from epic_eval.arms.hippo import HippoRAG
from epic_eval.arms.lexical import BM25
from epic_eval.asking import JournalledLM
from epic_memory import SearchOptions, Settings
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.lm import LanguageModel

Make = Callable[[str, Encoder], Arm]
MakeWithModel = Callable[[str, Encoder, LanguageModel], Arm]


def _ours(search: SearchOptions = PAPER_SEARCH, *, graph: bool = False, **settings: Any) -> Make:
    return lambda name, encoder: Epic(name, encoder, settings=replace(PAPER, **settings), search=search, graph=graph)


def _hippo(**stages: Any) -> MakeWithModel:
    return lambda name, encoder, lm: HippoRAG(name, encoder, lm, **stages)


_UNFILTERED: dict[str, Any] = {"coarse": False, "fine": False}
_WITHOUT_MODEL: dict[str, Make] = {
    "none": lambda name, encoder: Nothing(name),
    "told": lambda name, encoder: Nothing(name, tells=True),
    "BM25": lambda name, encoder: BM25(name),
    "dense": Dense,  # the papers' Contriever
    "RaBitQ": lambda name, encoder: Dense(name, encoder, index="rabitq"),
    "graph": _ours(graph=True, steering="off", **_UNFILTERED),  # in the place of HippoRAG 2
    "C": _ours(fine=False, steering="off"),
    "F": _ours(coarse=False, steering="off"),
    "S": _ours(**_UNFILTERED),
    "C+F": _ours(steering="off"),
    "EPIC": _ours(),
    "EPIC signed": _ours(SearchOptions(min_score=None), steering="signed"),
    "EPIC light": _ours(SearchOptions(), steering="signed", reserve="1 MB"),
    "EPIC ours": lambda name, encoder: Epic(name, encoder, settings=Settings(), search=SearchOptions(), opens=True),
    "graph+F": _ours(graph=True, coarse=False, steering="off"),
    "graph+C+F": _ours(graph=True, steering="off"),
    "EPIC+graph": _ours(graph=True),
    "EPIC+graph signed": _ours(graph=True, steering="signed"),
}
_WITH_MODEL: dict[str, MakeWithModel] = {
    "HippoRAG 2": _hippo(),  # its own package
    "HippoRAG 2+F": _hippo(fine=True),
    "HippoRAG 2+C+F": _hippo(coarse=True, fine=True),
    "EPIC+HippoRAG 2": _hippo(coarse=True, fine=True, steering="paper"),
}
BY_MODEL = " lm"
"""Behind the name of an arm with fine verification: a language model verifies."""
WITHOUT_MODEL: tuple[str, ...] = tuple(_WITHOUT_MODEL)
ARMS: tuple[str, ...] = (*WITHOUT_MODEL, *_WITH_MODEL, "EPIC lm")
"""All arms; those behind `EPIC+graph signed` need a language model, and `F lm`, `EPIC ours lm` and others likewise."""

_VARIANT = re.compile(r"(?P<arm>.+) (?P<option>tau|budget)=(?P<value>\d+(\.\d+)?)")


def asks_model(name: str) -> bool:
    """Tell whether an arm asks a language model."""
    varied = _VARIANT.fullmatch(name)
    base = name if varied is None else varied["arm"]
    return base in _WITH_MODEL or base.endswith(BY_MODEL)


def arm_of(name: str, encoder: Encoder, *, lm: LanguageModel | None = None) -> Arm:
    """Return an arm.

    Args:
        name: One of `ARMS`; with " lm" behind it, one of EPIC's verified by the model; with " tau=0.2" behind that, one
            with that threshold, or with " budget=0.27" one within that many MiB.
        encoder: Encodes passages and questions.
        lm: The model that an arm with a language model asks.

    Raises:
        InvalidInputError: for another name, or for an arm that needs a model without one.
        MissingExtraError: if the package that it needs is not installed.
    """
    if (varied := _VARIANT.fullmatch(name)) is not None:
        arm = arm_of(varied["arm"], encoder, lm=lm)
        value = float(varied["value"])
        if isinstance(arm, Epic):
            arm.name = name
            changed: Any = {varied["option"]: value if varied["option"] == "tau" else round(value * 2**20)}
            arm.settings = replace(arm.settings, **changed)
            return arm
    if name in _WITHOUT_MODEL:
        return _WITHOUT_MODEL[name](name, encoder)
    base = name.removesuffix(BY_MODEL)
    if name not in _WITH_MODEL and (base == name or base not in _WITHOUT_MODEL):
        raise InvalidInputError(f"There is no arm {name!r}. Arms: {', '.join(ARMS)}.")
    if lm is None:
        raise InvalidInputError(f"The arm {name!r} asks a language model: say which with --llm.")
    if name in _WITH_MODEL:
        made = _WITH_MODEL[name](name, encoder, lm)
    else:
        made = _WITHOUT_MODEL[base](name, encoder)
        if not isinstance(made, Epic) or not made.settings.fine:
            raise InvalidInputError(f"The arm {base!r} verifies nothing, so there is no {name!r}.")
        made.settings = verified(made.settings, lm)
    if isinstance(made, BaseArm) and isinstance(lm, JournalledLM):
        made.clock = lm.clock
    return made


__all__ = [
    "ARMS",
    "BY_MODEL",
    "WITHOUT_MODEL",
    "Arm",
    "BuildCost",
    "CorpusEncoder",
    "Nothing",
    "Passage",
    "Retrieved",
    "arm_of",
    "asks_model",
]
