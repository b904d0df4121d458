"""The embedded verifier on the judged pairs: is a chunk relevant, on whose side is it, is the confidence true.

The shipped weights were fitted on texts and judgements of our own alone, so every pair here is unseen. Intervals are
bootstrapped by connected component of the graph of chunks and preferences; one component holds two in five pairs, so
they are wide and rough. Rarity of words is counted over all passages, without their labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common import panels, read_jsonl, save_figure, script_options
from epic_memory.encoders import default_encoder, embed
from epic_memory.encoders.base import Encoder
from epic_memory.types import Candidate, Item, Preference
from epic_memory.verification.embedded import EmbeddedVerifier, shipped_weights
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
BINS = 10


class Labels:
    """The labelled pairs, and what a fit and a bootstrap have to know of them."""

    def __init__(self, data: Path) -> None:
        self.pairs = labelled_pairs(read_jsonl(data / "verification_labels.jsonl"))
        self.kept = np.array([pair.label != "discard" for pair in self.pairs])
        self.component = components(self.pairs)
        counts = np.random.default_rng(0).multinomial(
            self.component.max() + 1, np.full(self.component.max() + 1, 1 / (self.component.max() + 1)), DRAWS
        )
        self.drawn = counts[:, self.component].astype(float)

    def interval(self, statistic: Callable[[Array], float]) -> str:
        """95 % of a statistic of the weights of pairs, when components are drawn anew."""
        with np.errstate(invalid="ignore"):
            low, high = np.nanpercentile([statistic(weights) for weights in self.drawn], (2.5, 97.5))
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


def print_relevance(labels: Labels, relevance: Array, cosine: Array) -> None:
    print("relevance  pairs   kept   AUC")
    right = labels.kept
    won = {name: wins(found, right) for name, found in (("verifier", relevance), ("cosine", cosine))}
    for name, each in won.items():
        auc = weighted_auc(each, right)
        print(f"{name:8} {len(right):6}  {right.mean():.3f}  {auc(np.ones(len(right))):.3f} {labels.interval(auc)}")
    more = weighted_auc(won["verifier"] - won["cosine"], right)
    print(f"more than the cosine {more(np.ones(len(right))):+.3f} {labels.interval(more)}")


class Bin(NamedTuple):
    confidence: float
    kept: float
    pairs: int


def print_calibration(confidence: Array, kept: Array) -> list[Bin]:
    """Print ten bins of confidence, and return those that are not empty."""
    place, found = np.minimum((confidence * BINS).astype(int), BINS - 1), []
    print("confidence   mean    kept    pairs")
    for number in np.unique(place).tolist():
        inside = place == number
        one = Bin(float(confidence[inside].mean()), float(kept[inside].mean()), int(inside.sum()))
        told = f"{one.confidence:.3f}   {one.kept:.3f}   {one.pairs:5}"
        print(f"{number / BINS:.1f}-{(number + 1) / BINS:.1f}      {told}")
        found.append(one)
    error = sum(one.pairs * abs(one.confidence - one.kept) for one in found) / len(kept)
    print(f"expected calibration error {error:.3f}")
    return found


OWN = {
    "plain notes, looked at": "plain_b.jsonl",
    "plain notes, only run": "plain_c.jsonl",
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


def print_figures(encoder: Encoder, labels: Labels) -> list[Bin]:
    """Print all figures, and return the bins for the plot."""
    weights = shipped_weights("static")
    found = measures(encoder, weights.rarity, labels.pairs)
    relevance = Linear(weights.relevance.weights.astype(float), weights.relevance.bias)(found.relevance)
    print(f"\n{encoder.name}, the shipped weights")
    print_relevance(labels, relevance, found.relevance[:, MEASURES.index("preference")])
    print_given(encoder, labels)
    return print_calibration(1.0 / (1.0 + np.exp(-relevance)), labels.kept)


def plot(path: Path, found: list[Bin]) -> None:
    """Confidence against the share kept, with what chance allows (Wilson, 95 %)."""
    figure, ((axes,),) = panels(1)
    axes.plot([0, 1], [0, 1], "--", color="#6c757d")
    for one in found:
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
    options = script_options(__doc__, data=True, plot=Path)
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


if __name__ == "__main__":
    main()
