"""Sensitive topics: parts of a life, such as health or money, that a sentence can be about without naming them.

"I can't have penicillin" shares no word with "my health". A logistic regression of each topic on the bundled encoder's
embedding knows what people write about it, whatever encoder a memory uses. `shared/tools/fit_sensitive.py` fitted it
on sentences by people who saw no code, and says how it does on those of another.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_memory.text.stems import content_stems
from epic_memory.types import FloatArray
from epic_memory.types.weights import StageWeights


@dataclass(frozen=True, kw_only=True)
class SensitiveWeights(StageWeights):
    """Threshold of what is about a sensitive topic."""

    about: float  # chance from which a sentence is about a topic


class _Model(NamedTuple):
    names: tuple[frozenset[str], ...]
    fillers: frozenset[str]
    embedding: FloatArray
    bias: FloatArray


@lru_cache(maxsize=1)
def _model() -> _Model:
    shipped = json.loads((files("epic_memory") / "data" / "sensitive.json").read_text(encoding="utf-8"))
    return _Model(
        names=tuple(frozenset(content_stems(words)) for words in shipped["topics"].values()),
        fillers=frozenset(content_stems(shipped["fillers"])),
        embedding=np.array(shipped["embedding"], dtype=np.float32) / 100.0,
        bias=np.array(shipped["bias"], dtype=np.float32),
    )


def sensitive_topics(rule: str) -> list[int]:
    """Return the numbers of the sensitive topics that a rule such as "my health" names, if it names nothing else."""
    model = _model()
    words = set(content_stems(rule)) - model.fillers
    if not words <= frozenset().union(*model.names):
        return []
    return [number for number, names in enumerate(model.names) if words & names]


def about_topics(vectors: FloatArray) -> NDArray[np.bool_]:
    """Tell what sentences with embeddings `(n, d)` by the bundled encoder are about, shape `(n, topics)`."""
    model, least = _model(), SensitiveWeights.shipped().about
    about: NDArray[np.bool_] = vectors @ model.embedding + model.bias >= np.log(least / (1.0 - least))
    return about
