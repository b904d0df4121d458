"""What a verifier or a rewriter answers, in portions that are committed as they come.

A portion ends when it is large enough or a moment has passed since it began, so that what a slow model decided is
committed at once and what a fast one decides costs few commits; when something is wrong; or when the work is
interrupted: what was decided until then is handed out first, and the interruption after it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from epic_core.errors import VerifierError
from epic_core.types.validation import writable

if TYPE_CHECKING:
    pass

R = TypeVar("R")

LARGEST_PORTION = 256
_MOMENT = 0.05


@dataclass
class Portion(Generic[R]):
    """Some answers, by the position of what was asked.

    Attributes:
        answers: Position and answer, in the order in which they came.
        last: Whether there will be no more.
        failure: Why the rest has no answer, if this is the last portion and some have none.
        stopped: The interruption that ended it.
    """

    answers: list[tuple[int, R]] = field(default_factory=list)
    last: bool = False
    failure: str | None = None
    stopped: BaseException | None = None


class Portions(Generic[R]):
    """The answers to a sequence of questions, each with its position, as somebody gives them.

    Args:
        count: How many questions there are.
        answers: Starts answering: positions and answers.
        aanswers: As `answers`, asynchronously.
        check: Makes an answer what it should be, or raises VerifierError.
        name: Of who answers.
        size: After so many answers a portion ends.
    """

    def __init__(
        self,
        count: int,
        *,
        answers: Callable[[], Iterator[tuple[int, Any]]],
        aanswers: Callable[[], AsyncIterator[tuple[int, Any]]],
        check: Callable[[int, Any], R],
        name: str,
        size: int = LARGEST_PORTION,
    ) -> None:
        self._open = set(range(count))
        self._start = answers
        self._astart = aanswers
        self._check = check
        self._name = name
        self._size = max(1, size)
        self._running: Iterator[tuple[int, Any]] | None = None
        self._arunning: AsyncIterator[tuple[int, Any]] | None = None

    def portion(self) -> Portion[R]:
        """The next portion."""
        portion: Portion[R] = Portion()
        began = time.perf_counter()
        try:
            if self._running is None:
                self._running = self._start()
            while not self._full(portion, began):
                try:
                    position, answer = next(self._running)
                except StopIteration:
                    self._end(portion)
                    break
                self._take(portion, position, answer)
        except VerifierError:
            self.close()
            raise
        except Exception as error:
            self._fail(portion, error)
        except BaseException as stop:
            if not portion.answers:
                self.close()
                raise
            portion.stopped = stop
        if portion.last or portion.stopped:
            self.close()
        return portion

    async def aportion(self) -> Portion[R]:
        """As `portion`, without blocking the event loop."""
        portion: Portion[R] = Portion()
        began = time.perf_counter()
        try:
            if self._arunning is None:
                self._arunning = self._astart()
            while not self._full(portion, began):
                try:
                    position, answer = await self._arunning.__anext__()
                except StopAsyncIteration:
                    self._end(portion)
                    break
                self._take(portion, position, answer)
        except VerifierError:
            await self.aclose()
            raise
        except Exception as error:
            self._fail(portion, error)
        except asyncio.CancelledError as stop:
            if not portion.answers:
                await self.aclose()
                raise
            portion.stopped = stop
        if portion.last or portion.stopped:
            await self.aclose()
        return portion

    def close(self) -> None:
        """Let go of what the answerer holds open, at once and not when it is collected."""
        if isinstance(self._running, GeneratorType):
            self._running.close()

    async def aclose(self) -> None:
        """As `close`."""
        if isinstance(self._arunning, AsyncGeneratorType):
            await self._arunning.aclose()

    def _full(self, portion: Portion[R], began: float) -> bool:
        many = len(portion.answers)
        if not self._open:
            return False  # how it ends is still to come: well, or with an interruption
        return many >= self._size or (many > 0 and time.perf_counter() - began >= _MOMENT)

    def _take(self, portion: Portion[R], position: int, answer: object) -> None:
        if position not in self._open:
            raise VerifierError(f"{self._name} gave more answers than it was asked for.")
        portion.answers.append((position, self._check(position, answer)))
        self._open.discard(position)

    def _end(self, portion: Portion[R]) -> None:
        portion.last = True
        portion.failure = f"{self._name} gave no verdict" if self._open else None

    def _fail(self, portion: Portion[R], error: Exception) -> None:
        portion.last = True
        portion.failure = writable(f"{type(error).__name__}: {error}")


def streamed(
    source: Any,
    given: Sequence[Any],
    kind: type[R] | tuple[type[R], ...],
    name: str,
    *,
    sound: Callable[[R], bool] = lambda _: True,
) -> Portions[R]:
    """What `stream` and `astream` of a source yield for what they are given."""

    def checked(_: int, answer: Any) -> R:
        if not isinstance(answer, kind):
            wanted = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
            raise VerifierError(f"The {name} must yield {wanted} objects, not {type(answer).__name__}.")
        if not sound(answer):
            raise VerifierError(f"The {name} yielded an object of {type(answer).__name__} that does not hold texts.")
        return answer

    return Portions(
        len(given),
        answers=lambda: source.stream(given),
        aanswers=lambda: source.astream(given),
        check=checked,
        name=name,
    )
