"""What a memory survives: kill -9, a full disk, a file that goes away, another writer."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import helpers
from crashing import TOPICS, Kill, Model, killed, killers, opened
from crashing import content_of as content
from epic_memory import EpicMemory, Item, SearchOptions
from epic_memory.errors import EpicError, ReadOnlyError, StoreError
from epic_memory.storage.sqlite.files import SIDE_FILES
from epic_memory.types import Preference

pytestmark = pytest.mark.usefixtures("locking")

PREFERENCES = ("I like tea number 1", "I like trains number 2", "I like chess number 3")
TEXT = "A long text about {}, with much that repeats itself and much that does not: {}. "

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked and killed")


def items(first: int, count: int, words: int = 40) -> list[Item]:
    """Items that all pass the coarse filter, of some hundred characters each."""
    return [
        Item(
            id=f"item-{number}",
            text=TEXT.format(TOPICS[number % 2], number) + " ".join(f"word{number * each}" for each in range(words)),
            metadata={"number": number},
        )
        for number in range(first, first + count)
    ]


@pytest.fixture
def memory(path: Path) -> Iterator[EpicMemory]:
    """A memory that holds something."""
    with opened(path, PREFERENCES) as made:
        made.add(items(0, 20))
        assert len(made) > 10
        yield made


def side_files(path: Path) -> list[str]:
    return [suffix for suffix in SIDE_FILES if Path(f"{path}{suffix}").exists()]


def found(memory: EpicMemory) -> set[str]:
    """The ids of what is kept for a preference; the light tier has the rest."""
    return {
        hit.item.id
        for hit in memory.search("tea and trains", k=2000, options=SearchOptions(stance_policy="any"))
        if hit.entries
    }


WRITES: dict[str, Callable[[EpicMemory], object]] = {
    "add": lambda memory: memory.add(items(100, 5)),
    "a stream": lambda memory: memory.add(item for item in items(100, 5)),
    "a new version": lambda memory: memory.add([Item(id="item-0", text="Trains again, in other words.")]),
    "add_preference": lambda memory: memory.preferences.add("I like bread number 7"),
    "remove_preference": lambda memory: memory.preferences.remove(PREFERENCES[0]),
    "replace_preference": lambda memory: memory.preferences.replace(PREFERENCES[0], "I like trains number 9"),
    "forget": lambda memory: memory.forget("item-0"),
    "compact": lambda memory: memory.file.compact(),
}
writes = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())


# kill -9


def kills(seed: int, folder: Path) -> list[Kill]:
    """Twenty kills on four files, one of them without a light tier, one with a byte budget."""
    done: list[Kill] = []
    with killers() as workers:
        for number in range(4):
            place = folder / f"{seed}-{number}"
            place.mkdir()
            options = {2: {"reserve": 0}, 3: {"budget": 150_000}}.get(number, {})
            done += killed(workers, place / "me.epic", seed=10 * seed + number, kills=5, **options)
    return done


@forking
def test_a_kill_at_any_moment_leaves_what_was_acknowledged_and_nothing_in_part(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        done = [kill for part in pool.map(kills, (1, 2), (tmp_path, tmp_path)) for kill in part]
    assert not [kill for kill in done if kill.failure], "\n".join(str(kill) for kill in done if kill.failure)
    assert len(done) == 40
    # They were killed in the midst of something.
    assert sum(kill.acknowledged for kill in done) > 40
    assert {kill.during for kill in done} > {"add"}


# a journal that is left


def interrupted(path: Path, folder: Path) -> Path:
    """A copy of a file as it is in the midst of a change, with the journal that undoes the change."""
    copy = folder / "interrupted" / "me.epic"
    copy.parent.mkdir()
    db = sqlite3.connect(path, isolation_level=None)
    # So few pages in RAM that changed ones are written into the file before the commit.
    db.execute("PRAGMA cache_size = 2")
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE items SET text = 'something else ' || hex(randomblob(2000)), id = 'changed ' || row")
    shutil.copy(path, copy)
    shutil.copy(f"{path}-journal", f"{copy}-journal")
    db.execute("ROLLBACK")
    db.close()
    assert copy.read_bytes() != path.read_bytes()
    assert Path(f"{copy}-journal").read_bytes()[:8] == bytes.fromhex("d9d505f920a163d7")
    return copy


def test_a_change_that_was_interrupted_is_undone_by_who_may_and_not_seen_by_others(
    memory: EpicMemory, tmp_path: Path
) -> None:
    expected = content(memory, tmp_path)
    copy = interrupted(memory.file.path or tmp_path, tmp_path)
    before = copy.read_bytes(), Path(f"{copy}-journal").read_bytes()
    try:
        with opened(copy, read_only=True) as again:
            assert content(again, tmp_path) == expected
    except StoreError as error:
        assert "opened for writing" in str(error)
    assert (copy.read_bytes(), Path(f"{copy}-journal").read_bytes()) == before
    with opened(copy) as again:
        assert content(again, tmp_path) == expected
        assert again.file.verify() > 0
    assert side_files(copy) == []


@pytest.mark.parametrize(
    "journal",
    [b"", bytes(12) + bytes(range(256)) * 8, b"This is no journal. " * 100],
    ids=["empty", "not yet begun", "none"],
)
def test_a_journal_that_undoes_nothing_is_gone_after_closing(
    memory: EpicMemory, path: Path, tmp_path: Path, journal: bytes
) -> None:
    # What a kill leaves that comes before the journal is on disk: SQLite has no need of it, and lets it lie.
    expected = content(memory, tmp_path)
    memory.close()
    Path(f"{path}-journal").write_bytes(journal)
    with opened(path) as again:
        assert again.file.verify() > 0
        assert content(again, tmp_path) == expected
        again.add(items(100, 2))
    assert side_files(path) == []


# no space


HERE = f"import sys\nsys.path[:0] = {[str(Path(__file__).parent), str(Path(helpers.__file__).parent)]!r}\n"
FULL = """
import resource, signal
from pathlib import Path
from crashing import content_of, opened
from epic_memory.errors import StoreError
from test_crash import PREFERENCES, WRITES, found, items

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder, name = Path(sys.argv[1]), sys.argv[2]
path = folder / "me.epic"
write, failed = WRITES[name], 0
with opened(path, PREFERENCES) as memory:
    memory.add(items(0, 20))
    expected, ids = content_of(memory, folder), found(memory)
    size = path.stat().st_size
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The change fails here in the journal, there in the file.
    for room in (0, 512, 1024, 4096, size - 1024, size, size + 1024):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
        try:
            write(memory)
        except StoreError as error:
            failed += 1
            assert "space" in str(error) or "disk full" in str(error), error
            try:
                assert found(memory) == ids
            except StoreError:
                # Not even what is in the file already may be written, and so not put back.
                assert room < size
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            assert content_of(memory, folder) == expected
            memory.file.verify()
        else:
            break
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert failed
    if room == size + 1024:
        write(memory)
    memory.add(items(200, 5))
    after = content_of(memory, folder)
    assert set(after["items"]) > {item.id for item in items(200, 5)} & set(after["items"]) != set()
with opened(path) as memory:
    memory.file.verify()
    assert content_of(memory, folder) == after
assert [file.name for file in folder.iterdir()] == ["me.epic"]
"""


@pytest.mark.parametrize("name", ["add", "replace_preference", "compact"])
def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path, name: str) -> None:
    pytest.importorskip("resource")
    command = [sys.executable, "-c", HERE + FULL, tmp_path, name]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("name", ["add", "a stream", "add_preference"])
def test_when_no_page_is_left_nothing_is_lost_and_later_there_is_room_again(
    memory: EpicMemory, path: Path, tmp_path: Path, name: str
) -> None:
    expected, before = content(memory, tmp_path), found(memory)
    larger = {"add_preference": lambda: memory.preferences.add(Preference(text="I like trains " + "and so on " * 500))}
    write = larger.get(name, lambda: WRITES[name](memory))
    store = memory._session.store
    store.scalar(f"PRAGMA max_page_count = {store.pages()[0] + 1}")
    for _ in range(2):
        with pytest.raises(StoreError, match="No space is left"):
            write()
        assert content(memory, tmp_path) == expected
        assert found(memory) == before
        assert memory.file.verify() > 0
    store.limit_pages(0)
    write()
    after = content(memory, tmp_path)
    assert after != expected
    memory.close()
    with opened(path) as again:
        assert content(again, tmp_path) == after


# the file goes away


def memory_of_another(path: Path) -> Path:
    with opened(path, ["I like kites number 5"]) as made:
        made.add([Item(id="theirs", text="Kites in the wind.")])
    return path


def text_in_a_file(path: Path) -> Path:
    path.write_text("Something else.", encoding="utf-8")
    return path


AWAY: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: path.unlink(),
    "moved": lambda path: path.rename(path.with_name("elsewhere.epic")),
    "replaced by a memory": lambda path: memory_of_another(path.with_name("other.epic")).replace(path),
    "replaced by text": lambda path: text_in_a_file(path.with_name("other.txt")).replace(path),
}


@pytest.mark.parametrize(
    ("go", "name"), [*((go, "add") for go in AWAY), *(("removed", name) for name in WRITES if name != "add")]
)
def test_a_file_that_is_not_at_its_place_is_an_error_and_can_be_rescued(
    path: Path, tmp_path: Path, go: str, name: str
) -> None:
    with opened(path, PREFERENCES) as memory:
        memory.add(items(0, 20))
        expected, before = content(memory, tmp_path), found(memory)
        AWAY[go](path)
        theirs = path.read_bytes() if path.exists() else None
        with pytest.raises(StoreError, match=r"(removed|replaced).*backup") as raised:
            WRITES[name](memory)
        assert str(path) in str(raised.value)
        assert found(memory) == before
        assert content(memory, tmp_path) == expected
        rescued = tmp_path / "rescued.epic"
        memory.file.backup(rescued)
    with opened(rescued) as again:
        assert content(again, tmp_path) == expected
        assert again.file.verify() > 0
    assert (path.read_bytes() if path.exists() else None) == theirs
    assert side_files(path) == []


@pytest.mark.parametrize("go", ["removed", "replaced by a memory"])
def test_a_file_that_goes_away_in_the_midst_of_an_add_is_an_error(path: Path, tmp_path: Path, go: str) -> None:
    with opened(path, PREFERENCES) as memory:
        memory.add(items(0, 20))
        expected = content(memory, tmp_path)

        def stream() -> Iterator[Item]:
            yield from items(100, 5)
            AWAY[go](path)

        with pytest.raises(StoreError, match="backup"):
            memory.add(stream())
        assert content(memory, tmp_path) == expected
    assert side_files(path) == []


@pytest.mark.parametrize("octets", ["nothing", "text", "half", "another memory"])
def test_a_file_that_is_written_over_gives_no_other_errors_than_ours(path: Path, tmp_path: Path, octets: str) -> None:
    with opened(path, PREFERENCES) as memory:
        memory.add(items(0, 20))
        whole = path.read_bytes()
        other = memory_of_another(tmp_path / "other.epic")
        with opened(other) as made:
            theirs = content(made, tmp_path)
        made_of = {"nothing": b"", "text": b"Text. " * 5000, "half": whole[: len(whole) // 1024 * 512]}
        path.write_bytes(made_of.get(octets, other.read_bytes()))
        failed = 0
        for name, write in {"search": found, **WRITES}.items():
            try:
                write(memory)
            except EpicError:
                failed += 1
            else:
                assert octets == "another memory", name
        assert failed or content(memory, tmp_path) != theirs


# reading only


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anything")
@writes
def test_a_file_that_becomes_read_only_is_an_error_and_can_be_rescued(
    memory: EpicMemory, path: Path, tmp_path: Path, write: Callable[[EpicMemory], object]
) -> None:
    expected, before = content(memory, tmp_path), found(memory)
    path.chmod(stat.S_IRUSR)
    with pytest.raises(ReadOnlyError, match="No permission to write"):
        write(memory)
    assert found(memory) == before
    memory.file.backup(tmp_path / "rescued.epic")
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    write(memory)
    with opened(tmp_path / "rescued.epic") as again:
        assert content(again, tmp_path) == expected


# two writers


@contextmanager
def another_writer(path: Path) -> Iterator[None]:
    """Another process that writes, and takes it back."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


@writes
def test_a_writer_waits_for_another(memory: EpicMemory, path: Path, write: Callable[[EpicMemory], object]) -> None:
    found(memory)
    with ThreadPoolExecutor(1) as pool:
        with another_writer(path):
            writing = pool.submit(write, memory)
            time.sleep(0.1)
            assert not writing.done()
        writing.result(timeout=60)
    assert memory.file.verify() > 0


@writes
def test_a_writer_that_waits_too_long_says_so_and_can_do_it_again(
    memory: EpicMemory, path: Path, tmp_path: Path, write: Callable[[EpicMemory], object]
) -> None:
    expected, before = content(memory, tmp_path), found(memory)
    memory._session.store.scalar("PRAGMA busy_timeout = 20")
    with another_writer(path):
        with pytest.raises(StoreError, match="another process"):
            write(memory)
        assert found(memory) == before
    assert content(memory, tmp_path) == expected
    write(memory)
    assert memory.file.verify() > 0


WRITER = """
from crashing import opened
from test_crash import items

with opened(sys.argv[1]) as memory:
    print("opened", flush=True)
    sys.stdin.readline()
    for number in range(15):
        memory.add(items(1000 + 4 * number, 4))
"""


def test_two_processes_that_write_at_once_both_have_all_of_it(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HERE + WRITER, path]
    with opened(path, PREFERENCES) as memory:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdin and other.stdout
            assert other.stdout.readline() == "opened\n"
            other.stdin.write("go\n")
            other.stdin.flush()
            for number in range(15):
                memory.add(items(4 * number, 4))
            assert other.wait(timeout=120) == 0
        texts = {item.id: item.text for item in [*items(0, 60), *items(1000, 60)]}
        expected = Model(PREFERENCES, texts).content
        assert content(memory, tmp_path) == expected
        assert found(memory) == {key for key, (_, entries) in expected["items"].items() if entries}
        assert memory.file.verify() > 0
    assert side_files(path) == []
