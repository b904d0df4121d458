"""Arms by name: baselines of the papers and the product's own ways, behind one protocol."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from epic_eval.arms.base import Arm, BaseArm, BuildCost, CorpusEncoder, Nothing, Passage, Retrieved, Within
from epic_eval.arms.dense import Dense, nearest_appended, remembered
from epic_eval.arms.epic import PAPER, Epic, verified
from epic_eval.arms.hippo import HippoRAG
from epic_eval.arms.lexical import BM25
from epic_eval.arms.tagged import Tagged
from epic_eval.arms.tree import Tree
from epic_eval.arms.writing import PBR, MemoryBank, Writer, rewritten
from epic_eval.asking import JournalledLM
from epic_memory import SearchOptions, Settings
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.lm import LanguageModel
from epic_memory.types.modes import Mode

Make = Callable[[str, Encoder, int], Arm]
MakeWithModel = Callable[[str, Encoder, int, LanguageModel], Arm]

_OFF: Mapping[str, Any] = {}


def _epic(steering: Mode, *, arm: Mapping[str, Any] = _OFF, **settings: Any) -> Make:
    # What is filtered by no preference is built once for all personas.
    personal = settings.get("coarse", True) or settings.get("fine", True)

    def make(name: str, encoder: Encoder, seed: int) -> Arm:
        chosen = replace(PAPER, steering=steering, **settings)
        return Epic(name, encoder, settings=chosen, personal=personal, steers=steering != "off" or personal, **arm)

    return make


def _graph(*, coarse: bool, fine: bool, steering: Mode = "off") -> Make:
    def make(name: str, encoder: Encoder, seed: int) -> Arm:
        settings = replace(PAPER, coarse=coarse, fine=fine, steering=steering)
        return Epic(name, encoder, kind="graph", personal=fine, steers=fine, settings=settings)

    return make


_WITHOUT_MODEL: dict[str, Make] = {
    "none": lambda name, encoder, seed: Nothing(name),
    "told": lambda name, encoder, seed: Nothing(name, tells=True),
    "BM25": lambda name, encoder, seed: BM25(name),
    "dense": lambda name, encoder, seed: Dense(name, encoder),
    "BPR-lite": lambda name, encoder, seed: Dense(name, encoder, index="bpr", seed=seed),
    "RaBitQ": lambda name, encoder, seed: Dense(name, encoder, index="rabitq", seed=seed),
    "append-lite": lambda name, encoder, seed: Dense(name, encoder, queries=nearest_appended),
    "MemoryBank-lite": lambda name, encoder, seed: Dense(name, encoder, select=remembered(0.5, seed)),
    "raptor-lite": lambda name, encoder, seed: Tree(name, encoder, seed=seed),
    "tags-lite": lambda name, encoder, seed: Tagged(name, encoder),
    "graph": _graph(coarse=False, fine=False),
    "C": _epic("off", fine=False),
    "F": _epic("off", coarse=False),
    "S": _epic("paper", coarse=False, fine=False),
    "C+F": _epic("off"),
    "EPIC": _epic("paper"),
    "EPIC signed": _epic("signed", arm={"search": SearchOptions(min_score=None)}),
    "EPIC light": _epic("signed", arm={"search": SearchOptions()}, reserve="1 MB"),
    "EPIC ours": lambda name, encoder, seed: Epic(
        name, encoder, settings=Settings(), search=SearchOptions(), opens=True
    ),
    "graph+F": _graph(coarse=False, fine=True),
    "graph+C+F": _graph(coarse=True, fine=True),
    "EPIC+graph": _graph(coarse=True, fine=True, steering="paper"),
    "EPIC+graph signed": _graph(coarse=True, fine=True, steering="signed"),
}
_WITH_MODEL: dict[str, MakeWithModel] = {
    "Pref-QR-lite": lambda name, encoder, seed, lm: Dense(name, encoder, queries=rewritten(Writer(lm))),
    "PBR-lite": lambda name, encoder, seed, lm: PBR(name, encoder, Writer(lm)),
    "raptor-lite lm": lambda name, encoder, seed, lm: Tree(name, encoder, writer=Writer(lm), seed=seed),
    "MemoryBank-lite lm": lambda name, encoder, seed, lm: MemoryBank(name, encoder, Writer(lm), seed),
    "tags-lite lm": lambda name, encoder, seed, lm: Tagged(name, encoder, Writer(lm)),
    "HippoRAG 2": lambda name, encoder, seed, lm: HippoRAG(name, encoder, lm),
    "HippoRAG 2+F": lambda name, encoder, seed, lm: HippoRAG(name, encoder, lm, fine=True),
    "HippoRAG 2+C+F": lambda name, encoder, seed, lm: HippoRAG(name, encoder, lm, coarse=True, fine=True),
    "EPIC+HippoRAG 2": lambda name, encoder, seed, lm: HippoRAG(
        name, encoder, lm, coarse=True, fine=True, steering="paper"
    ),
}
BY_MODEL = " lm"
"""Behind the name of an arm with fine verification: a language model verifies."""

ARMS: dict[str, str] = {
    "none": "no passages",
    "told": "no passages, all preferences told",
    "BM25": "words, by bm25s",
    "dense": "cosine over all passages: the papers' Contriever",
    "BPR-lite": "binary codes without BPR's learnt hash: a stand-in",
    "RaBitQ": "FAISS's IndexRaBitQ, one bit",
    "append-lite": "dense, the nearest preference behind the question: a stand-in for Pref-QR",
    "MemoryBank-lite": "dense over the half that Ebbinghaus' curve leaves, no summaries: a stand-in",
    "raptor-lite": "tree of clusters with extracts in place of summaries: a stand-in for RAPTOR",
    "tags-lite": "dense, the first twenty ranked again by tags, by the rule of a published memory of facts",
    "graph": "GraphMemory over all passages, no model: a stand-in for HippoRAG 2",
    "C": "coarse filter alone",
    "F": "fine verification alone",
    "S": "the paper's steering alone, over all passages",
    "C+F": "coarse filter and fine verification",
    "EPIC": "C+F+S as in the paper",
    "EPIC signed": "C+F with signed steering, found by text and instruction",
    "EPIC light": "the same with the light tier up to 1 MB",
    "EPIC ours": "EpicMemory as it comes: light tier, bundled expansions, contexts that open with preferences",
    "graph+F": "GraphMemory behind fine verification",
    "graph+C+F": "GraphMemory behind coarse filter and fine verification",
    "EPIC+graph": "GraphMemory with C+F+S",
    "EPIC+graph signed": "the same with signed steering",
    "Pref-QR-lite": "dense, a model rewrites the question with all preferences, by a prompt of ours",
    "PBR-lite": "dense, with a model's pseudo utterance and reasoning, and an anchor by a walk over neighbours",
    "raptor-lite lm": "tree of k-means clusters, two levels, with a model's summaries",
    "MemoryBank-lite lm": "dense over what Ebbinghaus' curve leaves and summaries of days, behind a portrait",
    "tags-lite lm": "the same for a model's summary of the question and its tags",
    "HippoRAG 2": "HippoRAG's own package, with a model",
    "HippoRAG 2+F": "the same behind fine verification by the model",
    "HippoRAG 2+C+F": "the same behind coarse filter and fine verification by the model",
    "EPIC+HippoRAG 2": "the same with the paper's steering",
    "EPIC lm": "C+F+S as in the paper, verified by a model; `F lm`, `EPIC ours lm` and others likewise",
}
"""All arms, with what they are; those behind `EPIC+graph signed` need a language model."""

_VARIANT = re.compile(r"(?P<arm>.+) (?P<option>tau|budget)=(?P<value>\d+(\.\d+)?)")

WITHOUT_MODEL: tuple[str, ...] = tuple(_WITHOUT_MODEL)


def asks_model(name: str) -> bool:
    """Tell whether an arm asks a language model."""
    varied = _VARIANT.fullmatch(name)
    base = name if varied is None else varied["arm"]
    return base in _WITH_MODEL or base.endswith(BY_MODEL)


def arm_of(name: str, encoder: Encoder, *, seed: int = 0, lm: LanguageModel | None = None) -> Arm:
    """Return an arm.

    Args:
        name: One of `ARMS`; with " lm" behind it, one of EPIC's verified by the model; with " tau=0.2" behind that, one
            with that threshold; with " budget=0.27", any arm within that many MiB.
        encoder: Encodes passages and questions.
        seed: Of whatever the arm draws.
        lm: The model that an arm with a language model asks.

    Raises:
        InvalidInputError: for another name, or for an arm that needs a model without one.
        MissingExtraError: if the package that it needs is not installed.
    """
    if (varied := _VARIANT.fullmatch(name)) is not None:
        arm = arm_of(varied["arm"], encoder, seed=seed, lm=lm)
        value = float(varied["value"])
        if isinstance(arm, Epic):
            arm.name = name
            changed: Any = {varied["option"]: value if varied["option"] == "tau" else round(value * 2**20)}
            arm.settings = replace(arm.settings, **changed)
            return arm
        if varied["option"] == "budget":
            return Within(name, arm, round(value * 2**20))
    if name in _WITHOUT_MODEL:
        return _WITHOUT_MODEL[name](name, encoder, seed)
    base = name.removesuffix(BY_MODEL)
    if name not in _WITH_MODEL and (base == name or base not in _WITHOUT_MODEL):
        raise InvalidInputError(f"There is no arm {name!r}. Arms: {', '.join(ARMS)}.")
    if lm is None:
        raise InvalidInputError(f"The arm {name!r} asks a language model: say which with --llm.")
    if name in _WITH_MODEL:
        made = _WITH_MODEL[name](name, encoder, seed, lm)
    else:
        made = _WITHOUT_MODEL[base](name, encoder, seed)
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
    "Within",
    "arm_of",
    "asks_model",
]
