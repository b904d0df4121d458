"""Keys of names: spellings that differ in case, accents, articles, punctuation or plural have the same key."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from epic_memory.text.phrases import word_set


def _ranges(wanted: str, last: int) -> str:
    """Return a character class of all characters whose Unicode category begins with `wanted`."""
    found: list[list[int]] = []
    for code in range(0x300, last):
        if unicodedata.category(chr(code)).startswith(wanted):
            if found and found[-1][1] == code - 1:
                found[-1][1] = code
            else:
                found.append([code, code])
    return "".join(f"{chr(begin)}-{chr(end)}" for begin, end in found)


# `\w` lacks the vowel signs of Indic and other scripts; without them their words would be split.
MARKS = _ranges("M", 0x12000)
# Invisible characters: joiners, direction marks, the soft hyphen.
HIDDEN = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
_HIDDEN = re.compile(f"[{HIDDEN}]")
_ACCENT = re.compile("(?<=[a-zα-ω])[\u0300-\u036f]+|[\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u0652\u0670]+")
_YO = "\u0435\u0308", "\u0435"  # Cyrillic io is often written without its dots
_WORD = re.compile(rf"[^\W_][^\W_{MARKS}]*(?:[{MARKS}]+[^\W_]*)*(?:\+\+|#)?")
_INITIALS = re.compile(r"(?<![^\W_])((?:[^\W\d_]\.){1,9}[^\W\d_])\b\.?")
_POSSESSIVE = re.compile(r"(?<=[^\W_])'s?(?![^\W_])")
_ARTICLES = frozenset({"the", "a", "an"})
_PLAIN = re.compile(r"[a-z]{4,}")
# Words that only look like plurals, among them family names made of a first name and an s.
_WHOLE = word_set(
    "news lens series species chess mars texas wales athens brussels naples swiss christmas alas atlas bias canvas"
    " chaos cosmos gas pancreas whereas always perhaps adams williams roberts peters stevens edwards richards"
    " phillips philips daniels matthews andrews rogers evans owens jacobs abrahams michaels charles james jones"
)
_KOREAN = re.compile("[\uac00-\ud7a3]{3,}")
_PARTICLES = (
    "에서는", "에서도", "으로는", "으로도", "에게서", "이라는",
    "에서", "에게", "한테", "께서", "으로", "까지", "부터", "처럼", "보다", "이나", "이랑", "하고", "라는",
    "은", "는", "이", "가", "을", "를", "의", "에", "로", "와", "과", "도", "만", "랑",
)  # fmt: skip
_MOST_PARTICLES = 4


@lru_cache(maxsize=65536)
def entity_key(name: str) -> str:
    """Return the key that the spellings of an entity share: "The Sallow Greens'" and "sallow green" have one key.

    Compatibility forms, case, Latin and Greek accents, a leading article, possessives, punctuation and English plurals
    are folded; so are the optional vowel signs of Arabic and Hebrew, the Arabic article, and Korean particles.

    Returns:
        The key; empty only for a name without any letter or digit.
    """
    text = unicodedata.normalize("NFKC", name).casefold()
    if not text.isascii():
        text = _HIDDEN.sub("", unicodedata.normalize("NFKD", text).replace("\u2019", "'").replace("\u02bc", "'"))
        # A name that consists of such signs alone keeps them.
        text = unicodedata.normalize("NFC", _ACCENT.sub("", text.replace(*_YO)) or text)
    if "." in text:
        text = _INITIALS.sub(lambda initials: initials[1].replace(".", ""), text)
    if "'" in text:
        text = _POSSESSIVE.sub("", text).replace("'", "")
    words = _WORD.findall(text.replace("&", " and "))
    if len(words) > 1 and words[0] in _ARTICLES:
        del words[0]
    return " ".join(map(_folded, words))


def _folded(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return _singular(word)
    if word.startswith("\u0627\u0644") and len(word) > 4:
        return word[2:]
    for _ in range(_MOST_PARTICLES if _KOREAN.fullmatch(word) else 0):
        ending = next((one for one in _PARTICLES if word.endswith(one) and len(word) - len(one) >= 2), "")
        word = word.removesuffix(ending)
    return word


def _singular(word: str) -> str:
    if word in _WHOLE:
        return word
    if word.endswith("men"):
        return word[:-2] + "an"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        if word.endswith("ies") and len(word) > 4:
            return word[:-3] + "y"
        word = word[:-1]
    # "benches" and "bench", "caches" and "cache": all lose the final e.
    return word[:-1] if word.endswith(("che", "she", "sse", "xe", "ze")) and len(word) > 4 else word
