"""Client for answers that have to be parsed: checks that a request fits, and asks again if the answer is unreadable."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from epic_core.errors import InvalidInputError, LMError
from epic_core.lm.answers import UnreadableAnswer, has_end
from epic_core.lm.base import Completion, LanguageModel, Message, Schema
from epic_core.lm.failures import kind_of
from epic_core.lm.prompting import Prompt, size_of
from epic_core.lm.retries import Complete, RetryPolicy, patiently
from epic_core.runtime.effects import Effects, arun, run
from epic_core.runtime.workers import acompleted, completed
from epic_core.types import Usage

J = TypeVar("J")
R = TypeVar("R")
T = TypeVar("T")

# In most texts a token has at least this many bytes of UTF-8; a prompt that seems too long by this count is not sent.
_BYTES_A_TOKEN = 3
_ANSWER_SHOWN = 2000
_REPAIR = "That could not be read: {reason}. Answer again, with nothing but the JSON object that was asked for."
_REPAIR_FREELY = "That could not be read: {reason}. Answer again, exactly in the form that was asked for."


class UnreadableTwice(Exception):  # noqa: N818
    """Error for two answers to one request, neither of which could be understood.

    Attributes:
        answer: The model's text.
    """

    def __init__(self, reason: str, answer: str) -> None:
        super().__init__(f"The model's answer could not be understood: {reason}.")
        self.answer = answer


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
        """How many calls may be made at once."""
        return max(1, int(getattr(self.lm, "concurrency", 1)))

    def session(self) -> AbstractAsyncContextManager[Any]:
        """Return a context that keeps the model's connections open on an event loop, if the model has one."""
        session = getattr(self.lm, "session", None)
        return nullcontext() if session is None else session()

    def stream(self, work: Callable[[J], Effects[R]], jobs: Sequence[J]) -> Iterator[R]:
        """Yield the results of a new round of jobs, in the order in which they are ready."""
        self.patience.begin()
        yield from completed(lambda job, stopped: run(work(job), stopped=stopped), jobs, self.concurrency)

    async def astream(self, work: Callable[[J], Effects[R]], jobs: Sequence[J]) -> AsyncGenerator[R, None]:
        """Yield results as `stream` does, without blocking the event loop."""
        self.patience.begin()
        async with (
            self.session(),
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
                f"The chunk is too long for the model: {needed}, {self.lm.name} has {self.lm.context}."
                " Cut it (chunker=WordChunker()), or give the model more (context=)."
            )
        return Complete(
            lm=self.lm, messages=messages, schema=schema if prompt.structured else None, max_tokens=max_tokens
        )

    def answer(self, request: Complete, usage: Usage) -> Effects[Completion]:
        """Return the answer to a request, as `patiently`."""
        return (yield from patiently(request, self.patience, usage))

    def readable(
        self, request: Complete, prompt: Prompt, read: Callable[[str], T], usage: Usage
    ) -> Effects[tuple[T, Completion]]:
        """Return the result of `read` and its answer; ask again if the answer cannot be read or was cut off.

        Raises:
            LMError: if there is no answer.
            UnreadableTwice: if neither answer can be read.
        """
        first = yield from self.answer(request, usage)
        try:
            return _result(first, read), first
        except UnreadableAnswer as error:
            reason = str(error)
        usage.retries += 1
        second = yield from self.answer(self._again(request, prompt, first, reason), usage)
        try:
            return _result(second, read), second
        except UnreadableAnswer as error:
            raise UnreadableTwice(str(error), second.text or first.text) from None

    def _again(self, request: Complete, prompt: Prompt, first: Completion, reason: str) -> Complete:
        size = sum(size_of(message.content) for message in request.messages)
        limit = request.max_tokens
        if first.cut and limit is not None and self.fits(size, 2 * limit):
            # The answer was not wrong, only too long.
            return replace(request, max_tokens=2 * limit)
        said = first.text[:_ANSWER_SHOWN] or "..."
        repair = (_REPAIR if prompt.structured else _REPAIR_FREELY).format(reason=reason)
        if not self.fits(size + size_of(said) + size_of(repair), limit or 0):
            return request
        return replace(request, messages=[*request.messages, Message("assistant", said), Message("user", repair)])


def _result(completion: Completion, read: Callable[[str], T]) -> T:
    if completion.cut and not has_end(completion.text):
        raise UnreadableAnswer("it is cut off")
    return read(completion.text)
