"""Fits the embedded verifier, and writes what it ships with.

    python shared/tools/make_verifier.py [--rarity DATA] [--out FILE]

Fitted on texts and judgements of our own alone: `written/judged.jsonl` (passages, judged by a language model),
`options.jsonl` and `preferences.jsonl` (short options, of which the first follows the preference), `stances.jsonl`
(notes by hand, many of which deny something) and `plain_a.jsonl` (short plain notes, beside others that share a word
with a preference and have nothing to do with it). Three functions of what `verification.features` measures come of
it: relevance, the log-odds that a chunk is kept under a preference; stance, those that it supports it rather than
conflicts with it; and sure, those that the stance which is the likelier one is right. Each for the bundled encoder, and
for others: those are fitted with all-MiniLM-L6-v2 (the extra `minilm`).

Printed are the figures of pairs left out of the fit: stances by topic, judged pairs by text, options by preference.

How rare words are is counted over the Wikipedia passages in DATA and our own texts; without DATA it stays as it is.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from epic_memory.encoders import MiniLMEncoder, default_encoder, embed
from epic_memory.encoders.base import Encoder
from epic_memory.encoders.static import BUNDLED_NAME
from epic_memory.preferences.evidence import embed_aspects
from epic_memory.preferences.library import borrowed
from epic_memory.text.stems import stems
from epic_memory.types import Preference
from epic_memory.verification.embedded import DEFAULT_THRESHOLD
from epic_memory.verification.features import (
    MEASURES,
    STANCE_MEASURES,
    SURE_MEASURES,
    Chunk,
    Rarity,
    Wanted,
    measured,
    stance_measured,
    sure_measured,
)
from fit_evidence import sign_of
from fitting import Array, Linear, auc, logistic, written

DATA = Path(__file__).parents[1] / "epic_memory" / "data" / "verifier.json"
RELEVANCE_RIDGE, STANCE_RIDGE, SURE_RIDGE = 300.0, 100.0, 3.0
# Of each kind of pair, how much it counts for relevance, for the stance, and for how sure a stance is. Near misses are
# rarer in life than among ours; options are many and of one kind.
COUNTS = {
    "judged": (3.0, 1.0, 1.0),
    "near": (0.9, 0.5, 0.5),
    "option": (0.0, 1.0, 0.3),
    "misleading": (0.0, 0.5, 0.2),
    "note": (0.0, 2.0, 1.5),
    "plain": (0.0, 1.0, 1.0),
    "other option": (0.0, 0.0, 0.0),
}
NOTES = ("note", "plain")
# Of the notes that pass the coarse filter, so many are about a preference.
KEPT_NOTES = 0.2
# Of so many options of others that are somewhat near a preference, after so many that may well be about it, some are
# taken as unrelated to it.
NEARER, NEAR, TAKEN = 8, 100, 3
# A stance that is given is to be right so often, among pairs that are kept: of a longer text, of a note.
PRECISION = (0.87, 0.82)
KEPT = math.log(DEFAULT_THRESHOLD / (1.0 - DEFAULT_THRESHOLD))
SIDED = ("supports", "conflicts")
FOLDS = 10
# Words in fewer texts than this are all equally rare.
RARE = 30
_FOR, _AGAINST = {"follows", "follows_said", "breaks_denied"}, {"breaks", "follows_denied", "breaks_said"}


class Pair(NamedTuple):
    """A chunk, a preference, and how they stand: a stance, or "discard".

    Attributes:
        kind: One of `COUNTS`, or "labelled".
        group: Pairs of one group are left out of a fit together.
    """

    text: str
    preference: str
    label: str
    kind: str = "labelled"
    group: str = ""


def own_pairs() -> list[Pair]:
    """Return the judged pairs of our own."""
    found = []
    for number, record in enumerate(written("judged.jsonl")):
        for key, kind in (("found", "judged"), ("pairs", "near")):
            found += [Pair(record["text"], *pair, kind, f"text {number}") for pair in record[key]]
    return found


def option_pairs() -> list[Pair]:
    """Return options of our own under their preferences: the first of each supports it, the others conflict.

    Beside them some options of others, which have nothing to do with the preference.
    """
    kinds = (("options.jsonl", "option"), ("preferences.jsonl", "misleading"))
    records = [(kind, record) for name, kind in kinds for record in written(name)]
    found = [
        Pair(option, record["preference"], SIDED[min(place, 1)], kind, record["preference"])
        for kind, record in records
        for place, option in enumerate(record["options"])
    ]
    preferences = [record["preference"] for _, record in records]
    options = [record["options"][number % 4] for number, (_, record) in enumerate(records)]
    encoder, generator = default_encoder(), np.random.default_rng(0)
    near = np.argsort(-(embed(encoder, preferences) @ embed(encoder, options).T), axis=1, kind="stable")
    for preference, row in zip(preferences, near, strict=True):
        chosen = generator.choice(row[NEARER:NEAR], TAKEN, replace=False).tolist()
        found += [
            Pair(options[place], preference, "discard", "other option", preference)
            for place in chosen
            if preferences[place] != preference
        ]
    return found


def note_pairs() -> list[Pair]:
    """Return the notes of our own with their stances."""
    return [
        Pair(
            record["text"],
            record["preference"],
            "discard" if record["stance"] == "unrelated" else record["stance"],
            kind,
            record.get("topic", record["preference"]),
        )
        for name, kind in (("stances.jsonl", "note"), ("plain_a.jsonl", "plain"))
        for record in written(name)
    ]


def labelled_pairs(records: Iterable[dict[str, Any]]) -> list[Pair]:
    """Return the pairs of `verification_labels.jsonl`, which are never fitted on."""
    found = []
    for record in records:
        stances = {alignment["preference"]: alignment["stance"] for alignment in record["alignments"]}
        for number, preference in enumerate(record["preferences"]):
            found.append(Pair(record["chunk"], preference, stances.get(number, "discard")))
    return found


def rarity_of(texts: Iterable[str]) -> Rarity:
    """Return how rare the words of some texts are."""
    counts: Counter[str] = Counter()
    number = 0
    for text in texts:
        counts.update(set(stems(text)))
        number += 1
    return Rarity({word: count for word, count in sorted(counts.items()) if count >= RARE}, number)


@dataclass(frozen=True)
class Found:
    """Measures of some pairs, a row for each.

    Attributes:
        relevance, stance: `MEASURES` and `STANCE_MEASURES`.
        beside: What `Wanted.beside` returns of notes with the bundled encoder, shape `(n,)`; else 0.
    """

    relevance: Array
    stance: Array
    beside: Array


def measures(encoder: Encoder, rarity: Rarity, pairs: Sequence[Pair]) -> Found:
    """Return what is measured of each pair."""
    asked = [Preference(text=text) for text in dict.fromkeys(pair.preference for pair in pairs)]
    asked = [
        one if lent is None else replace(one, expansion=lent) for one, lent in zip(asked, borrowed(asked), strict=True)
    ]
    texts = list(dict.fromkeys(pair.text for pair in pairs))
    vectors = dict(zip((one.text for one in asked), embed(encoder, [one.text for one in asked]), strict=True))
    wanted = {
        one.text: Wanted.of(one.text, sides, rarity, one.expansion)
        for one, sides in zip(asked, embed_aspects(encoder, asked, borrow=False), strict=True)
    }
    chunks = {text: Chunk(text, vector) for text, vector in zip(texts, embed(encoder, texts), strict=True)}
    found, beside = [], []
    # Stripped, as `Preference` has it.
    asked_of = [(chunks[pair.text], wanted[pair.preference.strip()]) for pair in pairs]
    looked = [encoder.name == BUNDLED_NAME and chunk.note for chunk, _ in asked_of]
    rests = iter(
        embed(encoder, [one.rest_of(chunk) for (chunk, one), look in zip(asked_of, looked, strict=True) if look])
    )
    for pair, (chunk, one), look in zip(pairs, asked_of, looked, strict=True):
        found.append(measured(one, [chunk], [vectors[pair.preference.strip()]])[0])
        beside.append(one.beside(next(rests)) if look else 0.0)
    every = np.array(found, dtype=np.float64)
    return Found(every, stance_measured(every), np.array(beside))


class Known:
    """Pairs with what is measured of them, and fits on some of them."""

    def __init__(self, pairs: Sequence[Pair], found: Found) -> None:
        self.pairs, self.found = pairs, found
        self.label = np.array([pair.label for pair in pairs])
        self.kind = np.array([pair.kind for pair in pairs])
        self.counts = np.array([COUNTS.get(pair.kind, (0.0, 0.0, 0.0)) for pair in pairs])
        self.kept = (self.label != "discard").astype(float)
        self.sided = np.isin(self.label, SIDED)
        self.note = found.relevance[:, MEASURES.index("short")] > 0
        # Where both sides are there, either stance is half right: such pairs say nothing of how sure one is.
        self.told = (self.counts[:, 2] > 0) & (self.label != "mixed") & ((self.kept > 0) | np.isin(self.kind, NOTES))
        groups = {group: number for number, group in enumerate(dict.fromkeys(pair.group for pair in pairs))}
        fold = np.random.default_rng(1).permutation(len(groups)) % FOLDS
        self.fold = fold[[groups[pair.group] for pair in pairs]]

    def relevance(self, rows: Array) -> Linear:
        """Return the log-odds that a pair is kept.

        The passages say what counts. A ridge makes the odds smaller than they are; a second fit, of nothing but their
        scale and a shift, puts that right, on pairs that were met by chance. Notes are all of one length, which says
        more of where they are from than of what they are about; so they give only their own shift.
        """
        counts = self.counts[:, 0] * rows
        chosen = counts > 0
        found, note = self.found.relevance.copy(), MEASURES.index("short")
        short = found[:, note].copy()
        found[:, note] = 0.0
        linear = logistic(found[chosen], self.kept[chosen], counts[chosen], RELEVANCE_RIDGE)
        met = rows & (self.kind == "judged")
        scale = logistic(linear(found[met])[:, None], self.kept[met], np.ones(met.sum()), 0.0)
        weights, bias = linear.weights * scale.weights[0], linear.bias * float(scale.weights[0]) + scale.bias
        odds = found @ weights + bias
        notes = rows & np.isin(self.kind, ("option", "note", "other option")) & (short > 0)
        share = np.where(self.kept[notes] > 0, KEPT_NOTES, 1.0 - KEPT_NOTES)
        for side in (0.0, 1.0):
            share[self.kept[notes] == side] /= max(1, int((self.kept[notes] == side).sum()))
        weights[note] = shift(odds[notes], self.kept[notes], share)
        return Linear(weights, bias)

    def stance(self, rows: Array) -> Linear:
        """Return the log-odds that a kept pair supports its preference; both sides are equally likely before.

        A measure that speaks for a preference counts for it, or nothing.
        """
        chosen = rows & self.sided & (self.counts[:, 1] > 0)
        supports, kind = (self.label[chosen] == "supports").astype(float), self.kind[chosen]
        weights = np.zeros(len(supports))
        kinds = set(kind.tolist())
        for one in sorted(kinds):
            for side in (0.0, 1.0):
                inside = (kind == one) & (supports == side)
                weights[inside] = 0.5 * COUNTS[one][1] / max(1, int(inside.sum()))
        signs = np.array([sign(name) for name in STANCE_MEASURES], dtype=float)
        weights *= len(supports) / len(kinds)
        return logistic(self.found.stance[chosen], supports, weights, STANCE_RIDGE, signs)

    def right(self, stance: Array) -> Array:
        """Return whether the likelier stance is right; where there is none, no stance is."""
        return np.where(stance >= 0, self.label == "supports", self.label == "conflicts")

    def sure(self, relevance: Array, stance: Array, rows: Array) -> Linear:
        """Return the log-odds that the likelier stance is right, by those of pairs that were left out."""
        found = self.sureness(relevance, stance)
        chosen = rows & self.told
        right = self.right(stance)[chosen].astype(float)
        signs = np.ones(len(SURE_MEASURES))
        signs[SURE_MEASURES.index("relevance") :] = 0.0
        return logistic(found[chosen], right, self.counts[chosen, 2], SURE_RIDGE, signs)

    def sureness(self, relevance: Array, stance: Array) -> Array:
        """Return `SURE_MEASURES` of each pair."""
        found = self.found
        rows = zip(relevance.tolist(), stance.tolist(), found.relevance.tolist(), found.beside.tolist(), strict=True)
        return np.array([sure_measured(*row) for row in rows])


def shift(odds: Array, targets: Array, weights: Array) -> float:
    """Return what is to be added to log-odds so that they are right in the mean."""
    low, high = -5.0, 5.0
    for _ in range(40):
        middle = (low + high) / 2.0
        more = float(weights @ (targets - 1.0 / (1.0 + np.exp(-odds - middle))))
        low, high = (middle, high) if more > 0 else (low, middle)
    return (low + high) / 2.0


def sign(name: str) -> int:
    """Return 1 for a measure that speaks for a preference, -1 for one that speaks against it, 0 for others."""
    if name in _FOR:
        return 1
    return -1 if name in _AGAINST else sign_of(name)


class LeftOut(NamedTuple):
    """Log-odds of each pair by fits without its group: that it is kept, that it supports, that its stance is right."""

    relevance: Array
    stance: Array
    sure: Array

    @property
    def kept(self) -> Array:
        """Which pairs are kept."""
        return self.relevance >= KEPT


def left_out(known: Known) -> LeftOut:
    """Return the odds of each pair by fits without its group."""
    odds = LeftOut(*(np.zeros(len(known.pairs)) for _ in LeftOut._fields))
    for fold in range(FOLDS):
        inside = known.fold == fold
        odds.relevance[inside] = known.relevance(~inside)(known.found.relevance[inside])
        odds.stance[inside] = known.stance(~inside)(known.found.stance[inside])
    for fold in range(FOLDS):
        for notes in (known.note, ~known.note):
            inside = (known.fold == fold) & notes
            sure = known.sure(odds.relevance, odds.stance, (known.fold != fold) & notes)
            odds.sure[inside] = sure(known.sureness(odds.relevance, odds.stance)[inside])
    return odds


def least_sure(known: Known, odds: LeftOut, *, notes: bool) -> float:
    """Return the chance from which on stances that are given are right often enough, each kind counting as it does.

    Args:
        known: The pairs.
        odds: Of each pair, by fits without its group.
        notes: Whether of notes or of longer texts.
    """
    given = known.told & (known.note == notes) & odds.kept
    chance, right = 1.0 / (1.0 + np.exp(-odds.sure)), known.right(odds.stance)
    order = np.flatnonzero(given)[np.argsort(-chance[given], kind="stable")]
    weights = known.counts[order, 2]
    precision = np.cumsum(weights * right[order]) / np.cumsum(weights)
    enough = np.flatnonzero(precision >= PRECISION[notes])
    return float(chance[order[enough[-1]]]) if len(enough) else 1.0


def print_left_out(known: Known, odds: LeftOut, least: Array) -> None:
    """Print how good the odds are of pairs left out of the fit."""
    chance = 1.0 / (1.0 + np.exp(-odds.relevance))
    given = (1.0 / (1.0 + np.exp(-odds.sure)) >= least) & odds.kept
    right = known.right(odds.stance)
    print("left out       pairs  kept   AUC of keep   AUC of stance   given   right  inverted   kept from 0.2: +  -  0")
    for kind in COUNTS:
        part = known.kind == kind
        kept, sided = part & (known.kept > 0), part & known.sided
        told = f"{auc(odds.relevance[part], known.kept[part] > 0):.3f}" if 0 < kept.sum() < part.sum() else "  -  "
        line = f"{kind:14} {part.sum():5}  {known.kept[part].mean():.2f}   {told:>11}"
        if sided.any():
            said = given & kept & known.told
            inverted = said & known.sided & ~right
            line += (
                f"   {auc(odds.stance[sided], known.label[sided] == 'supports'):13.3f}   {given[sided].mean():.3f}"
                f"   {right[said].mean() if said.any() else 1.0:.3f}  {inverted.sum() / max(1, said.sum()):8.3f}"
            )
        else:
            line += " " * 42
        shares = [part & (known.label == label) for label in (*SIDED, "discard")]
        line += "   " + " ".join(f"{(chance[one] >= 0.2).mean():.2f}" if one.any() else " -  " for one in shares)
        print(line)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--rarity", type=Path, help="folder of wiki_passages.jsonl, to count anew how rare words are")
    made.add_argument("--out", type=Path, default=DATA)
    options = made.parse_args()
    out: dict[str, Any] = json.loads((options.out if options.out.exists() else DATA).read_text(encoding="utf-8"))
    rarity = Rarity(out["counts"], out["texts"])
    if options.rarity:
        passages = (options.rarity / "wiki_passages.jsonl").read_text(encoding="utf-8").splitlines()
        rarity = rarity_of(
            [
                *(f"{passage['title']}. {passage['text']}" for passage in map(json.loads, passages)),
                *(record["text"] for record in written("judged.jsonl")),
            ]
        )
        out |= {"texts": rarity.texts, "counts": rarity.counts}
    pairs = [*own_pairs(), *option_pairs(), *note_pairs()]
    for name, encoder in (("static", default_encoder()), ("other", MiniLMEncoder())):
        known = Known(pairs, measures(encoder, rarity, pairs))
        odds, every = left_out(known), np.full(len(pairs), True)
        least, of_note = (least_sure(known, odds, notes=notes) for notes in (False, True))
        print(f"{name}: a stance from {least:.3f} on, of a note from {of_note:.3f}")
        print_left_out(known, odds, np.where(known.note, of_note, least))
        for what, linear, names, more in (
            ("relevance", known.relevance(every), MEASURES, {}),
            ("stance", known.stance(every), STANCE_MEASURES, {}),
            ("sure", known.sure(odds.relevance, odds.stance, ~known.note), SURE_MEASURES, {"least": least}),
            ("sure_of_note", known.sure(odds.relevance, odds.stance, known.note), SURE_MEASURES, {"least": of_note}),
        ):
            weights = {
                measure: round(float(weight), 3)
                for measure, weight in zip(names, linear.weights, strict=True)
                if abs(weight) >= 5e-4
            }
            out[f"{name}_{what}"] = {"bias": round(linear.bias, 3), "weights": weights}
            out[f"{name}_{what}"] |= {key: round(value, 3) for key, value in more.items()}
    options.out.write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{options.out}: {options.out.stat().st_size} bytes, fitted on {len(pairs)} pairs")


if __name__ == "__main__":
    main()
