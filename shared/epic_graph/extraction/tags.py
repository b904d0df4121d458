"""Tags: one letter for a word's possible role in a phrase; phrases are patterns in a sentence's letters.

C  part of a name                        N  noun, or unknown     V  verb, T  a verb follows, B  form of "to be"
S  C or N (a sentence begins there)      W  noun or verb         O  "of", "van", ... in names, H  "the"
Z  W (a sentence begins there)           I  ends in -ing         #  number, Y  year, M  month or weekday
U  of another language                   '  possessive           F  of no phrase
X  run of text without spaces                                    .  no phrase crosses it
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from epic_memory.text.phrases import sections, word_set

_LISTS = {name: word_set(*lines) for name, lines in sections("english", "epic_graph").items()}
_LANGUAGES = {code: word_set(*lines) for code, lines in sections("function_words", "epic_graph").items()}
TITLES = _LISTS["TITLES"]
KINDS = _LISTS["KINDS"] | TITLES
_LATIN = re.compile(r"[A-Za-z\u00aa-\u024f]")
_YEAR = re.compile(r"1\d{3}|20\d{2}")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s|am|pm|[a-z])?", re.I)
_PARTICIPLES = ("ting", "ding", "ring", "ning", "ted", "ded", "red", "ned", "hed", "sed")
# "will not touch", "to really like"
_BETWEEN = frozenset({"not", "never", "also", "always", "just", "even", "really"})
# A longer string is not a word; German and Finnish words stay below it.
_LONGEST_WORD = 80
# After these marks a sentence begins anew.
_OPENS = frozenset(':;“"«„([–—•*#>|「『《-')


def _forms(verb: str) -> list[str]:
    """Return a verb with its regular endings but -ing: activities count as things."""
    if verb.endswith("y") and verb[-2] not in "aeou":
        return [verb, verb[:-1] + "ies", verb[:-1] + "ied"]
    third = verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")
    return [verb, third, verb.removesuffix("e") + "ed", verb + verb[-1] + "ed"]


_EITHER = {form for verb in _LISTS["NOUNS_TOO"] for form in _forms(verb)[:2]}
_VERBS = {form for verb in _LISTS["VERBS"] for form in _forms(verb)} - _EITHER | _LISTS["IRREGULAR"] | _LISTS["LIGHT"]
_LETTER_OF: dict[str, str] = {}
# Later entries take precedence.
for _letter, _words in (
    ("N", _LISTS["NOUNS"]), ("W", _EITHER), ("F", _LISTS["VAGUE"] | _LISTS["GENERIC"]), ("V", _VERBS),
    ("F", _LISTS["FUNCTION"]), ("T", _LISTS["BEFORE_VERB"]), ("B", _LISTS["BE"]), ("O", {"of"}), ("H", {"the"}),
):  # fmt: skip
    _LETTER_OF.update(dict.fromkeys(_words, _letter))
_ENGLISH = _LISTS["FUNCTION"] | _LISTS["BE"] | _LISTS["BEFORE_VERB"]
_LANGUAGES_OF: dict[str, list[str]] = {}
for _name, _function_words in {"en": _ENGLISH, **_LANGUAGES}.items():
    for _word in _function_words:
        _LANGUAGES_OF.setdefault(_word, []).append(_name)


def says_something(word: str) -> bool:
    """Tell whether a word can be a name by itself."""
    lower = plain(word)
    return len(word) > 1 and lower not in TITLES | _LISTS["MONTHS"] and _LETTER_OF.get(lower, "C") not in "FV"


def is_plural(word: str) -> bool:
    """Tell whether a word ends like a plural, or like a verb after "it"."""
    return word[-1:] in ("s", "S") and word[-2:].lower() not in ("ss", "us", "is")


def is_function(lower: str) -> bool:
    """Tell whether a lower-case word is a function word of English."""
    return lower in _LISTS["FUNCTION"]


def plain(word: str) -> str:
    """Return a word in lower case, with plain apostrophes."""
    lower = word.lower()
    return lower if lower.isascii() else lower.replace("\u2019", "'").replace("\u02bc", "'")


def _language(words: Sequence[str]) -> str:
    """Return the language with the most function words; without any, English if few and ASCII words, else ""."""
    hits = Counter(language for word in words for language in _LANGUAGES_OF.get(word, ()))
    if hits:
        return max(("en", *_LANGUAGES), key=hits.__getitem__)
    return "en" if len(words) < 6 and all(map(str.isascii, words)) else ""


class Tagger:
    """Tagger of the words of a text, one after the other; of a language but English the function words are known.

    Args:
        words: All words of the text.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._language = _language([plain(word) for word in words])
        # In a headline, or in a text all in capitals, capitals mean nothing.
        self._cased = len(words) < 8 or sum(word[0].isupper() for word in words) * 4 < len(words) * 3
        self.start()

    def start(self) -> None:
        """Begin a sentence."""
        self._first, self._last = True, "."

    def sign(self, kind: str, text: str) -> str:
        """Return the letter of a token that is not a word."""
        if kind == "number":
            letter = "Y" if _YEAR.fullmatch(text) else "#"
        else:
            letter = {"run": "X", "short": "C", "initials": "C"}.get(kind, ".")
        self._first = letter == "." and (self._first or text in _OPENS)
        self._last = letter
        return letter

    def word(self, word: str) -> str:
        """Return the letter of a word."""
        first, self._first = self._first, False
        lower = plain(word)
        if len(lower) > _LONGEST_WORD:
            letter = "."
        elif self._language != "en":
            letter = self._foreign(word, lower, first)
        else:
            letter = self._capital(lower, first) if self._cased and word[0].isupper() else self._lower(lower)
        if self._last != "T" or lower not in _BETWEEN:
            self._last = letter
        return letter

    def _capital(self, lower: str, first: bool) -> str:
        if lower in _LISTS["MONTHS"]:
            return "M"
        if len(lower) == 1:
            return "#" if self._last == "C" else "F"
        if not first:
            # "the Old Man", but not "from the BBC The"
            return self._lower(lower) if is_function(lower) else "C"
        is_known = lower in _LETTER_OF or lower.endswith(_PARTICIPLES)
        return {"W": "Z", "N": "S"}.get(letter := self._lower(lower), letter) if is_known else "S"

    def _lower(self, lower: str) -> str:
        letter = _LETTER_OF.get(lower)
        if letter is not None:
            return "V" if letter == "W" and self._last == "T" else letter
        if lower in _LISTS["CONNECTORS"]:
            return "O"
        if not _LATIN.match(lower):
            if lower[0].isdigit():
                return "#" if _ORDINAL.fullmatch(lower) else "N"
            return "F" if lower in _LANGUAGES_OF or len(lower) < 2 else "U"
        if len(lower) < 3 or lower.endswith("ly"):
            return "F"
        if self._last == "T" or lower.endswith("ed"):
            return "V"
        if lower.endswith("ing") and len(lower) > 5:
            return "F" if self._last == "B" else "I"
        return "N"

    def _foreign(self, word: str, lower: str, first: bool) -> str:
        if lower in _LANGUAGES.get(self._language, ()):
            return "O" if lower in _LISTS["CONNECTORS"] and not first else "F"
        is_latin = _LATIN.match(lower)
        if lower[0].isdigit() or (not is_latin and lower in _LANGUAGES_OF):
            return "#" if lower[0].isdigit() else "F"
        # German capitalises nouns, so in a cased text words in lower case are not nouns.
        only_capitals = self._language == "de" and self._cased
        if self._cased and word[0].isupper() and len(word) > 1:
            return "S" if first and not only_capitals else "C"
        shortest = 4 if is_latin else 3 if "\u0370" <= lower[0] < "\u0530" else 2
        return "F" if only_capitals or len(lower) < shortest else "U"
