"""The durable file: one file, all or nothing, ids never used twice, clear errors."""

from __future__ import annotations

import os
import pickletools
import sqlite3
import stat
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from epic_memory.errors import InvalidInputError, MemoryClosedError, StoreError
from epic_memory.storage.codecs import code_length, deflated, unpacked
from epic_memory.storage.memory_schema import MEMORY, PASSAGES
from epic_memory.storage.sizes import sizes
from epic_memory.storage.store import Store
from epic_memory.storage.tables.entries import NewEntry
from epic_memory.storage.tables.items import version_of
from epic_memory.types import Item, MemoryEntry, Preference, Stance
from epic_memory.types.digests import DIGEST_BYTES
from helpers import not_locked

pytestmark = pytest.mark.usefixtures("locking")

VECTOR = np.array([1.0, 0.0], dtype=np.float32)
NAMESPACE = "default"
# What `preferences_at` asks for.
ENCODER = {"name": "n", "dimension": 2, "fingerprint": "f"}


def entry(preference_id: str | None) -> NewEntry:
    return NewEntry(
        preference_id=preference_id,
        instruction="Use it.",
        stance=Stance.MIXED,
        rationale="near",
        confidence=0.25,
        similarity=0.5,
        vector=VECTOR,
    )


def put(store: Store, text: str, preference: str = "p") -> tuple[int, int]:
    """Write an item with one entry; their rows."""
    wanted = Preference(text=preference)
    with store.transaction():
        if wanted.id not in {held.id for held in store.preferences.load(NAMESPACE, 2)[1]}:
            store.preferences.add(NAMESPACE, wanted, VECTOR)
        item = store.items.put(NAMESPACE, Item(text=text))
        row = store.entries.add(item, store.preferences.row(NAMESPACE, wanted.id), entry(wanted.id))
        return item, row


def entries_of(store: Store, item: int) -> list[MemoryEntry]:
    """What is held of an item, in a store that says which encoder it was made with."""
    with store.transaction():
        store.set_meta(encoder=ENCODER)
    return store.entries.of_item(NAMESPACE, item)


def test_what_is_written_is_read_back_after_reopening(path: Path) -> None:
    store = Store(path)
    with store.transaction():
        store.preferences.add(NAMESPACE, Preference(text="p"), VECTOR)
        item = store.items.put(NAMESPACE, Item(text="Ünïcode 🙂", id="a", metadata={"n": 1, "list": ["x", None]}))
        wanted = Preference(text="p").id
        store.entries.add(item, store.preferences.row(NAMESPACE, wanted), entry(wanted))
        store.retry_queue.put(NAMESPACE, Item(text="later", id="b"), "no answer", ["x"])
        store.set_meta(tau=0.3, encoder=ENCODER)
    store.close()

    store = Store(path)
    rows, preferences, vectors = store.preferences.load(NAMESPACE, 2)
    assert (len(rows), preferences, vectors.tolist()) == (1, [Preference(text="p")], [[1.0, 0.0]])
    assert list(store.items.all(NAMESPACE)) == [Item(text="Ünïcode 🙂", id="a", metadata={"n": 1, "list": ["x", None]})]
    (stored,) = store.entries.of_item(NAMESPACE, item)
    assert (stored.instruction, stored.stance, stored.confidence) == ("Use it.", Stance.MIXED, 0.25)
    assert (stored.rationale, stored.similarity, stored.preference) == ("near", 0.5, "p")
    assert unpacked(store.entries.rows(NAMESPACE, 2).codes, 2).tolist() == [[1.0, 0.0]]
    assert store.retry_queue.waiting(NAMESPACE) == [(Item(text="later", id="b"), "no answer", ["x"])]
    assert store.meta() == {"tau": 0.3, "encoder": ENCODER}
    store.close()


def test_row_ids_are_never_used_twice(path: Path) -> None:
    store = Store(path)
    seen: set[tuple[str, int]] = set()
    for text in ("one", "two", "three"):
        item, row = put(store, text)
        preference = store.preferences.row(NAMESPACE, Preference(text="p").id) or 0
        assert not {("item", item), ("entry", row), ("preference", preference)} & seen
        seen |= {("item", item), ("entry", row), ("preference", preference)}
        with store.transaction():
            store.items.remove(NAMESPACE, [Item(text=text).id])
            store.remove_preference(NAMESPACE, Preference(text="p").id)
        store.close()
        store = Store(path)
    store.close()


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_failed_transaction_leaves_nothing(path: Path, error: BaseException) -> None:
    store = Store(path)
    put(store, "kept")
    with pytest.raises(type(error)), store.transaction():
        store.items.put(NAMESPACE, Item(text="lost"))
        store.retry_queue.put(NAMESPACE, Item(text="pending"), "", [])
        store.set_meta(tau=0.9)
        raise error
    assert [item.text for item in store.items.all(NAMESPACE)] == ["kept"]
    assert store.retry_queue.waiting(NAMESPACE) == [] and store.meta() == {}
    put(store, "after")
    store.close()
    assert [item.text for item in Store(path).items.all(NAMESPACE)] == ["kept", "after"]


def test_a_broken_rule_of_the_database_is_a_store_error_and_leaves_nothing(path: Path) -> None:
    store = Store(path)
    with pytest.raises(StoreError, match="FOREIGN KEY"), store.transaction():
        store.preferences.add(NAMESPACE, Preference(text="p"), VECTOR)
        store.insert(PASSAGES, item=77, extractor=1, entities=b"", facts=b"", relations="", failure=None)
    assert store.preferences.load(NAMESPACE, 2)[1] == []
    store.close()
    assert Store(path).verify() == 0


def test_removing_a_preference_removes_its_entries_and_orphans_only(path: Path) -> None:
    store = Store(path)
    both, _ = put(store, "both", "p")
    put(store, "only p", "p")
    put(store, "only q", "q")
    with store.transaction():
        wanted = Preference(text="q").id
        store.entries.add(both, store.preferences.row(NAMESPACE, wanted), entry(wanted))
        store.remove_preference(NAMESPACE, Preference(text="p").id)
    assert [item.text for item in store.items.all(NAMESPACE)] == ["both", "only q"]
    assert [e.preference for e in entries_of(store, both)] == ["q"]
    counts = {name: count for name, count in store.counts(NAMESPACE).items() if count}
    assert counts == {"items": 2, "entries": 2, "preferences": 1}
    store.verify()
    store.close()


def test_metadata_that_is_not_json_is_an_error_naming_the_item(path: Path) -> None:
    store = Store(path)
    for value in (object(), float("nan"), {1, 2}):
        with pytest.raises(InvalidInputError, match="'odd'"), store.transaction():
            store.items.put(NAMESPACE, Item(text="x", id="odd", metadata={"value": value}))
    assert list(store.items.all(NAMESPACE)) == []
    store.close()


@pytest.mark.parametrize("content", [b"not a database, but long enough to have a header" * 50, b"x", b"\x80\x04K\x01."])
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"me\.epic"):
        Store(path)
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


@not_locked
@pytest.mark.parametrize("statement", ["CREATE TABLE notes (text)", "PRAGMA application_id = 77"])
def test_a_database_of_another_application_is_refused_and_left_alone(path: Path, statement: str) -> None:
    if "PRAGMA" in statement:
        Store(path).close()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(statement)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a memory"):
        Store(path)
    assert path.read_bytes() == before


def test_a_vector_of_another_length_is_a_store_error(path: Path) -> None:
    store = Store(path)
    put(store, "text")
    # A code has five bytes for each four components, begun or whole.
    with pytest.raises(StoreError, match="damaged"):
        store.entries.rows(NAMESPACE, 5)
    with pytest.raises(StoreError, match="damaged"):
        store.preferences.load(NAMESPACE, 5)
    store.close()


def test_a_file_as_folder_and_a_name_that_none_can_have_are_errors(path: Path) -> None:
    path.write_text("x")
    for place in (path / "me.epic", f"{path}\0"):
        with pytest.raises(StoreError):
            Store(place)


def test_a_missing_file_that_must_exist_is_an_error_and_not_made(path: Path) -> None:
    with pytest.raises(StoreError, match="no memory at"):
        Store(path, must_exist=True)
    assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(StoreError, match="permission"):
            Store(tmp_path / "me.epic")
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_file_without_permission_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(path).close()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StoreError, match="permission"):
        Store(path)


@pytest.mark.parametrize("options", [{}, {"must_exist": True}, {"read_only": True}])
def test_an_empty_file_is_an_error_and_stays(path: Path, options: dict[str, bool]) -> None:
    path.touch()
    with pytest.raises(StoreError, match=r"me\.epic is empty"):
        Store(path, **options)
    assert path.read_bytes() == b"" and list(path.parent.iterdir()) == [path]


def test_a_new_file_is_made_whole_or_not_at_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object, database: sqlite3.Connection) -> None:
        database.execute("CREATE TABLE meta (x)")
        assert not path.exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("epic_memory.storage.sqlite.tables.Schema.make", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Store(path)
    assert list(path.parent.iterdir()) == []
    Store(path).close()
    assert list(path.parent.iterdir()) == [path]


def test_the_file_says_whose_it_is(path: Path) -> None:
    Store(path).close()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA application_id").fetchone() == (MEMORY.application_id,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@not_locked
def test_nothing_is_pickled(path: Path) -> None:
    store, long = Store(path), "a text that is long enough to be compressed " * 20
    put(store, long)
    store.seen.kept = 10
    with store.transaction():
        store.seen.add(NAMESPACE, [version_of(Item(text="seen"))])
    store.close()
    database = sqlite3.connect(path)
    database.row_factory = sqlite3.Row
    blobs = {
        (table, column): row[column]
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for row in database.execute(f"SELECT * FROM {table}").fetchall()
        for column in row.keys()  # noqa: SIM118
        if isinstance(row[column], bytes)
    }
    database.close()
    lengths = {name: len(blob) for name, blob in blobs.items() if name != ("items", "text")}
    assert lengths == {
        ("preferences", "vector"): code_length(2),
        ("entries", "vector"): code_length(2),
        ("items", "digest"): DIGEST_BYTES,
        ("ledger", "digests"): DIGEST_BYTES,
    }
    assert zlib.decompress(blobs["items", "text"]).decode() == long
    for blob in blobs.values():
        with pytest.raises(ValueError):
            list(pickletools.genops(blob))


@not_locked
@pytest.mark.parametrize("text", ["a secret that must go ", "a secret that must go " * 20])
def test_removed_text_is_gone_from_the_file(path: Path, text: str) -> None:
    stored = deflated(text)
    kept = stored.encode() if isinstance(stored, str) else stored
    assert len(kept) < 100
    store = Store(path)
    put(store, text)
    assert kept in path.read_bytes()
    with store.transaction():
        store.items.remove(NAMESPACE, [Item(text=text).id])
    store.give_back()
    store.close()
    assert kept not in path.read_bytes() and b"a secret" not in path.read_bytes()


def test_a_file_being_written_elsewhere_is_a_clear_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_memory.storage.sqlite.database._BUSY_SECONDS", 0.05)
    one, other = Store(path), Store(path)
    with one.transaction(), pytest.raises(StoreError, match="another process"), other.transaction():
        pass
    one.close()
    other.close()


def test_a_store_without_path_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store(None)
    put(store, "text")
    assert store.counts(NAMESPACE)["items"] == 1
    store.close()
    with pytest.raises(MemoryClosedError):
        sizes(store)
    assert list(tmp_path.iterdir()) == []
