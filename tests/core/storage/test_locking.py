"""Locked files: who can open them, what can be read of them, and how they change their key."""

from __future__ import annotations

import asyncio
import copy
import pickle
import shutil
import unicodedata
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from command_line import Epic, refused
from epic_memory import EpicMemory, Settings
from epic_memory.errors import DamagedError, InvalidInputError, LockedError, StoreError
from epic_memory.groups.file import is_locked
from epic_plugins.collection import Collection, Record

sqlcipher = pytest.importorskip("sqlcipher3.dbapi2")

SECRET = "The Bellmore is a quiet hotel without a casino."
KEY = "correct horse battery"


def opened(path: Path, key: Any = KEY, **settings: Any) -> EpicMemory:
    return EpicMemory.open(path, settings=Settings(key=key, **settings))


def connected(path: Path, **options: Any) -> Any:
    """A connection of SQLCipher's own."""
    db = sqlcipher.connect(str(path), **options)
    db.execute(f"PRAGMA key = '{KEY}'")
    db.execute("PRAGMA cipher_page_size = 1024")
    return db


@pytest.fixture
def locked(path: Path) -> Path:
    """A locked memory that holds something."""
    with EpicMemory.open(path, ["I avoid hotels with casinos."], settings=Settings(key=KEY)) as memory:
        memory.add([SECRET])
    return path


def plain_in(folder: Path) -> list[str]:
    """The files in which words of the memory can be read."""
    words = [b"Bellmore", b"hotels with casinos", b"CREATE TABLE", b"SQLite format"]
    return [file.name for file in folder.iterdir() if any(word in file.read_bytes() for word in words)]


def test_nothing_can_be_read_in_any_file(
    locked: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("SQLITE_TMPDIR", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    with opened(locked) as memory:
        store = memory._session.store
        store.connection.execute("PRAGMA cache_spill = ON")
        store.connection.execute("PRAGMA cache_size = 2")
        with store.transaction():
            store.connection.execute("UPDATE items SET text = text || ' Bellmore ' || hex(randomblob(3000))")
            shutil.copytree(tmp_path, tmp_path / "midst")
            assert (tmp_path / "midst" / "me.epic-journal").stat().st_size > 1000
            assert plain_in(tmp_path / "midst") == []
            store.connection.execute("UPDATE items SET text = '" + SECRET + "'")
        shutil.rmtree(tmp_path / "midst")
        memory.file.backup(tmp_path / "copy.epic")
        memory.file.backup(tmp_path / "other.epic", key="another")
        memory.forget(*memory.items())
        memory.add([SECRET])
        memory.file.compact()
        assert plain_in(tmp_path) == [] == plain_in(temporary)
    for name, key in (("copy", KEY), ("other", "another")):
        with opened(tmp_path / f"{name}.epic", key) as memory:
            assert memory.file.verify() and len(memory) == 1


@pytest.mark.parametrize("key", [None, "", b"", "another", b"another", lambda: "another", lambda: "", 7])
def test_without_its_key_a_file_stays_closed_and_as_it_was(locked: Path, key: Any) -> None:
    before = locked.read_bytes()
    wrong = key in ("", b"", 7) or (callable(key) and not key())
    with pytest.raises(InvalidInputError if wrong else LockedError) as raised:
        opened(locked, key)
    assert "another'" not in str(raised.value) and ("EPIC_KEY" in str(raised.value) or wrong)
    assert locked.read_bytes() == before and is_locked(locked)


@pytest.mark.parametrize("same", [KEY.encode(), lambda: KEY, KEY.encode])
def test_a_key_is_a_text_or_bytes_or_a_callable(locked: Path, same: Any) -> None:
    with opened(locked, same, read_only=True) as memory:
        assert [hit.item.text for hit in memory.search("Which hotel has no casino?")] == [SECRET]
    # An accent is the same key however it is typed.
    for form in ("NFC", "NFD"):
        opened(locked.with_name("other.epic"), unicodedata.normalize(form, "clé à café")).close()


def test_any_sqlcipher_opens_it_with_the_passphrase(locked: Path) -> None:
    with closing(connected(locked)) as db:
        assert db.execute("SELECT text FROM items").fetchall() == [(SECRET,)]


def test_the_key_is_shown_and_kept_nowhere(locked: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(key=KEY)
    with caplog.at_level(0), EpicMemory.open(locked, settings=settings) as memory:
        shown = [repr(settings), repr(memory), repr(memory.settings.key), str(memory.stats()), caplog.text]
        assert KEY not in repr(copy.deepcopy(settings))
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError)) as raised:
            pickle.dumps(settings)
    assert not [text for text in (*shown, str(raised.value)) if KEY in text]


def test_a_plain_file_takes_no_key_and_a_memory_in_ram_none(path: Path) -> None:
    EpicMemory.open(path).close()
    with pytest.raises(StoreError, match=r"not locked.*rekey"):
        opened(path)
    with pytest.raises(InvalidInputError, match="RAM"):
        EpicMemory(settings=Settings(key=KEY))
    with pytest.raises(StoreError, match="RAM"):
        EpicMemory().file.rekey(KEY)


@pytest.mark.parametrize("place", [3, 30, 1500, -40])
def test_a_changed_byte_is_an_error_of_ours(locked: Path, place: int) -> None:
    octets = bytearray(locked.read_bytes())
    octets[place] ^= 1
    locked.write_bytes(octets)
    # In the first bytes is the salt: with another one the key is another.
    with pytest.raises(LockedError if 0 <= place < 16 else DamagedError):
        opened(locked)


@pytest.mark.parametrize("budget", [None, 200_000])
async def test_a_file_is_locked_and_unlocked_while_it_is_open(path: Path, tmp_path: Path, budget: int | None) -> None:
    with EpicMemory.open(path, ["I avoid hotels with casinos."], settings=Settings(budget=budget)) as memory:
        memory.add([SECRET])
        reader = EpicMemory.open(path)
        for key in ("one", "two", None, "three"):
            if budget:
                await asyncio.to_thread(memory.file.rekey, key)
            else:
                memory.file.rekey(key)
            assert is_locked(path) == (key is not None) == (plain_in(tmp_path) == [])
            assert SECRET in [hit.item.text for hit in memory.search("Which hotel has no casino?")]
            memory.add([f"A casino hotel, {key}."])
            assert memory.file.verify() and memory.stats().budget == budget
        # Who had it open has the old one, and is told when writing.
        assert reader.search("Which hotel has no casino?")
        with pytest.raises(StoreError, match="replaced"):
            reader.add(["Another."])
        reader.close()
        assert [file.name for file in tmp_path.iterdir()] == ["me.epic"]
        await asyncio.to_thread(memory.file.backup, tmp_path / "copy.epic", key="another")
    for file, key in ((path, "three"), (tmp_path / "copy.epic", "another")):
        with opened(file, key) as memory:
            assert len(memory) == 5


def test_a_key_that_cannot_be_changed_stays(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(locked) as memory:
        other = connected(locked, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        memory._session.store.connection.execute("PRAGMA busy_timeout = 0")
        with pytest.raises(StoreError, match="another process"):
            memory.file.rekey("new")
        other.close()
        monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        with pytest.raises(StoreError, match="No space left"):
            memory.file.rekey("new")
        assert len(memory) == 1 and memory.add(["A casino."]).seen == 1
    opened(locked).close()


def test_a_collection_is_locked_too(path: Path) -> None:
    with Collection(path=path, key=KEY) as collection:
        collection.add([Record(id="1", text=SECRET)])
    assert is_locked(path)
    with pytest.raises(LockedError):
        Collection(path=path)
    with Collection(path=path, key=KEY) as collection:
        assert collection.search("hotel")[0].record.text == SECRET


def test_commands_ask_for_the_key(epic: Epic, locked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = str(locked)
    refused(epic("stats", me), "EPIC_KEY")
    monkeypatch.setenv("EPIC_KEY", "another")
    refused(epic("stats", me), "another key")
    monkeypatch.delenv("EPIC_KEY")
    typed = [KEY]
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda prompt: typed.pop(0))
    assert SECRET in epic("ask", me, "Which hotel has no casino?").out
    typed[:] = [KEY, "new", "new"]
    assert epic("lock", me).code == 0 and not typed
    typed[:] = ["new", "newer", "never"]
    refused(epic("lock", me), "differ")
    monkeypatch.setenv("EPIC_KEY", "new")
    refused(epic("export", me, str(tmp_path / "out")), "--unlocked")
    assert epic("export", me, str(tmp_path / "out"), "--unlocked").code == 0
    assert epic("restore", str(tmp_path / "out"), str(tmp_path / "again.epic")).code == 0
    assert is_locked(tmp_path / "again.epic")
    assert epic("unlock", me).code == 0
    monkeypatch.delenv("EPIC_KEY")
    assert epic("verify", me).code == 0


def test_the_keyring_has_the_key(epic: Epic, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = pytest.importorskip("keyring")
    kept: dict[tuple[str, str], str] = {}
    monkeypatch.setattr(keyring, "get_password", lambda *place: kept.get(place))
    monkeypatch.setattr(keyring, "set_password", lambda service, name, key: kept.update({(service, name): key}))
    monkeypatch.setattr(keyring, "delete_password", lambda *place: kept.pop(place))
    EpicMemory.open(path).close()
    monkeypatch.setenv("EPIC_KEY", KEY)
    assert epic("lock", str(path), "--keyring").code == 0
    monkeypatch.delenv("EPIC_KEY")
    assert list(kept.values()) == [KEY] and epic("stats", str(path)).code == 0
    assert epic("unlock", str(path)).code == 0 and not kept


@pytest.mark.parametrize("remote", [False, True])
def test_a_pool_locks_each_file_with_a_key_of_its_own(tmp_path: Path, remote: bool) -> None:
    from epic_scale import MemoryPool, name_of

    if remote:
        pytest.importorskip("fsspec")
    root = f"memory://{tmp_path.name}" if remote else tmp_path / "root"
    asked: list[str] = []

    def key(name: str) -> str:
        asked.append(name)
        return f"of {name}"

    made = EpicMemory(["I avoid hotels with casinos."], settings=Settings(namespace="cleo"))
    with MemoryPool(root, key=key) as pool:
        with pool.get("ann") as memory:
            memory.preferences.add("I am Ann and avoid casinos.")
        pool.put(made)
        assert sorted(pool.users()) == ["ann", "cleo"]
        assert pool.backup(tmp_path / "copies").done == 2
        with pool.get("ann"):
            pass
        assert pool.health().uploads == remote  # what a turn did not change is not written back
    copies = sorted((tmp_path / "copies").rglob("*.epic"))
    assert len(copies) == 2 and all(is_locked(copy) for copy in copies)
    assert set(asked) == {name_of(user) for user in ("ann", "cleo")}
    with MemoryPool(root) as pool:
        assert len(pool.for_each(lambda memory: None).failed) == 2


def test_without_the_package_the_extra_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sqlcipher3", None)
    with pytest.raises(ImportError, match="encryption"):
        opened(path)
    assert not path.exists()
