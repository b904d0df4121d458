"""Ranking by tags beside none: multiple choice, and two-hop questions.

Tags are names and noun phrases (`PhraseTagger`); two count as one from a cosine of 0.75 on. Twenty items are found, and
ranked again. "tags": an item with all tags of the query gains 0.05, with some of them a part of it. "tags-paper", a
published rule: of the twenty by cosine alone the first ranks 20, the next one less; each tag of the query that an item
has adds one; at most five are shown, of those that reach 18. For each way of ranking, printed are:

- choices: our own 240 cases (`shared/tools/written/choices.jsonl`), the options of a topic in one memory of the case's
  preference and nine others; how often the option that follows is the first of the case's four among twenty hits, in
  the two thirds that were looked at (the share of tags was chosen on them), and in the others.
- two hops: our own questions over the sample corpus; how often both passages are among the first five.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from bench_choices import Case, drawn, own_cases
from bench_two_hop import corpus, questions
from common import interval
from epic_eval.arms.tagged import CANDIDATES, matches, tags_of
from epic_eval.arms.tagged import ranked as by_rule
from epic_memory import EpicMemory, Hit, SearchOptions, Settings
from epic_memory.encoders import Encoder, default_encoder

WAYS = ("none", "tags-paper", "tags")
SHARE = 0.05
FREE = SearchOptions(min_score=None)
BY_COSINE = SearchOptions(steering="off", stance_policy="any", min_score=None)


def ranked(memory: EpicMemory, encoder: Encoder, way: str, question: str, k: int) -> list[Hit]:
    """Return the k best hits of a search without a threshold, by tags or as they are."""
    if way == "none":
        return list(memory.search(question, k, options=FREE))
    hits = memory.search(question, CANDIDATES, options=BY_COSINE if way == "tags-paper" else FREE)
    asked, *tags = tags_of([question, *(hit.item.text for hit in hits)])
    counts = matches(encoder, asked, tags)
    if way == "tags":
        scores = np.array([hit.score for hit in hits]) + SHARE / max(len(asked), 1) * counts
        return [hits[place] for place in np.argsort(-scores, kind="stable")[:k]]
    return [hits[place] for place in by_rule(counts)[:k]]


def choices(encoder: Encoder, cases: Sequence[Case]) -> dict[str, np.ndarray]:
    """Of each case, whether the option that follows is the first of its four, by way of ranking."""
    found: dict[str, list[bool]] = {way: [] for way in WAYS}
    for case, persona in zip(cases, drawn(cases, 0), strict=True):
        options = dict.fromkeys(option for other in cases if other.topic == case.topic for option in other.options)
        memory = EpicMemory(persona.preferences, encoder=encoder)
        memory.add(list(options))
        for way in WAYS:
            hits = [hit.item.text for hit in ranked(memory, encoder, way, case.question, CANDIDATES)]
            own = [text for text in hits if text in case.options]
            found[way].append(own[:1] == case.options[:1])
    return {way: np.array(right, dtype=float) for way, right in found.items()}


def two_hops(encoder: Encoder) -> dict[str, np.ndarray]:
    """Of each question, whether both passages are among the first five, by way of ranking."""
    memory = EpicMemory(["I like good answers."], encoder=encoder, settings=Settings(coarse=False, fine=False))
    memory.add(corpus())
    found: dict[str, list[bool]] = {}
    for way in WAYS:
        hits = (ranked(memory, encoder, way, one.text, 5) for one in questions())
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
