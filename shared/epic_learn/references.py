"""References of a statement to what is known of the user: the same, the contrary, or an earlier value of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from epic_learn.types import Proposal, plain
from epic_memory.preferences.parser import parse_aspects
from epic_memory.text.stems import content_stems, stem
from epic_memory.types import FloatArray
from epic_memory.types.weights import StageWeights


@dataclass(frozen=True, kw_only=True)
class ReferenceWeights(StageWeights):
    """Cosines of the static encoder, and shares of words, that tell what a statement refers to."""

    same: float  # cosine from which two statements with the same topic say the same
    near: float  # cosine from which two statements are about the same
    near_with_words: float  # the same where they share a word of their topic
    shared: float  # share of the words of a topic from which two statements are about the same


# Words of attitude and time, which tell nothing about the topic.
_WEAK_WORDS = """
like likes love hate prefer avoid want wants need never always only really eat drink have has had user user's users go
get book take use any more anymore longer now again ago week weeks month months year years day days today rule said
scratch forget about please time times stop stopped quit gave given up moved new much mine matter matters house mind
fine can can't don't doesn't no not from to in is are was been switched started turned came come round used suits me
better these early late good bad thing things one two three called name strictly nothing
"""
_WEAK = frozenset(map(stem, _WEAK_WORDS.split()))
_OF_USER = re.compile(r"\b(?:the )?user('s)?\b( is\b| has\b)?", re.I)
_SHORT = re.compile("'(m|ve|re|s(?= (?:an?|the|not)\\b))")
_LONG = {"m": "am", "ve": "have", "re": "are", "s": "is"}
_NEGATED = re.compile(r"\b(?:no|not|never|nothing|none|without)\b|n't\b")
_FIGURES = re.compile(r"\d+")
_OVER = re.compile(r"\b(?:no longer|any ?more)\b", re.I)
_OVER_WORDS = re.compile(
    r"\b(?:no longer|any ?more|(?:do|does|am|is|are)(?: not|n't)|not|actually|now|really)\b,?", re.I
)


@dataclass(frozen=True, kw_only=True)
class Known:
    """A preference or fact that is held, or with `pending` proposed by an earlier turn of the conversation."""

    text: str
    preference: bool
    pending: bool = False


@lru_cache(maxsize=16384)
def topic(text: str) -> frozenset[str]:
    """Return the stems of a text that tell its topic."""
    return frozenset(content_stems(text)) - _WEAK


def shared(text: str, other: str) -> frozenset[str]:
    """Return the stems that tell the topic of both texts."""
    return topic(text) & topic(other)


def referred(quote: str, known: Sequence[Known], cosines: FloatArray) -> int | None:
    """Return the position of what a change of mind refers to, or None.

    Args:
        quote: The user's words.
        known: What is known.
        cosines: Of the quote with each of them, shape `(len(known),)`.
    """
    weights = ReferenceWeights.shipped()
    words = topic(quote)
    best: tuple[float, int] | None = None
    for place, (each, cosine) in enumerate(zip(known, cosines.tolist(), strict=True)):
        common = words & topic(each.text)
        share = len(common) / min(len(words), len(topic(each.text))) if common else 0.0
        if cosine >= weights.near or share >= weights.shared or (common and cosine >= weights.near_with_words):
            best = max(best or (cosine + share, place), (cosine + share, place))
    return None if best is None else best[1]


def says_the_same(text: str, other: str) -> bool:
    """Tell whether two texts say the same by their words, whoever wrote them: "I'm vegan", "The user is vegan"."""
    return _bare(text) == _bare(other)


def means_the_same(text: str, other: str) -> bool:
    """Tell whether two texts, one of which a model may have written, are about the same and do not differ in a figure.

    "My dentist is Dr Kern" and "Dentist: Dr Kern" are, and so are "I start at Bosch" and "I stop at Bosch": of the
    user's own words `says_the_same` decides.
    """
    one, two = in_first_person(text), in_first_person(other)
    alike = bool(topic(one)) and topic(one) == topic(two) and len(_NEGATED.findall(one)) == len(_NEGATED.findall(two))
    same_figures = _FIGURES.findall(one) == _FIGURES.findall(two)
    return says_the_same(text, other) or (alike and same_figures and not contrary(one, two))


def repeats(one: Proposal, other: Proposal) -> bool:
    """Tell whether two proposals have a text that says the same, in whoever's words."""
    alike = says_the_same if one.source == other.source else means_the_same
    return bool(one.text and other.text) and alike(one.text, other.text)


def asks_the_same(one: Proposal, other: Proposal) -> bool:
    """Tell whether two proposals are one question to the user, though a model and the user said it differently."""
    changes = one.kind.split("_")[0] == other.kind.split("_")[0] and plain(one.old) == plain(other.old)
    return changes and (one.text == other.text or repeats(one, other))


def takes_back(text: str, other: str) -> bool:
    """Tell whether a text says that another holds no longer: "I no longer avoid milk" of "I avoid milk"."""
    if not _OVER.search(text) or _OVER.search(other):
        return False
    return _bare(" ".join(_OVER_WORDS.sub(" ", text.replace("\u2019", "'")).split())) == _bare(other)


def lifts(text: str, other: str) -> bool:
    """Tell whether a text takes back an avoidance, and so is none of its own: "I no longer love milk" says more."""
    return takes_back(text, other) and bool(parse_aspects(other).avoided)


def goes_against(text: str, other: str) -> bool:
    """Tell whether of two preferences about the same one is the contrary or the end of the other."""
    words, before = topic(text), topic(other)
    if not (words & before and (words <= before or before <= words)):
        return False
    return takes_back(text, other) or takes_back(other, text) or contrary(text, other)


def same(text: str, each: Known, cosine: float) -> bool:
    """Tell whether a statement says what is known already."""
    if says_the_same(text, each.text):
        return True
    # "I stop at Bosch on 3 May" is another fact than "I start at Bosch on 3 May".
    if takes_back(text, each.text) or takes_back(each.text, text):
        return False
    alike = each.preference and cosine >= ReferenceWeights.shipped().same and topic(text) == topic(each.text)
    return alike and not contrary(text, each.text)


@lru_cache(maxsize=16384)
def _bare(text: str) -> tuple[str, ...]:
    """Return the words of a text in their order, in the first person, without articles and the "s" at their ends."""
    full = _SHORT.sub(lambda match: f" {_LONG[match[1]]}", plain(in_first_person(text)))
    words = (word.strip(".,;:!?") for word in full.split())
    return tuple(word.removesuffix("s") for word in words if word not in ("a", "an", "the"))


def in_first_person(text: str) -> str:
    """Return what somebody else has written of the user as the user would say it, as facts are compared."""
    words = {" is": " am", " has": " have", None: ""}
    return _OF_USER.sub(lambda match: "my" if match[1] else "I" + words[match[2] and match[2].lower()], text)


def contrary(text: str, other: str) -> bool:
    """Tell whether one of two preferences likes what the other avoids."""
    if not shared(text, other):
        return False
    mine, theirs = parse_aspects(text), parse_aspects(other)
    pairs = [(mine.liked, theirs.avoided), (mine.avoided, theirs.liked)]
    return any(_alike(a, b) for liked, avoided in pairs for a in liked for b in avoided)


def _alike(phrase: str, other: str) -> bool:
    one, two = topic(phrase), topic(other)
    return bool(one) and len(one & two) / max(len(one | two), 1) >= ReferenceWeights.shipped().shared
