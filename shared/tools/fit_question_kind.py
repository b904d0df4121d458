"""Fit of the kinds of questions: choice, recall, general, chat, others (`epic_memory.steering.question_kind`).

Run `python shared/tools/fit_question_kind.py` to write `shared/epic_memory/data/question_kind.json`, and the weights by
which the multilingual table tells the kinds in all of its languages, fitted on the same English questions. Before that
it prints how the kinds are told apart by weights that never saw the writer of a question: each file of `written/` was
written by somebody else, and each is left out once but the last two: `questions_f.jsonl`, which alone has searches by
keywords, and `questions_h.jsonl`, by us, questions with "how" that differ in little but whose matter it is.
`questions_e.jsonl` is never fitted on; it was only run. The turns of `written/silence/fit_*.json`, of which only those
of the kind "needed" need the memory, are left out a life at a time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders import default_encoder
from epic_memory.encoders.multilingual import MultilingualEncoder
from epic_memory.steering.question_kind import KINDS, features_of
from fitting import WRITTEN, Array, written

FITTED = tuple(f"questions_{name}.jsonl" for name in "abcdgjfh")
ONLY_RUN = "questions_e.jsonl"
DATA = Path(__file__).parents[1] / "epic_memory" / "data" / "question_kind.json"
MULTILINGUAL = DATA.parents[2] / "epic_multilingual" / "epic_multilingual"
# A word or pair in fewer questions than this says little.
LEAST = 2
# Penalties of squared weights, of words and of the embedding; the latter's scale is smaller.
RIDGES = (3e-4, 1e-4)
STEPS = (800, 800)
RATES = (1.0, 4.0)
# What the turns of a life ask for, beside those that need a note or a preference.
OF_TURNS = {"small_talk": "chat", "general_knowledge": "general", "near_topic": "general"}


class Fitted(NamedTuple):
    vocabulary: dict[str, int]
    words: Array
    embedding: Array
    bias: Array

    def odds(self, questions: Sequence[str]) -> Array:
        found: Array = self.words[by_words(questions, self.vocabulary)].sum(axis=1)
        return found + embedded(questions) @ self.embedding + self.bias


def lives_to_fit() -> Iterator[dict[str, Any]]:
    """The lives whose turns are there to be fitted on."""
    for path in sorted((WRITTEN / "silence").glob("fit_*.json"), key=lambda path: int(path.stem.removeprefix("fit_"))):
        yield json.loads(path.read_text(encoding="utf-8"))


def turns_of(life: dict[str, Any]) -> list[dict[str, Any]]:
    """The turns of a life with the kinds of their questions."""
    return [{"text": turn["text"], "kind": kind_of_turn(turn)} for turn in life["turns"]]


def kind_of_turn(turn: dict[str, Any]) -> str:
    """The kind of a turn of a life: what needs a preference is a choice."""
    if turn["kind"] == "needed":
        return "choice" if turn["prefers"] else "recall"
    return OF_TURNS.get(turn["kind"], "others")


def by_words(questions: Sequence[str], vocabulary: dict[str, int]) -> NDArray[np.intp]:
    """The places of each question's features, padded with one whose weights stay zero."""
    places = [[vocabulary[word] for word in features_of(question) if word in vocabulary] for question in questions]
    padded = np.full((len(places), max(map(len, places), default=0)), len(vocabulary), dtype=np.intp)
    for row, known in enumerate(places):
        padded[row, : len(known)] = known
    return padded


def embedded(questions: Sequence[str]) -> Array:
    vectors: Array = default_encoder().encode(list(questions)).astype(np.float64)
    return vectors


def softmax(
    odds: Callable[[Array], Array], back: Callable[[Array], Array], shape: int, kinds: NDArray[np.intp], which: int
) -> tuple[Array, Array]:
    """Multinomial logistic regression by gradient descent: weights `(shape, kinds)` and biases.

    Args:
        odds: From weights to the log-odds of each question.
        back: From what is missed of each question to the gradient of the weights.
        shape: How many features there are.
        kinds: The place of each question's kind.
        which: Of the words (0) or the embedding (1).
    """
    weights, bias, target = np.zeros((shape, len(KINDS))), np.zeros(len(KINDS)), np.eye(len(KINDS))[kinds]
    for _ in range(STEPS[which]):
        missed = chances(odds(weights) + bias) - target
        weights -= RATES[which] * (back(missed) / len(kinds) + RIDGES[which] * weights)
        bias -= RATES[which] * missed.mean(axis=0)
    return weights, bias


def chances(odds: Array) -> Array:
    found: Array = np.exp(odds - odds.max(axis=1, keepdims=True))
    shares: Array = found / found.sum(axis=1, keepdims=True)
    return shares


def write_multilingual(records: Sequence[dict[str, Any]]) -> None:
    """Fit the kinds on the multilingual table's embeddings of English questions and those of eight languages."""
    encoder = MultilingualEncoder(MULTILINGUAL)
    vectors: Array = encoder.encode([one["text"] for one in records]).astype(np.float64)
    kinds = np.array([KINDS.index(one["kind"]) for one in records])
    embedding, bias = softmax(
        lambda found: vectors @ found, lambda missed: vectors.T @ missed, vectors.shape[1], kinds, 1
    )
    shipped = {"embedding": np.round(100 * embedding).astype(int).tolist(), "bias": np.round(100 * bias, 1).tolist()}
    packed = json.dumps(shipped, separators=(",", ":"))
    (MULTILINGUAL / "question_kind.json").write_text(f"{packed}\n", encoding="utf-8")


def fit(records: Sequence[dict[str, Any]]) -> Fitted:
    """Fit words and embedding each by itself; their sum is surer where both agree."""
    questions = [one["text"] for one in records]
    kinds = np.array([KINDS.index(one["kind"]) for one in records])
    counts = Counter(word for question in questions for word in features_of(question))
    vocabulary = {word: place for place, word in enumerate(sorted(w for w, n in counts.items() if n >= LEAST))}
    places, vectors, size = by_words(questions, vocabulary), embedded(questions), len(vocabulary) + 1

    def to_words(missed: Array) -> Array:
        each = [np.bincount(places.ravel(), np.repeat(one, places.shape[1]), size) for one in missed.T]
        gradient: Array = np.stack(each, axis=1)
        gradient[-1] = 0.0
        return gradient

    words, bias_words = softmax(lambda found: found[places].sum(axis=1), to_words, size, kinds, 0)
    embedding, bias_embedding = softmax(
        lambda found: vectors @ found, lambda missed: vectors.T @ missed, vectors.shape[1], kinds, 1
    )
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
    files = {name: written(name) for name in FITTED}
    lives = [turns_of(life) for life in lives_to_fit()]
    plain = [one for records in files.values() for one in records]
    for left in FITTED[:-2]:
        others = [one for name, records in files.items() if name != left for one in records]
        show(f"{left}, left out", fit([*others, *chain(*lives)]), files[left])
    for number, life in enumerate(lives):
        show(
            f"fit_{number + 1}.json, left out",
            fit([*plain, *chain(*(one for one in lives if one is not life))]),
            life,
        )
    fitted = fit([*plain, *chain(*lives)])
    show(f"{ONLY_RUN}, only run", fitted, written(ONLY_RUN))
    cents = {word: [round(100 * weight) for weight in fitted.words[place]] for word, place in fitted.vocabulary.items()}
    shipped = {
        "bias": [round(float(one), 3) for one in fitted.bias],
        "embedding": np.round(100 * fitted.embedding).astype(int).tolist(),
        "words": {word: several for word, several in cents.items() if any(several)},
    }
    DATA.write_text(json.dumps(shipped, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    write_multilingual([*plain, *chain(*lives), *written("languages/turns_fit.jsonl")])
    print(f"wrote {DATA.name}: {len(shipped['words'])} words, {DATA.stat().st_size} bytes")


if __name__ == "__main__":
    main()
