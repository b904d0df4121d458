"""Command line: epic eval run, table and more; `epic eval MEMORY QUESTIONS` for one's own memory."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from epic_eval import options
from epic_eval.agreement import labelled_set
from epic_eval.arms import ARMS, WITHOUT_MODEL
from epic_eval.asking import ask, export_requests, plain_name
from epic_eval.asking import import_answers as take_answers
from epic_eval.corpora import SIZES
from epic_eval.corpora import make_corpus as write_corpus
from epic_eval.datasets import Data
from epic_eval.experiments import tables
from epic_eval.experiments.making import FIGURES, TABLES, Making
from epic_eval.experiments.retrieval import Retrieval
from epic_eval.experiments.scores import Scores
from epic_eval.journal import Journal
from epic_eval.judge import Judge
from epic_eval.makers import CONDITIONS, SIZE, Made, Maker, read_pairs, write_pairs
from epic_eval.options import Model, Questions, Stage, check_extra, names_in, say, show
from epic_eval.report import Report, Table, Text, aligned
from epic_eval.stages import Folder, Slots, accuracy_parts
from epic_memory import __version__
from epic_memory.encoders import encoder_of
from epic_memory.errors import InvalidInputError


def add_commands(app: Typer, command: Callable[..., Callable[[Callable[..., None]], object]]) -> None:
    """Add the commands to an app, by a decorator that knows groups of options."""
    for run in (
        *(run_arms, table, all_, answer, judge, accuracy, export_prompts, import_answers, own, prompts),
        *(make_questions, make_preferences, make_personas, make_corpus),
    ):
        command(app, "run" if run is run_arms else None)(run)


def _header(data: Data, encoder: str, k: int, seed: int) -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f", load {os.getloadavg()[0]:.1f} when it began" if hasattr(os, "getloadavg") else ""
    sets = ", ".join(
        f"{d.name}: {len(d.personas)} personas, {sum(len(p.questions) for p in d.personas)} questions"
        for d in data.datasets
    )
    return (
        f"epic-memory {__version__}, encoder {encoder}, k {k}, seed {seed};"
        f" {sets}; {len(data.corpus)} passages ({data.documents} of them neither options nor labelled);"
        f" Python {platform.python_version()}, {cores} cores{load}."
    )


def run_arms(
    questions: Questions,
    model: Model,
    arms: Annotated[str, Option(help=f"with commas between: {', '.join(ARMS)}")] = ",".join(WITHOUT_MODEL),
    no_tau: Annotated[bool, Option("--no-tau", help="without Table 5")] = False,
) -> None:
    """Retrieve with every arm, and print the papers' tables with the measures of tier 0."""
    check_extra()
    started, data, out = time.perf_counter(), questions.read(), questions.out
    chosen, encoder = names_in(arms), encoder_of(questions.encoder)
    header = _header(data, questions.encoder, questions.k, questions.seed)
    tau_arms = [] if no_tau else list(tables.TAU_ARMS)
    retrieval = Retrieval(data, encoder, out, k=questions.k, seed=questions.seed, lm=model.lm(), say=say)
    try:
        retrieval.ask([*chosen, *tau_arms])
        scores = Scores(retrieval, chosen)
        report = Report("EPIC's evaluation, tier 0: no model answered, nothing here is an accuracy", [Text(header)])
        report.parts += tables.papers_tables(scores, Scores(retrieval, tau_arms) if tau_arms else None, Path(out))
    finally:
        retrieval.close()
    _finish(report, out, "report")
    show(f"{time.perf_counter() - started:.0f} s")


def table(
    numbers: Annotated[str, Argument(metavar="N", help=f"which, with commas between: {', '.join((*TABLES, FIGURES))}")],
    making: Making,
) -> None:
    """Make tables of the papers: retrieve, answer, judge and print; run again to go on."""
    header = Text(_header(making.contents, making.encoder, making.k, making.seed))
    for number in names_in(numbers):
        _finish(Report(f"Table {number}", [header, *making.table(number)]), making.out, f"table_{number}")


def all_(making: Making) -> None:
    """Make all tables of the papers, one after the other; of some sets, those that are about one of them."""
    there = {data.name for data in making.contents.datasets}
    made = [name for name, spec in TABLES.items() if not there.isdisjoint(spec.sets)]
    if left := [name for name in TABLES if name not in made]:
        say(f"not made: {', '.join(left)}, about other sets (--sets)")
    table(",".join((*made, FIGURES)), making)


def answer(slots: Slots, model: Model) -> None:
    """Have a language model answer the questions from what was retrieved."""
    lm = model.needed()
    with slots.opened(lm.name) as (folder, chosen):
        show(str(ask(lm, [slot.request for slot in chosen], folder.answers)))


def judge(
    slots: Slots, model: Model, answers_by: options.AnswersBy, votes: options.Votes = 1, scenes: options.Scenes = 40
) -> None:
    """Have a language model judge the answers, and our labelled ones."""
    lm = model.needed()
    with slots.opened(answers_by) as (folder, chosen):
        judging = Judge(lm.name, folder.verdicts, votes=votes)
        judgements = folder.judgements(chosen, plain_name(answers_by))
        show(str(judging.run(lm, [*judgements, *(each.judgement for each in labelled_set(scenes))])))


def accuracy(
    slots: Slots,
    answers_by: options.AnswersBy,
    judged_by: Annotated[str, Option(metavar="MODEL", help="whose verdicts")],
    votes: options.Votes = 1,
) -> None:
    """Print the accuracies of answers that were judged, as Table 2, for each context mode."""
    with slots.opened(answers_by) as (folder, chosen):
        judge = Judge(plain_name(judged_by), folder.verdicts, votes=votes)
        parts = accuracy_parts(folder, chosen, plain_name(answers_by), judge)
    _finish(Report("Preference following, answered and judged", parts), slots.out, "accuracy")


def export_prompts(
    slots: Slots,
    file: Annotated[str, Argument(metavar="FILE", help="the JSON lines to write")],
    model: options.Named,
    stage: Annotated[Stage, Option()] = "answers",
    answers_by: Annotated[str | None, Option(metavar="MODEL", help="for the stage judge: whose answers")] = None,
    votes: options.Votes = 1,
    scenes: options.Scenes = 40,
) -> None:
    """Write what a model should answer as JSON lines, so that any model can answer elsewhere."""
    model = plain_name(model)
    with slots.opened(answers_by or model) as (folder, chosen):
        if stage == "answers":
            journal, requests = folder.answers, [slot.request for slot in chosen]
        else:
            if answers_by is None:
                raise InvalidInputError("--answers-by MODEL says whose answers are to be judged.")
            judgements = folder.judgements(chosen, plain_name(answers_by))
            judgements += [each.judgement for each in labelled_set(scenes)]
            journal, requests = folder.verdicts, Judge(model, folder.verdicts, votes=votes).missing(judgements)
        count = export_requests(requests, model, journal, Path(file))
    show(f"{file}: {count} prompts")
    show('Answer each with a line {"key": ..., "answer": ...}.')
    if requests and stage == "judge":
        show("Export again when these are imported: whether a preference is made up is asked after its quote.")


def import_answers(
    out: Annotated[str, Argument(metavar="FOLDER", help="the folder of `epic eval run`")],
    files: Annotated[list[str], Argument(metavar="FILE", help="JSON lines with `key` and `answer`")],
    model: options.Named,
    stage: Annotated[Stage, Option()] = "answers",
) -> None:
    """Take back answers to what export-prompts wrote."""
    with closing(Folder(out)) as folder:
        journal = folder.answers if stage == "answers" else folder.verdicts
        count = sum(take_answers(Path(file), plain_name(model), journal) for file in files)
    show(f"{count} new answers of {model}")


def prompts(
    model: Model,
    pairs: Annotated[str | None, Option(metavar="FILE", help="labelled notes of your own; default: our 200")] = None,
    out: Annotated[str | None, Option(metavar="FOLDER", help="for report and verdicts: run again to go on")] = None,
    seconds: Annotated[float, Option(help="how long it may take; 0 for no end")] = 120.0,
) -> None:
    """Score a model, or without one the embedded verifier, on labelled pairs of notes and preferences."""
    from epic_eval.experiments import prompts as scored
    from epic_memory.verification import EmbeddedVerifier, LMVerifier

    notes, encoder, lm = scored.read_notes(pairs), encoder_of("static"), model.lm()
    said = {"no model": scored.ask(EmbeddedVerifier(encoder), notes, encoder)}
    if lm is not None:
        journal = None if out is None else Journal(Path(out) / "verdicts.jsonl")
        verifier = LMVerifier(lm)
        said[lm.name] = scored.ask(verifier, notes, encoder, journal=journal, seconds=seconds or None, say=say)
        if journal is not None:
            journal.close()
    _finish(Report("Prompts", [scored.table(said, notes)]), out, "prompts")


@dataclass(kw_only=True)
class MadeData(Model):
    """Options of commands that have a model make data."""

    source: Annotated[str, Argument(metavar="FILE", help="one text a line; for make-personas what the others wrote")]
    to: Annotated[str, Argument(metavar="TO", help="the file to write; TO.journal keeps the model's answers")]

    def maker(self) -> Maker:
        """Return the maker."""
        return Maker(self.needed(), Journal(f"{self.to}.journal"), say)

    def lines(self) -> list[str]:
        """Return the texts."""
        try:
            return [line.strip() for line in Path(self.source).read_text("utf-8").splitlines() if line.strip()]
        except OSError as error:
            raise InvalidInputError(f"{self.source} cannot be read: {error.strerror}.") from None

    def write(self, made: Made) -> None:
        """Write what was made."""
        write_pairs(made.pairs, Path(self.to))
        show(f"{self.to}: {len(made.pairs)} preferences with questions; {len(made.dropped)} dropped")


def make_questions(making: MadeData) -> None:
    """Have a model write questions for preferences."""
    preferences = making.lines()
    making.write(making.maker().questions(preferences))


def make_preferences(
    making: MadeData, conditions: Annotated[str, Option(help="which make a pair invalid")] = "1,2,3"
) -> None:
    """Have a model write preferences for questions."""
    questions, chosen = making.lines(), [int(one) for one in names_in(conditions)]
    if not set(chosen) <= set(CONDITIONS):
        raise InvalidInputError(f"--conditions takes numbers out of {CONDITIONS}.")
    making.write(making.maker().preferences(questions, conditions=chosen))


def make_personas(making: MadeData, seed: options.Seed = 0) -> None:
    """Draw personas whose preferences do not conflict, as a model sees it."""
    pairs = read_pairs(Path(making.source))
    made = making.maker().personas(pairs, seed=seed)
    Path(making.to).write_text(json.dumps(made, ensure_ascii=False, indent=1), encoding="utf-8")
    show(f"{making.to}: {len(made)} personas of {SIZE} preferences")


def make_corpus(
    kind: Annotated[str, Argument(metavar="KIND", help=", ".join(SIZES))],
    to: Annotated[str, Argument(metavar="TO", help="the file to write, NAME_passages.jsonl in the data folder")],
    sources: Annotated[list[str], Argument(metavar="FILE", help="JSON lines, or folders of them (docs/data.md)")],
    count: Annotated[int | None, Option(metavar="N", help="how many; default: as in the papers")] = None,
    seed: options.Seed = 0,
) -> None:
    """Make a corpus of Wikipedia, ELI5's documents, or windows of LMSYS's conversations, of files that you have."""
    made = write_corpus(kind, sources, Path(to), count=count, seed=seed)
    show(f"{to}: {made} lines")


def own(
    memory: Annotated[str, Argument(metavar="MEMORY", help="the memory's file")],
    questions: Annotated[str, Argument(metavar="QUESTIONS", help="JSON lines with `question`, perhaps `preference`")],
    model: Model,
    out: Annotated[str | None, Option(metavar="FOLDER", help="for the report, and for a model's answers")] = None,
    encoder: Annotated[str | None, Option(help="the memory's; default: the bundled one that made it")] = None,
    namespace: Annotated[str, Option(help="whose memory, in a file of several users")] = "default",
    k: options.K = 5,
    votes: options.Votes = 1,
    agreement: Annotated[bool, Option("--agreement", help="also measure the judge, by our labelled answers")] = False,
) -> None:
    """Look at a memory of your own: what its questions find, what is never used, what answers follow."""
    from epic_eval.own import follow, look, read_questions
    from epic_memory import EpicMemory, Settings
    from epic_memory.groups.file import is_locked

    lm = model.lm()
    if lm is not None and out is None:
        raise InvalidInputError("--out FOLDER is where the model's answers are kept, so that none is asked for twice.")
    # A file that is not locked takes no key.
    key = os.environ.get("EPIC_KEY") if is_locked(memory) else None
    settings = Settings(namespace=namespace, must_exist=True, read_only=True, key=key)
    with EpicMemory.open(memory, encoder=encoder, settings=settings) as opened:
        found = look(opened, read_questions(questions, list(opened.preferences.aspects())), k)
    parts = found.parts()
    if lm is not None and out is not None:
        parts += follow(found, lm, Path(out), votes=votes, measured=agreement)
    _finish(Report(f"Evaluation of {Path(memory).name}", parts), out, "own")


def _finish(report: Report, out: str | None, name: str) -> None:
    for part in report.parts:
        if isinstance(part, Table):
            show(aligned(part))
        elif isinstance(part, Text):
            show(f"\n{part.text}")
    if out is not None:
        show(f"\n{report.write(out, name)}")
