"""Parser of preferences: what one likes and avoids, how firmly and in which scope, from its words alone.

A text is split into statements, and each is walked from left to right. Cues ("avoid", "prefer", "don't", "over",
"except") determine whether the words after them are liked or avoided, until the next cue. Adjacent cues multiply
("don't dislike"). A contrast ("rather than"), an exception ("unless") and a negation inside a phrase ("gyms without a
pool") turn the side around. All of this is English. A preference in another language is not read at all, nor one whose
negation has no object that is understood: they have no phrases, rather than wrong ones.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from epic_memory.preferences import grammar
from epic_memory.preferences.grammar import ADVERB, CUE, LIGHT, SUBJECT, firmness_of, pattern, words
from epic_memory.text.language import ENGLISH, language_of
from epic_memory.text.phrases import word_set
from epic_memory.types.preferences import Aspects, Expansion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from epic_memory.types import Preference

__all__ = ["aspects_of", "firmness_of", "language_not_read", "parse_aspects"]

_LONGEST = 1000
_APOSTROPHES = str.maketrans("\u2018\u2019\u201b\u02bc", "''''")
_PUNCTUATION = " ,.;:!?'\"“”‘’"
_FOR, _AGAINST, _NEITHER = 1, -1, 0
_SIDES = {"liked": 1, "liked_phrase": 1, "imperative": 1, "avoided": -1, "avoided_phrase": -1, "not": -1}
_NEGATIVE = ("not", "no", "without", "avoided", "avoided_phrase")
# Before a verb that is a cue stands its subject, another verb, or the beginning: not so in "songs of love".
_SUBJECT_BEFORE = re.compile(
    rf"(?i)(?:^|[,;]\s*|(?<![\w'-])(?:{SUBJECT}|to|and|or|but|prefer|am|'m|do|would|will|can|could|must|should|have|had|not"
    rf"|who|cannot|that|never|seldom|\w+n't|{ADVERB}))\s*$"
)
# Before a verb that begins anew in the middle of a phrase: "and I avoid", not "a place to love".
_ANEW = re.compile(
    rf"(?i)(?:(?<![\w'-])(?:{SUBJECT}|and|or|but|then)|[,;])"
    rf"(?: (?:{ADVERB}|try|tend|have|do|would|will|can|must|am|an?|not|never|to|\w+n't)){{0,4}}\s*$"
)
# Words between cues that name nothing: "never (eat any)", "don't (want to) avoid".
_NOTHING_NAMED = re.compile(
    rf"(?i)\s*(?:(?:{ADVERB}|{LIGHT}|to|any|that|an?|the|am|'m|i'm|i|be|in|with|of|have|it|on|as|you|want|try|n?or)\s+)*"
)
_RELATIVE = re.compile(r"\b(?:that|which|who|where|whose)(?: \w+ly|'s)?\s*$", re.I)
_JOINED = re.compile(r"(?:\b(?:and|or|but|nor)|,)(?: i| we)?\s*$", re.I)
_BEGINS = re.compile(r"(?:^|[,;]|\b(?:please|just|so|and|then|but|instead))\s*$", re.I)
_NEEDED = {"imperative": _BEGINS, "liked": _SUBJECT_BEFORE, "avoided": _SUBJECT_BEFORE}
# "Prefer silent films to talkies", but not "prefer access to parks" and "prefer trains to save time".
_TO = re.compile(
    r"(?i)(?<![\w-])(?!(?:prefer|access|approach|solution|commitment|adherence|listen|close|exposure|way|go|relat|want|"
    r"travel|attention|respect|able|visit|trip|how|tie|return|alternativ)\w* to)[\w-]+(?P<to> to (?=\w))(?!(?:be|have"
    r"|make|keep|save|reduce|help|support|use|do|get|avoid|buy|eat|read|watch|work|learn|stay|live|go|see|explore|not"
    r"|ensure|remain|take|focus|my|his|her|understand|feel|me)\b)"
)
# Words before and after a phrase that are not part of it, and words that name nothing.
_LEADING = re.compile(
    r"(?i)(?:(?:kinds?|types?|sorts?|forms?|lots?|use|idea|fact) of|(?:things?|stuff|\w+thing(?! else)|ones|\w+where)"
    rf"(?: (?:that|which|with|like|is|are|has|have))?|(?:[\w-]+ )?(?:containing|made (?:with|from))|{ADVERB}|{LIGHT}|"
    + words(
        "an? the any all some every each these those such other another my our more most its their his her to for that"
        " which who about of in at on by from with is are where as being i we me you i'm and or but please"
        " involving it they there when through if place places"
    )
    + r")(?:\s+|$)"
)
_TRAILING = re.compile(
    r"(?i) (?:(?:wherever|when|whenever|where|if|as) possible|at all(?: costs)?|a lot|any more|too much|very much|"
    rf"of any (?:kind|sort)|(?:for|to) me|on principle|all the time|{ADVERB}|"
    + words(
        "what person thanks and or but then i we i'm will would do am is are was have has had a an the to that which"
        " who where never with my for it not because as of in by must on more from than either at when while"
    )
    + ")$"
)
_EMPTY = word_set(
    "it them that this those these us me anything something everything nothing i we they things thing do go be have no"
    " not ones all you others use most way ways idea kind food foods am is are keep too and or but on content products"
) | {""}
_LIST = re.compile(r"\s*,\s*(?:(?:and|or|nor)\s+)?(?:also\s+)?|\s+(?:and|or|nor|&|and/or)\s+|\s*/\s*", re.I)
_EXAMPLES = re.compile(r"(?:,\s*|\s+)(?:such as|like(?! mine)|including|especially|particularly|for example)\s+", re.I)
# A list after one of these belongs to it: "hotels with casinos or nightclubs" is one thing.
_COMPLEMENT = pattern("with|that|which|who|where|from|about|for|without|into|between|by|as|than|of|in|at|to|containing")
# A lone adjective in a list belongs to the noun at its end: "cultural and artistic exchanges".
_ADJECTIVE = re.compile(
    r"(?i)(?!(?:metal|animal|plastic|garlic|music|cereal|fabric|alcohol|mineral|opera|hospital)s?$)[\w-]+(?:al|ic|ive|ous|ful"
    r"|less|ary|ory|(?<!m)ent|able|ible|(?<!e)ed|ant|ish|ile|ate|free|based|made|ern|-\w+ing)$|(?:larg|small|long|fast|old)er$"
    r"|(?:more|loud|fast|cheap|small|big|modern|dark|bright|cold|hot|dry|busy|noisy|raw|fresh|slow|old|new|quiet|open|hard)$"
)


def aspects_of(preference: str | Preference) -> Aspects:
    """Return the aspects that a preference has; if it has none, those read from its words.

    If the parser does not know the language, an expansion that the user or a model wrote provides the phrases.
    """
    given = getattr(preference, "aspects", None)
    if isinstance(given, Aspects) and given.understood:
        return given
    read = parse_aspects(str(preference))
    expansion = getattr(preference, "expansion", None)
    if read.understood or not isinstance(expansion, Expansion) or expansion.source == "bundled":
        return read
    if not (expansion.follows or expansion.breaks):
        return read
    return Aspects(liked=expansion.follows, avoided=expansion.breaks, source=expansion.source)


def language_not_read(preference: str | Preference) -> str | None:
    """Return the language of a preference that was not read, else None."""
    return None if aspects_of(preference).understood else language_of(str(preference)) or ENGLISH


def parse_aspects(preference: str) -> Aspects:
    """Return the aspects of a preference; without phrases, and with the source "unread", if it could not be read.

    An English text without a cue is liked as a whole, as in the paper's steering, unless something is negated in it.
    """
    return english_aspects(preference) if (language_of(preference) or ENGLISH) == ENGLISH else Aspects(source="unread")


@lru_cache(maxsize=4096)
def english_aspects(preference: str) -> Aspects:
    """Return the aspects of a preference that is known to be English, as `parse_aspects` does."""
    written = " ".join(preference[:_LONGEST].split())
    text = written.translate(_APOSTROPHES)
    reading = _Reading(text)

    def as_written(phrase: str) -> str:
        place = text.find(phrase)
        return phrase if place < 0 else written[place : place + len(phrase)]

    avoided = tuple(dict.fromkeys(as_written(phrase) for side, phrase in reading.phrases if side == _AGAINST))
    folded = {phrase.casefold() for phrase in avoided}
    found = dict.fromkeys(as_written(phrase) for _, phrase in reading.phrases)
    liked = tuple(phrase for phrase in found if phrase.casefold() not in folded)
    if not reading.phrases:
        if any(cue.lastgroup in _NEGATIVE for cue in CUE.finditer(text)):
            return Aspects(source="unread")
        ends = [end.start() for end in (grammar.REASON.search(text, 1), grammar.STATEMENT.search(text, 1)) if end]
        liked = (_trimmed(written[: min(ends, default=None)]) or preference.strip(),)
    scope = as_written(reading.scope)
    return Aspects(liked=liked, avoided=avoided, firmness=firmness_of(text), scope=scope, source="parser")


class _Reading:
    """The reading of a text, statement by statement, and of each from cue to cue.

    `phrases` are the phrases found so far with their sides. In the statement, `_side` is the side of the words from
    `_opened` on, and `_base` that of the last verb, which a contrast or a negation inside a phrase turns around.
    """

    def __init__(self, text: str) -> None:
        self.scope, self._text = "", text
        self.phrases: list[tuple[int, str]] = []
        self._side = self._base = _NEITHER
        self._opened = start = 0
        self._prefers = False
        for boundary in grammar.STATEMENT.finditer(text):
            self._statement(start, boundary.start())
            start = boundary.end()
        self._statement(start, len(text))

    def _statement(self, start: int, end: int) -> None:
        text = self._text
        if condition := grammar.CONDITION.search(text, start, end):
            self.phrases.append((_AGAINST, condition["what"]))
        if reason := grammar.REASON.search(text, start, end):
            end = reason.start()
        if judged := grammar.FIND.search(text, start, end):
            self._enter(_AGAINST, *judged.span("what"))
            end = judged.start()
        elif fronted := grammar.FRONTED.search(text, start, end):
            # "Crowds stress me out."
            side, named = _AGAINST if fronted["avoided"] else _FOR, fronted.start()
            if not any(_cues(text, start, named)) and self._enter(side, start, named):
                return
        self._side = self._base = _NEITHER
        place = grammar.SCOPE.search(text, start, end)
        if place and (place.start() == start or any(_cues(text, start, end))):
            self.scope = self.scope or place[0].strip(_PUNCTUATION)
            self._walk(start, place.start())
            self._side, start = self._base, place.end()
        self._walk(start, end)

    def _walk(self, start: int, end: int) -> None:
        """Put the phrases of a piece of a statement on their sides."""
        before_all = len(self.phrases)
        self._opened, self._prefers = start, False
        cues = list(_cues(self._text, start, end))
        for cue in cues:
            kind, before = cue.lastgroup, self._text[self._opened : cue.start()]
            unnamed = _NOTHING_NAMED.fullmatch(before) is not None
            if kind in _SIDES:
                self._verb(cue, before, unnamed)
            elif kind == "focus":
                self._base = self._base or _FOR
                self._turn(cue, *((_FOR, False) if before.endswith(", ") else (self._side or _FOR, True)))
            elif kind == "neutral" or (kind == "no" and (not self._side or _JOINED.search(before))):
                self._turn(cue, _NEITHER if kind == "neutral" else _AGAINST)
                self._base = self._side
            elif kind != "contrast" and self._side:
                # A thing avoided for a lack is not avoided itself.
                self._turn(cue, -self._side if unnamed else -self._base, drop=self._base == _AGAINST and not unnamed)
                self._base = self._side if unnamed else self._base
            elif self._side or not self.phrases:
                self._base, self._side = self._base or _FOR, self._side or _FOR
                self._turn(cue, -self._base)
        self._close(end)
        if cues and self._base and len(self.phrases) == before_all:
            # The phrase may come before the cue: "Dark roads are something I avoid", "solid wood only".
            self._enter(self._base, start, cues[0].start())

    def _verb(self, cue: re.Match[str], before: str, unnamed: bool) -> None:
        negation, word, own = cue.lastgroup == "not", cue[0].casefold(), _SIDES[str(cue.lastgroup)]
        if self._side and unnamed:
            # Cues that stand together multiply: "don't dislike".
            self._turn(cue, self._side * own, drop=True)
            self._base = self._side
        elif _RELATIVE.search(before):
            if own == _AGAINST and self._side and (negation or self._base == _FOR):
                self._turn(cue, -self._base, drop=self._base == _AGAINST)
            return
        elif self._side and word == "not":
            self._turn(cue, -self._base)
        elif not self._side or (_JOINED if negation else _ANEW).search(before):
            if not self._side and negation and before.rstrip().endswith(","):
                self._side = _FOR  # "mountains, not beaches"
            self._turn(cue, own)
            self._base = own
        else:
            return
        self._prefers = word.startswith("prefer") and self._side == _FOR

    def _turn(self, cue: re.Match[str], side: int, drop: bool = False) -> None:
        """Continue on another side after a cue; the words before it are on theirs, unless they are dropped."""
        if not drop:
            self._prefers &= cue.lastgroup != "contrast"
            self._close(cue.start())
        self._side, self._opened = side, cue.end()

    def _close(self, end: int) -> None:
        start = self._opened
        if self._prefers and self._side == _FOR and (to := _TO.search(self._text, start, end)):
            self._enter(_FOR, start, to.start("to"))
            self._enter(_AGAINST, to.end(), end)
        elif self._side:
            self._enter(self._side, start, end)

    def _enter(self, side: int, start: int, end: int) -> bool:
        """Put the phrases of a piece of text on a side, and tell whether there are any."""
        # "Wool makes me itch, so I never knit with it" names nothing else.
        other = (" it", " them") if self.phrases else ()
        found = [(side, phrase) for phrase in _phrases_of(self._text[start:end]) if not phrase.endswith(other)]
        self.phrases += found
        return bool(found)


def _cues(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """Yield the cues of a statement, without words that only look like one, such as "love" in "songs of love"."""
    for cue in CUE.finditer(text, start, end):
        place = _NEEDED.get(cue.lastgroup or "")
        if place is None or place.search(text[max(start, cue.start() - 20) : cue.start()]):
            yield cue


def _phrases_of(text: str) -> Iterator[str]:
    """Yield the phrases of a piece of text: the items of lists, and examples."""
    for piece in _EXAMPLES.split(_trimmed(text)):
        items = _LIST.split(piece)
        for part in items if _is_list(items) else [piece]:
            if (phrase := _trimmed(part)).casefold() not in _EMPTY:
                yield phrase


def _is_list(items: list[str]) -> bool:
    lengths = [len(item.split()) for item in items]
    if len(items) < 2 or 0 in lengths or max(lengths[:-1]) > 5 or lengths[-1] > 12:
        return False
    adjectives = lengths[-1] > 1 and any(all(map(_ADJECTIVE.match, item.split())) for item in items[:-1])
    return not adjectives and not any(map(_COMPLEMENT.search, items[:-1]))


def _trimmed(text: str) -> str:
    """Return a piece of text without the words around the phrase in it."""
    before = None
    while text != before:
        before = text = text.strip(_PUNCTUATION)
        # "reading" alone is the phrase itself.
        if (leading := _LEADING.match(text)) and " " in text:
            text = text[leading.end() :]
        if trailing := _TRAILING.search(text, max(0, len(text) - 30)):
            text = text[: trailing.start()]
    return text
