"""The context handed to a generator: the preferences that matter, then each hit's number, guidance and content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias, get_args

from epic_core.errors import InvalidInputError
from epic_core.types import Hit, Hits, MemoryEntry, Preference, Stance

TellPreferences: TypeAlias = Literal["matter", "all", "none"]
"""Which preferences a context opens with: those that matter to the query, all of the user's, or none, the paper's."""
MATTERING = "The user's preferences, the most relevant first:"
"""The heading of the preferences."""
ALLOWANCE = 150
"""How many tokens the preferences of a context may take, about: some ten of them."""

# A preference is worth a line from this chance on that it matters, if any is likely to: what is left out cannot be
# followed, and what does not matter costs a few tokens.
_LEAST_CHANCE = 0.02
_ANY = 0.1
_CHARACTERS_A_TOKEN = 5

# Wherever a model may see a new line begin.
_HEADING = re.compile(
    r"(?:^|(?<=[\r\v\f\x1c-\x1e\x85\u2028\u2029]))[^\S\n]*"
    r"(?:Document\s+\d+\s*:|Interpretation Guidance\s*:|Content\s*:)",
    re.I | re.M,
)
_QUOTED = r"> \g<0>"
# Before one that is not the first.
_NEXT = re.compile(r"\n\n(?=Document \d+:\n)")
# What a name in a tag may be hidden by, and what looks like the beginning of a tag.
_BETWEEN = r"(?:[^\w<>]|[\u115f\u1160\u3164\uffa0])*"
_OPENING = "[<\uff1c\ufe64]"
_WARNINGS = {
    Stance.CONFLICTS: 'Steer clear: this conflicts with the preference "{}". ',
    Stance.MIXED: 'Take only what suits the preference "{}". ',
}


def format_context(hits: Iterable[Hit], *, preferences: TellPreferences = "matter", allowance: int = ALLOWANCE) -> str:
    """Format the paper's context: `Document i:`, `Interpretation Guidance:` and `Content:` for each hit.

    It opens with the preferences that matter to the query, whether or not a hit carries them. What a preference rules
    out is said before the instruction, so that a model does not recommend it.

    Args:
        hits: What a search found; `Hits` also know which preferences matter.
        preferences: Which preferences it opens with.
        allowance: How many tokens these may take, about; all of them are told whatever they take.

    Raises:
        InvalidInputError: for another choice of preferences.
    """
    opening = format_preferences(hits, preferences=preferences, allowance=allowance)
    told = (format_hit(number, hit) for number, hit in enumerate(hits, start=1))
    return "\n\n".join([opening, *told] if opening else told)


def format_preferences(
    hits: Iterable[Hit], *, preferences: TellPreferences = "matter", allowance: int = ALLOWANCE
) -> str:
    """Format the opening of a context, a line for each preference; empty where none is told."""
    if preferences not in get_args(TellPreferences):
        known = ", ".join(get_args(TellPreferences))
        raise InvalidInputError(f"preferences must be one of {known} for a context; not {preferences!r}.")
    if preferences == "none" or not isinstance(hits, Hits):
        return ""
    told = [one for one, _ in hits.matters] if preferences == "all" else those_that_matter(hits.matters, allowance)
    if not told:
        return ""
    return "\n".join([MATTERING, *(f"- {_HEADING.sub(_QUOTED, _one_line(one.text))}" for one in told)])


def those_that_matter(matters: Sequence[tuple[Preference, float]], allowance: int = ALLOWANCE) -> list[Preference]:
    """Choose the preferences to tell a model: the heaviest first, as many as matter and fit; none if none matters.

    Args:
        matters: Preferences, heaviest first, each with the chance that it matters.
        allowance: How many tokens they may take, about. The heaviest is told whatever it takes.
    """
    if not matters or max(chance for _, chance in matters) < _ANY:
        return []
    told: list[Preference] = []
    left = allowance * _CHARACTERS_A_TOKEN
    for preference, chance in matters:
        left -= len(preference.text) + 3
        if told and left < 0:
            break
        if chance >= _LEAST_CHANCE:
            told.append(preference)
    return told


def told_in_context(options: Mapping[str, Any]) -> tuple[TellPreferences, dict[str, Any]]:
    """Split the options of a context: which preferences it opens with, and those of the search.

    Both are called `preferences`: "matter", "all" and "none" are the context's.
    """
    told = options.get("preferences")
    if isinstance(told, str) and told in get_args(TellPreferences):
        return told, {name: value for name, value in options.items() if name != "preferences"}  # type: ignore[return-value]
    return "matter", dict(options)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def documents_of_context(context: str) -> list[str]:
    """The hits of a context, each as `format_hit` wrote it; what stands before the first is with it."""
    return _NEXT.split(context)


def without_tags(text: str, *names: str) -> str:
    """A text that can neither open nor close tags with some names, between which it stands.

    What looks like such a tag, whatever its letters are hidden by or in, begins with ‹ then. It says the same.
    """
    return _tags(names).sub("‹", text)


@lru_cache(maxsize=64)
def _tags(names: tuple[str, ...]) -> re.Pattern[str]:
    spelled = (_BETWEEN.join(map(_forms, re.findall(r"\w", name))) for name in names)
    return re.compile(f"{_OPENING}(?={_BETWEEN}(?:{'|'.join(spelled)}))")


def _forms(letter: str) -> str:
    """A letter, small or capital, and its full-width forms."""
    forms = dict.fromkeys((letter, letter.lower(), letter.upper()))
    wide = [chr(ord(form) + 0xFEE0) for form in forms if len(form) == 1 and "!" <= form <= "~"]
    return f"(?:{'|'.join(map(re.escape, [*forms, *wide]))})"


def format_hit(number: int, hit: Hit) -> str:
    """One hit of `format_context`, under its number."""
    guidance = [line for line in map(_guidance, hit.entries) if line]
    head = [f"Document {number}:"]
    if guidance:
        head += ["Interpretation Guidance:", *guidance]
    # A text cannot begin a section of its own: what looks like a heading is quoted.
    return "\n".join([*head, "Content:", _HEADING.sub(_QUOTED, hit.text)])


def _guidance(entry: MemoryEntry) -> str:
    """What is said about the content under one preference; of a rewritten item, only what to steer clear of."""
    instruction = " ".join(entry.instruction.split())
    warned = instruction.lower().startswith("steer clear")
    warning = "" if warned else _WARNINGS.get(entry.stance, "").format(" ".join(entry.preference.split()))
    return f"- {warning}{instruction}".rstrip() if warning or instruction else ""
