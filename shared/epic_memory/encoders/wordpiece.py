"""Tokenizer of BERT's kind (uncased WordPiece), read from a `tokenizer.json`; equal to the package `tokenizers`.

That package would bring a client of a model hub into every install. The two differ at 503 marks and signs that are new
since Unicode 9 and that `tokenizers` does not classify; no vocabulary of that time holds them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

_LONGEST_WORD = 100
_REMEMBERED = 1 << 16
_CONTINUED = "##"
_NORMALIZER = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
_MODEL = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": _CONTINUED,
    "max_input_chars_per_word": _LONGEST_WORD,
}
_CONTROLS = dict.fromkeys(code for code in (*range(32), 127) if chr(code) not in "\t\n\r")
_ASCII_WORDS = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class _Cleaned(dict[int, str]):
    """A table for `str.translate`: controls go, white space is a space, an ideograph is a word."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in "\t\n\r":
            made = " "
        elif code in (0, 0xFFFD) or unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs"):
            made = ""
        elif char.isspace():
            made = " "
        elif any(first <= code <= last for first, last in _IDEOGRAPHS):
            made = f" {char} "
        else:
            made = char
        self[code] = made
        return made


class _Split(dict[int, str]):
    """A table for `str.translate`: accents go, letters become small, a punctuation mark is a word."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if category == "Mn":
            made = ""
        elif category[0] == "P" or char in "$+<=>^`|~":
            made = f" {char} "
        else:
            # One at a time: the last sigma of a word is a sigma.
            made = char.lower()
        self[code] = made
        return made


_cleaned, _split = _Cleaned(), _Split()


class WordPiece:
    """Tokenizer that cuts a text into the longest pieces of a vocabulary. Safe to use from several threads.

    Args:
        description: The content of a `tokenizer.json`.

    Raises:
        ValueError: for a tokenizer of another kind, or with unusual options.
    """

    def __init__(self, description: Mapping[str, Any]) -> None:
        if not _is_usual(description):
            raise ValueError("its tokenizer is not BERT's uncased one, with the usual options")
        model = description["model"]
        self._vocabulary: dict[str, int] = model["vocab"]
        self.unknown: int = self._vocabulary[model["unk_token"]]
        self._special = {token["content"]: int(token["id"]) for token in description["added_tokens"]}
        longest_first = sorted(self._special, key=len, reverse=True)
        self._specials = re.compile(f"({'|'.join(map(re.escape, longest_first))})") if self._special else None
        self._beginnings = {content[0] for content in self._special}
        self._pieces = lru_cache(_REMEMBERED)(self._cut)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_pieces"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._pieces = lru_cache(_REMEMBERED)(self._cut)

    def encode(self, texts: Sequence[str], longest: int) -> list[list[int]]:
        """Return the ids of the tokens of each text, at most the first `longest` of each."""
        return [self._ids(text)[:longest] for text in texts]

    def _ids(self, text: str) -> list[int]:
        # For most texts that is known at once: a split takes longer.
        if self._specials is None or not any(begin in text for begin in self._beginnings):
            return self._ids_of(text)
        parts = enumerate(self._specials.split(text))
        found = ([self._special[part]] if number % 2 else self._ids_of(part) for number, part in parts)
        return list(chain.from_iterable(found))

    def _ids_of(self, text: str) -> list[int]:
        if text.isascii():
            words = _ASCII_WORDS.findall(text.translate(_CONTROLS).lower())
        else:
            words = unicodedata.normalize("NFD", text.translate(_cleaned)).translate(_split).split()
        # A word that is longer than the longest is unknown, however it goes on.
        return list(chain.from_iterable([self._pieces(word[: _LONGEST_WORD + 1]) for word in words]))

    def _cut(self, word: str) -> tuple[int, ...]:
        if len(word) > _LONGEST_WORD:
            return (self.unknown,)
        ids: list[int] = []
        start = 0
        while start < len(word):
            prefix = _CONTINUED if start else ""
            for end in range(len(word), start, -1):
                found = self._vocabulary.get(prefix + word[start:end])
                if found is not None:
                    break
            else:
                return (self.unknown,)
            ids.append(found)
            start = end
        return tuple(ids)


def _is_usual(description: Mapping[str, Any]) -> bool:
    tokens, model = description.get("added_tokens") or [], description.get("model") or {}
    special = ("single_word", "lstrip", "rstrip", "normalized")
    return (
        not any(token[option] for token in tokens for option in special)
        and description.get("normalizer") == _NORMALIZER
        and description.get("pre_tokenizer") == {"type": "BertPreTokenizer"}
        and {key: model.get(key) for key in _MODEL} == _MODEL
    )
