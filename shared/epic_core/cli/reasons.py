"""Reasons in words why an item is in a memory, for one who does not read cosines."""

from __future__ import annotations

import re

from epic_core.text.stems import content_stems
from epic_core.types.results import Hit, MemoryEntry
from epic_core.types.verdicts import Stance

_MOST_TOPICS = 3
_SECOND_PERSON = {
    "i": "you", "i'm": "you're", "i've": "you've", "i'd": "you'd", "i'll": "you'll", "me": "you", "my": "your",
    "mine": "yours", "myself": "yourself", "am": "are",
}  # fmt: skip
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
    "light": "held by its text only; it is near your question",
    "fact": "you said so yourself",
    "fallback": "found outside this memory",
}


def second_person(text: str) -> str:
    """Return what a user said of themselves as it is said to them: "I avoid ..." as "you avoid ..."."""

    def turned(match: re.Match[str]) -> str:
        word = match.group()
        return _SECOND_PERSON.get(word.lower().replace("’", "'"), word) if word != "AM" else word

    return _WORD.sub(turned, text.strip().rstrip("."))


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
    near = f"about {_listed(about)}" if about else "close to what you said"
    said = second_person(entry.preference)
    said = f"you{said[3:]}" if said.lower().startswith("you ") else f'you said: "{entry.preference}"'
    # What a language model says is words already; the embedded verifier's figures are for --verbose.
    told = f". {entry.rationale}" if entry.rationale and not _FIGURE.search(entry.rationale) else ""
    return f"kept because it is {near}, and {said}; {_SUITS[entry.stance]}{told}"


def reasons(hit: Hit) -> list[str]:
    """Return why a hit is in the memory, one reason for each entry that matched."""
    return [reason(entry, hit.item.text) for entry in hit.entries] or [_OF_TIER.get(hit.tier, f"from {hit.tier}")]


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
