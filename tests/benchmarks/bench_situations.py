"""Situations in which something said once matters, though they share no word with it: recall at ten.

"I'm the only carer for my husband" matters when "a university offers me a semester in Toronto", as LoCoMo-Plus asks.
The pairs are ours (`shared/tools/written/situations_*.jsonl`), of four kinds as there: causes, states, goals, values.
Those of a were looked at, those of b were only run, once. What was said stands among the turns of the chats of
`longmem`: 1 and 2 for a, 3 and 4 for b; "among" is the recall among the sayings alone.

- search: the ten nearest of a memory as it comes; BM25 and cosine beside it.
- lent: what a library without a model could do at most. Each text borrows the questions of the preferences of the
  bundled library that are near to it, and is found by its best ones; in all ten places, in five or in three of them,
  the others being the nearest texts. This is no part of the package: ordinary searches would lose these places.
"""

from __future__ import annotations

import json
import lzma
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common import Known, encoders, script_options  # puts shared/tools on the path
from epic_eval.arms.lexical import BM25
from epic_memory import EpicMemory, Item, SearchOptions
from epic_memory.encoders import Encoder, embed
from epic_memory.preferences.library import default_library
from fitting import WRITTEN, Array, written

SETS = {"a, looked at": ("situations_a.jsonl", (1, 2)), "b, only run": ("situations_b.jsonl", (3, 4))}
K = 10
LENDERS, LEAST_NEAR, BEST = 8, 0.4, 2
# Places of the ten that lent questions fill.
PLACES = (10, 5, 3)
EVERY = SearchOptions(min_score=None)


def turns(numbers: Sequence[int]) -> list[str]:
    """The turns of chats, each once."""
    said: dict[str, None] = {}
    for number in numbers:
        packed = (WRITTEN / "longmem" / f"longmem_{number}.json.xz").read_bytes()
        for record in json.loads(lzma.decompress(packed)):
            said.update((turn["content"], None) for session in record["haystack_sessions"] for turn in session)
    return list(said)


def ranked(scores: Array) -> list[list[int]]:
    """The places of all texts for each question, best first."""
    found: list[list[int]] = np.argsort(-scores, axis=1, kind="stable").tolist()
    return found


def lent(encoder: Encoder, texts: Array, questions: Array) -> Array:
    """How near the questions are to those that each text borrows, shape `(questions, texts)`; -1 where none is lent."""
    known = default_library().known
    near = texts @ embed(encoder, [one.text for one in known]).T
    own = np.stack([np.sort(questions @ embed(encoder, one.questions).T)[:, -BEST:].mean(axis=1) for one in known])
    lenders: NDArray[np.intp] = np.argsort(-near, axis=1)[:, :LENDERS]
    enough = np.take_along_axis(near, lenders, axis=1) >= LEAST_NEAR
    found: Array = np.where(enough[..., None], own[lenders], -1.0).max(axis=1).T
    return found


def shared_places(first: Sequence[int], second: Sequence[int], places: int) -> list[int]:
    """Ten places, of which the first order fills some and the second the others."""
    begun = list(first[:places])
    return [*begun, *(place for place in second if place not in begun)][:K]


def ways(encoder: Encoder, texts: Sequence[str], questions: Sequence[str]) -> dict[str, list[list[int]]]:
    """The places of the ten texts that each way finds for each question."""
    place = {text: number for number, text in enumerate(texts)}
    memory, bm25 = EpicMemory(encoder=encoder), BM25()
    memory.add(list(texts))
    with tempfile.TemporaryDirectory() as folder:
        bm25.build([Item(text=text) for text in texts], (), Path(folder))
    vectors, asked = embed(encoder, texts), embed(encoder, questions)
    nearest, by_lent = ranked(asked @ vectors.T), ranked(lent(encoder, vectors, asked))
    found = {
        "search": [[place[hit.text] for hit in memory.search(one, K, options=EVERY)] for one in questions],
        "cosine": [order[:K] for order in nearest],
        "BM25": [[place[hit.text] for hit in bm25.retrieve(one, K).passages] for one in questions],
    }
    for places in PLACES:
        pairs = zip(by_lent, nearest, strict=True)
        found[f"lent, {places} of ten"] = [shared_places(order, others, places) for order, others in pairs]
    return found


def recall(found: Sequence[Sequence[int]]) -> float:
    """The share of questions whose own saying, of the same number, is found."""
    return float(np.mean([number in some for number, some in enumerate(found)]))


def main() -> None:
    options = script_options(__doc__, encoders=True, set=list(SETS))
    several = list(map(Known, encoders(options)))
    for name in options.set or SETS:
        file, numbers = SETS[name]
        pairs, others = written(file), turns(numbers)
        said, questions = [one["said"] for one in pairs], [one["later"] for one in pairs]
        for encoder in several:
            whole, alone = ways(encoder, [*said, *others], questions), ways(encoder, said, questions)
            print(f"\n{name}: {len(pairs)} pairs, {len(said) + len(others)} texts, {encoder.name}")
            print(f"{'recall at ten':20}{'':>8}{'among':>8}")
            for way, some in whole.items():
                print(f"{way:20}{recall(some):>8.3f}{recall(alone[way]):>8.3f}", flush=True)


if __name__ == "__main__":
    main()
