"""Fit of the words by which a clause says something of the user (`epic_learn.cues`).

Run `python shared/tools/fit_cues.py` to write `shared/epic_learn/data/cues.json`, with `--check` to print instead what
is found in each file of turns by weights that never saw it: each was written by somebody else, but `turns_own.jsonl`
and `turns_plain.jsonl`, which are ours. `turns_e.jsonl` is never fitted on; it was only run.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from epic_learn.boundaries import own_words, without_pastes
from epic_learn.cues import SAYINGS, clauses, features
from epic_learn.references import topic
from fitting import Array, written

FITTED = ("turns_a", "turns_b", "turns_c", "turns_d", "turns_f", "turns_g", "turns_h", "turns_own", "turns_plain")
ONLY_RUN = "turns_e"
DATA = Path(__file__).parents[1] / "epic_learn" / "data" / "cues.json"
SAYING = {
    "add_preference": "preference",
    "add_fact": "fact",
    "replace_preference": "replace",
    "remove_preference": "remove",
    "update_fact": "news",
    "end_fact": "news",
}
# A feature of fewer clauses than this says little; one whose weights are all smaller is not kept.
LEAST, SMALLEST = 2, 0.05
RIDGE, STEPS = 0.5, 150


class Row(NamedTuple):
    """A clause: its features, what it says, and the kind of its turn."""

    features: list[str]
    saying: int
    kind: str


def rows_of(name: str) -> list[Row]:
    """The clauses of a file. What a label covers besides the clause that says it is neither learned nor judged."""
    return [row for record in written(f"{name}.jsonl") for row in _in_turn(record)]


def _in_turn(record: dict[str, Any]) -> list[Row]:
    found = [each for each in clauses(without_pastes(own_words(record["turn"]))) if not each.left_out]
    topics = frozenset[str]().union(*map(topic, record["known"]))
    sayings: list[int | None] = [0] * len(found)
    for label in record["expect"]:
        wanted = _bag(label["quote"])
        common = [len(wanted & _bag(each.words)) for each in found]
        shares = [one / min(len(wanted), len(_bag(each.words))) for one, each in zip(common, found, strict=True)]
        best = max(range(len(found)), key=lambda place: (shares[place] >= 0.5, common[place]), default=None)
        for place, share in enumerate(shares):
            if share >= 0.8 and not sayings[place]:
                sayings[place] = None
        if best is not None and shares[best] >= 0.5:
            sayings[best] = SAYINGS.index(SAYING[label["kind"]])
    rows = [
        Row(features(each, topics), saying, record["kind"])
        for each, saying in zip(found, sayings, strict=True)
        if saying is not None
    ]
    # What takes something back does so whatever is known.
    removes = [row for row in rows if SAYINGS[row.saying] == "remove" and "known" in row.features]
    return rows + [row._replace(features=[one for one in row.features if one != "known"]) for row in removes]


def _bag(text: str) -> set[str]:
    return set(text.casefold().replace("\u2019", "'").split())


def fitted(rows: Sequence[Row]) -> dict[str, Array]:
    """Multinomial logistic regression: feature to its weights for each of `SAYINGS`, those of "" for every clause."""
    counts = Counter(name for row in rows for name in row.features)
    names = sorted(name for name, count in counts.items() if count >= LEAST)
    index = {name: place for place, name in enumerate(names, start=1)}
    pairs = [(number, place) for number, row in enumerate(rows) for place in _places(row, index)]
    clause, feature = np.array(pairs).T
    by_feature = np.argsort(feature, kind="stable")
    starts = [np.flatnonzero(np.diff(part, prepend=-1)) for part in (clause, feature[by_feature])]
    targets = np.eye(len(SAYINGS))[[row.saying for row in rows]]

    def odds(weights: Array) -> Array:
        return np.add.reduceat(weights[feature], starts[0])

    def back(errors: Array) -> Array:
        return np.add.reduceat(errors[clause[by_feature]], starts[1])

    penalty = np.full((len(names) + 1, 1), RIDGE)
    penalty[0] = 1e-3
    norm = np.ones((len(names) + 1, 1))
    for _ in range(20):
        norm = back(odds(norm / np.linalg.norm(norm)))
    curvature = 0.5 * float(np.linalg.norm(norm)) + RIDGE
    found = ahead = np.zeros((len(names) + 1, len(SAYINGS)))
    momentum = 1.0
    for _ in range(STEPS):
        given = odds(ahead)
        chances = np.exp(given - given.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        following = ahead - (back(chances - targets) + penalty * ahead) / curvature
        faster = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead, found, momentum = following + (momentum - 1.0) / faster * (following - found), following, faster
    return dict(zip(["", *names], found, strict=True))


def _places(row: Row, index: dict[str, int]) -> list[int]:
    return [0, *(index[name] for name in row.features if name in index)]


def chance(row: Row, weights: dict[str, Array]) -> tuple[float, int]:
    """How sure a clause says something, and what."""
    odds = sum((weights[name] for name in row.features if name in weights), weights[""])
    chances = np.exp(odds - odds.max())
    chances /= chances.sum()
    return 1.0 - float(chances[0]), 1 + int(np.argmax(chances[1:]))


def check(name: str, seen: Sequence[Row], unseen: Sequence[Row], labelled: int) -> None:
    """Print what is found in rows that were not fitted on."""
    weights = fitted(seen)
    judged = [(row, *chance(row, weights)) for row in unseen]
    for least in (0.5, 0.6, 0.65, 0.7, 0.8):
        made = [(row, saying) for row, sure, saying in judged if sure >= least]
        right = sum(row.saying == saying for row, saying in made)
        meant = sum(row.saying > 0 for row, _ in made)
        traps = sum(row.kind in ("trap", "nothing") for row, _ in made)
        total = max(1, len(made))
        print(
            f"{name:11} {least:.2f}: precision {right / total:.3f} ({meant / total:.3f} whatever the kind), recall"
            f" {right / labelled:.3f} ({meant / labelled:.3f}), clauses of traps and nothings {traps}"
        )


def main() -> None:
    rows = {name: rows_of(name) for name in (*FITTED, ONLY_RUN)}
    if "--check" in sys.argv:
        for name, unseen in rows.items():
            seen = [row for other in FITTED if other != name for row in rows[other]]
            labelled = sum(len(record["expect"]) for record in written(f"{name}.jsonl"))
            check(name, seen, unseen, labelled)
        return
    weights = fitted([row for name in FITTED for row in rows[name]])
    kept = {name: row for name, row in weights.items() if not name or np.abs(row).max() >= SMALLEST}
    lines = (
        f"{json.dumps(name)}: {json.dumps([round(100 * each) for each in row.tolist()])}" for name, row in kept.items()
    )
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(kept)} features, {DATA.stat().st_size} bytes")


if __name__ == "__main__":
    main()
