"""The durable file: one file, whole or not at all, clear errors, nothing pickled."""

from __future__ import annotations

import os
import pickletools
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from epic_memory import EpicMemory
from epic_memory.errors import StoreError
from helpers import not_locked, settled

pytestmark = pytest.mark.usefixtures("locking")


def opened(path: Path | str, **options: Any) -> EpicMemory:
    return EpicMemory.open(path, ["red wine"], **settled(**options))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"not a database, but long enough to have a header" * 50, r"me\.epic"),
        (b"x", r"me\.epic"),
        (b"\x80\x04K\x01.", r"me\.epic"),
        (b"", r"me\.epic is empty"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"must_exist": True}, {"read_only": True}])
def test_a_file_that_is_no_database_is_refused_and_left_alone(
    path: Path, content: bytes, match: str, options: dict[str, bool]
) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match=match):
        opened(path, **options)
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


@not_locked
@pytest.mark.parametrize("statement", ["CREATE TABLE notes (text)", "PRAGMA application_id = 77"])
def test_a_database_of_another_application_is_refused_and_left_alone(path: Path, statement: str) -> None:
    if "PRAGMA" in statement:
        opened(path).close()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(statement)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a memory"):
        opened(path)
    assert path.read_bytes() == before


def test_a_missing_file_that_must_exist_is_an_error_and_not_made(path: Path) -> None:
    with pytest.raises(StoreError, match="no memory at"):
        opened(path, must_exist=True)
    assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(StoreError, match="permission"):
            opened(tmp_path / "me.epic")
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_file_without_permission_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(path).close()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StoreError, match="permission"):
        opened(path)


def test_a_new_file_is_made_whole_or_not_at_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object, database: sqlite3.Connection) -> None:
        database.execute("CREATE TABLE meta (x)")
        assert not path.exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("epic_memory.storage.sqlite.tables.Schema.make", interrupted)
        with pytest.raises(KeyboardInterrupt):
            opened(path)
    assert list(path.parent.iterdir()) == []
    opened(path).close()
    assert list(path.parent.iterdir()) == [path]


@not_locked
def test_nothing_is_pickled(path: Path) -> None:
    with opened(path, ledger=10, reserve=0) as memory:
        memory.add(["a red wine that is described at such length that it is compressed " * 20, "green hills"])
    with closing(sqlite3.connect(path)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        values = [value for (one,) in tables for row in database.execute(f"SELECT * FROM {one}") for value in row]
    blobs = [value for value in values if isinstance(value, bytes)]
    assert len(blobs) > 4
    for blob in blobs:
        with pytest.raises(ValueError):
            list(pickletools.genops(blob))


def test_a_thread_waits_for_what_another_reads_and_writes(path: Path) -> None:
    with opened(path) as memory:
        session, store = memory._session, memory._session.store

        def written() -> None:
            with store.transaction():
                store.set_meta(seen=store.meta_of("seen"))

        def changed() -> None:
            with session.changing(memory.encoder):
                pass

        holds: list[tuple[Any, list[Any]]] = [
            (store.transaction(), [written, partial(store.meta_of, "seen")]),
            (session.lock, [changed]),
        ]
        with ThreadPoolExecutor(3) as pool:
            for hold, waiting in holds:
                with hold:
                    calls = [pool.submit(each) for each in waiting]
                    assert not wait(calls, timeout=0.3).done
                assert [call.result(timeout=60) for call in calls] == [None] * len(calls)
