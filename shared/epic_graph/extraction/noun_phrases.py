"""Names and noun phrases of a text, found by its words alone: no model, any script, linear time.

Each word gets a letter for its possible role in a phrase (`tags`); phrases are patterns of letters. Only English has
lists of verbs and vague nouns; for some other languages the function words are known, for the rest only the script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from epic_graph.extraction import word_lists as known
from epic_graph.extraction.keys import HIDDEN, MARKS, without_particle
from epic_graph.extraction.tags import (
    function_words_only,
    is_function,
    is_plural,
    noun_letter,
    plain,
    reader_of,
    says_something,
)
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
_SHORT = "Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|Mt|Ft|Rev|Capt|Gen|Col|Sgt|Lt|No|vs|etc|approx|ca|Inc|Ltd|Co"
_TOKEN = re.compile(
    rf"""
    (?P<lower>(?!(?:etc|vs|approx|ca)\b)[a-z]{{2,80}}(?=[\s,;!?)]|\.\s|$))
  | (?P<link>https?://\S+|www\.\S+)
  | (?P<stop>[.!?…]{{1,60}}(?=["'”’»)\]]*(?:\s|$))|[。！？｡।॥؟۔]+|\n[^\S\n]*\n\s*)
  | (?P<initials>(?:[A-Za-z]\.){{2,9}}(?:[A-Z](?!\w))?)
  | (?P<short>(?:{_SHORT})(?=\.)|[A-Z](?=\.\s?[A-Z][\w.]))\.
  | (?P<number>\d+(?:[.,:/]\d+)*(?!{_LETTER}))
  | (?P<run>[{UNSPACED}]+)
  | (?P<word>{_LETTERS}(?:[-‐‑'’ʼ]{_LETTERS})*(?:\+\+|\#(?!\w))?)
  | (?P<mark>[^\w\s])
    """,
    re.X,
)
_TITLE = re.compile(
    r'“([^“”"\n]{2,80})”|"([^“”"\n]{2,80})"|«([^«»\n]{2,80})»|„([^„“”\n]{2,80})[“”]|[《「『]([^《》「」『』\n]{2,40})[》」』]'
)
_QUOTES = re.compile('[“"«„《「『]')
_IN_SPEECH = re.compile(r"[.!?;:](?:\s|$)|,")
_SPACE = re.compile(r"\s+")

_PHRASE = re.compile(
    r"(?P<name>C(?:[CM]|'C)*(?:O{1,2}H?C(?:[CM]|'C)*)?(?:HE|\#(?![NAGJ]))?)(?P<tail>[NAI]{1,3})?"
    r"|(?P<noun>I?[GJNA]{0,60}[NA](?:(?<=N)'[GJNA]{0,60}N)?)|(?P<doing>I)|(?P<year>Y)(?!A)|(?P<words>U+)|(?P<run>X)"
)
_LONGEST_NAME = 6
_LONGEST_NOUN = 4


def phrases(text: str) -> list[Phrase]:
    """Return the phrases of a text, in order; parts of a phrase directly after it. Linear in the text's length."""
    titles = _titles(text)[::-1] if _QUOTES.search(text) else []
    found: list[Phrase] = []
    number, title = 0, None
    for number, (words, codes) in enumerate(_sentences(text)):
        while titles and titles[-1].begin < words[-1].end:
            title = titles.pop()._replace(sentence=number)
            found.append(title)
        for phrase in _of_sentence(text, number, words, codes):
            inner = title is not None and title.begin <= phrase.begin and phrase.end <= title.end
            found.append(phrase._replace(within=True) if inner else phrase)
    return found + [title._replace(sentence=number) for title in titles[::-1]]


def _titles(text: str) -> list[Phrase]:
    """Return the quotations that look like a title: not speech, and more than one word."""
    found = []
    for match in _TITLE.finditer(text):
        group = match.lastindex or 0
        said = match.group(group)
        words = said.split()
        unspaced = re.match(f"[{UNSPACED}]", said) is not None
        whole = (unspaced or len(words) > 1) and len(words) <= _LONGEST_NAME and not said[:1].islower()
        if whole and not _IN_SPEECH.search(said) and not function_words_only(words):
            found.append(Phrase(_SPACE.sub(" ", said).strip(), *match.span(group), 0, True))
    return found


def _sentences(text: str) -> Iterator[tuple[list[_Word], str]]:
    """Yield the words of each sentence, and a letter for each of them."""
    tokens = [
        (match.lastgroup or "", match.group(match.lastgroup or 0), match.start()) for match in _TOKEN.finditer(text)
    ]
    reader = reader_of([said for kind, said, _ in tokens if kind in ("lower", "word")])
    words: list[_Word] = []
    codes: list[str] = []
    for kind, said, begin in tokens:
        if kind == "lower":
            words.append(_Word(said, begin, begin + len(said)))
            codes.append(reader.letter(said, said))
        elif kind == "stop":
            if words:
                yield words, "".join(codes)
            words, codes = [], []
            reader.start()
        elif kind == "word":
            for part, at in _parts(said, reader.language):
                lower = plain(part)
                owner = lower[-2:] == "'s" and len(lower) > 2 and "'" in part and not is_function(lower)
                own = len(part) - 2 * owner
                words.append(_Word(part[:own], begin + at, begin + at + own))
                codes.append(reader.letter(part[:own], lower[:own]))
                if owner:
                    words.append(_Word("'", begin + at + own, begin + at + len(part)))
                    codes.append("'")
        else:
            words.append(_Word(said, begin, begin + len(said)))
            codes.append(reader.sign(kind, said))
    if words:
        yield words, "".join(codes)


_ELISION = re.compile(
    r"(?:l|d|j|qu|n|s|c|m|t|dell|nell|all|dall|sull|quell|un|lorsqu|puisqu|jusqu)['\u2019](?=\w)", re.I
)


def _parts(word: str, language: str) -> list[tuple[str, int]]:
    """Return a word with its offset, or the words that an elision joins."""
    if language in ("fr", "it") and (match := _ELISION.match(word)):
        return [(match.group(), 0), (word[match.end() :], match.end())]
    return [(word, 0)]


def _of_sentence(text: str, number: int, words: Sequence[_Word], codes: str) -> Iterator[Phrase]:
    """Yield the phrases of a sentence."""
    codes = _read_again(words, codes)

    def phrase(begin: int, end: int, proper: bool, within: bool = False) -> Phrase:
        first, last = words[begin].begin, words[end - 1].end
        return Phrase(_SPACE.sub(" ", text[first:last]), first, last, number, proper, within)

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
            for word in words[begin:end]:
                yield Phrase(without_particle(word.text), word.begin, word.end, number, False, end - begin == 2)
        elif kind == "run":
            run, at = words[begin].text, words[begin].begin
            for name, place, within in unspaced_names(run):
                yield Phrase(name, at + place, at + place + len(name), number, False, within)
        elif kind == "year" or codes[end : end + 1] not in ("D", "H"):
            # A year is never one end of a fact: too much happens in a year.
            yield phrase(begin, end, False, kind == "year")


def _named(words: Sequence[_Word], codes: str, begin: int, end: int, last: int) -> Iterator[tuple[int, int, bool]]:
    """Yield a name; before it the phrase that it begins, after it the names within it."""
    inner = False
    if end - begin <= _LONGEST_NAME:
        last = _noun_end(codes, end, last)
        inner = "N" in codes[end:last]
        if inner:
            yield begin, last, False
    end = min(end, begin + _LONGEST_NAME)
    if end - begin > 1 or says_something(words[begin].text):
        yield begin, end, inner
        # "the river Wend", "an abbey of Prum"
        kind = begin - 1 - (codes[begin - 1 : begin] == "O")
        if kind >= 0 and codes[kind] in "NA" and words[kind].text in known.KINDS:
            yield kind, end, True
        yield from ((first, last, True) for first, last in _inside(words, codes, begin, end))


def _nouns(codes: str, begin: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Yield a noun phrase without generic first words, and its last word; for "the dyer's lane" also "dyer"."""
    owner = codes.find("'", begin, end)
    if owner > 0:
        yield from _nouns(codes, begin, owner)
        first = max(begin + len(codes[begin:owner]) - len(codes[begin:owner].lstrip("GA")), owner - _LONGEST_NOUN)
        yield first, end, True
        yield from _nouns(codes, owner + 1, end)
        return
    end = _noun_end(codes, begin, end)
    while begin < end and codes[begin] in "GA":
        begin += 1
    begin = max(begin, end - _LONGEST_NOUN)
    if "N" in codes[begin:end] or (end - begin > 1 and codes[begin] == "I"):
        yield begin, end, False
        if end - begin > 1 and codes[end - 1] == "N":
            yield end - 1, end, True


def _read_again(words: Sequence[_Word], codes: str) -> str:
    """Return the letters, corrected by the words that follow."""
    # A capitalised first word of a sentence is part of a name if a name follows.
    codes = _BEGINNING.sub(lambda match: "C" if match[1] or match[2] else "N" if match[0] == "S" else "G", codes)
    if "W" in codes or "Z" in codes:
        codes = _EITHER.sub(lambda match: _settled(match, words), codes)
    # "is elastic": a single word after a form of "to be" is mostly an adjective.
    return _SAID_OF.sub("F", codes)


_BEGINNING = re.compile(r"S(?=(C|O{1,2}H?C|HE|#(?![NAGJW]))?)|Q(?=(C)?)")
_EITHER = re.compile("[WZ]")
_SAID_OF = re.compile(r"(?<=B)N(?![NWJGACO'])|(?<=BF)N(?![NWJGACO'])")


def _settled(match: re.Match[str], words: Sequence[_Word]) -> str:
    """Return the letter of a word that can be a noun or a verb, chosen by the words around it."""
    codes, place = match.string, match.start()
    before, after = codes[place - 1 : place], codes[place + 1 : place + 2]
    third = is_plural(words[place].text)
    if before == "C":
        verb = third
    elif before in tuple("NAWIU"):
        # "boats wait", "the lorry starts at", but "bus stops."
        verb = not third if is_plural(words[place - 1].text) else third and after in tuple("PDHOFG")
    else:
        # "Tie over the stitch", "press the patch"
        verb = before in ("", ".", "F", "T", "V") and after in tuple("PDH")
    return "V" if verb else noun_letter(words[place].text)


def _noun_end(codes: str, begin: int, end: int) -> int:
    """Return where a run of nouns ends, without a verb at its end: "dog bit" before "the man"."""
    introduced = codes[begin - 1 : begin] in tuple("PDHOG#")
    if codes[end : end + 1] in tuple("DH") and not (introduced and (end - begin == 1 or codes[begin - 1] in "PO")):
        end -= 1
    return end


def _inside(words: Sequence[_Word], codes: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the names within a name: without a title or a number, and on either side of a connector."""
    if words[begin].text.lower().rstrip(".") in known.TITLES and end - begin > 1 and codes[begin + 1] == "C":
        begin += 1
        yield begin, end
    inner = codes[begin:end]
    joined = re.search(r"O+H?|H(?=E)|'", inner)
    if joined:
        first, rest = begin + joined.start(), begin + joined.end()
        if first - begin > 1 or words[begin].text.lower() not in known.KINDS:
            yield begin, first
        if codes[rest] == "C" and (joined[0] != "'"):
            yield rest, end
    elif inner.endswith("#") and len(inner) > 2:
        yield begin, end - 1
