"""What a memory answers, in one table: the right note, what follows a preference before what breaks it, and silence.

Each row is measured for four ways: `dense` (cosine over all texts), `paper` (the memory of the paper: instructions
only, Eq. 7-8, nothing held but what was kept, k hits whatever they are), `ours` (an `EpicMemory` as it is by default,
no model) and `expanded` (the same with expansions that a language model wrote for each preference, seeing nothing else:
`shared/tools/written/expansions.jsonl`).

- notes: 40 notes of two people, 20 questions: the right one first, among three; and hits for ten unrelated questions.
- passages: of the first five hits in a memory of all 300, those that follow and those that break.
- choices: four options each, the one that follows first by `QuerySteering.score`, ten preferences; ours and PrefEval's.

`answers_a` was looked at while this was built, `answers_b` was only run. PrefEval's topics were seen in earlier work.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from common import Known, encoders, read_jsonl, script_options, searching, settled
from epic_memory import EpicMemory, Preference, QuerySteering
from epic_memory.encoders import embed
from epic_memory.encoders.base import Encoder
from fitting import WRITTEN, preference_digest, written, written_expansions

WAYS = ("dense", "paper", "ours", "expanded")
OTHERS = 9

EXPANSIONS = written_expansions()


def stated(preferences: Sequence[str], way: str) -> list[Preference]:
    return [
        Preference(text=one, expansion=EXPANSIONS.get(preference_digest(one)) if way == "expanded" else None)
        for one in preferences
    ]


class Way:
    """One way to find texts for a question."""

    def __init__(self, name: str, encoder: Encoder, preferences: Sequence[str], texts: Sequence[str]) -> None:
        self.name, self.encoder, self.texts = name, encoder, list(dict.fromkeys(texts))
        self.memory: EpicMemory | None = None
        if name == "dense":
            self.vectors = embed(encoder, self.texts)
            return
        options: dict[str, Any] = {"steering": "paper", "reserve": 0, "expansions": "off"} if name == "paper" else {}
        self.memory = EpicMemory(stated(preferences, name), encoder=encoder, **settled(**options))
        self.memory.add(self.texts)

    def find(self, question: str, k: int) -> list[str]:
        if self.memory is None:
            order = np.argsort(-(self.vectors @ embed(self.encoder, [question])[0]), kind="stable")[:k]
            return [self.texts[row] for row in order]
        options: dict[str, Any] = {"keys": "instruction", "min_score": None} if self.name == "paper" else {}
        return [hit.item.text for hit in self.memory.search(question, k, **searching(**options))]


def row(name: str, values: Sequence[str]) -> None:
    print(f"{name:46}" + "".join(f"{value:>16}" for value in values), flush=True)


def print_notes(encoder: Encoder, folder: str) -> None:
    people = json.loads((WRITTEN / folder / "notes.json").read_text(encoding="utf-8"))
    found = []
    for name in WAYS:
        first = three = asked = unrelated = silent = 0
        for person in people:
            way = Way(name, encoder, person["preferences"], person["notes"])
            for question in person["questions"]:
                texts = way.find(question["question"], 3)
                if question["answer"] is None:
                    unrelated += len(texts)
                    silent += 1
                    continue
                right = {person["notes"][place] for place in (question["answer"], *question.get("also", ()))}
                asked += 1
                first += texts[:1] != [] and texts[0] in right
                three += bool(right & set(texts))
        found.append(f"{first}/{three}/{asked} {unrelated}")
    row(f"{folder} notes: first/three/of; {silent} unrelated", found)


def print_passages(encoder: Encoder, folder: str, cases: Sequence[dict[str, Any]]) -> None:
    texts = [passage["text"] for case in cases for passage in case["passages"]]
    every = [case["preference"] for case in cases]
    draw = random.Random(0)
    drawn = [
        [case["preference"], *draw.sample([p for p in every if p != case["preference"]], OTHERS)] for case in cases
    ]
    found = []
    for name in WAYS:
        labels = Counter[str]()
        for case, persona in zip(cases, drawn, strict=True):
            # Shuffled: a memory must not tell by the order.
            way = Way(name, encoder, random.Random(1).sample(persona, len(persona)), texts)
            label = {passage["text"]: passage["label"] for passage in case["passages"]}
            labels.update(label.get(text, "other") for text in way.find(case["question"], len(texts))[:5])
            if way.memory is not None:
                way.memory.close()
        found.append(f"{labels['follows'] / len(cases):.2f} {labels['breaks'] / len(cases):.2f}")
    row(f"{folder} passages: of five, follow, break", found)


def print_choices(encoder: Encoder, name: str, cases: Sequence[dict[str, Any]], draws: int) -> None:
    every = list(dict.fromkeys(case["preference"] for case in cases))
    found = []
    for way in WAYS:
        first = total = 0
        for seed in range(draws if way != "dense" else 1):
            draw = random.Random(seed)
            for case in cases:
                persona = [case["preference"], *draw.sample([p for p in every if p != case["preference"]], OTHERS)]
                mode = {"dense": "off", "paper": "paper"}.get(way, "signed")
                steering = QuerySteering(encoder, stated(persona, way), mode)  # type: ignore[arg-type]
                scores = steering.score(case["question"], case["options"])
                first += scores[0] > scores[1:].max()
                total += 1
        found.append(f"{first / total:.3f}")
    row(f"{name} choices: follows first", found)


def main() -> None:
    options = script_options(__doc__, data=True, encoders=True, draws=1, sets=["answers_a", "answers_b"])
    for plain in encoders(options):
        encoder = Known(plain)
        started = time.perf_counter()
        row(f"\n{encoder.name}", WAYS)
        for folder in options.sets:
            print_notes(encoder, folder)
            print_passages(encoder, folder, written(f"{folder}/passages.jsonl"))
            print_choices(encoder, folder, written(f"{folder}/choices.jsonl"), options.draws)
        print_choices(encoder, "PrefEval", read_jsonl(options.data / "prefeval_mcq.jsonl"), options.draws)
        print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
