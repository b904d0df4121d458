"""Reasons in words why an item is in a memory, for one who does not read cosines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.text import Text

from epic_apps.cli.printing import plain
from epic_memory.encoders.base import embed
from epic_memory.text.stems import content_stems
from epic_memory.types import Item
from epic_memory.types.reports import BuildReport, NotKept
from epic_memory.types.results import Hit, MemoryEntry
from epic_memory.types.verdicts import Stance

if TYPE_CHECKING:
    from epic_memory.memory import EpicMemory

MARKS = {Stance.SUPPORTS: ("✓", "green"), Stance.CONFLICTS: ("✗", "red"), Stance.MIXED: ("~", "yellow")}
"""The sign and the colour of each stance but the neutral one."""

_MOST_TOPICS = 3
_FIGURE = re.compile(r"\d\.\d")
_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
# Words of a preference that say how it is meant, not what it is about.
_ATTITUDE = frozenset(
    stem
    for stem in content_stems(
        "avoid prefer love enjoy hate dislike refuse want need always never rather only strict strictly follow anything"
        " anywhere something stay won't can't bear makes made other big small good new one get go"
    )
)
_SUITS = {
    Stance.SUPPORTS: "it suits you",
    Stance.CONFLICTS: "it goes against that",
    Stance.MIXED: "part of it suits you, part does not",
    Stance.NEUTRAL: "whether it suits you is open",
}
_OF_TIER = {
    "light": "kept for its text only; it is near your question",
    "waiting": "not judged yet: it waits for a language model; it is near your question",
    "fact": "you said so yourself",
    "fallback": "found outside this memory",
}


def topics(text: str, preference: str) -> list[str]:
    """Return the words of a preference that a text shares, neighbours together, as the preference has them."""
    held = set(content_stems(text))
    runs: list[list[re.Match[str]]] = []
    for match in _WORD.finditer(preference):
        found = set(content_stems(match.group())) - _ATTITUDE
        if not found or not found <= held:
            continue
        if runs and not preference[runs[-1][-1].end() : match.start()].strip():
            runs[-1].append(match)
        else:
            runs.append([match])
    shared = [preference[run[0].start() : run[-1].end()].lower() for run in runs]
    return list(dict.fromkeys(shared))[:_MOST_TOPICS]


def reason(entry: MemoryEntry, text: str) -> str:
    """Return why an item was kept for a preference: what it is about, what the user said, and whether that suits."""
    if not entry.preference:
        return "kept without a question for preferences"
    about = topics(text, entry.preference)
    listed = " and ".join([", ".join(about[:-1]), about[-1]] if len(about) > 1 else about)
    near = f"about {listed}" if about else "close to what you said"
    # What a language model says is words already; the embedded verifier's figures are for --verbose.
    told = f". {entry.rationale}" if entry.rationale and not _FIGURE.search(entry.rationale) else ""
    return f'kept because it is {near}, and you said: "{entry.preference}"; {_SUITS[entry.stance]}{told}'


def reasons(hit: Hit) -> list[str]:
    """Return why a hit is in the memory, one reason for each entry that matched."""
    return [reason(entry, hit.item.text) for entry in hit.entries] or [_OF_TIER.get(hit.tier, f"from {hit.tier}")]


def marked(words: str, stance: Stance = Stance.NEUTRAL) -> Text:
    """Return words with the sign and in the colour of a stance."""
    sign, style = MARKS.get(stance, ("", ""))
    return plain(f"{sign} {words}" if sign else words, style)


def turned_away_now(memory: EpicMemory, item: Item) -> NotKept | None:
    """Judge an item as if it came now; return why it would not be kept, or None if it would be."""
    if not memory.preferences:
        why = "there is no preference that it could be kept for"
        return NotKept(item_id=item.id, text=item.text, stage="coarse filter", reason=why)
    report = BuildReport()
    (judged,) = memory.judge([item], report=report)
    if judged.kept:
        return None
    vectors = embed(memory.encoder, [item.content, *map(str, memory.preferences)])
    similarities = vectors[1:] @ vectors[0]
    nearest = int(similarities.argmax())
    return NotKept(
        item_id=item.id,
        text=item.text,
        stage="verification" if report.passed else "coarse filter",
        reason=judged.verdict.rationale,
        preference=memory.preferences[nearest].text,
        similarity=float(similarities[nearest]),
    )
