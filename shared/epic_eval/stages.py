"""Stages after retrieval: which questions are answered and judged, from the files of a run's folder."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Annotated, TypeAlias

from typer import Argument, Option

from epic_eval.agreement import agreement
from epic_eval.answering import CONTEXTS, MAX_TOKENS, Context, request_of
from epic_eval.asking import Request, answer_to, plain_name, sent_tokens
from epic_eval.journal import Journal, Record
from epic_eval.judge import OUTCOMES, Accuracy, Judge, Judged, Judgement, accuracy, correct
from epic_eval.metrics import paired
from epic_eval.options import names_in
from epic_eval.papers import accuracies, footnotes, letter
from epic_eval.report import Part, Table, Text
from epic_memory.errors import InvalidInputError

DEVIATIONS = (
    "Unlike the papers' code: a check that cannot be read is undecided, not passed (counted as wrong here; left out in"
    " brackets where that changes it); answers that failed are shown.",
    "Unlike the papers' code, too: a hallucination is asked after its quote is there; the answer is fenced as untrusted"
    " text; the prompts are worded anew.",
    "content: the texts alone; guided: with what the arm says beside them, as the paper's EPIC; told: the texts and all"
    " of the user's preferences, for all arms alike.",
)


_BASE = ("dense", "content")
"""The arm and mode that accuracies are compared with."""


@dataclass(frozen=True)
class Slot:
    """One answer that is wanted: what was retrieved, and how it is shown."""

    record: Record
    mode: Context
    words: int | None = None
    max_tokens: int = MAX_TOKENS

    @property
    def request(self) -> Request:
        """The prompt."""
        return request_of(self.record, self.mode, words=self.words, max_tokens=self.max_tokens)

    def judgement(self, answer: str) -> Judgement:
        """Return what is to be judged."""
        return Judgement(self.record["preference"], self.record["question"], answer)


class Folder:
    """The files of a run: `retrieved.jsonl`, `answers.jsonl`, `judged.jsonl`.

    Args:
        folder: As `epic eval run` made it, or with its `retrieved.jsonl` alone.

    Raises:
        InvalidInputError: if nothing was retrieved there.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "retrieved.jsonl").exists():
            raise InvalidInputError(f"{folder} holds no retrieved.jsonl: `epic eval run DATA --out {folder}` makes it.")
        self.retrieved = Journal(self.folder / "retrieved.jsonl")
        with Journal(self.folder / "runs.jsonl") as runs:
            self.runs = {record["run"]: record["about"] for record in runs}
        self.answers = Journal(self.folder / "answers.jsonl")
        self.verdicts = Journal(self.folder / "judged.jsonl")

    def answered(self, slots: Iterable[Slot], model: str) -> list[tuple[Slot, str | None]]:
        """Return each slot with a model's answer, or None.

        Raises:
            InvalidInputError: if the model has answered nothing here.
        """
        known = dict.fromkeys(record["model"] for record in self.answers)
        if model not in known:
            raise InvalidInputError(f"{model!r} has answered nothing here. There are answers by {list(known)}.")
        return [(slot, answer_to(slot.request, model, self.answers)) for slot in slots]

    def judgements(self, slots: Iterable[Slot], model: str) -> list[Judgement]:
        """Return what is to be judged of a model's answers; an empty answer cannot be."""
        return [slot.judgement(answer) for slot, answer in self.answered(slots, model) if answer and answer.strip()]

    def close(self) -> None:
        """Close the files."""
        for journal in (self.retrieved, self.answers, self.verdicts):
            journal.close()


@dataclass(kw_only=True)
class Slots:
    """Options of what was retrieved, and which of it is answered."""

    out: Annotated[str, Argument(metavar="FOLDER", help="the folder of `epic eval run`")]
    arms: Annotated[str, Option(help="with commas between, ARM or ARM:MODE; default: all that retrieved")] = ""
    sets: Annotated[str, Option(help="with commas between; default: all")] = ""
    modes: Annotated[str, Option(help="how contexts are shown")] = ",".join(CONTEXTS)
    sample: Annotated[int | None, Option(metavar="N", help="only N questions, the same for all arms")] = None
    seed: Annotated[int, Option(help="of the sample")] = 0
    words: Annotated[int | None, Option(metavar="N", help="ask for answers of at most N words")] = None
    max_tokens: Annotated[int, Option(help="of an answer")] = MAX_TOKENS
    run: Annotated[str, Option(metavar="KEY", help="of several in the folder; default: the latest")] = ""

    @contextmanager
    def opened(self, lm: str = "") -> Iterator[tuple[Folder, list[Slot]]]:
        """Open the folder, with what is chosen of it, of the arms that asked a model."""
        with closing(Folder(self.out)) as folder:
            yield folder, self.chosen(folder, plain_name(lm))

    def chosen(self, folder: Folder, lm: str = "") -> list[Slot]:
        """Return the answers that are wanted, of one run in a folder; a sample has as many of each set and persona.

        Args:
            folder: The folder.
            lm: The model that arms asked; of arms that did not ask this one, the records of their latest are taken.

        Raises:
            InvalidInputError: for a run that is not there, an arm that has retrieved nothing, or a mode that does not
                exist.
        """
        records = list(folder.retrieved)
        keys = list(dict.fromkeys([*(record["run"] for record in records), *folder.runs]))
        if not (named := [key for key in keys if key.startswith(self.run)]):
            there = "; ".join(f"{key[:8]}: {folder.runs.get(key, '')}" for key in keys)
            raise InvalidInputError(f"There is no run {self.run!r} in {folder.folder}. There are {there}.")
        # Those in `runs.jsonl` are in the order in which they were last begun.
        records = [record for record in records if record["run"] == named[-1]]
        models: dict[str, str | None] = {}
        for record in records:
            if models.get(record["arm"]) != lm or not lm:
                models[record["arm"]] = record.get("lm")
        records = [record for record in records if record.get("lm") == models[record["arm"]]]
        known = list(dict.fromkeys(record["arm"] for record in records))
        sets, modes = names_in(self.sets), names_in(self.modes)
        wanted: dict[str, Sequence[str]] = {}
        for each in names_in(self.arms) or known:
            arm, _, mode = each.partition(":")
            if arm not in known:
                raise InvalidInputError(f"The arm {arm!r} has retrieved nothing here. There are {sorted(known)}.")
            wanted[arm] = [*wanted.get(arm, ()), *([mode] if mode else modes)]
        if wrong := [mode for chosen in wanted.values() for mode in chosen if mode not in CONTEXTS]:
            raise InvalidInputError(f"There is no context mode {wrong[0]!r}. There are {', '.join(CONTEXTS)}.")
        chosen = [record for record in records if record["arm"] in wanted and (not sets or record["set"] in sets)]
        if self.sample is not None:
            questions = sorted({_question(record) for record in chosen})
            random.Random(self.seed).shuffle(questions)
            even = _in_turn(_in_turn(questions, itemgetter(0, 1)), itemgetter(0))
            kept = set(even[: self.sample])
            chosen = [record for record in chosen if _question(record) in kept]
        return [
            Slot(record, mode, self.words, self.max_tokens)
            for record in chosen
            for mode in CONTEXTS
            if mode in wanted[record["arm"]]
        ]


_Question: TypeAlias = tuple[str, int, str]


def _question(record: Record) -> _Question:
    return record["set"], record["persona"], record["question"]


def _in_turn(questions: Iterable[_Question], group: Callable[[_Question], object]) -> list[_Question]:
    """Return the questions in another order: the first one of each group, then the second ones."""
    taken: Counter[object] = Counter()
    places = []
    for question in questions:
        places.append((taken[group(question)], question))
        taken[group(question)] += 1
    return [question for _, question in sorted(places, key=itemgetter(0))]


def accuracy_parts(folder: Folder, slots: Sequence[Slot], model: str, judge: Judge) -> list[Part]:
    """Build Table 2 with its context modes, the error types, and how far the judge can be trusted."""
    verdicts: dict[tuple[str, str, str], list[tuple[object, Judged | None]]] = {}
    for slot, answer in folder.answered(slots, model):
        found = None if not answer or not answer.strip() else judge.judged(slot.judgement(answer))
        place = (slot.record["arm"], slot.mode, slot.record["set"])
        verdicts.setdefault(place, []).append(((slot.record["set"], slot.record["persona"]), found))
    sets = list(dict.fromkeys(name for _, _, name in verdicts))
    trusted = agreement(judge)
    said = ", ".join(f"{name} {found}" for name, found in trusted.items())
    known = trusted["correct or not"].questions if trusted else 0
    figures, outcomes, base = [], [], [pair for name in sets for pair in verdicts.get((*_BASE, name), ())]
    for arm, mode in dict.fromkeys((arm, mode) for arm, mode, _ in verdicts):
        of = {name: verdicts.get((arm, mode, name), []) for name in sets}
        every = [pair for pairs in of.values() for pair in pairs]
        cells = [*map(_shown, of.values()), *([_shown(every)] if len(sets) > 1 else [])]
        figures.append((f"{arm}, {mode}", *cells, *accuracies(arm, sets)))
        overall, less = accuracy(every), paired(correct(every), correct(base))
        requests = [slot.request for slot in slots if slot.record["arm"] == arm and slot.mode == mode]
        tokens = sent_tokens(requests, model, folder.answers)
        counts = (str(overall.outcomes[kind]) for kind in OUTCOMES)
        size = "-" if tokens is None else f"{tokens:.0f}"
        more = "-" if less is None else "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * value for value in less))
        outcomes.append((f"{arm}, {mode}", f"{len(every)}", *counts, str(overall.failed), size, more))
    every_set = ("all %",) * (len(sets) > 1)
    header = ("arm, mode", *(f"{letter(n)} %" for n in sets), *every_set, *(f"paper {letter(n)}" for n in sets))
    kinds = ("arm, mode", "answers", *OUTCOMES, "failed", "prompt tokens", f"accuracy minus {', '.join(_BASE)}")
    note = (
        "Prompt tokens: the mean of an answer's prompt, by the server's count, or a quarter of its characters."
        " Differences are paired over personas."
    )
    return [
        Text(
            f"Answers by {model}; judged by {judge.model}, {judge.votes} vote(s) a check. Agreement of the judge with"
            f" {known} of our 200 labelled answers: {said or 'not measured, so read nothing into the figures'}."
        ),
        Table("Table 2: accuracy", header, tuple(figures)),
        Table("Outcomes", kinds, tuple(outcomes), (note,)),
        *map(Text, DEVIATIONS),
        *footnotes(),
    ]


def _shown(verdicts: Iterable[tuple[object, Judged | None]]) -> str:
    found: Accuracy = accuracy(verdicts)
    text = str(found)
    if found.missing is not None and found.wrong is not None and found.missing.mean != found.wrong.mean:
        text += f" ({100 * found.missing.mean:.1f} without them)"
    return text
