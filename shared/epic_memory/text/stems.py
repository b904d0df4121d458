"""Words of a text as evidence: stemmed, in runs of up to three, and marked if a negation reaches them.

"A gluten-free cake without nuts, with cream" has *cream* as plain, and *gluten* and *nut* as negated. "Smoking is now
banned" negates *smoking*. English only; a text in another language has words, too, but none of them is taken for a
negation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from epic_memory.text.phrases import sections, word_set

LONGEST_RUN = 3
# data/words/stems.txt says what each section is for.
_WORDS = sections("stems")
_STOP, _NEGATIONS, _FREE, _TURNED, _GONE, _NOT_DONE, _BEING, _LIFTED = (
    word_set(*_WORDS[name]) for name in ("stop", "negations", "free", "turned", "gone", "not_done", "being", "lifted")
)
_BETWEEN = _BEING | word_set(*_WORDS["between"])
_IRREGULAR = dict(line.split() for line in _WORDS["irregular"])
# The signs that negate what stands after or before them, by their first word. A part of a text without any of these
# words, or a negation, negates nothing.
_SIGNS: dict[str, list[tuple[str, ...]]] = {}
for _sign in map(tuple, map(str.split, (*_WORDS["over"], *_WORDS["replaced"]))):
    _SIGNS.setdefault(_sign[0], []).append(_sign)
_TELLING = _NEGATIONS | _GONE | set(_SIGNS)
# Number of words that a negation reaches, up to a punctuation mark or a turn such as "but"; each "or" starts the count
# again. Articles and similar words do not count.
_REACH = {"non": 1, "instead": 2, "rather": 2}
_FAR = 4
# No negation reaches further, so that a text of nothing but "no x or" is read in linear time.
_FARTHEST = 48
# "Unlike most hotels" is still about a hotel.
_MANY = frozenset({"most", "other", "others", "many", "some", "all"})
# Number of words that a sign negates before it, and the distance from a ban within which its end is looked for.
_BACK, _NEAR = 3, 8
_TURNS = frozenset({"but", "and"})
_ONWARD = frozenset({"or", "nor"})
_MARK = re.compile(r"[,;:.!?]")
_WORD = re.compile(r"[^\W_]+")
# Phrases that only look like negations.
_NO_NEGATION = re.compile(
    r"\b(?:(?:do not|never|cannot|not to) miss|not (?:far|to mention|only|just|to be missed)|why not|non-?stop"
    r"|never-ending"
    r"|(?:no|without|without a|without any) (?:wonder|doubt|doubts|matter|need|question|reservations?|exception|hassle)"
    r"|cannot get enough|not get enough)\b"
)
# A list of which every element is negated: "without milk, eggs or meat".
_LIST = re.compile(
    r"\b(?:no|not|without|never|free of|free from)(?: [\w-]+){1,3}(?:, [\w-]+(?: [\w-]+)?){0,12},? (?:or|nor) "
)
# Words that only seem to have an ending.
_WHOLE = frozenset({"news", "fishing", "training", "fasting"})
# Ending, its replacement, and the number of letters that must be left.
_ENDINGS = (
    ("ies", "y", 2), ("sses", "ss", 2), ("ches", "ch", 2), ("shes", "sh", 2), ("xes", "x", 2), ("ing", "", 3),
    ("ed", "", 3), ("es", "e", 3), ("s", "", 3), ("ly", "", 3),
)  # fmt: skip
_CUT_SHORT = re.compile(r"[^aeiouy][aeiouy][^aeiouywx]")


class Words(NamedTuple):
    """Runs of up to three stems of a text, joined by spaces.

    Attributes:
        plain: Runs that no negation reaches.
        negated: Runs that a negation reaches.
    """

    plain: frozenset[str]
    negated: frozenset[str]


@lru_cache(maxsize=32768)
def stem(word: str) -> str:
    """Return a lower-case word without its usual endings; the same for "berry" and "berries", "hike" and "hiking"."""
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
    """Return the stems of a text, in order."""
    return [stem(word) for word in _WORD.findall(text.lower())]


def content_stems(text: str) -> list[str]:
    """Return the stems of the words that tell the topic of a text, in order."""
    return [stem(word) for word in _WORD.findall(text.lower()) if word not in _STOP and word not in _NEGATIONS]


def words_with_stems(some: AbstractSet[str]) -> re.Pattern[str]:
    """Return a pattern for the words of a lower-case text with these stems; it finds some others, too."""
    # Endings only cut a word, but for "y" and "e", which may stand for other letters.
    beginnings = {word[:-1] if word[-1:] in ("y", "e") else word for word in some}
    irregular = (word for word in _IRREGULAR if stem(word) in some)
    found = "|".join(sorted(map(re.escape, {*beginnings, *irregular})))
    return re.compile(rf"(?<![^\W_])(?:{found})[^\W_]*" if some else "(?!)")


def words_of(text: str, *, beginnings: AbstractSet[str] | None = None) -> Words:
    """Return the runs of stems of a text.

    Args:
        text: The text.
        beginnings: The stems with which runs of two and three that matter begin; others may be left out. Default: all.
    """
    plain: list[str] = []
    negated: list[str] = []
    # Runs and negations end at punctuation marks.
    lower = _NO_NEGATION.sub(
        " ",
        text.lower()
        .replace("\u2019", "'")
        .replace("n't", " not")
        .replace("ca not", "cannot")
        .replace("in place of", "instead of"),
    )
    for part in _MARK.split(_LIST.sub(_joined, lower)):
        words = _WORD.findall(part)
        found = list(map(stem, words))
        reached = [] if _TELLING.isdisjoint(words) else _reached(words)
        if not any(reached) and _NEGATIONS.isdisjoint(words):
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
            _sort_runs(words, found, reached, plain, negated)
    return Words(frozenset(plain), frozenset(negated))


def _sort_runs(
    words: Sequence[str], found: Sequence[str], reached: Sequence[bool], plain: list[str], negated: list[str]
) -> None:
    """Add each run to `plain` or `negated`, for a part of a text with a negation in it."""
    for start, denied in enumerate(reached):
        run = found[start]
        side = negated if denied else plain
        side.append(run)
        for place in range(start + 1, min(start + LONGEST_RUN, len(words))):
            if words[place] in _NEGATIONS:
                # "gluten free" as a whole is plain.
                side = plain
            run = f"{run} {found[place]}"
            side.append(run)


def _joined(found: re.Match[str]) -> str:
    return found[0].replace(", or", " or").replace(", nor", " nor").replace(",", " or")


def _reached(words: Sequence[str]) -> list[bool]:
    """Return for each word whether a negation reaches it."""
    reached = [False] * len(words)
    for place, word in enumerate(words):
        if word in _NEGATIONS:
            _deny(words, place, reached)
        elif word in _TELLING and not reached[place]:
            _deny_by_sign(words, place, reached)
    return reached


def _deny(words: Sequence[str], place: int, reached: list[bool]) -> None:
    """Mark the words that the negation at a place reaches."""
    word = words[place]
    following = words[place + 1] if place + 1 < len(words) else ""
    start = place + 1
    # "not gluten-free" affirms gluten.
    denies = not (reached[place] and word in _TURNED)
    if word in ("free", "instead", "rather"):
        if following not in ("of", "from", "than"):
            # "gluten-free" negates the word before, "free of" those after, a "free" at the beginning nothing.
            if word == "free" and place:
                reached[place - 1] = denies
            return
        start += 1
    elif word == "unlike" and following in _MANY:
        return
    _forward(words, start, _REACH.get(word, _FAR), reached, denies=denies)
    done = words[place + 2 : place + 3] if following == "longer" else [following]
    if not _NOT_DONE.isdisjoint(done):
        _backward(words, place, reached)


def _forward(words: Sequence[str], start: int, reach: int, reached: list[bool], *, denies: bool = True) -> None:
    """Mark `reach` words from a place on, up to a turn; each "or" starts the count again."""
    left = reach
    for after in range(start, min(start + _FARTHEST, len(words))):
        word = words[after]
        if word in _TURNS or not left:
            break
        if word in _ONWARD:
            left = reach
            continue
        reached[after] = denies
        if word not in _FREE:
            left -= 1
        if not left and after + 1 < len(words) and words[after + 1] in _ONWARD:
            left = 1


def _backward(words: Sequence[str], place: int, reached: list[bool]) -> None:
    """Mark the words before a place, skipping the forms of "be" in between: "the casino was since demolished"."""
    last = place - 1
    while last >= 0 and place - last <= _FARTHEST and words[last] in _BETWEEN:
        last -= 1
    left = _BACK
    for before in range(last, max(-1, last - _FARTHEST), -1):
        if not left or words[before] in _TURNS or words[before] in _NEGATIONS:
            break
        reached[before] = True
        left -= words[before] not in _STOP


def _deny_by_sign(words: Sequence[str], place: int, reached: list[bool]) -> None:
    """Mark the words that the sign of an end, a ban or an omission at a place negates."""
    if words[place] in _GONE and _is_done(words, place):
        _backward(words, place, reached)
        return
    if words[place] in ("ban", "bans") and not _LIFTED.isdisjoint(words[place : place + _NEAR]):
        return
    for sign in _SIGNS.get(words[place], ()):
        if tuple(words[place : place + len(sign)]) == sign:
            if " ".join(sign) in _WORDS["replaced"]:
                _backward(words, place, reached)
            else:
                _forward(words, place + len(sign), _FAR, reached)
            return


def _is_done(words: Sequence[str], place: int) -> bool:
    """Tell whether a form of "be" goes with the word at a place: "is now banned"."""
    for before in range(place - 1, max(-1, place - 1 - _BACK), -1):
        if words[before] not in _BETWEEN:
            return False
        if words[before] in _BEING:
            return True
    return False
