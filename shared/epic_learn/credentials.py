"""Credentials: passwords, PINs, keys, numbers of cards and accounts in a text, which no memory should keep.

The code of a bike shed is none: people want to be reminded of it.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from itertools import pairwise

from epic_learn.conversations import Conversation

# What follows these, and a "is" or a mark, is secret. "My password is wrong" goes too, and is no loss.
_LABELLED = re.compile(
    r"(?<![a-z])(?:pass ?(?:word|code|phrase|wort)s?|kennwort|contrase\u00f1a|mot de passe|pins?(?: (?:code|number))?|"
    r"pw|pwd|cvv|cvc|(?:api|access|secret|private|license|recovery|account) ?[_-]?(?:key|token|secret|code)s?|"
    r"(?:auth|bearer|session|refresh) ?[_-]?tokens?|token|client[_-]secret|"
    r"(?:security|verification|one[- ]time|backup|2fa) codes?|(?:seed|recovery|secret) (?:phrase|words)|"
    r"social security number|ssn)\b"
    r"(?: (?:of|for|to|at|on|from) [\w' .-]{1,40}?| \([\w ]{1,20}\))?(?: now)?"
    r"(?: ?(?:[:=]|=>|->)|(?:'s| is| was| are| est| lautet)(?: now| still)?:?) ?(?!(?:a|an|the|not|in|on|too|very|so|"
    r"my|your|what|where|how|who|broken|stuck|gone|missing|up|out|for|that)\b)[\"'`]?\S",
    re.I,
)
_CHANGED = re.compile(r"\b(?:pass(?:word|code|phrase)|pin)(?: [\w ]{1,20})? to (?=\S*\d)\S{3,}", re.I)
_USED = re.compile(r"\b(?:use|with) (?:the )?pass(?:word|code|phrase) (?:\"[^\"]+\"|\S*\d|\S+ \S+ \S+ \S+)", re.I)
# "hunter2 is my password", "remember my password hunter2".
_BESIDE = re.compile(
    r"(?<!\S)(?=\S{0,60}\d)\S{4,60} (?:is|as) (?:(?:my|the|our) (?:[\w-]+ )?)?pass(?:word|code|phrase)\b|"
    r"\bpass(?:word|code|phrase)(?: [-\u2013])? (?=\S{0,60}[a-z])(?=\S{0,60}\d)\S{4}|\bpin \d{4,8}\b|"
    r"\bssn \d{3}-?\d\d-?\d{4}\b",
    re.I,
)
# What is secret by its shape.
_SHAPES = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY|\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{1,80}:[^\s@/]{1,80}@|\beyJ[\w-]{10,}\.[\w-]{10,}|"
    r"\b(?:sk|pk|rk)[-_][\w-]{16,}|\bgh[pousr]_\w{20,}|\bxox[abprs]-[\w-]{10,}|\bAKIA[A-Z0-9]{12,}|\bAIza[\w-]{30,}"
)
_TOKEN = re.compile(r"(?<![\w/.-])[\w+/=-]{24,200}(?![\w/.])")
_CARD = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d\d(?: ?[A-Z0-9]){11,30}(?![A-Za-z0-9])")
_BLOCK = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)", re.S)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<!\s)\s*\n\s*")
# What a text is hidden by, and what is looked through at once: pieces that overlap.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_PIECE, _OVERLAP = 2000, 300


CREDENTIALS = "sentences with a password, key or secret code"
"""Reason under which such sentences are counted."""


def holds_credential(sentence: str) -> bool:
    """Tell whether a sentence says a password, a key, a secret code or the number of a card or a bank account."""
    plain = unicodedata.normalize("NFKC", _INVISIBLE.sub("", sentence)).replace("\u2019", "'")
    plain = " ".join(plain.split())
    starts = range(0, max(1, len(plain) - _OVERLAP), _PIECE - _OVERLAP)
    return any(_says_credential(plain[start : start + _PIECE]) for start in starts)


def _says_credential(sentence: str) -> bool:
    if any(pattern.search(sentence) for pattern in (_LABELLED, _CHANGED, _USED, _BESIDE, _SHAPES)):
        return True
    if any(_is_random(token) for token in _TOKEN.findall(sentence)):
        return True
    if any(_is_iban(number.replace(" ", "")) for number in _IBAN.findall(sentence)):
        return True
    return any(_is_card([int(each) for each in number if each.isdigit()]) for number in _CARD.findall(sentence))


def without_credentials(conversation: Conversation) -> Conversation:
    """Return a conversation without the sentences that say a credential; they are counted as unusable."""
    made = Conversation(unusable=conversation.unusable.copy())
    for turn in conversation.turns:
        text, count = redacted(turn.text)
        if count:
            made.unusable[CREDENTIALS] += count
        if text:
            made.turns.append(replace(turn, text=text))
    return made


def redacted(text: str) -> tuple[str, int]:
    """Return a text without the sentences that say a credential, and how many those were."""
    text, count = _BLOCK.subn("", text)
    boundaries = [0, *(end for each in _SENTENCE.finditer(text) for end in each.span()), len(text)]
    pieces = [text[one:other] for one, other in pairwise(boundaries)]
    kept = [piece for piece in pieces if not holds_credential(piece)]
    return "".join(kept).strip(), count + len(pieces) - len(kept)


def _is_random(token: str) -> bool:
    """Tell whether a long token mixes cases and figures as only generated ones do."""
    kinds = [re.search(each, token) for each in ("[a-z]", "[A-Z]", r"\d")]
    return all(kinds) and len(re.findall(r"[A-Za-z]\d|\d[A-Za-z]", token)) > 2


def _is_card(digits: list[int]) -> bool:
    """Tell whether digits are the number of a payment card, by Luhn's check."""
    doubled = [digit if place % 2 == 0 else sum(divmod(2 * digit, 10)) for place, digit in enumerate(reversed(digits))]
    return digits[0] in (2, 3, 4, 5, 6) and sum(doubled) % 10 == 0


def _is_iban(number: str) -> bool:
    """Tell whether letters and figures are the number of a bank account, by the remainder of ISO 7064."""
    turned = number[4:] + number[:4]
    return len(number) <= 34 and int("".join(str(int(each, 36)) for each in turned)) % 97 == 1
