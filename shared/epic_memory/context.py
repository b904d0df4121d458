"""Context given to a generator: the preferences that matter, then each hit's number, guidance and content."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Real
from typing import get_args

from epic_memory.errors import InvalidInputError
from epic_memory.preferences.foreign import language_for
from epic_memory.text.language import ENGLISH
from epic_memory.text.translations import LANGUAGES, translated
from epic_memory.types import Hit, Hits, MemoryEntry, Preference, Stance
from epic_memory.types.search_options import Opening, SearchOptions
from epic_memory.types.validation import one_of
from epic_memory.types.weights import StageWeights
from epic_memory.verification.wording import is_warning, is_worded

MATTERING = "The user's preferences, the most relevant first:"
"""Heading of the preferences."""
KNOWN = "What is known of the user:"
"""Heading of the facts."""
DOCUMENT = "Document {}:"
"""Heading of a hit, with its number."""
ALLOWANCE = 150
"""Approximate number of tokens that the preferences of a context may take: about ten preferences."""

_MOST_LISTED = 8
_CHARACTERS_A_TOKEN = 5

# A heading counts wherever a model may see the beginning of a line.
_LINE = re.compile(r"([^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+)")
# What a heading may be disguised with: marks, invisible characters and letters that look like nothing.
_UNREAD = re.compile(r"[^\w\s:\uff1a\ufe55'\u2019,]+|[_\u115f\u1160\u3164\uffa0]+")
_GUIDANCE, _CONTENT, _BY = "Interpretation Guidance:", "Content:", "Written by: {}, {}"
_LONGEST_HEADING = 200
# Characters that look like "<", and those that may be put between the letters of a tag's name to disguise it: no such
# opening, as each begins a tag of its own.
_OPENING = "<\uff1c\ufe64"
_BETWEEN = rf"(?:[^\w>{_OPENING}]|[\u115f\u1160\u3164\uffa0])*"
# What programs say of an item by its metadata `origin`.
_WRITTEN = {"other": "another person", "page": "a page or book", "assistant": "an assistant", "tool": "a program"}
_WARNINGS = {
    Stance.CONFLICTS: 'Steer clear: this conflicts with the preference "{}". ',
    Stance.MIXED: 'Take only what suits the preference "{}". ',
}


@dataclass(frozen=True, kw_only=True)
class ContextWeights(StageWeights):
    """Bounds by which a context leaves out preferences and hits."""

    least_chance: float  # least chance of one that is listed: one left out cannot be followed
    worth_telling: float  # share of the score of a first hit that suits the user from which others are told


def format_context(
    hits: Iterable[Hit],
    *,
    preferences: Opening = "matter",
    allowance: int = ALLOWANCE,
    every_hit: bool = False,
) -> str:
    """Format the paper's context: `Document i:`, `Interpretation Guidance:` and `Content:` for each hit.

    The context opens with the preferences that matter to the query, whether or not a hit was kept for them, and with
    the facts of the user that are relevant. A warning about content that conflicts with a preference comes before the
    instruction, so that a model does not recommend it. But for the paper's context (`preferences="none"`), neutral
    guidance is left out if it says nothing of its own or its preference does not matter to the query, and so are hits
    that answer much worse than a first one that suits the user.

    Args:
        hits: The hits of a search; `Hits` also hold the preferences that matter.
        preferences: Which preferences the context opens with.
        allowance: Approximate number of tokens that the preferences may take; ignored for "all".
        every_hit: Keep the hits that answer much worse than the first, as where a `min_score` was asked for.

    Raises:
        InvalidInputError: for an unknown value of `preferences`.
    """
    numbered, language = numbered_hits(hits), language_of_context(hits)
    opening = format_preferences(hits, preferences=preferences, allowance=allowance, language=language)
    if isinstance(hits, Hits) and hits.matters and preferences != "none":
        mattering = {str(one) for one in those_that_matter(hits.matters, len(hits.matters) * allowance)}
        kept = numbered if every_hit else _worth_telling(numbered, mattering)
        numbered = [(number, _to_the_point(hit, mattering)) for number, hit in kept]
    return join_context([opening, *(format_hit(number, hit, language) for number, hit in numbered)], language)


def context_of(hits: Hits, options: SearchOptions, allowance: int = ALLOWANCE) -> str:
    """Format the context of a search with these options; a `min_score` that was asked for keeps every hit."""
    every = not isinstance(options.min_score, str)
    return format_context(hits, preferences=options.opening, allowance=allowance, every_hit=every)


def language_of_context(hits: Iterable[Hit]) -> str:
    """Return the language of a context: the one asked for, else that of most preferences, of all for `Hits`."""
    if not isinstance(hits, Hits):
        return language_for(entry.preference for hit in hits for entry in hit.entries)
    return hits.language or language_for(preference for preference, _ in hits.matters)


def numbered_hits(hits: Iterable[Hit]) -> list[tuple[int, Hit]]:
    """Return hits in the order of a context: first the facts of the user that are relevant, numbered 0 and whether or
    not they are among the hits, then the others, numbered from 1.
    """
    given = list(hits)
    first = hits.facts if isinstance(hits, Hits) else []
    facts = {hit.item.id: hit for hit in (*first, *given) if hit.tier == "fact"}
    others = [hit for hit in given if hit.item.id not in facts]
    return [*((0, hit) for hit in facts.values()), *enumerate(others, start=1)]


def join_context(parts: Iterable[str], language: str = ENGLISH) -> str:
    """Join the parts of a context, of which facts that follow each other share one heading."""
    joined: list[str] = []
    known = translated(KNOWN, language)
    in_facts = False
    for part in filter(None, parts):
        is_fact = part.startswith(f"{known}\n")
        if is_fact and in_facts:
            joined[-1] += part.removeprefix(known)
        else:
            joined.append(part)
        # The preferences may stand before the first of them, in one part.
        in_facts = is_fact or f"\n\n{known}\n" in part
    return "\n\n".join(joined)


def format_preferences(
    hits: Iterable[Hit], *, preferences: Opening = "matter", allowance: int = ALLOWANCE, language: str | None = None
) -> str:
    """Format the opening of a context, one line for each preference; return an empty text if there is none to list.

    Raises:
        InvalidInputError: for an unknown value of `preferences`.
    """
    one_of("preferences of a context", preferences, get_args(Opening))
    if preferences == "none" or not isinstance(hits, Hits):
        return ""
    chosen = [one for one, _ in hits.matters] if preferences == "all" else those_that_matter(hits.matters, allowance)
    if not chosen:
        return ""
    language = language or language_of_context(hits)
    lines = (f"- {_quoted(_one_line(one.text), language)}" for one in chosen)
    return "\n".join([translated(MATTERING, language), *lines])


def those_that_matter(matters: Sequence[tuple[Preference, float]], allowance: int = ALLOWANCE) -> list[Preference]:
    """Choose the preferences to tell a model, heaviest first: as many as matter and fit, or none if none matters.

    Args:
        matters: Preferences, heaviest first, each with the chance that it matters.
        allowance: Approximate number of tokens they may take. The first one chosen may take more.

    Raises:
        InvalidInputError: for an allowance that is no number.
    """
    weights = ContextWeights.shipped()
    if not isinstance(allowance, Real) or isinstance(allowance, bool):
        raise InvalidInputError(f"allowance must be a number of tokens, not {allowance!r}.")
    chosen: list[Preference] = []
    left = allowance * _CHARACTERS_A_TOKEN
    for preference, chance in matters[:_MOST_LISTED]:
        left -= len(preference.text) + 3
        if chosen and left < 0:
            break
        if chance >= weights.least_chance:
            chosen.append(preference)
    return chosen


def _one_line(text: str) -> str:
    return " ".join(text.split())


def documents_of_context(context: str) -> list[str]:
    """Split a context into its hits as `format_hit` wrote them; the first part also holds the text before the first
    hit.
    """
    headings = [rf"(?m:^){numbered_pattern(language)}\n" for language in LANGUAGES]
    begins = [(found.start(), heading) for heading in headings if (found := re.search(heading, context))]
    # The blank line before every document but the first; the first heading is in the language of the context.
    return re.split(rf"\n\n(?={min(begins)[1]})", context) if begins else [context]


def numbered_pattern(language: str) -> str:
    """Return a pattern for the heading of any document."""
    return re.escape(translated(DOCUMENT, language)).replace(r"\{\}", r"\d+")


def without_tags(text: str, *names: str) -> str:
    """Return a text that can neither open nor close a tag with one of the names, to be put between such tags.

    The opening character of anything that looks like such a tag, also if its letters are disguised, becomes ‹. The text
    still reads the same.
    """
    return _tags(names).sub("‹", text)


@lru_cache(maxsize=64)
def _tags(names: tuple[str, ...]) -> re.Pattern[str]:
    spelled = (_BETWEEN.join(map(_forms, re.findall(r"\w", name))) for name in names)
    return re.compile(f"[{_OPENING}](?={_BETWEEN}(?:{'|'.join(spelled)}))")


def _forms(letter: str) -> str:
    """Return a pattern for a letter in lower case, upper case and their full-width forms."""
    forms = dict.fromkeys((letter, letter.lower(), letter.upper()))
    wide = [chr(ord(form) + 0xFEE0) for form in forms if len(form) == 1 and "!" <= form <= "~"]
    return f"(?:{'|'.join(map(re.escape, [*forms, *wide]))})"


def _worth_telling(numbered: list[tuple[int, Hit]], mattering: set[str]) -> list[tuple[int, Hit]]:
    """Return the numbered hits without those that answer much worse than a first one that suits the user.

    What conflicts with a preference that matters stays: a model is warned of it.
    """
    first = next((hit for number, hit in numbered if number == 1), None)
    if first is None or not any(entry.stance is Stance.SUPPORTS for entry in first.entries):
        return numbered

    def warns(hit: Hit) -> bool:
        return any(entry.stance is Stance.CONFLICTS and entry.preference in mattering for entry in hit.entries)

    least = ContextWeights.shipped().worth_telling * first.score
    return [(number, hit) for number, hit in numbered if number < 2 or hit.score >= least or warns(hit)]


def _to_the_point(hit: Hit, mattering: set[str]) -> Hit:
    """Return a hit without neutral guidance that says nothing of its own, or is for preferences that do not matter."""

    def tells(entry: MemoryEntry) -> bool:
        says = entry.preference in mattering and not is_worded(entry.instruction)
        return says or entry.stance is not Stance.NEUTRAL

    entries = tuple(filter(tells, hit.entries))
    return hit if len(entries) == len(hit.entries) else replace(hit, entries=entries)


def format_hit(number: int, hit: Hit, language: str | None = None) -> str:
    """Format one hit of a context under its number; under the heading of what is known of the user if that is 0.

    The language is one of `LANGUAGES`; by default that of the preferences that the hit was kept for.
    """
    language, metadata = language or language_of_context([hit]), hit.item.metadata
    by = _WRITTEN.get(str(metadata.get("origin")))
    written = translated(by, language) if by else ""
    if number == 0:
        before = "; ".join(_one_line(_quoted(item.text, language)).rstrip(".") for item in hit.earlier)
        told = [translated("said earlier: {}", language).format(before)] if before else []
        told += [translated("written by {}", language).format(written)] if written else []
        text = _one_line(_quoted(hit.text, language))
        return f"{translated(KNOWN, language)}\n- {text}" + "".join(f" ({each})" for each in told)
    guidance = [line for line in (_guidance(entry, language) for entry in hit.entries) if line]
    head = [translated(_GUIDANCE, language), *guidance] if guidance else []
    # Several turns in one text say each who speaks.
    part = "in part" if "turn" in metadata and "speaker" not in metadata else "not by the user"
    head += [translated(_BY, language).format(written, translated(part, language))] if written else []
    head = [translated(DOCUMENT, language).format(number), *head, translated(_CONTENT, language)]
    return "\n".join([*head, _quoted(hit.content, language)])


def _quoted(text: str, language: str) -> str:
    """Quote the lines that look like headings of a context, so that a text cannot begin a section of its own."""
    return _LINE.sub(lambda line: f"> {line[0]}" if _is_heading(line[0], language) else line[0], text)


def _is_heading(line: str, language: str) -> bool:
    if not any(colon in line for colon in ":\uff1a\ufe55"):
        return False
    plain = _plain(line)
    return any(_headings(each).match(plain) for each in {ENGLISH, language})


def _plain(line: str) -> str:
    # Without accents: one can be written in several ways, and changes no letter for a reader.
    letters = _UNREAD.sub("", unicodedata.normalize("NFKD", line)).lstrip()[:_LONGEST_HEADING]
    return unicodedata.normalize("NFKC", letters).casefold()


@lru_cache
def _headings(language: str) -> re.Pattern[str]:
    """Return a pattern for the beginnings of plain lines that look like headings in a language."""
    headings = (DOCUMENT, _GUIDANCE, _CONTENT, _BY, KNOWN, MATTERING)
    told = [translated(each, language).replace("{}", "0") for each in headings]
    # With and without what stands in brackets.
    heads = {re.split("[,:]", _plain(each))[0] for whole in told for each in (whole, whole.split("\uff08")[0])}
    special = {"0": r"\d+", "'": ".{0,2}", "\u2019": ".{0,2}"}
    spaced = (r"\s*".join(special.get(letter, letter) for letter in head if letter != " ") for head in heads)
    return re.compile(rf"\s*(?:{'|'.join(spaced)})(?:,[^:]*)?\s*:")


def _guidance(entry: MemoryEntry, language: str) -> str:
    """Format the guidance for one entry: its instruction after a warning, if its stance calls for one."""
    instruction = " ".join(entry.instruction.split())
    warning = _WARNINGS.get(entry.stance, "")
    if warning:
        warned = is_warning(instruction, entry.stance)
        warning = "" if warned else translated(warning, language).format(" ".join(entry.preference.split()))
    return f"- {warning}{instruction}".rstrip() if warning or instruction else ""
