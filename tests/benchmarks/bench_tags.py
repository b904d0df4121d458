"""Ranking by tags beside none: multiple choice, two-hop questions, and questions that have nothing to do with the user.

Tags are names and noun phrases (`PhraseTagger`); for each way of ranking, printed are:

- choices: our own 240 cases (`shared/tools/written/choices.jsonl`), the options of a topic in one memory of the case's
  preference and nine others; how often the option that follows is the first of the case's four among twenty hits, in
  the two thirds that were looked at (the share of tags was chosen on them), and in the others.
- two hops: our own questions over the sample corpus; how often both passages are among the first five. The rule of the
  paper shows at most five.
- unrelated: questions of PrefELI5 to memories of Wikipedia passages under PrefWiki personas; how many find anything,
  and how many keep the first hit that they have by cosine alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench_choices import Case, drawn, own_cases
from bench_two_hop import corpus, questions
from common import interval, parse, parser, personas, read_jsonl, searching
from epic_eval.tags import TagRanking
from epic_graph import PhraseTagger
from epic_memory import EpicMemory, Hit, Item, SearchOptions, Settings
from epic_memory.encoders import Encoder, SentenceTransformerEncoder, default_encoder

WAYS: dict[str, TagRanking | None] = {
    "none": None,
    "tags-paper": TagRanking(paper=True),
    **{
        f"tags, alike {alike}, share {share}": TagRanking(alike=alike, share=share)
        for alike in (0.6, 0.75, 0.9)
        for share in (0.02, 0.05, 0.1)
    },
}
HITS = 20
MEMORIES, ASKED = 2, 150


def ranked(
    memory: EpicMemory, encoder: Encoder, way: TagRanking | None, question: str, k: int, **options: Any
) -> list[Hit]:
    """Return the k best hits of a search, by tags or as they are."""
    if way is None:
        return list(memory.search(question, k, **searching(**options)))
    return way.search(memory, PhraseTagger(), encoder, question, k, **options)


def choices(encoder: Encoder, cases: Sequence[Case]) -> dict[str, np.ndarray]:
    """Of each case, whether the option that follows is the first of its four, by way of ranking."""
    found: dict[str, list[bool]] = {way: [] for way in WAYS}
    for case, persona in zip(cases, drawn(cases, 0), strict=True):
        options = dict.fromkeys(option for other in cases if other.topic == case.topic for option in other.options)
        memory = EpicMemory(persona.preferences, encoder=encoder, settings=Settings(tagger=PhraseTagger()))
        memory.add(list(options))
        for way, by_tags in WAYS.items():
            hits = [hit.item.text for hit in ranked(memory, encoder, by_tags, case.question, HITS, min_score=None)]
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
        hits = (ranked(memory, encoder, by_tags, one.text, 5, min_score=None) for one in questions())
        ids = [{hit.item.id for hit in each} for each in hits]
        found[way] = [one.passages <= each for one, each in zip(questions(), ids, strict=True)]
    return {way: np.array(both, dtype=float) for way, both in found.items()}


def unrelated(encoder: Encoder, passages: Sequence[str], users: Sequence[list[str]], asked: Sequence[str]) -> None:
    """Print how many unrelated questions find anything, and how many keep their first hit."""
    counts = {way: np.zeros(2) for way in WAYS}
    total = 0
    for preferences in users:
        memory = EpicMemory(preferences, encoder=encoder, settings=Settings(tagger=PhraseTagger()))
        memory.add([Item(text=passage) for passage in passages])
        for question in asked:
            total += 1
            (plain,) = memory.search(
                question, 1, options=SearchOptions(steering="off", stance_policy="any", min_score=None)
            )
            for way, by_tags in WAYS.items():
                hits = ranked(memory, encoder, by_tags, question, 5)
                counts[way] += [bool(hits), bool(hits) and hits[0].item.id == plain.item.id]
    for way, (any_hit, kept) in counts.items():
        print(f"  {way:32}finds anything {any_hit / total:.3f}, the first by cosine {kept / total:.3f}")


def print_shares(name: str, found: dict[str, np.ndarray]) -> None:
    print(f"{name} ({len(found['none'])})")
    for way, right in found.items():
        low, high = interval(right - found["none"])
        print(f"  {way:32}{right.mean():.3f}  {(right - found['none']).mean():+.3f} [{low:+.3f}, {high:+.3f}]")


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--teacher", help="folder of all-MiniLM-L6-v2")
    options = parse(made)
    encoders: dict[str, Encoder] = {"static": default_encoder()}
    if options.teacher:
        encoders["MiniLM"] = SentenceTransformerEncoder(options.teacher)
    users = [[text for text, _ in persona] for persona in personas(options.data, "PrefWiki")][:MEMORIES]
    asked = [q for persona in personas(options.data, "PrefELI5") for _, several in persona for q in several]
    passages = [record["text"] for record in read_jsonl(options.data / "wiki_passages.jsonl")]
    for name, encoder in encoders.items():
        started = time.perf_counter()
        print(f"--- {name}")
        for kind, cases in own_cases().items():
            print_shares(f"choices {kind}", choices(encoder, cases))
        print_shares("two hops", two_hops(encoder))
        print(f"unrelated ({MEMORIES * ASKED})")
        unrelated(encoder, passages, users, list(dict.fromkeys(asked))[:ASKED])
        print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
