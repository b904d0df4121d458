"""Versions of a file: another one is refused, and a step from one to the next knows nothing of the present tables.

Nothing was released, so no file has a step yet: the steps here are those of a notebook.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from epic_memory import EpicMemory
from epic_memory.errors import DamagedError, StoreError
from epic_memory.storage.additions import memory_schema
from epic_memory.storage.codecs import checksum
from epic_memory.storage.sqlite.database import Database
from epic_memory.storage.sqlite.tables import Schema, Table
from epic_memory.storage.store import Store
from epic_plugins.collection import Collection
from helpers import HashEncoder

pytestmark = pytest.mark.usefixtures("locking")

NOTES_1 = Schema(
    noun="notebook",
    made_by="open it",
    application_id=0x4E4F5445,
    statements="CREATE TABLE meta (row INTEGER PRIMARY KEY, key TEXT, value TEXT, crc INTEGER);\n"
    "CREATE TABLE notes (row INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT, crc INTEGER);\n",
    small=("meta",),
)


def with_colours(db: sqlite3.Connection) -> None:
    """Version 1 to 2: a note has a colour."""
    rows = db.execute("SELECT row, text FROM notes").fetchall()
    (last,) = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'notes'").fetchone()
    db.execute("DROP TABLE notes")
    db.execute("CREATE TABLE notes (row INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT, colour TEXT, crc INTEGER)")
    values = [(row, text, "blue", checksum(text, "blue")) for row, text in rows]
    db.executemany("INSERT INTO notes VALUES (?, ?, ?, ?)", values)
    db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'notes'", (last,))
    db.execute("UPDATE sums SET total = (SELECT sum(crc) FROM notes) WHERE name = 'notes'")


def with_pens(db: sqlite3.Connection) -> None:
    """Version 2 to 3: pens."""
    db.execute("CREATE TABLE pens (row INTEGER PRIMARY KEY, ink TEXT, crc INTEGER)")
    db.execute("INSERT INTO sums VALUES ('pens', 0, 0)")


NOTES_2 = replace(
    NOTES_1,
    statements=NOTES_1.statements.replace("text TEXT", "text TEXT, colour TEXT"),
    migrations=(with_colours,),
)
NOTES_3 = replace(
    NOTES_2,
    statements=f"{NOTES_2.statements}CREATE TABLE pens (row INTEGER PRIMARY KEY, ink TEXT, crc INTEGER);\n",
    migrations=(with_colours, with_pens),
)


def opened(path: Path, schema: Schema, **options: Any) -> Database:
    kind = type("Notebook", (Database,), {"schema": schema})
    return kind(path, **options)  # type: ignore[no-any-return]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A notebook of the first version, with two notes; a third one was removed."""
    path = tmp_path / "notes"
    with closing(opened(path, NOTES_1)) as notes, notes.transaction():
        for text in ("red wine", "blue sea", "green hills"):
            notes.insert(NOTES_1.tables["notes"], text=text)
        notes.connection.execute("DELETE FROM notes WHERE text = 'green hills'")
    return path


def rows(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT * FROM notes").fetchall()


@pytest.mark.parametrize("steps", [[NOTES_2], [NOTES_3], [NOTES_2, NOTES_3]], ids=["2", "3", "2 then 3"])
def test_a_file_is_brought_to_the_version_of_whoever_opens_it(path: Path, steps: list[Schema]) -> None:
    for schema in steps:
        opened(path, schema).close()
    bytes_then = path.read_bytes()
    with closing(opened(path, steps[-1])) as notes:
        assert notes.scalar("PRAGMA user_version") == steps[-1].version == 1 + len(steps[-1].migrations)
        assert notes.scalar("PRAGMA foreign_keys") == 1
        assert notes.verify() == 2
        assert [row[1:3] for row in rows(path)] == [("red wine", "blue"), ("blue sea", "blue")]
        assert path.read_bytes() == bytes_then
        with notes.transaction():
            assert notes.insert(NOTES_2.tables["notes"], text="new", colour="red") == 4
        assert notes.verify() == 3


def test_a_step_that_fails_or_makes_other_tables_leaves_the_file_as_it_was(path: Path) -> None:
    before = rows(path)
    broken = replace(NOTES_2, migrations=(lambda db: (with_colours(db), 1 / 0),))
    for schema, error in ((broken, ZeroDivisionError), (replace(NOTES_2, migrations=(with_pens,)), DamagedError)):
        with pytest.raises(error):
            opened(path, schema)
        assert rows(path) == before
    opened(path, NOTES_1).close()


def test_a_file_that_may_only_be_read_is_a_clear_error_and_stays(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"older epic-memory .schema version 1.*Open it for writing"):
        opened(path, NOTES_2, read_only=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "kind",
    [Store, partial(Collection, HashEncoder()), partial(EpicMemory.open, encoder=HashEncoder())],
)
@pytest.mark.parametrize("version", [-1, 0, 2, 3])
def test_a_file_of_another_version_is_refused_and_stays(tmp_path: Path, kind: Any, version: int) -> None:
    path = tmp_path / "me.epic"
    kind(path).close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        db.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=f"schema version {version}, this epic-memory reads 1.*version.*that made it"):
        kind(path)
    assert path.read_bytes() == before


# a step knows nothing of the present tables


def names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def uses_of_the_present(step: FunctionType) -> set[str]:
    """By which names a step reaches tables and statements of its module, or modules of ours: later versions change."""
    found: set[str] = set()
    waiting, seen = [step], {step}
    while waiting:
        function = waiting.pop()
        for name in names_in(function.__code__):
            value = function.__globals__.get(name)
            statements = isinstance(value, str) and "CREATE TABLE" in value
            module = isinstance(value, ModuleType) and value.__name__.startswith("epic_memory")
            if isinstance(value, Table | Schema) or statements or module or name.startswith("epic_memory"):
                found.add(name)
            elif isinstance(value, FunctionType) and value not in seen:
                seen.add(value)
                waiting.append(value)
    return found


def test_no_step_uses_the_present_tables() -> None:
    assert uses_of_the_present(lambda db: db.execute(NOTES_3.statements)) == {"NOTES_3"}
    steps: Any = (with_colours, with_pens, *memory_schema().migrations)
    assert [uses_of_the_present(step) for step in steps] == [set()] * len(steps)
