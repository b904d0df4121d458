"""The exceptions epic-memory raises; every message says what is wrong and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class EpicError(Exception):
    """Base of every error this package raises on purpose."""


class InvalidInputError(EpicError, ValueError):
    """An argument, an item, a preference or an input file cannot be used as it is."""


class NoPreferencesError(EpicError):
    """A stage that needs preferences was run without any."""


class DuplicatePreferenceError(InvalidInputError):
    """The same preference was given, or is held, twice."""


class UnknownPreferenceError(EpicError, LookupError):
    """No preference with that text or id is held."""


class UnknownItemError(EpicError, LookupError):
    """No item with that id is held."""


class UnknownEntityError(EpicError, LookupError):
    """A graph has no entity of that name."""


class EncoderError(EpicError):
    """An encoder could not be loaded or reached, or returned something that is no embedding."""


class EncoderMismatchError(EncoderError):
    """A file was made with another encoder than the one it was opened with."""


class PreferencesMismatchError(EpicError):
    """A file holds other preferences than those it was opened with."""


class VerifierError(EpicError):
    """A verifier broke the contract of its seam."""


class LMError(EpicError):
    """A language model gave no answer to a request that another request may get."""


class LMUnavailableError(LMError):
    """No answer now: no server, a timeout, an overloaded or failing server. Later it may answer.

    Attributes:
        timed_out: Whether the time given for an answer ran out.
        retry_after: Seconds the server asks to wait, or None.
    """

    def __init__(self, message: str, *, timed_out: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.timed_out = timed_out
        self.retry_after = retry_after


class LMSetupError(LMError):
    """No answer to anything before the user changes something: the model is not pulled, the key is wrong."""


class UndecidedError(EpicError):
    """Some items are without a verdict, as a model failed; what was decided is remembered."""


class RetryQueueFullError(EpicError):
    """More items are undecided than the retry queue takes."""


class StoreError(EpicError):
    """A memory's file cannot be read or written."""


class DamagedError(StoreError):
    """A memory's file is not as it was written."""

    def __init__(self, path: object, what: str) -> None:
        super().__init__(f"{path or 'The memory'} is damaged: {what}. Go back to a copy (`epic backup` makes them).")


class AlreadyThereError(StoreError):
    """There is a file already where one was to be written."""


class ReadOnlyError(StoreError):
    """A memory that was opened for reading only cannot be changed."""


class BudgetError(StoreError):
    """A byte budget is too small for what a memory has to hold."""


class MemoryClosedError(StoreError):
    """The memory was used after `close()`."""


class MissingExtraError(EpicError, ImportError):
    """A feature needs a package that is not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed. Install it with: pip install 'epic-memory[{extra}]'"
            f" (from a clone: pip install '.[{extra}]')",
            name=package,
        )


@contextmanager
def decoding(path: Path | None) -> Iterator[None]:
    """A file that holds what we never write is damaged."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise DamagedError(path, str(error)[:200]) from None
