"""Extracts of texts: the sentences that the instructions of an item's entries are about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from epic_memory.text.chunking import sentences

_WORD = re.compile(r"\w+")
_SHARE = 0.4
_SHORT = 3


def shortened(text: str, instructions: Sequence[str]) -> str:
    """Return the sentences of a text, in their order, that share most with its instructions: at most two fifths of it.

    Each instruction keeps at least the sentence that shares most with it, even if that exceeds two fifths. A word
    counts the more the fewer sentences have it. A text of one or two sentences is returned whole.
    """
    parts = sentences(text)
    if len(parts) < _SHORT or not instructions:
        return text
    words = [_words(part) for part in parts]
    common = Counter(word for bag in words for word in bag)
    room = _SHARE * len(text)
    scores = [
        [sum(1.0 / common[word] for word in bag & wanted) for bag in words] for wanted in map(_words, instructions)
    ]
    chosen = {max(range(len(parts)), key=row.__getitem__) for row in scores}
    best = sorted(range(len(parts)), key=lambda part: -max(row[part] for row in scores))
    for part in best:
        if sum(len(parts[n]) for n in chosen | {part}) > room:
            break
        chosen.add(part)
    kept = " ".join(parts[part].strip() for part in sorted(chosen))
    return kept if len(kept) < len(text) else text


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text) if len(word) > 2}
