"""Metadata: checked, copied, and written as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from epic_core.errors import InvalidInputError


def copied(value: Any) -> Any:
    """A value with its lists and mappings anew; what is in them may be anything."""
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list) else value


_DEEPEST = 64


def check_nested(value: Any, deeper: int = _DEEPEST) -> None:
    """Refuse what JSON would change without a word, or what is so deep that it could not be read back everywhere.

    Raises:
        TypeError: for a key that is no string.
        ValueError: for what is nested in too many levels.
    """
    if not deeper:
        raise ValueError("it is nested too deeply")
    if isinstance(value, Mapping):
        for key, part in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{key!r} is no string, as a key has to be")
            if isinstance(part, (Mapping, list, tuple)):
                check_nested(part, deeper - 1)
    else:
        for part in value:
            if isinstance(part, (Mapping, list, tuple)):
                check_nested(part, deeper - 1)


def dumped_metadata(metadata: Mapping[str, Any], item_id: str, what: str = "item", *, ordered: bool = False) -> str:
    """Metadata as it is stored; `what` it belongs to, for the error. `ordered` keeps the order of its keys.

    Raises:
        InvalidInputError: if it is not JSON.
    """
    try:
        check_nested(metadata)
        dumped = json.dumps(
            dict(metadata), ensure_ascii=False, allow_nan=False, sort_keys=not ordered, separators=(",", ":")
        )
        dumped.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"The metadata of {what} {item_id!r} is not JSON: {error}. Use strings, finite numbers, lists or mappings."
        ) from None
    return dumped
