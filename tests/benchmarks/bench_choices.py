"""Multiple choice with signed steering, and no steering where it does not belong.

PrefEval's multiple choice: a question, and four options of which one follows a preference. Each case's persona is its
own preference and nine others taken at random from the file, in any order; several draws. The options are shuffled and
ranked by `QuerySteering.score`; a tie, or a score that is not finite, counts as wrong. Beside it: the longest option,
the persona that is the right preference alone ("told"), in how many cases the right preference has the largest weight,
and the figures by what the preference has (a liked side, an avoided one, both: as `parse_aspects` reads it), by topic.

The same for 240 cases of our own (`shared/tools/written/choices.jsonl`), of ten other topics and harder: their options
seldom name what the user avoids. They were written by somebody who did not know the lexicon, and nothing is fitted on
them. Two thirds were looked at while steering was worked on.

Where steering does not belong: questions of PrefELI5 under PrefWiki personas, taken in turn. How many keep the first
hit they have without steering, and how many are steered at all: ranking the Wikipedia passages and the assistant
answers with `QuerySteering.score`, searching the passages with the steered vector, and searching memories built from
both. Everything has its default settings.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common import Known, encoders, interval, parse, parser, personas, read_jsonl, with_encoders
from epic_apps.cli.sources import Sources
from epic_memory import EpicMemory, SearchOptions
from epic_memory.encoders import embed
from epic_memory.encoders.base import Encoder, embed_query
from epic_memory.preferences.evidence import embed_aspects
from epic_memory.preferences.parser import parse_aspects
from epic_memory.steering import Mode, QuerySteering
from epic_memory.steering.question_kind import question_kind
from epic_memory.text.stems import words_of
from fitting import written

MODES: tuple[Mode, ...] = ("off", "paper", "signed")
STEERING: tuple[Mode, ...] = ("signed", "paper")
OTHERS = 9
MEMORIES = 8
SIDES = ("likes only", "avoids only", "both")


class Case(NamedTuple):
    topic: str
    question: str
    options: list[str]
    preference: str
    has: str


class Outcome(NamedTuple):
    """Of each case: whether the right option is first, the right preference heaviest, and whether anything steers."""

    right: list[bool]
    heaviest: list[bool]
    steered: list[bool]


class Persona(NamedTuple):
    preferences: list[str]
    order: list[int]


def cases_of(data: Path) -> list[Case]:
    cases = []
    for record in read_jsonl(data / "prefeval_mcq.jsonl"):
        aspects = parse_aspects(record["preference"])
        has = SIDES[2] if aspects.liked and aspects.avoided else SIDES[0] if aspects.liked else SIDES[1]
        cases.append(Case(record["topic"], record["question"], record["options"], record["preference"], has))
    return cases


def own_cases() -> dict[str, list[Case]]:
    """Those of our own, by whether they were looked at."""
    found: dict[str, list[Case]] = {"of our own, looked at": [], "of our own, not looked at": []}
    for record in written("choices.jsonl"):
        case = Case(record["topic"], record["question"], record["options"], record["preference"], "")
        found["of our own, looked at" if record["looked_at"] else "of our own, not looked at"].append(case)
    return found


def drawn(cases: Sequence[Case], seed: int, others: int = OTHERS) -> list[Persona]:
    """A persona and an order of the options for each case."""
    draw = random.Random(seed)
    every = list(dict.fromkeys(case.preference for case in cases))
    found = []
    for case in cases:
        persona = [case.preference, *draw.sample([one for one in every if one != case.preference], others)]
        order = list(range(len(case.options)))
        draw.shuffle(persona)
        draw.shuffle(order)
        found.append(Persona(persona, order))
    return found


def first(scores: np.ndarray, place: int) -> bool:
    """Whether one score is higher than all others."""
    return bool(np.isfinite(scores).all() and scores[place] > np.delete(scores, place).max())


def outcome(encoder: Encoder, cases: Sequence[Case], draw: Sequence[Persona], mode: Mode) -> Outcome:
    found = Outcome([], [], [])
    for case, persona in zip(cases, draw, strict=True):
        options = [case.options[number] for number in persona.order]
        steering = QuerySteering(encoder, persona.preferences, mode)
        found.right.append(first(steering.score(case.question, options), persona.order.index(0)))
        query, vectors = embed_query(encoder, case.question), embed(encoder, options)
        steered = steering.steer_vector(query, candidates=vectors, kind=question_kind(case.question))
        heaviest = [one.preference.text for one in steered.preferences[:1]]
        found.heaviest.append(heaviest == [case.preference])
        found.steered.append(bool(heaviest))
    return found


def longest(cases: Sequence[Case], size: Callable[[str], int]) -> str:
    """How often the right option is the longest: a tie is wrong, or decided by lot."""
    sizes = np.array([[size(option) for option in case.options] for case in cases])
    tied = sizes == sizes.max(axis=1, keepdims=True)
    shares = tied[:, 0] / tied.sum(axis=1)
    return f"{(shares == 1).mean():.3f} ({shares.mean():.3f} with ties by lot)"


def remember(encoder: Known, cases: Sequence[Case]) -> None:
    """Encode everything now: a transformer is much faster with many texts at a time."""
    encoder.encode([text for case in cases for text in (case.preference, case.question, *case.options)])
    embed_aspects(encoder, [case.preference for case in cases])


def print_choices(encoder: Known, cases: Sequence[Case], draws: int) -> None:
    right, told = print_modes(encoder, cases, draws)
    print_groups(cases, right, told, "has", SIDES)
    likes = np.array([case.has == SIDES[0] for case in cases])
    difference = (right["signed"].mean(axis=0) - right["off"].mean(axis=0))[likes]
    print(
        "likes (parse_aspects finds no avoided side), signed less off: {:+.3f} [{:+.3f}, {:+.3f}], {} cases".format(
            difference.mean(), *interval(difference), likes.sum()
        )
    )
    print_groups(cases, right, told, "topic", sorted({case.topic for case in cases}))


def print_modes(
    encoder: Known, cases: Sequence[Case], draws: int
) -> tuple[dict[Mode, np.ndarray], dict[Mode, Outcome]]:
    """Of each mode: whether each case is right in each draw, shape `(draws, len(cases))`, and told the preference."""
    remember(encoder, cases)
    personas_drawn = [drawn(cases, seed) for seed in range(draws)]
    ten = {mode: [outcome(encoder, cases, draw, mode) for draw in personas_drawn] for mode in MODES}
    told = {mode: outcome(encoder, cases, drawn(cases, 0, others=0), mode) for mode in MODES}
    right = {mode: np.array([one.right for one in found]) for mode, found in ten.items()}
    print("right option first      mean   spread (sd; lowest, highest)   told    right preference heaviest   steered")
    for mode, found in ten.items():
        means = right[mode].mean(axis=1)
        spread = f"{means.std():.4f}; {means.min():.3f}, {means.max():.3f}"
        heaviest, steered = (np.mean([getattr(one, name) for one in found]) for name in ("heaviest", "steered"))
        print(
            f"    {mode:18} {means.mean():.3f}   {spread:28}   {np.mean(told[mode].right):.3f}"
            f"   {heaviest:25.3f}   {steered:7.3f}"
        )
    heaviest = np.array([one.heaviest for one in ten["signed"]])
    print(
        f"    signed where the right preference is heaviest {right['signed'][heaviest].mean():.3f},"
        f" where it is not {right['signed'][~heaviest].mean():.3f}"
    )
    return right, told


def print_groups(
    cases: Sequence[Case],
    right: dict[Mode, np.ndarray],
    told: dict[Mode, Outcome],
    by: str,
    names: Sequence[str],
) -> None:
    print(f"by what it {by}" if by == "has" else f"by {by}", " " * 16, "cases     off   paper  signed  signed, told")
    for name in names:
        rows = np.array([getattr(case, by) == name for case in cases])
        means = "   ".join(f"{right[mode][:, rows].mean():.3f}" for mode in MODES)
        print(f"    {name:32} {rows.sum():4}   {means}   {np.array(told['signed'].right)[rows].mean():.3f}")


class Kept(NamedTuple):
    """Of each question: whether its first hit is that without steering, and whether it is steered at all."""

    kept: list[bool]
    steered: list[bool]

    def __str__(self) -> str:
        return f"{np.mean(self.kept):10.3f} {np.mean(self.steered):8.3f}"


def elsewhere(data: Path) -> tuple[list[str], list[list[str]]]:
    """The questions of PrefELI5, and the preferences of PrefWiki's personas."""
    questions = [question for persona in personas(data, "PrefELI5") for _, asked in persona for question in asked]
    return questions, [[preference for preference, _ in persona] for persona in personas(data, "PrefWiki")]


def print_elsewhere(encoder: Encoder, data: Path) -> None:
    passages = [f"{record['title']}. {record['text']}" for record in read_jsonl(data / "wiki_passages.jsonl")]
    answers = [record["text"] for record in read_jsonl(data / "assistant_answers.jsonl")]
    questions, people = elsewhere(data)
    print(f"{len(questions)} PrefELI5 questions under {len(people)} PrefWiki personas: first hit kept, steered at all")
    for name, texts in (("passages", passages), ("answers", answers)):
        vectors, words = embed(encoder, texts), [words_of(text) for text in texts]
        for mode in STEERING:
            steerings = [QuerySteering(encoder, preferences, mode) for preferences in people]
            ranked, searched = Kept([], []), Kept([], [])
            for question, steering in zip(questions, cycle(steerings)):
                query = embed_query(encoder, question)
                unsteered = int((vectors @ query).argmax())
                # What `score` does, with the words of the texts known.
                kind = question_kind(question)
                scores = steering.score_texts(query, texts, vectors, words=words, kind=kind)
                ranked.kept.append(int(scores.argmax()) == unsteered)
                ranked.steered.append(bool(steering.steer_vector(query, candidates=vectors, kind=kind).preferences))
                steered = steering.steer_vector(query, kind=kind)
                searched.kept.append(int((vectors @ steered.vector).argmax()) == unsteered)
                searched.steered.append(bool(steered.preferences))
            print(f"    {mode:6} score over {len(texts):4} {name:12} {ranked}", flush=True)
            if texts is passages:
                print(f"    {mode:6} by vector over {len(texts)} {name:8} {searched}", flush=True)


def print_memories(encoder: Encoder, data: Path) -> None:
    questions, people = elsewhere(data)
    found = {mode: Kept([], []) for mode in STEERING}
    entries = []
    for number, preferences in enumerate(people[:: len(people) // MEMORIES][:MEMORIES]):
        with EpicMemory(preferences=preferences, encoder=encoder) as memory:
            memory.add(Sources([data / "wiki_passages.jsonl", data / "assistant_answers.jsonl"]))
            entries.append(memory.stats().counts["entries"])
            for question in questions[number::MEMORIES]:
                unsteered = [hit.item.id for hit in memory.search(question, k=1, options=SearchOptions(steering="off"))]
                for mode, kept in found.items():
                    hits = memory.search(question, k=1, options=SearchOptions(steering=mode))
                    kept.kept.append([hit.item.id for hit in hits] == unsteered)
                    kept.steered.append(bool(hits.steered_by))
    print(f"the same in {len(entries)} memories of {min(entries)} to {max(entries)} entries")
    for mode, kept in found.items():
        print(f"    {mode:6} EpicMemory.search, k = 1    {kept}", flush=True)


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    with_encoders(made)
    made.add_argument("--draws", type=int, default=10, help="how many personas each case gets")
    made.add_argument("--only", choices=("choices", "elsewhere"), help="half of it")
    options = parse(made)
    cases = cases_of(options.data)
    if options.only != "elsewhere":
        count = Counter(case.has for case in cases)
        print(f"{len(cases)} cases, {options.draws} draws;", ", ".join(f"{count[side]} {side}" for side in SIDES))
        by_words, by_characters = longest(cases, lambda text: len(text.split())), longest(cases, len)
        print(f"always the longest option: by words {by_words}, by characters {by_characters}")
    for plain in encoders(options):
        encoder = Known(plain)
        started = time.perf_counter()
        print(f"\n{encoder.name}, floor {encoder.floor}")
        if options.only != "elsewhere":
            print_choices(encoder, cases, options.draws)
            for name, own in own_cases().items():
                print(f"{len(own)} cases {name}")
                print_modes(encoder, own, options.draws)
            print(f"{time.perf_counter() - started:.0f} s")
            started = time.perf_counter()
        if options.only != "choices":
            print_elsewhere(encoder, options.data)
            print_memories(plain, options.data)
            print(f"{time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
