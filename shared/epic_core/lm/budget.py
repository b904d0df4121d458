"""Daily budget of a language model: so many calls or tokens a day, counted across processes by the memory's file."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import date
from numbers import Integral
from typing import Any, Literal, TypeAlias, get_args

from epic_core.errors import InvalidInputError, LMSetupError
from epic_core.lm.base import Completion, LanguageModel, Message, Schema

Unit: TypeAlias = Literal["calls", "tokens"]
_BUDGET = re.compile(r"([\d_,]+)\s*(calls|tokens)?(?:\s*(?:a|per|/)\s*day)?")
_CHARACTERS_A_TOKEN = 4


class ModelBudgetError(LMSetupError):
    """Error for a model that may not be asked any more today."""


@dataclass
class ModelBudget:
    """What a model may be asked on one day, by local time.

    Args:
        limit: Most calls or tokens a day; prompt and answer count.
        unit: "calls" or "tokens".
    """

    limit: int
    unit: Unit = "calls"
    day: str = ""
    used: int = 0
    changed: bool = False
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
        match = _BUDGET.fullmatch(given.strip().lower()) if isinstance(given, str) else None
        digits = re.sub(r"\D", "", match[1]) if match else ""
        if match is None or not digits:
            raise InvalidInputError(
                f'model_budget must be a number of calls a day, or "200 calls", or "50000 tokens"; not {given!r}.'
            )
        unit: Unit = next((one for one in get_args(Unit) if one == match[2]), "calls")
        return cls(int(digits), unit)

    def restore(self, stored: object) -> None:
        """Take over what a file says was used, if that was today."""
        if isinstance(stored, Mapping) and stored.get("day") == self._today() and stored.get("unit") == self.unit:
            used = stored.get("used")
            self.day, self.used = self._today(), max(self.used, used if isinstance(used, int) else 0)

    def stored(self) -> dict[str, Any]:
        """Return what a file has to remember."""
        self.changed = False
        return {"day": self.day, "unit": self.unit, "used": self.used}

    @property
    def left(self) -> int:
        """How many calls or tokens are left today."""
        return self.limit if self.day != self._today() else max(0, self.limit - self.used)

    def check(self) -> None:
        """Raise a `ModelBudgetError` if nothing is left today; count a call, if calls are counted."""
        with self._lock:
            if self.day != self._today():
                self.day, self.used = self._today(), 0
            if self.used >= self.limit:
                raise ModelBudgetError(
                    f"The model's budget of {self.limit} {self.unit} a day is used up: what is left waits, and"
                    " memory.retry() asks for it tomorrow. model_budget= raises it."
                )
            self.used += self.unit == "calls"
            self.changed = True

    def count(self, messages: Sequence[Message], answer: Completion) -> None:
        """Count the tokens of an answered call, if tokens are counted; by its length if the server does not count."""
        if self.unit == "tokens":
            length = sum(len(message.content) for message in messages) + len(answer.text)
            with self._lock:
                self.used += answer.prompt_tokens + answer.completion_tokens or length // _CHARACTERS_A_TOKEN

    @staticmethod
    def _today() -> str:
        return date.today().isoformat()


class BudgetedLM:
    """A language model that is asked within a budget; in all else the model itself."""

    def __init__(self, lm: LanguageModel, budget: ModelBudget) -> None:
        self.lm = lm
        self.budget = budget
        self.name = lm.name
        self.concurrency = getattr(lm, "concurrency", 1)
        self.context = getattr(lm, "context", None)

    def session(self) -> AbstractAsyncContextManager[Any]:
        """Return the model's context that keeps its connections open, if it has one."""
        session = getattr(self.lm, "session", None)
        return nullcontext() if session is None else session()

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return the model's answer.

        Raises:
            ModelBudgetError: if nothing is left today.
        """
        self.budget.check()
        answer = self.lm.complete(messages, schema=schema, max_tokens=max_tokens)
        self.budget.count(messages, answer)
        return answer

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return an answer as `complete` does, without blocking the event loop."""
        self.budget.check()
        answer = await self.lm.acomplete(messages, schema=schema, max_tokens=max_tokens)
        self.budget.count(messages, answer)
        return answer
