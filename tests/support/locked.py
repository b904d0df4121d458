"""Locking of every file that a test or its workers make, where SQLCipher is installed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from sqlcipher3 import dbapi2

from epic_memory.storage.sqlite import files, locking
from epic_memory.storage.sqlite.database import Database

KEY = locking.Key("what the tests lock with")
LOCKED = "EPIC_TESTS_LOCKED"
"""Environment variable by which workers know."""


def lock_files(patch: pytest.MonkeyPatch) -> None:
    """Lock what is opened from now on, and have plain SQLite connections of tests open it, too."""
    patch.setenv(LOCKED, "1")
    patch.setattr(locking, "_ROUNDS", 2)  # else each file takes a tenth of a second
    begin, encoder_in, connect = Database.__init__, files.encoder_in, sqlite3.connect

    def locked(self: Database, path: Any, *, key: locking.Key | None = None, **options: Any) -> None:
        begin(self, path, key=KEY if key is None and path is not None else key, **options)

    def connected(target: Any, *args: Any, **options: Any) -> sqlite3.Connection:
        place = Path(urlparse(target).path if options.get("uri") else target)
        start = place.read_bytes()[:16] if place.is_file() else b""
        if not start or start.startswith(b"SQLite"):
            return connect(target, *args, **options)
        made = locking.connect(str(target), KEY, start, uri=options.get("uri", False))
        made.isolation_level = options.get("isolation_level", "")
        return made

    patch.setattr(Database, "__init__", locked)
    patch.setattr(sqlite3, "connect", connected)
    for name in ("IntegrityError", "OperationalError"):
        patch.setattr(sqlite3, name, (getattr(sqlite3, name), getattr(dbapi2, name)))
    for module in ("epic_memory.memory", "epic_plugins.collection.collection"):
        with suppress(ModuleNotFoundError):  # the core's tests run without the plugins, too
            patch.setattr(f"{module}.encoder_in", lambda path, key=None: encoder_in(path, key or KEY))


if os.environ.get(LOCKED):
    lock_files(pytest.MonkeyPatch())
