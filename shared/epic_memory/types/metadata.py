"""Metadata: checks, copies and the JSON form in which it is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any
from uuid import UUID

import numpy as np

from epic_memory.errors import InvalidInputError


def copied(value: Any) -> Any:
    """Return a value with copies of its dicts and lists at every level; all other values are shared."""
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list) else value


_DEEPEST = 64


def check_nested(value: Any, deeper: int = _DEEPEST) -> None:
    """Raise an error for keys that JSON would silently change and for nesting too deep to be read back everywhere.

    Raises:
        TypeError: for a key that is not a string.
        ValueError: for more than 64 nested levels.
    """
    if not deeper:
        raise ValueError("it is nested too deeply")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{key!r} is no string, as a key has to be")
        value = value.values()
    for part in value:
        if isinstance(part, (Mapping, list, tuple)):
            check_nested(part, deeper - 1)


def plain(value: Any) -> Any:
    """Return a date, a time or a UUID as text, and a number of numpy's as one of Python's: values that JSON knows.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is no value of JSON")


def dumped_metadata(metadata: Mapping[str, Any], item_id: str, what: str = "item", *, ordered: bool = False) -> str:
    """Return metadata as the JSON that is stored: dates, times and UUIDs as ISO text, numpy's numbers as numbers.

    Args:
        metadata: The metadata.
        item_id: The id of its owner, for the error.
        what: The kind of its owner, for the error.
        ordered: Whether to keep the order of the keys instead of sorting them.

    Raises:
        InvalidInputError: if it is not JSON.
    """
    if not metadata:
        return "{}"
    try:
        check_nested(metadata)
        dumped = json.dumps(
            dict(metadata),
            ensure_ascii=False,
            allow_nan=False,
            sort_keys=not ordered,
            separators=(",", ":"),
            default=plain,
        )
        dumped.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"The metadata of {what} {item_id!r} is not JSON: {error}. Use strings, finite numbers, dates, lists or"
            " mappings."
        ) from None
    return dumped
