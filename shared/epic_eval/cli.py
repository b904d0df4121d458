"""Command line: epic eval run, peers and more; `epic eval MEMORY QUESTIONS` for one's own memory."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from epic_eval.answering import CONTEXTS, MAX_TOKENS
from epic_eval.arms import ARMS, WITHOUT_MODEL
from epic_eval.asking import ask, export_requests, import_answers
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


def main(arguments: Sequence[str]) -> None:
    """Run a command of `epic eval`.

    Raises:
        EpicError: for what the user can correct.
    """
    arguments = list(arguments)
    if arguments and not arguments[0].startswith("-") and arguments[0] not in _COMMANDS:
        arguments.insert(0, "own")
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], None] = options.run
    run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="epic eval",
        description="The papers' evaluation. `epic eval MEMORY QUESTIONS` looks at a memory of your own.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (add, run) in _COMMANDS.items():
        made = commands.add_parser(name, help=(run.__doc__ or "").splitlines()[0])
        add(made)
        made.set_defaults(run=run)
    return parser


def _data_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help="the data folder (docs/data.md)")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="journals and reports; run again to go on")
    parser.add_argument("--sets", default=",".join(SETS), help="which sets, with commas between")
    parser.add_argument("--personas", type=int, default=3, help="the first ones of each set; 0 for all (default 3)")
    parser.add_argument("--questions", type=int, default=1, help="of each preference; 0 for all (default 1)")
    parser.add_argument("--passages", type=int, default=3000, help="of the haystack; 0 for all (default 3000)")
    parser.add_argument("--encoder", default="static", help="for the arms")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-k", type=int, default=5, help="passages in a context (default 5)")
    parser.add_argument("--arms", default=",".join(WITHOUT_MODEL), help=f"with commas between: {', '.join(ARMS)}")
    _model_options(parser)


def _model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--llm", metavar="MODEL", help=NAMES)
    parser.add_argument("--llm-url", metavar="URL", help="its server, such as http://localhost:8000/v1")
    parser.add_argument("--concurrency", type=int, metavar="N", help="calls at the same time (default 1)")


def _model(options: argparse.Namespace, name: str | None = None) -> LanguageModel | None:
    chosen = name or options.llm
    if chosen is None:
        return None
    key = os.environ.get("EPIC_LLM_KEY") or None
    lm = lm_of(chosen, url=options.llm_url, api_key=key, concurrency=options.concurrency)
    lm.check()
    return lm


def _needed_model(options: argparse.Namespace) -> LanguageModel:
    lm = _model(options)
    if lm is None:
        raise InvalidInputError("This asks a language model: say which with --llm. `export-prompts` needs none.")
    return lm


def _data(options: argparse.Namespace) -> Data:
    return read_data(
        options.data,
        sets=_names(options.sets),
        personas=options.personas or None,
        questions=options.questions or None,
        passages=options.passages or None,
        seed=options.seed,
    )


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _show(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _header(options: argparse.Namespace, data: Data, more: str = "") -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f", load {os.getloadavg()[0]:.1f} when it began" if hasattr(os, "getloadavg") else ""
    sets = ", ".join(
        f"{d.name}: {len(d.personas)} personas, {sum(len(p.questions) for p in d.personas)} questions"
        for d in data.datasets
    )
    return (
        f"epic-memory {__version__}, encoder {options.encoder}, k {options.k}, seed {options.seed};"
        f" {sets}; {len(data.corpus)} passages ({data.documents} of them neither options nor labelled);"
        f" Python {platform.python_version()}, {cores} cores{load}{more}."
    )


def _run_options(parser: argparse.ArgumentParser) -> None:
    _data_options(parser)
    parser.add_argument("--tier", type=int, choices=(0,), default=0, help="0: no model answers or judges")
    parser.add_argument("--judge-encoder", metavar="ENCODER", help="judges `coverage`; default: the arms' own")
    parser.add_argument("--no-tau", action="store_true", help="without Table 5")


def _run(options: argparse.Namespace) -> None:
    """Retrieve with every arm, and print the papers' tables with the measures of tier 0."""
    for package in ("bm25s", "matplotlib"):
        # Before anything is retrieved, which takes minutes.
        if find_spec(package) is None:
            raise MissingExtraError(package, "eval")
    started, data = time.perf_counter(), _data(options)
    arms, encoder = _names(options.arms), encoder_of(options.encoder)
    judge = encoder_of(options.judge_encoder or options.encoder)
    own = "" if options.judge_encoder else " (the arms' own: not independent of them)"
    header = _header(options, data, f"; coverage judged by {judge.name}{own}")
    tau_arms = [] if options.no_tau else list(tables.TAU_ARMS)
    retrieval = Retrieval(data, encoder, options.out, k=options.k, seed=options.seed, lm=_model(options), say=_say)
    try:
        retrieval.ask([*arms, *tau_arms])
        nearness = Nearness(judge)
        scores = Scores(retrieval, arms, nearness)
        report = Report("EPIC's evaluation, tier 0: no model answered, nothing here is an accuracy", [Text(header)])
        report.parts += tables.papers_tables(
            scores, Scores(retrieval, tau_arms, nearness) if tau_arms else None, Path(options.out)
        )
    finally:
        retrieval.close()
    _finish(report, options.out, "report")
    _show(f"{time.perf_counter() - started:.0f} s")


def _slot_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", metavar="FOLDER", help="the folder of `epic eval run`")
    parser.add_argument("--arms", default="", help="with commas between, ARM or ARM:MODE; default: all that retrieved")
    parser.add_argument("--sets", default="", help="with commas between; default: all")
    parser.add_argument("--modes", default=",".join(CONTEXTS), help="how contexts are shown (default all three)")
    parser.add_argument("--sample", type=int, metavar="N", help="only N questions, the same for all arms")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--words", type=int, metavar="N", help="ask for answers of at most N words")
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS, help=f"of an answer (default {MAX_TOKENS})")


def _slots(folder: Folder, options: argparse.Namespace) -> list[Slot]:
    return folder.slots(
        arms=_names(options.arms),
        sets=_names(options.sets),
        modes=_names(options.modes),
        sample=options.sample,
        seed=options.seed,
        words=options.words,
        max_tokens=options.max_tokens,
    )


def _answer_options(parser: argparse.ArgumentParser) -> None:
    _slot_options(parser)
    _model_options(parser)


def _answer(options: argparse.Namespace) -> None:
    """Have a language model answer the questions from what was retrieved."""
    with closing(Folder(options.out)) as folder:
        _show(str(ask(_needed_model(options), [slot.request for slot in _slots(folder, options)], folder.answers)))


def _judge_options(parser: argparse.ArgumentParser) -> None:
    _answer_options(parser)
    parser.add_argument("--answers-by", metavar="MODEL", required=True, help="whose answers, as in answers.jsonl")
    parser.add_argument("--votes", type=int, default=1, help="readings of each check, odd (default 1)")
    _scenes_option(parser)


def _judge(options: argparse.Namespace) -> None:
    """Have a language model judge the answers, and our labelled ones."""
    lm = _needed_model(options)
    with closing(Folder(options.out)) as folder:
        judge = Judge(lm.name, folder.verdicts, votes=options.votes)
        judgements = folder.judgements(_slots(folder, options), options.answers_by)
        _show(str(judge.run(lm, [*judgements, *(each.judgement for each in labelled_set(options.scenes))])))


def _accuracy_options(parser: argparse.ArgumentParser) -> None:
    _slot_options(parser)
    parser.add_argument("--answers-by", metavar="MODEL", required=True, help="whose answers")
    parser.add_argument("--judged-by", metavar="MODEL", required=True, help="whose verdicts")
    parser.add_argument("--votes", type=int, default=1)


def _accuracy(options: argparse.Namespace) -> None:
    """Print the accuracies of answers that were judged, as Table 2, for each context mode."""
    with closing(Folder(options.out)) as folder:
        judge = Judge(options.judged_by, folder.verdicts, votes=options.votes)
        parts = accuracy_parts(folder, _slots(folder, options), options.answers_by, judge)
    _finish(Report("Preference following, answered and judged", parts), options.out, "accuracy")


def _export_options(parser: argparse.ArgumentParser) -> None:
    _slot_options(parser)
    parser.add_argument("file", metavar="FILE", help="the JSON lines to write")
    parser.add_argument("--shards", type=int, default=1, metavar="N", help="into N files, FILE_1 and so on")
    parser.add_argument("--answers-by", metavar="MODEL", help="for the stage judge: whose answers are judged")
    parser.add_argument("--votes", type=int, default=1)
    _scenes_option(parser)
    _stage_options(parser)


def _scenes_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenes", type=int, default=40, help="of ours, with 5 labelled answers each (default 40)")


def _import_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", metavar="FOLDER", help="the folder of `epic eval run`")
    parser.add_argument("files", metavar="FILE", nargs="+", help="JSON lines with `key` and `answer`")
    _stage_options(parser)


def _stage_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stage", choices=("answers", "judge"), default="answers", help="(default answers)")
    parser.add_argument("--model", required=True, metavar="NAME", help="under which name its answers are kept")


def _export_prompts(options: argparse.Namespace) -> None:
    """Write what a model should answer as JSON lines, so that any model can answer elsewhere."""
    with closing(Folder(options.out)) as folder:
        slots, path = _slots(folder, options), Path(options.file)
        if options.stage == "answers":
            journal, requests = folder.answers, [slot.request for slot in slots]
        else:
            if options.answers_by is None:
                raise InvalidInputError("--answers-by MODEL says whose answers are to be judged.")
            judge = Judge(options.model, folder.verdicts, votes=options.votes)
            judgements = folder.judgements(slots, options.answers_by)
            judgements += [each.judgement for each in labelled_set(options.scenes)]
            journal, requests = folder.verdicts, judge.missing(judgements)
        written = export_requests(requests, options.model, journal, path, shards=options.shards)
    for file, count in written.items():
        _show(f"{file}: {count} prompts")
    _show('Answer each with a line {"key": ..., "answer": ...}.')
    if requests and options.stage == "judge":
        _show("Export again when these are imported: whether a preference is made up is asked after its quote.")


def _import_answers(options: argparse.Namespace) -> None:
    """Take back answers to what export-prompts wrote."""
    with closing(Folder(options.out)) as folder:
        journal = folder.answers if options.stage == "answers" else folder.verdicts
        count = sum(import_answers(Path(file), options.model, journal) for file in options.files)
    _show(f"{count} new answers of {options.model}")


def _experiments_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help="the data folder (docs/data.md)")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="journals, plots and the report")
    parser.add_argument(
        "--which", default="", help="preferences, bytes, dilution, surface, contradictions, injected, unrelated, stream"
    )
    parser.add_argument("--set", default="PrefEval", help="of personas (default PrefEval)")
    parser.add_argument("--personas", type=int, default=3, help="the first ones; 0 for all (default 3)")
    parser.add_argument("--passages", type=int, default=1500, help="of the haystack; 0 for all (default 1500)")
    parser.add_argument("--encoder", default="static")
    parser.add_argument("--seed", type=int, default=0)


def _experiments(options: argparse.Namespace) -> None:
    """Run our own experiments: preferences, bytes, dilution, noise, contradictions, others' questions, streams."""
    from epic_eval.experiments.ours import Experiments

    started = time.perf_counter()
    given: Any = {"sets": [options.set], "passages": options.passages or None, "seed": options.seed}
    data = read_data(options.data, personas=options.personas or None, **given)
    pool = read_data(options.data, personas=None, **given)
    encoder, out = encoder_of(options.encoder), Path(options.out)
    experiments = Experiments(data, pool, encoder, out, seed=options.seed, say=_say).all()
    chosen = _names(options.which) or list(experiments)
    if unknown := [name for name in chosen if name not in experiments]:
        raise InvalidInputError(f"There is no experiment {unknown[0]!r}. There are {', '.join(experiments)}.")
    options.k, options.sets = 5, options.set
    parts: list[Part] = [Text(_header(options, data)), *(part for name in chosen for part in experiments[name]())]
    _finish(Report("Experiments of ours, tier 0", parts), options.out, "experiments")
    _show(f"{time.perf_counter() - started:.0f} s")


def _prompts_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pairs", metavar="FILE", help="labelled notes of your own; default: our 200 pairs")
    parser.add_argument("--out", metavar="FOLDER", help="for the report, and for verdicts: run again to go on")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long it may take; 0 for no end (default 120)")
    _model_options(parser)


def _prompts(options: argparse.Namespace) -> None:
    """Score a model, or without one the embedded verifier, on labelled pairs of notes and preferences."""
    from epic_eval.experiments import prompts
    from epic_memory.verification import EmbeddedVerifier, LMVerifier

    notes, encoder, lm = prompts.read_notes(options.pairs), encoder_of("static"), _model(options)
    embedded = EmbeddedVerifier(encoder)
    said = {"no model": prompts.ask(embedded, notes, encoder)}
    name = "no model" if lm is None else lm.name
    if lm is not None:
        journal = None if options.out is None else Journal(Path(options.out) / "verdicts.jsonl")
        verifier, seconds = LMVerifier(lm), options.seconds or None
        said[name] = prompts.ask(verifier, notes, encoder, journal=journal, seconds=seconds, say=_say)
        if journal is not None:
            journal.close()
    parts = [prompts.table(said, notes), *prompts.shortcomings(notes, said[name])]
    _finish(Report("Prompts", parts), options.out, "prompts")


def _make_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE", help="one text a line; for make-personas, what the others wrote")
    parser.add_argument("to", metavar="TO", help="the file to write; TO.journal keeps the model's answers")
    parser.add_argument("--seed", type=int, default=0, help="for make-personas")
    parser.add_argument("--conditions", default="1,2,3", help="for make-preferences: which make a pair invalid")
    _model_options(parser)


def _maker(options: argparse.Namespace) -> Maker:
    return Maker(_needed_model(options), Journal(f"{options.to}.journal"), _say)


def _lines(path: str) -> list[str]:
    try:
        return [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from None


def _made(made: Made, path: str) -> None:
    write_pairs(made.pairs, Path(path))
    _show(f"{path}: {len(made.pairs)} preferences with questions; {len(made.dropped)} dropped")


def _make_questions(options: argparse.Namespace) -> None:
    """Have a model write questions for preferences."""
    preferences = _lines(options.source)
    _made(_maker(options).questions(preferences), options.to)


def _make_preferences(options: argparse.Namespace) -> None:
    """Have a model write preferences for questions."""
    questions, conditions = _lines(options.source), [int(one) for one in _names(options.conditions)]
    if not set(conditions) <= set(CONDITIONS):
        raise InvalidInputError(f"--conditions takes numbers out of {CONDITIONS}.")
    _made(_maker(options).preferences(questions, conditions=conditions), options.to)


def _make_personas(options: argparse.Namespace) -> None:
    """Draw personas whose preferences do not conflict, as a model sees it."""
    pairs = read_pairs(Path(options.source))
    made = _maker(options).personas(pairs, seed=options.seed)
    Path(options.to).write_text(json.dumps(made, ensure_ascii=False, indent=1), encoding="utf-8")
    _show(f"{options.to}: {len(made)} personas of {SIZE} preferences")


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("memory", metavar="MEMORY", help="the memory's file")
    parser.add_argument("questions", metavar="QUESTIONS", help="JSON lines with `question`, perhaps `preference`")
    parser.add_argument("--out", metavar="FOLDER", help="for the report, and for a model's answers")
    parser.add_argument("--encoder", default="static", help="the memory's")
    parser.add_argument("--namespace", default="default", help="whose memory, in a file of several users")
    parser.add_argument("-k", type=int, default=5, help="passages in a context (default 5)")
    parser.add_argument("--votes", type=int, default=1, help="readings of each check, odd (default 1)")
    parser.add_argument("--agreement", action="store_true", help="also measure the judge, by our labelled answers")
    _model_options(parser)


def _own(options: argparse.Namespace) -> None:
    """Look at a memory of your own: what its questions find, what is never used, what answers follow."""
    from epic_eval.own import follow, look, read_questions
    from epic_memory import EpicMemory, Settings

    lm = _model(options)
    if lm is not None and options.out is None:
        raise InvalidInputError("--out FOLDER is where the model's answers are kept, so that none is asked for twice.")
    settings = Settings(namespace=options.namespace, must_exist=True, read_only=True)
    opened = EpicMemory.open(options.memory, encoder=options.encoder, settings=settings)
    with opened as memory:
        found = look(memory, read_questions(options.questions, list(memory.preferences.aspects())), options.k)
    parts = found.parts()
    if lm is not None:
        parts += follow(found, lm, Path(options.out), votes=options.votes, measured=options.agreement)
    _finish(Report(f"Evaluation of {Path(options.memory).name}", parts), options.out, "own")


def _peers_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help="the data folder (docs/data.md)")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="for the report")
    parser.add_argument("--sizes", default="1000,10000", help="numbers of texts (default 1000,10000)")
    parser.add_argument("--only", default="", help="names of peers, with ; between")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long each may take (default 600)")


def _peers(options: argparse.Namespace) -> None:
    """Measure other stores beside ours, with the same texts and encoder, in one run."""
    from epic_eval.peers import measure_all, peers_report
    from epic_eval.stores import PEERS

    names = [name.strip() for name in options.only.split(";") if name.strip()] or list(PEERS)
    if unknown := [name for name in names if name not in PEERS]:
        raise InvalidInputError(f"There is no peer {unknown[0]!r}. There are: {'; '.join(PEERS)}.")
    if not (Path(options.data) / "personas").is_dir():
        raise InvalidInputError(f"{options.data} is no folder with data (docs/data.md says what it holds).")
    sizes = [int(size) for size in _names(options.sizes)]
    work = Path(options.out) / "peers"
    made = measure_all(Path(options.data), work, sizes, names=names, seconds=options.seconds, say=_say)
    shutil.rmtree(work, ignore_errors=True)
    _finish(Report("Peers", peers_report(made)), options.out, "peers")


def _finish(report: Report, out: str | None, name: str) -> None:
    for part in report.parts:
        if isinstance(part, Table):
            _show(aligned(part))
        elif isinstance(part, Text):
            _show(f"\n{part.text}")
    if out is not None:
        _show("\n" + ", ".join(map(str, report.write(out, name))))


_COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], Callable[[Any], None]]] = {
    "run": (_run_options, _run),
    "answer": (_answer_options, _answer),
    "judge": (_judge_options, _judge),
    "accuracy": (_accuracy_options, _accuracy),
    "export-prompts": (_export_options, _export_prompts),
    "import-answers": (_import_options, _import_answers),
    "experiments": (_experiments_options, _experiments),
    "peers": (_peers_options, _peers),
    "own": (_own_options, _own),
    "prompts": (_prompts_options, _prompts),
    "make-questions": (_make_options, _make_questions),
    "make-preferences": (_make_options, _make_preferences),
    "make-personas": (_make_options, _make_personas),
}
