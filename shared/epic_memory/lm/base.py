"""Protocol of language models, the types of their messages and answers, and a base class that limits their calls."""

from __future__ import annotations

import asyncio
import math
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

from epic_memory.runtime.effects import Effects, arun, run
from epic_memory.types.validation import checked_whole

C = TypeVar("C")

SECONDS = 120.0
"""Default time limit for an answer."""

Schema: TypeAlias = Mapping[str, Any]
"""A JSON schema that the answer should follow."""

# The servers' and frameworks' words for an answer that grew too long.
_CUT = {"length", "max_tokens", "max_output_tokens", "model_length"}


@dataclass(frozen=True)
class Message:
    """One message of a conversation with a model."""

    role: Literal["system", "user", "assistant"]
    content: str


class Token(NamedTuple):
    """A token of an answer and its natural log-probability, at most 0."""

    text: str
    logprob: float


@dataclass(frozen=True, kw_only=True)
class Completion:
    """The answer of a model.

    Attributes:
        text: The answer, without thinking that the server reports separately.
        tokens: Its tokens in order, with log-probabilities; None if the server gives none.
        prompt_tokens, completion_tokens: As the server counts them; 0 if it does not.
        cut: Whether the answer ended because it grew too long.
    """

    text: str
    tokens: tuple[Token, ...] | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cut: bool = False


@runtime_checkable
class LanguageModel(Protocol):
    """Protocol of a model that answers messages.

    Failures are raised as `epic_memory.errors.LMError`s, which say whether trying again can help; any other exception
    is treated as temporary. The caller makes the retries, not the model.

    Attributes:
        name: Identifies the model; verdicts are cached under it.
        concurrency: How many calls it takes at the same time, at least 1.
        context: Tokens for prompt and answer together; None if not known.
    """

    name: str
    concurrency: int
    context: int | None

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return the answer, of at most `max_tokens` tokens, in the form of `schema` if the model supports it."""
        ...

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return an answer as `complete` does, without blocking the event loop."""
        ...


def probability(tokens: Sequence[Token] | None, text: str, span: tuple[int, int] | None) -> float | None:
    """Return the probability of a span of an answer, in [0, 1]: the product over all tokens of the span.

    Return None if there are no log-probabilities, or if the tokens of the span cannot be identified.
    """
    if not tokens or span is None or span[0] >= span[1]:
        return None
    joined = "".join(token.text for token in tokens)
    begin = joined.rfind(text)
    if begin < 0:
        # Tokens that are parts of a character do not add up to the text, so the words are counted instead.
        word = re.compile(re.escape(text[slice(*span)]))
        spans = [match.span() for match in word.finditer(joined)]
        if len(spans) != len(word.findall(text)):
            return None
        first, last = spans[len(word.findall(text[: span[0]]))]
    else:
        first, last = begin + span[0], begin + span[1]
    total, place = 0.0, 0
    for token in tokens:
        end = place + len(token.text)
        if end > first and place < last:
            total += token.logprob
        place = end
    return None if math.isnan(total) else math.exp(min(total, 0.0))


def tokens_of(given: Any) -> tuple[Token, ...] | None:
    """Return an answer's tokens, under "content" (OpenAI) or as a list (Ollama), or None if they are not complete."""
    given = given.get("content") if isinstance(given, Mapping) else getattr(given, "content", given)
    try:
        parts = [part if isinstance(part, Mapping) else vars(part) for part in given or ()]
        tokens = tuple(Token(str(part["token"]), float(part["logprob"])) for part in parts)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return None if not tokens or any(math.isnan(token.logprob) for token in tokens) else tokens


def is_cut(ends: Iterable[object]) -> bool:
    """Tell whether one of the reasons for which an answer ended is its length."""
    return any(str(getattr(end, "name", end)).lower() in _CUT for end in ends)


class LoopClients(Generic[C]):
    """One open client for each event loop, for as long as a call of that loop is running; `close` closes it.

    A client belongs to the loop it was made in. Closing it after each call would cost a new connection for each call;
    leaving it open would leave sockets open when the loop ends.
    """

    def __init__(self, make: Callable[[], C], close: Callable[[C], Awaitable[None]] | None = None) -> None:
        self._make = make
        self._close = close
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[C, int]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[C]:
        """Return a context with the running loop's client, which is closed when its last user leaves. Uses may nest."""
        loop = asyncio.get_running_loop()
        with self._lock:
            client, users = self._open[loop] if loop in self._open else (self._make(), 0)
            self._open[loop] = client, users + 1
        try:
            yield client
        finally:
            with self._lock:
                _, users = self._open[loop]
                if users > 1:
                    self._open[loop] = client, users - 1
                else:
                    del self._open[loop]
            if users == 1 and self._close is not None:
                await self._close(client)


class LimitedLM(ABC):
    """Base of a language model that lets at most `concurrency` calls through at once: of all threads, and of each loop.

    Raises:
        InvalidInputError: for a concurrency below 1, or a context of less than 256 tokens.
    """

    def __init__(self, name: str, *, concurrency: int, context: int | None) -> None:
        self.name = name
        self.concurrency = checked_whole(concurrency, "concurrency", 1)
        self.context = None if context is None else checked_whole(context, "context, in tokens,", 256)
        # A model of a server sets its clients.
        self._clients: LoopClients[Any] | None = None
        self._threads = threading.BoundedSemaphore(concurrency)
        # A semaphore belongs to one loop, and a reference to it would keep that loop alive.
        self._loops = LoopClients(lambda: asyncio.Semaphore(concurrency))

    @abstractmethod
    def _completing(
        self, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None
    ) -> Effects[Completion]:
        """Return the model's answer, in effects."""

    def session(self) -> AbstractAsyncContextManager[Any]:
        """Return a context that keeps the connections of the running event loop open between calls."""
        return nullcontext() if self._clients is None else self._clients.client()

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return the model's answer."""
        with self._threads:
            return run(self._completing(messages, schema, max_tokens))

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return an answer as `complete` does, without blocking the event loop."""
        async with self._loops.client() as gate, gate, self.session():
            return await arun(self._completing(messages, schema, max_tokens), threaded=False)
