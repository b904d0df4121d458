"""File of a plugin's store: its checks, its copies, and its end."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import Self

from epic_memory.collection import Collection
from epic_plugins.copies import Open


class CollectionFile(Open):
    """Base of the stores that hold a collection, in a file or in RAM."""

    _collection: Collection

    @property
    def path(self) -> Path | None:
        """The file; None for a store in RAM."""
        return self._collection.path

    def verify(self) -> int:
        """Check every row of the file and return how many there are.

        Raises:
            DamagedError: if a row is not as it was written.
        """
        return self._collection.verify()

    def backup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a copy of the last committed state, whole or not at all; also while the store is in use.

        Raises:
            AlreadyThereError: if the file exists and `overwrite` is off.
            StoreError: if it cannot be written.
        """
        self._collection.backup(path, overwrite=overwrite)

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._collection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'in RAM' if self.path is None else self.path}>"
