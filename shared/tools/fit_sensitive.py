"""Fit of the sensitive topics (`epic_memory.pipeline.never`) that a rule of `memory.never` can name.

Run `python shared/tools/fit_sensitive.py` to write `shared/epic_memory/data/sensitive.json` and its weights. Each of
`written/sensitive_*.json` is by somebody else who saw no code: sentences about nine parts of the writer's life, and
others. It is fitted on a and b; the threshold is the mean of those that keep out the share REACHED of one's sentences
when fitted on the other. c was only run, and prints the figures.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from epic_memory.encoders import default_encoder
from epic_memory.pipeline.never import SensitiveWeights
from fitting import WRITTEN, Array, write_weights

DATA = Path(__file__).parents[1] / "epic_memory" / "data" / "sensitive.json"
FITTED, ONLY_RUN = ("a", "b"), "c"
RIDGE, STEPS, RATE = 3e-4, 1500, 8.0
# What is about another topic, or none, counts less: what a rule lets through is worse than what it keeps out.
OTHERS = 0.3
REACHED = 0.8
# The words by which a rule names a topic, and words that add nothing to them.
NAMES = {
    "health": "health medical illness illnesses disease diseases body mental physical",
    "money": "money finances financial",
    "religion": "religion religious faith beliefs god",
    "politics": "politics political views",
    "love life": "love sex sexual romantic dating intimate relationship relationships",
    "family": "family relatives",
    "work": "work job employer career",
    "address and whereabouts": "address addresses whereabouts location live",
    "legal trouble": "legal law court police crime criminal",
}
FILLERS = (
    "life matters things history personal private details information situation problems issues trouble anything "
    "everything data topics stuff"
)


class Fitted(NamedTuple):
    embedding: Array
    bias: Array

    def chances(self, vectors: Array) -> Array:
        found: Array = 1.0 / (1.0 + np.exp(-(vectors @ self.embedding + self.bias)))
        return found


def sentences(*names: str) -> tuple[Array, Array]:
    """The embeddings of the sentences of files, and whether each is about each topic."""
    texts, about = [], []
    for name in names:
        read = json.loads((WRITTEN / f"sensitive_{name}.json").read_text(encoding="utf-8"))
        for topic, several in {**read["topics"], "": read["none"]}.items():
            texts += several
            about += [[topic == each for each in NAMES]] * len(several)
    return default_encoder().encode(texts).astype(np.float64), np.array(about, dtype=np.float64)


def fit(names: Sequence[str]) -> Fitted:
    vectors, about = sentences(*names)
    counts = np.where(about > 0, 1.0, OTHERS)
    embedding, bias = np.zeros((vectors.shape[1], len(NAMES))), np.zeros(len(NAMES))
    for _ in range(STEPS):
        missed = (Fitted(embedding, bias).chances(vectors) - about) * counts
        embedding -= RATE * (vectors.T @ missed / len(vectors) + RIDGE * embedding)
        bias -= RATE * missed.mean(axis=0)
    return Fitted(embedding, bias)


def main() -> None:
    leasts = []
    for left, other in (FITTED, FITTED[::-1]):
        vectors, about = sentences(left)
        leasts.append(float(np.quantile(fit([other]).chances(vectors)[about > 0], 1.0 - REACHED)))
    least, fitted = round(float(np.mean(leasts)), 2), fit(FITTED)
    shipped = {
        "topics": NAMES,
        "fillers": FILLERS,
        "embedding": np.round(100 * fitted.embedding).astype(int).tolist(),
        "bias": [round(float(one), 3) for one in fitted.bias],
    }
    DATA.write_text(json.dumps(shipped, separators=(",", ":")) + "\n", encoding="utf-8")
    vectors, about = sentences(ONLY_RUN)
    out, none = fitted.chances(vectors) >= least, about.sum(axis=1) == 0
    kept_out = {topic: round(float(out[about[:, n] > 0, n].mean()), 2) for n, topic in enumerate(NAMES)}
    judged = {
        "on": "written/sensitive_c.json, which was only run",
        "command": "python shared/tools/fit_sensitive.py",
        "share kept out by the topic's rule": kept_out,
        "share of other sentences kept out by a rule, mean": round(float(out[none].mean()), 3),
    }
    chosen = "on written/sensitive_a.json and _b.json, each by a fit on the other"
    write_weights(SensitiveWeights, "shared/tools/fit_sensitive.py", {"about": least}, on=chosen, judged=judged)
    print(least, leasts)
    print(json.dumps(judged, indent=1))


if __name__ == "__main__":
    main()
