"""File of a collection, as whatever holds it shows it: its checks, its copies, and its end."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Self

from epic_memory.storage.store import Store
from epic_plugins.copies import Open

if TYPE_CHECKING:
    from epic_plugins.collection.collection import Collection


class CollectionFile:
    """Base of what holds a collection, in a file or in RAM."""

    @abstractmethod
    def _file(self) -> Store:
        """Return the file."""

    @property
    def path(self) -> Path | None:
        """The file; None for RAM."""
        return self._file().path

    def verify(self) -> int:
        """Check every row of the file and return how many there are.

        Raises:
            DamagedError: if a row is not as it was written.
        """
        return self._file().verify()

    def backup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a copy of the last committed state, whole or not at all; also while it is in use.

        Raises:
            AlreadyThereError: if the file exists and `overwrite` is off.
            StoreError: if it cannot be written.
        """
        self._file().copy_to(Path(path), overwrite=overwrite)

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._file().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "in RAM" if self.path is None else str(self.path)
        return f"<{type(self).__name__} {where}{', closed' if self._file().closed else ''}>"


class OpenCollection(CollectionFile, Open):
    """Base of the stores of both frameworks, which copies share."""

    _collection: Collection

    def _file(self) -> Store:
        return self._collection._file()
