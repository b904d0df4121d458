"""One algorithm, two ways to run it.

The memory's work is written once, as generators that yield what they need from outside: texts to encode,
candidates to verify, a fallback to ask. `run` answers these with synchronous calls, `arun` with asynchronous
ones and with worker threads for the rest, so that both paths give the same result.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from epic_core.encoders.base import Encoder, aembed, embed
from epic_core.errors import InvalidInputError, VerifierError
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
        for verdict in verifier.verify(candidates):
            _accept(verdicts, candidates, verdict)
    except VerifierError:
        raise
    except Exception as error:
        return Verified(verdicts, writable(f"{type(error).__name__}: {error}"))
    return _complete(verdicts, candidates, verifier)


async def _averified(verifier: Verifier, candidates: Sequence[Candidate]) -> Verified:
    verdicts: list[Verdict] = []
    try:
        async for verdict in verifier.averify(candidates):
            _accept(verdicts, candidates, verdict)
    except VerifierError:
        raise
    except Exception as error:
        return Verified(verdicts, writable(f"{type(error).__name__}: {error}"))
    return _complete(verdicts, candidates, verifier)


def _accept(verdicts: list[Verdict], candidates: Sequence[Candidate], verdict: object) -> None:
    if len(verdicts) == len(candidates):
        raise VerifierError(f"The verifier yielded more verdicts than the {len(candidates)} candidates it was given.")
    verdicts.append(checked_verdict(candidates[len(verdicts)], verdict))


def _complete(verdicts: list[Verdict], candidates: Sequence[Candidate], verifier: Verifier) -> Verified:
    missing = len(candidates) - len(verdicts)
    return Verified(verdicts, f"verifier {verifier.name!r} gave no verdict" if missing else None)


def _asked(request: Ask) -> Any:
    fallback = request.fallback
    search = getattr(fallback, "search", None)
    found = search(request.query, request.k) if callable(search) else fallback(request.query, request.k)
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise InvalidInputError("This fallback is asynchronous. Use asearch, or give a synchronous fallback.")
    return found


async def _aasked(request: Ask) -> Any:
    fallback = request.fallback
    search = getattr(fallback, "asearch", None)
    if callable(search):
        return await search(request.query, request.k)
    search = getattr(fallback, "search", None)
    call = search if callable(search) else fallback
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__):
        return await call(request.query, request.k)
    found = await in_thread(call, request.query, request.k)
    return await found if inspect.isawaitable(found) else found
