"""Command line: epic build, add, ask and more; the other modules of this package add the other commands."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from epic_apps.cli import apps, asking, bringing, files, learning, preferences, rerank, scale
from epic_apps.cli.options import Common, InFile, Judging, Model, command, new_app
from epic_apps.cli.printing import fail, first, show, warn
from epic_memory import __version__
from epic_memory.errors import EpicError, InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from epic_memory.memory import EpicMemory
    from epic_memory.types.reports import BuildReport

app = new_app(help="A memory that keeps what matters to one user.")
# What the command line itself refuses: an unknown command or option, or a value that cannot be.
_UsageError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError")
_COMPLETE = "_EPIC_COMPLETE"
_PANELS = {
    "Build and ask": "demo build add ask list explain",
    "Bring what you have": "import sync never why-not",
    "What it knows of you": "preferences onboard proposals note facts fill due",
    "The file": "stats namespaces not-kept retry verify compact backup export restore reencode forget",
    "Its lock, and other devices": "lock unlock merge",
    "More": "connect doctor mcp inspect rerank scale eval bench",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0; 2 for an error that the user can correct; 130 after Ctrl-C."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed before the start, as by `>&-`
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open as long as the process
    try:
        try:
            return _run(sys.argv[1:] if arguments is None else list(arguments))
        finally:
            if not sys.stdout.closed:  # as version 1 of the SDK of MCP leaves it
                sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as ended:
        if isinstance(ended, SystemExit) and not isinstance(ended.__context__, BrokenPipeError):
            raise
        # The reader has gone (`epic ask ... | head`): print nothing more, and avoid a traceback at exit.
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return 0


def _run(arguments: list[str]) -> int:
    program = typer.main.get_command(app)
    if _COMPLETE in os.environ:
        program(prog_name="epic")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a character shows a question mark, not a traceback.
        sys.stdout.reconfigure(errors="replace")
    logger = logging.getLogger("epic_memory")
    logged = logger.level, logger.handlers
    try:
        with program.make_context("epic", arguments) as context:
            program.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except _UsageError as error:
        fail(_refusal(error))
        return 2
    except EpicError as error:
        fail(error)
        return 2
    except KeyboardInterrupt:
        fail("stopped. What was committed before is kept; run it again to go on.")
        return 130
    except BrokenPipeError:
        raise
    except OSError as error:
        fail(f"{error.filename or 'a file'}: {error.strerror or error}")
        return 2
    finally:
        logger.level, logger.handlers = logged
    return 0


def _refusal(error: Any) -> str:
    """Return what is wrong with a command line, what may have been meant, and where the help is."""
    message = error.format_message().replace(": Value error, ", ": ")
    likely = getattr(error, "possibilities", None)
    if "Did you mean" in error.message:
        message = error.message
    elif likely:
        message = f"{error.message.rstrip('.')}. Did you mean {', '.join(likely)}?"
    return f"{message}\nHelp: {error.ctx.command_path if error.ctx else 'epic'} --help"


def _version(asked: bool) -> None:
    if asked:
        show(f"epic-memory {__version__}")
        raise typer.Exit


@app.callback()
def _epic(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="show the version")] = False,
) -> None:
    pass


@command(app)
def demo(
    model: Model,
    out: Annotated[str | None, Option(metavar="FILE", help="keep the memory in this file")] = None,
) -> None:
    """Build a memory from a bundled corpus, and ask it and plain retrieval the same questions."""
    from epic_apps.cli.demo import run_demo
    from epic_memory import Settings

    for part in run_demo(out, *model.asked(Settings())):
        show(part)


@command(app)
def build(
    common: Common,
    judging: Judging,
    sources: Annotated[
        list[str], Argument(metavar="SOURCE...", help="notes, documents, .jsonl, .json, or folders of them")
    ],
    out: Annotated[str, Option(metavar="FILE", help="the memory's file")],
    preferences: Annotated[
        str | None, Option(metavar="FILE", help="one preference a line; needed for a new memory")
    ] = None,
    sync: Annotated[bool, Option("--sync", help="change the file's preferences to those given")] = False,
    tau: Annotated[float | None, Option(help="threshold of the coarse filter, a cosine")] = None,
    reserve: Annotated[
        str | None,
        Option(metavar="SIZE", help='up to which size the file keeps what was not kept as text (default "1 MB")'),
    ] = None,
    budget: Annotated[str | None, Option(metavar="SIZE", help='bytes the file never exceeds, such as "1 MB"')] = None,
    tags: Annotated[bool, Option("--tags", help="give items tags: names and noun phrases, for `ask --tag`")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="no progress bar, which only a terminal gets")] = False,
) -> None:
    """Build a memory, or add to it."""
    from epic_apps.cli.roots import Roots
    from epic_apps.cli.sources import Sources, read_preferences
    from epic_apps.origins import attributed
    from epic_graph import PhraseTagger
    from epic_memory import EpicMemory

    given = None if preferences is None else read_preferences(preferences)
    read = Sources(sources, mark=attributed)
    read.files()  # a wrong path has to fail before anything is written
    new = not Path(out).exists()
    if given is None and new:
        made = f"give --preferences FILE to make it, or make it by answering questions: epic onboard {out}"
        raise InvalidInputError(f"{out} does not exist yet: {made}.")
    tagger = PhraseTagger() if tags else None
    lm, settings = judging.asked(common.settings(out, tau=tau, budget=budget, reserve=reserve, tagger=tagger))
    with EpicMemory.open(out, given, encoder=common.encoder, llm=lm, settings=settings, sync=sync) as memory:
        _warn(memory)
        read.roots = Roots(memory)
        try:
            report = memory.add(read, progress=not quiet and sys.stderr.isatty())
        except EpicError:
            _remove_empty(memory, new)
            raise
        for skipped in (*read.skipped, *read.failures):
            warn(skipped, "skipped")
        if read.failures and not report.seen:
            _remove_empty(memory, new)
            raise InvalidInputError("Nothing could be read.")
        gone, going = read.roots.left_by(list(map(Path, sources)), read.whole, read.places)
        if going:
            memory.forget(*going)
        read.roots.write()
        _report(common, memory, report, skipped=read.skipped, failures=read.failures, gone=gone)
        if read.failures:
            raise InvalidInputError(f"{out} holds all of the sources but what could not be read.")


@command(app)
def add(
    file: InFile,
    judging: Judging,
    texts: Annotated[
        list[str], Argument(metavar="TEXT...", help="what may be kept; - reads a text from standard input")
    ],
) -> None:
    """Offer texts to a memory, which decides what it keeps."""
    from epic_apps.cli.readers.base import standard_input
    from epic_memory.text.chunking import WordChunker

    pieces = [piece for text in texts for piece in (WordChunker().chunks(standard_input()) if text == "-" else [text])]
    with file.open(judging) as memory:
        _report(file, memory, memory.add(pieces))


def _report(common: Common, memory: EpicMemory, report: BuildReport, **sources: Sequence[str]) -> None:
    """Print what was taken in, what left with its sources, and what the memory holds then."""
    size = memory.stats().bytes["total"]
    opened = memory.opening_report
    lines = []
    if opened.read or opened.unread or opened.expanded:
        expanded = f", {opened.expanded} expanded" if opened.expanded else ""
        asked = f" ({opened.usage.calls} calls)"
        lines.append(f"{opened.read} preferences read by the model, {len(opened.unread)} not{expanded}{asked}")
    gone = [f"{name} is gone, and its items left the memory" for name in sources.get("gone", ())]
    lines += [str(report), *first(gone)]
    lines.append(f"{memory.file.path}: {len(memory)} items, {size / 1e6:.3f} MB")
    common.show({"report": report, "items": len(memory), "bytes": size, **sources}, *lines)


def _warn(memory: EpicMemory) -> None:
    """Print the warnings from making or opening a memory."""
    for warning in memory.opening_report.warnings:
        warn(warning)


def _remove_empty(memory: EpicMemory, new: bool) -> None:
    """Remove a new file in which only the preferences were committed: the user has those."""
    counts = memory.stats().counts
    if new and memory.file.path is not None and not (counts["items"] or counts["light"] or counts["pending"]):
        memory.close()
        memory.file.path.unlink()


@command(app)
def retry(file: InFile, judging: Judging) -> None:
    """Verify the undecided items again, and read the preferences that wait to be read."""
    with file.open(judging) as memory:
        made_by = memory.stats().verified_by
        if judging.llm is None and made_by is not None:
            raise InvalidInputError(
                f"These items wait for a language model ({made_by}). Say which decides: epic retry FILE --llm MODEL"
            )
        file.show(memory.retry(progress=sys.stderr.isatty()))


@command(app)
def reencode(file: InFile) -> None:
    """Embed a memory anew with the encoder given."""
    with file.open(reencode=True) as memory:
        file.show(memory.stats())


@command(app)
def restore(
    common: Common,
    export: Annotated[str, Argument(metavar="EXPORT", help="the lines of JSON")],
    memory: Annotated[str, Argument(metavar="FILE", help="the memory's file")],
) -> None:
    """Make a memory of what `epic export` wrote."""
    from epic_memory import EpicMemory

    with EpicMemory.restore(export, memory, encoder=common.encoder, settings=common.settings(memory)) as made:
        _warn(made)
        common.show({"items": len(made)}, f"{memory}: {len(made)} items")


# What follows `eval` and `bench` is for another package, which the core does not know, with options of its own.
_PASSED_ON: dict[str, Any] = {
    "add_help_option": False,
    "context_settings": {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False},
}


def _pass_on(context: typer.Context, module: str, default: str = "", help: str | None = None) -> None:
    """Run the commands of a module of the evaluation; what names none of them is for the default."""
    try:
        add_commands = import_module(module).add_commands
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "epic_eval", "eval") from None
    commands = new_app(help=help, add_completion=False)
    add_commands(commands, command)
    program: Any = typer.main.get_command(commands)
    named = not default or not context.args or context.args[0].startswith("-") or context.args[0] in program.commands
    arguments = context.args if named else [default, *context.args]
    with program.make_context(context.info_name, arguments, parent=context.parent) as made:
        program.invoke(made)


@app.command("eval", **_PASSED_ON)
def evaluate(context: typer.Context) -> None:
    """Run the papers' evaluation, or that of your own memory (extra: eval)."""
    shown = "The papers' evaluation. `epic eval MEMORY QUESTIONS` looks at a memory of your own."
    _pass_on(context, "epic_eval.cli", "own", help=shown)


@app.command("bench", **_PASSED_ON)
def bench(context: typer.Context) -> None:
    """Run a public benchmark on a memory as it comes (extra: eval)."""
    _pass_on(context, "epic_eval.public")


for function in (*bringing.COMMANDS, *asking.COMMANDS, *files.COMMANDS, *learning.COMMANDS, *apps.COMMANDS):
    command(app)(function)
app.add_typer(preferences.app, name="preferences")
app.add_typer(rerank.app, name="rerank")
app.add_typer(scale.app, name="scale")
for panel, names in _PANELS.items():
    listed: list[Any] = [*app.registered_commands, *app.registered_groups]
    for each in listed:
        if each.name in names.split():
            each.rich_help_panel = panel

if __name__ == "__main__":
    sys.exit(main())
