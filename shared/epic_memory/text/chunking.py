"""Chunker of the paper for documents: whole sentences up to about 100 words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from epic_memory.errors import InvalidInputError

# A sentence ends after . ! ? (and closing quotes or brackets) before white space, after a full stop of a script that
# puts no space there, or at an empty line.
_SENTENCE_END = re.compile(r"""(?<=[.!?…])["'”’)\]]*\s+|(?<=[。！？｡।॥])["'”’」』)\]]*\s*|\n\s*\n\s*""")
_GAP = re.compile(r"\s+")
# Most words of a sentence that stays whole.
_LONGEST = 1_000
# Characters of a word; a sentence of such words is too long at any rate.
_LONGEST_WORDS = 100
# Scripts written without spaces: about two characters make a word.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")


class Chunker(Protocol):
    """An object that cuts a text into pieces."""

    def chunks(self, text: str) -> list[str]:
        """Return the pieces, in order, none empty."""
        ...


def count_words(text: str) -> int:
    """Count the words of a text; in scripts without spaces, two characters count as one word."""
    unspaced = len(_UNSPACED.findall(text))
    if not unspaced:
        return len(text.split())
    return len(_UNSPACED.sub(" ", text).split()) + (unspaced + 1) // 2


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, in order, stripped, none empty; together they hold every word."""
    return list(_sentences(text))


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for match in _SENTENCE_END.finditer(text):
        # Closing quotes belong to the sentence they close; only white space is dropped.
        if piece := text[start : match.end()].strip():
            yield piece
        start = match.end()
    if piece := text[start:].strip():
        yield piece


@dataclass(frozen=True, kw_only=True)
class WordChunker:
    """A chunker into pieces of about `max_words` words, made of whole sentences (the paper's chunking of documents).

    A single sentence longer than that stays whole, unless it has more than 1,000 words: a text without sentence ends is
    cut between words. Joining the pieces gives back every word of the text.

    Raises:
        InvalidInputError: if `max_words` is less than one.
    """

    max_words: int = 100

    def __post_init__(self) -> None:
        if not isinstance(self.max_words, int) or self.max_words < 1:
            raise InvalidInputError("max_words must be a whole number of at least 1.")

    def chunks(self, text: str) -> list[str]:
        """Return the pieces, in order, none empty."""
        return list(self.stream(text))

    def stream(self, text: str) -> Iterator[str]:
        """Yield the pieces as `chunks` returns them, without holding them all."""
        current: list[str] = []
        words = 0
        for sentence, length in self._parts(text):
            if current and words + length > self.max_words:
                yield " ".join(current)
                current, words = [], 0
            current.append(sentence)
            words += length
        if current:
            yield " ".join(current)

    def _parts(self, text: str) -> Iterator[tuple[str, int]]:
        """Yield the sentences with their numbers of words; those that are too long in parts."""
        for sentence in _sentences(text):
            most = max(_LONGEST, self.max_words)
            # To count the words of a sentence of megabytes takes many times its memory.
            if len(sentence) <= _LONGEST_WORDS * most and (length := count_words(sentence)) <= most:
                yield sentence, length
                continue
            for part in _words(sentence, self.max_words):
                yield part, count_words(part)


def _words(text: str, most: int) -> Iterator[str]:
    """Yield the words of a text, about `most` at once."""
    start = 0
    for number, gap in enumerate(_GAP.finditer(text), start=1):
        if number % most == 0:
            yield text[start : gap.start()]
            start = gap.end()
    yield text[start:]
