"""Command line: epic demo, build, ask and more; `files` and `preferences` add the other commands."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epic_core import __version__
from epic_core.cli.files import add_commands
from epic_core.cli.preferences import add_actions
from epic_core.errors import EpicError, InvalidInputError

if TYPE_CHECKING:
    from epic_core.lm import LanguageModel, OllamaLM, OpenAICompatibleLM
    from epic_core.memory import EpicMemory
    from epic_core.verification import Verifier

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ENCODERS = "static (default), sentence-transformers/NAME_OR_FOLDER, or ollama/MODEL"
_MODELS = "ollama/MODEL, or openai/MODEL with --llm-url"
_KEY = "EPIC_LLM_KEY"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0; 2 for an error that the user can correct; 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a character shows a question mark, not a traceback.
        sys.stdout.reconfigure(errors="replace")
    try:
        run: Callable[[argparse.Namespace], None] = options.run
        run(options)
        sys.stdout.flush()
    except EpicError as error:
        print(_visible(f"epic: {error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("epic: stopped. What was committed before is kept; run it again to go on.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has gone (`epic ask ... | head`): print nothing more, and avoid a traceback at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(_visible(f"epic: {error.filename or 'a file'}: {error.strerror or error}"), file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="epic", description="A memory that keeps what matters to one user.")
    parser.add_argument("--version", action="version", version=f"epic-memory {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="build a memory from the bundled corpus and ask it questions")
    demo.add_argument("--out", metavar="FILE", help="keep the memory in this file")
    demo.set_defaults(run=_demo)

    build = commands.add_parser("build", help="build a memory, or add to it")
    build.add_argument("--preferences", metavar="FILE", help="one preference a line; needed for a new memory")
    build.add_argument("--out", metavar="FILE", required=True, help="the memory's file")
    build.add_argument("--sync", action="store_true", help="change the file's preferences to those given")
    threshold = build.add_mutually_exclusive_group()
    threshold.add_argument("--tau", type=float, help="threshold of the coarse filter, a cosine")
    threshold.add_argument("--keep-rate", type=float, help="share of the first items that shall pass it, in (0, 1]")
    build.add_argument(
        "--reserve", metavar="SIZE", help='up to which size the file keeps what was not kept as text (default "1 MB")'
    )
    build.add_argument("--budget", metavar="SIZE", help='bytes the file never exceeds, such as "1 MB"')
    build.add_argument("--quiet", action="store_true", help="no progress bar")
    _verifying(build, expanding=True)
    build.add_argument("sources", nargs="+", metavar="SOURCE", help=".txt, .md, .jsonl, or folders of them")
    _common(build, path=False)
    build.set_defaults(run=_build)

    ask = commands.add_parser("ask", help="ask a memory")
    _common(ask)
    ask.add_argument("question")
    ask.add_argument("-k", type=int, default=5, help="how many items (default 5)")
    ask.add_argument("--steering", choices=("signed", "paper", "off"), help="how preferences steer the question")
    ask.add_argument("--stances", choices=("prefer", "only_supports", "any"), default="prefer", help="stance policy")
    ask.add_argument("--keys", choices=("both", "instruction"), default="both", help="what items are found by")
    ask.add_argument("--all", action="store_true", help="show the nearest items, even if none is relevant")
    ask.add_argument("--context", action="store_true", help="print what a model is given")
    ask.set_defaults(run=_ask)

    _looking(commands)

    retry = commands.add_parser("retry", help="verify the undecided items again")
    _common(retry)
    _verifying(retry)
    retry.set_defaults(run=_retry)

    reencode = commands.add_parser("reencode", help="embed a memory anew with the encoder given")
    _common(reencode)
    reencode.set_defaults(run=_reencode)

    preferences = commands.add_parser("preferences", help="list, show, add, remove, replace or correct preferences")
    _common(preferences)
    add_actions(preferences, _verifying, _open, _print)

    taken_in = commands.add_parser("import", help="make a memory of what `epic export` wrote")
    taken_in.add_argument("export", metavar="EXPORT", help="the lines of JSON")
    _common(taken_in)
    taken_in.set_defaults(run=_import)
    add_commands(commands, _common, _open, _print)
    return parser


def _looking(commands: Any) -> None:
    """Add the commands that show what a memory holds."""
    stats = commands.add_parser("stats", help="counts and sizes")
    _common(stats)
    stats.set_defaults(run=lambda options: _show(options, lambda memory: memory.stats()))

    explain = commands.add_parser("explain", help="why an item was kept")
    _common(explain)
    explain.add_argument("id", help="the item's id, as `epic ask` shows it")
    explain.set_defaults(run=lambda options: _show(options, lambda memory: memory.explain(options.id)))


def _visible(text: object) -> str:
    """Return text that may come from outside with a sign in place of control characters, which a terminal obeys."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text))


def _print(text: object) -> None:
    """Print text that may come from a document."""
    print(_visible(text))


class _Parser(argparse.ArgumentParser):
    """A parser whose messages show what was typed without control characters."""

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(_visible(message), file)


def _common(parser: argparse.ArgumentParser, *, path: bool = True) -> None:
    if path:
        parser.add_argument("memory", metavar="FILE", help="the memory's file")
    parser.add_argument("--encoder", default="static", help=_ENCODERS)
    parser.add_argument("--namespace", default="default", help="whose memory, in a file of several users")


def _verifying(parser: argparse.ArgumentParser, *, again: bool = False, expanding: bool = False) -> None:
    """Add the options of a language model; `again` for a parser below one that has them.

    With `expanding`, also add the option for a model that only reads preferences.
    """
    group = parser.add_argument_group(
        "verification by a language model", f"A key for the server, if it wants one, is read from {_KEY}."
    )

    def option(name: str, **settings: Any) -> None:
        group.add_argument(name, default=argparse.SUPPRESS if again else None, **settings)

    option("--llm", metavar="MODEL", help=f"{_MODELS}; without it, the embedded verifier decides")
    option("--llm-url", metavar="URL", help="the server: http://localhost:8000/v1 for openai/MODEL")
    option("--way", choices=("single", "paper", "batch"), help="how the model is asked (default single)")
    option("--refine", choices=("rewrite",), help="have kept items rewritten for their preferences")
    option("--concurrency", type=int, metavar="N", help="calls at the same time (default 1)")
    option("--timeout", type=float, metavar="S", help="seconds for an answer (default 120)")
    if expanding:
        group.add_argument(
            "--expand", metavar="MODEL", help="only reads preferences, and writes what they mean in practice; as --llm"
        )


def _verifier(options: argparse.Namespace) -> Verifier | None:
    """Return the verifier that the options ask for, once its server has answered; None without `--llm`."""
    if options.llm is None:
        asking = ("llm_url", "concurrency", "timeout") if _expanding(options) is None else ()
        given = [name for name in (*asking, "way", "refine") if vars(options)[name] is not None]
        if given:
            raise InvalidInputError(f"--{given[0].replace('_', '-')} says how a model is asked; --llm says which.")
        return None
    from epic_core.verification import LMVerifier

    return LMVerifier(_model(options.llm, options), way=options.way or "single", refine=options.refine)


def _expander(options: argparse.Namespace) -> LanguageModel | None:
    """Return the model that only reads preferences, if the options ask for one."""
    name = _expanding(options)
    return None if name is None else _model(name, options)


def _expanding(options: argparse.Namespace) -> str | None:
    name: str | None = vars(options).get("expand")
    return name


def _model(name: str, options: argparse.Namespace) -> OllamaLM | OpenAICompatibleLM:
    """Return the language model of a name, once its server has answered."""
    from epic_core.lm import lm_of

    key = os.environ.get(_KEY) or None
    lm = lm_of(name, url=options.llm_url, api_key=key, timeout=options.timeout, concurrency=options.concurrency)
    # Check before anything is written: with its server down, a whole corpus would end in the retry queue.
    lm.check()
    return lm


def _open(options: argparse.Namespace, *, read_only: bool = False) -> EpicMemory:
    from epic_core.memory import EpicMemory

    return EpicMemory.open(
        options.memory,
        encoder=options.encoder,
        verifier=_verifier(options) if "llm" in options else None,
        expander=_expander(options),
        namespace=options.namespace,
        must_exist=True,
        read_only=read_only,
    )


def _import(options: argparse.Namespace) -> None:
    from epic_core.memory import EpicMemory

    with EpicMemory.import_(
        options.export, options.memory, encoder=options.encoder, namespace=options.namespace
    ) as memory:
        _warn(memory)
        _print(f"{options.memory}: {len(memory)} items")


def _warn(memory: EpicMemory) -> None:
    """Print the warnings from making or opening a memory."""
    for warning in memory.opening_report.warnings:
        _print(f"warning: {warning}")


def _show(options: argparse.Namespace, what: Callable[[EpicMemory], object]) -> None:
    with _open(options) as memory:
        _print(what(memory))


def _demo(options: argparse.Namespace) -> None:
    from epic_core.cli.demo import run_demo

    for line in run_demo(options.out):
        _print(line)


def _build(options: argparse.Namespace) -> None:
    from epic_core.cli.sources import Sources, read_preferences
    from epic_core.memory import EpicMemory

    preferences = None if options.preferences is None else read_preferences(options.preferences)
    sources = Sources(options.sources)
    sources.files()  # a wrong path has to fail before anything is written
    if preferences is None and not Path(options.out).exists():
        raise InvalidInputError(f"{options.out} does not exist yet: give --preferences FILE to make it.")
    new = not Path(options.out).exists()
    with EpicMemory.open(
        options.out,
        preferences,
        sync=options.sync,
        encoder=options.encoder,
        verifier=_verifier(options),
        expander=_expander(options),
        namespace=options.namespace,
        tau=options.tau,
        keep_rate=options.keep_rate,
        budget=options.budget,
        reserve=options.reserve,
    ) as memory:
        opened = memory.opening_report
        if opened.read or opened.unread or opened.expanded:
            expanded = f", {opened.expanded} expanded" if opened.expanded else ""
            _print(f"{opened.read} preferences read by the model, {len(opened.unread)} not{expanded}")
        _warn(memory)
        try:
            report = memory.add(sources, progress=not options.quiet)
        except EpicError:
            counts = memory.stats().counts
            if new and not (counts["items"] or counts["light"] or counts["pending"]):
                # Only the preferences were committed, and the user has those.
                memory.close()
                Path(options.out).unlink()
            raise
        _print(report)
        for skipped in sources.skipped:
            _print(f"skipped: {skipped}")
        size = memory.stats().bytes["total"]
        _print(f"{options.out}: {len(memory)} items, {size / 1e6:.3f} MB")


def _ask(options: argparse.Namespace) -> None:
    with _open(options) as memory:
        hits = memory.search(
            options.question,
            options.k,
            steering=options.steering,
            stance_policy=options.stances,
            keys=options.keys,
            min_score=None if options.all else "auto",
        )
        if options.context:
            from epic_core.context import format_context

            _print(format_context(hits))
            return
        if not hits:
            empty = not memory.stats().counts["light"] and not len(memory)
            _print("Nothing in this memory yet." if empty else "Nothing relevant in this memory.")
        for number, hit in enumerate(hits, start=1):
            _print(f"{number}. {hit.score:.3f}  {hit.item.id}" + ("" if hit.tier == "memory" else f"  ({hit.tier})"))
            for entry in hit.entries:
                _print(f"   [{entry.stance}] {entry.preference}")
                if entry.instruction:
                    _print(f"   {entry.instruction}")
            _print(f"   {hit.text}\n")
        for preference, similarity, weight in hits.steered_by:
            _print(f"steered by ({weight:.2f}, cosine {similarity:.2f}): {preference}")


def _reencode(options: argparse.Namespace) -> None:
    from epic_core.memory import EpicMemory

    with EpicMemory.open(
        options.memory,
        encoder=options.encoder,
        namespace=options.namespace,
        must_exist=True,
        reencode=True,
    ) as memory:
        _print(memory.stats())


def _retry(options: argparse.Namespace) -> None:
    with _open(options) as memory:
        made_by = memory.stats().verified_by
        if options.llm is None and made_by is not None:
            raise InvalidInputError(
                f"These items wait for a language model ({made_by}). Say which decides: epic retry FILE --llm MODEL"
            )
        _print(memory.retry(progress=True))


if __name__ == "__main__":
    sys.exit(main())
