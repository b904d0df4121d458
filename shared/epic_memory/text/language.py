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

T = TypeVar("T")

ENGLISH = "en"
ADVICE = 'encoder="sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2" or encoder="ollama/bge-m3"'
"""Encoders that know many languages."""

# Number of characters that are enough to tell the language.
_READ = 400
_FEWEST_WORDS = 3
_FEWEST_LETTERS = 2
# Among several texts, the model is loaded only if at least this share is undecided; where texts are only counted, it is
# asked about roughly this many.
_OPEN_SHARE = 0.2
_ASKED = 32
# The model's finding that a text is not English is accepted only if it gives English no more than the first number and
# the likeliest language at least the second. Short texts, which are often names in an English list, have stricter
# limits.
_ENGLISH_AT_MOST, _SURE = 0.1, 0.3
_FEW_WORDS = 3
_ENGLISH_AT_MOST_OF_FEW, _SURE_OF_FEW = 0.02, 0.4

_NAMES = {
    "ar": "Arabic", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish", "fr": "French",
    "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ka": "Georgian", "kn": "Kannada", "ko": "Korean",
    "lt": "Lithuanian", "lv": "Latvian", "ml": "Malayalam", "nl": "Dutch", "no": "Norwegian", "pa": "Punjabi",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian",
    "sr": "Serbian", "sv": "Swedish", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian",
    "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
# Languages in Latin letters, among which the model chooses.
_LATIN = (
    "en", "de", "fr", "es", "it", "pt", "nl", "pl", "sv", "da", "no", "fi", "cs", "sk", "ro", "hu", "tr", "ca", "id",
    "vi", "hr", "sl", "et", "lt", "lv",
)  # fmt: skip

# First and last code point of other scripts, and the language that is written most in each.
_SCRIPTS = (
    (0x0370, 0x03FF, "el"), (0x0400, 0x052F, "ru"), (0x0530, 0x058F, "hy"), (0x0590, 0x05FF, "he"),
    (0x0600, 0x077F, "ar"), (0x0900, 0x097F, "hi"), (0x0980, 0x09FF, "bn"), (0x0A00, 0x0A7F, "pa"),
    (0x0A80, 0x0AFF, "gu"), (0x0B80, 0x0BFF, "ta"), (0x0C00, 0x0C7F, "te"), (0x0C80, 0x0CFF, "kn"),
    (0x0D00, 0x0D7F, "ml"), (0x0E00, 0x0E7F, "th"), (0x10A0, 0x10FF, "ka"), (0x1100, 0x11FF, "ko"),
    (0x1F00, 0x1FFF, "el"), (0x3040, 0x30FF, "ja"), (0x3130, 0x318F, "ko"), (0x3400, 0x9FFF, "zh"),
    (0xAC00, 0xD7AF, "ko"), (0xF900, 0xFAFF, "zh"), (0xFB50, 0xFDFF, "ar"), (0xFE70, 0xFEFF, "ar"),
    (0xFF66, 0xFF9D, "ja"), (0x20000, 0x323AF, "zh"),
)  # fmt: skip
_STARTS = tuple(start for start, _, _ in _SCRIPTS)
# Letters that only some languages of a script have.
_TELLING = {
    "ru": (("uk", "іїєґ"), ("sr", "ђјљњћџ")),
    "ar": (("ur", "ٹڈڑںے"), ("fa", "پچژگیک")),
}
# A character in one of these languages counts as three Latin letters.
_DENSE = frozenset({"zh", "ja", "ko"})

# English words that none of the languages below has: the two hundred that decide the most of our English texts.
_STRONG = """
    and the my with that how prefer than don't only what like from have can't i'm without prioritize never avoid
    why want be dislike love after which when make about need refuse where first won't two hate you out makes does
    every up please who i'd before too paper should any through oil because into free good small them nothing day
    off food night high their house our street hours worth yes ever feel garden get enough black wedding time days
    always since gives enjoy leather hair rules still cheap noise what's while eat book years cream against bread
    trade family children believe four follow stone child travel during lost history near memory blood cheese they
    year short eight nobody ones keep everything really green building more town sleep think your summer shoes
    myself living talk cotton his three coffee evening reading alone its just frighten whenever road used sunday
    someone cards people quiet overnight leaves months instead money driving favor often chicken friends watch
    cats twice around wear this loud read could between tea heat river new bridge heart milk found company clothes
    cooking skin ordinary very behind strangers boycott detest would carry church though learn bring there hands
"""
# Words common in English and in some of the others too; two of them count as one of the above.
_WEAK = "a an of is are over can not at it one all but has will had see full old long"
# Words common in other languages and rare in English texts, even in names; a star marks those that occur in such names.
_OTHERS = {
    "de": "ich nicht und keine kein keinen mit das ist auf sehr weil gern gerne lieber mag nur wenn ohne meine meinen"
    " auch zu sind aber immer oder habe bin* eine einen ein nie dass für über nach bei beim vom zum zur mich mir der"
    " die*",
    "fr": "je ne pas les* une est* dans pour* avec sans* aime qui que mes mon* ma* jamais préfère évite sur* aux mais"
    " très trop chez* ou où ils sont suis et ni la* le* des* du* un",
    "es": "los* las* con* que por para una muy gusta gustan prefiero evito sin* pero porque mis yo nunca son* no* me*"
    " ni odio es* y* del* lo el* la* en* un",
    "it": "non mi che con* gli per* sono piace piacciono preferisco evito senza molto perché anche della nel nella una"
    " mai troppo e* il* lo ho* la* le* i* un",
    "nl": "ik niet het een geen van* voor met* maar graag liever houd naar zijn omdat ook altijd nooit mijn vermijd"
    " zonder wil heb ben* eet en* de* dat is* of*",
    "pt": "eu não gosto com* uma para dos* das por muito prefiro evito sem mas porque meu minha nunca sempre que são em"
    " os* um nem e* o* a* na no*",
    "pl": "nie lubię wolę się jest na że dla bez unikam tylko bardzo ale* mam* jem nigdy oraz mnie przez które są od"
    " czy jak do* i* z* w*",
    "sv": "jag inte och att som är med* på för ett men* aldrig mig gillar",
    "da": "jeg ikke og at* som er med* på for* et men* aldrig mig",
}
_ENGLISH_WORDS, _ENGLISH_TOO = frozenset(_STRONG.split()), frozenset(_WEAK.split())
_WORDS_OF = {name: frozenset(word.rstrip("*") for word in words.split()) for name, words in _OTHERS.items()}
_FOREIGN = frozenset(word for words in _OTHERS.values() for word in words.split() if not word.endswith("*"))
# Signs other than letters become spaces, except the apostrophe, which gets one form.
_PLAIN = str.maketrans(dict.fromkeys('.,;:!?()[]"/–—…“”„«»¿¡', " ") | dict.fromkeys("’‘ʼ", "'"))

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
        asked: About how many undecided texts at most the model is asked; the others stay None. Default: all.
    """
    read = [_by_signs(text[:_READ]) for text in texts]
    found = [cheap for cheap, _ in read]
    places = [place for place, (_, is_open) in enumerate(read) if is_open]
    if places and len(places) >= _OPEN_SHARE * len(texts):
        for place in places if asked is None else _spread(places, asked):
            found[place] = _by_model(texts[place][:_READ])
    return found


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
    return next((name for name, own in _TELLING.get(language, ()) if letters & set(own)), language)


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
