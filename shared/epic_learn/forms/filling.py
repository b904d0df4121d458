"""Filling of forms: for each field a search, the sentences found that answer, and the value that they agree on.

Which sentence answers a question is told by what tells it of facts (`facts.matching`), and the value is read off it
by the field's type. Sentences that state the same value add up; where they state different ones, or none is sure to
answer, nothing is filled in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from epic_learn.facts.matching import answer_scores, answering
from epic_learn.facts.statement_pairs import RELATIVES, of_others
from epic_learn.facts.statements import statement_of
from epic_learn.forms.fields import Field, FilledField, FilledForm, Form, Value
from epic_learn.forms.values import MINE, values_in
from epic_memory.memory import EpicMemory, checked_memory
from epic_memory.text.chunking import sentences
from epic_memory.text.stems import content_stems, stem
from epic_memory.types import Item, Preference
from epic_memory.types.search_options import SearchOptions
from epic_memory.types.weights import StageWeights

_CANDIDATES = 8  # memories that are looked at for a field, facts apart
_NO_STATEMENT = re.compile(
    r"\?\W*$|\b(?:if|might|maybe|perhaps|probably|not sure|don[’']t know|(?:can[’']t|cannot) remember|forgot)\b"
    r"|\b(?:used to|formerly|previously)\b",
    re.I,
)
# What another person, or an assistant, says of themselves: "Tom: my number is ...".
_SPEAKER = re.compile(r"\W*(?!user:)(?:[\w ]{0,20}\bfrom )?\w[\w.-]*(?: [A-Z][\w-]*)?:\s")
_OWNER = re.compile(r"\W*(?:my|our|his|her|their) ([\w-]+)", re.I)
_TITLE = re.compile(r"\b(?:Dr|Mrs?|Ms|Prof|St|No)\.$")
# More characters than a sentence has: what has more is a table or code, and reading it would take long.
_LONGEST = 1000
_NOTHING = "nothing relevant is known"


@dataclass(frozen=True, kw_only=True)
class FormWeights(StageWeights):
    """Chances that the filling of forms goes by."""

    sure: float  # from which an answer is filled in; from half of it on it is told as undecided


@dataclass(frozen=True, kw_only=True)
class _Said:
    """A sentence of what is held."""

    text: str
    source: Item | Preference


def fill(memory: EpicMemory, form: Form | Mapping[str, Any] | str | Path) -> FilledForm:
    """Fill in a form from what is held: for each field the value, and the memory that it comes from.

        form = fill(memory, {"fields": [{"name": "born", "question": "When was I born?", "type": "date"}]})
        print(form.values)

    Nothing is guessed. The value is read off the one sentence that answers a field's question, in English; a field
    stays empty where nothing relevant is known, and undecided where what is known does not tell.

    Args:
        memory: The memory.
        form: Fields, each with a name, and a question, a type ("text", "number", "date", "choice", "boolean") and
            choices if it needs them; or the path of a file of JSON.

    Raises:
        InvalidInputError: for what is no form.
    """
    checked_memory(memory)
    options, made = SearchOptions(steering="signed", stance_policy="any"), []
    for field in Form.of(form).fields:
        hits = memory.search(field.question, _CANDIDATES, options=options)
        items = {hit.item.id: hit.item for hit in (*hits.facts, *hits)}
        matter = (preference for preference, _ in hits.matters[:_CANDIDATES])
        made.append(_filled(field, [*items.values(), *matter]))
    return FilledForm(fields=tuple(made))


def _filled(field: Field, sources: Sequence[Item | Preference]) -> FilledField:
    """Return what memories say about a field."""
    weights = FormWeights.shipped()
    said = [_Said(text=text, source=source) for source in sources for text in _sentences(source.text)]
    said = [each for each in said if _may_answer(field.question, each.text)]
    if not said:
        return FilledField(field=field, reason=_NOTHING)
    chances = answering(answer_scores(field.question, [each.text for each in said])).tolist()
    shares: dict[Value, float] = {}
    stated: dict[Value, tuple[float, _Said]] = {}
    for each, chance in zip(said, chances, strict=True):
        values = values_in(field, each.text)
        for value in values:
            share = chance / len(values)
            shares[value] = shares.get(value, 0.0) + share
            stated[value] = max((share, each), stated.get(value, (0.0, each)), key=itemgetter(0))
    best = max(shares, key=shares.__getitem__, default=None)
    if best is None or shares[best] < weights.sure / 2:
        return FilledField(field=field, reason=_NOTHING)
    rivals = [value for value in shares if value != best and _is_rival(field, stated[value], stated[best])]
    if rivals:
        told = ", ".join(dict.fromkeys(f'"{stated[value][1].text}"' for value in (best, *rivals)))
        return FilledField(field=field, state="undecided", reason=f"several answers: {told}")
    if shares[best] < weights.sure:
        return FilledField(
            field=field, state="undecided", reason=f'not sure that this answers: "{stated[best][1].text}"'
        )
    source = stated[best][1].source
    return FilledField(field=field, value=best, source=source, quote=stated[best][1].text, state="filled")


def _is_rival(field: Field, other: tuple[float, _Said], best: tuple[float, _Said]) -> bool:
    """Tell whether another sentence answers as well as the best: it has all that this shares with the question."""
    if 2.0 * other[0] > best[0]:
        return True
    asked, text = set(content_stems(field.question)), other[1].text
    if not asked & set(content_stems(best[1].text)) <= set(content_stems(text)):
        return False
    return float(answering(answer_scores(field.question, [text]))[0]) >= FormWeights.shipped().sure


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text that somebody can have said; a title ("Dr.") ends none."""
    made: list[str] = []
    for part in sentences(text):
        if made and len(made[-1]) <= _LONGEST and _TITLE.search(made[-1]):
            made[-1] += f" {part}"
        else:
            made.append(part)
    return [each for each in made if len(each) <= _LONGEST]


def _may_answer(question: str, text: str) -> bool:
    """Tell whether a sentence states something, and of whom or what the question asks."""
    if _NO_STATEMENT.search(text) or of_others(question, text):
        return False
    if (speaker := _SPEAKER.match(text)) and MINE.search(text[speaker.end() :]):
        return False
    about = set(content_stems(question))
    owner, lead = _OWNER.match(text), statement_of(text).lead
    is_named = statement_of(question).names & statement_of(text).all_names
    if owner and not is_named and (whose := stem(owner[1].lower())) in RELATIVES and whose not in about:
        return False
    is_of_another = bool(lead) and about.isdisjoint(content_stems(lead))
    return not (is_of_another and MINE.search(question) and not MINE.search(text))
