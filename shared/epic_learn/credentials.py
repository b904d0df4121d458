"""Credentials: passwords, PINs, keys, numbers of cards and accounts in a text, which no memory should keep.

The code of a bike shed is none: people want to be reminded of it.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from itertools import pairwise

from epic_learn.conversations import Conversation

_NAMES = (
    r"(?<![a-z])(?:pass ?(?:word|code|phrase|wort)s?|kennwort|contrase\u00f1a|mot de passe|pins?(?: (?:code|number))?|"
    r"pw|pwd|cvv|cvc|(?:api|access|secret|private|license|recovery|account) ?[_-]?(?:key|token|secret|code)s?|"
    r"(?:auth|bearer|session|refresh) ?[_-]?tokens?|token|client[_-]secret|"
    r"(?:security|verification|one[- ]time|backup|2fa) codes?|(?:seed|recovery|secret) (?:phrase|words)|"
    r"social security number|ssn)\b"
)
# What follows these, and a "is" or a mark, is secret. "My password is wrong" goes too, and is no loss.
_LABELLED = re.compile(
    _NAMES + r"(?: (?:of|for|to|at|on|from) [\w' .-]{1,40}?| \([\w ]{1,20}\))?(?: now)?"
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
# "login: ann / hunter22".
_LOGIN = re.compile(
    r"\b(?:log-?in|log-?on|credentials?|user(?: ?name)?|zugangsdaten|anmeldung) ?[:=] ?[^\s/|,;]{1,60} ?[/|,;] ?"
    r"(?=\S{0,60}[a-z])(?=\S{0,60}\d)[^\s/]{6,60}(?!\S)",
    re.I,
)
# A label at the end of a line, whose secret stands in the next one: behind a mark, or both alone on their lines.
_BEFORE = re.compile(_NAMES + r"(?: (?:of|for|to|at|on|from) [\w' .-]{1,40})?[ *_`]*[:=][ *_`]*$", re.I)
_ALONE = re.compile(r"(?:[^\w\s]+ )?(?:\w+ )?" + _NAMES + r"[ *_`]*[.:=]?", re.I)
_VALUE = re.compile(r"(?=\S*\d)\S{4,60}(?: \S+){0,3}")
_CELL = re.compile(r"(?:\w+ )?" + _NAMES, re.I)
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
    if any(pattern.search(sentence) for pattern in (_LABELLED, _CHANGED, _USED, _BESIDE, _LOGIN, _SHAPES)):
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
    text, rows = _without_rows(text)
    boundaries = [0, *(end for each in _SENTENCE.finditer(text) for end in each.span()), len(text)]
    pieces = [text[one:other] for one, other in pairwise(boundaries)]
    secret = {place for place, piece in enumerate(pieces) if holds_credential(piece)}
    filled = [(place, " ".join(piece.split())) for place, piece in enumerate(pieces) if piece.strip()]
    for (place, piece), (following, value) in pairwise(filled):
        if _is_before(piece, value):
            secret |= {place, following}
    kept = [piece for place, piece in enumerate(pieces) if place not in secret]
    return "".join(kept).strip(), count + rows + len(secret)


def _is_before(piece: str, value: str) -> bool:
    """Tell whether a piece ends with a label, such as "Password:", and the next one is what it labels."""
    if _ALONE.fullmatch(piece[:100]) and _VALUE.fullmatch(value[:300]):
        return True
    return bool(_BEFORE.search(piece[-100:])) and holds_credential(f"{piece[-100:]} {value[:300]}")


def _without_rows(text: str) -> tuple[str, int]:
    """Return a text without the rows of tables that have a secret in one of their cells, and how many those were."""
    kept: list[str] = []
    count, is_below = 0, False
    lines = text.split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        cells = [each.strip(" *_`") for each in line.split("|")]
        has_words = any(map(str.isalnum, line))
        labels = [place for place, cell in enumerate(cells) if len(cells) > 1 and _CELL.fullmatch(cell[:100])]
        is_head = "|" in following and not any(map(str.isalnum, following))
        is_labelled = not is_head and any(any(cells[place + 1 :]) for place in labels)
        is_below = len(cells) > 1 and (is_below or bool(labels and is_head))
        if has_words and (is_labelled or (is_below and not is_head)):
            count += 1
        else:
            kept.append(line)
    return ("\n".join(kept) if count else text), count


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
