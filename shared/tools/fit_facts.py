"""Fits the weights of `epic_memory.pipeline.fact_matching` on lives and slots of our own, and writes them.

    python shared/tools/fit_facts.py [--check]

`written/lives_*.jsonl` are people with what they told over twelve weeks; `written/slots.txt` are things that people
tell, each with statements of a first value, of a second (`>`) and of an end (`x`), and questions (`?`). Lives are made
of slots at random: a first statement, and by lot a repetition, a change, a repetition of that, and an end. A question
is answered by the fact that holds at its time; after an end, and in the life of somebody else, by none.

With --check prints and records how often each kind is recognised of people and of slots that had no part in the fit.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from epic_memory.pipeline.fact_matching import (
    ALONE,
    ASKED,
    BESIDE,
    KINDS,
    FactWeights,
    asked,
    beside,
    decided,
    fact_words,
    probabilities,
)
from epic_memory.types import FloatArray
from fitting import WRITTEN, Array, write_weights, written

# A statement of a person counts more than one of a life that was made.
PEOPLE, MADE = 1.0, 0.35
RIDGE = 1.0
DRAWS, SLOTS_A_LIFE = 4, 14
FOLDS, PARTS = 8, 4


class Slot(NamedTuple):
    """Sentences about one thing: with its first value, with a second, that it is over; and questions."""

    first: list[str]
    new: list[str]
    over: list[str]
    ask: list[str]


class Case(NamedTuple):
    """A statement beside the facts that are held, or a question.

    Attributes:
        text: The statement or question.
        held: The facts.
        kind: What the statement does, or "insert"; "answer" for a question.
        place: The fact that it does it to, or that answers; None for none.
        weight: How much it counts.
        features: Beside each fact.
        alone: Of the statement itself.
    """

    text: str
    held: tuple[str, ...]
    kind: str
    place: int | None
    weight: float
    features: FloatArray
    alone: FloatArray


def slots() -> list[Slot]:
    """The slots of our own."""
    made: list[Slot] = []
    for line in (WRITTEN / "slots.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            made.append(Slot([], [], [], []))
        else:
            place = {">": 1, "x": 2, "?": 3}.get(line[0], 0) if line[1] == " " else 0
            made[-1][place].append(line[2:] if place else line)
    return made


def lives(of: Sequence[Slot], seed: int) -> Iterator[dict[str, Any]]:
    """Make lives of slots at random, in the form of the files."""
    draw = random.Random(seed)
    order = list(of)
    draw.shuffle(order)
    for start in range(0, len(order), SLOTS_A_LIFE):
        chosen = order[start : start + SLOTS_A_LIFE]
        events = []
        for number, slot in enumerate(chosen):
            steps = [("insert", slot.first)]
            if len(slot.first) > 1 and draw.random() < 0.4:
                steps.append(("duplicate", slot.first))
            if slot.new and draw.random() < 0.85:
                steps.append(("replace", slot.new))
                if len(slot.new) > 1 and draw.random() < 0.35:
                    steps.append(("duplicate", slot.new))
            if slot.over and draw.random() < (0.4 if slot.new else 0.7):
                steps.append(("end", slot.over))
            times = sorted(draw.random() for _ in steps)
            events += [(time, number, *step) for time, step in zip([0.6 * times[0], *times[1:]], steps, strict=True)]
        statements: list[dict[str, Any]] = []
        holds: dict[int, int] = {}
        for _, number, does, texts in sorted(events, key=lambda event: event[:2]):
            text = draw.choice([text for text in texts if text not in {one["text"] for one in statements}])
            statements.append({"does": does, "about": holds.get(number), "text": text, "week": 1})
            if does in ("insert", "replace"):
                holds[number] = len(statements) - 1
            elif does == "end":
                del holds[number]
        questions = [
            {"question": text, "answer": holds.get(number), "week": 1}
            for number, slot in enumerate(chosen)
            for text in slot.ask
        ]
        yield {"statements": statements, "questions": questions}


def cases(life: dict[str, Any], weight: float, strange: Sequence[str]) -> Iterator[Case]:
    """Yield the statements and the questions of a life, each with the facts that should be held at its time."""
    held: list[int] = []
    statements, number = life["statements"], 0

    def texts() -> tuple[str, ...]:
        return tuple(statements[place]["text"] for place in held)

    for week in range(1, 13):
        while number < len(statements) and statements[number]["week"] <= week:
            one = statements[number]
            place = held.index(one["about"]) if one["about"] in held else None
            kind = one["does"] if place is not None else "insert"
            if held:
                features, alone = beside(one["text"], fact_words(texts()))
                yield Case(one["text"], texts(), kind, place, weight, features, alone)
            if place is not None and kind in ("replace", "end"):
                del held[place]
            if one["does"] in ("insert", "replace"):
                held.append(number)
            number += 1
        questions = [(one["question"], one["answer"]) for one in life["questions"] if one["week"] == week]
        for question, answer in [*questions, *((one, None) for one in (strange if week == 12 else ()))] if held else ():
            place = held.index(answer) if answer in held else None
            features = asked(question, fact_words(texts()))
            yield Case(question, texts(), "answer", place, weight, features, np.zeros(0, dtype=np.float32))


def fitted(found: Sequence[Case]) -> dict[str, FloatArray]:
    """Fit the weights: of what a statement does, and of which fact answers a question."""
    does = [case for case in found if case.kind != "answer"]
    size = len(BESIDE)

    def statements(weights: Array) -> tuple[float, Array]:
        table, alone = weights[: 3 * size].reshape(3, size), weights[3 * size :]
        loss, slope = 0.0, np.zeros_like(weights)
        for case in does:
            scores = np.concatenate([[case.alone @ alone], (case.features @ table.T).ravel()])
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            right = 0 if case.place is None else 1 + 3 * case.place + KINDS.index(case.kind)  # type: ignore[arg-type]
            loss -= case.weight * float(np.log(max(shares[right], 1e-12)))
            shares[right] -= 1.0
            shares *= case.weight
            slope[3 * size :] += shares[0] * case.alone
            slope[: 3 * size] += (shares[1:].reshape(-1, 3).T @ case.features).ravel()
        return loss + RIDGE / 2.0 * float(weights @ weights), slope + RIDGE * weights

    questions = [case for case in found if case.kind == "answer"]

    def answers(weights: Array) -> tuple[float, Array]:
        loss, slope = 0.0, np.zeros_like(weights)
        for case in questions:
            scores = np.concatenate([[0.0], case.features @ weights])
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            right = 0 if case.place is None else 1 + case.place
            loss -= case.weight * float(np.log(max(shares[right], 1e-12)))
            shares[right] -= 1.0
            slope += case.weight * (shares[1:] @ case.features)
        return loss + RIDGE / 2.0 * float(weights @ weights), slope + RIDGE * weights

    options = {"jac": True, "method": "L-BFGS-B", "options": {"maxiter": 200}}
    weights = minimize(statements, np.zeros(3 * size + len(ALONE)), **options).x
    made = {kind: weights[place * size : (place + 1) * size] for place, kind in enumerate(KINDS)}
    made["insert"] = weights[3 * size :]
    made["answer"] = minimize(answers, np.zeros(len(ASKED)), **options).x
    return {name: row.astype(np.float32) for name, row in made.items()}


def checked(
    groups: Sequence[Sequence[Case]], others: Sequence[Case], name: str
) -> tuple[list[str], dict[str, list[int]]]:
    """Print how often each kind is right in a group, fitted on the other groups; return what was wrong, and counts."""
    counts, asked_of, wrong = Counter[tuple[str, str]](), Counter[str](), []
    for number, group in enumerate(groups):
        rest = [case for place, other in enumerate(groups) if place != number for case in other]
        weights = fitted([*rest, *others])
        for case in group:
            if case.kind == "answer":
                scores = case.features @ weights["answer"]
                first = int(scores.argmax())
                kind = "none" if case.place is None else "one"
                asked_of[kind] += 1
                asked_of[f"{kind}, right"] += scores[first] < 0.0 if case.place is None else first == case.place
                if case.place is not None and first != case.place:
                    wrong.append(f"? {case.text} -> {case.held[first]}  ({case.held[case.place]})")
                continue
            shares = probabilities(case.features, case.alone, weights)
            match = decided(case.text, fact_words(case.held), case.features, shares)
            done = "insert" if match is None else match.kind
            if match is not None and match.place != case.place:
                done = "other"
            counts[case.kind, done] += 1
            if done != case.kind:
                at = "" if match is None else case.held[match.place]
                right = "" if case.place is None else case.held[case.place]
                wrong.append(f"{case.kind} -> {done} [{at}]: {case.text}  ({right})")
    done_as = ("insert", *KINDS, "other")
    print(f"{name}\n    should be" + "".join(f"{kind:>11}" for kind in done_as))
    for kind in ("insert", *KINDS):
        print(f"    {kind:9}" + "".join(f"{counts[kind, done]:11}" for done in done_as))
    print("    questions: " + ", ".join(f"{kind} {count}" for kind, count in asked_of.items()))
    right_of = {kind: [counts[kind, kind], sum(counts[kind, done] for done in done_as)] for kind in ("insert", *KINDS)}
    answers = {f"questions, {kind}": [asked_of[f"{kind}, right"], asked_of[kind]] for kind in ("one", "none")}
    return wrong, right_of | answers


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--check", action="store_true", help="print what holds for people and slots left out")
    made.add_argument("--wrong", action="store_true", help="and what was wrong")
    options = made.parse_args()
    own = slots()
    people = [*written("lives_a.jsonl"), *written("lives_b.jsonl")]
    strange = [life["questions"][place]["question"] for life in people for place in (0, 4)]
    of_people = [[*cases(life, PEOPLE, random.Random(n).sample(strange, 6))] for n, life in enumerate(people)]
    parts = [[slot for place, slot in enumerate(own) if place // 4 % PARTS == part] for part in range(PARTS)]
    of_slots = [
        [
            case
            for seed in range(DRAWS)
            for life in lives(part, seed)
            for case in cases(life, MADE, strange[seed : seed + 4])
        ]
        for part in parts
    ]
    everyone = [case for group in of_people for case in group]
    every_slot = [case for group in of_slots for case in group]
    judged = {}
    if options.check:
        folds = [[case for group in of_people[fold::FOLDS] for case in group] for fold in range(FOLDS)]
        for name, groups, others in (
            ("people left out, two at a time", folds, every_slot),
            ("slots left out, a quarter at a time", of_slots, everyone),
        ):
            wrong, judged[f"{name}: right, of all"] = checked(groups, others, name)
            print("\n".join(wrong) if options.wrong else "")
    weights = {name: [round(float(one), 3) for one in row] for name, row in fitted([*everyone, *every_slot]).items()}
    write_weights(
        FactWeights,
        "shared/tools/fit_facts.py",
        weights,
        on="written/lives_a.jsonl, written/lives_b.jsonl, written/slots.txt",
        judged=judged,
    )
    for name, columns in (("answer", ASKED), ("insert", ALONE)):
        print(name, ", ".join(f"{column} {one:.2f}" for column, one in zip(columns, weights[name], strict=True)))


if __name__ == "__main__":
    main()
