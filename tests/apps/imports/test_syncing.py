"""Sync: after any history of changes, and after any cut, a memory holds what a fresh build of the folder holds."""

from __future__ import annotations

import os
import pkgutil
import random
import shutil
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from exports import refusing
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crashing import Workers
from epic_apps import SyncReport, sync, why_not
from epic_apps.cli.folders import digest_of
from epic_apps.syncing import synced_folders, watch
from epic_memory import EpicMemory, Settings
from epic_memory.errors import InvalidInputError
from helpers import HashEncoder

AVOIDS = "I avoid hotels with casinos."
TEXTS = [
    "A hotel with a casino in the old town.",
    "Buy milk and bread.",
    "# Oslo\nA hotel with casinos.\n# Rome\nA quiet hotel.\n",
    "# Rome\nA quiet hotel.\n",
    "The harbour at night.",
    "",
]
NAMES = ["a.md", "b.txt", "trips/a.md", "trips/c.md"]


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def contents(memory: EpicMemory) -> dict[str, Any]:
    """Everything that tells what is held, and the number of what was seen."""
    held = {item.id: (item.text, dict(item.metadata)) for item in memory.items()}
    kept = {key: sorted((entry.preference, str(entry.stance)) for entry in entries)
            for key, entries in memory.file.entries(held).items()}  # fmt: skip
    return {"items": held, "entries": kept, "seen": memory.stats().counts["seen"]}


def fresh(folder: Path, **options: Any) -> dict[str, Any]:
    memory = EpicMemory([AVOIDS], encoder=HashEncoder(), **options)
    sync(memory, folder, empty=True)
    return contents(memory)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(TEXTS)),
        st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just("")),
        st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("sync"), st.just(""), st.just("")),
    ),
    max_size=12,
)


@pytest.mark.parametrize("how", [{"reserve": "1 MB"}, {"reserve": 0}, {"reserve": 0, "not_kept": 0}], ids=str)
@example(steps=[("write", "b.txt", TEXTS[1]), ("sync", "", ""), ("delete", "b.txt", "")])
@example(steps=[step for n in (3, 2, 3, 2) for step in (("write", "a.md", TEXTS[n]), ("sync", "", ""))])
@example(  # the same file comes, goes and comes again
    steps=[
        ("write", "a.md", TEXTS[0]),
        *(
            step
            for what in ("write", "delete", "write")
            for step in (("sync", "", ""), (what, "b.txt", TEXTS[0] if what == "write" else ""))
        ),
    ]
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_any_history_equals_a_fresh_build(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]], how: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("history") / "notes"
    folder.mkdir()
    memory = EpicMemory([AVOIDS], encoder=HashEncoder(), settings=Settings(**how))
    for step, name, other in [*steps, ("sync", "", "")]:
        if step == "write":
            write(folder, name, other)
        elif step == "sync":
            sync(memory, folder, empty=True)
        elif (folder / name).exists() and step == "delete":
            (folder / name).unlink()
        elif (folder / name).exists():
            (folder / other).parent.mkdir(exist_ok=True)
            (folder / name).replace(folder / other)
    assert contents(memory) == fresh(folder, settings=Settings(**how))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    for name, text in zip(NAMES, TEXTS, strict=False):
        write(tmp_path / "notes", name, text)
    return tmp_path / "notes"


@pytest.fixture
def memory() -> EpicMemory:
    return EpicMemory([AVOIDS], encoder=HashEncoder())


def test_a_deleted_text_leaves_no_byte(notes: Path, tmp_path: Path) -> None:
    write(notes, "secret.md", "The xylophone stands in the conservatory.")
    with EpicMemory.open(tmp_path / "me.epic", [AVOIDS]) as memory:
        sync(memory, notes)
        assert any("xylophone" in item.text for item in memory.items())
        (notes / "secret.md").unlink()
        write(notes, "b.txt", "Buy eggs.")
        sync(memory, notes)
    content = (tmp_path / "me.epic").read_bytes()
    assert b"xylophone" not in content and b"secret.md" not in content and b"milk" not in content


def test_one_identity_whatever_the_working_directory(
    notes: Path, memory: EpicMemory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sync(memory, notes)
    monkeypatch.chdir(notes)
    assert sync(memory, ".").is_empty
    monkeypatch.chdir(notes / "trips")
    assert sync(memory, "../../notes").is_empty
    assert sync(memory, notes / "trips").is_empty or contents(memory) == fresh(notes)
    moved = tmp_path / "elsewhere" / "notes"
    moved.parent.mkdir()
    shutil.move(notes, moved)
    monkeypatch.chdir(tmp_path)
    report = sync(memory, moved)
    assert report.is_empty and contents(memory) == fresh(moved)


@pytest.mark.skipif(os.name == "nt", reason="names are no bytes on Windows")
@pytest.mark.parametrize("text", ["", "Buy milk."])
def test_a_name_that_is_no_text_stops_nothing(notes: Path, memory: EpicMemory, text: str) -> None:
    (notes / os.fsdecode(b"caf\xe9.md")).write_text(text)
    report = sync(memory, notes)
    assert memory.get(["notes/b.txt"]) and len(report.failures) == bool(text)
    assert sync(memory, notes).is_empty


@pytest.mark.skipif(os.name == "nt", reason="links need a right on Windows")
def test_links_are_not_followed_out(notes: Path, memory: EpicMemory, tmp_path: Path) -> None:
    write(tmp_path / "outside", "x.md", "Not of this folder.")
    (notes / "out").symlink_to(tmp_path / "outside")
    (notes / "in.md").symlink_to(notes / "a.md")
    (notes / "loop").symlink_to(notes)
    report = sync(memory, notes)
    assert len(report.added) == 4 and "out" in report.skipped[0]


def test_what_cannot_be_read_stays(notes: Path, memory: EpicMemory) -> None:
    sync(memory, notes)
    (notes / "a.md").write_bytes(b"\xff\xfe broken")
    report = sync(memory, notes)
    assert len(report.failures) == 1 and memory.get(["notes/a.md"])
    write(notes, "a.md", "Mended.")
    assert not sync(memory, notes).failures
    assert memory.get(["notes/a.md"])[0].text == "Mended."


@pytest.mark.parametrize("when", ["os.scandir", "epic_apps.syncing.run.digest_of"])
@pytest.mark.parametrize("goes", ["a.md", "trips/c.md", "trips"])
def test_what_goes_meanwhile_is_not_there(
    notes: Path, memory: EpicMemory, monkeypatch: pytest.MonkeyPatch, when: str, goes: str
) -> None:
    sync(memory, notes)
    real = pkgutil.resolve_name(when)

    def looking(path: Any) -> Any:
        seen = nullcontext(list(real(path))) if when == "os.scandir" else real(path)
        (notes / goes).rename(notes.parent / "gone") if (notes / goes).exists() else None
        return seen

    write(notes, "b.txt", "Buy eggs.")
    with monkeypatch.context() as patched:
        patched.setattr(when, looking)
        report = sync(memory, notes)
    assert report.changed == ["notes/b.txt"] and not report.failures
    sync(memory, notes)
    assert contents(memory) == fresh(notes)


def test_what_may_not_be_looked_at_is_a_failure(
    notes: Path, memory: EpicMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(memory, notes)
    before = contents(memory)
    looks = "epic_apps.syncing.run.digest_of"
    monkeypatch.setattr(looks, refusing(looks, "a.md"))
    (notes / "a.md").touch()
    assert f"{notes / 'a.md'} cannot be read: Permission denied." in sync(memory, notes).failures
    assert contents(memory) == before


def test_only_what_changed_is_read(notes: Path, memory: EpicMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in notes.rglob("*.*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    sync(memory, notes)
    read: list[str] = []
    monkeypatch.setattr("epic_apps.syncing.run.digest_of", lambda path: read.append(path.name) or digest_of(path))
    write(notes, "b.txt", "Buy eggs.")
    assert sync(memory, notes).changed == ["notes/b.txt"]
    assert read == ["b.txt"]


def test_a_folder_is_renamed_and_becomes_a_file(notes: Path, memory: EpicMemory) -> None:
    sync(memory, notes)
    (notes / "trips").rename(notes / "journeys")
    assert len(sync(memory, notes).renamed) == 2 and contents(memory) == fresh(notes)
    shutil.rmtree(notes / "journeys")
    (notes / "journeys").touch()
    assert len(sync(memory, notes).deleted) == 2


def test_a_quick_second_edit_of_the_same_length_is_seen(notes: Path, memory: EpicMemory) -> None:
    status = (notes / "b.txt").stat()
    sync(memory, notes)
    write(notes, "b.txt", "Buy milk and water.")
    os.utime(notes / "b.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert sync(memory, notes).changed == ["notes/b.txt"]


KILLED = """
import os
from epic_apps import syncing
from epic_memory import EpicMemory
from epic_memory.storage.sqlite.connection import Connection
syncing.run.FILES_AT_ONCE = syncing.state.FILES_AT_ONCE = 2
transaction, count = Connection.transaction, [0]
def work(path, folder, steps):
    def counted(self, *arguments, **options):
        count[0] += 1
        if count[0] == steps:
            os.kill(os.getpid(), 9)
        return transaction(self, *arguments, **options)
    with EpicMemory.open(path) as memory:
        Connection.transaction = counted
        syncing.sync(memory, folder)
    print("done", flush=True)
"""


@pytest.mark.slow
def test_a_kill_in_the_middle_is_made_good(tmp_path: Path) -> None:
    rng = random.Random(7)
    folder, path = tmp_path / "notes", tmp_path / "me.epic"
    with EpicMemory.open(path, [AVOIDS]):
        pass
    with Workers(KILLED) as workers:
        for turn in range(12):
            for name in ("a.md", "b.md", "c.md", "d.md", "e.md"):
                if rng.random() < 0.6:
                    write(folder, name, f"{rng.choice(TEXTS)} {turn if rng.random() < 0.5 else ''}")
                elif (folder / name).exists():
                    (folder / name).unlink()
            write(folder, "stays.md", "This one stays.")
            for cut in (rng.randint(1, 12), rng.randint(1, 6)):
                workers.run(str(path), str(folder), cut)
            for name in ("c.md", "d.md"):
                (folder / name).unlink(missing_ok=True)
            with EpicMemory.open(path) as memory:
                sync(memory, folder)
                built = EpicMemory([AVOIDS])
                sync(built, folder)
                assert contents(memory) == contents(built), turn
                assert memory.file.verify()


def test_watching(notes: Path, memory: EpicMemory) -> None:
    pytest.importorskip("watchfiles")
    reports: list[SyncReport] = []
    came, stop = threading.Event(), threading.Event()

    def told(_: Path, report: SyncReport) -> None:
        reports.append(report)
        came.set()

    thread = threading.Thread(target=watch, args=(memory, [notes], told), kwargs={"stop": stop}, daemon=True)
    thread.start()
    try:
        assert came.wait(20)
        came.clear()
        deadline = time.monotonic() + 20
        while not came.is_set() and time.monotonic() < deadline:
            write(notes, "new.md", f"A lamp, seen at {time.monotonic()}.")
            came.wait(0.5)
        assert "notes/new.md" in (*reports[1].added, *reports[1].changed)
    finally:
        stop.set()
        thread.join(10)


@pytest.fixture
def crowd(tmp_path: Path) -> Path:
    """A folder of more than fits into a reserve of 120 kB."""
    for number in range(120):
        name, words = f"all/{number}.md", " ".join(f"{number}word{n}" for n in range(150))
        write(tmp_path / "notes", name, f"Note {number} about {words}")
        os.utime(tmp_path / "notes" / name, (1, 1))
    return tmp_path / "notes"


def test_what_has_no_room_is_named_and_offered_again(crowd: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = crowd
    with EpicMemory.open(path, encoder=HashEncoder(), settings=Settings(reserve="120 kB")) as memory:
        report = sync(memory, folder)
        held = len(memory.items())
        assert 0 < held < 120 and len(report.no_room) == 120 - held and "--reserve" in str(report)
        name = report.no_room[0]
        words = (folder / name.removeprefix("notes/")).read_text()
        assert why_not(memory, words).stage == "budget"
        again = sync(memory, folder)
        assert len(again.no_room) == 120 - len(memory.items()) > 0, "also those that had to leave for others"
        assert not again.changed and set(again.added) <= set(report.no_room)
        with monkeypatch.context() as patched:
            patched.setattr("epic_apps.syncing.run.digest_of", lambda path: pytest.fail("nothing has to be read"))
            assert sync(memory, folder).no_room == sorted(again.no_room)
        write(folder, "trips/last.md", "A note.")
        assert set(sync(memory, folder).no_room) >= set(again.no_room)
        for number in range(0, 120, 3):  # what makes room has the others offered again
            (folder / f"all/{number}.md").unlink()
        sync(memory, folder)
        (folder / "trips/last.md").unlink()
        report = sync(memory, folder)
        assert report.added and set(report.added) <= set(again.no_room)
        assert len(report.no_room) == 80 - len(memory.items()) > 0
    with EpicMemory.open(path, encoder=HashEncoder(), settings=Settings(reserve="10 MB")) as memory:
        after = sync(memory, folder)
        assert len(memory.items()) == 80 and not after.no_room and set(after.added) == set(report.no_room)
        assert sync(memory, folder).is_empty


@pytest.mark.parametrize("text", ["Buy milk.", "---\nbuy: I want milk\n---\nA list.\n"], ids=["text", "front matter"])
def test_what_a_topic_kept_out_is_offered_when_the_rule_is_lifted(notes: Path, memory: EpicMemory, text: str) -> None:
    memory.never.add("milk")
    (notes / "b.txt").unlink()
    write(notes, "trips/b.md", text)
    os.utime(notes / "trips/b.md", (1, 1))
    report = sync(memory, notes)
    assert not memory.get(["notes/trips/b.md"])
    assert [*report.kept_out.values(), *memory.never.counts.values()] == [1]
    assert sync(memory, notes).is_empty
    write(notes, "trips/new.md", "A lamp.")
    report = sync(memory, notes)
    assert report.added == ["notes/trips/new.md"] and not report.kept_out
    assert set(memory.never.counts.values()) <= {1}, "it is not offered again"
    memory.never.remove("milk")
    assert sync(memory, notes).added == ["notes/trips/b.md"]
    assert memory.get(["notes/trips/b.md"]) and sync(memory, notes).is_empty


def test_patterns_that_are_no_text_change_nothing(notes: Path, memory: EpicMemory) -> None:
    (notes / ".epicignore").write_bytes(b"caf\xe9\n")
    with pytest.raises(InvalidInputError, match=r"\.epicignore cannot be read"):
        sync(memory, notes)
    assert not synced_folders(memory) and not memory.items()


def test_what_has_no_room_is_offered_again_after_a_cut(
    crowd: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EpicMemory.open(path, encoder=HashEncoder(), settings=Settings(reserve="120 kB")) as memory:
        with monkeypatch.context() as patched:
            patched.setattr("epic_apps.syncing.run.FolderState.forget", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                sync(memory, crowd)
        assert len(memory.items()) < 120 and sync(memory, crowd).no_room
    with EpicMemory.open(path, encoder=HashEncoder(), settings=Settings(reserve="10 MB")) as memory:
        sync(memory, crowd)
        assert len(memory.items()) == 120
