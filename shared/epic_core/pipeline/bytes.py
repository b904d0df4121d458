"""Estimates of how many bytes of the file something will take."""

from __future__ import annotations

from epic_core.rows import deflated, dumped_metadata
from epic_core.types import Item

ROW = 160
"""What a row takes besides its columns."""


def item_bytes(item: Item) -> int:
    """Estimate the bytes of an item: its text as it is packed, its metadata and its id."""
    text = deflated(item.text)
    return (
        (len(text) if isinstance(text, bytes) else len(text.encode()))
        + len(dumped_metadata(item.metadata, item.id).encode())
        + 2 * len(item.id.encode())
        + ROW
    )
