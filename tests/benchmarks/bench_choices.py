"""Multiple choice with signed steering, and no steering where it does not belong.

PrefEval's multiple choice: a question, and four options of which one follows a preference. Each case's persona is its
own preference and nine others taken at random from the file, in any order; several draws. The options are shuffled and
ranked by `QuerySteering.score`; a tie, or a score that is not finite, counts as wrong.

The same for 240 cases of our own (`shared/tools/written/choices.jsonl`), of ten other topics and harder: their options
seldom name what the user avoids. They were written by somebody who did not know the lexicon, and nothing is fitted on
them. Two thirds were looked at while steering was worked on.

Where steering does not belong: questions of PrefELI5 under PrefWiki personas, taken in turn. How many keep the first
hit they have without steering, when the Wikipedia passages are ranked with `QuerySteering.score`. Everything has its
default settings.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common import Known, encoders, passages, personas, read_jsonl, script_options
from epic_memory.encoders import embed
from epic_memory.encoders.base import Encoder, embed_query
from epic_memory.preferences.evidence import embed_aspects
from epic_memory.steering import Mode, QuerySteering
from epic_memory.steering.question_kind import question_kind
from fitting import written

MODES: tuple[Mode, ...] = ("off", "paper", "signed")
STEERING: tuple[Mode, ...] = ("signed", "paper")
OTHERS = 9


class Case(NamedTuple):
    topic: str
    question: str
    options: list[str]
    preference: str


class Persona(NamedTuple):
    preferences: list[str]
    order: list[int]


def cases_of(data: Path) -> list[Case]:
    records = read_jsonl(data / "prefeval_mcq.jsonl")
    return [Case(one["topic"], one["question"], one["options"], one["preference"]) for one in records]


def own_cases() -> dict[str, list[Case]]:
    """Those of our own, by whether they were looked at."""
    found: dict[str, list[Case]] = {"of our own, looked at": [], "of our own, not looked at": []}
    for record in written("choices.jsonl"):
        case = Case(record["topic"], record["question"], record["options"], record["preference"])
        found["of our own, looked at" if record["looked_at"] else "of our own, not looked at"].append(case)
    return found


def drawn(cases: Sequence[Case], seed: int) -> list[Persona]:
    """A persona and an order of the options for each case."""
    draw = random.Random(seed)
    every = list(dict.fromkeys(case.preference for case in cases))
    found = []
    for case in cases:
        persona = [case.preference, *draw.sample([one for one in every if one != case.preference], OTHERS)]
        order = list(range(len(case.options)))
        draw.shuffle(persona)
        draw.shuffle(order)
        found.append(Persona(persona, order))
    return found


def outcome(encoder: Encoder, cases: Sequence[Case], draw: Sequence[Persona], mode: Mode) -> list[bool]:
    """Whether the score of each case's right option is higher than all others."""
    right = []
    for case, persona in zip(cases, draw, strict=True):
        options = [case.options[number] for number in persona.order]
        steering = QuerySteering(encoder, persona.preferences, mode)
        scores, place = steering.score(case.question, options), persona.order.index(0)
        right.append(bool(np.isfinite(scores).all() and scores[place] > np.delete(scores, place).max()))
    return right


def remember(encoder: Known, cases: Sequence[Case]) -> None:
    """Encode everything now: a transformer is much faster with many texts at a time."""
    encoder.encode([text for case in cases for text in (case.preference, case.question, *case.options)])
    embed_aspects(encoder, [case.preference for case in cases])


def print_modes(encoder: Known, cases: Sequence[Case], draws: int) -> None:
    """Print of each mode how many cases are right, in several draws."""
    remember(encoder, cases)
    personas_drawn = [drawn(cases, seed) for seed in range(draws)]
    print("right option first      mean   spread (sd; lowest, highest)")
    for mode in MODES:
        means = np.array([np.mean(outcome(encoder, cases, draw, mode)) for draw in personas_drawn])
        print(f"    {mode:18} {means.mean():.3f}   {means.std():.4f}; {means.min():.3f}, {means.max():.3f}", flush=True)


def print_elsewhere(encoder: Encoder, data: Path) -> None:
    texts = passages(data)
    vectors = embed(encoder, texts)
    questions = [question for persona in personas(data, "PrefELI5") for _, asked in persona for question in asked]
    people = [[preference for preference, _ in persona] for persona in personas(data, "PrefWiki")]
    print(f"{len(questions)} PrefELI5 questions under {len(people)} PrefWiki personas: first hit kept")
    for mode in STEERING:
        steerings = [QuerySteering(encoder, preferences, mode) for preferences in people]
        kept = []
        for question, steering in zip(questions, cycle(steerings)):
            query = embed_query(encoder, question)
            scores = steering.score_texts(query, texts, vectors, kind=question_kind(question))
            kept.append(int(scores.argmax()) == int((vectors @ query).argmax()))
        print(f"    {mode:6} score over {len(texts)} passages {np.mean(kept):10.3f}", flush=True)


def main() -> None:
    options = script_options(__doc__, data=True, encoders=True, draws=10, only=("choices", "elsewhere"))
    cases = cases_of(options.data)
    if options.only != "elsewhere":
        print(f"{len(cases)} cases, {options.draws} draws")
    for plain in encoders(options):
        encoder = Known(plain)
        started = time.perf_counter()
        print(f"\n{encoder.name}, floor {encoder.floor}")
        if options.only != "elsewhere":
            print_modes(encoder, cases, options.draws)
            for name, own in own_cases().items():
                print(f"{len(own)} cases {name}")
                print_modes(encoder, own, options.draws)
            print(f"{time.perf_counter() - started:.0f} s")
            started = time.perf_counter()
        if options.only != "choices":
            print_elsewhere(encoder, options.data)
            print(f"{time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
