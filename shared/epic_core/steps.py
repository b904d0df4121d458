"""One algorithm, two ways to run it.

The memory's work is written once, as generators that yield what they need from outside: texts to encode,
candidates to verify, a fallback to ask. `run` answers these with synchronous calls, `arun` with asynchronous
ones and with worker threads for the rest, so that both paths give the same result.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import AsyncGeneratorType, GeneratorType
from typing import Any, TypeAlias, TypeVar

from epic_core.encoders.base import Encoder, aembed, embed
from epic_core.errors import InvalidInputError, VerifierError
from epic_core.fallback import ask, asynchronous_call
from epic_core.threads import in_thread
from epic_core.types import Candidate, Verdict
from epic_core.verification.base import Verifier, checked_verdict, writable

R = TypeVar("R")


@dataclass(frozen=True)
class Encode:
    """Asks for embeddings `(len(texts), d)` of texts; the time counts to a part of the report."""

    encoder: Encoder
    texts: Sequence[str]
    part: str


@dataclass(frozen=True)
class Verify:
    """Asks for verdicts; answered with a `Verified`."""

    candidates: Sequence[Candidate]


@dataclass(frozen=True)
class Verified:
    """Verdicts for the first candidates, and why the others have none."""

    verdicts: list[Verdict]
    failure: str | None


@dataclass(frozen=True)
class Ask:
    """Asks a fallback for the k results it finds best; answered with what it returns."""

    fallback: Any
    query: str
    k: int


Request: TypeAlias = Encode | Verify | Ask
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


def run(steps: Steps[R], verifier: Verifier, clock: Clock) -> R:
    """Run steps synchronously."""
    answer: Any = None
    try:
        while True:
            request, result = _advance(steps, answer)
            if request is None:
                ended: R = result
                return ended
            started = time.perf_counter()
            if isinstance(request, Encode):
                answer = embed(request.encoder, request.texts)
                clock.add(request.part, started)
            elif isinstance(request, Verify):
                answer = _verified(verifier, request.candidates)
                clock.add("verification", started)
            else:
                answer = _asked(request)
                clock.add("fallback", started)
    finally:
        steps.close()


async def arun(steps: Steps[R], verifier: Verifier, clock: Clock) -> R:
    """Run steps without blocking the event loop."""
    answer: Any = None
    try:
        while True:
            request, result = await in_thread(_advance, steps, answer)
            if request is None:
                ended: R = result
                return ended
            started = time.perf_counter()
            if isinstance(request, Encode):
                answer = await aembed(request.encoder, request.texts)
                clock.add(request.part, started)
            elif isinstance(request, Verify):
                answer = await _averified(verifier, request.candidates)
                clock.add("verification", started)
            else:
                answer = await _aasked(request)
                clock.add("fallback", started)
    finally:
        steps.close()


def _advance(steps: Steps[R], answer: Any) -> tuple[Request | None, Any]:
    # The end travels as a value: a StopIteration cannot cross a future, and one from an encoder means something else.
    try:
        return steps.send(answer), None
    except StopIteration as stop:
        return None, stop.value


def _verified(verifier: Verifier, candidates: Sequence[Candidate]) -> Verified:
    verdicts: list[Verdict] = []
    try:
        with _closing(verifier.verify(candidates)) as answers:
            for verdict in answers:
                _accept(verdicts, candidates, verdict)
    except VerifierError:
        raise
    except Exception as error:
        return Verified(verdicts, writable(f"{type(error).__name__}: {error}"))
    return _complete(verdicts, candidates, verifier)


async def _averified(verifier: Verifier, candidates: Sequence[Candidate]) -> Verified:
    verdicts: list[Verdict] = []
    try:
        async with _aclosing(verifier.averify(candidates)) as answers:
            async for verdict in answers:
                _accept(verdicts, candidates, verdict)
    except VerifierError:
        raise
    except Exception as error:
        return Verified(verdicts, writable(f"{type(error).__name__}: {error}"))
    return _complete(verdicts, candidates, verifier)


@contextmanager
def _closing(iterator: Iterator[Verdict]) -> Iterator[Iterator[Verdict]]:
    """What a verifier holds open is closed at once, not when it is collected."""
    try:
        yield iterator
    finally:
        if isinstance(iterator, GeneratorType):
            iterator.close()


@asynccontextmanager
async def _aclosing(iterator: AsyncIterator[Verdict]) -> AsyncIterator[AsyncIterator[Verdict]]:
    try:
        yield iterator
    finally:
        if isinstance(iterator, AsyncGeneratorType):
            await iterator.aclose()


def _accept(verdicts: list[Verdict], candidates: Sequence[Candidate], verdict: object) -> None:
    if len(verdicts) == len(candidates):
        raise VerifierError(f"The verifier yielded more verdicts than the {len(candidates)} candidates it was given.")
    verdicts.append(checked_verdict(candidates[len(verdicts)], verdict))


def _complete(verdicts: list[Verdict], candidates: Sequence[Candidate], verifier: Verifier) -> Verified:
    missing = len(candidates) - len(verdicts)
    return Verified(verdicts, f"verifier {verifier.name!r} gave no verdict" if missing else None)


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
