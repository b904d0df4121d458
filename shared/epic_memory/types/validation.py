"""Checks of a caller's texts, counts and points in time, each with an error that says what to do."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from numbers import Integral, Real
from pathlib import Path
from typing import TypeVar

from epic_memory.errors import InvalidInputError

T = TypeVar("T")
_MOST = 2**31 - 1  # more than any memory holds, and what every index can count
_NAMESPACE = uuid.UUID("6f3f7a52-8d0e-5c66-9a3e-6570696331f0")


def stable_id(*parts: str) -> str:
    """Return a deterministic uuid5 for a sequence of strings."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(parts)))


def one_of(name: str, value: object, known: Sequence[T]) -> T:
    """Return a value that is among the known ones; else raise an `InvalidInputError` about the argument `name`."""
    for one in known:
        if value == one:
            return one
    raise InvalidInputError(f"{name} must be one of {', '.join(map(str, known))}; not {value!r}.")


def checked_k(k: object, name: str = "k") -> int:
    """Return the number of results wanted, at least 1, as `checked_whole` does."""
    return min(checked_whole(k, name, 1), _MOST)


def checked_whole(value: object, name: str, least: int) -> int:
    """Return a whole number of at least `least`; else raise an `InvalidInputError` about the argument `name`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InvalidInputError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    return int(value)


def checked_string(text: object, what: str) -> str:
    """Return a string that UTF-8 can hold, empty or not; anything else is an `InvalidInputError`."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} must be a string, not {type(text).__name__}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{what} is not valid Unicode ({error.reason}). Decode it anew.") from None
    return text


def checked_text(text: object, what: str) -> str:
    """Return a string with more than white space and no NUL in it; anything else is an `InvalidInputError`."""
    text = checked_string(text, what)
    if not text.strip():
        raise InvalidInputError(f"{what} is empty. Leave it out, or give it some text.")
    if "\x00" in text:
        raise InvalidInputError(f"{what} contains a NUL character. Remove it, it is not text.")
    return text


def moment(seconds: float) -> datetime:
    """Return the point in time, in UTC, for Unix seconds."""
    return datetime.fromtimestamp(seconds, timezone.utc)


def checked_moment(value: object) -> datetime:
    """Return a point in time in UTC, given as a datetime with its zone or as ISO 8601 text.

    Raises:
        InvalidInputError: for anything else, or a date out of range.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            raise InvalidInputError(f"{value!r} is no date. Write it like 2027-03-31T12:00:00+01:00.") from None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidInputError(
            f"expires_at must be a datetime with a time zone, or text like 2027-03-31T12:00:00+01:00; not {value!r}."
        )
    try:
        return moment(value.timestamp())
    except (OverflowError, ValueError, OSError):
        raise InvalidInputError(f"expires_at {value!r} is out of range.") from None


def writable(text: str) -> str:
    """Return a text without NUL characters, and with "?" for characters that a model wrote but UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "")


def checked_tau(tau: float, what: str = "tau") -> float:
    """Return tau as a float; anything but a number in [-1, 1] is an `InvalidInputError`."""
    if not isinstance(tau, Real) or isinstance(tau, bool) or not -1.0 <= tau <= 1.0:
        raise InvalidInputError(f"{what} must be a cosine between -1 and 1, not {tau!r}.")
    return float(tau)


def checked_share(share: float, name: str) -> float:
    """Return the share as a float; anything but a number in (0, 1] is an `InvalidInputError`."""
    if not isinstance(share, Real) or isinstance(share, bool) or not 0.0 < share <= 1.0:
        raise InvalidInputError(f"{name} must be a share in (0, 1], not {share!r}.")
    return float(share)


def checked_ids(item_ids: Iterable[str]) -> list[str]:
    """Return the ids of items; anything but several ids is an `InvalidInputError`."""
    if isinstance(item_ids, str) or not isinstance(item_ids, Iterable):
        raise InvalidInputError(f"Give the ids in a list, not as {type(item_ids).__name__}.")
    return [checked_string(item_id, "An item's id") for item_id in item_ids]


def checked_path(path: str | Path) -> Path:
    """Return the path of a file to be written; what names no file is an `InvalidInputError`."""
    if not isinstance(path, (str, Path)) or not str(path):
        raise InvalidInputError(f"The name of a file is needed, not {path!r}.")
    return Path(path)
