"""Mentions of a removed preference in what a model wrote under others: in rationales, instructions and reasons."""

from __future__ import annotations

from collections.abc import Iterable

from epic_memory.text.chunking import sentences
from epic_memory.text.stems import content_stems, words_with_stems

# Words that any instruction may use, whatever its preference says.
_COMMON = frozenset(
    content_stems(
        "user person they want wants like likes love loves prefer prefers preference enjoy enjoys need needs hate hates"
        " dislike dislikes follow follows look interested interest only always never strictly suit suits take steer"
        " clear check recommend recommending suggest mention offer avoid use good best great nearest sentence cosine"
        " relevant stated says said quoted item text here something thing things"
    )
)


class Mentions:
    """Words of a removed preference by which a text can mention it.

    A model that writes about an item under several preferences may name one in what it writes for another. A word does
    so if it can come from nowhere else: neither from a preference that stays nor from the item.

    Args:
        removed: The text of the removed preference.
        staying: The texts of the preferences that stay.
    """

    def __init__(self, removed: str, staying: Iterable[str]) -> None:
        staying = list(staying)
        self._whole = _plain(removed)
        self._longest = max(self._whole.split(), key=len, default="")
        # Texts that hold the whole of the removed one, as "wine and cheese" holds "wine", do not mention it.
        self._longer = [plain for plain in map(_plain, staying) if self._whole in plain]
        known = {word for text in staying for word in content_stems(text)}
        self._words = set(content_stems(removed)) - known - _COMMON
        self._written = words_with_stems(self._words)

    def without(self, text: str, item: str) -> str:
        """Return the text without the sentences that mention the preference.

        Args:
            text: The text that a model wrote.
            item: The text of the item that it wrote about.
        """
        written = self._written.findall(text.lower())
        if not written and self._longest not in text.casefold():
            return text
        whole = self._is_quoted_in(_plain(text))
        named = self._words.intersection(content_stems(" ".join(written)))
        if not whole and not named:
            return text
        # The item is the longer text: it is read only if a word is there.
        words = self._words.difference(content_stems(item))
        if not whole and words.isdisjoint(named):
            return text
        left = " ".join(one for one in sentences(text) if words.isdisjoint(content_stems(one)))
        # A quotation of the whole may consist of words that the item has too, or have several sentences.
        return "" if self._is_quoted_in(_plain(left)) and self._whole not in _plain(item) else left

    def _is_quoted_in(self, plain: str) -> bool:
        for longer in self._longer:
            plain = plain.replace(longer, "")
        return self._whole in plain

    def inside(self, item: str, *texts: str | None) -> bool:
        """Tell whether texts that a model wrote about an item mention the preference."""
        return any(text and self.without(text, item) != text for text in texts)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!。")
