"""Estimates of how many bytes of the file something will take, or touch."""

from __future__ import annotations

from epic_core.storage.row_codec import deflated
from epic_core.types import Item
from epic_core.types.metadata import dumped_metadata

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
