"""Client of a language model for answers in JSON: retries what fails, and asks back once if it cannot read."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from epic_memory.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError
from epic_memory.lm.answers import Shape, UnreadableAnswer, read_as, schema_of
from epic_memory.lm.base import Completion, LanguageModel, Message, Schema
from epic_memory.lm.budget import ModelBudgetError
from epic_memory.lm.failures import kind_of
from epic_memory.lm.prompting import Prompt, prompt_of, size_of
from epic_memory.runtime.effects import Effect, Effects, arun, in_thread, run
from epic_memory.runtime.streaming import AnswerStream, Batch, NextBatch, acompleted, completed, streamed
from epic_memory.types import Usage
from epic_memory.types.validation import checked_whole

J = TypeVar("J")
R = TypeVar("R")
S = TypeVar("S", bound=Shape)

_LONGEST_PAUSE = 30.0
_ITEMS_UNTIL_DOWN = 2
# In most texts a token has at least this many bytes of UTF-8; a prompt that seems too long by this count is not sent.
_BYTES_A_TOKEN = 3
_ANSWER_SHOWN = 2000
_REPAIR = "That could not be read: {reason}. Answer again, with nothing but the JSON object that was asked for."


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


def _checked(answer: object) -> Completion:
    if not isinstance(answer, Completion):
        raise LMSetupError(f"The language model returned an object of type {type(answer).__name__}, not a Completion.")
    if not isinstance(answer.text, str):
        raise LMSetupError(f"The language model returned a text of type {type(answer.text).__name__}, not str.")
    return answer


def _failure(error: Exception) -> LMError:
    return error if isinstance(error, LMError) else LMUnavailableError(f"{type(error).__name__}: {error}")


class StructuredClient:
    """Client of one model, with retries; anything but a language model is an `InvalidInputError`."""

    def __init__(self, lm: LanguageModel, patience: RetryPolicy) -> None:
        if isinstance(lm, type) or not callable(getattr(lm, "complete", None)):
            raise InvalidInputError(f'A language model is needed, such as OllamaLM("qwen3:4b"), not {kind_of(lm)}.')
        if not isinstance(getattr(lm, "name", None), str) or not lm.name:
            raise InvalidInputError("A language model must have a name, under which its answers are cached.")
        self.lm = lm
        self.patience = patience

    @property
    def concurrency(self) -> int:
        """Most calls that may be made at once."""
        return max(1, int(getattr(self.lm, "concurrency", 1)))

    def stream(self, work: Callable[[J], Effects[R]], jobs: Sequence[J]) -> Iterator[R]:
        """Yield the results of a new round of jobs, in the order in which they are ready."""
        self.patience.begin()
        yield from completed(lambda job, stopped: run(work(job), stopped=stopped), jobs, self.concurrency)

    async def astream(self, work: Callable[[J], Effects[R]], jobs: Sequence[J]) -> AsyncGenerator[R, None]:
        """Yield results as `stream` does, without blocking the event loop."""
        self.patience.begin()
        # If the model has one, its session keeps its connections open between the calls.
        session: AbstractAsyncContextManager[Any] = getattr(self.lm, "session", nullcontext)()
        async with (
            session,
            aclosing(acompleted(lambda job: arun(work(job), threaded=False), jobs, self.concurrency)) as results,
        ):
            async for result in results:
                yield result

    def fits(self, size: int, max_tokens: int) -> bool:
        """Tell whether a prompt of `size` bytes and an answer of `max_tokens` tokens fit into the model's context."""
        context = getattr(self.lm, "context", None)
        return context is None or size // _BYTES_A_TOKEN + max_tokens <= context

    def request(self, prompt: Prompt, values: Mapping[str, str], schema: Schema, max_tokens: int) -> Complete:
        """Return the request to send; one that does not fit into the model's context is an `LMError`."""
        messages = prompt.messages(values)
        size = sum(size_of(message.content) for message in messages)
        if not self.fits(size, max_tokens):
            needed = f"prompt and answer may take {size // _BYTES_A_TOKEN + max_tokens} tokens"
            if not self.fits(prompt.size, max_tokens):
                raise LMError(
                    f"The context of {self.lm.name}, {self.lm.context} tokens, is too small: {needed}."
                    " Give the model more (context=)."
                )
            raise LMError(
                f"The text is too long for the model: {needed}, {self.lm.name} has {self.lm.context}."
                " Cut it (chunker=WordChunker()), or give the model more (context=)."
            )
        return Complete(lm=self.lm, messages=messages, schema=schema, max_tokens=max_tokens)

    def answer(self, request: Complete, usage: Usage) -> Effects[Completion]:
        """Return the answer, with as many attempts as `patience` allows; raise the last `LMError` if there was none."""
        down = self.patience.down
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
                self.patience.answered()
                usage.prompt_tokens += answer.prompt_tokens
                usage.completion_tokens += answer.completion_tokens
                return answer
            pause = self.patience.pause(attempt, answer)
            if pause is None:
                if isinstance(answer, (LMUnavailableError, LMSetupError)):
                    self.patience.gave_up(answer)
                raise answer
            usage.retries += 1
            attempt += 1
            yield Pause(pause)

    def roomier(self, request: Complete) -> Complete:
        """Return a request with twice the room for its answer, if that fits."""
        limit = request.max_tokens
        if limit is None or not self.fits(_size(request), 2 * limit):
            return request
        return replace(request, max_tokens=2 * limit)

    def again(self, request: Complete, first: Completion, reason: str) -> Complete:
        """Return the question back after an unreadable answer: with more room if it was cut, else with the reason."""
        if first.cut and (roomier := self.roomier(request)) is not request:
            return roomier
        said = first.text[:_ANSWER_SHOWN] or "..."
        repair = _REPAIR.format(reason=reason)
        if not self.fits(_size(request) + size_of(said) + size_of(repair), request.max_tokens or 0):
            return request
        return replace(request, messages=[*request.messages, Message("assistant", said), Message("user", repair)])


def _size(request: Complete) -> int:
    return sum(size_of(message.content) for message in request.messages)


@dataclass(frozen=True, kw_only=True)
class Reading(Generic[S]):
    """A model's answer about one thing.

    Attributes:
        value: The answer; None if there is none.
        failure: Why there is none.
        answer: The model's text, if it could not be understood.
        usage: Calls, tokens and seconds of the model.
    """

    value: S | None = None
    failure: str = ""
    answer: str = ""
    usage: Usage = field(default_factory=Usage, compare=False, repr=False)


class LMReader(Generic[J, S]):
    """A reader that asks a language model about things, one call for each, for answers of one shape.

    An answer that cannot be read is asked for once more. What fails has its reason in its `Reading`.

    Args:
        lm: Any `LanguageModel`. Its `concurrency` is how many things are read at once.
        prompt: Name of the prompt.
        shape: Shape of the answers.
        values: Makes the values of the prompt's placeholders.
        max_tokens: Most tokens of an answer.
        patience: Policy for calls that fail.

    Attributes:
        name: Made of prompt and model.
    """

    def __init__(
        self,
        lm: LanguageModel,
        prompt: str,
        shape: type[S],
        values: Callable[[J], Mapping[str, str]],
        *,
        max_tokens: int,
        patience: RetryPolicy | None = None,
    ) -> None:
        self.client = StructuredClient(lm, RetryPolicy() if patience is None else patience)
        self._prompt = prompt_of(prompt)
        self._shape = shape
        self._schema = schema_of(shape)
        self._values = values
        self._most = max_tokens
        self.name = f"{prompt}/{lm.name}/{self._prompt.version}"

    def stream(self, jobs: Sequence[J]) -> Iterator[tuple[int, Reading[S]]]:
        """Yield positions and readings, in the order in which they are ready."""
        return self.client.stream(self._placed, list(enumerate(jobs)))

    def astream(self, jobs: Sequence[J]) -> AsyncGenerator[tuple[int, Reading[S]], None]:
        """Yield readings as `stream` does, without blocking the event loop."""
        return self.client.astream(self._placed, list(enumerate(jobs)))

    def _placed(self, job: tuple[int, J]) -> Effects[tuple[int, Reading[S]]]:
        return job[0], (yield from self.reading(job[1]))

    def reading(self, job: J) -> Effects[Reading[S]]:
        """Ask about one thing."""
        usage, answer = Usage(), ""
        try:
            request = self.client.request(self._prompt, self._values(job), self._schema, self._most)
            completion = yield from self.client.answer(request, usage)
            try:
                return Reading(value=read_as(self._shape, completion), usage=usage)
            except UnreadableAnswer as error:
                request = self.client.again(request, completion, str(error))
            answer = completion.text
            usage.retries += 1
            completion = yield from self.client.answer(request, usage)
            answer = completion.text or answer
            return Reading(value=read_as(self._shape, completion), usage=usage)
        except UnreadableAnswer as error:
            return Reading(failure=not_understood(str(error)), answer=answer, usage=usage)
        except LMError as error:
            return Reading(failure=str(error), usage=usage)


def not_understood(reason: str) -> str:
    """Return what is reported about an answer that cannot be read."""
    return f"The model's answer could not be understood: {reason}."


def readings_of(
    lm: LanguageModel, reader: LMReader[J, S], jobs: Sequence[J], what: str
) -> Effects[tuple[dict[int, Reading[S]], str]]:
    """Return the readings by the position of their job, and why others are missing."""
    stream: AnswerStream[Reading[S]] = streamed(reader, jobs, Reading, f"reader of {what} {lm.name!r}")
    readings: dict[int, Reading[S]] = {}
    while len(readings) < len(jobs):
        batch: Batch[Reading[S]] = yield NextBatch(stream)
        readings.update(batch.answers)
        if batch.last:
            return readings, batch.failure or ""
    return readings, ""
