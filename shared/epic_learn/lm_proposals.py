"""Proposals of a language model: one call for a few turns, and nothing that is not quoted from the user's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema

from epic_learn.boundaries import doubtful_from, own_words
from epic_learn.conversations import Turn
from epic_learn.cues import CueWeights, said_at
from epic_learn.durations import end_in_words, end_of
from epic_learn.proposal_report import ProposalReport
from epic_learn.references import Known, means_the_same
from epic_learn.types import Proposal, ProposalKind, plain
from epic_memory.errors import InvalidInputError
from epic_memory.lm.answers import Line, Shape, letters
from epic_memory.lm.base import LanguageModel
from epic_memory.lm.client import LMReader, readings_of
from epic_memory.lm.prompting import one_line, section
from epic_memory.runtime.effects import Effects
from epic_memory.text.language import ENGLISH, language_of
from epic_memory.text.stems import content_stems

_MOST_TOKENS = 900
_MOST_PROPOSALS = 12
_TURNS, _CHARACTERS = 12, 6000
_MOST_KNOWN = 60
_BEGINNING = 3  # letters

_WITHOUT_TEXT = ("remove_preference", "end_fact")
_BESIDE: dict[str, ProposalKind] = {"replace_preference": "add_preference", "update_fact": "add_fact"}
_KINDS = {letters(kind): kind for kind in get_args(ProposalKind)}
_SPACES = re.compile(r"\s+")


_Kind = Annotated[Line, WithJsonSchema({"type": "string", "enum": list(get_args(ProposalKind))})]


class Proposed(Shape):
    """A proposal as a model makes it, unchecked."""

    kind: _Kind
    text: Line = ""
    old: Line = ""
    quote: Line
    ends: Line = ""


def _usable(given: Any) -> Any:
    """Return the first elements of a list that are proposals; anything that is no list as it is."""
    if not isinstance(given, list):
        return given
    kept = []
    for each in given:
        with suppress(ValidationError):
            kept.append(Proposed.model_validate(each))
    return kept[:_MOST_PROPOSALS]


class Proposals(Shape):
    """Proposals of a model after some turns."""

    proposals: Annotated[tuple[Proposed, ...], BeforeValidator(_usable), Field(max_length=_MOST_PROPOSALS)]


def proposed_by(
    lm: LanguageModel, turns: Sequence[Turn], known: Sequence[Known], report: ProposalReport
) -> Effects[list[Proposal]]:
    """Return what a model proposes and the user's words bear out; the rest is dropped and counted."""
    windows = [window for window in _windows(turns) if any(turn.role == "user" for turn in window)]
    shown = "\n".join(f"- {one_line(each.text)}" for each in known[-_MOST_KNOWN:]) or "- nothing yet"
    reader: LMReader[list[Turn], Proposals] = LMReader(
        lm,
        "proposals",
        Proposals,
        lambda window: {"known": shown, "conversation": _shown(window)},
        max_tokens=_MOST_TOKENS,
    )
    readings, failure = yield from readings_of(lm, reader, windows, "conversations")
    if failure:
        report.failures.append(failure)
    made: list[Proposal] = []
    for place, reading in sorted(readings.items()):
        report.usage.add(reading.usage)
        if reading.value is None:
            numbers = f"{windows[place][0].number} to {windows[place][-1].number}"
            report.failures.append(f"turns {numbers} were not read by {lm.name}: {reading.failure}")
        for proposed in reading.value.proposals if reading.value else ():
            proposal, reason = _checked(proposed, windows[place], known, lm.name)
            if proposal is None:
                report.dropped[reason] += 1
            else:
                made.append(proposal)
    return made


def _shown(turns: Sequence[Turn]) -> str:
    lines = "\n".join(f"turn {turn.number}, {one_line(turn.role)}: {turn.text}" for turn in turns)
    return section(lines, "conversation")


def _windows(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    window: list[Turn] = []
    for turn in turns:
        size = sum(len(each.text) for each in window)
        if window and (len(window) == _TURNS or size + len(turn.text) > _CHARACTERS):
            yield window
            window = []
        window.append(turn)
    if window:
        yield window


def _checked(
    proposed: Proposed, turns: Sequence[Turn], known: Sequence[Known], name: str
) -> tuple[Proposal | None, str]:
    """Return the proposal of a model if the user's own words bear it out, else the reason why not."""
    kind = _KINDS.get(letters(proposed.kind))
    if kind is None:
        return None, "kinds that a model made up"
    found = _quoted(proposed.quote, turns)
    if found is None:
        return None, "quotes that are not in a turn of the user's own words"
    turn, quote, confidence = found
    held = next((each.text for each in known if plain(each.text) == plain(proposed.old)), "") if proposed.old else ""
    if not kind.startswith("add") and not held:
        return None, "changes of what is not known"
    ends, now = _own(proposed.ends, turn), said_at(turn)
    end, sure = end_in_words(ends, now) if ends else (end_of(quote, now), True)
    if ends and not kind.startswith("add"):
        # What holds for a while stands beside what holds for good.
        if kind in _WITHOUT_TEXT:
            return None, "ends that are none for good"
        kind, held = _BESIDE[kind], ""
    try:
        proposal = Proposal(
            kind=kind,
            text="" if kind in _WITHOUT_TEXT else proposed.text,
            old="" if kind.startswith("add") else held,
            quote=quote,
            turn=turn.number,
            confidence=confidence,
            source=name,
            expires_at=None if end is None or kind in _WITHOUT_TEXT or end <= now else end,
            ends="" if sure else ends,
        )
    except InvalidInputError:
        return None, "proposals without a text"
    if not _bears_out(quote, f"{proposal.text} {proposal.old}"):
        return None, "quotes that do not say what is drawn from them"
    return (
        (None, "known already") if any(means_the_same(each.text, proposal.text) for each in known) else (proposal, "")
    )


def _quoted(quote: str, turns: Sequence[Turn]) -> tuple[Turn, str, float] | None:
    """Return the user's turn that holds a quote outside what they only cite, the quote as it stands there, and how
    sure it is that the words are theirs.
    """
    for turn in turns if quote.strip() else ():
        own = own_words(turn.text) if turn.role == "user" else ""
        if match := _found(quote, own):
            trusted = match.start() < doubtful_from(own)
            confidence = CueWeights.shipped().changing if trusted else CueWeights.shipped().doubtful
            return turn, turn.text[match.start() : match.end()], confidence
    return None


def _found(quote: str, own: str) -> re.Match[str] | None:
    """Return where a quote stands in words, however they are spaced."""
    words = r"\s+".join(map(re.escape, _SPACES.split(own_words(quote).strip())))
    return re.search(words, own) if words else None


def _own(words: str, turn: Turn) -> str:
    """Return words as they stand in the user's own words; empty if they do not."""
    match = _found(words, own_words(turn.text))
    return turn.text[match.start() : match.end()] if match else ""


def _bears_out(quote: str, text: str) -> bool:
    """Tell whether a quote says something, and in one language shares words with what is drawn from it."""
    said, drawn = ({stem for stem in content_stems(one) if len(stem) > 1} for one in (quote, text))
    # Another form of a word begins alike: "veggie", "vegetarian".
    alike = {stem[:_BEGINNING] for stem in said} & {stem[:_BEGINNING] for stem in drawn}
    return bool(said) and bool(alike or language_of(quote) not in (None, ENGLISH))
