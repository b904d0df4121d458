"""Sequence that shows what a memory holds at the moment it is read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

Element = TypeVar("Element")


class Live(Sequence[Element]):
    """A sequence that reads the memory with each access; `list(...)` of it keeps the present state."""

    @abstractmethod
    def _read(self) -> list[Element]:
        """Return the present elements, in order."""

    def __len__(self) -> int:
        return len(self._read())

    def __iter__(self) -> Iterator[Element]:
        return iter(self._read())

    @overload
    def __getitem__(self, place: int) -> Element: ...
    @overload
    def __getitem__(self, place: slice) -> list[Element]: ...
    def __getitem__(self, place: int | slice) -> Element | list[Element]:
        return self._read()[place]

    def __contains__(self, element: object) -> bool:
        return element in self._read()

    def __eq__(self, other: object) -> bool:
        return list(other) == self._read() if isinstance(other, (list, tuple, Live)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._read())
