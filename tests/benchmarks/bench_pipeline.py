"""The stages of the pipeline on PrefEval's multiple choice: what is kept, and where the options are found.

Of each case the first of four options follows the preference, the others break it. Its persona is its preference and
nine others at random from the file; the corpus is all options of all cases of its topic, shuffled. A memory is built of
it by some of the stages, and the question searched in all of it. "first" is the share of cases whose following option
comes before those of their breaking ones that are found (a tie is a failure, and so is "none": that none of the four is
held; chance is 0.25); "broken" how many of the own breaking options are among the first five hits. "kept" and "bytes"
are of the corpus, and as `EpicMemory.stats` says.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from common import Known, read_jsonl, script_options, searching, settled
from epic_memory import EpicMemory
from epic_memory.encoders import Encoder, default_encoder
from epic_memory.types import Hits

OTHERS, FIVE = 9, 5
# With nothing filtered each text is held once for each preference; one preference gives one vector a text.
STAGES: dict[str, dict[str, Any]] = {
    "none": {"coarse": False, "fine": False},
    "C": {"fine": False},
    "F": {"coarse": False},
    "C+F": {},
}


class Case(NamedTuple):
    persona: list[str]
    own: str
    question: str
    options: list[str]
    corpus: list[str]


def cases_of(records: Sequence[dict[str, Any]]) -> list[Case]:
    preferences = list(dict.fromkeys(record["preference"] for record in records))
    options: dict[str, list[str]] = {}
    for record in records:
        options.setdefault(record["topic"], []).extend(record["options"])
    cases = []
    for number, record in enumerate(records):
        # Of each case by itself, so that fewer cases are the same ones.
        drawn = random.Random(f"0/{number}")
        own = record["preference"]
        persona = [own, *drawn.sample([one for one in preferences if one != own], OTHERS)]
        corpus = list(dict.fromkeys(options[record["topic"]]))
        drawn.shuffle(persona)
        drawn.shuffle(corpus)
        cases.append(Case(persona, own, record["question"], record["options"], corpus))
    return cases


def rank(case: Case, hits: Hits) -> tuple[bool, bool, int]:
    """Return whether the following option is first, whether none is found, and how many of five break."""
    place = {hit.item.text: number for number, hit in enumerate(hits)}
    following, *breaking = (place.get(option) for option in case.options)
    others = [other for other in breaking if other is not None]
    # By score and not by place: a tie, or a score that is no number, is no choice.
    first = following is not None and np.isfinite(hits[following].score)
    first = first and all(hits[following].score > hits[other].score for other in others)
    return bool(first), following is None and not others, sum(other < FIVE for other in others)


def rows_of(encoder: Encoder, case: Case) -> dict[str, tuple[float, ...]]:
    """Return the figures of a case by stages: its options' places, the share kept, and bytes."""
    rows: dict[str, tuple[float, ...]] = {}
    for name, settings in STAGES.items():
        persona = case.persona[:1] if name == "none" else case.persona
        with EpicMemory(persona, encoder=encoder, **settled(**settings)) as memory:
            memory.add(case.corpus)
            size = (len(memory) / len(case.corpus), memory.stats().bytes["total"])
            ways = {name: "off"} | ({f"C+F+S ({mode})": mode for mode in ("paper", "signed")} if name == "C+F" else {})
            for way, mode in ways.items():
                options = searching(steering=mode)
                rows[way] = (*rank(case, memory.search(case.question, max(1, len(memory)), **options)), *size)
    return rows


def main() -> None:
    options = script_options(__doc__, data=True, cases=120)
    cases = cases_of(read_jsonl(options.data / "prefeval_mcq.jsonl"))
    # Evenly over the file, which is sorted by topic.
    wanted = min(options.cases, len(cases))
    cases = [cases[number * len(cases) // wanted] for number in range(wanted)]
    encoder = Known(default_encoder())
    print(f"{encoder.name}, tau {encoder.tau}, floor {encoder.floor}")
    found = [rows_of(encoder, case) for case in cases]
    print(f"{f'{len(cases)} cases':40} first  none   broken    kept    bytes")
    for way in found[0]:
        means = np.mean([rows[way] for rows in found], axis=0)
        print("{:40} {:.3f}  {:.3f}  {:.2f}  {:8.1%} {:8.0f}".format(way, *means))


if __name__ == "__main__":
    main()
