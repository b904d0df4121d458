"""Ranking by tags beside none: multiple choice, and two-hop questions.

Tags are names and noun phrases (`PhraseTagger`); for each way of ranking, printed are:

- choices: our own 240 cases (`shared/tools/written/choices.jsonl`), the options of a topic in one memory of the case's
  preference and nine others; how often the option that follows is the first of the case's four among twenty hits, in
  the two thirds that were looked at (the share of tags was chosen on them), and in the others.
- two hops: our own questions over the sample corpus; how often both passages are among the first five. The rule of the
  paper shows at most five.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from bench_choices import Case, drawn, own_cases
from bench_two_hop import corpus, questions
from common import interval
from epic_eval.tags import TagRanking
from epic_graph import PhraseTagger
from epic_memory import EpicMemory, Hit, SearchOptions, Settings
from epic_memory.encoders import Encoder, default_encoder

WAYS = {"none": None, "tags-paper": TagRanking(paper=True), "tags": TagRanking()}
HITS = 20


FREE = SearchOptions(min_score=None)


def ranked(memory: EpicMemory, encoder: Encoder, way: TagRanking | None, question: str, k: int) -> list[Hit]:
    """Return the k best hits of a search without a threshold, by tags or as they are."""
    if way is None:
        return list(memory.search(question, k, options=FREE))
    return way.search(memory, PhraseTagger(), encoder, question, k, FREE)


def choices(encoder: Encoder, cases: Sequence[Case]) -> dict[str, np.ndarray]:
    """Of each case, whether the option that follows is the first of its four, by way of ranking."""
    found: dict[str, list[bool]] = {way: [] for way in WAYS}
    for case, persona in zip(cases, drawn(cases, 0), strict=True):
        options = dict.fromkeys(option for other in cases if other.topic == case.topic for option in other.options)
        memory = EpicMemory(persona.preferences, encoder=encoder, settings=Settings(tagger=PhraseTagger()))
        memory.add(list(options))
        for way, by_tags in WAYS.items():
            hits = [hit.item.text for hit in ranked(memory, encoder, by_tags, case.question, HITS)]
            own = [text for text in hits if text in case.options]
            found[way].append(own[:1] == case.options[:1])
    return {way: np.array(right, dtype=float) for way, right in found.items()}


def two_hops(encoder: Encoder) -> dict[str, np.ndarray]:
    """Of each question, whether both passages are among the first five, by way of ranking."""
    memory = EpicMemory(
        ["I like good answers."], encoder=encoder, settings=Settings(tagger=PhraseTagger(), coarse=False, fine=False)
    )
    memory.add(corpus())
    found: dict[str, list[bool]] = {}
    for way, by_tags in WAYS.items():
        hits = (ranked(memory, encoder, by_tags, one.text, 5) for one in questions())
        ids = [{hit.item.id for hit in each} for each in hits]
        found[way] = [one.passages <= each for one, each in zip(questions(), ids, strict=True)]
    return {way: np.array(both, dtype=float) for way, both in found.items()}


def print_shares(name: str, found: dict[str, np.ndarray]) -> None:
    print(f"{name} ({len(found['none'])})")
    for way, right in found.items():
        low, high = interval(right - found["none"])
        print(f"  {way:32}{right.mean():.3f}  {(right - found['none']).mean():+.3f} [{low:+.3f}, {high:+.3f}]")


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.parse_args()
    encoder = default_encoder()
    for kind, cases in own_cases().items():
        print_shares(f"choices {kind}", choices(encoder, cases))
    print_shares("two hops", two_hops(encoder))


if __name__ == "__main__":
    main()
