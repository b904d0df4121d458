"""Fits the embedded verifier, and writes what it ships with.

    python shared/tools/make_verifier.py DATA --teacher FOLDER [--out shared/epic_core/data/verifier.json]

Fitted on texts and judgements of our own (`written/judged.jsonl`) and on the judgements of Wikipedia passages in DATA's
`verification_labels.jsonl`. Two functions of what `epic_core.verification.pairs` measures come of it: relevance, the
log-odds that a chunk is kept under a preference, and stance, those that it supports it rather than conflicts with it.
Each for the bundled encoder, and for others: those are fitted with all-MiniLM-L6-v2.

How rare words are is counted over the Wikipedia passages in DATA and our own texts.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from epic_core.chunking import sentences
from epic_core.encoders import SentenceTransformerEncoder, default_encoder, embed
from epic_core.encoders.base import Encoder
from epic_core.evidence import sides_of
from epic_core.verification.pairs import MEASURES, STANCE_MEASURES, Chunk, Rarity, Wanted, measured, stance_measured
from epic_core.words import stems
from fit_evidence import sign_of
from fitting import Array, Linear, logistic, written

DATA = Path(__file__).parents[1] / "epic_core" / "data" / "verifier.json"
RELEVANCE_RIDGE = 300.0
STANCE_RIDGE = 30.0
# Pairs that were written as near misses are rarer in life than among ours.
NEAR_MISSES = 0.3
# There are many options, and they are all of one kind.
OPTIONS = 0.2
# Passages met by chance count more than texts written to be judged, above all for how often a pair is kept.
JUDGED = 3.0
JUDGED_SCALE = 10.0
# Words in fewer texts than this are all equally rare.
RARE = 30


class Pair(NamedTuple):
    """A chunk, a preference, and how they stand: a stance, or "discard"; and how much it counts in a fit."""

    text: str
    preference: str
    label: str
    weight: float = 1.0


def own_pairs() -> list[Pair]:
    """The judgements of our own."""
    found = []
    for record in written("judged.jsonl"):
        found += [Pair(record["text"], preference, label) for preference, label in record["found"]]
        found += [Pair(record["text"], preference, label, NEAR_MISSES) for preference, label in record["pairs"]]
    return found


def option_pairs() -> list[Pair]:
    """Options of our own under their preferences: the first of each supports it, the others conflict with it.

    Short texts, which passages are not; only their stance is known.
    """
    return [
        Pair(option, record["preference"], "conflicts" if place else "supports", OPTIONS)
        for record in written("options.jsonl")
        for place, option in enumerate(record["options"])
    ]


def labelled_pairs(records: Iterable[dict[str, Any]]) -> list[Pair]:
    """Those of `verification_labels.jsonl`."""
    found = []
    for record in records:
        stances = {alignment["preference"]: alignment["stance"] for alignment in record["alignments"]}
        for number, preference in enumerate(record["preferences"]):
            found.append(Pair(record["chunk"], preference, stances.get(number, "discard")))
    return found


def rarity_of(texts: Iterable[str]) -> Rarity:
    """How rare the words of some texts are."""
    counts: Counter[str] = Counter()
    number = 0
    for text in texts:
        counts.update(set(stems(text)))
        number += 1
    return Rarity({word: count for word, count in sorted(counts.items()) if count >= RARE}, number)


@dataclass(frozen=True)
class Found:
    """What is measured of some pairs, a row for each.

    Attributes:
        relevance, stance: `MEASURES` and `STANCE_MEASURES`.
    """

    relevance: Array
    stance: Array

    def rows(self, rows: Any) -> Found:
        """Those of some pairs."""
        return Found(self.relevance[rows], self.stance[rows])

    def __add__(self, other: Found) -> Found:
        return Found(np.concatenate([self.relevance, other.relevance]), np.concatenate([self.stance, other.stance]))


def measures(encoder: Encoder, rarity: Rarity, pairs: Sequence[Pair]) -> Found:
    """What is measured of each pair."""
    preferences = list(dict.fromkeys(pair.preference for pair in pairs))
    texts = list(dict.fromkeys(pair.text for pair in pairs))
    vectors = dict(zip(preferences, embed(encoder, preferences), strict=True))
    wanted = {
        text: Wanted.of(text, sides, rarity)
        for text, sides in zip(preferences, sides_of(encoder, preferences), strict=True)
    }
    pieces = [sentences(text) for text in texts]
    whole, parts = embed(encoder, texts), embed(encoder, [sentence for piece in pieces for sentence in piece])
    chunks, start = {}, 0
    for text, piece, vector in zip(texts, pieces, whole, strict=True):
        chunks[text] = Chunk(text, vector), parts[start : start + len(piece)]
        start += len(piece)
    relevance, stance = [], []
    for pair in pairs:
        chunk, near = chunks[pair.text]
        relevance.append(measured(wanted[pair.preference], chunk, vectors[pair.preference]))
        stance.append(stance_measured(wanted[pair.preference], relevance[-1], near))
    return Found(np.array(relevance), np.array(stance))


def fit_relevance(found: Found, pairs: Sequence[Pair], judged: int) -> Linear:
    """The log-odds that a pair is kept.

    A ridge makes them smaller than they are; a second fit, of nothing but their scale and a shift, puts that right.
    Near misses have no part in it: they say nothing of how often a pair is kept.

    Args:
        found, pairs: What is fitted on.
        judged: How many of the last pairs are judged passages.
    """
    kept = np.array([float(pair.label != "discard") for pair in pairs])
    weights = np.array([pair.weight for pair in pairs])
    passages = np.arange(len(pairs)) >= len(pairs) - judged
    linear = logistic(found.relevance, kept, weights * np.where(passages, JUDGED, 1.0), RELEVANCE_RIDGE)
    met = weights == 1.0
    counts = np.where(passages[met], JUDGED_SCALE, 1.0)
    scale = logistic(linear(found.relevance[met])[:, None], kept[met], counts, 0.0)
    return Linear(linear.weights * scale.weights[0], linear.bias * float(scale.weights[0]) + scale.bias)


def fit_stance(found: Found, pairs: Sequence[Pair]) -> Linear:
    """The log-odds that a kept pair supports its preference rather than conflicts; both equally likely before.

    A measure that speaks for a preference counts for it, or nothing.
    """
    chosen = np.array([pair.label in ("supports", "conflicts") for pair in pairs])
    supports = np.array([float(pair.label == "supports") for pair in pairs])[chosen]
    weights = np.array([pair.weight for pair in pairs])[chosen]
    for side in (0.0, 1.0):
        weights[supports == side] *= 0.5 / weights[supports == side].sum()
    signs = np.array([sign_of(name.removeprefix("sentence_")) for name in STANCE_MEASURES], dtype=float)
    return logistic(found.stance[chosen], supports, weights * chosen.sum(), STANCE_RIDGE, signs)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("data", type=Path)
    made.add_argument("--teacher", help="folder of all-MiniLM-L6-v2; without it the weights for other encoders stay")
    made.add_argument("--out", type=Path, default=DATA)
    options = made.parse_args()
    lines = (options.data / "verification_labels.jsonl").read_text(encoding="utf-8").splitlines()
    records = [record for record in map(json.loads, lines) if record["source"].startswith("wiki")]
    pairs = [*own_pairs(), *labelled_pairs(records)]
    judged = len(pairs) - len(own_pairs())
    passages = (options.data / "wiki_passages.jsonl").read_text(encoding="utf-8").splitlines()
    rarity = rarity_of(
        [
            *(f"{passage['title']}. {passage['text']}" for passage in map(json.loads, passages)),
            *(record["text"] for record in written("judged.jsonl")),
        ]
    )
    out: dict[str, Any] = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    out |= {"texts": rarity.texts, "counts": rarity.counts}
    encoders: list[tuple[str, Encoder]] = [("static", default_encoder())]
    if options.teacher:
        encoders.append(("other", SentenceTransformerEncoder(options.teacher)))
    for name, encoder in encoders:
        found = measures(encoder, rarity, [*pairs, *option_pairs()])
        relevance = fit_relevance(found.rows(slice(len(pairs))), pairs, judged)
        stance = fit_stance(found, [*pairs, *option_pairs()])
        for what, linear, names in (("relevance", relevance, MEASURES), ("stance", stance, STANCE_MEASURES)):
            weights = {
                measure: round(float(weight), 3)
                for measure, weight in zip(names, linear.weights, strict=True)
                if abs(weight) >= 5e-4
            }
            out[f"{name}_{what}"] = {"bias": round(linear.bias, 3), "weights": weights}
    options.out.write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{options.out}: {options.out.stat().st_size} bytes, fitted on {len(pairs)} pairs")


if __name__ == "__main__":
    main()
