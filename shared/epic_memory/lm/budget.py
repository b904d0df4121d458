"""Daily budget of a language model: so many calls or tokens a day, counted across processes by the memory's file."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from numbers import Integral
from typing import Any, Literal, TypeAlias, get_args

from epic_memory.errors import InvalidInputError, LMSetupError
from epic_memory.lm.base import Completion, LanguageModel, Message, Schema
from epic_memory.runtime.effects import in_thread

Unit: TypeAlias = Literal["calls", "tokens"]
_UNITS: tuple[Unit, ...] = get_args(Unit)
_BUDGET = re.compile(r"([\d_,]{1,30}) ?(calls|tokens)?(?: ?(?:a|per|/) ?day)?")
_CHARACTERS_A_TOKEN = 4


class ModelBudgetError(LMSetupError):
    """Error for a model that may not be asked any more today."""


@dataclass
class ModelBudget:
    """Allowance of a model for one day, by local time, for all processes that have the memory's file open.

    A process learns what others used when it writes and when it begins something; what they use meanwhile comes on top.

    Args:
        limit: Most calls or tokens a day; prompt and answer count. Calls without an answer do not.
        unit: "calls" or "tokens".

    Attributes:
        day: The day of the last use that is known.
        used: What was used on that day, by unit.
    """

    limit: int
    unit: Unit = "calls"
    day: str = ""
    used: Counter[str] = field(default_factory=Counter)
    _unwritten: Counter[str] = field(default_factory=Counter, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def of(cls, given: object) -> ModelBudget | None:
        """Return the budget for a number of calls a day, or a text such as "200 calls" or "50000 tokens".

        Raises:
            InvalidInputError: for anything else.
        """
        if given is None or isinstance(given, cls):
            return given
        if isinstance(given, Integral) and not isinstance(given, bool) and int(given) >= 0:
            return cls(int(given))
        match = _BUDGET.fullmatch(" ".join(given.lower().split())) if isinstance(given, str) else None
        digits = re.sub(r"\D", "", match[1]) if match else ""
        if match is None or not digits:
            raise InvalidInputError(
                f'model_budget must be a number of calls a day, or "200 calls", or "50000 tokens"; not {given!r}.'
            )
        unit: Unit = next((one for one in _UNITS if one == match[2]), "calls")
        return cls(int(digits), unit)

    def exchange(self, stored: object, write: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Take over what a file says was used today, and have it remember what it does not know yet.

        Args:
            stored: What the file remembers.
            write: Writes what it is to remember; None where nothing can be written.
        """
        with self._lock:
            if self.day != _today():
                self._unwritten.clear()
            known: Counter[str] = Counter()
            if isinstance(stored, Mapping) and stored.get("day") == _today():
                self.day = _today()
                known.update({unit: n for unit in _UNITS if isinstance(n := stored.get(unit), int) and n > 0})
            if self.is_new_day:
                return
            self.used = known + self._unwritten
            if write is not None and self.has_unwritten:
                write({"day": self.day, "budget": str(self), **self.used})
                self._unwritten.clear()

    @property
    def has_unwritten(self) -> bool:
        """True if the file does not know yet of everything that was used."""
        return any(self._unwritten.values())

    @property
    def is_new_day(self) -> bool:
        """True until a model is asked today."""
        return self.day != _today()

    @property
    def left(self) -> int:
        """Number of calls or tokens that are left today."""
        return self.limit if self.is_new_day else max(0, self.limit - self.used[self.unit])

    def check(self) -> None:
        """Raise a `ModelBudgetError` if nothing is left today; count a call."""
        with self._lock:
            if self.is_new_day:
                self.day = _today()
                self.used.clear()
                self._unwritten.clear()
            if not self.left:
                raise ModelBudgetError(
                    f"The model's budget of {self} a day is used up: what is left waits for tomorrow, or for"
                    " memory.retry() with a larger model_budget."
                )
            self._add("calls", 1)

    def count(self, messages: Sequence[Message], answer: object) -> None:
        """Count the tokens of a call, by its length if the server does not; a call without an answer is not counted."""
        with self._lock:
            if not isinstance(answer, Completion):
                self._add("calls", -1)
                return
            length = sum(len(message.content) for message in messages) + len(str(answer.text))
            self._add("tokens", answer.prompt_tokens + answer.completion_tokens or length // _CHARACTERS_A_TOKEN)

    def _add(self, unit: Unit, number: int) -> None:
        for counts in (self.used, self._unwritten):
            counts[unit] += number

    def __str__(self) -> str:
        return f"{self.limit} {self.unit}"


def used_today(stored: object) -> str | None:
    """Return what a file remembers of a model's use today, in words; None if there was none."""
    if not isinstance(stored, Mapping) or stored.get("day") != _today():
        return None
    counts = ", ".join(f"{stored.get(unit, 0)} {unit}" for unit in _UNITS)
    return f"{counts} today, of {stored.get('budget')} a day"


def _today() -> str:
    return date.fromtimestamp(time.time()).isoformat()


class BudgetedLM:
    """A language model that is asked within a budget; in all else the model itself."""

    def __init__(self, lm: LanguageModel, budget: ModelBudget) -> None:
        self.lm = lm
        self.budget = budget
        self.name = lm.name
        self.concurrency = getattr(lm, "concurrency", 1)
        self.context = getattr(lm, "context", None)
        self.session: Callable[[], AbstractAsyncContextManager[Any]] = getattr(lm, "session", nullcontext)

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return the model's answer.

        Raises:
            ModelBudgetError: if nothing is left today.
        """
        self.budget.check()
        answer = None
        try:
            answer = self.lm.complete(messages, schema=schema, max_tokens=max_tokens)
        finally:
            self.budget.count(messages, answer)
        return answer

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return an answer as `complete` does, without blocking the event loop."""
        asked: Callable[..., Awaitable[Completion]] | None = getattr(self.lm, "acomplete", None)
        if asked is None:  # a model of the user's own needs no such method
            return await in_thread(partial(self.complete, messages, schema=schema, max_tokens=max_tokens))
        self.budget.check()
        answer = None
        try:
            answer = await asked(messages, schema=schema, max_tokens=max_tokens)
        finally:
            self.budget.count(messages, answer)
        return answer
