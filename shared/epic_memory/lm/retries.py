"""Retries: calls of a model with backoff, and no waiting for a server that cannot be reached."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from epic_memory.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError
from epic_memory.lm.base import Completion, LanguageModel, Message, Schema
from epic_memory.lm.budget import ModelBudgetError
from epic_memory.runtime.effects import Effect, Effects
from epic_memory.runtime.threads import in_thread
from epic_memory.types import Usage
from epic_memory.types.validation import checked_whole

_LONGEST_PAUSE = 30.0
_ITEMS_UNTIL_DOWN = 2


@dataclass(frozen=True, kw_only=True)
class Complete(Effect):
    """An effect whose result is a model's completion, or the `LMError` that prevented it.

    A model that has no `acomplete` is called in a worker thread.
    """

    lm: LanguageModel
    messages: Sequence[Message]
    schema: Schema | None = None
    max_tokens: int | None = None

    def run(self, stopped: threading.Event | None) -> Completion | LMError:
        """Ask the model."""
        try:
            return _checked(self._complete())
        except Exception as error:
            return _failure(error)

    async def arun(self) -> Completion | LMError:
        """Ask the model without blocking the event loop."""
        try:
            if not callable(getattr(self.lm, "acomplete", None)):
                return _checked(await in_thread(self._complete))
            return _checked(await self.lm.acomplete(self.messages, schema=self.schema, max_tokens=self.max_tokens))
        except Exception as error:
            return _failure(error)

    def _complete(self) -> Completion:
        return self.lm.complete(self.messages, schema=self.schema, max_tokens=self.max_tokens)


@dataclass(frozen=True)
class Pause(Effect):
    """An effect that waits some seconds."""

    seconds: float

    def run(self, stopped: threading.Event | None) -> None:
        """Wait, but no longer than until `stopped` is set."""
        if stopped is None:
            time.sleep(self.seconds)
        else:
            stopped.wait(self.seconds)

    async def arun(self) -> None:
        """Wait without blocking the event loop."""
        await asyncio.sleep(self.seconds)


@dataclass
class RetryPolicy:
    """Policy for retries, with what is known of the server.

    The server counts as down once two items in a row got no answer in all their attempts, or one failed with an
    `LMSetupError`: the items after them are not sent at all. The next round begins with single attempts.

    Args:
        retries: Attempts after the first, for temporary failures. A timeout is tried only once more.
        backoff: Seconds before the second attempt; doubled for each one after.
    """

    retries: int = 3
    backoff: float = 0.5
    down: LMError | None = None
    _failed: int = 0
    _probing: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        checked_whole(self.retries, "retries", 0)
        if not isinstance(self.backoff, (int, float)) or not 0.0 <= self.backoff <= _LONGEST_PAUSE:
            raise InvalidInputError(
                f"backoff must be a number of seconds from 0 to {_LONGEST_PAUSE:.0f}, not {self.backoff!r}."
            )

    def begin(self) -> None:
        """Start a round of items: a server that was down gets another chance, with single attempts."""
        with self._lock:
            self._probing, self.down = self.down is not None, None

    def answered(self) -> None:
        """Record that the server answered."""
        with self._lock:
            self.down, self._failed, self._probing = None, 0, False

    def gave_up(self, error: LMError) -> None:
        """Record that an item got no answer."""
        with self._lock:
            self._failed += 1
            if isinstance(error, LMSetupError) or self._probing or self._failed >= _ITEMS_UNTIL_DOWN:
                self.down = error

    def pause(self, attempt: int, error: LMError) -> float | None:
        """Return the seconds to wait after the failure of an attempt, counted from 0, or None to give up."""
        if not isinstance(error, LMUnavailableError) or self._probing or self.down:
            return None
        if attempt >= (min(1, self.retries) if error.timed_out else self.retries):
            return None
        doubled = self.backoff * 2.0 ** min(attempt, 60)
        return min(doubled if error.retry_after is None else max(self.backoff, error.retry_after), _LONGEST_PAUSE)


def patiently(request: Complete, patience: RetryPolicy, usage: Usage) -> Effects[Completion]:
    """Return one answer, with as many attempts as `patience` allows; raise the last `LMError` if there was none."""
    down = patience.down
    if down is not None:
        # The same error is raised for many items: its traceback would grow with each, and keep their objects alive.
        raise down.with_traceback(None)
    attempt = 0
    while True:
        started = time.perf_counter()
        answer = yield request
        usage.calls += not isinstance(answer, ModelBudgetError)  # with that, nothing was sent
        usage.seconds += time.perf_counter() - started
        if isinstance(answer, Completion):
            patience.answered()
            usage.prompt_tokens += answer.prompt_tokens
            usage.completion_tokens += answer.completion_tokens
            return answer
        pause = patience.pause(attempt, answer)
        if pause is None:
            if isinstance(answer, (LMUnavailableError, LMSetupError)):
                patience.gave_up(answer)
            raise answer
        usage.retries += 1
        attempt += 1
        yield Pause(pause)


def _checked(answer: object) -> Completion:
    if not isinstance(answer, Completion):
        raise LMSetupError(f"The language model returned an object of type {type(answer).__name__}, not a Completion.")
    if not isinstance(answer.text, str):
        raise LMSetupError(f"The language model returned a text of type {type(answer.text).__name__}, not str.")
    return answer


def _failure(error: Exception) -> LMError:
    return error if isinstance(error, LMError) else LMUnavailableError(f"{type(error).__name__}: {error}")
