"""Making of the papers' tables: arms retrieve, a model answers, another one judges, for one or several backbones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, cast

from typer import Option

from epic_eval.agreement import agreement, labelled_set
from epic_eval.answering import CONTEXTS, Context
from epic_eval.arms import BY_MODEL, asks_model
from epic_eval.arms.hippo import why_missing
from epic_eval.asking import JournalledLM, answer_to, ask
from epic_eval.datasets import SETS
from epic_eval.experiments import tables
from epic_eval.experiments.retrieval import Retrieval
from epic_eval.experiments.scores import Scores
from epic_eval.experiments.streaming import stream
from epic_eval.journal import Journal, Record
from epic_eval.judge import Judge
from epic_eval.options import Model, Questions, Scenes, Votes, check_extra, say
from epic_eval.papers import footnotes
from epic_eval.report import Part, Table, Text
from epic_eval.stages import DEVIATIONS, Slot
from epic_memory.encoders import encoder_of
from epic_memory.errors import InvalidInputError, LMError
from epic_memory.lm import LanguageModel
from epic_memory.lm.by_name import NAMES


@dataclass(frozen=True)
class Spec:
    """A table of the papers.

    Attributes:
        build: Makes it of scores.
        arms: Its rows; what ends in "*" is verified, or written, by the model if there is one.
        sets: Whose personas are asked.
        judged: Whether it shows accuracy.
    """

    build: Callable[[Scores], Sequence[Part]]
    arms: tuple[str, ...]
    sets: tuple[str, ...] = SETS
    judged: bool = True


_HIPPO = ("HippoRAG 2", "HippoRAG 2+F", "HippoRAG 2+C+F", "EPIC+HippoRAG 2")
_GRAPHS = ("graph", "graph+F*", "graph+C+F*", "EPIC+graph*")
_WRITTEN = ("append-lite", "Pref-QR-lite", "PBR-lite")
_ROWS = ("none", "BM25", "dense", "raptor-lite*", "graph", _HIPPO[0], *_WRITTEN, "EPIC*", "EPIC signed*", "EPIC ours*")
TABLES: dict[str, Spec] = {
    "2": Spec(lambda scores: [*tables.table2(scores), *footnotes()], _ROWS),
    "3": Spec(lambda scores: [tables.table9(scores)], ("EPIC*",), judged=False),
    "4": Spec(lambda scores: [tables.table4(scores)], ("dense", "C", "F*", "S", "C+F*", "EPIC*", "EPIC ours*")),
    "5": Spec(lambda scores: [tables.table5(scores)], tuple(arm.replace(" ", "* ") for arm in tables.TAU_ARMS)),
    "6": Spec(lambda scores: [tables.table6(scores)], _ROWS, SETS[:1], judged=False),
    "7": Spec(lambda scores: [tables.table7(scores)], _ROWS, judged=False),
    "8": Spec(lambda scores: [tables.table8(scores)], _ROWS, SETS[:1], judged=False),
    "9": Spec(lambda scores: [tables.table9(scores)], ("EPIC*",), judged=False),
    "12": Spec(lambda scores: [tables.table12(scores, ["12"])], ("MemoryBank-lite*", "EPIC*"), ("PrefEval",)),
    "13": Spec(lambda scores: [tables.table12(scores, ["13"])], ("BPR-lite", "RaBitQ", "EPIC*"), ("PrefWiki",)),
    "14": Spec(lambda scores: [tables.table12(scores, ["14"])], (*_GRAPHS, *_HIPPO), ("PrefWiki",)),
}
FIGURES = "figures"  # 4 and 6, which are made together
NOT_RUN = (
    "Not run: NV-Embed-v2 (7.8 billion parameters; `--encoder sentence-transformers/nvidia/NV-Embed-v2` makes the row"
    " `dense` of it), HippoRAG 1 (its package holds HippoRAG 2 only), and the earlier version's tables (its rewriter is"
    " not part of this project). Names in -lite are ours in the place of the papers': k-means in two levels for"
    " RAPTOR's mixtures and recursion, prompts of ours for Pref-QR and PBR, no learnt hash for BPR."
)


@dataclass(kw_only=True)
class Making(Questions):
    """Maker of tables, by its options; what was asked, answered and judged in its folder is not asked again."""

    llm: Annotated[
        list[str] | None, Option(metavar="MODEL", help=f"verifies, writes and answers; repeat it for several: {NAMES}")
    ] = None
    judge: Annotated[str | None, Option(metavar="MODEL", help="judges; without it no figure is an accuracy")] = None
    concurrency: Annotated[int | None, Option(metavar="N", help="calls at the same time (default 1)")] = None
    votes: Votes = 1
    scenes: Scenes = 40
    mode: Annotated[str, Option(help=f"what of a context is shown: {', '.join(CONTEXTS)}")] = "guided"
    words: Annotated[int | None, Option(metavar="N", help="ask for answers of at most N words")] = None

    def __post_init__(self) -> None:
        check_extra()
        if self.judge is not None and not self.llm:
            raise InvalidInputError("--judge judges answers: say with --llm which model answers.")
        if self.mode not in CONTEXTS:
            raise InvalidInputError(f"There is no context mode {self.mode!r}. There are {', '.join(CONTEXTS)}.")
        self.lms = [Model(llm=name, concurrency=self.concurrency).needed() for name in self.llm or ()]
        self.judge_lm = Model(llm=self.judge, concurrency=self.concurrency).lm()
        self.contents, self.folder, self.arms_encoder = self.read(), Path(self.out), encoder_of(self.encoder)

    def table(self, name: str) -> list[Part]:
        """Make a table, with all backbones side by side.

        Raises:
            InvalidInputError: for a name that is none, or if the data has no set of the table.
            LMError: if a model fails; run again, it goes on from there.
        """
        if name not in (*TABLES, FIGURES):
            raise InvalidInputError(f"There is no table {name!r}. There are {', '.join((*TABLES, FIGURES))}.")
        made = {lm.name if lm is not None else "": self._one(name, lm) for lm in self.lms or (None,)}
        return beside(made)

    def _one(self, name: str, lm: LanguageModel | None) -> list[Part]:
        judge_lm = self.judge_lm
        if name == FIGURES:
            judging = None
            if lm is not None and judge_lm is not None:
                judging = partial(self._accuracies, lm=lm, judge_lm=judge_lm)
            with Journal(self.folder / "asked.jsonl") as asked:
                model = None if lm is None else JournalledLM(lm, asked)
                return stream(self.contents, self.arms_encoder, self.folder, self.seed, model, say, judging)
        spec = TABLES[name]
        data = replace(self.contents, datasets=tuple(d for d in self.contents.datasets if d.name in spec.sets))
        if not data.datasets:
            raise InvalidInputError(f"Table {name} is about {', '.join(spec.sets)}: name it with --sets.")
        arms, notes = _arms(spec, lm)
        retrieval = Retrieval(data, self.arms_encoder, self.folder, k=self.k, seed=self.seed, lm=lm, say=say)
        with closing(retrieval):
            retrieval.ask(arms)
            scores = Scores(retrieval, arms)
            if lm is not None and judge_lm is not None and spec.judged:
                asked_of = [(arm, *each) for arm in arms for each in retrieval.results(arm)]
                shares, said = self._accuracies([record for _, _, record in asked_of], lm, judge_lm)
                for (arm, question, _), share in zip(asked_of, shares, strict=True):
                    if share is not None:
                        scores.add(arm, question, "accuracy", share)
                notes = [*said, *notes]
            return [*spec.build(scores), *tables.model_table(scores), *map(Text, notes)]

    def _accuracies(
        self, records: Sequence[Record], lm: LanguageModel, judge_lm: LanguageModel
    ) -> tuple[list[float | None], list[str]]:
        """Have the backbone answer from records and the judge judge; return 100 or 0, None for failures, and notes."""
        slots = [Slot(record, cast(Context, self.mode), self.words) for record in records]
        with Journal(self.folder / "answers.jsonl") as answers, Journal(self.folder / "judged.jsonl") as verdicts:
            answering = ask(lm, [slot.request for slot in slots], answers)
            say(f"answers by {lm.name}: {answering}")
            texts = [answer_to(slot.request, lm.name, answers) or "" for slot in slots]
            judge = Judge(judge_lm.name, verdicts, votes=self.votes)
            judgements = [slot.judgement(text) for slot, text in zip(slots, texts, strict=True)]
            known = [judgement for judgement in judgements if judgement.answer.strip()]
            judging = judge.run(judge_lm, [*known, *(each.judgement for each in labelled_set(self.scenes))])
            say(f"verdicts by {judge_lm.name}: {judging}")
            found = [judge.judged(one) if one.answer.strip() else None for one in judgements]
            trusted = ", ".join(f"{name} {share}" for name, share in agreement(judge).items())
        outcomes = [None if one is None or not one.complete else one.outcome for one in found]
        if not any(outcomes):
            reasons = {**answering.failures, **judging.failures}
            raise LMError(f"No answer was judged: {next(iter(reasons), 'all are empty')}. Run it again to go on.")
        note = (
            f"Answers by {lm.name}, context mode {self.mode}; judged by {judge_lm.name}, {self.votes} vote(s) a check."
            f" Of {len(slots)} answers {outcomes.count(None)} failed, and are left out, and"
            f" {outcomes.count('undecided')} are undecided, and count as wrong. Agreement of the judge with our"
            f" labelled answers: {trusted or 'not measured (--scenes)'}."
        )
        shares = [None if outcome is None else 100.0 * (outcome == "correct") for outcome in outcomes]
        return shares, [DEVIATIONS[1], note]


def _arms(spec: Spec, lm: LanguageModel | None) -> tuple[list[str], list[str]]:
    """Return a table's arms, and notes on those that are left out."""
    arms = [arm.replace("*", "" if lm is None else BY_MODEL) for arm in spec.arms]
    notes = [NOT_RUN] if len(arms) == len(_ROWS) else []
    if lm is None and (writing := [arm for arm in arms if asks_model(arm)]):
        notes.append(f"Without a model (--llm): no {', '.join(writing)}.")
        arms = [arm for arm in arms if arm not in writing]
    if (real := [arm for arm in arms if arm in _HIPPO]) and (reason := why_missing()):
        notes.append(f"No {', '.join(real)}: {reason}")
        arms = [arm for arm in arms if arm not in real]
    return arms, notes


def beside(made: Mapping[str, Sequence[Part]]) -> list[Part]:
    """Return the parts of several backbones, with tables of the same title joined by their first column.

    A column in which all backbones agree, as the papers', stands there once.
    """
    if len(made) == 1:
        return list(*made.values())
    parts: dict[str, dict[str, Part]] = {}
    for model, those in made.items():
        for part in those:
            parts.setdefault(part.text if isinstance(part, Text) else part.title, {})[model] = part
    joined: list[Part] = []
    for of in parts.values():
        found = {model: part for model, part in of.items() if isinstance(part, Table)}
        joined += [_joined(found)] if len(found) > 1 else [next(iter(of.values()))]
    return joined


def _joined(of: Mapping[str, Table]) -> Table:
    first = next(iter(of.values()))
    names = list(dict.fromkeys(row[0] for table in of.values() for row in table.rows))
    columns: dict[str, dict[str, tuple[str, ...]]] = {}
    for model, table in of.items():
        cells = {row[0]: row for row in table.rows}
        for place, head in enumerate(table.header[1:], start=1):
            columns.setdefault(head, {})[model] = tuple(cells[n][place] if n in cells else "-" for n in names)
    agreed = {head for head, found in columns.items() if len(found) == len(of) and len(set(found.values())) == 1}
    shown = {f"{model}: {head}": columns[head][model] for model in of for head in columns if head not in agreed}
    shown |= {head: next(iter(found.values())) for head, found in columns.items() if head in agreed}
    rows = tuple((name, *(column[place] for column in shown.values())) for place, name in enumerate(names))
    notes = tuple(dict.fromkeys(note for table in of.values() for note in table.notes))
    return Table(first.title, (first.header[0], *shown), rows, notes)
