"""Tags: one letter for a word's possible role in a phrase; phrases are patterns in a sentence's letters.

C  part of a name             N  noun, or unknown           F  function word
S  C or N, Q  C or G, Z  W    A  vague noun                 D  determiner      H  "the"
   (a sentence begins there)  W  noun or verb               P  preposition     O  "of", "van", ... in names
M  month or weekday           G  generic: "old"             T  a verb follows  B  form of "to be"
E  epithet: "the Elder"       J  adjective by its ending    V  verb            #  number, Y  year
U  of another language        I  ends in -ing               '  possessive      .  no phrase crosses it
X  run of text without spaces
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from epic_graph.extraction import word_lists as known
from epic_graph.extraction.function_words import LANGUAGES

_LATIN = re.compile(r"[A-Za-z\u00aa-\u024f]")
_YEAR = re.compile(r"1\d{3}|20\d{2}")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s|am|pm|[a-z])?", re.I)
_ADJECTIVE = re.compile(r".{2,}(?:ous|ful|less|able|ible|est|like|wards?|-.{0,40}ed)")
# A longer string is not a word; German and Finnish words stay below it.
_LONGEST_WORD = 80
_NUMERAL = re.compile("(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)-")
# After these marks a sentence begins anew.
_OPENS = frozenset(':;“"«„([–—•*#>|「『《-')
_KINDS: dict[str, str] = {}
# Later entries take precedence.
for _letter, _words in (
    ("A", known.VAGUE), ("W", known.EITHER), ("G", known.GENERIC | known.COMPASS), ("V", known.VERBS | known.LIGHT),
    ("F", known.FUNCTION - {"of"}), ("P", known.PREPOSITIONS), ("D", known.DETERMINERS), ("T", known.BEFORE_VERB),
    ("B", known.BE), ("O", frozenset({"of"})), ("H", frozenset({"the"})),
):  # fmt: skip
    _KINDS.update(dict.fromkeys(_words, _letter))
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {}
for _name, _words in {"en": known.FUNCTION | known.BE | known.BEFORE_VERB, **LANGUAGES}.items():
    for _word in _words:
        _LANGUAGES_OF[_word] = (*_LANGUAGES_OF.get(_word, ()), _name)
# Function words of scripts other than English's, which can occur in a text of any language.
_OTHER_SCRIPTS = frozenset(word for word in _LANGUAGES_OF if not _LATIN.match(word))


def says_something(word: str) -> bool:
    """Tell whether a word can be a name by itself."""
    lower = plain(word)
    return len(word) > 1 and lower not in known.TITLES and _KINDS.get(lower, "C") not in "AGVM"


def noun_letter(word: str) -> str:
    """Return the letter of a noun: "A" for a vague one, else "N"."""
    return "A" if plain(word) in known.VAGUE else "N"


def is_plural(word: str) -> bool:
    """Tell whether a word ends like a plural, or like a verb after "it"."""
    return word[-1:] in ("s", "S") and word[-2:].lower() not in ("ss", "us", "is")


def is_function(lower: str) -> bool:
    """Tell whether a lower-case word is a function word of English."""
    return lower in known.FUNCTION


def function_words_only(words: Sequence[str]) -> bool:
    """Tell whether all words are function words, of any known language."""
    return all(plain(word) in _LANGUAGES_OF for word in words)


def reader_of(words: Sequence[str]) -> Reader:
    """Return the reader that assigns letters to the words of a text."""
    lower = [plain(word) for word in words]
    language = _language(lower)
    capital = sum(word[0].isupper() for word in words)
    # In a headline, or in a text all in capitals, capitals mean nothing.
    cased = len(words) < 8 or capital * 4 < len(words) * 3
    return Reader(cased) if language == "en" else _Other(language, cased)


def plain(word: str) -> str:
    """Return a word in lower case, with plain apostrophes."""
    lower = word.lower()
    return lower if lower.isascii() else lower.replace("\u2019", "'").replace("\u02bc", "'")


def _language(words: Sequence[str]) -> str:
    """Return the language with the most function words; without any, English if few and ASCII words, else ""."""
    hits = Counter(language for word in words for language in _LANGUAGES_OF.get(word, ()))
    if hits:
        most = max(hits.values())
        return next(language for language in ("en", *LANGUAGES) if hits[language] == most)
    return "en" if len(words) < 6 and all(map(str.isascii, words)) else ""


class Reader:
    """Tagger of English words, which assigns their letters one after the other."""

    language = "en"

    def __init__(self, cased: bool) -> None:
        self._cased = cased
        self.start()

    def start(self) -> None:
        """Begin a sentence."""
        self._first, self._last, self._named = True, ".", False

    def sign(self, kind: str, said: str) -> str:
        """Return the letter of a token that is not a word."""
        if kind == "mark":
            self._first |= said in _OPENS
            letter = "."
        elif kind == "number":
            letter = "Y" if _YEAR.fullmatch(said) else "#"
        else:
            letter = {"run": "X", "short": "C", "initials": "C"}.get(kind, ".")
            if kind == "short" and said.lower() in ("no", "vs", "etc", "approx", "ca"):
                letter = "."
        self._first &= letter == "."
        self._last = letter
        return letter

    def letter(self, word: str, lower: str) -> str:
        """Return the letter of a word."""
        first, self._first = self._first, False
        if len(lower) > _LONGEST_WORD:
            letter = "."
        elif lower in known.EPITHETS and self._named and self._last == "H":
            letter = "E"
        else:
            letter = self._capital(lower, first) if self._cased and word[0].isupper() else self._lower(lower)
        # After a name, or a name and "the", an epithet may follow.
        self._named = letter in ("C", "S") or (letter == "H" and self._last in ("C", "S"))
        # "will not touch", "to really like"
        if not (self._last == "T" and lower in ("not", "never", "also", "always", "just", "even", "really")):
            self._last = letter
        return letter

    def _capital(self, lower: str, first: bool) -> str:
        if lower in known.MONTHS:
            return "M"
        if len(lower) == 1:
            return "#" if self._last == "C" else "F"
        if not first:
            # "the Old Man", but not "from the BBC The"
            return self._lower(lower) if lower in known.FUNCTION and lower not in known.SENTENCE_NAMES else "C"
        kind = _KINDS.get(lower)
        if lower in known.SENTENCE_NAMES or kind == "A":
            return "S"
        if kind is None:
            kind = self._lower(lower) if lower[-3:] in ("ing", "ted", "ded", "red", "ned", "hed", "sed") else "S"
            return "S" if kind == "N" else kind
        return {"W": "Z", "G": "Q"}.get(kind, kind)

    def _lower(self, lower: str) -> str:
        kind = _KINDS.get(lower)
        if kind is not None:
            if kind in "AW" and self._last == "T":
                return "V"
            return kind
        if lower in known.CONNECTORS:
            return "O"
        if not _LATIN.match(lower):
            if lower[0].isdigit():
                return "#" if _ORDINAL.fullmatch(lower) else "N"
            return "F" if lower in _OTHER_SCRIPTS or len(lower) < 2 else "U"
        if len(lower) < 3:
            return "F"
        if self._last == "T":
            return "V"
        if _NUMERAL.match(lower):
            return "#"
        ending = lower[-3:]
        if ending.endswith("ly") and lower not in known.NOT_ADVERBS:
            return "F"
        if _ADJECTIVE.fullmatch(lower) and lower not in known.NO_ADJECTIVE:
            return "J"
        if ending.endswith("ed") and lower not in known.NOT_PARTICIPLES:
            return "V"
        if ending == "ing" and lower not in known.NOT_GERUNDS and len(lower) > 5:
            return "F" if self._last == "B" else "I"
        return "N"


class _Other(Reader):
    """Tagger of the words of another language, of which only the function words are known."""

    def __init__(self, language: str, cased: bool) -> None:
        self.language = language
        self._function = LANGUAGES.get(language, frozenset())
        # German capitalises nouns, so in a cased text words in lower case are not nouns.
        self._nouns_only = language == "de" and cased
        super().__init__(cased)

    def letter(self, word: str, lower: str) -> str:
        """Return the letter of a word."""
        first, self._first = self._first, False
        if len(lower) > _LONGEST_WORD:
            return "."
        if lower in self._function or lower.rstrip("'\u2019") in self._function:
            return "O" if lower in known.CONNECTORS and not first else "F"
        if lower in _OTHER_SCRIPTS or lower[0].isdigit():
            return "#" if lower[0].isdigit() else "F"
        if self._cased and word[0].isupper() and len(word) > 1:
            return "S" if first and not self._nouns_only else "C"
        shortest = 4 if _LATIN.match(lower) else 3 if "\u0370" <= lower[0] < "\u0530" else 2
        return "F" if self._nouns_only or len(lower) < shortest else "U"
