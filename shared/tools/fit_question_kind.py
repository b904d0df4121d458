"""Fit of the kinds of questions: choice, recall, general, chat (`epic_memory.steering.question_kind`).

Run `python shared/tools/fit_question_kind.py` to write `shared/epic_memory/data/question_kind.json`. Before that it
prints how the kinds are told apart by weights that never saw the writer of a question: each file of `written/` was
written by somebody else, and each is left out once but the last two: `questions_f.jsonl`, which alone has searches by
keywords, and `questions_h.jsonl`, by us, questions with "how" that differ in little but whose matter it is.
`questions_i.jsonl`, ours, has what needs no memory though it sounds as if ("Who owns Toyota?", "My neighbour wants a
laptop", "Farai broke his arm"), and what needs it in like words. So has the first life of `silence`, which was looked
at. `questions_e.jsonl` and the other nine lives are never fitted on; they were only run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders import default_encoder
from epic_memory.steering.question_kind import KINDS, features_of
from fitting import WRITTEN, Array, written

FITTED = tuple(f"questions_{name}.jsonl" for name in "abcdgfhi")
ONLY_RUN = "questions_e.jsonl"
LEFT_OUT = FITTED[:5]
LIVES_LOOKED_AT, LIVES_ONLY_RUN = ("life_1",), tuple(f"life_{number}" for number in range(2, 11))
_ASKS = re.compile(r"(?i)(who|what|when|where|which|how|why|is|are|was|were|did|does|do|can)\b")
DATA = Path(__file__).parents[1] / "epic_memory" / "data" / "question_kind.json"
# A word or pair in fewer questions than this says little.
LEAST = 2
# Penalties of squared weights, of words and of the embedding; the latter's scale is smaller.
RIDGES = (1e-3, 2e-3)
STEPS = (800, 500)
RATES = (1.0, 4.0)


class Fitted(NamedTuple):
    vocabulary: dict[str, int]
    words: Array
    embedding: Array
    bias: Array

    def odds(self, questions: Sequence[str]) -> Array:
        words = Words.of(questions, self.vocabulary)
        found: Array = words @ self.words + embedded(questions) @ self.embedding
        return found + self.bias


class Words(NamedTuple):
    """Which words are in which questions: a matrix of zeros and ones, few of them ones."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    shape: tuple[int, int]

    @classmethod
    def of(cls, questions: Sequence[str], vocabulary: dict[str, int]) -> Words:
        pairs = [
            (row, vocabulary[word])
            for row, question in enumerate(questions)
            for word in features_of(question)
            if word in vocabulary
        ]
        rows, columns = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        return cls(rows, columns, (len(questions), len(vocabulary)))

    def transposed(self) -> Words:
        return Words(self.columns, self.rows, self.shape[::-1])

    def __matmul__(self, weights: Array) -> Array:
        found = [np.bincount(self.rows, column[self.columns], minlength=self.shape[0]) for column in weights.T]
        return np.stack(found, axis=1)


def embedded(questions: Sequence[str]) -> Array:
    vectors: Array = default_encoder().encode(list(questions)).astype(np.float64)
    return vectors


def of_life(name: str) -> list[dict[str, Any]]:
    """Return the turns of a life of `silence` with the kind that each is."""
    kinds = {"small_talk": "chat", "general_knowledge": "general", "near_topic": "general", "for_others": "general"}
    life = json.loads((WRITTEN / "silence" / f"{name}.json").read_text(encoding="utf-8"))
    found = []
    for turn in life["turns"]:
        kind = kinds.get(turn["kind"], "recall" if turn["needs"] else "choice")
        if turn["kind"] == "others_facts":
            kind = "general" if _ASKS.match(turn["text"]) or turn["text"].endswith("?") else "chat"
        found.append({"kind": kind, "text": turn["text"]})
    return found


def softmax(features: Array | Words, kinds: Array, ridge: float, steps: int, rate: float) -> tuple[Array, Array]:
    """Multinomial logistic regression by gradient descent: weights `(f, 4)` and biases `(4,)`."""
    weights, bias, target = np.zeros((features.shape[1], len(KINDS))), np.zeros(len(KINDS)), np.eye(len(KINDS))[kinds]
    count, turned = features.shape[0], features.transposed() if isinstance(features, Words) else features.T
    for _ in range(steps):
        missed = chances(features @ weights + bias) - target
        weights -= rate * (turned @ missed / count + ridge * weights)
        bias -= rate * missed.mean(axis=0)
    return weights, bias


def chances(odds: Array) -> Array:
    found: Array = np.exp(odds - odds.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


def fit(records: Sequence[dict[str, Any]]) -> Fitted:
    """Fit words and embedding each by itself; their sum is surer where both agree."""
    questions = [one["text"] for one in records]
    kinds = np.array([KINDS.index(one["kind"]) for one in records])
    counts = Counter(word for question in questions for word in features_of(question))
    vocabulary = {word: place for place, word in enumerate(sorted(w for w, n in counts.items() if n >= LEAST))}
    words, bias_words = softmax(Words.of(questions, vocabulary), kinds, RIDGES[0], STEPS[0], RATES[0])
    embedding, bias_embedding = softmax(embedded(questions), kinds, RIDGES[1], STEPS[1], RATES[1])
    return Fitted(vocabulary, words, embedding, bias_words + bias_embedding)


def show(name: str, fitted: Fitted, records: Sequence[dict[str, Any]]) -> None:
    found = chances(fitted.odds([one["text"] for one in records]))
    kinds = np.array([KINDS.index(one["kind"]) for one in records])
    needed, personal = kinds < 2, found[:, :2].sum(axis=1)
    least = np.quantile(personal[needed], 0.05)
    print(
        f"{name:34} right {np.mean(found.argmax(axis=1) == kinds):.3f}"
        f"   needs the memory, AUC {np.mean(personal[needed][:, None] > personal[~needed]):.3f}"
        f"   told to need none, at 95 % of the needed: {np.mean(personal[~needed] < least):.2f}"
        f"   choice against recall {np.mean((found[needed][:, 0] > found[needed][:, 1]) == (kinds[needed] == 0)):.3f}"
    )


def main() -> None:
    files = {name: written(name) for name in FITTED} | {name: of_life(name) for name in LIVES_LOOKED_AT}
    for left in (*LEFT_OUT, *LIVES_LOOKED_AT):
        show(
            f"{left}, left out",
            fit([one for name, records in files.items() if name != left for one in records]),
            files[left],
        )
    fitted = fit([one for records in files.values() for one in records])
    show(f"{ONLY_RUN}, only run", fitted, written(ONLY_RUN))
    show("the other lives, only run", fitted, [one for name in LIVES_ONLY_RUN for one in of_life(name)])
    cents = {word: [round(100 * weight) for weight in fitted.words[place]] for word, place in fitted.vocabulary.items()}
    shipped = {
        "bias": [round(float(one), 3) for one in fitted.bias],
        "embedding": np.round(100 * fitted.embedding).astype(int).tolist(),
        "words": {word: several for word, several in cents.items() if any(several)},
    }
    DATA.write_text(json.dumps(shipped, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"wrote {DATA.name}: {len(shipped['words'])} words, {DATA.stat().st_size} bytes")


if __name__ == "__main__":
    main()
