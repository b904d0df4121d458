"""Steering searches of other people's stores, on PrefEval's multiple choice: one store holds the options of all cases.

Of the first five hits: "own" is the share of cases with one of their four options among them; "followed" with the
option that follows the preference before those that break it, or without them; "broken" how many are own options that
break it. Each case is asked with its preference among ten. How far which vector goes to the liked side (steering.py)
was chosen by half of the topics.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from common import Known, parse, parser, read_jsonl
from epic_memory.encoders import default_encoder, embed
from epic_memory.runtime.effects import Call, in_thread, run
from epic_memory.steering import QuerySteering
from epic_plugins.vector_stores import SteeredSearch

K = 5
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

    def ways(self) -> dict[str, Callable[[str, Sequence[str]], Found]]:
        """Each takes a question and preferences, and gives the rows of the first K hits."""
        return {
            "query alone": lambda q, p: self._searched("off", q, p),
            "paper (Eq. 7-8)": lambda q, p: self._searched("paper", q, p),
            "signed": lambda q, p: self._searched("signed", q, p),
            "the query's 4k by QuerySteering.score": lambda q, p: self._scored("off", q, p),
            "signed 4k by QuerySteering.score": lambda q, p: self._scored("signed", q, p),
        }

    def _searched(self, mode: Any, question: str, preferences: Sequence[str], count: int = K) -> list[int]:
        target = run(self.search.target(self.encoder.encode([question])[0].tolist(), tuple(preferences), mode))
        found = self.search.find(target, count, self.searching, lambda row: (self.texts[row], {}))
        return [row for row, _ in run(found)]

    def _scored(self, mode: Any, question: str, preferences: Sequence[str]) -> Found:
        rows = np.array(self._searched(mode, question, preferences, 4 * K))
        steering = QuerySteering(self.encoder, preferences, "signed")
        scores = steering.score_texts(
            self.encoder.encode([question])[0], [self.texts[row] for row in rows], self.vectors[rows]
        )
        return rows[np.argsort(-scores, kind="stable")][:K].tolist()


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
    for name, way in store.ways().items():
        found = [judged(store, case, way(case.question, case.preferences)) for case in cases]
        print("{:40} {:.3f} {:.3f} {:.2f}".format(name, *np.mean(found, axis=0)), flush=True)


def main() -> None:
    options = parse(parser(__doc__.splitlines()[0]))
    cases = cases_of(read_jsonl(options.data / "prefeval_mcq.jsonl"))
    encoder = Known(default_encoder())
    print(f"{encoder.name}, steering from {encoder.floor}")
    print_choices(Store(encoder, [option for case in cases for option in case.options]), cases)


if __name__ == "__main__":
    main()
