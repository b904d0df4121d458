"""Plain words and harmless texts: what the page says in place of figures, and how it shows what others wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeAlias

from markupsafe import Markup, escape

from epic_apps.cli import reasons
from epic_apps.cli.printing import visible
from epic_learn.origins import place_of, written_by
from epic_learn.types import Proposal
from epic_memory import MemoryEntry, NotKept, Stance
from epic_memory.text.language import ENGLISH
from epic_memory.text.translations import translated
from epic_memory.types.validation import moment

Say: TypeAlias = Callable[[str], Markup]
"""Translation of a message of the page, which may have tags."""

LONGEST = 20_000
"""Most characters of a text on a page of its own."""
SHORTENED = 700
"""Most characters of a text in a list."""

# More marks above and below a letter than any script has would cover the lines around it.
_MARKS = re.compile(r"([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")  # fmt: skip # noqa: E501
_FIGURE = re.compile(r"\d\.\d")

STANCES = {
    Stance.SUPPORTS: "suits you",
    Stance.CONFLICTS: "goes against it",
    Stance.MIXED: "suits in part",
    Stance.NEUTRAL: "on the subject",
}
STAGES = {
    "coarse filter": "off the subject",
    "verification": "no use for it",
    "budget": "no room",
    "expired": "expired",
}
"""Short names of the stages at which a text is turned away."""
_STAGES = {
    "coarse filter": "None of your preferences is about this",
    "verification": "It touches on a preference, but says nothing that matters for it",
    "budget": "It was held, and had to make room for what matters more",
    "expired": "Its time is over",
}
PARTS = {
    "documents": "texts",
    "index": "index of what is kept",
    "instructions": "reasons and guidance",
    "preferences": "preferences",
    "verdicts": "a model's decisions",
    "ledger": "what was seen and turned away",
    "graph": "graph",
    "rest": "the database's own structure",
}
"""Names of the parts of the file, as `Stats.bytes` has them."""
_CHANGES = {
    "add_preference": "New preference",
    "replace_preference": "Changed preference",
    "remove_preference": "No longer a preference",
    "add_fact": "New fact",
    "update_fact": "Changed fact",
    "end_fact": "No longer true",
}


_REASONS = {
    Stance.SUPPORTS: 'Kept because you said: "{}"; it suits you.',
    Stance.CONFLICTS: 'Kept because you said: "{}"; it goes against that.',
    Stance.MIXED: 'Kept because you said: "{}"; part of it suits you, part does not.',
    Stance.NEUTRAL: 'Kept because you said: "{}"; whether it suits you is open.',
}
"""Reasons in other languages than English, which has them as the command line says them."""


def said_in(language: str) -> Say:
    """Return the translation into a language."""
    return lambda message: Markup(translated(message, language, "epic_apps"))


def day(at: float | datetime, language: str = ENGLISH) -> str:
    """Return a day: as English has it, or by its figures."""
    at = at if isinstance(at, datetime) else moment(at)
    return f"{at:%d %b %Y}" if language == ENGLISH else f"{at:%Y-%m-%d}"


def shown(text: object, longest: int = LONGEST) -> str:
    """Return a text without control characters, heaps of marks, and whatever comes after the longest length."""
    whole = str(text)
    clean = _MARKS.sub(r"\1", visible(whole[:longest]))
    return clean if len(whole) <= longest else f"{clean}… ({len(whole) - longest:,} more characters)"


def quote_of(entry: MemoryEntry) -> str:
    """Return the sentence that the entry's instruction quotes from its item; empty if it quotes none."""
    told = entry.instruction.rstrip()
    # A preference may be quoted before: the item's sentence is the last.
    _, quote, words = told[:-1].rpartition('"')
    return words.strip() if quote and told.endswith('"') else ""


def quotes_of(entries: Iterable[MemoryEntry]) -> list[str]:
    """Return the sentences that several entries quote from their item."""
    return [quote_of(entry) for entry in entries]


def with_quotes(text: str, quotes: list[str], longest: int = LONGEST) -> Markup:
    """Return a text as HTML, with what was quoted from it marked."""
    parts: list[str | Markup] = [shown(text, longest)]
    for quote in filter(None, map(shown, dict.fromkeys(quotes))):
        parts = [piece for part in parts for piece in _marked(part, quote)]
    return Markup("").join(escape(part) for part in parts)


def _marked(part: str | Markup, quote: str) -> list[str | Markup]:
    before, found, after = part.partition(quote)
    if isinstance(part, Markup) or not found:
        return [part]
    return [before, Markup("<mark>{}</mark>").format(quote), after]


def reason(entry: MemoryEntry, text: str, say: Say) -> str:
    """Return why a text is kept for a preference, in English as the command line says it."""
    template = _REASONS[entry.stance]
    if entry.preference and (own := say(template)) != template:
        told = "" if _FIGURE.search(entry.rationale) else shown(entry.rationale)
        return Markup(" ").join(filter(None, (own.format(shown(entry.preference)), told)))
    said = shown(reasons.reason(entry, text))
    return f"{said[:1].upper()}{said[1:].rstrip('.')}."


def why_not(record: NotKept, say: Say) -> Markup:
    """Return why an item was turned away, without figures."""
    stage = say(_STAGES[record.stage]) if record.stage in _STAGES else escape(shown(record.stage))
    if record.reason and not _FIGURE.search(record.reason):
        return Markup("{}: {}.").format(stage, shown(record.reason))
    return stage + "."


def note_in_words(note: str, held: bool, say: Say) -> str:
    """Return the note of an explanation, without figures."""
    if not _FIGURE.search(note):
        return shown(note)
    return say("In the light tier, kept for its text only." if held else "Not held.")


def change_of(proposal: Proposal) -> str:
    """Return what a proposal would do."""
    return _CHANGES[proposal.kind]


def said_of(proposal: Proposal, say: Say) -> str:
    """Return who said what a proposal is made of, and where."""
    by = {"page": "written on this page", "onboarding": "your answer to a question"}.get(proposal.source)
    worded = say("worded by an assistant") if written_by(proposal) == "assistant" else ""
    place = place_of(proposal)
    return ", ".join(map(str, filter(None, (say(by) if by else proposal.speaker, place, worded))))


def chance(share: float) -> str:
    """Return how much a preference matters to a query."""
    return "matters" if share >= 0.5 else "may matter" if share >= 0.1 else "hardly matters"


def size(count: float) -> str:
    """Return a number of bytes as people read it."""
    if count < 1000:
        return f"{count:.0f} B"
    return f"{count / 1e3:,.1f} kB" if count < 1e6 else f"{count / 1e6:,.2f} MB"
