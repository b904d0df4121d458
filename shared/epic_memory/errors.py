"""Exceptions that epic-memory raises; each message says what is wrong and what to do about it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class EpicError(Exception):
    """Base class of every error that this package raises on purpose."""


class InvalidInputError(EpicError, ValueError):
    """Error for an argument, item, preference or input file that cannot be used."""


class NotCopiedError(InvalidInputError, pickle.PicklingError):
    """Error for a component that cannot be pickled or copied."""


class NoPreferencesError(EpicError):
    """Error of a stage that needs preferences and was run without any."""


class DuplicatePreferenceError(InvalidInputError):
    """Error for a preference that was given twice or is already held."""


class UnknownPreferenceError(EpicError, LookupError):
    """Error for a preference text or id that is not held."""


class UnknownItemError(EpicError, LookupError):
    """Error for an item id that is not held."""


class UnknownProposalError(EpicError, LookupError):
    """Error for the id of a proposal that is not open."""


class UnknownEntityError(EpicError, LookupError):
    """Error for an entity name that a graph does not have."""


class EncoderError(EpicError):
    """Error of an encoder that could not be loaded or reached, or that did not return an embedding."""


class EncoderMismatchError(EncoderError):
    """Error for a file that was made with another encoder than the one it is opened with."""


class PreferencesMismatchError(EpicError):
    """Error for a file that holds other preferences than those it is opened with."""


class VerifierError(EpicError):
    """Error of a verifier that does not keep to the `Verifier` protocol."""


class LMError(EpicError):
    """Error of a language model that did not answer one request; other requests may still be answered."""


class LMUnavailableError(LMError):
    """Error of a model that does not answer now but may later: no server, a timeout, an overloaded or failing server.

    Attributes:
        timed_out: Whether the time limit for an answer was exceeded.
        retry_after: Seconds that the server asks to wait, or None.
    """

    def __init__(self, message: str, *, timed_out: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.timed_out = timed_out
        self.retry_after = retry_after


class LMSetupError(LMError):
    """Error of a model that answers nothing until the user changes something: it is not pulled, or the key is wrong."""


class UndecidedError(EpicError):
    """Error for items left without a verdict because a model failed; verdicts already reached are kept."""


class RetryQueueFullError(EpicError):
    """Error for more undecided items than the retry queue can hold."""


class StoreError(EpicError):
    """Error for a memory file that cannot be read or written."""


class DamagedError(StoreError):
    """Error for a memory file whose content is not what the package wrote."""

    def __init__(self, path: object, what: str) -> None:
        super().__init__(f"{path or 'The memory'} is damaged: {what}. Go back to a copy (`epic backup` makes them).")


class LockedError(StoreError):
    """Error for a locked file that is opened without its key, or with another."""


class AlreadyThereError(StoreError):
    """Error for a file that was to be written but exists already."""


class ReadOnlyError(StoreError):
    """Error for a change to a memory that was opened for reading only."""


class BudgetError(StoreError):
    """Error for a byte budget that is too small for the contents of a memory."""


class MemoryClosedError(StoreError):
    """Error for a memory that is used after `close()`."""


class MissingExtraError(EpicError, ImportError):
    """Error for a feature whose package is not installed; the message names the extra to install."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed. Install it with: pip install 'epic-memory[{extra}]'"
            f" (from a clone: pip install '.[{extra}]')",
            name=package,
        )


class MissingPackageError(EpicError, ImportError):
    """Error for a part of this distribution that is not there."""

    def __init__(self, package: str) -> None:
        super().__init__(f"{package} is missing, which comes with epic-memory: install that anew.", name=package)


@contextmanager
def decoding(path: Path | None) -> Iterator[None]:
    """Raise `DamagedError` for a decoding error inside the block: the file holds something that we never write."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise DamagedError(path, str(error)[:200]) from None
