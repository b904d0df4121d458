"""Chooses the weights of `epic_memory.preferences.evidence` on options of our own, and writes them (`evidence.json`).

    python shared/tools/fit_evidence.py

Each case has a preference, a question and four options, of which the first follows the preference. The weights make it
the likeliest, with the bundled encoder and with all-MiniLM-L6-v2 at once. Printed, too: how often it comes first in
cases left out of the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epic_memory.encoders import MiniLMEncoder, default_encoder, embed
from epic_memory.encoders.base import Encoder
from epic_memory.preferences.evidence import FEATURES, EvidenceWeights, embed_aspects, features
from epic_memory.text.stems import words_of
from fitting import Array, choice, write_weights, written

RIDGE = 5.0
FOLDS = 5
# Options that were written to mislead are rarer in life than among ours.
MISLEADING = 0.2
_FOR = {"liked", "liked_kinds", "avoided_instead"}


def cases() -> tuple[list[dict[str, Any]], Array]:
    """Our own cases and their weights."""
    plain, misleading = written("options.jsonl"), written("preferences.jsonl")
    return [*plain, *misleading], np.array([1.0] * len(plain) + [MISLEADING] * len(misleading))


def sign_of(feature: str) -> int:
    """1 for what speaks for a preference, -1 for what speaks against it; the opposite where it is denied; else 0."""
    side = feature.removesuffix("_said").removesuffix("_denied")
    if feature not in FEATURES:
        return 0
    sign = 1 if side in _FOR else -1
    return -sign if feature.endswith("_denied") else sign


def signs() -> Array:
    """Of cos(q, x), and of each feature."""
    return np.array([1, *map(sign_of, FEATURES)], dtype=float)


def table(encoder: Encoder, records: Sequence[dict[str, Any]]) -> Array:
    """cos(q, x) and the features of each option, shape `(n, 4, 1 + len(FEATURES))`."""
    every = embed_aspects(encoder, [record["preference"] for record in records])
    questions = embed(encoder, [record["question"] for record in records])
    options = embed(encoder, [option for record in records for option in record["options"]])
    found = []
    for record, sides, question, vectors in zip(
        records, every, questions, options.reshape(len(records), 4, -1), strict=True
    ):
        to_query = vectors @ question
        beside = vectors @ sides.vectors.T - np.outer(to_query, sides.vectors @ question)
        said = [words_of(option) for option in record["options"]]
        found.append(np.column_stack([to_query, features(sides, said, beside)]))
    return np.array(found, dtype=np.float64)


def main() -> None:
    encoders: list[Encoder] = [default_encoder(), MiniLMEncoder()]
    records, weights = cases()
    tables = [table(encoder, records) for encoder in encoders]
    fold = np.arange(len(records)) % FOLDS
    right = np.zeros((len(tables), len(records)))
    for left_out in range(FOLDS):
        fit = fold != left_out
        found = choice(np.concatenate([one[fit] for one in tables]), np.tile(weights[fit], len(tables)), signs(), RIDGE)
        for number, one in enumerate(tables):
            scores = one[~fit] @ found
            right[number, ~fit] = (scores[:, :1] > scores[:, 1:]).all(axis=1)
    judged = {}
    for encoder, row in zip(encoders, right, strict=True):
        plain = weights == 1.0
        print(
            f"{encoder.name}: first in {row[plain].mean():.3f} of plain cases left out,"
            f" {row[~plain].mean():.3f} of others"
        )
        judged[f"{encoder.name}: first in plain cases left out, others"] = [
            round(float(row[which].mean()), 3) for which in (plain, ~plain)
        ]
    found = choice(np.concatenate(tables), np.tile(weights, len(tables)), signs(), RIDGE)
    weight_of = {name: round(float(weight), 2) for name, weight in zip(FEATURES, found[1:] / found[0], strict=True)}
    write_weights(
        EvidenceWeights,
        "shared/tools/fit_evidence.py",
        {"features": weight_of},
        on="written/options.jsonl, written/preferences.jsonl",
        judged=judged,
    )


if __name__ == "__main__":
    main()
