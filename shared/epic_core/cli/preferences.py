"""Commands about preferences: epic preferences FILE list, show, add, remove, replace, set, edit, reread."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from epic_core.cli.options import add_verifying, open_memory, show
from epic_core.errors import InvalidInputError
from epic_core.types.preferences import FIRMNESS, Aspects, Expansion

if TYPE_CHECKING:
    from epic_core.memory import EpicMemory

_READ_BY = {
    "parser": "read by the parser",
    "model": "read by a language model",
    "user": "set by the user",
    "unread": "not read by the parser; say what it likes and avoids by `set`, or use --llm",
}

_WRITTEN_BY = {
    "bundled": "borrowed from the bundled library",
    "model": "written by a language model",
    "user": "set by the user",
}
_WIDTH = 12


def add_actions(parser: argparse.ArgumentParser) -> None:
    """Add the actions to the parser of `epic preferences FILE`."""
    add_verifying(parser)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    made = {}
    for name, (run, about) in _ACTIONS.items():
        made[name] = actions.add_parser(name, help=about)
        made[name].set_defaults(run=run)
    for name in ("show", "add", "remove", "set", "edit", "reread"):
        made[name].add_argument("text", help=None if name == "add" else "its text or id")
    made["add"].add_argument("--expires", metavar="WHEN", help="until when it counts, like 2027-03-31T12:00:00+01:00")
    made["replace"].add_argument("old", help="its text or id")
    made["replace"].add_argument("new")
    for side in ("likes", "avoids"):
        made["set"].add_argument(f"--{side}", action="append", metavar="PHRASE", help="once or more; '' for nothing")
    for option, about_it in (
        ("--question", "what the user might ask for which it matters"),
        ("--follows", "what suits the user"),
        ("--breaks", "what it rules out"),
    ):
        made["edit"].add_argument(
            option, action="append", metavar="PHRASE", help=f"{about_it}; once or more; '' for nothing"
        )
    made["set"].add_argument("--firmness", choices=tuple(FIRMNESS))
    made["set"].add_argument("--scope", help="when or where it holds; '' for always")
    for name in ("add", "remove", "replace", "reread"):
        add_verifying(made[name], again=True, expanding=name != "remove")


def _list(options: argparse.Namespace) -> None:
    options.llm = None  # nothing is verified
    with open_memory(options) as memory:
        unread = memory.unread
        for preference in memory.preferences:
            ends = preference.expires_at
            until = "" if ends is None else f"  (until {ends:%Y-%m-%d %H:%M} UTC)"
            show(f"{preference.id}  {preference}{until}")
            show(_line(memory.aspects(preference), again=preference.text in unread))


def _show(options: argparse.Namespace) -> None:
    options.llm = None  # nothing is verified
    with open_memory(options) as memory:
        for line in _shown(memory, options.text):
            show(line)


def _add(options: argparse.Namespace) -> None:
    from epic_core.types import Preference

    preference = Preference(text=options.text, expires_at=options.expires)
    with open_memory(options) as memory:
        show(memory.add_preference(preference, progress=True))


def _remove(options: argparse.Namespace) -> None:
    with open_memory(options) as memory:
        report = memory.remove_preference(options.text)
        for warning in report.warnings:
            show(f"warning: {warning}")
        show(f"removed; {len(memory)} items are left")


def _replace(options: argparse.Namespace) -> None:
    with open_memory(options) as memory:
        show(memory.replace_preference(options.old, options.new, progress=True))


def _set(options: argparse.Namespace) -> None:
    options.llm = None  # nothing is read
    with open_memory(options) as memory:
        memory.set_aspects(options.text, _corrected(memory.aspects(options.text), options))
        show(_line(memory.aspects(options.text)))


def _edit(options: argparse.Namespace) -> None:
    options.llm = None  # nothing is written by a model
    with open_memory(options) as memory:
        memory.set_expansion(options.text, _edited(memory.expansions(options.text), options))
        for line in _shown(memory, options.text):
            show(line)


def _reread(options: argparse.Namespace) -> None:
    with open_memory(options) as memory:
        report = memory.set_aspects(options.text, None)
        held = memory.expansions(options.text)
        if held is not None and held.source == "user" and not report.unread and (options.llm or options.expand):
            # The model's own expansion was rewritten with the aspects; the user's is reset here, as the user's
            # aspects are.
            report = memory.set_expansion(options.text, None)
        for reason in report.unread.values():
            show(f"warning: {reason}")
        show(_line(memory.aspects(options.text), again=bool(report.unread)))


_ACTIONS = {
    "list": (_list, "with what each likes and avoids, and who read it"),
    "show": (_show, "what one likes and avoids, what it means in practice, and who said so"),
    "add": (_add, "the items that are held are matched with it too"),
    "remove": (_remove, "with the items that nothing else holds"),
    "replace": (_replace, "put another in its place"),
    "set": (_set, "say what it likes and avoids; what is not given stays"),
    "edit": (_edit, "say what it means in practice; what is not given stays"),
    "reread": (_reread, "have what it likes and avoids read anew, by --llm, --expand or the parser"),
}


def _corrected(held: Aspects, options: argparse.Namespace) -> Aspects:
    def side(given: list[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
        return known if given is None else tuple(phrase for phrase in given if phrase.strip())

    return Aspects(
        liked=side(options.likes, held.liked),
        avoided=side(options.avoids, held.avoided),
        firmness=held.firmness if options.firmness is None else FIRMNESS[options.firmness],
        scope=held.scope if options.scope is None else options.scope.strip(),
        source="user",
    )


def _edited(held: Expansion | None, options: argparse.Namespace) -> Expansion:
    given = {"questions": options.question, "follows": options.follows, "breaks": options.breaks}
    if all(phrases is None for phrases in given.values()):
        raise InvalidInputError("Say what it means in practice: --question, --follows or --breaks, each once or more.")
    parts: dict[str, tuple[str, ...]] = {}
    for part, phrases in given.items():
        known: tuple[str, ...] = () if held is None else getattr(held, part)
        parts[part] = known if phrases is None else tuple(phrase for phrase in phrases if phrase.strip())
    return Expansion(**parts, source="user")


def _shown(memory: EpicMemory, text: str) -> Iterator[str]:
    """Yield lines that show the aspects and the expansion of a preference."""
    from epic_core.types import Preference

    aspects, expansion = memory.aspects(text), memory.expansions(text)
    preference = next(each for each in memory.preferences if each.id in (text, Preference(text=text).id))
    yield f"{preference.id}  {preference}"
    yield from _row("likes", aspects.liked)
    yield from _row("avoids", aspects.avoided)
    if aspects.understood:
        yield from _row("firmness", (f"{aspects.firmness:g}",))
    if aspects.scope:
        yield from _row("scope", (aspects.scope,))
    yield from _row("read", (_READ_BY[aspects.source],))
    yield ""
    if expansion is None:
        yield "It has no expansion of its own."
    else:
        yield from _row("questions", expansion.questions)
        yield from _row("follows", expansion.follows)
        yield from _row("breaks", expansion.breaks)
        yield from _row("written", (_WRITTEN_BY[expansion.source],))
    if preference.text in memory.unread:
        yield "A language model failed to read it, and is asked again."


def _row(name: str, phrases: tuple[str, ...]) -> Iterator[str]:
    """Yield a name with its phrases, one a line."""
    for number, phrase in enumerate(phrases):
        # A line break in a user's phrase must not make it look like another row.
        yield f"{'' if number else name:{_WIDTH}}{' '.join(phrase.split())}"


def _line(aspects: Aspects, *, again: bool = False) -> str:
    failed = "; a language model failed, and is asked again" if again else ""
    return f"    {aspects}  ({_READ_BY[aspects.source]}{failed})"
