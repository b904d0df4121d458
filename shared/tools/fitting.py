"""Texts of our own and two fits in numpy, for the tools that choose the numbers in the package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_memory.types import Expansion
from epic_memory.types.weights import StageWeights

Array = NDArray[np.float64]

WRITTEN = Path(__file__).parent / "written"


def written(name: str) -> list[dict[str, Any]]:
    """The records of one of our own files."""
    return [json.loads(line) for line in (WRITTEN / name).read_text(encoding="utf-8").splitlines()]


def preference_digest(preference: str) -> str:
    """Name a preference in `expansions.jsonl`, which holds no text of the public data."""
    return hashlib.blake2b(" ".join(preference.split()).casefold().encode(), digest_size=12).hexdigest()


def written_expansions() -> dict[str, Expansion]:
    """The expansions that a language model wrote, by the digest of the preference."""
    parts = ("questions", "follows", "breaks")
    return {
        one["of"]: Expansion(**{part: tuple(one[part]) for part in parts}, source="model")
        for one in written("expansions.jsonl")
    }


def write_record(stage: type[StageWeights], record: Mapping[str, Any]) -> None:
    """Write a stage's JSON, a weight or an origin a line."""

    def lines(part: Any) -> str:
        if isinstance(part, list):
            return "[\n" + ",\n".join(f"  {json.dumps(one, ensure_ascii=False)}" for one in part) + "\n ]"
        pairs = (f"  {json.dumps(key)}: {json.dumps(one, ensure_ascii=False)}" for key, one in part.items())
        return "{\n" + ",\n".join(pairs) + "\n }"

    parts = ",\n".join(f" {json.dumps(key)}: {lines(part)}" for key, part in record.items())
    stage.path().write_text(f"{{\n{parts}\n}}\n", encoding="utf-8")


def write_weights(
    stage: type[StageWeights], script: str, values: Mapping[str, Any], *, on: str, judged: Mapping[str, Any]
) -> None:
    """Write fitted weights into a stage's JSON, with what chose them and on what they were judged.

    Args:
        stage: The stage.
        script: Which one fitted them, from the repository's root.
        values: The weights.
        on: The data that chose them.
        judged: Figures on data that had no part in the fit.
    """
    record = stage.record()
    entries = [one | {"weights": [name for name in one["weights"] if name not in values]} for one in record["chosen"]]
    chosen = {"weights": list(values), "by": script, "on": on, "judged": judged}
    whole = record | {
        "weights": record["weights"] | values,
        "chosen": [chosen, *(one for one in entries if one["weights"])],
    }
    write_record(stage, whole)
    print(f"wrote {', '.join(values)} to {stage.path().name}")


class Linear(NamedTuple):
    """A linear function of features.

    Attributes:
        weights: Shape `(f,)`.
        bias: What is added.
    """

    weights: Array
    bias: float

    def __call__(self, features: Array) -> Array:
        found: Array = features @ self.weights + self.bias
        return found


def logistic(features: Array, targets: Array, weights: Array, ridge: float, signs: Array | None = None) -> Linear:
    """The log-odds of targets in [0, 1] as a linear function of features of any scale, by Newton's method.

    Args:
        features: Shape `(n, f)`.
        targets, weights: Of each row, shape `(n,)`.
        ridge: Of the weights of features scaled to a deviation of one.
        signs: 1 or -1 for each feature, or 0 where its weight may have any sign; default: all 0.
    """
    mean, scale = features.mean(axis=0), features.std(axis=0)
    scale[scale < 1e-9] = np.inf  # says nothing
    scaled = np.column_stack([(features - mean) / scale, np.ones(len(features))])
    penalty = np.append(np.full(features.shape[1], ridge), 1e-3)
    bound = np.zeros(len(penalty)) if signs is None else np.append(signs, 0)
    found = np.zeros(len(penalty))
    for _ in range(60):
        chance = 1.0 / (1.0 + np.exp(-np.clip(scaled @ found, -30.0, 30.0)))
        slope = scaled.T @ (weights * (chance - targets)) + penalty * found
        curvature = (scaled * (weights * chance * (1.0 - chance))[:, None]).T @ scaled + np.diag(penalty)
        # A weight at its bound moves only where the slope says so.
        free = (bound == 0) | (found != 0) | (bound * slope < 0)
        step = np.zeros(len(found))
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
        following = np.where(bound * (found - step) < 0, 0.0, found - step)
        moved = np.abs(following - found).max()
        found = following
        if moved < 1e-6:
            break
    plain = found[:-1] / scale
    return Linear(plain, float(found[-1] - mean @ plain))


def choice(features: Array, weights: Array, signs: Array, ridge: float) -> Array:
    """Weights that make the first of some options the likeliest (a conditional logit), each of a given sign.

    Args:
        features: Of each case's options, shape `(n, options, f)`; the first option is the right one.
        weights: Of each case, shape `(n,)`.
        signs: 1 or -1 for each feature.
        ridge: Of the weights of features scaled to a deviation of one.
    """
    scale = features.reshape(-1, features.shape[-1]).std(axis=0)
    scale[scale < 1e-9] = np.inf
    scaled = signs * features / scale

    def gradient(found: Array) -> Array:
        scores = scaled @ found
        chance = np.exp(scores - scores.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        slope: Array = weights @ (np.einsum("no,nof->nf", chance, scaled) - scaled[:, 0]) + ridge * found
        return slope

    flat = scaled.reshape(-1, scaled.shape[-1])
    # What a softmax over the options allows.
    curvature = (
        0.5 * float(np.linalg.eigvalsh((flat * np.repeat(weights, scaled.shape[1])[:, None]).T @ flat)[-1]) + ridge
    )
    found = ahead = np.zeros(features.shape[-1])
    momentum = 1.0
    for _ in range(20_000):  # accelerated projected gradients
        following = np.maximum(ahead - gradient(ahead) / curvature, 0.0)
        faster = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = following + (momentum - 1.0) / faster * (following - found)
        if np.abs(following - found).max() < 1e-6:
            break
        found, momentum = following, faster
    result: Array = signs * found / scale
    return result


def auc(scores: Array, right: Array) -> float:
    """The chance that a right one scores above a wrong one."""
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    for value in np.unique(scores):
        same = scores == value
        ranks[same] = ranks[same].mean()
    positives = int(right.sum())
    negatives = len(right) - positives
    return float((ranks[right].sum() - positives * (positives + 1) / 2) / (positives * negatives))
