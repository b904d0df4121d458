"""The words of a text as evidence: stemmed, in runs of up to three, and whether a negation reaches them.

"A gluten-free cake without nuts, with cream" says *cream* plainly, and *gluten* and *nut* negated. English only; a text
in another language has words, too, but none of them is taken for a negation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

LONGEST_RUN = 3
# What says nothing of what a text is about.
_STOP = frozenset({
    "the", "a", "an", "of", "and", "or", "to", "in", "for", "with", "on", "at", "by", "from", "is", "are", "be",
    "been", "being", "was", "were", "am", "as", "it", "its", "their", "your", "you", "i", "my", "me", "we", "our",
    "us", "any", "all", "some", "that", "this", "these", "those", "which", "who", "whom", "whose", "than", "more",
    "most", "very", "such", "use", "make", "like", "into", "over", "under", "out", "up", "off", "about", "through",
    "after", "before", "between", "among", "per", "each", "when", "where", "what", "how", "there", "here", "have",
    "has", "had", "do", "does", "did", "can", "could", "will", "would", "should", "may", "might", "must", "just",
    "also", "too", "so", "if", "but", "they", "them", "he", "she", "his", "her",
})  # fmt: skip
_NEGATIONS = frozenset({
    "no", "not", "cannot", "without", "non", "never", "free", "instead", "rather", "avoid", "avoids", "avoiding",
    "skip", "skips", "lack", "lacks", "lacking", "minus", "zero", "nothing", "none", "neither", "nor", "rid", "unlike",
    "replaces", "replacing", "hardly", "barely",
})  # fmt: skip
# How many words a negation reaches, up to a mark or a turn; each "or" begins anew.
_REACH = {"non": 1, "instead": 2, "rather": 2}
_FAR = 4
_TURNS = frozenset({"but", "and"})
_ONWARD = frozenset({"or", "nor"})
# "not only beef"
_HALF = frozenset({"only", "just", "merely"})
_MARK = re.compile(r"[,;:.!?]")
_WORD = re.compile(r"[^\W_]+")
# What only looks like a negation.
_NO_NEGATION = re.compile(
    r"\b(?:(?:do not|never|cannot|not to) miss|not (?:far|to mention|only|just|to be missed)|why not|non-?stop"
    r"|never-ending"
    r"|(?:no|without|without a|without any) (?:wonder|doubt|doubts|matter|need|question|reservations?|exception|hassle)"
    r"|cannot get enough|not get enough)\b"
)
# A list that a negation goes through: "without milk, eggs or meat".
_LIST = re.compile(
    r"\b(?:no|not|without|never|free of|free from)(?: [\w-]+){1,3}(?:, [\w-]+(?: [\w-]+)?)*,? (?:or|nor) "
)
# Whole words that another word's ending would hide; and forms that no ending tells.
_WHOLE = frozenset({"news", "fishing", "training", "fasting"})
_IRREGULAR = {
    "children": "child", "people": "person", "men": "man", "women": "woman", "mice": "mouse", "feet": "foot",
    "teeth": "tooth", "knives": "knife", "leaves": "leaf", "wolves": "wolf", "movies": "movie", "flight": "fly",
    "flights": "fly", "flew": "fly", "drove": "drive", "eaten": "eat", "spicy": "spice", "spiciest": "spice",
    "spicier": "spice", "noisy": "noise", "noisier": "noise",
}  # fmt: skip
# What goes, what comes instead, and how many letters must be left.
_ENDINGS = (
    ("ies", "y", 2), ("sses", "ss", 2), ("ches", "ch", 2), ("shes", "sh", 2), ("xes", "x", 2), ("ing", "", 3),
    ("ed", "", 3), ("es", "e", 3), ("s", "", 3), ("ly", "", 3),
)  # fmt: skip
_CUT_SHORT = re.compile(r"[^aeiouy][aeiouy][^aeiouywx]")


class Words(NamedTuple):
    """Runs of up to three stems of a text, joined by spaces.

    Attributes:
        plain: Those that no negation reaches.
        negated: Those that one reaches.
    """

    plain: frozenset[str]
    negated: frozenset[str]


@lru_cache(maxsize=32768)
def stem(word: str) -> str:
    """A lower-case word without its usual endings; the same for "berry" and "berries", "hike" and "hiking"."""
    word = _IRREGULAR.get(word, word)
    if word in _WHOLE:
        return word
    for ending, instead, left in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= left and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)] + instead
            if ending in ("ing", "ed") and len(word) == 3 and _CUT_SHORT.fullmatch(word):
                word += "e"
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lse":
        word = word[:-1]
    return word.rstrip("e") if len(word) > 4 else word


def stems(text: str) -> list[str]:
    """The stems of a text, in order."""
    return [stem(word) for word in _WORD.findall(text.lower())]


def content_stems(text: str) -> list[str]:
    """The stems of the words that say what a text is about, in order."""
    return [stem(word) for word in _WORD.findall(text.lower()) if word not in _STOP and word not in _NEGATIONS]


def words_of(text: str, *, beginnings: AbstractSet[str] | None = None) -> Words:
    """The words of a text.

    Args:
        text: The text.
        beginnings: What the longer runs begin with that are looked for; default: all are.
    """
    plain: list[str] = []
    negated: list[str] = []
    # No run and no negation goes beyond a mark.
    lower = _NO_NEGATION.sub(
        " ", text.lower().replace("\u2019", "'").replace("n't", " not").replace("ca not", "cannot")
    )
    for part in _MARK.split(_LIST.sub(_joined, lower)):
        words = _WORD.findall(part)
        found = list(map(stem, words))
        if _NEGATIONS.isdisjoint(words):
            plain += found
            if beginnings is None:
                plain += map(" ".join, pairwise(found))
                plain += map(" ".join, zip(found, found[1:], found[2:], strict=False))
            elif not beginnings.isdisjoint(found):
                for start, word in enumerate(found):
                    if word in beginnings:
                        plain.append(" ".join(found[start : start + 2]))
                        plain.append(" ".join(found[start : start + 3]))
        else:
            _sort_runs(words, found, plain, negated)
    return Words(frozenset(plain), frozenset(negated))


def _sort_runs(words: Sequence[str], found: Sequence[str], plain: list[str], negated: list[str]) -> None:
    """The runs of words with a negation among them."""
    for start, reached in enumerate(_reached(words)):
        run = found[start]
        side = negated if reached else plain
        side.append(run)
        for place in range(start + 1, min(start + LONGEST_RUN, len(words))):
            if words[place] in _NEGATIONS:
                # "gluten free" as a whole is said plainly.
                side = plain
            run = f"{run} {found[place]}"
            side.append(run)


def _joined(found: re.Match[str]) -> str:
    return found[0].replace(", or", " or").replace(", nor", " nor").replace(",", " or")


def _reached(words: Sequence[str]) -> list[bool]:
    """Which words a negation reaches."""
    reached = [False] * len(words)
    for place, word in enumerate(words):
        if word not in _NEGATIONS:
            continue
        following = words[place + 1] if place + 1 < len(words) else ""
        start = place + 1
        if word in ("free", "instead", "rather"):
            if following not in ("of", "from", "than"):
                # "gluten-free", but not "feel free".
                if word == "free" and place:
                    reached[place - 1] = True
                continue
            start += 1
        elif following in _HALF:
            continue
        left = _REACH.get(word, _FAR)
        for after in range(start, len(words)):
            if words[after] in _TURNS or not left:
                break
            if words[after] in _ONWARD:
                left = _REACH.get(word, _FAR)
            else:
                reached[after] = True
                left -= 1
                if not left and after + 1 < len(words) and words[after + 1] in _ONWARD:
                    left = 1
    return reached
