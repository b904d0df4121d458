"""Values in a sentence: what of it answers a question, by the type of the field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from epic_learn.forms.dates import days_in
from epic_learn.forms.fields import Field, Value
from epic_memory.text.statements import NUMBERS, statement_of
from epic_memory.text.stems import content_stems, stem, stems, words_of

_NUMBER = re.compile(
    rf"(?<![\w.,:/+'’-])(?:[$€£]\s?)?(?P<digits>-?\d{{1,3}}(?:,\d{{3}}){{1,4}}(?:\.\d+)?|-?\d{{1,15}}(?:\.\d+)?)"
    rf"(?=(?:%|[a-z°€£$]{{1,3}}\b|[.,;!?)]*(?:\s|$)))"
    rf"|\b(?P<tens>{'|'.join(word for word in NUMBERS if NUMBERS[word] >= 20)})[- ]"
    rf"(?P<units>{'|'.join(word for word in NUMBERS if 0 < NUMBERS[word] < 10)})\b"
    rf"|\b(?P<word>{'|'.join(NUMBERS)})\b",
    re.I,
)
MINE = re.compile(r"\b(?:i|my|me|mine|we|our|us)\b", re.I)
"""Words by which a user speaks of themselves."""
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")
# A UUID, or groups of which the first has a digit, or is two letters ("AB 123"), and each other one has a digit.
_CODE = re.compile(
    r"(?<![\w+])(?:[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12}"
    r"|(?=[^\s\d]{0,60}\d|[A-Z]{2}\s)\+?[A-Z\d]+(?:[ /.-][A-Z]*\d[A-Z\d]*)*)(?!\w)"
)
_CAPITAL = r"[^\W\d_a-z][\w'’-]*"
_NAME = re.compile(
    rf"(?:(?:Dr|Mrs?|Ms|Prof|St)\b\.? )?{_CAPITAL}(?:(?: (?:de|da|do|van|von|der|of|the|und|and|&))* {_CAPITAL})*"
)
_ASKS_ADDRESS = re.compile(r"\be-?mail\b", re.I)
_ASKS_CODE = re.compile(
    r"\b(?:(?:phone|telephone|mobile|cell|passport|policy|account|membership|member|customer|card|registration|plate"
    r"|licen[cs]e|reference|serial|tax|insurance|id) number|number ?plate|phone|telephone|pin|code|postcode|iban"
    r"|password)\b",
    re.I,
)
_ASKS_NAME = re.compile(r"\b(?:who|whom|whose|name|called)\b", re.I)
_WORD = re.compile(r"[^\W_]+")
_LINK = re.compile(r"^(?:\s|[’']s\b|:|-)+(?:(?:is|are|was|were|to|in|at|on|for|of|with|as)\b\s*)*")
_SHORT = 6


def values_in(field: Field, text: str) -> list[Value]:
    """Return the values of a field's type that a sentence states, each once; for a text at most one, the shortest.

    What the sentence denies is not among them.
    """
    denied = words_of(text).negated
    if field.type == "boolean":
        return [value for value in [_answer(field.question, text)] if value is not None]
    made: Iterable[tuple[Value, str]]
    if field.type == "date":
        made = ((str(day), text[start:end]) for day, start, end in days_in(text))
    elif field.type == "number":
        made = _numbers(field.question, text)
    elif field.type == "choice":
        made = ((choice, choice) for choice in _chosen(field.choices, text))
    else:
        made = ((value, value) for value in [_text(field.question, text)] if value)
    return list(dict.fromkeys(value for value, words in made if denied.isdisjoint(stems(words))))


def _numbers(question: str, text: str) -> Iterator[tuple[Value, str]]:
    taken = [(start, end) for _, start, end in days_in(text)]
    asked = set(content_stems(question))
    found, counted = [], []
    for match in _NUMBER.finditer(text):
        if any(start < match.end() and match.start() < end for start, end in taken):
            continue
        value = _number(match)
        is_counted = not asked.isdisjoint(stems(text[match.end() :])[:2])
        if value == 1 and match["word"] and not is_counted:
            continue  # "one of them"
        found.append((value, match[0]))
        if is_counted:
            counted.append((value, match[0]))
    # "Two children, aged 4 and 7", asked how many children.
    yield from counted or found


def _number(match: re.Match[str]) -> Value:
    if match["digits"]:
        digits = match["digits"].replace(",", "")
        return float(digits) if "." in digits else int(digits)
    if match["tens"]:
        return NUMBERS[match["tens"].lower()] + NUMBERS[match["units"].lower()]
    return NUMBERS[match["word"].lower()]


def _chosen(choices: Iterable[str], text: str) -> Iterator[str]:
    words = f" {' '.join(stems(text))} "
    found = [choice for choice in choices if f" {' '.join(stems(choice))} " in words]
    for choice in found:
        # "Window" is not chosen where "window seat" is.
        if not any(
            choice != other and f" {' '.join(stems(choice))} " in f" {' '.join(stems(other))} " for other in found
        ):
            yield choice


def _answer(question: str, text: str) -> bool | None:
    """Return whether a statement of the user says yes or no to a question; None if it says neither."""
    if MINE.search(question) and not MINE.search(text):
        return None
    asked, said = set(content_stems(question)), words_of(text)
    if not asked or not asked <= said.plain | said.negated:
        return None
    return asked.isdisjoint(said.negated)


def _text(question: str, text: str) -> str:
    """Return the shortest span of a sentence that answers: an address, a code, a name; or all of it."""
    if _ASKS_ADDRESS.search(question):
        return _one(_ADDRESS.findall(text))
    if _ASKS_CODE.search(question):
        return _one([code for code in _CODE.findall(text) if any(map(str.isdigit, code))])
    if _ASKS_NAME.search(question):
        return _name(question, text)
    # "I'm allergic to | nuts"
    rest = _behind(question, text).strip(" .,;:!")
    return rest if 0 < len(rest.split()) <= _SHORT else text


def _name(question: str, text: str) -> str:
    """Return the name behind what is asked about ("My dentist is | Dr. Okafor in Lower Street"), or the only one."""
    if match := _NAME.match(_behind(question, text)):
        return match[0]
    known, asked = statement_of(text).all_names, set(stems(question))
    found = []
    for name in _NAME.findall(text):
        words = {word.strip(".'’").lower().removesuffix("'s") for word in name.split()}
        if words & known and asked.isdisjoint(stems(name)):
            found.append(name)
    return _one(found)


def _behind(question: str, text: str) -> str:
    """Return what stands in a sentence behind the last word that the question has, too."""
    asked, end = set(content_stems(question)), 0
    for match in _WORD.finditer(text):
        if stem(match[0].lower()) in asked:
            end = match.end()
    return _LINK.sub("", text[end:]) if end else ""


def _one(found: list[str]) -> str:
    """Return what is found if it is one thing; else nothing: which of several is meant nobody knows."""
    different = list(dict.fromkeys(found))
    return different[0].strip() if len(different) == 1 else ""
