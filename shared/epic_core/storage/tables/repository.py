"""The base of the repositories: statements about one table, over the connection of its file."""

from __future__ import annotations

from pathlib import Path

from epic_core.storage.sqlite.database import Database


class Repository:
    """Reads and writes one table, or some that belong together.

    Args:
        db: The file, or a database in memory.
    """

    def __init__(self, db: Database) -> None:
        self.db = db

    @property
    def path(self) -> Path | None:
        """The file, as it was named; None for memory."""
        return self.db.path
