"""One algorithm, two ways to run it.

The memory's work is written once, as generators that yield what they need from outside: texts to encode,
verdicts, a fallback to ask. `run` answers these with synchronous calls, `arun` with asynchronous
ones and with worker threads for the rest, so that both paths give the same result.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from epic_core.encoders.base import Encoder, aembed, aembed_query, embed, embed_query
from epic_core.errors import InvalidInputError
from epic_core.pipeline.fallback import ask, asynchronous_call
from epic_core.runtime.streaming import Portions
from epic_core.runtime.threads import in_thread
from epic_core.steering.cache import Steerings
from epic_core.steering.query_steering import Mode, QuerySteering
from epic_core.types import FloatArray, Preference

if TYPE_CHECKING:
    from epic_core.steering.vector_stores import TextVectors

R = TypeVar("R")


@dataclass(frozen=True)
class Encode:
    """Asks for embeddings `(len(texts), d)` of texts, or of queries; the time counts to a part of the report."""

    encoder: Encoder
    texts: Sequence[str]
    part: str
    query: bool = False


@dataclass(frozen=True)
class Look:
    """Asks for embeddings `(len(texts), d)` of texts that are kept for a while; the time counts to a part."""

    kept: TextVectors
    texts: Sequence[str]
    part: str


@dataclass(frozen=True)
class Take:
    """Asks for the next portion of a verifier's, a rewriter's or an extractor's answers; answered with a `Portion`.

    The time counts to a part of the report.
    """

    portions: Portions[Any]
    part: str = "verification"


@dataclass(frozen=True)
class Ask:
    """Asks a fallback for the k results it finds best; answered with what it returns."""

    fallback: Any
    query: str
    k: int


@dataclass(frozen=True)
class Steer:
    """Asks for steering by some preferences; answered with a `QuerySteering` that is ready for queries."""

    steerings: Steerings
    preferences: tuple[Preference, ...]
    mode: Mode


@dataclass(frozen=True)
class Sample:
    """Asks steering to encode what it needs."""

    steering: QuerySteering


Request: TypeAlias = Encode | Look | Take | Ask | Steer | Sample
Steps: TypeAlias = Generator[Request, Any, R]


class Clock:
    """Adds up seconds by part."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}

    def add(self, part: str, started: float) -> float:
        """Count the time since `started` to a part; the time now."""
        now = time.perf_counter()
        self.parts[part] = self.parts.get(part, 0.0) + now - started
        return now


def run(steps: Steps[R], clock: Clock) -> R:
    """Run steps synchronously."""
    answer: Any = None
    request: Request | None = None
    stopped: BaseException | None = None
    try:
        while True:
            request, result = _advance(steps, answer)
            if stopped is not None and not isinstance(request, Encode):
                # What was decided before the interruption has been written.
                raise stopped
            if request is None:
                ended: R = result
                return ended
            started = time.perf_counter()
            if isinstance(request, Encode):
                answer = _encoded(request)
                clock.add(request.part, started)
            elif isinstance(request, Take):
                answer = request.portions.portion()
                stopped = answer.stopped
                clock.add(request.part, started)
            elif isinstance(request, Look):
                answer = request.kept.of(request.texts)
                clock.add(request.part, started)
            elif isinstance(request, Steer):
                answer = request.steerings.of(request.preferences, request.mode)
                clock.add("steering", started)
            elif isinstance(request, Sample):
                request.steering.prepare()
                answer = None
                clock.add("steering", started)
            else:
                answer = _asked(request)
                clock.add("fallback", started)
    finally:
        steps.close()
        if isinstance(request, Take):
            request.portions.close()


async def arun(steps: Steps[R], clock: Clock) -> R:
    """Run steps without blocking the event loop."""
    answer: Any = None
    request: Request | None = None
    stopped: BaseException | None = None
    try:
        while True:
            request, result = await in_thread(_advance, steps, answer)
            if stopped is not None and not isinstance(request, Encode):
                raise stopped
            if request is None:
                ended: R = result
                return ended
            started = time.perf_counter()
            if isinstance(request, Encode):
                answer = await _aencoded(request)
                clock.add(request.part, started)
            elif isinstance(request, Take):
                answer = await request.portions.aportion()
                stopped = answer.stopped
                clock.add(request.part, started)
            elif isinstance(request, Look):
                answer = await request.kept.aof(request.texts)
                clock.add(request.part, started)
            elif isinstance(request, Steer):
                answer = await request.steerings.aof(request.preferences, request.mode)
                clock.add("steering", started)
            elif isinstance(request, Sample):
                await request.steering.aprepare()
                answer = None
                clock.add("steering", started)
            else:
                answer = await _aasked(request)
                clock.add("fallback", started)
    finally:
        steps.close()
        if isinstance(request, Take):
            await request.portions.aclose()


def _advance(steps: Steps[R], answer: Any) -> tuple[Request | None, Any]:
    # The end travels as a value: a StopIteration cannot cross a future, and one from an encoder means something else.
    try:
        return steps.send(answer), None
    except StopIteration as stop:
        return None, stop.value


def _encoded(request: Encode) -> FloatArray:
    if request.query:
        return np.stack([embed_query(request.encoder, text) for text in request.texts])
    return embed(request.encoder, request.texts)


async def _aencoded(request: Encode) -> FloatArray:
    if request.query:
        return np.stack([await aembed_query(request.encoder, text) for text in request.texts])
    return await aembed(request.encoder, request.texts)


def _asked(request: Ask) -> Any:
    found = ask(request.fallback, request.query, request.k)
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise InvalidInputError("This fallback is asynchronous. Use asearch, or give a synchronous fallback.")
    return found


async def _aasked(request: Ask) -> Any:
    call = asynchronous_call(request.fallback, request.query, request.k)
    if call is not None:
        return await call
    found = await in_thread(ask, request.fallback, request.query, request.k)
    return await found if inspect.isawaitable(found) else found
