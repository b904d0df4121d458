"""Steering searches of other people's stores, on PrefEval's multiple choice: one store holds the options of all cases.

Of the first five hits: "own" is the share of cases with one of their four options among them; "followed" with the
option that follows the preference before those that break it, or without them; "broken" how many are own options that
break it. Each case is asked with its preference among ten. How far which vector goes to the liked side (steering.py)
was chosen by half of the topics.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from common import Known, read_jsonl, script_options
from epic_memory.encoders import default_encoder, embed
from epic_memory.runtime.effects import Call, in_thread, run
from epic_plugins.vector_stores import SteeredSearch

K = 5
WAYS = {"query alone": "off", "paper (Eq. 7-8)": "paper", "signed": "signed"}
Found = Sequence[int]


class Store:
    """Texts, searched by vector, and the ways to search them that are compared."""

    def __init__(self, encoder: Known, texts: Sequence[str]) -> None:
        self.encoder = encoder
        self.texts = list(dict.fromkeys(texts))
        self.row = {text: row for row, text in enumerate(self.texts)}
        self.vectors = embed(encoder, self.texts)
        self.search = SteeredSearch(encoder)

    def searching(self, vector: list[float], count: int | None) -> Call:
        return Call(self.nearest, partial(in_thread, self.nearest), vector, count)

    def nearest(self, vector: Sequence[float] | np.ndarray, count: int) -> list[int]:
        cosines = self.vectors @ np.asarray(vector, dtype=np.float32)
        best = np.argpartition(-cosines, min(count, len(cosines) - 1))[:count]
        return best[np.argsort(-cosines[best], kind="stable")].tolist()

    def found(self, mode: Any, question: str, preferences: Sequence[str]) -> Found:
        """The rows of the first K hits."""
        target = run(self.search.target(self.encoder.encode([question])[0].tolist(), tuple(preferences), mode))
        found = self.search.find(target, K, self.searching, lambda row: (self.texts[row], {}))
        return [row for row, _ in run(found)]


class Case(NamedTuple):
    question: str
    options: list[str]
    preferences: list[str]


def cases_of(records: Sequence[dict[str, Any]]) -> list[Case]:
    draw = random.Random(0)
    every = list(dict.fromkeys(record["preference"] for record in records))
    cases = []
    for record in records:
        own = record["preference"]
        ten = [own, *draw.sample([preference for preference in every if preference != own], 9)]
        cases.append(Case(record["question"], record["options"], ten))
    return cases


def judged(store: Store, case: Case, found: Found) -> tuple[float, float, float]:
    """own, followed, broken."""
    own = {store.row[option] for option in case.options}
    right = store.row[case.options[0]]
    hits = [row for row in found if row in own]
    return float(bool(hits)), float(hits[:1] == [right]), float(sum(row != right for row in hits))


def print_choices(store: Store, cases: Sequence[Case]) -> None:
    print(f"{f'{len(store.texts)} texts':42} own followed broken")
    for name, mode in WAYS.items():
        found = [judged(store, case, store.found(mode, case.question, case.preferences)) for case in cases]
        print("{:40} {:.3f} {:.3f} {:.2f}".format(name, *np.mean(found, axis=0)), flush=True)


def main() -> None:
    options = script_options(__doc__, data=True)
    cases = cases_of(read_jsonl(options.data / "prefeval_mcq.jsonl"))
    encoder = Known(default_encoder())
    print(f"{encoder.name}, steering from {encoder.floor}")
    print_choices(Store(encoder, [option for case in cases for option in case.options]), cases)


if __name__ == "__main__":
    main()
