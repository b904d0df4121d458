"""The embedded verifier on the judged pairs: is a chunk relevant, on whose side is it, is the confidence true.

The shipped weights were fitted on texts and judgements of our own alone, so every pair here is unseen. Intervals are
bootstrapped by connected component of the graph of chunks and preferences; one component holds two in five pairs, so
they are wide and rough. Rarity of words is counted over all passages, without their labels.

Then the time for a pair.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common import panels, parse, parser, read_jsonl, save_figure
from epic_memory.encoders import default_encoder, embed
from epic_memory.encoders.base import Encoder
from epic_memory.types import Candidate, Item, Preference
from epic_memory.verification.embedded import DEFAULT_THRESHOLD, EmbeddedVerifier, shipped_weights
from epic_memory.verification.features import MEASURES
from fitting import Array, Linear, written
from make_verifier import (
    SIDED,
    Pair,
    labelled_pairs,
    measures,
    note_pairs,
    option_pairs,
    own_pairs,
)

DRAWS = 1000
THRESHOLDS = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
BINS = 10


class Labels:
    """The labelled pairs, and what a fit and a bootstrap have to know of them."""

    def __init__(self, data: Path) -> None:
        self.pairs = labelled_pairs(read_jsonl(data / "verification_labels.jsonl"))
        self.kept = np.array([pair.label != "discard" for pair in self.pairs])
        self.sided = np.array([pair.label in ("supports", "conflicts") for pair in self.pairs])
        self.supports = np.array([pair.label == "supports" for pair in self.pairs])
        self.component = components(self.pairs)
        counts = np.random.default_rng(0).multinomial(
            self.component.max() + 1, np.full(self.component.max() + 1, 1 / (self.component.max() + 1)), DRAWS
        )
        self.drawn = counts[:, self.component].astype(float)

    def interval(self, statistic: Callable[[Array], float], part: Array | slice = slice(None)) -> str:
        """95 % of a statistic of the weights of pairs, when components are drawn anew."""
        with np.errstate(invalid="ignore"):
            low, high = np.nanpercentile([statistic(weights) for weights in self.drawn[:, part]], (2.5, 97.5))
        return f"[{low:.3f}, {high:.3f}]"


def components(pairs: Sequence[Pair]) -> Array:
    """The number of each pair's component of the graph of texts and preferences."""
    above: dict[tuple[str, str], tuple[str, str]] = {}

    def top(node: tuple[str, str]) -> tuple[str, str]:
        above.setdefault(node, node)
        while above[node] != node:
            above[node] = node = above[above[node]]
        return node

    for pair in pairs:
        above[top(("text", pair.text))] = top(("preference", pair.preference))
    return np.unique([repr(top(("text", pair.text))) for pair in pairs], return_inverse=True)[1]


class Scores(NamedTuple):
    """The log-odds of each pair that it is kept, and that it supports."""

    relevance: Array
    stance: Array

    @property
    def confidence(self) -> Array:
        return 1.0 / (1.0 + np.exp(-self.relevance))


def wins(scores: Array, right: Array) -> Array:
    """How often each right one is above each wrong one; a tie is half."""
    up, down = scores[right][:, None], scores[~right]
    return (up > down) + 0.5 * (up == down)


def weighted_auc(won: Array, right: Array) -> Callable[[Array], float]:
    """The AUC, of weights of the pairs."""

    def statistic(weights: Array) -> float:
        up, down = weights[right], weights[~right]
        return float(up @ won @ down / (up.sum() * down.sum()))

    return statistic


def print_relevance(labels: Labels, scores: Scores, cosine: Array) -> None:
    print("relevance  pairs   kept   AUC")
    right = labels.kept
    won = {name: wins(found, right) for name, found in (("verifier", scores.relevance), ("cosine", cosine))}
    for name, each in won.items():
        auc = weighted_auc(each, right)
        print(f"{name:8} {len(right):6}  {right.mean():.3f}  {auc(np.ones(len(right))):.3f} {labels.interval(auc)}")
    more = weighted_auc(won["verifier"] - won["cosine"], right)
    print(f"more than the cosine {more(np.ones(len(right))):+.3f} {labels.interval(more)}")


def print_stance(labels: Labels, scores: Scores) -> None:
    right = labels.supports[labels.sided]
    stance = scores.stance[labels.sided]
    correct = (stance >= 0) == right
    auc = weighted_auc(wins(stance, right), right)(np.ones(len(right)))
    interval = labels.interval(lambda weights: float(weights @ correct / weights.sum()), labels.sided)
    print("stance: pairs   accuracy                of supports, of conflicts   AUC     always supports")
    print(
        f"        {len(right):5}   {correct.mean():.3f} {interval}   {correct[right].mean():11.3f},"
        f" {correct[~right].mean():12.3f}   {auc:.3f}   {right.mean():.3f}"
    )


def print_kept(labels: Labels, confidence: Array) -> None:
    print("threshold   kept   precision   recall   F1")
    for threshold in dict.fromkeys((DEFAULT_THRESHOLD, *THRESHOLDS)):
        kept = confidence >= threshold
        precision, recall = kept[labels.kept].sum() / kept.sum(), kept[labels.kept].mean()
        shipped = "  (shipped)" if threshold == DEFAULT_THRESHOLD else ""
        f1 = 2 * precision * recall / (precision + recall)
        print(f"{threshold:9.2f}   {kept.mean():.3f}   {precision:9.3f}   {recall:6.3f}   {f1:.3f}{shipped}")


class Bin(NamedTuple):
    confidence: float
    kept: float
    pairs: float


def bins(confidence: Array, kept: Array) -> list[Bin | None]:
    """Ten bins of confidence."""
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return [
        Bin(float(confidence[inside].mean()), float(kept[inside].mean()), float(inside.sum())) if inside.any() else None
        for inside in (place == number for number in range(BINS))
    ]


def print_calibration(confidence: Array, kept: Array) -> list[Bin | None]:
    found = bins(confidence, kept)
    error = sum(one.pairs * abs(one.confidence - one.kept) for one in found if one) / len(kept)
    print(f"expected calibration error {error:.3f}\nconfidence   mean    kept    pairs")
    for number, one in enumerate(found):
        if one:
            told = f"{one.confidence:.3f}   {one.kept:.3f}   {one.pairs:5.0f}"
            print(f"{number / BINS:.1f}-{(number + 1) / BINS:.1f}      {told}")
    return found


OWN = {
    "plain notes, looked at": "plain_b.jsonl",
    "plain notes, only run": "plain_c.jsonl",
    "paraphrases, looked at": "answers_a/stances.jsonl",
    "paraphrases, only run": "answers_b/stances.jsonl",
}


def candidates_of(encoder: Encoder, pairs: Sequence[Pair]) -> list[Candidate]:
    """Return what the verifier is asked of each pair."""
    texts, preferences = ([getattr(pair, what) for pair in pairs] for what in ("text", "preference"))
    return [
        Candidate(
            item=Item(text=text),
            embedding=near,
            preferences=(Preference(text=preference),),
            similarities=(float(near @ own),),
            preference_embeddings=own[None, :],
        )
        for text, preference, near, own in zip(
            texts, preferences, embed(encoder, texts), embed(encoder, preferences), strict=True
        )
    ]


def stances_of(encoder: Encoder, pairs: Sequence[Pair]) -> Array:
    """Return the stance that the verifier gives each pair; empty if it does not keep it."""
    verdicts = EmbeddedVerifier(encoder).verify(candidates_of(encoder, pairs))
    return np.array([one.alignments[0].stance.value if one.alignments else "" for one in verdicts])


def print_given(encoder: Encoder, labels: Labels) -> None:
    """Print how many stances the verifier gives, and how many of them are right; where there is no side, none is."""
    sets = {"labelled verdicts": list(labels.pairs)}
    for name, file in OWN.items():
        sets[name] = [Pair(row["text"], row["preference"], row["stance"]) for row in written(file)]
    print("stances given           of sided pairs, rightly   inverted   of pairs without a side   right of all given")
    for name, pairs in sets.items():
        stances, sides = stances_of(encoder, pairs), np.array([pair.label for pair in pairs])
        said, has, right = np.isin(stances, SIDED), np.isin(sides, SIDED), stances == sides
        print(
            f"{name:24} {has.sum():13}, {(said & right).sum():8}   {(said & has & ~right).sum():8}"
            f"   {(said & ~has).sum():24}   {(said & right).sum() / max(1, said.sum()):18.3f}"
        )


def print_figures(encoder: Encoder, labels: Labels) -> list[Bin | None]:
    """Print all figures, and return the bins for the plot."""
    weights = shipped_weights("static")
    found = measures(encoder, weights.rarity, labels.pairs)
    scores = Scores(
        Linear(weights.relevance.weights.astype(float), weights.relevance.bias)(found.relevance),
        Linear(weights.stance.weights.astype(float), weights.stance.bias)(found.stance),
    )
    print(f"\n{encoder.name}, the shipped weights")
    print_relevance(labels, scores, found.relevance[:, MEASURES.index("preference")])
    print_stance(labels, scores)
    print_given(encoder, labels)
    print_kept(labels, scores.confidence)
    return print_calibration(scores.confidence, labels.kept)


def print_time(encoder: Encoder, pairs: Sequence[Pair]) -> None:
    verifier, candidates = EmbeddedVerifier(encoder), candidates_of(encoder, pairs)
    list(verifier.verify(candidates))  # what is known of preferences is learnt once
    used = []
    for _ in range(5):
        started = time.process_time()
        list(verifier.verify(candidates))
        used.append((time.process_time() - started) / len(pairs))
    print(f"\na pair: {1e3 * statistics.median(used):.2f} ms of processor time")


def plot(path: Path, found: list[Bin | None]) -> None:
    """Confidence against the share kept, with what chance allows (Wilson, 95 %)."""
    figure, ((axes,),) = panels(1)
    axes.plot([0, 1], [0, 1], "--", color="#6c757d")
    for one in filter(None, found):
        axes.vlines(one.confidence, *wilson(one.kept, one.pairs), color="#0b6e4f", alpha=0.6)
        axes.plot(one.confidence, one.kept, "o", color="#0b6e4f", markersize=5 + one.pairs**0.5 / 2)
    axes.set(xlabel="confidence", ylabel="share kept", xlim=(0, 1), ylim=(0, 1))
    save_figure(figure, path)


def wilson(share: float, count: float, z: float = 1.96) -> tuple[float, float]:
    """Where the true share lies."""
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5
    return middle - half, middle + half


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--plot", type=Path, help="file for the reliability plot, an SVG")
    options = parse(made)
    labels, encoder = Labels(options.data), default_encoder()
    sizes = np.bincount(labels.component)
    ours = {pair.preference for pair in (*own_pairs(), *option_pairs(), *note_pairs())}
    shared = len(ours & {pair.preference for pair in labels.pairs})
    print(
        f"{len(labels.pairs)} pairs, {labels.kept.sum()} kept, in {len(sizes)} components, the largest of"
        f" {sizes.max()}; {shared} of their preferences are among the {len(ours)} of our own"
    )
    drawn = print_figures(encoder, labels)
    if options.plot:
        plot(options.plot, drawn)
    print_time(encoder, labels.pairs)


if __name__ == "__main__":
    main()
