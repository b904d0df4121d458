"""Command line: epic demo, build, ask and more; `files`, `learning` and `preferences` add the other commands."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from epic_core import __version__
from epic_core.cli import apps, facts, files, forms, learning, rerank
from epic_core.cli.options import (
    Parser,
    add_command,
    add_verifying,
    asked_expander,
    asked_verifier,
    open_memory,
    show,
    visible,
)
from epic_core.cli.preferences import add_actions
from epic_core.errors import EpicError, InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from epic_core.filters import Filter
    from epic_core.memory import EpicMemory
    from epic_core.text.tagging import Tagger


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0; 2 for an error that the user can correct; 130 after Ctrl-C."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    # What follows `eval` is for another package, which the core does not know, and which has options of its own.
    options = argparse.Namespace(run=_eval, rest=given[1:]) if given[:1] == ["eval"] else _parser().parse_args(given)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a character shows a question mark, not a traceback.
        sys.stdout.reconfigure(errors="replace")
    try:
        run: Callable[[argparse.Namespace], None] = options.run
        run(options)
        sys.stdout.flush()
    except EpicError as error:
        print(visible(f"epic: {error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("epic: stopped. What was committed before is kept; run it again to go on.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has gone (`epic ask ... | head`): print nothing more, and avoid a traceback at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(visible(f"epic: {error.filename or 'a file'}: {error.strerror or error}"), file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="epic", description="A memory that keeps what matters to one user.")
    parser.add_argument("--version", action="version", version=f"epic-memory {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="build a memory from the bundled corpus and ask it questions")
    demo.add_argument("--out", metavar="FILE", help="keep the memory in this file")
    demo.set_defaults(run=_demo)

    build = add_command(commands, "build", _build, "build a memory, or add to it", path=False)
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
    build.add_argument("--tags", action="store_true", help="give items tags: names and noun phrases, for `ask --tag`")
    build.add_argument("--quiet", action="store_true", help="no progress bar")
    add_verifying(build, expanding=True)
    build.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="notes, documents, .jsonl, .json, or folders of them"
    )

    ask = add_command(commands, "ask", _ask, "ask a memory")
    ask.add_argument("question")
    ask.add_argument("-k", type=int, default=5, help="how many items (default 5)")
    ask.add_argument("--steering", choices=("signed", "paper", "off"), help="how preferences steer the question")
    ask.add_argument("--stances", choices=("prefer", "only_supports", "any"), default="prefer", help="stance policy")
    ask.add_argument("--keys", choices=("both", "instruction"), default="both", help="what items are found by")
    ask.add_argument(
        "--tag",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="only items with this tag or metadata; repeatable",
    )
    ask.add_argument("--all", action="store_true", help="show the nearest items, even if none is relevant")
    ask.add_argument("--context", action="store_true", help="print what a model is given")

    learning.add_commands(commands)
    files.add_shown(commands)
    add_verifying(add_command(commands, "retry", _retry, "verify the undecided items again"))
    add_command(commands, "reencode", _reencode, "embed a memory anew with the encoder given")
    about = "list, show, add, remove, replace or correct preferences"
    add_actions(add_command(commands, "preferences", None, about))
    facts.add_commands(commands)
    forms.add_commands(commands)
    rerank.add_commands(commands)
    export = add_command(commands, "import", _import, "make a memory of what `epic export` wrote", path=False)
    export.add_argument("export", metavar="EXPORT", help="the lines of JSON")
    export.add_argument("memory", metavar="FILE", help="the memory's file")
    files.add_commands(commands)
    commands.add_parser("eval", help="the papers' evaluation, and that of your own memory (extra: eval)")
    apps.add_commands(commands)
    return parser


def _eval(options: argparse.Namespace) -> None:
    try:
        run: Callable[[Sequence[str]], None] = import_module("epic_eval.cli").main
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "epic_eval", "eval") from None
    run(options.rest)


def _import(options: argparse.Namespace) -> None:
    from epic_core.memory import EpicMemory

    with EpicMemory.import_(
        options.export, options.memory, encoder=options.encoder, namespace=options.namespace
    ) as memory:
        _warn(memory)
        show(f"{options.memory}: {len(memory)} items")


def _warn(memory: EpicMemory) -> None:
    """Print the warnings from making or opening a memory."""
    for warning in memory.opening_report.warnings:
        show(f"warning: {warning}")


def _demo(options: argparse.Namespace) -> None:
    from epic_core.cli.demo import run_demo

    for line in run_demo(options.out):
        show(line)


def _tagger() -> Tagger:
    from epic_core.graph import PhraseTagger

    return PhraseTagger()


def _build(options: argparse.Namespace) -> None:
    from epic_core.cli.sources import Sources, read_preferences
    from epic_core.memory import EpicMemory

    preferences = None if options.preferences is None else read_preferences(options.preferences)
    sources = Sources(options.sources)
    sources.files()  # a wrong path has to fail before anything is written
    if preferences is None and not Path(options.out).exists():
        made = f"give --preferences FILE to make it, or make it by answering questions: epic onboard {options.out}"
        raise InvalidInputError(f"{options.out} does not exist yet: {made}.")
    new = not Path(options.out).exists()
    with EpicMemory.open(
        options.out,
        preferences,
        sync=options.sync,
        encoder=options.encoder,
        verifier=asked_verifier(options),
        expander=asked_expander(options),
        namespace=options.namespace,
        tau=options.tau,
        keep_rate=options.keep_rate,
        budget=options.budget,
        reserve=options.reserve,
        tagger=_tagger() if options.tags else None,
    ) as memory:
        opened = memory.opening_report
        if opened.read or opened.unread or opened.expanded:
            expanded = f", {opened.expanded} expanded" if opened.expanded else ""
            show(f"{opened.read} preferences read by the model, {len(opened.unread)} not{expanded}")
        _warn(memory)
        try:
            report = memory.add(sources, progress=not options.quiet)
        except EpicError:
            _remove_empty(memory, new)
            raise
        for skipped in sources.skipped:
            show(f"skipped: {skipped}")
        for failure in sources.failures:
            print(visible(f"skipped: {failure}"), file=sys.stderr)
        if sources.failures and not report.seen:
            _remove_empty(memory, new)
            raise InvalidInputError("Nothing could be read.")
        show(report)
        size = memory.stats().bytes["total"]
        show(f"{options.out}: {len(memory)} items, {size / 1e6:.3f} MB")
        if sources.failures:
            raise InvalidInputError(f"{options.out} holds all of the sources but what could not be read.")


def _remove_empty(memory: EpicMemory, new: bool) -> None:
    """Remove a new file in which only the preferences were committed: the user has those."""
    counts = memory.stats().counts
    if new and memory.path is not None and not (counts["items"] or counts["light"] or counts["pending"]):
        memory.close()
        memory.path.unlink()


def _tag_filter(given: Sequence[str]) -> Filter | None:
    """Return a filter for items that have all these tags, of metadata or of a tagger."""
    from epic_core.filters import Filter
    from epic_core.text.tagging import KINDS, PREFIX

    found: Filter | None = None
    for tag in given:
        name, equals, value = tag.partition("=")
        if not (name and equals and value):
            raise InvalidInputError(f"--tag takes NAME=VALUE, such as topic=travel, not {tag!r}.")
        kind = next((kind for kind in KINDS if name.lower() in (kind, kind[:-1], kind[:-3] + "y")), name)
        has = Filter.contains(name, value) | Filter.icontains(f"{PREFIX}{kind}", value)
        found = has if found is None else found & has
    return found


def _ask(options: argparse.Namespace) -> None:
    from epic_core.context import format_context, those_that_matter

    with open_memory(options) as memory:
        hits = memory.search(
            options.question,
            options.k,
            steering=options.steering,
            stance_policy=options.stances,
            filter=_tag_filter(options.tag),
            keys=options.keys,
            min_score=None if options.all else "auto",
        )
        if options.context:
            show(format_context(hits))
            return
        if not hits:
            held = len(memory) or memory.stats().counts["light"] or memory.facts()
            show("Nothing relevant in this memory." if held else "Nothing in this memory yet.")
            for stated in those_that_matter(hits.matters):
                show(f"But you said: {stated}")
        if not memory.preferences:
            some = f"epic onboard {options.memory}, or epic learn {options.memory} CHAT"
            show(f"It has no preferences to rank by: {some}\n")
        for number, hit in enumerate(hits, start=1):
            show(f"{number}. {hit.score:.3f}  {hit.item.id}" + ("" if hit.tier == "memory" else f"  ({hit.tier})"))
            for entry in hit.entries:
                show(f"   [{entry.stance}] {entry.preference}")
                if entry.instruction:
                    show(f"   {entry.instruction}")
            show(f"   {hit.text}\n")
        for preference, similarity, weight in hits.steered_by:
            show(f"steered by ({weight:.2f}, cosine {similarity:.2f}): {preference}")


def _reencode(options: argparse.Namespace) -> None:
    from epic_core.memory import EpicMemory

    with EpicMemory.open(
        options.memory,
        encoder=options.encoder,
        namespace=options.namespace,
        must_exist=True,
        reencode=True,
    ) as memory:
        show(memory.stats())


def _retry(options: argparse.Namespace) -> None:
    with open_memory(options) as memory:
        made_by = memory.stats().verified_by
        if options.llm is None and made_by is not None:
            raise InvalidInputError(
                f"These items wait for a language model ({made_by}). Say which decides: epic retry FILE --llm MODEL"
            )
        show(memory.retry(progress=True))


if __name__ == "__main__":
    sys.exit(main())
