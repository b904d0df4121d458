"""Language of a text: from its script and its commonest words, and from py3langid only if these do not decide.

The parser of preferences and the bundled encoder know English. Texts in other languages are to be noticed, and an
English note must never be taken for another language. Words such as "the" or "nicht" decide most texts in a few
microseconds. The model of py3langid, which takes most of a second and some 60 MB of RAM to load, is loaded for the
first text that they do not decide.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, TypeVar

from epic_memory.text.phrases import sections, word_set

T = TypeVar("T")

ENGLISH = "en"
ADVICE = 'encoder="multilingual" (21 languages: pip install "epic-memory[multilingual]") or encoder="ollama/bge-m3"'
"""Encoders that know many languages."""

# Number of characters that are enough to tell the language.
_READ = 400
_FEWEST_WORDS = 3
_FEWEST_LETTERS = 2
# Among several texts, the model is loaded only if at least this share is undecided; where texts are only counted, it is
# asked about roughly this many, if there are at least as many as the last number: a short note is often undecided.
_OPEN_SHARE = 0.2
_ASKED, _FEWEST_ASKED = 32, 3
# The model's finding that a text is not English is accepted only if it gives English no more than the first number and
# the likeliest language at least the second. Short texts, which are often names in an English list, have stricter
# limits.
_ENGLISH_AT_MOST, _SURE = 0.1, 0.3
_FEW_WORDS = 3
_ENGLISH_AT_MOST_OF_FEW, _SURE_OF_FEW = 0.02, 0.4

# data/words/language.txt says what each section is for.
_WORDS = sections("language")
_NAMES = dict(line.split(" ", 1) for line in _WORDS["names"])
_LATIN = word_set(*_WORDS["latin"])
_SCRIPTS = [(int(first, 16), int(last, 16), name) for first, last, name in map(str.split, _WORDS["scripts"])]
_STARTS = [start for start, _, _ in _SCRIPTS]
_TELLING = [line.split() for line in _WORDS["telling"]]
# A character in one of these languages counts as three Latin letters.
_DENSE = frozenset({"zh", "ja", "ko"})
_ENGLISH_WORDS, _ENGLISH_TOO = word_set(*_WORDS["strong"]), word_set(*_WORDS["weak"])
_OTHERS = {name: words for name, *words in map(str.split, _WORDS["others"])}
_WORDS_OF = {name: frozenset(word.rstrip("*") for word in words) for name, words in _OTHERS.items()}
_FOREIGN = frozenset(word for words in _OTHERS.values() for word in words if not word.endswith("*"))
# Signs other than letters become spaces, except the apostrophe, which gets one form.
_PLAIN = str.maketrans(dict.fromkeys('.,;:!?()[]"/–—…“”„«»¿¡', " ") | dict.fromkeys("’‘ʼ", "'"))

_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())

_lock = threading.Lock()
_model: Any = None


def language_of(text: str) -> str | None:
    """Return the ISO 639-1 code of a text's language, or None if the text is too short or does not tell."""
    return _language(text[:_READ])


@lru_cache(maxsize=4096)
def _language(text: str) -> str | None:
    cheap, is_open = _by_signs(text)
    return _by_model(text) if is_open else cheap


def languages_of(texts: Sequence[str], *, asked: int | None = None) -> list[str | None]:
    """Return for each text what `language_of` returns, but None for undecided texts too few to load the model for.

    Texts in English words or in other scripts cost some microseconds. Unless at least a fifth of the texts is undecided
    by words and script, the undecided ones are None.

    Args:
        texts: Texts in any languages.
        asked: About how many undecided texts at most the model is asked, if there are several; the others stay None.
            Default: all.
    """
    read = [_by_signs(text[:_READ]) for text in texts]
    found = [cheap for cheap, _ in read]
    places = [place for place, (_, is_open) in enumerate(read) if is_open]
    if places and len(places) >= max(_OPEN_SHARE * len(texts), 0 if asked is None else _FEWEST_ASKED):
        for place in places if asked is None else _spread(places, asked):
            found[place] = _by_model(texts[place][:_READ])
    return found


@lru_cache(maxsize=4096)
def by_signs(text: str) -> str | None:
    """Return a text's language as `language_of` does, but None where script and common words do not decide."""
    return _by_signs(text[:_READ])[0]


def is_foreign(text: str, known: AbstractSet[str] | None, others: Iterable[str] = ()) -> bool | None:
    """Tell whether a short text is in none of the known languages, by script and common words alone.

    Args:
        text: The text.
        known: ISO codes of languages; None for all.
        others: Texts by the same person.

    Returns:
        None if the text's own words do not decide, and most of the others are in unknown languages.
    """
    if known is None:
        return False
    if (language := by_signs(text)) is not None:
        return language not in known
    votes = [language in known for language in map(by_signs, others) if language is not None]
    return None if sum(votes) * 2 < len(votes) else False


def foreign_among(texts: Sequence[str], known: AbstractSet[str], most: int) -> dict[str, int]:
    """Count the texts in languages other than the known ones, by language; at most `most` texts are examined.

    These are evenly spread over the texts, and the model is asked about only a few of them: there may be more.
    """
    languages = languages_of(_spread(texts, most), asked=_ASKED)
    return dict(Counter(found for found in languages if found is not None and found not in known))


def _spread(values: Sequence[T], most: int) -> Sequence[T]:
    """Return at most `most` of the values, evenly spread."""
    return values[:: max(1, -(-len(values) // most))]


def named(language: str) -> str:
    """Return the English name of a language, or its code if no name is known."""
    return _NAMES.get(language, language)


def listed(counts: Iterable[tuple[str, int]]) -> str:
    """Return languages with their counts in words, the most frequent first: "German 30, French 7"."""
    return ", ".join(f"{named(language)} {count}" for language, count in sorted(counts, key=lambda one: -one[1]))


def _by_signs(text: str) -> tuple[str | None, bool]:
    """Return the language if script and common words tell it, and whether the model has to be asked."""
    if not text.isascii():
        script = _script(text)
        if script is not None:
            return script, False
    words = text.lower().translate(_PLAIN).split()
    if len(words) < _FEWEST_WORDS:
        return None, False
    distinct = frozenset(words)
    strong, foreign = len(distinct & _ENGLISH_WORDS), len(distinct & _FOREIGN)
    english = 2 * strong + len(distinct & _ENGLISH_TOO)
    # Letters with accents make English less likely.
    accents = not text.isascii() and not all(map(str.isascii, words))
    if english >= 2 + 4 * foreign + 2 * accents:
        return ENGLISH, False
    if strong == 0 and foreign >= 2:
        counts = sorted(((len(distinct & own), name) for name, own in _WORDS_OF.items()), reverse=True)
        # The model tells apart languages that share most of these distinct, such as Danish and Norwegian.
        if counts[0][0] > counts[1][0] and counts[0][0] >= 2:
            return counts[0][1], False
    return None, any(map(str.isalpha, text))


def _script(text: str) -> str | None:
    """Return the language of a text that is mostly in letters other than Latin ones, or None."""
    plain = text.encode("ascii", "ignore")
    if 3 * (len(text) - len(plain)) <= len(plain.translate(None, _NO_LETTERS)):
        return None  # whatever the other signs are
    found: Counter[str] = Counter()
    latin = 0
    for character in text:
        if not character.isalpha() and not character.isalnum():
            continue
        place = bisect_right(_STARTS, code := ord(character)) - 1
        if place >= 0 and code <= _SCRIPTS[place][1]:
            found[_SCRIPTS[place][2]] += 1
        else:
            latin += character.isalpha()
    total = sum(found.values())
    if total < _FEWEST_LETTERS:
        return None
    weight = sum(count * (3 if name in _DENSE else 1) for name, count in found.items())
    if weight <= latin:
        return None
    if found["ja"]:
        return "ja"  # Chinese has no kana
    language = found.most_common(1)[0][0]
    letters = set(text.lower())
    return next((name for script, name, own in _TELLING if script == language and letters & set(own)), language)


def _by_model(text: str) -> str | None:
    """Return the language according to py3langid, or None if it is not sure enough."""
    scores = dict(_loaded().rank(text))
    best = max(scores, key=scores.__getitem__)
    if best == ENGLISH:
        return ENGLISH if scores[best] >= 1.0 - _ENGLISH_AT_MOST else None
    few = len(text.split()) <= _FEW_WORDS
    most, sure = (_ENGLISH_AT_MOST_OF_FEW, _SURE_OF_FEW) if few else (_ENGLISH_AT_MOST, _SURE)
    return best if scores[best] >= sure and scores[ENGLISH] <= most else None


def _loaded() -> Any:
    """Return py3langid's model for `_LATIN`, loaded once for each process."""
    global _model  # noqa: PLW0603
    with _lock:
        if _model is None:
            import numpy as np
            from py3langid.langid import MODEL_FILE, LanguageIdentifier

            whole = LanguageIdentifier.from_model_file(MODEL_FILE)
            columns = [place for place, name in enumerate(whole.nb_classes) if name in _LATIN]
            # A model of these columns alone: the others would take a third of the RAM.
            _model = LanguageIdentifier(
                np.ascontiguousarray(whole.nb_ptc[:, columns]),
                whole.nb_pc[columns],
                [whole.nb_classes[place] for place in columns],
                whole.tk_nextmove,
                whole.tk_output,
                norm_probs=True,
                tk_row=whole.tk_row,
            )
        return _model
