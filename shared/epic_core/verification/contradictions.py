"""Contradictions in an answer: words next to the stated decision that take it back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from epic_core.lm.answers import Piece, mappings, own_lines
from epic_core.types import Decision
from epic_core.verification.values import stated_in

# Patterns for another decision in words: as a sentence of its own, or after words such as "final answer:".
_ENDS = r"""[ \t*_"'`)\]]{0,9}(?:$|[.!;,:(–—]|[ \t]-)"""
_WORD = r"(?:%s)\b(?:\s{1,3}(?:it|this|that|(?:the|this)\s{1,3}(?:chunk|document|one)))?"
_ADVERBS = r"(?:(?:so|then|thus|hence|therefore|actually|(?:or\s)?rather|instead|final(?:ly)?|now|but)\s{1,3}){0,2}"
_FINAL_WORDS = (
    r"\b(?:decision|verdict|answer|judge?ment|conclusion|final|correction|corrected)\b[^\n.:=!?]{0,20}"
    r"(?:[:=–—]|\s-|\b(?:is|(?:should|must)\s{1,3}be)\b)"
    r"|\b(?:meant|chang(?:e|ed|ing)\b[^\n.:=!?]{0,20}\sto)\b"
    r"|\b(?:it|this|that|chunk|document)\s{1,3}(?:should|must|has\sto|ought\sto)\s{1,3}(?:\w{1,9}\s{1,3})?be\b"
)
_SPACE = r"""[\s*_"'`#>(\[]{0,9}"""
_FIRST, _EARLIER, _LATER = (
    {
        decision: re.compile(form.replace("%s", words), re.I | re.M)
        for decision, words in ((Decision.KEEP, "keep|kept"), (Decision.DISCARD, "discard(?:ed)?"))
    }
    for form in (
        rf"\A\W*({_WORD}){_ENDS}",
        rf"(?:(?:^[^\w\n]{{0,20}}|[.!?]{_SPACE}){_ADVERBS}({_WORD})[ \t*_\"'`)\]]{{0,9}}(?:$|[.!])"
        rf"|(?:{_FINAL_WORDS}){_SPACE}({_WORD}){_ENDS})",
        rf"(?:(?:^[^\w\n]{{0,20}}|[.!?:;,–—(→>]{_SPACE}|\s-{_SPACE}){_ADVERBS}|(?:{_FINAL_WORDS}){_SPACE})({_WORD}){_ENDS}",
    )
)
_CONDITION = re.compile(r"\b(?:if|unless|otherwise|whether|when)\b", re.I)
_LONGEST_SENTENCE = 200
_ANSWER_TAG = re.compile(
    r"<(?:decision|reason|rationale|(?:relevant_)?preferences?|instruction|stance|number|text|id|relevant)\b"
    r"[^<>]{0,200}>[^<]*|</?[a-z][^<>]{0,200}>",
    re.I,
)


def outside(pieces: Sequence[Piece], said: str) -> str:
    """Return the text of an answer outside of its JSON, with all else in place."""
    for piece in pieces:
        if isinstance(piece.value, Mapping) or any(map(stated_in, mappings(piece.value))):
            said = said[: piece.begin] + _gap(piece.end - piece.begin) + said[piece.end :]
    return own_lines(said)


def says_otherwise(said: str, begin: int, decision: Decision) -> bool:
    """Tell whether the words around a decision, which is stated first at `begin`, state the other one."""
    said = _ANSWER_TAG.sub(lambda tag: _gap(tag.end() - tag.start()), said)
    other = Decision.DISCARD if decision is Decision.KEEP else Decision.KEEP
    found = [
        *_FIRST[other].finditer(said, 0, begin),
        *_EARLIER[other].finditer(said, 0, begin),
        *_LATER[other].finditer(said, begin),
    ]
    return any(not _conditional(said, match.start(match.lastindex or 0)) for match in found)


def _gap(length: int) -> str:
    """Return white space in place of a part of an answer, such that the next part begins a line."""
    return " " * (length - 1) + "\n"


def _conditional(said: str, place: int) -> bool:
    """Tell whether the sentence that leads to a place is conditional."""
    sentence = re.split(r"[.!?\n]", said[max(0, place - _LONGEST_SENTENCE) : place])[-1]
    return _CONDITION.search(sentence) is not None
