"""Progress bar for long work, which moves with every verdict."""

from __future__ import annotations

from operator import length_hint
from types import TracebackType
from typing import TYPE_CHECKING, Any

from epic_memory.types import Item

if TYPE_CHECKING:
    from tqdm import tqdm


class Progress:
    """A counter of finished items, with or without a bar.

    Args:
        items: The items to be processed; their number is the total, also an estimate by `__length_hint__`.
        shown: Whether to show a bar.
    """

    def __init__(self, items: Any = None, *, shown: bool = False) -> None:
        self._bar: tqdm[Any] | None = None
        self._source = () if isinstance(items, (str, Item)) else items
        self._items = self._pieces = 1
        self._done = self._counted = 0
        if shown:
            from tqdm import tqdm

            self._bar = tqdm(total=length_hint(self._source) or None, unit=" items")

    def expect(self, total: int) -> None:
        """Set the total, once it is known."""
        if self._bar is not None:
            self._bar.reset(total)

    def begin(self, items: int, pieces: int, *, done: int) -> None:
        """Begin a batch of items that were cut into pieces, `done` of which are done already."""
        self._items, self._pieces = items, max(1, pieces)
        self._done = self._counted = 0
        if self._bar is not None and (total := length_hint(self._source)):
            self._bar.total = max(total, self._bar.n + items)
        self.advance(done)

    def advance(self, pieces: int) -> None:
        """Count finished pieces; the bar shows the number of items they amount to."""
        self._done += pieces
        if self._bar is not None:
            items = self._items * self._done // self._pieces
            self._bar.update(items - self._counted)
            self._counted = items

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
