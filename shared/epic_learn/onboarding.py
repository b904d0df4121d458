"""Onboarding: questions to a new user, all of them optional, whose answers become proposals."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from epic_learn.conversations import Turn
from epic_learn.cues import statements
from epic_learn.types import Proposal, plain
from epic_memory.errors import InvalidInputError
from epic_memory.memory import EpicMemory
from epic_memory.text.chunking import sentences
from epic_memory.types.validation import checked_text, one_of, writable

BACK: Final = "\x1b"
"""Sent in place of an answer: ask the question before again."""

_PLEASE = re.compile(r",? please$", re.I)
_WHOLE = re.compile(r"(?:i|i'm|i'd|i've|my|we|we're|no|never|always|please|only|nothing|don't)\b", re.I)
_PLACE = "{}"


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question of the onboarding.

    Attributes:
        id: Unique among the questions.
        category: The heading that it stands under.
        text: The question.
        about: What an answer is about unless its words say otherwise: "preference" or "fact".
        sentence: What an answer in a few words is put into, at "{}".
        days: After how many days an answer expires; None for never.

    Raises:
        InvalidInputError: for an empty text, or a sentence without "{}".
    """

    id: str
    category: str
    text: str
    about: Literal["preference", "fact"] = "preference"
    sentence: str = _PLACE
    days: int | None = None

    def __post_init__(self) -> None:
        for name in ("id", "category", "text"):
            checked_text(getattr(self, name), f"The {name} of a question")
        one_of("about", self.about, ("preference", "fact"))
        if not isinstance(self.sentence, str) or self.sentence.count(_PLACE) != 1:
            raise InvalidInputError(
                f"The sentence of a question has one {_PLACE} for the answer, not {self.sentence!r}."
            )


_ROWS = json.loads((files("epic_learn") / "data" / "onboarding.json").read_text(encoding="utf-8"))
QUESTIONS = tuple(Question(**row) for row in _ROWS)
"""Five categories with three questions each; none asks for anything that identifies a person."""

Asking: TypeAlias = Generator[Question | Proposal, Any, None]


class Onboarding:
    """Onboarding by questions; each can be skipped, and a later run asks those without an accepted answer.

        asking = Onboarding().start(memory)
        step = next(asking, None)
        while step is not None:
            reply = input(f"{step}") if isinstance(step, Question) else True
            step = send(asking, reply)

    Args:
        questions: Your own, or ours.

    Raises:
        InvalidInputError: for none, or two with one id.
    """

    def __init__(self, questions: Sequence[Question] = QUESTIONS) -> None:
        if not questions or len({question.id for question in questions}) < len(questions):
            raise InvalidInputError("An onboarding needs questions, each with an id of its own.")
        self.questions = tuple(questions)

    def start(self, memory: EpicMemory) -> Asking:
        """Ask; what is agreed to is in force at once.

        Yields:
            A `Question`, to be answered by `send(text)`: None or "" skips it, `BACK` asks the one before again. Then
            each `Proposal` of the answer: `send(True)` accepts it, a text accepts it in these words, anything else
            turns it down.
        """
        answered = {proposal.source for proposal in memory.proposals.accepted()}
        left = [question for question in self.questions if _source(question) not in answered]
        place = 0
        while place < len(left):
            question = left[place]
            answer = yield question
            if answer == BACK:
                place = max(0, place - 1)
                continue
            place += 1
            for proposal in answers(question, answer if isinstance(answer, str) else ""):
                decision = yield proposal
                if decision is True or (isinstance(decision, str) and decision.strip()):
                    # The user has been asked: what they decided before does not count any more.
                    for kept in memory.proposals.add([proposal], again=True):
                        memory.proposals.accept(kept, None if decision is True else decision)


def send(asking: Asking, reply: Any) -> Question | Proposal | None:
    """Send a reply, and return what comes next; None at the end."""
    try:
        return asking.send(reply)
    except StopIteration:
        return None


def answers(question: Question, answer: str) -> Iterator[Proposal]:
    """Yield a proposal for each statement of an answer, in its words."""
    ends = None if question.days is None else datetime.now(timezone.utc) + timedelta(days=question.days)
    seen: set[str] = set()
    for quote in sentences(writable(answer)):
        words = _PLEASE.sub("", quote.rstrip(" .!;,"))
        if not any(letter.isalnum() for letter in words):
            continue
        found = statements(Turn(role="user", speaker="user", text=quote), datetime.now().astimezone())
        about = next((each.about for each in found if each.about), question.about)
        text = words if _WHOLE.match(words) else _stated(question.sentence, words)
        if plain(text) not in seen:
            seen.add(plain(text))
            yield Proposal(
                kind="add_preference" if about == "preference" else "add_fact",
                text=text,
                quote=quote,
                source=_source(question),
                expires_at=ends,
            )


def _stated(sentence: str, words: str) -> str:
    """Return an answer as a statement: "short" and "short answers" both as what answers are preferred."""
    begin, that, _ = sentence.partition(" that ")
    noun = begin.rpartition(" ")[2]
    if noun and that and re.search(rf"\b{re.escape(noun)}\b", words, re.I):
        return f"{begin.removesuffix(noun)}{words if words[:2].isupper() else words[:1].lower() + words[1:]}"
    return sentence.replace(_PLACE, words)


def _source(question: Question) -> str:
    return f"onboarding/{question.id}"
