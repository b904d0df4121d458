"""Command line: epic build, add, ask and more; the other modules of this package add the other commands."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text
from typer import Argument, Option

from epic_core import __version__
from epic_core.cli import apps, facts, files, learning, preferences, rerank
from epic_core.cli.options import Common, InFile, Model, Reader, command, new_app
from epic_core.cli.printing import LONGEST, fail, plain, show, warn
from epic_core.errors import EpicError, InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from epic_core.cli.sources import Sources
    from epic_core.filters import Filter
    from epic_core.memory import EpicMemory
    from epic_core.types import Hits
    from epic_core.types.reports import BuildReport

app = new_app(help="A memory that keeps what matters to one user.")
# What the command line itself refuses: an unknown command or option, or a value that cannot be.
_UsageError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError")
_COMPLETE = "_EPIC_COMPLETE"
_PANELS = {
    "Build and ask": "demo build add ask list show explain",
    "What it knows of you": "preferences onboard learn proposals note facts",
    "The file": "stats namespaces not-kept retry verify compact backup export import reencode forget",
    "More": "rerank eval mcp inspect",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0; 2 for an error that the user can correct; 130 after Ctrl-C."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    program = typer.main.get_command(app)
    if _COMPLETE in os.environ:
        program(prog_name="epic")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a character shows a question mark, not a traceback.
        sys.stdout.reconfigure(errors="replace")
    logger = logging.getLogger("epic_core")
    logged = logger.level, logger.handlers
    try:
        with program.make_context("epic", given) as context:
            program.invoke(context)
        sys.stdout.flush()
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
        # The reader has gone (`epic ask ... | head`): print nothing more, and avoid a traceback at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        fail(f"{error.filename or 'a file'}: {error.strerror or error}")
        return 2
    finally:
        logger.level, logger.handlers = logged
    return 0


def _refusal(error: Any) -> str:
    """Return what is wrong with a command line, what may have been meant, and where the help is."""
    message = error.format_message()
    if likely := getattr(error, "possibilities", None):
        message = f"{error.message}. Did you mean {', '.join(likely)}?"
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
    out: Annotated[str | None, Option(metavar="FILE", help="keep the memory in this file")] = None,
) -> None:
    """Build a memory from a bundled corpus, and ask it and plain retrieval the same questions."""
    from epic_core.cli.demo import run_demo

    for part in run_demo(out):
        show(part)


@command(app)
def build(
    common: Common,
    reader: Reader,
    sources: Annotated[
        list[str], Argument(metavar="SOURCE...", help="notes, documents, .jsonl, .json, or folders of them")
    ],
    out: Annotated[str, Option(metavar="FILE", help="the memory's file")],
    preferences: Annotated[
        str | None, Option(metavar="FILE", help="one preference a line; needed for a new memory")
    ] = None,
    sync: Annotated[bool, Option("--sync", help="change the file's preferences to those given")] = False,
    tau: Annotated[float | None, Option(help="threshold of the coarse filter, a cosine")] = None,
    keep_rate: Annotated[
        float | None, Option(help="share of the first items that shall pass it, above 0, at most 1")
    ] = None,
    reserve: Annotated[
        str | None,
        Option(metavar="SIZE", help='up to which size the file keeps what was not kept as text (default "1 MB")'),
    ] = None,
    budget: Annotated[str | None, Option(metavar="SIZE", help='bytes the file never exceeds, such as "1 MB"')] = None,
    tags: Annotated[bool, Option("--tags", help="give items tags: names and noun phrases, for `ask --tag`")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="no progress bar")] = False,
) -> None:
    """Build a memory, or add to it."""
    from epic_core.cli.sources import Sources, read_preferences
    from epic_core.graph import PhraseTagger
    from epic_core.memory import EpicMemory

    if tau is not None and keep_rate is not None:
        raise InvalidInputError("--keep-rate is not allowed with --tau. Give one of them.")
    given = None if preferences is None else read_preferences(preferences)
    read = Sources(sources)
    read.files()  # a wrong path has to fail before anything is written
    new = not Path(out).exists()
    if given is None and new:
        made = f"give --preferences FILE to make it, or make it by answering questions: epic onboard {out}"
        raise InvalidInputError(f"{out} does not exist yet: {made}.")
    with EpicMemory.open(
        out,
        given,
        sync=sync,
        encoder=common.encoder,
        verifier=reader.verifier(),
        expander=reader.expander(),
        namespace=common.namespace,
        tau=tau,
        keep_rate=keep_rate,
        budget=budget,
        reserve=reserve,
        tagger=PhraseTagger() if tags else None,
    ) as memory:
        _warn(memory)
        try:
            report = memory.add(read, progress=not quiet)
        except EpicError:
            _remove_empty(memory, new)
            raise
        for skipped in read.skipped:
            warn(skipped, "skipped")
        for failure in read.failures:
            warn(failure, "skipped")
        if read.failures and not report.seen:
            _remove_empty(memory, new)
            raise InvalidInputError("Nothing could be read.")
        _report(common, memory, report, read)
        if read.failures:
            raise InvalidInputError(f"{out} holds all of the sources but what could not be read.")


@command(app)
def add(
    file: InFile, model: Model, texts: Annotated[list[str], Argument(metavar="TEXT...", help="what may be kept")]
) -> None:
    """Offer texts to a memory, which decides what it keeps."""
    with file.open(model) as memory:
        _report(file, memory, memory.add(texts))


def _report(common: Common, memory: EpicMemory, report: BuildReport, read: Sources | None = None) -> None:
    """Print what was taken in, and what the memory holds then."""
    size = memory.stats().bytes["total"]
    opened = memory.opening_report
    lines = []
    if opened.read or opened.unread or opened.expanded:
        expanded = f", {opened.expanded} expanded" if opened.expanded else ""
        lines.append(f"{opened.read} preferences read by the model, {len(opened.unread)} not{expanded}")
    lines += [str(report), f"{memory.path}: {len(memory)} items, {size / 1e6:.3f} MB"]
    unread = {} if read is None else {"skipped": read.skipped, "failures": read.failures}
    common.show({"report": report, "items": len(memory), "bytes": size, **unread}, *lines)


def _warn(memory: EpicMemory) -> None:
    """Print the warnings from making or opening a memory."""
    for warning in memory.opening_report.warnings:
        warn(warning)


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


@command(app)
def ask(
    file: InFile,
    question: Annotated[
        str | None, Argument(metavar="QUESTION", help="without one, questions are read until an empty line")
    ] = None,
    k: Annotated[int, Option("-k", help="how many items")] = 5,
    steering: Annotated[
        Literal["signed", "paper", "off"] | None, Option(help="how preferences steer the question")
    ] = None,
    stances: Annotated[Literal["prefer", "only_supports", "any"], Option(help="stance policy")] = "prefer",
    keys: Annotated[Literal["both", "instruction"], Option(help="what items are found by")] = "both",
    tag: Annotated[
        list[str], Option(metavar="NAME=VALUE", help="only items with this tag or metadata; repeatable")
    ] = [],  # noqa: B006 - typer copies it
    all_: Annotated[bool, Option("--all", help="show the nearest items, even if none is relevant")] = False,
    context: Annotated[bool, Option("--context", help="print what a model is given")] = False,
) -> None:
    """Ask a memory."""
    from epic_core.context import format_context

    with file.open() as memory:

        def answer(question: str) -> None:
            hits = memory.search(
                question,
                k,
                steering=steering,
                stance_policy=stances,
                filter=_tag_filter(tag),
                keys=keys,
                min_score=None if all_ else "auto",
            )
            if context:
                file.show({"context": format_context(hits)}, format_context(hits))
            else:
                value = {"hits": list(hits), "matters": hits.matters, "steered_by": hits.steered_by}
                file.show(value, *_answer(memory, hits, verbose=file.verbose))

        if question is not None:
            answer(question)
            return
        for typed in _typed():
            try:
                answer(typed)
            except InvalidInputError as error:
                fail(error)


def _typed() -> Iterator[str]:
    """Yield the lines that are typed, up to an empty one or the end of the input."""
    if sys.stdin.isatty():
        show("Ask; an empty line ends.")
        with suppress(ImportError):
            import readline  # noqa: F401 - lines can be edited, and called back
    try:
        while line := input("> " if sys.stdin.isatty() else "").strip():
            yield line
    except EOFError:
        return


def _answer(memory: EpicMemory, hits: Hits, *, verbose: bool) -> Iterator[Text]:
    """Yield the parts of an answer: each hit with its reasons, or what there is to say instead."""
    from epic_core.cli.reasons import reasons
    from epic_core.context import those_that_matter

    if not hits:
        held = len(memory) or memory.stats().counts["light"] or memory.facts()
        yield Text("Nothing relevant in this memory." if held else "Nothing in this memory yet.")
        for stated in those_that_matter(hits.matters):
            yield plain(f"But you said: {stated}")
    if not memory.preferences:
        some = f"epic onboard {memory.path}, or epic learn {memory.path} CHAT"
        yield plain(f"It has no preferences to rank by: {some}\n")
    for number, hit in enumerate(hits, start=1):
        yield Text.assemble(f"{number}. ", plain(hit.item.id, "bold cyan"), f"  {hit.score:.3f}" if verbose else "")
        yield _indented(plain(hit.text, longest=LONGEST))
        for words in reasons(hit):
            yield _indented(plain(words, "green"))
        for entry in hit.entries if verbose else ():
            told = f"[{entry.stance}] {entry.preference} (cosine {entry.similarity:.2f}; {entry.rationale})"
            yield _indented(plain(told, "dim"))
            if entry.instruction:
                yield _indented(plain(entry.instruction, "dim"))
        yield Text("")
    for preference, similarity, weight in hits.steered_by if verbose else ():
        yield plain(f"steered by ({weight:.2f}, cosine {similarity:.2f}): {preference}", "dim")


def _indented(text: Text) -> Text:
    return Text("   ").append_text(text)


@command(app)
def retry(file: InFile, model: Model) -> None:
    """Verify the undecided items again."""
    with file.open(model) as memory:
        made_by = memory.stats().verified_by
        if model.llm is None and made_by is not None:
            raise InvalidInputError(
                f"These items wait for a language model ({made_by}). Say which decides: epic retry FILE --llm MODEL"
            )
        file.show(memory.retry(progress=True))


@command(app)
def reencode(file: InFile) -> None:
    """Embed a memory anew with the encoder given."""
    from epic_core.memory import EpicMemory

    with EpicMemory.open(
        file.memory, encoder=file.encoder, namespace=file.namespace, must_exist=True, reencode=True
    ) as memory:
        file.show(memory.stats())


@command(app)
def import_(
    common: Common,
    export: Annotated[str, Argument(metavar="EXPORT", help="the lines of JSON")],
    memory: Annotated[str, Argument(metavar="FILE", help="the memory's file")],
) -> None:
    """Make a memory of what `epic export` wrote."""
    from epic_core.memory import EpicMemory

    with EpicMemory.import_(export, memory, encoder=common.encoder, namespace=common.namespace) as made:
        _warn(made)
        common.show({"items": len(made)}, f"{memory}: {len(made)} items")


# What follows `eval` is for another package, which the core does not know, and which has options of its own.
@app.command(
    "eval",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False},
)
def evaluate(context: typer.Context) -> None:
    """Run the papers' evaluation, or that of your own memory (extra: eval)."""
    try:
        run: Callable[[Sequence[str]], None] = import_module("epic_eval.cli").main
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "epic_eval", "eval") from None
    run(context.args)


for module in (files, learning, facts, apps):
    module.add_commands(app)
app.add_typer(preferences.app, name="preferences")
app.add_typer(rerank.app, name="rerank")
for panel, names in _PANELS.items():
    listed: list[Any] = [*app.registered_commands, *app.registered_groups]
    for each in listed:
        if each.name in names.split():
            each.rich_help_panel = panel

if __name__ == "__main__":
    sys.exit(main())
