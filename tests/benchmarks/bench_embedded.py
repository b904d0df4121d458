"""The embedded verifier on the judged pairs: is a chunk relevant, on whose side is it, is the confidence true.

The shipped weights were fitted on texts and judgements of our own alone, so every pair here is unseen. Intervals are
bootstrapped by connected component of the graph of chunks and preferences; one component holds two in five pairs, so
they are wide and rough. Rarity of words is counted over all passages, without their labels.

Then the time for a pair, and the sizes. With --teacher: the same figures with all-MiniLM-L6-v2, and what the verifier
keeps of what the static filter lets through although MiniLM finds it unlike. No such pair is labelled, as labels begin
at a similarity of 0.3.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common import parse, parser, personas, read_jsonl
from epic_apps.cli.sources import Sources
from epic_memory.encoders import SentenceTransformerEncoder, default_encoder, embed
from epic_memory.encoders.base import Encoder, default_tau
from epic_memory.types import Candidate, Decision, Item, Preference
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
BLOCK = 256
DRAWN = 4000
UNLIKE = 0.2
PERSONAS = 20
TIMED_BLOCKS = 12


class Labels:
    """The labelled pairs, and what a fit and a bootstrap have to know of them."""

    def __init__(self, data: Path) -> None:
        records = read_jsonl(data / "verification_labels.jsonl")
        self.pairs = labelled_pairs(records)
        self.minilm = np.array([similarity for record in records for similarity in record["minilm_similarities"]])
        sources = [record["source"] for record in records for _ in record["preferences"]]
        self.wiki = np.array([source.startswith("wiki") for source in sources])
        self.kept = np.array([pair.label != "discard" for pair in self.pairs])
        self.sided = np.array([pair.label in ("supports", "conflicts") for pair in self.pairs])
        self.supports = np.array([pair.label == "supports" for pair in self.pairs])
        self.component = components(self.pairs)
        counts = np.random.default_rng(0).multinomial(
            self.component.max() + 1, np.full(self.component.max() + 1, 1 / (self.component.max() + 1)), DRAWS
        )
        self.drawn = counts[:, self.component].astype(float)
        self.parts = {"all": np.full(len(self.pairs), True), "wiki": self.wiki, "answers": ~self.wiki}

    def interval(self, statistic: Callable[[Array], float], part: Array) -> str:
        """95 % of a statistic of the weights of a part's pairs, when components are drawn anew."""
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


class Measured:
    """What one encoder's measures say of the labelled pairs."""

    def __init__(self, encoder: Encoder, name: str, labels: Labels) -> None:
        self.weights = shipped_weights(name)
        self.found = measures(encoder, self.weights.rarity, labels.pairs)

    def shipped(self) -> Scores:
        weights = self.weights
        relevance = Linear(weights.relevance.weights.astype(float), weights.relevance.bias)(self.found.relevance)
        stance = Linear(weights.stance.weights.astype(float), weights.stance.bias)(self.found.stance)
        return Scores(relevance, stance)

    def cosine(self, name: str) -> Array:
        return self.found.relevance[:, MEASURES.index(name)]


def wins(runs: Sequence[Array], right: Array) -> Array:
    """How often each right one is above each wrong one, the mean of some runs; a tie is half."""
    return np.mean(
        [
            (scores[right][:, None] > scores[~right]) + 0.5 * (scores[right][:, None] == scores[~right])
            for scores in runs
        ],
        axis=0,
    )


def weighted_auc(won: Array, right: Array) -> Callable[[Array], float]:
    """The AUC, of weights of the pairs."""

    def statistic(weights: Array) -> float:
        up, down = weights[right], weights[~right]
        return float(up @ won @ down / (up.sum() * down.sum()))

    return statistic


def average_precision(scores: Array, right: Array) -> float:
    found = right[np.argsort(-scores, kind="stable")]
    return float((np.cumsum(found) / np.arange(1, len(found) + 1))[found].mean())


def print_relevance(labels: Labels, runs: Sequence[Scores], others: dict[str, Array], parts: Sequence[str]) -> None:
    print(f"relevance{'':21} pairs   kept   mean confidence   AUC                     average precision")
    for part in parts:
        chosen = labels.parts[part]
        right = labels.kept[chosen]
        rows = {"verifier": [run.relevance[chosen] for run in runs]} | {
            name: [scores[chosen]] for name, scores in others.items()
        }
        for name, scores in rows.items():
            won = wins(scores, right)
            auc = weighted_auc(won, right)
            precision = statistics.mean(average_precision(one, right) for one in scores)
            told = f"{np.mean([run.confidence[chosen] for run in runs]):15.3f}" if name == "verifier" else " " * 15
            print(
                f"{part:8} {name:20} {len(right):6}  {right.mean():.3f}   {told}   {auc(np.ones(len(right))):.3f}"
                f" {labels.interval(auc, chosen)}   {precision:.3f}"
            )
        if "cosine" in rows:
            more = weighted_auc(wins(rows["verifier"], right) - wins(rows["cosine"], right), right)
            told = f"{more(np.ones(len(right))):+.3f} {labels.interval(more, chosen)}"
            print(f"{part:8} more than the cosine {'':33} {told}")


def print_stance(labels: Labels, runs: Sequence[Scores], parts: Sequence[str]) -> None:
    print("stance   pairs   accuracy                of supports, of conflicts   AUC     always supports")
    for part in parts:
        chosen = labels.parts[part] & labels.sided
        right = labels.supports[chosen]
        scores = [run.stance[chosen] for run in runs]
        correct = np.mean([(one >= 0) == right for one in scores], axis=0)
        auc = weighted_auc(wins(scores, right), right)(np.ones(len(right)))
        interval = labels.interval(lambda weights, correct=correct: float(weights @ correct / weights.sum()), chosen)
        print(
            f"{part:8} {len(right):5}   {correct.mean():.3f} {interval}   {correct[right].mean():11.3f},"
            f" {correct[~right].mean():12.3f}   {auc:.3f}   {right.mean():.3f}"
        )


def print_kept(labels: Labels, runs: Sequence[Scores]) -> None:
    print("threshold   kept   precision   recall   F1")
    for threshold in dict.fromkeys((DEFAULT_THRESHOLD, *THRESHOLDS)):
        kept = np.mean([run.confidence >= threshold for run in runs], axis=0)
        precision, recall = kept[labels.kept].sum() / kept.sum(), kept[labels.kept].mean()
        shipped = "  (shipped)" if threshold == DEFAULT_THRESHOLD else ""
        f1 = 2 * precision * recall / (precision + recall)
        print(f"{threshold:9.2f}   {kept.mean():.3f}   {precision:9.3f}   {recall:6.3f}   {f1:.3f}{shipped}")


class Bin(NamedTuple):
    confidence: float
    kept: float
    pairs: float


def bins(runs: Sequence[Array], kept: Array) -> list[Bin | None]:
    """Ten bins of confidence over some runs; pairs are counted for a run."""
    confidence, right = np.concatenate(runs), np.tile(kept, len(runs))
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    found: list[Bin | None] = []
    for number in range(BINS):
        inside = place == number
        one = (
            Bin(float(confidence[inside].mean()), float(right[inside].mean()), inside.sum() / len(runs))
            if inside.any()
            else None
        )
        found.append(one)
    return found


def calibration_error(confidence: Array, kept: Array) -> float:
    """Expected: how far confidence is from the share kept, over the bins."""
    return sum(one.pairs * abs(one.confidence - one.kept) for one in bins([confidence], kept) if one) / len(kept)


def print_calibration(runs: Sequence[Array], kept: Array) -> list[Bin | None]:
    error = statistics.mean(calibration_error(confidence, kept) for confidence in runs)
    # The bins of a perfect one would differ, too, for they are small.
    generator = np.random.default_rng(0)
    chance = statistics.mean(
        calibration_error(runs[0], generator.random(len(kept)) < runs[0]) for _ in range(DRAWS // 5)
    )
    print(f"expected calibration error {error:.3f} (by chance alone, if confidence were exact: {chance:.3f})")
    print("confidence   mean    kept    pairs")
    found = bins(runs, kept)
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


def stances_of(encoder: Encoder, pairs: Sequence[Pair]) -> Array:
    """Return the stance that the verifier gives each pair; empty if it does not keep it."""
    texts, preferences = ([getattr(pair, what) for pair in pairs] for what in ("text", "preference"))
    candidates = [
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
    verdicts = EmbeddedVerifier(encoder).verify(candidates)
    return np.array([one.alignments[0].stance.value if one.alignments else "" for one in verdicts])


def print_given(encoder: Encoder, labels: Labels) -> None:
    """Print how many stances the verifier gives, and how many of them are right; where there is no side, none is."""
    pairs, parts = list(labels.pairs), dict(labels.parts)
    for name, file in OWN.items():
        own = [Pair(row["text"], row["preference"], row["stance"]) for row in written(file)]
        parts[name] = np.arange(len(pairs), len(pairs) + len(own))
        pairs += own
    stances, sides = stances_of(encoder, pairs), np.array([pair.label for pair in pairs])
    given, sided = np.isin(stances, SIDED), np.isin(sides, SIDED)
    print("stances given           of sided pairs, rightly   inverted   of pairs without a side   right of all given")
    for name, part in parts.items():
        rows = np.arange(len(labels.pairs))[part] if part.dtype == bool else part
        said, has, right = given[rows], sided[rows], (given & (stances == sides))[rows]
        print(
            f"{name:24} {has.sum():13}, {right.sum():8}   {(said & has & ~right).sum():8}"
            f"   {(said & ~has).sum():24}   {right.sum() / max(1, said.sum()):18.3f}"
        )


def print_figures(encoder: Encoder, name: str, labels: Labels) -> dict[str, list[Bin | None]]:
    """Print all figures of one encoder, and return the bins for the plot."""
    measured = Measured(encoder, name, labels)
    shipped = measured.shipped()
    others = {"cosine": measured.cosine("preference"), "nearest phrase": measured.cosine("phrase")}
    if name == "static":
        others["cosine, MiniLM's"] = labels.minilm
    print(f"\n{encoder.name}, the shipped weights")
    print_relevance(labels, [shipped], others, tuple(labels.parts))
    print_stance(labels, [shipped], tuple(labels.parts))
    print_given(encoder, labels)
    print_kept(labels, [shipped])
    return {"all": print_calibration([shipped.confidence], labels.kept)}


class Passed:
    """Items, PrefWiki preferences, and which pairs of them the static encoder's coarse filter lets through."""

    def __init__(self, data: Path, encoder: Encoder) -> None:
        self.items = list(Sources([data / "wiki_passages.jsonl", data / "assistant_answers.jsonl"]))
        people = random.Random(0).sample(personas(data, "PrefWiki"), PERSONAS)
        self.people = [[Preference(text=text) for text, _ in persona] for persona in people]
        self.tau = default_tau(encoder)
        self.vectors = embed(encoder, [item.text for item in self.items])
        self.wanted = [embed(encoder, [one.text for one in preferences]) for preferences in self.people]

    def pairs(self) -> list[tuple[int, int, int]]:
        """Persona, preference and item of each pair."""
        return [
            (number, preference, item)
            for number, wanted in enumerate(self.wanted)
            for preference, item in np.argwhere(wanted @ self.vectors.T >= self.tau).tolist()
        ]

    def candidate(self, persona: int, places: Sequence[int], item: int) -> Candidate:
        embeddings = self.wanted[persona][list(places)]
        similarities = embeddings @ self.vectors[item]
        return Candidate(
            item=self.items[item],
            embedding=self.vectors[item],
            preferences=tuple(self.people[persona][place] for place in places),
            similarities=tuple(similarities.tolist()),
            preference_embeddings=embeddings,
        )


def print_unlike(passed: Passed, encoder: Encoder, teacher: Encoder) -> None:
    pairs = passed.pairs()
    chosen = random.Random(1).sample(pairs, min(DRAWN, len(pairs)))
    rows = sorted({item for _, _, item in chosen})
    known = dict(zip(rows, embed(teacher, [passed.items[row].text for row in rows]), strict=True))
    theirs = [embed(teacher, [one.text for one in preferences]) for preferences in passed.people]
    similarity = np.array([theirs[persona][place] @ known[item] for persona, place, item in chosen])
    verdicts = EmbeddedVerifier(encoder).verify(
        [passed.candidate(persona, [place], item) for persona, place, item in chosen]
    )
    kept = np.array([verdict.decision is Decision.KEEP for verdict in verdicts])
    wiki = np.array([passed.items[item].id.startswith("wiki") for _, _, item in chosen])
    print(
        f"\n{len(chosen)} of the {len(pairs)} pairs with a cosine of {passed.tau} and more, {PERSONAS} PrefWiki"
        f" personas; {wiki.mean():.2f} with a Wikipedia passage, the others with a part of an answer"
    )
    print("MiniLM's similarity   of the pairs   kept by the verifier: all, wiki, answers   of all it keeps")
    for low, high, told in ((-1.0, UNLIKE, "below 0.2"), (UNLIKE, 0.3, "0.2 to 0.3"), (0.3, 2.0, "0.3 and more")):
        band = (similarity >= low) & (similarity < high)
        shares = ", ".join(f"{kept[band & part].mean():.3f}" for part in (band, wiki, ~wiki))
        print(f"{told:19} {band.mean():13.3f}   {shares:>43}   {(band & kept).sum() / kept.sum():.3f}")


def print_time(passed: Passed, encoder: Encoder) -> None:
    under: dict[tuple[int, int], list[int]] = {}
    for persona, place, item in passed.pairs():
        if 60 <= len(passed.items[item].text.split()) <= 80:
            under.setdefault((persona, item), []).append(place)
    few = [(persona, places, item) for (persona, item), places in under.items() if len(places) <= 3]
    random.Random(2).shuffle(few)
    candidates = [passed.candidate(*one) for one in few[: TIMED_BLOCKS * BLOCK]]
    verifier = EmbeddedVerifier(encoder)
    list(verifier.verify(candidates))  # what is known of preferences is learnt once
    taken, busy, encoding = [], [], []
    for start in range(0, len(candidates) - BLOCK + 1, BLOCK):
        block = candidates[start : start + BLOCK]
        texts = [candidate.item.text for candidate in block]
        pairs = sum(len(candidate.preferences) for candidate in block)
        started, worked = time.perf_counter(), time.process_time()
        list(verifier.verify(block))
        middle = time.perf_counter()
        busy.append((time.process_time() - worked) / pairs)
        embed(encoder, texts)
        encoding.append((time.perf_counter() - middle) / len(block))
        taken.append((middle - started) / pairs)
    preferences = statistics.mean(len(candidate.preferences) for candidate in candidates)
    words = statistics.mean(len(candidate.item.text.split()) for candidate in candidates)
    ratio = statistics.median(pair / chunk for pair, chunk in zip(taken, encoding, strict=True))
    load = f"load {os.getloadavg()[0]:.1f}, " if hasattr(os, "getloadavg") else ""
    print(
        f"\ntime for a pair: {1e3 * statistics.median(taken):.3f} ms, of it {1e3 * statistics.median(busy):.3f} ms of"
        f" processor time; {ratio:.1f} times that of encoding a chunk, {1e3 * statistics.median(encoding):.3f} ms\n"
        f"medians of {len(taken)} blocks ({1e3 * min(taken):.3f} to {1e3 * max(taken):.3f}) of {BLOCK} chunks of"
        f" {words:.0f} words with {preferences:.1f} preferences; {load}{os.cpu_count()} cores, shared"
    )


def plot(path: Path, series: dict[str, list[Bin | None]]) -> None:
    """Confidence against the share kept, with what chance allows (Wilson, 95 %)."""
    side, left, top = 300, 52, 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + side + 18}" height="{top + side + 48}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<path d="M{left} {top}V{top + side}H{left + side}" fill="none" stroke="#333333"/>',
        f'<path d="M{left} {top + side}L{left + side} {top}" stroke="#6c757d" stroke-dasharray="4 4"/>',
    ]
    for tick in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        x, y = left + side * tick, top + side * (1 - tick)
        parts.append(f'<text x="{x:.0f}" y="{top + side + 17}" text-anchor="middle">{tick:.1f}</text>')
        parts.append(f'<text x="{left - 7}" y="{y + 4:.0f}" text-anchor="end">{tick:.1f}</text>')
    middle = top + side / 2
    parts.append(f'<text x="{left + side / 2:.0f}" y="{top + side + 38}" text-anchor="middle">confidence</text>')
    parts.append(f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">share kept</text>')
    for number, ((name, found), colour) in enumerate(zip(series.items(), ("#0b6e4f", "#d1495b"), strict=False)):
        y = top + 10 + 18 * number
        parts.append(f'<circle cx="{left + 14}" cy="{y}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{left + 26}" y="{y + 4}">{name}</text>')
        for one in filter(None, found):
            low, high = (top + side * (1 - bound) for bound in wilson(one.kept, one.pairs))
            # Beside each other, where both would be in one place.
            x, y = left + side * one.confidence + 4 * number - 2, top + side * (1 - one.kept)
            parts.append(f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{colour}" opacity="0.6"/>')
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2.5 + one.pairs**0.5 / 4:.1f}" fill="{colour}" opacity="0.85"/>'
            )
    path.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")
    print(f"{path}: {path.stat().st_size} bytes")


def wilson(share: float, count: float, z: float = 1.96) -> tuple[float, float]:
    """Where the true share lies."""
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5
    return middle - half, middle + half


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--teacher", help="folder of all-MiniLM-L6-v2, to measure with it too; takes minutes")
    made.add_argument("--plot", type=Path, help="file for the reliability plot with the static encoder, an SVG")
    options = parse(made)
    labels, encoder = Labels(options.data), default_encoder()
    sizes = np.bincount(labels.component)
    ours = {pair.preference for pair in (*own_pairs(), *option_pairs(), *note_pairs())}
    shared = len(ours & {pair.preference for pair in labels.pairs})
    print(
        f"{len(labels.pairs)} pairs, {labels.kept.sum()} kept, in {len(sizes)} components, the largest of"
        f" {sizes.max()}; {shared} of their preferences are among the {len(ours)} of our own"
    )
    drawn = print_figures(encoder, "static", labels)
    if options.plot:
        plot(options.plot, drawn)
    passed = Passed(options.data, encoder)
    print_time(passed, encoder)
    folder = files("epic_memory") / "data"
    for name in ("verifier.json", "lexicon.tsv.bz2"):
        print(f"{name}: {len((folder / name).read_bytes())} bytes")
    if options.teacher:
        teacher = SentenceTransformerEncoder(options.teacher)
        print_unlike(passed, encoder, teacher)
        print_figures(teacher, "other", labels)


if __name__ == "__main__":
    main()
