"""Estimates of how many bytes of the file something will take, or touch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from epic_core.pipeline.session import State
from epic_core.storage.row_codec import deflated
from epic_core.types import Item
from epic_core.types.metadata import dumped_metadata

ROW = 160
"""What a row takes besides its columns."""
TOUCHED = 6_000
"""What removing one entry or item may touch, the text apart: its rows and those of the SQL indexes."""


def item_bytes(item: Item) -> int:
    """Estimate the bytes of an item: its text as it is packed, its metadata and its id."""
    text = deflated(item.text)
    return (
        (len(text) if isinstance(text, bytes) else len(text.encode()))
        + len(dumped_metadata(item.metadata, item.id).encode())
        + 2 * len(item.id.encode())
        + ROW
    )


def by_bytes(state: State, rows: Sequence[int], item_of: Callable[[int], int]) -> Iterator[list[int]]:
    """Rows in pieces, so that the journal of a change that removes or rewrites the items of one fits the budget."""
    budget = state.budget
    if budget is None:
        yield list(rows)
        return
    piece: list[int] = []
    octets = 0
    for row in rows:
        size = TOUCHED + 2 * state.store.items.bytes_of(item_of(row))
        if piece and octets + size > budget.touched // 2:
            yield piece
            piece, octets = [], 0
        piece.append(row)
        octets += size
    if piece:
        yield piece
