"""Commands about preferences: epic preferences FILE list, show, add, remove, replace, set, edit, reread."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from epic_core.errors import InvalidInputError
from epic_core.types.preferences import FIRMNESS, Aspects, Expansion

if TYPE_CHECKING:
    from epic_core.cli.files import Open, Print
    from epic_core.memory import EpicMemory

_READ_BY = {
    "parser": "read by the parser",
    "model": "read by a language model",
    "user": "set by the user",
    "unread": "in a language that the parser does not read; say it by `set`, or use --llm",
}

_WRITTEN_BY = {
    "bundled": "borrowed from the bundled library",
    "model": "written by a language model",
    "user": "set by the user",
}
_WIDTH = 12


def add_actions(parser: argparse.ArgumentParser, verifying: Callable[..., None], opened: Open, printed: Print) -> None:
    """Add the actions to the parser of `epic preferences FILE`.

    Args:
        parser: The parser, with the options that every command has.
        verifying: Adds the options of a language model; with `expanding`, also the option for one that only reads
            preferences.
        opened: Opens the memory that options name.
        printed: Prints text that may come from a document.
    """

    def listed(options: argparse.Namespace) -> None:
        options.llm = None  # nothing is verified
        with opened(options) as memory:
            unread = memory.unread
            for preference in memory.preferences:
                ends = preference.expires_at
                until = "" if ends is None else f"  (until {ends:%Y-%m-%d %H:%M} UTC)"
                printed(f"{preference.id}  {preference}{until}")
                printed(_line(memory.aspects(preference), again=preference.text in unread))

    def show(options: argparse.Namespace) -> None:
        options.llm = None  # nothing is verified
        with opened(options) as memory:
            for line in _shown(memory, options.text):
                printed(line)

    def add(options: argparse.Namespace) -> None:
        from epic_core.types import Preference

        preference = Preference(text=options.text, expires_at=options.expires)
        with opened(options) as memory:
            printed(memory.add_preference(preference, progress=True))

    def remove(options: argparse.Namespace) -> None:
        with opened(options) as memory:
            report = memory.remove_preference(options.text)
            for warning in report.warnings:
                printed(f"warning: {warning}")
            printed(f"removed; {len(memory)} items are left")

    def replace(options: argparse.Namespace) -> None:
        with opened(options) as memory:
            printed(memory.replace_preference(options.old, options.new, progress=True))

    def correct(options: argparse.Namespace) -> None:
        options.llm = None  # nothing is read
        with opened(options) as memory:
            memory.set_aspects(options.text, _corrected(memory.aspects(options.text), options))
            printed(_line(memory.aspects(options.text)))

    def edit(options: argparse.Namespace) -> None:
        options.llm = None  # nothing is written by a model
        with opened(options) as memory:
            memory.set_expansion(options.text, _edited(memory.expansions(options.text), options))
            for line in _shown(memory, options.text):
                printed(line)

    def reread(options: argparse.Namespace) -> None:
        with opened(options) as memory:
            report = memory.set_aspects(options.text, None)
            held = memory.expansions(options.text)
            if held is not None and held.source == "user" and not report.unread and (options.llm or options.expand):
                # The model's own expansion was rewritten with the aspects; the user's is reset here, as the user's
                # aspects are.
                report = memory.set_expansion(options.text, None)
            for reason in report.unread.values():
                printed(f"warning: {reason}")
            printed(_line(memory.aspects(options.text), again=bool(report.unread)))

    runs = {
        "list": listed,
        "show": show,
        "add": add,
        "remove": remove,
        "replace": replace,
        "set": correct,
        "edit": edit,
        "reread": reread,
    }
    verifying(parser)
    actions = _actions(parser)
    for name, run in runs.items():
        actions[name].set_defaults(run=run)
    for name in ("add", "remove", "replace", "reread"):
        verifying(actions[name], again=True, expanding=name != "remove")


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    about = {
        "list": "with what each likes and avoids, and who read it",
        "show": "what one likes and avoids, what it means in practice, and who said so",
        "add": "the items that are held are matched with it too",
        "remove": "with the items that nothing else holds",
        "replace": "put another in its place",
        "set": "say what it likes and avoids; what is not given stays",
        "edit": "say what it means in practice; what is not given stays",
        "reread": "have what it likes and avoids read anew, by --llm, --expand or the parser",
    }
    made = {name: actions.add_parser(name, help=said) for name, said in about.items()}
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
    return made


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
