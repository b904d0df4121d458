"""Kind of a question: a choice, something to recall, general knowledge or a task, chat, or other people's matters.

Preferences matter to a choice ("Where could we stay in Porto?"), and not to what stands in a note ("What's our wifi
password?") or to "Thanks!". A memory is needed for the first two, seldom for "How do I boil an egg?", "Translate good
morning into French" or "Write a card for a colleague who loves steak". A multinomial logistic regression tells the
kinds apart, by words, pairs of words, and the bundled encoder's embedding, whatever encoder a memory uses.
`shared/tools/fit_question_kind.py` fitted it on questions written by people who saw no code, and says how it does on
questions that it never saw.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from epic_memory.encoders.base import Encoder
from epic_memory.encoders.static import default_encoder
from epic_memory.types import FloatArray
from epic_memory.types.weights import StageWeights

KINDS = ("choice", "recall", "general", "chat", "others")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|\d+|[?!]")
# What comes later in a long message does not tell what is asked.
_READ = 400
_CENTS = 100.0
_MOST_ODDS, _LEAST = 4.0, 1e-9


@dataclass(frozen=True, kw_only=True)
class QuestionWeights(StageWeights):
    """Thresholds of a question's kind."""

    least_known: float  # share of known words below which a question is in another language
    rather: float  # lead of its chance over that of a choice from which a question is rather one that recalls
    unsure: float  # chance up to which a question may as well be of another kind
    unknown: tuple[float, ...]  # chances of the kinds where nothing is known
    sure: float  # chance from which it is surely of a kind to which no preference matters
    own: float  # chance of a choice or something to recall from which it asks for the user's own matters
    most_odds: float  # most log-odds of a kind where they tell whether preferences are needed
    doubt: float  # share of the chances that stays open where only an embedding tells the kind


class QuestionKind(NamedTuple):
    """The chances that a question is of each kind; they sum to one."""

    choice: float
    recall: float
    general: float
    chat: float
    others: float

    @property
    def odds(self) -> dict[str, float]:
        """Log-odds of the kinds that tell whether the user's memory is needed, each in [-4, 4]."""
        return {"choice": _odds(self.choice), "recall": _odds(self.recall), "others": _odds(self.others)}

    @property
    def all_odds(self) -> dict[str, float]:
        """Log-odds of all kinds, with wider bounds: one of many preferences is always near, so being sure counts."""
        most = QuestionWeights.shipped().most_odds
        return {name: _odds(chance, most) for name, chance in zip(KINDS, self, strict=True)}

    def of_documents(self) -> QuestionKind:
        """Return the kind for a store of documents, without preferences: there general knowledge is recalled."""
        return self._replace(recall=self.recall + self.general, general=0.0)


def _odds(chance: float, most: float = _MOST_ODDS) -> float:
    """Return log-odds, of chances near 0 and 1 no more than `most`."""
    return max(-most, min(math.log(max(chance, _LEAST) / max(1.0 - chance, _LEAST)), most))


def any_kind() -> QuestionKind:
    """Return what is assumed of a question whose kind is unknown, as in another language."""
    return QuestionKind(*QuestionWeights.shipped().unknown)


def by_preference(kind: QuestionKind | None) -> float:
    """Return the chance that the answer depends on what the user prefers, in [0, 1]; 1 where the kind is unknown."""
    if kind is None:
        return 1.0
    weights, chance = QuestionWeights.shipped(), max(kind.recall, kind.chat, kind.others)
    # A chance counts nothing while the question may as well be of another kind.
    return 1.0 - max(0.0, min(1.0, (chance - weights.unsure) / (weights.sure - weights.unsure)))


def recalls(kind: QuestionKind | None) -> bool:
    """Tell whether a question rather asks for what stands in a note than for a choice."""
    return kind is not None and kind.recall - kind.choice > QuestionWeights.shipped().rather


def asks_for_own(kind: QuestionKind | None) -> bool:
    """Tell whether a question asks for a choice of the user's, or for what they told; so does one of unknown kind."""
    return kind is None or kind.choice + kind.recall >= QuestionWeights.shipped().own


def features_of(question: str) -> list[str]:
    """Return the words of a question, its pairs of words, its beginning, and how long it is."""
    words = ["0" if word.isdigit() else word.replace("’", "'") for word in _WORD.findall(question[:_READ].casefold())]
    if not words:
        return []
    return list(
        dict.fromkeys(
            [
                *words,
                *map(" ".join, pairwise(words)),
                f"^{words[0]}",
                f"^{' '.join(words[:2])}",
                f"#{min(4, len(words) // 3)}",
            ]
        )
    )


class _Model(NamedTuple):
    rows: Mapping[str, int]
    words: FloatArray
    embedding: FloatArray
    bias: FloatArray


@lru_cache(maxsize=1)
def _model() -> _Model:
    shipped = json.loads((files("epic_memory") / "data" / "question_kind.json").read_text(encoding="utf-8"))
    return _Model(
        rows={word: row for row, word in enumerate(shipped["words"])},
        words=np.array(list(shipped["words"].values()), dtype=np.float32) / _CENTS,
        embedding=np.array(shipped["embedding"], dtype=np.float32) / _CENTS,
        bias=np.array(shipped["bias"], dtype=np.float32),
    )


def question_kind(question: str, vector: FloatArray | None = None) -> QuestionKind | None:
    """Return the kind of a question; None if too few of its words are known, as in another language.

    Args:
        question: The question.
        vector: Its embedding by the bundled encoder, shape `(d,)`, if it is known.
    """
    model, found = _model(), features_of(question)
    single = [word for word in found if " " not in word and word[0] not in "^#?!"]
    if not single or sum(word in model.rows for word in single) < QuestionWeights.shipped().least_known * len(single):
        return None
    if vector is None or len(question) > _READ:
        vector = _vector_of(question[:_READ])
    rows = [model.rows[word] for word in found if word in model.rows]
    return _of_odds(model.bias + vector @ model.embedding + model.words[rows].sum(axis=0))


def kind_of(encoder: Encoder, question: str, vector: FloatArray) -> QuestionKind | None:
    """Return the kind of a question by its words, or in other languages by its embedding E(q), shape `(d,)`.

    None if neither tells. An encoder whose embeddings tell has `kinds`: weights of an embedding, shape `(d, 5)`, and
    biases, shape `(5,)`.
    """
    if not question:
        return None
    bundled = encoder.fingerprint == default_encoder().fingerprint
    told = question_kind(question, vector if bundled else None)
    kinds: tuple[FloatArray, FloatArray] | None = getattr(encoder, "kinds", None)
    if told is not None or kinds is None:
        return told
    embedding, bias = kinds
    doubt, near = QuestionWeights.shipped().doubt, _of_odds(bias + vector @ embedding)
    return QuestionKind(*((1.0 - doubt) * one + doubt * other for one, other in zip(near, any_kind(), strict=True)))


def _of_odds(odds: FloatArray) -> QuestionKind:
    chances = np.exp(odds - odds.max())
    return QuestionKind(*(chances / chances.sum()).tolist())


@lru_cache(maxsize=1024)
def _vector_of(question: str) -> FloatArray:
    vector: FloatArray = default_encoder().encode([question])[0]
    return vector
