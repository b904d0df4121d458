"""Commands about preferences: epic preferences FILE list, show, add, remove, replace, set, reread."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from epic_apps.cli.options import Group, InFile, Judging, command, new_app
from epic_apps.cli.printing import table, warn
from epic_memory.errors import InvalidInputError

if TYPE_CHECKING:
    from epic_memory.memory import EpicMemory
    from epic_memory.types.preferences import Aspects

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


class _Actions(Group):
    """Actions that are named behind the file: `epic preferences FILE list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the action in front; without one, list."""
        place = next((place for place, word in enumerate(args) if word in self.commands), None)
        if place is None and args and not args[0].startswith("-"):
            # What stands behind the file is no action, and is refused by its name.
            place = 1 if len(args) > 1 and not args[1].startswith("-") else None
            args = args if place else ["list", *args]
        if place:
            args = [args[place], *args[:place], *args[place + 1 :]]
        return super().parse_args(ctx, args)


app = new_app(
    cls=_Actions,
    help="List, show, add, remove, replace or correct preferences: epic preferences FILE ACTION.",
    subcommand_metavar="FILE [ACTION] [ARGS]...",
)
Which = Annotated[str, Argument(metavar="PREFERENCE", help="its text or id")]
Phrases = list[str] | None


@command(app)
def _list(file: InFile) -> None:
    """List them with what each likes and avoids, and who read it."""
    with file.open() as memory:
        unread = memory.preferences.unread
        listed = [
            {
                "id": each.id,
                "text": each.text,
                "expires_at": each.expires_at,
                "aspects": memory.preferences.aspects(each),
            }
            for each in memory.preferences
        ]
        lines = []
        for preference in memory.preferences:
            ends = preference.expires_at
            until = "" if ends is None else f"  (until {ends:%Y-%m-%d %H:%M} UTC)"
            lines.append(f"{preference.id}  {preference}{until}")
            lines.append(_line(memory.preferences.aspects(preference), again=preference.text in unread))
    file.show(listed, *(lines or ["It has no preferences."]))


@command(app)
def _show(file: InFile, text: Which) -> None:
    """Show what one likes and avoids, what it means in practice, and who said so."""
    with file.open() as memory:
        _print(file, memory, text)


@command(app)
def _add(
    file: InFile,
    judging: Judging,
    text: Annotated[str, Argument(metavar="TEXT", help="the preference")],
    expires: Annotated[
        str | None, Option(metavar="WHEN", help="until when it counts, like 2027-03-31T12:00:00+01:00")
    ] = None,
) -> None:
    """Add one; the items that are held are matched with it, too."""
    from epic_memory.types import Preference
    from epic_memory.types.validation import checked_moment

    ends = None if expires is None else checked_moment(expires)
    preference = Preference(text=text, expires_at=ends)
    with file.open(judging) as memory:
        file.show(memory.preferences.add(preference, progress=sys.stderr.isatty()))


@command(app)
def _remove(file: InFile, judging: Judging, text: Which) -> None:
    """Remove one, with the items that nothing else holds."""
    with file.open(judging) as memory:
        report = memory.preferences.remove(text)
        for warning in report.warnings:
            warn(warning)
        file.show({"items": len(memory)}, f"removed; {len(memory)} items are left")


@command(app)
def _replace(
    file: InFile, judging: Judging, old: Which, new: Annotated[str, Argument(metavar="NEW", help="the new preference")]
) -> None:
    """Put another in its place."""
    with file.open(judging) as memory:
        file.show(memory.preferences.replace(old, new, progress=sys.stderr.isatty()))


@command(app)
def _set(
    file: InFile,
    text: Which,
    likes: Annotated[Phrases, Option(metavar="PHRASE", help="once or more; '' for nothing")] = None,
    avoids: Annotated[Phrases, Option(metavar="PHRASE", help="once or more; '' for nothing")] = None,
    firmness: Annotated[Literal["strict", "strong", "mild"] | None, Option(help="how firmly it is meant")] = None,
    scope: Annotated[str | None, Option(help="when or where it holds; '' for always")] = None,
    question: Annotated[
        Phrases, Option(metavar="PHRASE", help="what the user might ask for which it matters; '' for nothing")
    ] = None,
    follows: Annotated[Phrases, Option(metavar="PHRASE", help="what suits the user; '' for nothing")] = None,
    breaks: Annotated[Phrases, Option(metavar="PHRASE", help="what it rules out; '' for nothing")] = None,
) -> None:
    """Say what it likes and avoids, and what it means in practice; what is not given stays."""
    from epic_memory.types.preferences import FIRMNESS, Expansion

    sides, parts = {"liked": likes, "avoided": avoids}, {"questions": question, "follows": follows, "breaks": breaks}
    changed: dict[str, Any] = {name: _stated(given) for name, given in sides.items() if given is not None}
    changed |= {} if firmness is None else {"firmness": FIRMNESS[firmness]}
    changed |= {} if scope is None else {"scope": scope.strip()}
    with file.open() as memory:
        # Both are made before either is written, so that what is wrong changes nothing.
        aspects = replace(memory.preferences.aspects(text), **changed, source="user") if changed else None
        held = memory.preferences.expansions(text)
        if not all(given is None for given in parts.values()):
            meant = {
                name: getattr(held, name, ()) if given is None else _stated(given) for name, given in parts.items()
            }
            memory.preferences.set_expansion(text, Expansion(**meant, source="user"))
        elif not changed:
            raise InvalidInputError("Say what it likes or avoids, or what it means: --likes, --avoids, --follows ...")
        if aspects is not None:
            memory.preferences.set_aspects(text, aspects)
        _print(file, memory, text)


def _stated(phrases: list[str]) -> tuple[str, ...]:
    return tuple(phrase for phrase in phrases if phrase.strip())


@command(app)
def _reread(file: InFile, judging: Judging, text: Which) -> None:
    """Have what it likes and avoids read anew, by --llm, --expand or the parser."""
    with file.open(judging) as memory:
        report = memory.preferences.set_aspects(text, None)
        held = memory.preferences.expansions(text)
        if held is not None and held.source == "user" and not report.unread and (judging.llm or judging.expand):
            # The model's own expansion was rewritten with the aspects; the user's is reset here, as the user's
            # aspects are.
            report = memory.preferences.set_expansion(text, None)
        for reason in report.unread.values():
            warn(reason)
        file.show(memory.preferences.aspects(text), _line(memory.preferences.aspects(text), again=bool(report.unread)))


def _print(file: InFile, memory: EpicMemory, text: str) -> None:
    """Print the aspects and the expansion of a preference."""
    aspects, expansion = memory.preferences.aspects(text), memory.preferences.expansions(text)
    rows = [(name, each) for name in ("questions", "follows", "breaks") for each in getattr(expansion, name, ())]
    by = "It has no expansion of its own." if expansion is None else f"({_WRITTEN_BY[expansion.source]})"
    # A line break in a user's phrase must not make it look like another row.
    shown = table(("", ""), [(name, " ".join(phrase.split())) for name, phrase in rows])
    file.show({"aspects": aspects, "expansion": expansion}, _line(aspects), *([shown] if rows else []), by)


def _line(aspects: Aspects, *, again: bool = False) -> str:
    failed = "; a language model failed, and is asked again" if again else ""
    return f"    {aspects}  ({_READ_BY[aspects.source]}{failed})"
