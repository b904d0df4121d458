"""Wording of the embedded verifier's instructions: what a user likes or avoids, as a sentence that reads well."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from epic_memory.text.language import ENGLISH
from epic_memory.text.translations import LANGUAGES, translated
from epic_memory.types import Stance
from epic_memory.types.preferences import Aspects

# A longer list of liked or avoided phrases is not repeated in an instruction.
_LONGEST_SIDE = 120
# Words that stay with the phrase they precede: "avoids the bus", "avoids being photographed".
_KEPT_BEFORE = frozenset({"a", "an", "the", "any", "being"})
# A phrase that is a whole clause: "voting should be compulsory", but not "films that are long".
_CLAUSE = re.compile(r"\b(?:should|must|is|are|was|were|has|have|had|can|will|would|disgusts?|makes?)\b", re.I)
_RELATIVE = re.compile(r"\b(?:that|which|who|whose|where|when|if|while)\b", re.I)
_LOOSE = frozenset({"ones", "one", "there", "it", "them", "that", "those", "these", "to", "of", "with", "for", "and"})
_ADVERBS = frozenset({"only", "always", "usually", "generally", "often", "just", "mostly", "never", "rarely"})
_OF_THE_USER = re.compile(r"\b(?:i|i'm|i've|i'd|me|my|mine|myself|we|us|our|ours)\b", re.I)
# Words that are not followed by a noun, words that do not begin one, and words that are not a thing by themselves.
_BEFORE_VERBS = frozenset({
    "i", "we", "don't", "won't", "can't", "cannot", "never", "not", "rather", "would", "will", "don\u2019t", "my",
    "our", "won\u2019t", "can\u2019t", "am", "i'm", "please", "i\u2019m", "always",
})  # fmt: skip
_TO_NOUNS = frozenset({
    "allergic", "addicted", "opposed", "averse", "intolerant", "sensitive", "object", "aversion", "allergy", "listen",
    "intolerance", "comes", "opposition", "listening", "due", "used", "objection", "objections", "close", "next",
})  # fmt: skip
_NO_NOUN = frozenset({
    "anywhere", "that", "which", "who", "to", "if", "when", "because", "not", "no", "don't", "without", "than", "be",
    "how", "what", "there", "why", "being", "is", "are", "it", "stay", "go", "eat", "drink", "use", "buy", "get",
    "take", "have", "do", "make", "wear", "watch", "read", "pay", "live", "sit", "sleep", "share", "see", "find",
    "keep", "give", "let", "spend", "stand", "and", "or", "but", "with", "from", "in", "on", "at", "for", "by", "as",
    "of", "so", "too", "very", "them", "this", "near", "around", "about", "like", "over", "under", "after", "before",
})  # fmt: skip
_NOT_ALONE = frozenset({
    "vegan", "vegetarian", "pescatarian", "kosher", "halal", "gluten-free", "dairy-free", "sugar-free", "organic",
    "outdoors", "outside", "early", "late", "alone", "local", "cheap", "quiet", "plant-based", "lactose-intolerant",
    "diabetic", "celiac", "coeliac", "remote", "remotely", "new", "old", "it", "them", "that", "this", "things",
})  # fmt: skip
# Instructions by stance: with the user's own words, and with what the user likes or avoids; then with the sentence.
_QUOTING = {
    Stance.SUPPORTS: 'Suits what {} Here: "{}"',
    Stance.CONFLICTS: 'Steer clear: {} Here: "{}"',
    Stance.MIXED: 'Some of this suits and some does not: {} Here: "{}"',
    Stance.NEUTRAL: 'Check before recommending: {} Here: "{}"',
}
_TELLING = {
    Stance.SUPPORTS: 'Suits the user, who {}: "{}"',
    Stance.CONFLICTS: 'Steer clear: the user {}. "{}"',
    Stance.MIXED: 'Some of this suits and some does not: the user {}. "{}"',
    Stance.NEUTRAL: 'The user {}: check before recommending. "{}"',
}
_SAID = 'the user said: "{}"'
_STEER_CLEAR = "Steer clear"
_QUOTED_WORDS = 30
_QUOTED_CHARACTERS = 240


def worded_instruction(
    aspects: Aspects, stance: Stance, sentence: str, preference: str = "", language: str = ENGLISH
) -> str:
    """Return what to do with a text under a preference, with the sentence to look at.

    The preference is given in the user's words, which are quoted if the aspects do not read well, or if the language,
    one of `LANGUAGES`, is not English.
    """
    quote = _cut(sentence)
    if language != ENGLISH:
        return translated(_QUOTING[stance].format(_SAID, "{}"), language).format(_cut(preference), quote)
    # If there are liked and avoided phrases, it is unknown which of them the scope belongs to.
    scope = "" if aspects.liked and aspects.avoided else aspects.scope
    avoided = _phrased("avoids", aspects.avoided, scope, preference)
    liked = _phrased("wants", aspects.liked, scope, preference)
    if None in (avoided, liked) or not (avoided or liked):
        words = _SAID.format(_cut(preference)) if preference else "the user has said something about it."
        return _QUOTING[stance].format(words, quote)
    both = " and ".join(part for part in (avoided, liked) if part)
    wish = {Stance.SUPPORTS: liked or avoided, Stance.CONFLICTS: avoided or liked}.get(stance, both)
    return _TELLING[stance].format(wish, quote)


def is_worded(instruction: str) -> bool:
    """Tell whether `worded_instruction` may have written an instruction: it only quotes the preference and the text."""
    return any(_worded(language).fullmatch(instruction) for language in LANGUAGES)


def is_warning(instruction: str) -> bool:
    """Tell whether an instruction begins with a warning, in any of `LANGUAGES`."""
    return instruction.lower().startswith(_warnings())


@lru_cache(maxsize=1)
def _warnings() -> tuple[str, ...]:
    return tuple(translated(_STEER_CLEAR, language).lower() for language in LANGUAGES)


@lru_cache
def _worded(language: str) -> re.Pattern[str]:
    """Return a pattern for all instructions in a language."""
    templates = [*_QUOTING.values(), *_TELLING.values()]
    if language != ENGLISH:
        templates = [translated(one.format(_SAID, "{}"), language) for one in _QUOTING.values()]
    return re.compile("|".join(".+".join(map(re.escape, one.split("{}"))) for one in templates), re.S)


def _phrased(verb: str, phrases: Sequence[str], scope: str, preference: str) -> str | None:
    """Return phrases as words after "the user": "avoids a job with night shifts"; None if they would read badly."""
    if not phrases:
        return ""
    nouns = [_article(phrase, preference) for phrase in phrases]
    if any(one is None for one in nouns) or (len(nouns) > 1 and any("," in phrase for phrase in phrases)):
        return None
    *before, last = [one for one in nouns if one]
    joint = " or " if verb == "avoids" else " and "
    listed = f"{', '.join(before)}{joint}{last}" if before else last
    if verb == "wants" and re.match(r"[a-z]{3,}ing\b", listed):
        verb = "likes"
    if scope[:1].islower() and scope not in listed:
        listed = f"{listed} {scope}"
    if _OF_THE_USER.search(listed) or len(listed) > _LONGEST_SIDE:
        return None
    return f"{verb} {listed}"


def _article(phrase: str, preference: str) -> str | None:
    """Return a phrase with the article or "being" that it has in the preference, or None if it is not a noun there."""
    phrase = phrase.strip().strip(".!")
    first = phrase.split()[0].lower() if phrase else ""
    last = phrase.lower().split()[-1] if first else ""
    if not first or first in _NO_NOUN or phrase.lower() in _NOT_ALONE or last in _LOOSE or last.endswith("'s"):
        return None
    if _CLAUSE.search(_RELATIVE.split(phrase, maxsplit=1)[0]):
        return None
    # A capital at the beginning may belong to a name or to the start of the sentence.
    if phrase[:1].isupper() and preference.startswith(phrase) and not phrase[1:2].isupper():
        return None
    place = preference.lower().find(phrase.lower())
    before = re.findall(r"[^\W_]+(?:['\u2019][a-z]+)?", preference[:place].lower())[-2:] if place > 0 else []
    if before and before[-1] in _KEPT_BEFORE:
        return f"{before[-1]} {phrase}"
    if before and (before[-1] in _BEFORE_VERBS or (before[0] in ("i", "we") and before[-1] in _ADVERBS)):
        return None
    if before and before[-1] == "to" and (len(before) < 2 or before[0] not in _TO_NOUNS):
        return None
    return phrase


def _cut(sentence: str) -> str:
    words = sentence.split()
    cut = " ".join(words[:_QUOTED_WORDS])[:_QUOTED_CHARACTERS]
    return cut if cut == " ".join(words) else cut + " ..."
