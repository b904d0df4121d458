"""Names and noun phrases of a text, found by its words alone: no model, any script, linear time.

Each word gets a letter for its possible role in a phrase (`tags`); phrases are patterns of letters. Only English has
lists of verbs and vague nouns; for some other languages the function words are known, for the rest only the script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from epic_graph.extraction.keys import HIDDEN, MARKS
from epic_graph.extraction.tags import KINDS, TITLES, Tagger, is_function, is_plural, plain, says_something
from epic_graph.extraction.unspaced import UNSPACED, unspaced_names


class Phrase(NamedTuple):
    """A phrase of a text.

    Attributes:
        name: The phrase as written, with white space normalised.
        begin, end: Its position in the text.
        sentence: The number of its sentence.
        proper: Whether it is a name, rather than a noun phrase.
        within: Whether it is part of another phrase.
    """

    name: str
    begin: int
    end: int
    sentence: int
    proper: bool
    within: bool = False


class _Word(NamedTuple):
    text: str
    begin: int
    end: int


_LETTER = rf"[^\W_{UNSPACED}]"
_LETTERS = rf"{_LETTER}+(?:[{MARKS}{HIDDEN}]+{_LETTER}*)*"
_SHORT = "Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|Mt|Ft|Rev|Capt|Gen|Col|Sgt|Lt|Inc|Ltd|Co"
_TOKEN = re.compile(
    rf"""
    (?P<link>https?://\S+|www\.\S+)
  | (?P<stop>[.!?…]{{1,60}}(?=["'”’»)\]]*(?:\s|$))|[。！？｡।॥؟۔]+|\n[^\S\n]*\n\s*)
  | (?P<initials>(?:[A-Za-z]\.){{2,9}}(?:[A-Z](?!\w))?)
  | (?P<short>(?:{_SHORT})(?=\.)|[A-Z](?=\.\s?[A-Z][\w.]))\.
  | (?P<number>\d+(?:[.,:/]\d+)*(?!{_LETTER}))
  | (?P<run>[{UNSPACED}]+)
  | (?P<elision>(?i:[cdjlmnst]|qu)['’](?={_LETTER}))
  | (?P<word>{_LETTERS}(?:[-‐‑'’ʼ]{_LETTERS})*(?:\+\+|\#(?!\w))?)
  | (?P<mark>[^\w\s])
    """,
    re.X,
)
_PHRASE = re.compile(
    r"(?P<name>C(?:[CM]|'C)*(?:OH?C(?:[CM]|'C)*)?(?:\#(?!N))?)(?P<tail>[NI]{1,3})?"
    r"|(?P<noun>I?N{1,60}(?:'N{1,60})?)|(?P<doing>I)|(?P<year>Y)|(?P<words>U+)|(?P<run>X)"
)
_BEGINNING = re.compile(r"S(?=(C|OH?C|#(?![NW]))?)")
_EITHER = re.compile("[WZ]")
_AFTER_BE = re.compile(r"(?<=B)N(?![NCO'])|(?<=BF)N(?![NCO'])")
_LONGEST_NAME = 6
_LONGEST_NOUN = 4


def phrases(text: str) -> list[Phrase]:
    """Return the phrases of a text, in order; parts of a phrase directly after it. Linear in the text's length."""
    sentences = enumerate(_sentences(text))
    return [each for number, (words, codes) in sentences for each in _of_sentence(text, number, words, codes)]


def _sentences(text: str) -> Iterator[tuple[list[_Word], str]]:
    """Yield the words of each sentence, and a letter for each of them."""
    tokens = [
        (match.lastgroup or "", match.group(match.lastgroup or 0), match.start()) for match in _TOKEN.finditer(text)
    ]
    tagger = Tagger([word for kind, word, _ in tokens if kind == "word"])
    words: list[_Word] = []
    codes = ""
    for kind, token, begin in tokens:
        end = begin + len(token)
        if kind == "stop":
            if words:
                yield words, codes
            words, codes = [], ""
            tagger.start()
        elif kind == "word" and plain(token).endswith("'s") and not is_function(plain(token)):
            words += [_Word(token[:-2], begin, end - 2), _Word("'", end - 2, end)]
            codes += f"{tagger.word(token[:-2])}'"
        else:
            words.append(_Word(token, begin, end))
            codes += tagger.word(token) if kind == "word" else tagger.sign(kind, token)
    if words:
        yield words, codes


def _of_sentence(text: str, number: int, words: Sequence[_Word], codes: str) -> Iterator[Phrase]:
    """Yield the phrases of a sentence."""
    codes = _read_again(words, codes)

    def phrase(begin: int, end: int, proper: bool, within: bool = False) -> Phrase:
        first, last = words[begin].begin, words[end - 1].end
        return Phrase(" ".join(text[first:last].split()), first, last, number, proper, within)

    for match in _PHRASE.finditer(codes):
        begin, end = match.span()
        kind = match.lastgroup
        if kind in ("name", "tail"):
            for first, last, within in _named(words, codes, begin, match.end("name"), end):
                yield phrase(first, last, True, within)
        elif kind == "noun":
            for first, last, within in _nouns(codes, begin, end):
                yield phrase(first, last, False, within)
        elif kind == "words":
            if end - begin == 2:
                yield phrase(begin, end, False)
            for place in range(begin, end):
                yield phrase(place, place + 1, False, end - begin == 2)
        elif kind == "run":
            run, at = words[begin].text, words[begin].begin
            for name, place, within in unspaced_names(run):
                yield Phrase(name, at + place, at + place + len(name), number, False, within)
        elif kind == "year" or codes[end : end + 1] != "H":
            # A year is never one end of a fact: too much happens in a year.
            yield phrase(begin, end, False, kind == "year")


def _read_again(words: Sequence[_Word], codes: str) -> str:
    """Return the letters, corrected by the words that follow."""
    # A capitalised first word of a sentence is part of a name if a name follows.
    codes = _BEGINNING.sub(lambda match: "C" if match[1] else "N", codes)
    codes = _EITHER.sub(lambda match: _settled(match, words), codes)
    # "is elastic": a single word after a form of "to be" is mostly an adjective.
    return _AFTER_BE.sub("F", codes)


def _settled(match: re.Match[str], words: Sequence[_Word]) -> str:
    """Return the letter of a word that can be a noun or a verb, chosen by the words around it."""
    codes, place = match.string, match.start()
    before, after = codes[place - 1 : place], codes[place + 1 : place + 2]
    third = is_plural(words[place].text)
    if before == "C":
        verb = third
    elif before in tuple("NWIU"):
        # "boats wait", "the lorry starts at", but "bus stops."
        verb = not third if is_plural(words[place - 1].text) else third and after in tuple("HOF")
    else:
        # "Tie over the stitch", "press the patch"
        verb = before in ("", ".", "F", "T", "V") and after == "H"
    return "V" if verb else "N"


def _named(words: Sequence[_Word], codes: str, begin: int, end: int, last: int) -> Iterator[tuple[int, int, bool]]:
    """Yield a name; before it the phrase that it begins, after it the names within it."""
    inner = end - begin <= _LONGEST_NAME and "N" in codes[end:last]
    if inner:
        yield begin, last, False
    end = min(end, begin + _LONGEST_NAME)
    if end - begin > 1 or says_something(words[begin].text):
        yield begin, end, inner
        # "the river Wend", "an abbey of Prum"
        kind = begin - 1 - (codes[begin - 1 : begin] == "O")
        if kind >= 0 and codes[kind] == "N" and words[kind].text in KINDS:
            yield kind, end, True
        yield from ((first, last, True) for first, last in _inside(words, codes, begin, end))


def _inside(words: Sequence[_Word], codes: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the names within a name: without a title or a number, and on either side of a connector."""
    if words[begin].text.lower().rstrip(".") in TITLES and end - begin > 1 and codes[begin + 1] == "C":
        begin += 1
        yield begin, end
    inner = codes[begin:end]
    if joined := re.search(r"OH?|'", inner):
        first, rest = begin + joined.start(), begin + joined.end()
        if first - begin > 1 or words[begin].text.lower() not in KINDS:
            yield begin, first
        if codes[rest] == "C" and joined[0] != "'":
            yield rest, end
    elif inner.endswith("#") and len(inner) > 2:
        yield begin, end - 1


def _nouns(codes: str, begin: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Yield a noun phrase, and its last word; for "the dyer's lane" also "dyer"."""
    owner = codes.find("'", begin, end)
    if owner > 0:
        yield from _nouns(codes, begin, owner)
        yield max(begin, owner - _LONGEST_NOUN), end, True
        yield from _nouns(codes, owner + 1, end)
        return
    begin = max(begin, end - _LONGEST_NOUN)
    yield begin, end, False
    if end - begin > 1:
        yield end - 1, end, True
