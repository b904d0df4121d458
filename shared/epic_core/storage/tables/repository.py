"""Base class of the repositories, with statements about one table over the connection of its file."""

from __future__ import annotations

from pathlib import Path

from epic_core.storage.sqlite.database import Database


class Repository:
    """Reader and writer of one table, or of some that belong together.

    Args:
        db: The file, or a database in memory.
    """

    def __init__(self, db: Database) -> None:
        self.db = db

    @property
    def path(self) -> Path | None:
        """The path of the file as it was given; None for memory."""
        return self.db.path
