"""The commands about preferences: epic preferences FILE list, add, remove, replace, set, reread."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from epic_core.aspects import FIRMNESS, Aspects

if TYPE_CHECKING:
    from epic_core.cli_files import Open, Print

_READ_BY = {"parser": "read by the parser", "model": "read by a language model", "user": "set by the user"}


def add_actions(parser: argparse.ArgumentParser, verifying: Callable[..., None], opened: Open, printed: Print) -> None:
    """Add the actions to the parser of `epic preferences FILE`.

    Args:
        parser: It has the options that every command has.
        verifying: Adds the options of a language model.
        opened: Opens the memory that options name.
        printed: Prints what may come from a document.
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

    def reread(options: argparse.Namespace) -> None:
        with opened(options) as memory:
            report = memory.set_aspects(options.text, None)
            for reason in report.unread.values():
                printed(f"warning: {reason}")
            printed(_line(memory.aspects(options.text), again=bool(report.unread)))

    runs = {"list": listed, "add": add, "remove": remove, "replace": replace, "set": correct, "reread": reread}
    verifying(parser)
    actions = _actions(parser)
    for name, run in runs.items():
        actions[name].set_defaults(run=run)
    for name in ("add", "remove", "replace", "reread"):
        verifying(actions[name], again=True)


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    about = {
        "list": "with what each likes and avoids, and who read it",
        "add": "the items that are held are matched with it too",
        "remove": "with the items that nothing else holds",
        "replace": "put another in its place",
        "set": "say what it likes and avoids; what is not given stays",
        "reread": "have what it likes and avoids read anew, by --llm or the parser",
    }
    made = {name: actions.add_parser(name, help=said) for name, said in about.items()}
    for name in ("add", "remove", "set", "reread"):
        made[name].add_argument("text", help=None if name == "add" else "its text or id")
    made["add"].add_argument("--expires", metavar="WHEN", help="until when it counts, like 2027-03-31T12:00:00+01:00")
    made["replace"].add_argument("old", help="its text or id")
    made["replace"].add_argument("new")
    for side in ("likes", "avoids"):
        made["set"].add_argument(f"--{side}", action="append", metavar="PHRASE", help="once or more; '' for nothing")
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


def _line(aspects: Aspects, *, again: bool = False) -> str:
    failed = "; a language model failed, and is asked again" if again else ""
    return f"    {aspects}  ({_READ_BY[aspects.source]}{failed})"
