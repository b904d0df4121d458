"""Command line: epic eval run, peers and more; `epic eval MEMORY QUESTIONS` for one's own memory."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

from epic_eval.answering import CONTEXTS, MAX_TOKENS
from epic_eval.arms import ARMS, WITHOUT_MODEL
from epic_eval.asking import ask, export_requests, plain_name
from epic_eval.asking import import_answers as take_answers
from epic_eval.datasets import SETS, Data, read_data
from epic_eval.experiments import tables
from epic_eval.experiments.retrieval import Retrieval
from epic_eval.experiments.scores import Scores
from epic_eval.journal import Journal
from epic_eval.judge import Judge, labelled_set
from epic_eval.makers import CONDITIONS, SIZE, Made, Maker, read_pairs, write_pairs
from epic_eval.metrics import Nearness
from epic_eval.report import Part, Report, Table, Text, aligned
from epic_eval.stages import Folder, Slot, accuracy_parts
from epic_memory import __version__
from epic_memory.encoders import encoder_of
from epic_memory.errors import InvalidInputError, MissingExtraError
from epic_memory.lm import LanguageModel, lm_of
from epic_memory.lm.by_name import NAMES

_Seed = Annotated[int, Option()]
_K = Annotated[int, Option("-k", help="passages in a context")]
_DataFolder = Annotated[str, Argument(metavar="DATA", help="the data folder (docs/data.md)")]
_Out = Annotated[str, Option(metavar="FOLDER", help="journals and reports; run again to go on")]
_Votes = Annotated[int, Option(help="readings of each check, odd")]
_Scenes = Annotated[int, Option(help="of ours, with 5 labelled answers each")]
_AnswersBy = Annotated[str, Option(metavar="MODEL", help="whose answers, as in answers.jsonl")]
_Named = Annotated[str, Option(metavar="NAME", help="under which name its answers are kept")]


class Stage(str, Enum):
    """Kinds of questions to a model elsewhere."""

    answers = "answers"
    judge = "judge"


@dataclass(kw_only=True)
class Model:
    """Options of commands that can ask a language model."""

    llm: Annotated[str | None, Option(metavar="MODEL", help=NAMES)] = None
    llm_url: Annotated[str | None, Option(metavar="URL", help="its server, such as http://localhost:8000/v1")] = None
    concurrency: Annotated[int | None, Option(metavar="N", help="calls at the same time (default 1)")] = None

    def lm(self) -> LanguageModel | None:
        """Return the model that was asked for, if one was."""
        if self.llm is None:
            return None
        key = os.environ.get("EPIC_LLM_KEY") or None
        lm = lm_of(self.llm, url=self.llm_url, api_key=key, concurrency=self.concurrency)
        lm.check()
        return lm

    def needed(self) -> LanguageModel:
        """Return the model; it is an error if none was named."""
        lm = self.lm()
        if lm is None:
            raise InvalidInputError("This asks a language model: say which with --llm. `export-prompts` needs none.")
        return lm


@dataclass(kw_only=True)
class Questions:
    """Options of what is read from the data folder, and who retrieves."""

    data: _DataFolder
    out: _Out
    sets: Annotated[str, Option(help="which sets, with commas between")] = ",".join(SETS)
    personas: Annotated[int, Option(help="the first ones of each set; 0 for all")] = 3
    questions: Annotated[int, Option(help="of each preference; 0 for all")] = 1
    passages: Annotated[int, Option(help="of the haystack; 0 for all")] = 3000
    encoder: Annotated[str, Option(help="for the arms")] = "static"
    seed: _Seed = 0
    k: _K = 5
    arms: Annotated[str, Option(help=f"with commas between: {', '.join(ARMS)}")] = ",".join(WITHOUT_MODEL)

    def read(self) -> Data:
        """Read them."""
        return read_data(
            self.data,
            sets=_names(self.sets),
            personas=self.personas or None,
            questions=self.questions or None,
            passages=self.passages or None,
            seed=self.seed,
        )


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
            yield (
                folder,
                folder.slots(
                    arms=_names(self.arms),
                    sets=_names(self.sets),
                    modes=_names(self.modes),
                    sample=self.sample,
                    seed=self.seed,
                    words=self.words,
                    max_tokens=self.max_tokens,
                    run=self.run,
                    lm=plain_name(lm),
                ),
            )


def add_commands(app: Typer, command: Callable[..., Callable[[Callable[..., None]], object]]) -> None:
    """Add the commands to an app, by a decorator that knows groups of options."""
    for run in (
        *(run_arms, answer, judge, accuracy, export_prompts, import_answers, experiments, peers, own, prompts),
        *(make_questions, make_preferences, make_personas),
    ):
        command(app, "run" if run is run_arms else None)(run)


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _show(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _header(data: Data, encoder: str, k: int, seed: int, more: str = "") -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f", load {os.getloadavg()[0]:.1f} when it began" if hasattr(os, "getloadavg") else ""
    sets = ", ".join(
        f"{d.name}: {len(d.personas)} personas, {sum(len(p.questions) for p in d.personas)} questions"
        for d in data.datasets
    )
    return (
        f"epic-memory {__version__}, encoder {encoder}, k {k}, seed {seed};"
        f" {sets}; {len(data.corpus)} passages ({data.documents} of them neither options nor labelled);"
        f" Python {platform.python_version()}, {cores} cores{load}{more}."
    )


def run_arms(
    questions: Questions,
    model: Model,
    judge_encoder: Annotated[str | None, Option(help="judges `coverage`; default: the arms' own")] = None,
    no_tau: Annotated[bool, Option("--no-tau", help="without Table 5")] = False,
) -> None:
    """Retrieve with every arm, and print the papers' tables with the measures of tier 0."""
    for package in ("bm25s", "matplotlib"):
        # Before anything is retrieved, which takes minutes.
        if find_spec(package) is None:
            raise MissingExtraError(package, "eval")
    started, data, out = time.perf_counter(), questions.read(), questions.out
    arms, encoder = _names(questions.arms), encoder_of(questions.encoder)
    nearest = encoder_of(judge_encoder or questions.encoder)
    own = "" if judge_encoder else " (the arms' own: not independent of them)"
    more = f"; coverage judged by {nearest.name}{own}"
    header = _header(data, questions.encoder, questions.k, questions.seed, more)
    tau_arms = [] if no_tau else list(tables.TAU_ARMS)
    retrieval = Retrieval(data, encoder, out, k=questions.k, seed=questions.seed, lm=model.lm(), say=_say)
    try:
        retrieval.ask([*arms, *tau_arms])
        nearness = Nearness(nearest)
        scores = Scores(retrieval, arms, nearness)
        report = Report("EPIC's evaluation, tier 0: no model answered, nothing here is an accuracy", [Text(header)])
        report.parts += tables.papers_tables(
            scores, Scores(retrieval, tau_arms, nearness) if tau_arms else None, Path(out)
        )
    finally:
        retrieval.close()
    _finish(report, out, "report")
    _show(f"{time.perf_counter() - started:.0f} s")


def answer(slots: Slots, model: Model) -> None:
    """Have a language model answer the questions from what was retrieved."""
    lm = model.needed()
    with slots.opened(lm.name) as (folder, chosen):
        _show(str(ask(lm, [slot.request for slot in chosen], folder.answers)))


def judge(slots: Slots, model: Model, answers_by: _AnswersBy, votes: _Votes = 1, scenes: _Scenes = 40) -> None:
    """Have a language model judge the answers, and our labelled ones."""
    lm = model.needed()
    with slots.opened(answers_by) as (folder, chosen):
        judging = Judge(lm.name, folder.verdicts, votes=votes)
        judgements = folder.judgements(chosen, plain_name(answers_by))
        _show(str(judging.run(lm, [*judgements, *(each.judgement for each in labelled_set(scenes))])))


def accuracy(
    slots: Slots,
    answers_by: _AnswersBy,
    judged_by: Annotated[str, Option(metavar="MODEL", help="whose verdicts")],
    votes: _Votes = 1,
) -> None:
    """Print the accuracies of answers that were judged, as Table 2, for each context mode."""
    with slots.opened(answers_by) as (folder, chosen):
        judge = Judge(plain_name(judged_by), folder.verdicts, votes=votes)
        parts = accuracy_parts(folder, chosen, plain_name(answers_by), judge)
    _finish(Report("Preference following, answered and judged", parts), slots.out, "accuracy")


def export_prompts(
    slots: Slots,
    file: Annotated[str, Argument(metavar="FILE", help="the JSON lines to write")],
    model: _Named,
    stage: Annotated[Stage, Option()] = Stage.answers,
    shards: Annotated[int, Option(metavar="N", help="into N files, FILE_1 and so on")] = 1,
    answers_by: Annotated[str | None, Option(metavar="MODEL", help="for the stage judge: whose answers")] = None,
    votes: _Votes = 1,
    scenes: _Scenes = 40,
) -> None:
    """Write what a model should answer as JSON lines, so that any model can answer elsewhere."""
    model = plain_name(model)
    with slots.opened(answers_by or model) as (folder, chosen):
        if stage is Stage.answers:
            journal, requests = folder.answers, [slot.request for slot in chosen]
        else:
            if answers_by is None:
                raise InvalidInputError("--answers-by MODEL says whose answers are to be judged.")
            judgements = folder.judgements(chosen, plain_name(answers_by))
            judgements += [each.judgement for each in labelled_set(scenes)]
            journal, requests = folder.verdicts, Judge(model, folder.verdicts, votes=votes).missing(judgements)
        written = export_requests(requests, model, journal, Path(file), shards=shards)
    for name, count in written.items():
        _show(f"{name}: {count} prompts")
    _show('Answer each with a line {"key": ..., "answer": ...}.')
    if requests and stage is Stage.judge:
        _show("Export again when these are imported: whether a preference is made up is asked after its quote.")


def import_answers(
    out: Annotated[str, Argument(metavar="FOLDER", help="the folder of `epic eval run`")],
    files: Annotated[list[str], Argument(metavar="FILE", help="JSON lines with `key` and `answer`")],
    model: _Named,
    stage: Annotated[Stage, Option()] = Stage.answers,
) -> None:
    """Take back answers to what export-prompts wrote."""
    with closing(Folder(out)) as folder:
        journal = folder.answers if stage is Stage.answers else folder.verdicts
        count = sum(take_answers(Path(file), plain_name(model), journal) for file in files)
    _show(f"{count} new answers of {model}")


def experiments(
    data: _DataFolder,
    out: _Out,
    which: Annotated[
        str, Option(help="preferences, bytes, dilution, surface, contradictions, injected, unrelated, stream")
    ] = "",
    of: Annotated[str, Option("--set", help="of personas")] = "PrefEval",
    personas: Annotated[int, Option(help="the first ones; 0 for all")] = 3,
    passages: Annotated[int, Option(help="of the haystack; 0 for all")] = 1500,
    encoder: Annotated[str, Option()] = "static",
    seed: _Seed = 0,
) -> None:
    """Run our own experiments: preferences, bytes, dilution, noise, contradictions, others' questions, streams."""
    from epic_eval.experiments.ours import Experiments

    started = time.perf_counter()
    given: Any = {"sets": [of], "passages": passages or None, "seed": seed}
    read = read_data(data, personas=personas or None, **given)
    pool = read_data(data, personas=None, **given)
    known = Experiments(read, pool, encoder_of(encoder), Path(out), seed=seed, say=_say).all()
    chosen = _names(which) or list(known)
    if unknown := [name for name in chosen if name not in known]:
        raise InvalidInputError(f"There is no experiment {unknown[0]!r}. There are {', '.join(known)}.")
    header = Text(_header(read, encoder, 5, seed))
    parts: list[Part] = [header, *(part for name in chosen for part in known[name]())]
    _finish(Report("Experiments of ours, tier 0", parts), out, "experiments")
    _show(f"{time.perf_counter() - started:.0f} s")


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
    name = "no model" if lm is None else lm.name
    if lm is not None:
        journal = None if out is None else Journal(Path(out) / "verdicts.jsonl")
        verifier = LMVerifier(lm)
        said[name] = scored.ask(verifier, notes, encoder, journal=journal, seconds=seconds or None, say=_say)
        if journal is not None:
            journal.close()
    parts = [scored.table(said, notes), *scored.shortcomings(notes, said[name])]
    _finish(Report("Prompts", parts), out, "prompts")


@dataclass(kw_only=True)
class Making(Model):
    """Options of commands that have a model make data."""

    source: Annotated[str, Argument(metavar="FILE", help="one text a line; for make-personas what the others wrote")]
    to: Annotated[str, Argument(metavar="TO", help="the file to write; TO.journal keeps the model's answers")]

    def maker(self) -> Maker:
        """Return the maker."""
        return Maker(self.needed(), Journal(f"{self.to}.journal"), _say)

    def lines(self) -> list[str]:
        """Return the texts."""
        try:
            return [line.strip() for line in Path(self.source).read_text("utf-8").splitlines() if line.strip()]
        except OSError as error:
            raise InvalidInputError(f"{self.source} cannot be read: {error.strerror}.") from None

    def write(self, made: Made) -> None:
        """Write what was made."""
        write_pairs(made.pairs, Path(self.to))
        _show(f"{self.to}: {len(made.pairs)} preferences with questions; {len(made.dropped)} dropped")


def make_questions(making: Making) -> None:
    """Have a model write questions for preferences."""
    preferences = making.lines()
    making.write(making.maker().questions(preferences))


def make_preferences(
    making: Making, conditions: Annotated[str, Option(help="which make a pair invalid")] = "1,2,3"
) -> None:
    """Have a model write preferences for questions."""
    questions, chosen = making.lines(), [int(one) for one in _names(conditions)]
    if not set(chosen) <= set(CONDITIONS):
        raise InvalidInputError(f"--conditions takes numbers out of {CONDITIONS}.")
    making.write(making.maker().preferences(questions, conditions=chosen))


def make_personas(making: Making, seed: _Seed = 0) -> None:
    """Draw personas whose preferences do not conflict, as a model sees it."""
    pairs = read_pairs(Path(making.source))
    made = making.maker().personas(pairs, seed=seed)
    Path(making.to).write_text(json.dumps(made, ensure_ascii=False, indent=1), encoding="utf-8")
    _show(f"{making.to}: {len(made)} personas of {SIZE} preferences")


def own(
    memory: Annotated[str, Argument(metavar="MEMORY", help="the memory's file")],
    questions: Annotated[str, Argument(metavar="QUESTIONS", help="JSON lines with `question`, perhaps `preference`")],
    model: Model,
    out: Annotated[str | None, Option(metavar="FOLDER", help="for the report, and for a model's answers")] = None,
    encoder: Annotated[str | None, Option(help="the memory's; default: the bundled one that made it")] = None,
    namespace: Annotated[str, Option(help="whose memory, in a file of several users")] = "default",
    k: _K = 5,
    votes: _Votes = 1,
    agreement: Annotated[bool, Option("--agreement", help="also measure the judge, by our labelled answers")] = False,
) -> None:
    """Look at a memory of your own: what its questions find, what is never used, what answers follow."""
    from epic_eval.own import follow, look, read_questions
    from epic_memory import EpicMemory, Settings

    lm = model.lm()
    if lm is not None and out is None:
        raise InvalidInputError("--out FOLDER is where the model's answers are kept, so that none is asked for twice.")
    settings = Settings(namespace=namespace, must_exist=True, read_only=True)
    with EpicMemory.open(memory, encoder=encoder, settings=settings) as opened:
        found = look(opened, read_questions(questions, list(opened.preferences.aspects())), k)
    parts = found.parts()
    if lm is not None and out is not None:
        parts += follow(found, lm, Path(out), votes=votes, measured=agreement)
    _finish(Report(f"Evaluation of {Path(memory).name}", parts), out, "own")


def peers(
    data: _DataFolder,
    out: _Out,
    sizes: Annotated[str, Option(help="numbers of texts")] = "1000,10000",
    only: Annotated[str, Option(help="names of peers, with ; between")] = "",
    seconds: Annotated[float, Option(help="how long each may take")] = 600.0,
) -> None:
    """Measure other stores beside ours, with the same texts and encoder, in one run."""
    from epic_eval.peers import measure_all, peers_report
    from epic_eval.stores import PEERS

    names = [name.strip() for name in only.split(";") if name.strip()] or list(PEERS)
    if unknown := [name for name in names if name not in PEERS]:
        raise InvalidInputError(f"There is no peer {unknown[0]!r}. There are: {'; '.join(PEERS)}.")
    if not (Path(data) / "personas").is_dir():
        raise InvalidInputError(f"{data} is no folder with data (docs/data.md says what it holds).")
    counts, work = [int(size) for size in _names(sizes)], Path(out) / "peers"
    made = measure_all(Path(data), work, counts, names=names, seconds=seconds, say=_say)
    shutil.rmtree(work, ignore_errors=True)
    _finish(Report("Peers", peers_report(made)), out, "peers")


def _finish(report: Report, out: str | None, name: str) -> None:
    for part in report.parts:
        if isinstance(part, Table):
            _show(aligned(part))
        elif isinstance(part, Text):
            _show(f"\n{part.text}")
    if out is not None:
        _show("\n" + ", ".join(map(str, report.write(out, name))))
