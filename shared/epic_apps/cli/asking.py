"""Command that asks a memory: epic ask FILE [QUESTION]."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text
from typer import Argument, Option

from epic_apps.cli.options import InFile, Model
from epic_apps.cli.printing import LONGEST, fail, plain, show
from epic_memory.errors import InvalidInputError

if TYPE_CHECKING:
    from epic_memory.filters import Filter
    from epic_memory.memory import EpicMemory
    from epic_memory.types import Hits

_WAITS = "30 s"


def ask(
    file: InFile,
    model: Model,
    question: Annotated[
        str | None, Argument(metavar="QUESTION", help="without one, questions are read until an empty line")
    ] = None,
    k: Annotated[int, Option("-k", help="how many items")] = 5,
    tag: Annotated[
        list[str], Option(metavar="NAME=VALUE", help="only items with this tag or metadata; repeatable")
    ] = [],  # noqa: B006 - typer copies it
    all_: Annotated[bool, Option("--all", help="show the nearest items, even if none is relevant")] = False,
    context: Annotated[bool, Option("--context", help="print what a model is given")] = False,
) -> None:
    """Ask a memory."""
    from epic_memory import SearchOptions
    from epic_memory.context import format_context

    if model.llm is not None and model.on_demand is None and question is not None:
        # In the background, the verdicts would end with the command.
        model = replace(model, on_demand=_WAITS)
    with file.open(model) as memory:

        def answer(question: str) -> None:
            options = SearchOptions(min_score=None if all_ else "auto")
            hits = memory.search(question, k, filter=_tag_filter(tag), options=options)
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


def _tag_filter(given: Sequence[str]) -> Filter | None:
    """Return a filter for items that have all these tags, of metadata or of a tagger."""
    from epic_memory.filters import Filter
    from epic_memory.text.tagging import KINDS, PREFIX

    found: Filter | None = None
    for tag in given:
        name, equals, value = tag.partition("=")
        if not (name and equals and value):
            raise InvalidInputError(f"--tag takes NAME=VALUE, such as topic=travel, not {tag!r}.")
        kind = next((kind for kind in KINDS if name.lower() in (kind, kind[:-1], kind[:-3] + "y")), name)
        has = Filter.contains(name, value) | Filter.icontains(f"{PREFIX}{kind}", value)
        found = has if found is None else found & has
    return found


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


def _answer(memory: EpicMemory, hits: Hits, *, verbose: bool) -> Iterator[RenderableType]:
    """Yield the parts of an answer: each hit with its reasons, or what there is to say instead."""
    from epic_apps.cli.reasons import marked, reasons
    from epic_memory.context import those_that_matter

    stats = memory.stats() if not hits or any(hit.tier == "waiting" for hit in hits) else None
    if stats is not None and not hits:
        held = len(memory) or stats.counts["light"] or stats.waiting or memory.facts
        yield Text("Nothing relevant in this memory." if held else "Nothing in this memory yet.")
    if stats is not None and stats.waiting:
        yield plain(f"Waiting for a language model: {stats.waiting} (epic retry {memory.file.path} --llm MODEL)")
    if not hits:
        for stated in those_that_matter(hits.matters):
            yield plain(f"But you said: {stated}")
    if not memory.preferences:
        some = f"epic onboard {memory.file.path}, or epic import {memory.file.path} CHAT"
        yield plain(f"It has no preferences to rank by: {some}\n")
    for number, hit in enumerate(hits, start=1):
        yield Text.assemble(f"{number}. ", plain(hit.item.id, "bold cyan"), f"  {hit.score:.3f}" if verbose else "")
        yield _indented(plain(hit.content, longest=LONGEST))
        for words, entry in zip_longest(reasons(hit), hit.entries):
            yield _indented(marked(words, entry.stance) if entry else marked(words))
        for entry in hit.entries if verbose else ():
            told = f"[{entry.stance}] {entry.preference} (similarity {entry.similarity:.2f}; {entry.rationale})"
            yield _indented(plain(told, "dim"))
            if entry.instruction:
                yield _indented(plain(entry.instruction, "dim"))
        yield Text("")
    for preference, similarity, weight in hits.steered_by if verbose else ():
        yield plain(f"steered by ({weight:.2f}, cosine {similarity:.2f}): {preference}", "dim")


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 3), expand=False)


COMMANDS = (ask,)
