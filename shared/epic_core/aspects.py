"""What a preference likes and what it avoids, read from its words without a language model.

"I avoid hotels with casinos" avoids *hotels with casinos*; "I prefer trains over flights" likes
*trains* and avoids *flights*. The paper adds the whole preference to a query; knowing the two sides lets
steering go towards one and away from the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from epic_core.encoders.base import Encoder, aembed, embed
from epic_core.types import FloatArray


@dataclass(frozen=True, kw_only=True)
class Aspects:
    """The sides of a preference, each a tuple of short phrases; both can be empty, not both at once.

    Attributes:
        liked: What the user wants.
        avoided: What the user does not want.
    """

    liked: tuple[str, ...]
    avoided: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AspectVectors:
    """A preference's aspects with the embeddings of their phrases.

    Attributes:
        aspects: The phrases.
        liked, avoided: Unit vectors, shapes `(len(aspects.liked), d)` and `(len(aspects.avoided), d)`.
    """

    aspects: Aspects
    liked: FloatArray
    avoided: FloatArray


def embed_aspects(encoder: Encoder, preferences: Sequence[str]) -> list[AspectVectors]:
    """The aspects of each preference, all their phrases encoded in one call."""
    parsed = [parse_aspects(preference) for preference in preferences]
    return _with_vectors(parsed, embed(encoder, _phrases(parsed)))


async def aembed_aspects(encoder: Encoder, preferences: Sequence[str]) -> list[AspectVectors]:
    """As `embed_aspects`, without blocking the event loop."""
    parsed = [parse_aspects(preference) for preference in preferences]
    return _with_vectors(parsed, await aembed(encoder, _phrases(parsed)))


def _phrases(parsed: Sequence[Aspects]) -> list[str]:
    return [phrase for aspects in parsed for phrase in (*aspects.liked, *aspects.avoided)]


def _with_vectors(parsed: Sequence[Aspects], vectors: FloatArray) -> list[AspectVectors]:
    found, start = [], 0
    for aspects in parsed:
        middle = start + len(aspects.liked)
        end = middle + len(aspects.avoided)
        found.append(AspectVectors(aspects=aspects, liked=vectors[start:middle], avoided=vectors[middle:end]))
        start = end
    return found


# Reasons say why, not what: "because I find them noisy" holds words of the other side.
_REASON = re.compile(
    r"(?:,|;|\s)\s*(?:because|since|due to|as (?:i|they|it)\b|so that|for (?:environmental|ethical|health|religious)"
    r"|owing to|thanks to|out of)\b.*$",
    re.I,
)
_LEADING_REASON = re.compile(r"^(?:due to|because of|since|as an?|for|owing to|given)\b[^,]*,\s*", re.I)
_CLAUSE = re.compile(
    r"(?:[.;!?](?:\s+|$))|\s+[-–—]+\s+|,\s*(?:but|so|and|yet)\s+|\s+(?:but|yet)\s+|,\s+(?=i\b|even|regardless)", re.I
)
_CONTRAST = re.compile(
    r"^(?P<liked>.+?)(?:,?\s+(?:rather than|instead of|over|above|as opposed to|(?:and|but) not|in preference to)|,\s*not)\s+(?P<avoided>.+)$",
    re.I,
)
_CONTRAST_VERB = re.compile(
    r"\b(?:prefer\w*|favou?r\w*|choos\w*|choose|chose|opt\w*|like|love|enjoy|want|value|prioriti[sz]e\w*|rather|sooner|go for|pick"
    r"|focus\w*|lean\w*|explanations?|approach\w*|believe|trust)\b",
    re.I,
)
_NEGATED_CONTRAST = re.compile(r"^(?:rather than|instead of)\s+(?P<avoided>[^,]+),\s*(?P<liked>.+)$", re.I)
_RATHER_THAN = re.compile(
    r"\b(?:rather|sooner)\s+(?P<liked>.+?)\s+than\s+(?P<avoided>.+)$|\b(?:like|love|enjoy|value)s?\s+(?P<more>.+?)\s+(?:more|better)\s+than\s+(?P<less>.+)$",
    re.I,
)
# "trains to planes", "reading to watching television"; not "travelling to new places".
_PREFER_TO = re.compile(
    r"\bprefer\w*\s+(?!to\b|not\b)(?P<liked>(?:\S+\s+){1,3}?)to\s+(?!be\b|have\b|do\b)(?P<avoided>(?:\S+\s*){1,4})$",
    re.I,
)
_NEARNESS = re.compile(
    r"\b(?:close|closer|next|access|due|similar|related|adapted|tailored|trips?|visits?|routes?|guides?|answers?)\s*$",
    re.I,
)
_NO = re.compile(r"^(?:please,?\s+)?(?:no|nothing (?:with|containing|involving))\s+(?P<avoided>.+)$", re.I)
_AND = re.compile(r"\band\s+(?P<more>.+)$", re.I)
_CONDITION = re.compile(
    r"\b(?P<avoided>[\w-]+(?: or [\w-]+)?)[- ](?:intoleran\w+|allerg\w+|avers\w+|phobi\w+)\b(?!\s+(?:to|of))", re.I
)
_FIND = re.compile(
    r"\bfind\s+(?P<avoided>.+?)\s+(?:to be\s+)?(?:(?:very|quite|so|really|extremely|rather|incredibly)\s+)*(?:too\b|(?:un|in|dis|over)\w+(?:ing|able|ant|ive|ed|ful)?\b"
    r"|boring|annoying|tedious|stressful|tiresome|depressing|dull|awful|terrible|frustrating|exhausting|gimmicky|confusing|cheap|scary|childish)",
    re.I,
)

_SUBJECT = r"(?:i(?:'m|'ve|'d|'ll| am| have| had| would| will| do)?|my \w+|we|me)"
_ADVERB = (
    r"(?:really|strongly|strictly|absolutely|generally|usually|always|never|only|exclusively|simply|just|also|particularly"
    r"|especially|truly|actively|tend to|try to|much|firmly|greatly|highly|deeply|typically|steadfastly|simply|completely"
    r"|totally|very|quite|rather|a|an|the)"
)
# Longest alternatives first: "don't like" must win over "like".
_AVOID = re.compile(
    r"\b(?:"
    r"(?:do(?:es)? not|don['’]?t|doesn['’]?t|did not|didn['’]?t|can(?:not| not|['’]?t)|could not|couldn['’]?t|will not|won['’]?t"
    r"|would not|wouldn['’]?t|never|no longer|not) (?:really |even |ever |particularly |typically |want to |like to |care to )*"
    r"(?:like|love|enjoy|want|use|eat|drink|consume|consider|buy|purchase|wear|watch|read|listen to|support|stay|fly|drive|ride"
    r"|attend|visit|trust|tolerate|stand|bear|appreciate|care for|believe in|take|participate in|engage in|play|choose|own"
    r"|a fan of|fond of|keen on|interested in|comfortable with|into|going to|go to|have|accept|work|shop|travel|prefer|need|do|set foot in)"
    r"|(?:prefer|choose|try|like|refuse|decline|opt|tend)\w* not to (?:\w+)"
    r"|prefer\w* to (?:avoid|skip|stay away from|steer clear of)"
    r"|have (?:an? )?(?:\w+ )?(?:no (?:interest|desire|use|patience|time) (?:in|for|to)|aversion (?:to|of|towards?)|dislike (?:of|for|towards?)"
    r"|hatred (?:of|for)|fear of|phobia of|distrust (?:of|for)|allergy to|intolerance (?:to|of|for))"
    r"|no (?:interest|patience|time|use|desire) (?:in|for|to)"
    r"|(?:dis)?inclination against"
    r"|(?:aversion|averse|opposed|opposition|allergic|intolerant|sensitive|sensitivity|resistant|hostile) (?:to|of|towards?)"
    r"|(?:afraid|scared|terrified|wary|sceptical|skeptical|suspicious|tired|sick|phobia|fear|weary) of"
    r"|(?:steer|stay|keep|shy|stays|keeps|steers) (?:clear|away)(?: of| from)?|stay off"
    r"|avoid\w*|dislik\w*|hat(?:e|es|ed|ing)\b|loath\w*|detest\w*|despis\w*|abhor\w*|refus\w*(?: to)?|reject\w*|refrain\w* from"
    r"|abstain\w* from|boycott\w*|distrust\w*|mistrust\w*|resent\w*|skip|against|free (?:of|from)|without|anti-"
    r")\s+",
    re.I,
)
_LIKE = re.compile(
    r"\b(?:(?:strongly |much |really |strictly |exclusively |only )*"
    r"(?:prefer\w*(?: to| for)?|lov(?:e|es|ing)(?: to)?|like(?: to)?|enjoy\w*|favou?r\w*|appreciate\w*|adore\w*|value\w*|seek\w*(?: out)?"
    r"|want\w*(?: to)?|follow\w*|passionate about|fond of|keen on|a (?:big |huge )?fan of|interested in|advocate for|committed to|drawn to"
    r"|prioriti[sz]e\w*|insist on|opt for|stick to|support\w*|(?:would )?rather(?: \w+)?|believe in|look(?:ing)? for|need\w*))\s+",
    re.I,
)
_ONLY = re.compile(r"\b(?:only|exclusively|solely|strictly|always)\s+(?:\w+(?:s|ing|e)?\s+)??", re.I)
_EXCEPT = re.compile(r"\b(?:except(?: for)?|unless|other than|apart from|aside from)\s+", re.I)
_LEADING = re.compile(
    rf"^(?:it when\s+|it's\s+|it is\s+|they are\s+|{_SUBJECT}\s+|{_ADVERB}\s+|to\s+|for\s+|any\s+|all\s+|being\s+|that\s+)+",
    re.I,
)
_TRAILING = re.compile(
    r"\s+(?:(?:when(?:ever)?|while|if|wherever|as much as|at all|entirely|altogether|whenever|when possible|in general"
    r"|(?:a lot|in particular)|and prefer to|and try to|and tend to|and like to)\b.*)$",
    re.I,
)
_LONGEST = 1000
_PRONOUNS = frozenset(
    {"it", "them", "that", "this", "those", "these", "so", "him", "her", "us", "anything", "something"}
)
_DANGLING = re.compile(r"[\s,]+(?:and|or|but|so|then|i|we|will|would|do|am|also|strictly|generally|usually)$", re.I)
_BUT_NOT = re.compile(r"^\W*not\s+", re.I)
_STATEMENT = re.compile(
    r"\b(?:i|we|they|it|this|that|which|is|are|was|were|regardless|even|so|as|because|since)\b|n't", re.I
)


@lru_cache(maxsize=4096)
def parse_aspects(preference: str) -> Aspects:
    """The liked and the avoided side of a preference.

    A text in which no pattern is found counts as liked as a whole, which is what the paper's steering assumes.
    """
    liked: list[str] = []
    avoided: list[str] = []
    text = re.sub(r"(?i)\bit (?:when|if)\b", "", " ".join(preference[:_LONGEST].split()))
    text = _LEADING_REASON.sub("", _REASON.sub("", text) or text) or text
    turned = _NEGATED_CONTRAST.match(text)
    if turned:
        _append(avoided, turned["avoided"])
        text = turned["liked"]
    last: list[str] | None = None
    for clause in _CLAUSE.split(text):
        if not clause or not clause.strip(" ,.;!?"):
            continue
        before = len(liked), len(avoided)
        if last is liked and (but := _BUT_NOT.match(clause)):
            _append(avoided, clause[but.end() :])
            continue
        _parse_clause(clause.strip(" ,.;!?"), liked, avoided)
        if len(avoided) > before[1]:
            last = avoided
        elif len(liked) > before[0]:
            last = liked
        elif last is not None and not _STATEMENT.search(clause):
            # "I avoid hotels, and also casinos": a list goes on.
            _append(last, clause)
    liked = [phrase for phrase in dict.fromkeys(liked) if phrase not in avoided]
    avoided = list(dict.fromkeys(avoided))
    if not liked and not avoided:
        liked = [_tidy(text) or preference.strip()]
    return Aspects(liked=tuple(liked), avoided=tuple(avoided))


def _parse_clause(clause: str, liked: list[str], avoided: list[str]) -> None:
    for pattern in (_FIND, _NO, _CONDITION):
        if (found := pattern.search(clause)) and not (pattern is _CONDITION and _AVOID.search(found["avoided"] + " ")):
            _append(avoided, found["avoided"])
            if more := _AND.search(clause[found.end() :]):
                _parse_clause(more["more"], liked, avoided)
            return
    if pair := _pair(clause):
        _append(liked, pair[0])
        _append(avoided, pair[1])
        return
    avoid = _AVOID.search(clause)
    like = _LIKE.search(clause[: avoid.start()] if avoid else clause)
    if avoid:
        before, rest = clause[: avoid.start()], clause[avoid.end() :]
        if like:
            _append(liked, before[like.end() :])
        exception = _EXCEPT.search(rest)
        if exception:
            _append(liked, rest[exception.end() :])
            rest = rest[: exception.start()]
        # "avoid X and prefer Y": the second half is another statement.
        positive = _LIKE.search(rest)
        if positive and re.search(r"(?:\band|,)\s*(?:\w+ly )?$", rest[: positive.start()], re.I):
            _append(liked, rest[positive.end() :])
            rest = re.sub(r"(?i)(?:\band|,)\s*(?:\w+ly )?$", "", rest[: positive.start()])
        _append(avoided, rest)
    elif like:
        _append(liked, clause[like.end() :])
    elif only := _ONLY.search(clause):
        _append(liked, clause[only.end() :])


def _pair(clause: str) -> tuple[str, str] | None:
    """The two sides of a clause that sets one thing above another."""
    contrast = _CONTRAST.match(clause)
    if contrast and _CONTRAST_VERB.search(contrast["liked"]) and not _AVOID.search(contrast["liked"]):
        like = _last(_LIKE, contrast["liked"])
        return contrast["liked"][like.end() :] if like else contrast["liked"], contrast["avoided"]
    rather = _RATHER_THAN.search(clause)
    if rather and not _AVOID.search(clause[: rather.start()] + " "):
        return rather["liked"] or rather["more"], rather["avoided"] or rather["less"]
    prefer = _PREFER_TO.search(clause)
    if prefer is None or _NEARNESS.search(prefer["liked"]):
        return None
    # Both sides are activities, or neither is: "travelling to new places" is one thing.
    same = _is_activity(prefer["liked"]) == _is_activity(prefer["avoided"])
    return (prefer["liked"], prefer["avoided"]) if same else None


def _is_activity(phrase: str) -> bool:
    return phrase.split(maxsplit=1)[0].lower().endswith("ing")


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = list(pattern.finditer(text))
    return found[-1] if found else None


def _tidy(phrase: str) -> str:
    phrase = _TRAILING.sub("", phrase.strip(" ,.;:!?'\""))
    while _DANGLING.search(phrase):
        phrase = _DANGLING.sub("", phrase)
    return _LEADING.sub("", phrase).strip(" ,.;:!?'\"")


def _append(side: list[str], phrase: str) -> None:
    phrase = _tidy(phrase)
    if phrase and phrase.lower() not in _PRONOUNS:
        side.append(phrase)
