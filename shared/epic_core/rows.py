"""How items are written into rows, and what it means if a row cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epic_core.errors import InvalidInputError, StoreError


def dumped_metadata(metadata: Mapping[str, Any], item_id: str) -> str:
    """Metadata as it is stored.

    Raises:
        InvalidInputError: if it is not JSON.
    """
    try:
        dumped = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        dumped.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"The metadata of item {item_id!r} is not JSON: {error}. Use strings, finite numbers, lists or mappings."
        ) from None
    return dumped


@contextmanager
def decoding(path: Path | None) -> Iterator[None]:
    """A file that holds what we never write is damaged."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise StoreError(f"{path} is damaged: {str(error)[:200]}") from None
