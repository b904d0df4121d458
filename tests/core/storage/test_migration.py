"""Migrations: a file of an earlier version is brought to a later one, whole or not at all.

No version but the first was released: the later one is made here, a column more in the table of preferences.
"""

from __future__ import annotations

import lzma
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_core import EpicMemory, Preference
from epic_core.errors import DamagedError, StoreError
from epic_core.storage.memory_schema import MEMORY, PREFERENCES
from epic_core.storage.sqlite.tables import change_columns
from epic_core.storage.store import Store
from helpers import HashEncoder, KeepAll

WINE, SEA = "red wine", "blue sea"
AFTER = replace(PREFERENCES, checked=(*PREFERENCES.checked, "colour"))
BEFORE = next(one for one in MEMORY.statements.split(";\n") if "TABLE preferences" in one)
STATEMENT = BEFORE.replace("crc INTEGER", "colour TEXT, crc INTEGER")


def coloured(db: sqlite3.Connection, path: Path | None) -> None:
    change_columns(db, path, PREFERENCES, AFTER, STATEMENT, colour="blue")


LATER = replace(
    MEMORY,
    version=MEMORY.version + 1,
    statements=MEMORY.statements.replace(BEFORE, STATEMENT),
    tables=tuple(AFTER if table is PREFERENCES else table for table in MEMORY.tables),
    small=tuple(AFTER if table is PREFERENCES else table for table in MEMORY.small),
    migrations=(*MEMORY.migrations, coloured),
)


class LaterStore(Store):
    schema = LATER


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of the first version, with a preference that was there and has gone."""
    path = tmp_path / "me.epic"
    with EpicMemory.open(path, [WINE, SEA, "green hills"], encoder=HashEncoder(), verifier=KeepAll()) as memory:
        memory.add(["a glass of red wine", "a blue sea", "green hills and wine"])
        memory.remove_preference("green hills")
    return path


def test_a_file_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    # Made with version 1: the preference "red wine", and an item that is kept for it.
    path.write_bytes(lzma.decompress(Path(__file__).with_name("version_1.epic.xz").read_bytes()))
    with EpicMemory.open(path, encoder=HashEncoder(), verifier=KeepAll()) as memory:
        assert memory.verify() > 0 and [item.text for item in memory.items()] == ["a glass of red wine"]
        memory.add_fact("I live in Porto.")
        assert [fact.text for fact in memory.facts()] == ["I live in Porto."]


def rows(path: Path, table: str, columns: str = "*") -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(f"SELECT {columns} FROM {table}").fetchall()


def test_what_was_held_is_held_with_the_new_column(path: Path) -> None:
    old = ", ".join(name for name in PREFERENCES.columns if name != "crc")
    before = {table: rows(path, table) for table in ("items", "entries", "uses", "meta")}
    preferences = rows(path, "preferences", old)
    assert len(before["entries"]) >= 2
    LaterStore(path).close()
    assert {table: rows(path, table) for table in before} == before
    assert rows(path, "preferences", old) == preferences
    assert rows(path, "preferences", "colour") == [("blue",), ("blue",)]
    with closing(LaterStore(path)) as store:
        assert store.verify() > 0
        assert store.scalar("PRAGMA user_version") == MEMORY.version + 1
        assert store.scalar("PRAGMA foreign_keys") == 1


def test_a_number_that_was_given_is_not_given_again(path: Path) -> None:
    given = dict(rows(path, "sqlite_sequence", "name, seq"))["preferences"]
    with closing(LaterStore(path)) as store, store.transaction():
        row = store.insert(
            AFTER,
            **dict.fromkeys(AFTER.checked)
            | {"namespace": "n", "id": "x", "text": "x", "colour": "red", "vector": np.zeros(4, np.float32).tobytes()},
        )
    assert row == given + 1


def test_what_is_written_afterwards_is_counted(path: Path) -> None:
    with closing(LaterStore(path)) as store, store.transaction():
        store.take_out("default", rows(path, "preferences", "row")[0][0], Preference(text=WINE).id)
    with closing(LaterStore(path)) as store:
        assert store.verify() > 0
        assert len(store.read("SELECT 1 FROM preferences")) == 1


def test_opening_it_again_changes_nothing(path: Path) -> None:
    LaterStore(path).close()
    after = path.read_bytes()
    LaterStore(path).close()
    assert path.read_bytes() == after


def test_one_that_fails_in_the_middle_leaves_the_file_as_it_was(path: Path) -> None:
    class Failing(Store):
        schema = replace(LATER, migrations=(*MEMORY.migrations, lambda db, path: (coloured(db, path), 1 / 0)))

    before = {table: rows(path, table) for table in ("items", "entries", "preferences", "sums")}
    with pytest.raises(ZeroDivisionError):
        Failing(path)
    assert {table: rows(path, table) for table in before} == before
    with EpicMemory.open(path, encoder=HashEncoder(), verifier=KeepAll()) as memory:
        assert memory.search(WINE)


def test_a_row_that_is_damaged_is_not_brought_along(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE preferences SET text = 'white wine' WHERE text = ?", (WINE,))
    with pytest.raises(DamagedError):
        LaterStore(path)
    assert rows(path, "preferences", "count(*)") == [(2,)]


def test_a_file_that_may_only_be_read_is_a_clear_error_and_stays(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(StoreError, match=rf"older epic-memory .schema version {MEMORY.version}.*Open it for writing"):
        LaterStore(path, read_only=True)
    assert path.read_bytes() == before


def test_a_file_older_than_the_first_migration_is_a_clear_error(path: Path) -> None:
    class MuchLater(Store):
        schema = replace(LATER, version=MEMORY.version + len(LATER.migrations) + 1)

    with pytest.raises(
        StoreError, match=f"schema version {MEMORY.version}, which this epic-memory cannot bring up to date"
    ):
        MuchLater(path)


def test_a_later_file_is_refused_by_the_earlier_version(path: Path) -> None:
    LaterStore(path).close()
    with pytest.raises(
        StoreError, match=f"schema version {MEMORY.version + 1}, this epic-memory reads {MEMORY.version}"
    ):
        Store(path)
