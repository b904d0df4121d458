"""Phrases that a piece of a preference names, without the words around them and with lists taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterator

from epic_core.preferences.grammar.cues import ADVERB, LIGHT, any_of, pattern, verbs, words
from epic_core.text.stems import word_set

PUNCTUATION = " ,.;:!?'\"“”‘’"
# Words before a phrase that are not part of it.
_LEADING = re.compile(
    any_of(
        r"(?:an?|the|any|all|some|every|each|these|those|such|other|another|my|our|more|most|as much|as many|its|"
        r"their|his|her)",
        "(?:kinds?|types?|sorts?|forms?|a lot|lots|the use|use|the idea|the likes) of|(?:references?|mentions?|"
        "reliance) (?:to|of|on)|referencing|idea (?:of|that)|fact that|sense of|to|for|that|which|who|about|of|in|"
        "at|on|by|from|with",
        "is|are|much of an?|it when|when|where|through|(?:things?|stuff) (?:like|such as)|if|towards?|against|as|"
        "into|"
        "being(?= \\w+(?:ed|en)\\b)|around|out",
        "(?:anything|something|everything|nothing|those|ones|things)(?: (?:that|which|else))?(?:'s| is| are| has|"
        " have| contains?| involves?| features?| includes?)(?: with)?",
        "(?:anything|something|things|everything|those|ones) (?:with|containing|involving|made (?:of|with|from)|"
        "related to|to do with|like|featuring|about(?= \\w+$))",
        "(?:it|they|there|this|these)(?:'s|'re| is| are| has| have| comes? with| contains?)(?: an?| no)?|"
        "made (?:with|from|of)|comes? (?:with|from)",
        "(?:(?:stay|eat|go|live|be|sleep|shop) )?(?:anywhere|somewhere|any ?place|a place|places?) "
        "(?:with|(?:that|which)(?:'s| is| are| has| have| serves?| plays?| allows?| sells?))(?: got)?",
        "[\\w-]+(?: [\\w-]+)? (?:containing|that contains?|which contains?)",
        "(?:i|we|me|you|us|should be|should|i'm|im|rn|and|or|but|nor|please|idea of|where possible|possible|"
        "allowing|allow|allows|requiring|offering|offer|offers|accommodate|cause|involve|contain|include|feature|"
        "require|depict|involving)",
        ADVERB,
        LIGHT,
    )
    + r"(?:\s+|$)",
    re.I,
)
_PARTICLE = re.compile(r"(?:out|in|alone|together|abroad|outside|early|late|ahead|around|at home)", re.I)
_HEAD = words(
    "explanations explanation answers answer insights discussions arguments content information policies"
    " solutions approaches perspectives products product items foods food dishes meals shows movies films books"
    " activities environments topics resources methods materials practices responses narratives strategies places"
    " stories ingredients"
)
_CONTAINS = any_of(
    verbs(
        "contain, include, involve, feature, depict, portray, offer, provide, begin with, require, incorporate, address"
    ),
    "rel(?:y|ies) (?:\\w+ly )?on|relying (?:\\w+ly )?on|made (?:with|from|of)|(?:is|are) about|(?:with|"
    "in) the form of|come with|have|has|start with|in the form of",
)
# In "shows or movies that feature laugh tracks" the phrase is "laugh tracks".
_HEADED = re.compile(rf"(?:[\w-]+ )?{_HEAD}(?:,? (?:and|or) (?:\w+ )?{_HEAD})? (?:(?:that|which) )?{_CONTAINS}\s", re.I)
HEAD_ALONE = re.compile(rf"(?:{ADVERB} |any |an? |the |all )*(?:{_HEAD}|those|ones)", re.I)
# Words after a phrase that are not part of it.
_TRAILING_WORDS = word_set(
    "what person drinker eater please thanks exclusively and or but so then i we i'm we're i've i'd i'll will"
    " would do does am is are was were have has had a an the to that which who where also strictly generally"
    " usually always never really only strongly much just simply absolutely with my for it not even because as of"
    " in by almost both therefore especially particularly tend must on more any from than if rather greatly"
    " instead anymore either themselves myself completely very entirely altogether whatsoever about at when while"
    " though too yet better exactly over often get try them me be been being he she they their our this actively"
    " now solely im ever fully consider find no specifically thus preferably yuck ugh yum ew eww bleh meh sorry"
    " honestly cheers"
)
_TRAILING_PHRASE = re.compile(
    r" (?:"
    r"wherever possible|is something|are something|are things|at all|at all costs|in general|"
    r"in particular|when possible|where possible|if possible|whenever possible|a lot|any more|"
    r"any longer|too much|of any kind|of any sort|in any form|very much|for me|to me|for a lifetime|"
    r"in anything|as possible|on principle|above all else|more than anything|all the time|in it|"
    r"on its own|in them|of them|again|max|any day|easily|quickly"
    r")$"
)
# Phrases that name nothing.
_EMPTY = word_set(
    "it them that this those these so him her us me anything something everything nothing i we they things thing"
    " stuff do go be have no not ones one myself kind explanations explanation products discussions content all"
    " you my answers people others consume buy wear watch eat want like use most first last always way ways idea"
    " fact solutions approaches policies insights information perspectives options methods resources ever food"
    " foods am is are keep it's that's and or but too using eating in on option alternative choice again"
) | {""}
_LIST = re.compile(r"\s*,\s*(?:(?:and|or|nor)\s+)?(?:also\s+)?|\s+(?:and|or|nor|&|and/or)\s+|\s*/\s*", re.I)
_EXAMPLES = re.compile(
    r"(?:,\s*|\s+)(?:such as|like(?! (?:mine|me|this|that|us|ours|it)\b)|including|e\.g\.|especially|particularly|"
    r"for example|for instance|even|not even)\s+",
    re.I,
)
# A list after one of these belongs to it: "hotels with casinos or nightclubs" is one thing.
_COMPLEMENT = pattern(
    "with|that|which|who|whose|where|from|about|for|containing|involving|without|into|between|through|by|as|based|"
    "than|of|in|at|to"
)
# A list before one of these belongs to it as well: "shows or movies that are long".
_SHARED = re.compile(r"^[\w-]+(?: [\w-]+)? (?:that|which|who|where|made|derived|of|as)\s", re.I)
# A lone adjective in a list belongs to the noun at its end: "cultural and artistic exchanges".
_ADJECTIVE = re.compile(
    r"(?!(?:metal|animal|plastic|garlic|music|cereal|fabric|alcohol|mineral|opera|pork|beef|turmeric|topic|"
    r"hospital|relative)s?$)[\w-]+"
    r"(?:al|ic|ive|ous|ful|less|ary|ory|(?<!m)ent|able|ible|(?<!e)ed|ant|ish|ile|iate|imate|urate|stract|free|based|made|term|scale|ual|ern|"
    r"-\w+ing|ense|some|ex)$"
    r"|(?:more|less|niche|underground|mainstream|(?:small|larg|cheap|quiet|bigg|fast|slow|old|new|simpl|long|"
    r"short|bright|warm|cool)er|loud|fast|cheap|small|big|modern|dark|bright|cold|hot|dry|busy|noisy|raw|fresh|"
    r"slow|old|new|quiet|"
    r"crowded|open|clear|simple|public|wild|heavy|deep"
    r"|hard|soft|rich|plain|short|long|human|indoor|outdoor|warm|secular|scary|scratchy|large|rigid|urban|rural|"
    r"strict|starchy|free|fair|early|overly|private|mental|empty|tight|itchy|sticky|spicy|sweet|unfair|dirty)$",
    re.I,
)
_NEW_THING = re.compile(r"(?:any|anything|an?|my|the) ", re.I)
_GERUND = re.compile(r"\s*\w{2,}ing\b", re.I)
_CONJUNCTION = re.compile(r"\b(?:and|or|nor)\b|[&/]", re.I)
_COMMA = re.compile(r",\s*")
_OTHER_THOUGHT = pattern(
    "i|we|they|it|this|that|which|so|but|as|my|you|not|too|the kind|who|without|making|preferably|mainly|please|"
    "thanks|if|no|for"
)
# "clear them up", "will plan a trip" name nothing new after something was named.
_OF_ANOTHER = re.compile(
    r"\s*(?:(?:[\w-]+ ){0,3}(?:it|them)(?:\s*$|\s(?:in|on|at|up|for|to|from|when|anymore)\b)"
    r"|(?:will|would|can|could|am|have to|do)\s)",
    re.I,
)
_ANAPHORIC = re.compile(r"\s(?:it|them)[\s.,]*$", re.I)


def phrases_of(plain: str, start: int, end: int, *, known: bool) -> Iterator[tuple[int, int]]:
    """Yield where the phrases of a piece of text begin and end; known: whether something was named before."""
    if known and _ANAPHORIC.search(plain, max(start, end - 12), end):
        return
    for part in _parts(plain, *trimmed(plain, start, end)):
        begin, stop = trimmed(plain, *part)
        if known and _OF_ANOTHER.match(plain, *part):
            continue
        if plain[begin:stop].strip(PUNCTUATION).casefold() not in _EMPTY:
            known = True
            yield begin, stop


def trimmed(plain: str, start: int, end: int) -> tuple[int, int]:
    """Return the bounds of a piece of text without the words around the phrase in it."""
    before = None
    while (start, end) != before:
        before = (start, end)
        while start < end and plain[start] in PUNCTUATION:
            start += 1
        while start < end and plain[end - 1] in PUNCTUATION:
            end -= 1
        if leading := _LEADING.match(plain, start, end):
            # "reading" alone is the phrase itself.
            if leading.end() >= end and " " not in plain[start:end]:
                break
            # "eating out" names more than "out".
            if _PARTICLE.fullmatch(plain, leading.end(), end):
                break
            start = leading.end()
        end = _without_tail(plain, start, end)
    return start, end


def _without_tail(plain: str, start: int, end: int) -> int:
    tail = plain[max(start, end - 30) : end].casefold()
    if phrase := _TRAILING_PHRASE.search(tail):
        return end - len(phrase[0])
    last = tail.rfind(" ")
    return end - (len(tail) - last) if last > 0 and tail[last + 1 :] in _TRAILING_WORDS else end


def _parts(plain: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the items of lists, with examples separated from the rest."""
    for begin, stop in _split(_EXAMPLES, plain, start, end):
        headed = _HEADED.match(plain, begin, stop)
        first = headed.end() if headed else begin
        items = list(_split(_LIST, plain, first, stop))
        if _is_list([plain[slice(*item)] for item in items], plain[items[0][1] : items[-1][0]]):
            yield from items
        else:
            yield first, _first_clause(plain, first, stop)


def _is_list(items: list[str], between: str) -> bool:
    lengths = [len(item.split()) for item in items]
    if len(items) < 2 or 0 in lengths or max(lengths[:-1]) > 5 or lengths[-1] > 12:
        return False
    if len(items) == 2 and not _CONJUNCTION.search(between):
        return False
    new = bool(_NEW_THING.match(items[-1]))
    of_one = any(map(_COMPLEMENT.search, items[:-1])) and not all(map(_GERUND.match, items))
    for_all = len(items) == 2 and lengths[0] <= 2 and bool(_SHARED.search(items[1]))
    adjectives = lengths[-1] > 1 and any(all(map(_ADJECTIVE.match, item.split())) for item in items[:-1])
    return not adjectives and (new or not (of_one or for_all))


def _first_clause(plain: str, start: int, end: int) -> int:
    """Return the position of the first comma that begins another thought, or the end."""
    for comma in _COMMA.finditer(plain, start, end):
        if _OTHER_THOUGHT.match(plain, comma.end(), end):
            return comma.start()
    return end


def _split(separator: re.Pattern[str], plain: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for found in separator.finditer(plain, start, end):
        yield start, found.start()
        start = found.end()
    yield start, end
