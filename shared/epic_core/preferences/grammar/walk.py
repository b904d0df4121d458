"""Walk over a statement from left to right, which puts the phrases in it on the liked or the avoided side."""

from __future__ import annotations

import re
from collections.abc import Iterator

from epic_core.preferences.grammar.cues import ADVERB, CUE, LIGHT, SUBJECT
from epic_core.preferences.grammar.phrases import HEAD_ALONE, PUNCTUATION, phrases_of
from epic_core.text.stems import word_set

LIKED, AVOIDED, NEITHER = 1, -1, 0
_VERBS = {"liked": LIKED, "liked_phrase": LIKED, "avoided": AVOIDED, "avoided_phrase": AVOIDED, "not": AVOIDED}

# Before a verb that is a cue stands its subject, another verb, or the beginning.
_SUBJECT = re.compile(
    rf"(?:^|[,;]\s*|(?<![\w'-])(?:{SUBJECT}|to|and|or|but|also|then|am|'m|do|would|will|can|could|must|should|which i"
    rf"|(?:what|all) i|have|had|not|who|cannot|that|never|hardly|seldom|\w+n't|{ADVERB}))\s*$",
    re.I,
)
# Before a verb that begins anew in the middle of a phrase: "and I avoid", not "a place to love".
_ANEW = re.compile(
    rf"(?:(?<![\w'-])(?:{SUBJECT}|and|or|but|then)|[,;])"
    rf"(?: (?:{ADVERB}|try|tend|have|do|would|will|can|could|must|am|an?|not|never|to|\w+n't)){{0,4}}\s*$",
    re.I,
)
# Words between cues that name nothing: "never (eat any)", "don't (want to) avoid".
_NOTHING_NAMED = re.compile(
    rf"\s*(?:(?:{ADVERB}|{LIGHT}|to|any|that|an?|the|am|'m|i'm|i|be|in|with|of|have|it|on|as|want|try|"
    rf"tend)\s+)*(?:n?or\s+)?",
    re.I,
)
_RELATIVE = re.compile(r"\b(?:(?:that|which|who|where|whose|should)(?: \w+ly)?|(?:that|which|who|where)'s)\s*$", re.I)
_NO_OBJECT = re.compile(
    r"\s*(?:$|[,.;]|(?:over|when|in|of|and|or|than|rather|instead|from|as|with|while|during)\b)", re.I
)
_JOINED = re.compile(r"(?:\b(?:and|or|but|nor)|,)(?: i| we)?\s*$", re.I)
_OR = re.compile(r"\bn?or\s*$", re.I)
_SHOULD = re.compile(r"\bshould", re.I)
_BEGINS = re.compile(r"(?:^|[,;]|\b(?:please|just|so|and|then|but))\s*$", re.I)
_PUT = re.compile(r"\b(?:put|place)\b", re.I)
# "I avoid centralized control over services".
_POWER = re.compile(r"\b(?:control|power|authority|influence|ownership|arguments?|fights?|worry|fuss)\s*$", re.I)
# "Apart from bananas I love all fruit".
_MAIN_CLAUSE = re.compile(r"\s(?=(?:i|i'm|i'd|we)\s)", re.I)
# "Cats over dogs, tea over coffee": where the second pair begins.
_PAIR = re.compile(r"\s*,\s*(?:(?:and|or|but)\s+)?|\s+(?:and|or|but)\s+", re.I)
_LAST_OF_ALL = re.compile(r"(?:,|\bbut)\s*$", re.I)
_TO = re.compile(r" to (?=\w)", re.I)
# "to" is no contrast in "prefer access to parks" and "prefer trains to save time".
_BEFORE_TO = word_set(
    "access approach approaches solution solutions commitment adherence listen listening due related next close"
    " proximity exposure exposed travel traveling travelling go going transition according addition alternative"
    " alternatives respect attention return returning back able want way ways moving visit visits trip trips how"
    " compared prefer tied"
)
_AFTER_TO = re.compile(
    r"(?:be|have|make|keep|save|reduce|help|support|use|do|get|avoid|buy|eat|read|watch|work|learn|stay|live|go|see"
    r"|explore|not|ensure|remain|come|take|my|his|her|start|focus|understand|feel|me)\b",
    re.I,
)


# Cues that count only after a cue of one of these kinds.
_AFTER = {"more": ("less", "more"), "back": ("without", "no", "less", "not")}
# A subject and a verb before "less", as in "I spend less time".
_VERB_ALONE = re.compile(rf"\s*(?:{SUBJECT}|to)\s+(?:(?:{ADVERB}|try to|want to|\w+ (?:me|us) to)\s+)*\w+\s*", re.I)


class Found:
    """The liked and avoided phrases found in a text."""

    def __init__(self, text: str, plain: str) -> None:
        self.text, self.plain = text, plain
        # The side of the last verb; a contrast that stood before it is on the other side.
        self.base = LIKED
        self._phrases: list[tuple[int, str]] = []
        self._early: list[tuple[int, int]] = []

    @property
    def named(self) -> bool:
        """True if any phrase was found so far."""
        return bool(self._phrases)

    @property
    def waiting(self) -> bool:
        """True if only the second half of a contrast was found so far."""
        return bool(self._early) and not self.named

    def enter(self, side: int, start: int, end: int) -> int:
        """Put the phrases of a piece of text on a side, and return their number."""
        named = [self.text[slice(*place)] for place in phrases_of(self.plain, start, end, known=self.named)]
        self._phrases.extend((side, phrase) for phrase in named)
        return len(named)

    def enter_whole(self, side: int, start: int, end: int) -> None:
        """Put a piece of text on a side unchanged."""
        self._phrases.append((side, self.text[start:end]))

    def enter_early(self, start: int, end: int) -> None:
        """Keep a contrast that comes before the rest: "instead of tea, I drink"."""
        self._early.append((start, end))

    def sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the liked and the avoided phrases, each once; a phrase on both sides is avoided."""
        for place in self._early:
            self.enter(-self.base, *place)
        self._early.clear()
        avoided = dict.fromkeys(phrase for side, phrase in self._phrases if side == AVOIDED)
        liked = dict.fromkeys(phrase for side, phrase in self._phrases if side == LIKED)
        folded = {phrase.casefold() for phrase in avoided}
        return tuple(phrase for phrase in liked if phrase.casefold() not in folded), tuple(avoided)


def cues_of(plain: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """Yield the cues of a statement, without words that only look like one, such as "love" in "songs of love"."""
    last = None
    for cue in CUE.finditer(plain, start, end):
        if _is_cue(plain, cue, start, end, last):
            last = cue
            yield cue


def _is_cue(plain: str, cue: re.Match[str], start: int, end: int, last: re.Match[str] | None) -> bool:
    kind, word = cue.lastgroup, cue[0].casefold()
    before = plain[max(start, cue.start() - 20) : cue.start()]
    if kind == "imperative":
        return bool(_BEGINS.search(before)) or (word == "stick to" and bool(_SUBJECT.search(before)))
    if kind in _AFTER:
        return last is not None and last.lastgroup in _AFTER[kind]
    if word == "before":
        return bool(_PUT.search(plain, start, cue.start()))
    if kind not in ("liked", "avoided") and word != "must":
        return True
    if last is not None and word.endswith("ing") and _NOTHING_NAMED.fullmatch(plain, last.end(), cue.start()):
        return True
    # After "and" it may be a noun, unless an object follows.
    noun = _JOINED.search(before) and _NO_OBJECT.match(plain, cue.end(), end)
    return bool(_SUBJECT.search(before)) and not noun


class Walk:
    """A walk over one statement, from left to right; `side` is that of the words before its first cue."""

    def __init__(self, found: Found, start: int, end: int, side: int = NEITHER) -> None:
        self._found, self._plain = found, found.plain
        self._start, self._end = start, end
        # The side of the words from `_open` on, and the side of the last verb, which a contrast reverses.
        self._side = self._base = side
        self._open = start
        # Whether "to" can be a contrast in this statement, and in the words from `_open` on.
        self._may_prefer = self._prefers = False
        # Which of these turned the side: a contrast, a negation inside a phrase ("inside"), or "less".
        self._turned = ""
        self._entered = 0

    def run(self) -> None:
        """Put the phrases of the statement on their sides."""
        found = list(cues_of(self._plain, self._start, self._end))
        self._may_prefer = all(cue.lastgroup != "contrast" for cue in found)
        for cue in found:
            self._meet(cue, cue.lastgroup or "")
        if not found and self._found.waiting:
            # "Instead of beer, I drink cider."
            self._side = self._base = LIKED
        self._close(self._end)
        if found and self._side and not self._entered:
            # The phrase may come before the cue: "Dark roads are something I avoid", "solid wood only".
            self._found.enter(self._base, self._start, found[0].start())

    def _meet(self, cue: re.Match[str], kind: str) -> None:
        if kind in _VERBS:
            self._verb(cue, _VERBS[kind])
        elif kind == "imperative":
            self._verb(cue, LIKED)
        elif kind == "focus":
            self._focus(cue)
        elif kind == "without":
            self._without(cue)
        elif kind == "no":
            self._no(cue)
        elif kind == "less":
            self._less(cue)
        elif kind in _AFTER:
            self._go_on(cue, kind)
        elif kind == "even":
            self._turn(cue, self._side)
        elif kind == "neutral":
            self._turn(cue, NEITHER)
            self._base = NEITHER
        else:
            self._contrast(cue)

    # --- effects of a cue

    def _verb(self, cue: re.Match[str], side: int) -> None:
        before = self._plain[self._open : cue.start()]
        negation, word = cue.lastgroup == "not", cue[0].casefold()
        if self._side and _NOTHING_NAMED.fullmatch(before):
            # Cues that stand together multiply, "don't dislike", but not in "avoid or refuse".
            alike = self._side == side == AVOIDED and _OR.search(before)
            self._drop(cue, side if alike else self._side * side)
            self._base = self._base_of(word, self._side)
        elif _RELATIVE.search(before):
            if side == AVOIDED and self._side and (negation or self._base == LIKED):
                self._turn_inside(cue)
            return
        elif self._base == LIKED and negation and _SHOULD.match(word):
            self._drop(cue, AVOIDED)
        elif self._side and word in ("not", "nor"):
            self._turn(cue, -self._base if word == "not" else self._base)
        elif not self._side or self._begins_anew(cue, before):
            if word == "not":
                self._like_what_stands_before(cue)
            self._turn(cue, side)
            self._base = self._base_of(word, side)
        else:
            return
        self._prefers = self._may_prefer and word.startswith("prefer") and self._side == LIKED

    def _base_of(self, verb: str, side: int) -> int:
        """Return the side of a verb; "I believe in reducing waste" is still about something liked."""
        return LIKED if verb.endswith("ing") and self._base == LIKED else side

    def _focus(self, cue: re.Match[str]) -> None:
        head = self._plain[self._open : cue.start()]
        if not self._side:
            self._drop(cue, LIKED)
            self._base = LIKED
        elif (
            cue[0].casefold().startswith(("that", "which", "who", "where", "should"))
            or HEAD_ALONE.fullmatch(head.strip())
            or not head.strip()
        ):
            self._drop(cue, self._side)
        elif head.endswith(", "):
            self._turn(cue, LIKED)

    def _without(self, cue: re.Match[str]) -> None:
        if not self._side and self._plain[self._start : cue.start()].strip(PUNCTUATION):
            if self._found.named:
                return
            self._side = self._base = LIKED
        if not self._side:
            self._drop(cue, AVOIDED)
            self._base = AVOIDED
        else:
            self._turn_inside(cue)

    def _no(self, cue: re.Match[str]) -> None:
        if not self._side or _JOINED.search(self._plain[self._open : cue.start()]):
            self._like_what_stands_before(cue)
            self._turn(cue, AVOIDED)
            self._base = AVOIDED
        else:
            self._turn_inside(cue)

    def _less(self, cue: re.Match[str]) -> None:
        """Put "less sugar" on the liked side if sugar is avoided."""
        unnamed = _NOTHING_NAMED.fullmatch(self._plain, self._open, cue.start())
        done = _VERB_ALONE.fullmatch(self._plain, self._open, cue.start())
        if not self._side and not unnamed and not done and not self._found.named:
            self._side = self._base = LIKED
        self._turn(cue, LIKED if unnamed and self._side == AVOIDED else AVOIDED)
        self._base = self._side if unnamed else self._base
        self._turned = "less"

    def _go_on(self, cue: re.Match[str], kind: str) -> None:
        """Continue after "less" or "without": "less sugar, more fruit", "without casinos and with a pool"."""
        if kind == "back" and self._turned == "inside":
            self._turn(cue, self._base)
        elif kind == "more" and self._turned == "less" and _JOINED.search(self._plain[self._open : cue.start()]):
            self._turn(cue, LIKED)
            self._base = LIKED

    def _like_what_stands_before(self, cue: re.Match[str]) -> None:
        """Put the phrase before a negation on the liked side: "mountains, not beaches"."""
        if not self._side and not self._found.named and _LAST_OF_ALL.search(self._plain[self._open : cue.start()]):
            self._side = self._base = LIKED

    def _contrast(self, cue: re.Match[str]) -> None:
        before = self._plain[self._open : cue.start()]
        if self._base == AVOIDED and cue[0].casefold() == "over" and _POWER.search(before):
            return
        if self._side:
            if self._turned == "contrast" and cue.lastgroup == "contrast" and not cue[0].casefold().endswith("not"):
                self._begin_pair(cue)
            self._turn(cue, -self._base)
            self._turned = "contrast"
        elif self._plain[self._start : cue.start()].strip(PUNCTUATION):
            if not self._found.named:
                self._side = self._base = LIKED
                self._turn(cue, AVOIDED)
                self._turned = "contrast"
        else:
            main = _MAIN_CLAUSE.search(self._plain, cue.end(), self._end)
            self._found.enter_early(cue.end(), main.start() if main else self._end)

    def _begin_pair(self, cue: re.Match[str]) -> None:
        """End the effect of an earlier contrast where another pair begins: "over dogs, tea over coffee"."""
        joints = [*_PAIR.finditer(self._plain, self._open, cue.start())]
        if joints and joints[-1].start() > self._open:
            self._turn(joints[-1], self._base)

    # --- sides

    def _turn_inside(self, cue: re.Match[str]) -> None:
        """Apply a negation inside a phrase: a thing avoided for a lack is not avoided itself."""
        if self._base == AVOIDED and not _JOINED.search(self._plain[self._open : cue.start()]):
            self._drop(cue, LIKED)
        elif self._base == AVOIDED:
            self._turn(cue, LIKED)
        elif _SHOULD.search(self._plain[self._open : cue.end()]):
            self._drop(cue, AVOIDED)
        else:
            self._turn(cue, AVOIDED)
        self._turned = "inside"

    def _turn(self, cue: re.Match[str], side: int) -> None:
        self._close(cue.start())
        self._drop(cue, side)

    def _drop(self, cue: re.Match[str], side: int) -> None:
        self._side, self._open, self._turned = side, cue.end(), ""

    def _close(self, end: int) -> None:
        if not self._side:
            return
        self._found.base = self._base
        start = self._open
        while start < end:
            to = self._preferred_to(start, end) if self._prefers else None
            self._entered += self._found.enter(self._side, start, to.start() if to else end)
            if not to:
                break
            # "Trains to planes and hotels to hostels."
            more = self._preferred_to(to.end(), end)
            joints = [*_PAIR.finditer(self._plain, to.end(), more.start())] if more else []
            self._entered += self._found.enter(-self._side, to.end(), joints[-1].start() if joints else end)
            start = joints[-1].end() if joints else end
        self._prefers = False

    def _preferred_to(self, start: int, end: int) -> re.Match[str] | None:
        """Return the "to" of "prefer silent films to talkies", or None."""
        for to in _TO.finditer(self._plain, start, end):
            before = self._plain[start : to.start()].split()
            if before and before[-1].casefold() not in _BEFORE_TO and not _AFTER_TO.match(self._plain, to.end()):
                return to
        return None

    @staticmethod
    def _begins_anew(cue: re.Match[str], before: str) -> bool:
        """Tell whether a verb in the middle of a phrase begins another: "and I avoid", not "a place to love"."""
        if cue.lastgroup == "not":
            return bool(_JOINED.search(before))
        if cue.lastgroup in ("liked", "liked_phrase") and _OR.search(before):
            return False
        return bool(_ANEW.search(before)) or (cue[0].endswith("ing") and before.rstrip().endswith(","))
