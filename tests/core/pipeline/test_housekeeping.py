"""What an owner does with a memory: forget, export, import, back up, compact, check it, and let preferences expire."""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from epic_learn import add_conversation
from epic_memory import EpicMemory, Hit, Item, Preference, SearchOptions
from epic_memory.errors import (
    AlreadyThereError,
    DamagedError,
    EncoderMismatchError,
    EpicError,
    InvalidInputError,
    ReadOnlyError,
    StoreError,
    UnknownItemError,
    UnknownPreferenceError,
)
from epic_memory.storage.tables.items import version_of
from helpers import Clock, HashEncoder, KeepAll, WordModel, imported, memory_at, memory_of, method

WINE, SEA, TRAIN = "red wine", "blue sea", "night train"


def memory(path: Path | None = None, preferences: Any = (WINE, SEA), **options: Any) -> EpicMemory:
    options = {"verifier": WordModel(), **options}
    return memory_of(*preferences, **options) if path is None else memory_at(path, *(preferences or ()), **options)


def opened(path: Path, **options: Any) -> EpicMemory:
    return memory(path, None, **options)


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


# forget

# A text long enough to be compressed, with words that occur nowhere else.
SECRET = "Zanzibar red wine cellar " + " ".join(f"qx{number}" for number in range(40)) + " red wine red wine"
OWNED = {"metadata": {"owner": "mrs-qxholm"}}
SECRETS = {
    **{
        kind: Item(id=f"secret-{kind}-7731", text=f"{SECRET} {'red wine ' * 60} {word}", **OWNED)
        for kind, word in (("held", "keep"), ("waiting", "wait"), ("discarded", "drop"))
    },
    # One of several in a page: the page stays, what was there must not.
    "short": Item(id="qx7731", text="red wine qx17 Zanzibar", metadata={}),
    "far": Item(id="secret-far-7731", text=SECRET.replace("red wine", "yellow qxdesert"), **OWNED),
}
OTHERS = [Item(id=f"other{n}", text=f"red wine other {n} {'x' * (n % 50)}") for n in range(60)]


def traces(item: Item) -> list[bytes]:
    """All that a file or an export could show of an item."""
    words = [item.id, "qx17", "qx39", "Zanzibar", "mrs-qxholm", f"says of {item.id}: think of red wine", item.text]
    plain = [word.encode() for word in words]
    compressed = [zlib.compress(item.text.encode(), level) for level in (1, 6, 9)]
    # Headers and ends of a stream are like those of others.
    return [*plain, version_of(item), *(stream[8:40] for stream in compressed)]


def unpacked(octets: bytes) -> bytes:
    try:
        return zlib.decompress(octets)
    except zlib.error:
        return b""


def shows(path: Path, item: Item) -> list[bytes]:
    """The traces of an item in the bytes of a file, and in the values of its tables as they are and unpacked."""
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        values = [value for table in tables for row in db.execute(f"SELECT * FROM {table}") for value in row]
    cells = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    places = [path.read_bytes(), *cells, *map(unpacked, cells)]
    return [trace for trace in traces(item) if any(trace in place for place in places)]


@pytest.mark.parametrize(("kind", "given"), [*((kind, "id") for kind in SECRETS), ("held", "item"), ("far", "item")])
def test_what_is_forgotten_leaves_no_trace(path: Path, kind: str, given: str) -> None:
    item = SECRETS[kind]
    with memory(path, not_kept=100) as held:
        held.add(OTHERS[:30])
        held.add([item])
        held.add(OTHERS[30:])
        for _ in range(70):
            held.search("red wine Zanzibar qx17", k=3)
    # The test can fail: before, there are traces.
    assert item.id.encode() in path.read_bytes() and shows(path, item)
    with opened(path, not_kept=100) as held:
        counts = held.stats().counts
        held.forget(item if given == "item" else item.id)
        with pytest.raises(UnknownItemError):
            held.explain(item.id)
        assert item.id not in {hit.item.id for hit in held.search("Zanzibar qx17 red wine", k=100)}
        assert item.id not in {record.item_id for record in held.file.not_kept()}
        after = held.stats().counts
        assert sum(counts[name] - after[name] for name in ("items", "pending", "seen")) == 1
        held.file.verify()
    assert shows(path, item) == []
    with opened(path) as held:
        held.file.export(path.parent / "export.jsonl")
        exported = (path.parent / "export.jsonl").read_bytes()
        assert not [trace for trace in traces(item) if trace in exported]
        assert held.stats().counts["items"] == 60
    assert files(path.parent) == ["export.jsonl", "me.epic"]


def test_what_is_deleted_is_overwritten(path: Path) -> None:
    """Whether a deleted row would stay readable depends on where it lies: that it is overwritten is asked directly."""
    for held in (memory(path), memory()):
        with held:
            assert held._session.store.scalar("PRAGMA secure_delete") == 1


def test_forgetting_again_and_adding_again_work_and_both_versions_go(path: Path) -> None:
    item = SECRETS["held"]
    # The first of these was discarded and is in the sample, the second is held.
    first = Item(id="twice", text=SECRET.replace("red wine", "yellow") + " first")
    second = Item(id="twice", text=SECRET + " second keep")
    with memory(path) as held:
        held.add([item])
        held.forget(item, item, item.id)
        held.forget(item)
        with pytest.raises(UnknownItemError):
            held.forget(item.id)
        assert len(held) == 0
        assert held.add([item]).kept == 1
        assert [hit.item for hit in held.search(WINE)] == [item]
        held.add([first])
        held.add([second])
        held.forget(item.id, "twice")
        assert held.stats().counts["seen"] == 0
        held.file.verify()
    assert shows(path, item) == shows(path, first) == shows(path, second) == []


@pytest.mark.parametrize("wrong", ["nobody", None, 7, "", ["other1"], b"other1"])
def test_what_is_unknown_or_no_item_forgets_nothing(wrong: Any) -> None:
    held = memory()
    held.add([*OTHERS[:5], SECRETS["waiting"], SECRETS["far"]])
    before = held.stats().counts, [hit.item.id for hit in held.search(WINE, k=50)], held.file.not_kept()
    with pytest.raises(UnknownItemError if wrong == "nobody" else InvalidInputError):
        held.forget("other1", SECRETS["waiting"].id, wrong, SECRETS["far"])
    assert (held.stats().counts, [hit.item.id for hit in held.search(WINE, k=50)], held.file.not_kept()) == before


def test_an_item_not_in_the_sample_is_forgotten_by_itself_only() -> None:
    held = memory(not_kept=0, reserve=0)
    held.add([SECRETS["far"]])
    with pytest.raises(UnknownItemError, match="give the item itself"):
        held.forget(SECRETS["far"].id)
    assert held.add([SECRETS["far"]]).known == 1
    held.forget(SECRETS["far"])
    assert held.add([SECRETS["far"]]).known == 0


def test_deletes_give_the_space_back(path: Path) -> None:
    noise = random.Random(1)
    items = [Item(id=str(n), text=f"red wine {noise.getrandbits(4000):x} red wine") for n in range(200)]
    with memory(path, tau=0.1, verdict_cache=0) as held:
        empty = path.stat().st_size
        held.add(items)
        full = path.stat().st_size
        assert full > empty + 150_000
        held.forget(*(item.id for item in items[:100]))
        half = path.stat().st_size
        assert half - empty < 0.6 * (full - empty)
        held.preferences.remove(WINE)
        assert len(held) == 0
        held.forget(*held.items())
        assert path.stat().st_size - empty < 0.1 * (full - empty)


# export and import


def rich(path: Path | None = None) -> EpicMemory:
    """A memory that has everything there is."""
    ends = datetime.now(timezone.utc) + timedelta(days=30)
    given = [Preference(text=SEA), Preference(text=WINE, expires_at=ends), Preference(text=TRAIN, id="own-id")]
    held = memory(path, given, tau=0.3)
    texts = {
        "a": "red wine of the south",
        "b": "blue sea and red wine",
        "c": "blue sea unsure\nin two lines 🙂",
        "d": "night train drop",
        "e": "night train wait",
        "f": "night of cold wind and rain over hills here",
        "g": "red wine in a blue sea by night train",
        "h": "nothing at all",
    }
    metadata = {"a": {"year": 1999, "tags": ["x", None], "ü": "ß"}, "e": {"n": 1.5}}
    held.add([Item(id=name, text=text, metadata=metadata.get(name, {})) for name, text in texts.items()])
    for _ in range(70):
        held.search(WINE, k=2)
    return held


def contents(held: EpicMemory, folder: Path) -> list[Any]:
    """What an export says, its first line apart."""
    held.file.export(folder / "contents.jsonl", overwrite=True)
    lines = [json.loads(line) for line in (folder / "contents.jsonl").read_text("utf-8").splitlines()][1:]
    (folder / "contents.jsonl").unlink()
    return lines


def searched(held: EpicMemory) -> list[Any]:
    """What searches find, best first; what is equally good in any order."""

    def told_of(hit: Hit) -> tuple[Any, ...]:
        entries = sorted((entry.preference, entry.instruction, entry.stance, entry.score) for entry in hit.entries)
        return -hit.score, hit.item.id, hit.item.text, dict(hit.item.metadata), hit.tier, hit.text, entries

    queries = (WINE, SEA, TRAIN, "cold wind", "two lines")
    return [sorted(map(told_of, held.search(query, k=20)), key=lambda found: found[:2]) for query in queries]


def test_an_export_holds_all_there_is(tmp_path: Path) -> None:
    held = rich()
    lines = contents(held, tmp_path)
    kinds = [line["kind"] for line in lines]
    assert (kinds.count("preference"), kinds.count("item"), kinds.count("pending"), kinds[-1]) == (3, 8, 1, "end")
    assert held.file.export(tmp_path / "export.jsonl") == 8
    items = {line["id"]: line for line in lines if line["kind"] == "item"}
    assert {key for key, line in items.items() if line["light"]} == {"d", "e", "f", "h"}
    assert {entry["confidence"] for entry in items["c"]["entries"]} >= {0.9}
    first = json.loads((tmp_path / "export.jsonl").read_text("utf-8").splitlines()[0])
    assert (first["format"], first["namespace"], first["tau"]) == (1, "default", 0.3)


@pytest.mark.parametrize("in_ram", [True, False], ids=["of RAM", "of a file"])
def test_an_import_and_a_backup_give_the_same_memory(tmp_path: Path, in_ram: bool) -> None:
    export, path, copy = tmp_path / "export.jsonl", tmp_path / "made.epic", tmp_path / "copy.epic"
    with rich(None if in_ram else tmp_path / "me.epic") as held:
        held.file.export(export)
        held.file.backup(copy)
        before = contents(held, tmp_path)
        expected = list(held.preferences), searched(held), str(held.explain("b")), str(held.explain("e")), held.tau
        held.forget("a", "b")
    with imported(export, path, verifier=WordModel()) as made:
        assert made.preferences[1].expires_at == expected[0][1].expires_at is not None
        assert made.stats().verified_by == "model"
    for place in (path, copy):
        with opened(place) as made:
            assert contents(made, tmp_path) == before
            found = list(made.preferences), searched(made), str(made.explain("b")), str(made.explain("e")), made.tau
            assert found == expected
            assert made.stats().counts["light"] == 4 and len(made) == 4
            # What it holds is known, what waits can be verified.
            known = {"year": 1999, "tags": ["x", None], "ü": "ß"}
            assert made.add([Item(id="a", text="red wine of the south", metadata=known)]).new == 0
            assert made.retry().undecided == 1
            made.preferences.remove(WINE)
            made.file.verify()


def test_an_import_with_another_encoder_is_searched_by_that_one(tmp_path: Path, export: Path) -> None:
    held, other = rich(), HashEncoder(512, name="other", fingerprint="v2")
    held.file.export(export, overwrite=True)
    with imported(export, tmp_path / "me.epic", encoder=other, verifier=WordModel()) as made:
        assert made.tau == other.tau and contents(made, tmp_path) == contents(held, tmp_path)
        assert {hit.item.id for hit in made.search(WINE, k=2)} == {hit.item.id for hit in held.search(WINE, k=2)}
    with pytest.raises(EncoderMismatchError):
        opened(tmp_path / "me.epic")


def test_an_import_into_another_namespace_leaves_the_first(tmp_path: Path, path: Path, export: Path) -> None:
    with memory(path) as first:
        first.add(OTHERS[:5])
        before = contents(first, tmp_path)
    with imported(export, path, verifier=WordModel(), namespace="second") as second:
        assert len(second.preferences) == 3 and second.namespace == "second"
    with opened(path) as first:
        assert contents(first, tmp_path) == before
        assert len(first.search(WINE, namespace="second", k=20)) == 8
    octets = path.read_bytes()
    with pytest.raises(EncoderMismatchError):
        imported(export, path, encoder=HashEncoder(fingerprint="v2"), verifier=WordModel(), namespace="third")
    assert path.read_bytes() == octets


def test_an_import_into_what_holds_something_is_refused(tmp_path: Path, path: Path, export: Path) -> None:
    memory(path).close()
    before = path.read_bytes(), export.read_bytes()
    for target in (path, export):
        with pytest.raises(StoreError, match="holds something" if target == path else None):
            imported(export, target, verifier=WordModel())
    assert (path.read_bytes(), export.read_bytes()) == before
    assert files(tmp_path) == ["export.jsonl", "me.epic"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An export of a memory that has everything there is."""
    target = tmp_path_factory.mktemp("written") / "export.jsonl"
    rich().file.export(target)
    return target.read_bytes()


@pytest.fixture
def export(tmp_path: Path, written: bytes) -> Path:
    """That export, in a file that a test may change."""
    made = tmp_path / "export.jsonl"
    made.write_bytes(written)
    return made


def refused(export: Path, **options: Any) -> str:
    """Why an export is not imported; no file is left."""
    path = export.parent / "made.epic"
    with pytest.raises(EpicError) as error:
        imported(export, path, **{"verifier": WordModel(), **options}).close()
    assert not path.exists() and files(export.parent) == ([export.name] if export.exists() else [])
    return str(error.value)


def test_an_export_cut_anywhere_is_refused(export: Path) -> None:
    octets = export.read_bytes()
    lines = octets.splitlines(keepends=True)
    for count in range(len(lines)):
        export.write_bytes(b"".join(lines[:count]))
        assert "was cut" in refused(export)
    noise = random.Random(3)
    for place in (*noise.sample(range(1, len(octets) - 1), 25), len(octets) - 2):
        export.write_bytes(octets[:place])
        said = refused(export)
        assert f"line {octets[:place].count(10) + 1}" in said or "was cut" in said or "UTF-8" in said
    for number in range(1, len(lines) - 1):
        export.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
        assert str(export) in refused(export)
    export.write_bytes(octets + lines[-2])
    assert f"line {len(lines) + 1}" in refused(export)
    export.write_bytes(octets.rstrip(b"\n"))
    imported(export, export.with_name("made.epic"), verifier=WordModel()).close()


LINE = {"kind": "item", "id": "x", "text": "t", "metadata": {}, "version": "0" * 12, "light": True, "entries": []}
BROKEN = {
    "no JSON": "{",
    "a number": "7",
    "another kind": '{"kind": "song"}',
    "NaN": json.dumps({**LINE, "metadata": {"n": float("nan")}}),
    "no text": json.dumps({**LINE, "text": ""}),
    "no hex": json.dumps({**LINE, "version": "zz"}),
    "neither here nor there": json.dumps({**LINE, "light": False}),
    "nested deeply": "[" * 100_000,
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_line_is_named(export: Path, broken: str) -> None:
    lines = export.read_text("utf-8").splitlines()
    # A good item too many is another matter.
    for number in (5,) if '"id": "x"' in BROKEN[broken] else (0, 2, 5, len(lines) - 1):
        export.write_text("\n".join([*lines[:number], BROKEN[broken], *lines[number + 1 :]]) + "\n", "utf-8")
        assert f"line {number + 1}" in refused(export)


WRONG_VALUES: list[Any] = [None, "", "x", -1, 2**70, 1e999, float("nan"), [], {}, [None], "\ud800", "a\x00b", True]


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a line."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [place for key, each in inner if at[-1:] != ("metadata",) for place in places(each, (*at, key))]
    return [at, *below] if at else below


def with_value(line: Any, at: tuple[Any, ...], value: Any) -> Any:
    """A line with something else in one place."""
    copy = json.loads(json.dumps(line))
    inner = copy
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return copy


@pytest.mark.parametrize("kind", ["epic-memory", "preference", "item", "pending", "end"])
@pytest.mark.slow
def test_whatever_a_line_holds_it_is_imported_whole_or_refused(export: Path, kind: str) -> None:
    """No error but our own, and no file that cannot be opened."""
    path = export.with_name("made.epic")
    lines = [json.loads(line) for line in export.read_text("utf-8").splitlines()]
    number = next(number for number, line in enumerate(lines) if line["kind"] == kind)
    noise, wrong = random.Random(5), []
    for at in places(lines[number]):
        for value in (2**70, "\ud800", *noise.sample(WRONG_VALUES, 4)):
            made = [*lines[:number], with_value(lines[number], at, value), *lines[number + 1 :]]
            export.write_text("".join(json.dumps(line) + "\n" for line in made), "utf-8")
            try:
                imported(export, path, verifier=WordModel()).close()
            except EpicError:
                wrong += [(at, value, "a file is left")] if path.exists() else []
            except Exception as error:
                wrong.append((at, value, repr(error)[:100]))
            else:
                with opened(path) as held:
                    held.file.verify()
                    searched(held)
                    assert [p.text for p in held.preferences]
            path.unlink(missing_ok=True)
    assert wrong == []


def numbered(name: str, value: float) -> Callable[[bytes], bytes]:
    """Gives an entry another number."""
    return lambda octets: re.sub(rf'"{name}": [-.\d]+'.encode(), f'"{name}": {value}'.encode(), octets, count=1)


NO_EXPORTS: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("newer", lambda octets: octets.replace(b'"format": 1', b'"format": 2', 1), "line 1.*newer version"),
    ("another kind of file", lambda octets: b'{"text": "a corpus"}\n', "line 1"),
    ("UTF-16", lambda octets: octets.decode().encode("utf-16"), "UTF-8"),
    ("no text", lambda octets: b"\xff\xfe\x00\x01", "UTF-8"),
    ("empty", lambda octets: b"", "no end"),
    ("a preference twice", lambda octets: re.sub(b"(\n.*)", rb"\1\1", octets, count=1), "line 3.*there twice"),
    *(
        (f"{name} {value}", numbered(name, value), rf"line \d+.*{value}")
        for name, values in (("confidence", (-0.01, 1.01)), ("similarity", (-1.01, 1.01)), ("added", (0.5,)))
        for value in values
    ),
]


@pytest.mark.parametrize(("name", "altered", "said"), NO_EXPORTS)
def test_what_is_no_export_is_refused(export: Path, name: str, altered: Callable[[bytes], bytes], said: str) -> None:
    export.write_bytes(altered(export.read_bytes()))
    assert re.search(said, refused(export), re.S)


def test_an_export_that_is_not_there_is_refused(export: Path) -> None:
    export.unlink()
    assert "cannot be read" in refused(export)
    export.mkdir()
    assert "cannot be read" in refused(export)


@pytest.mark.parametrize(
    "options", [{"reserve": "much"}, {"tau": 7}, {"budget": "much"}, {"budget": 30_000}, {"namespace": ""}], ids=str
)
def test_options_that_cannot_be_leave_no_file(export: Path, options: dict[str, Any]) -> None:
    refused(export, **options)


def test_an_export_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = rich()
    target = tmp_path / "export.jsonl"
    target.write_text("mine", "utf-8")
    with pytest.raises(AlreadyThereError):
        held.file.export(target)
    assert target.read_text("utf-8") == "mine"

    def broken(*_: Any) -> Any:
        yield '{"kind": "item"}'
        raise OSError("no space")

    monkeypatch.setattr("epic_learn.export.lines_of", broken)
    with pytest.raises((OSError, StoreError)):
        held.file.export(target, overwrite=True)
    assert target.read_text("utf-8") == "mine" and files(tmp_path) == ["export.jsonl"]
    monkeypatch.undo()
    assert held.file.export(target, overwrite=True) == 8
    assert files(tmp_path) == ["export.jsonl"]


@pytest.mark.parametrize("call", ["file.export", "file.backup"])
@pytest.mark.parametrize("where", ["no/folder/x", ".", "", 7], ids=["no folder", "a folder", "empty", "a number"])
def test_a_place_that_cannot_be_is_an_error_that_says_so(tmp_path: Path, call: str, where: Any) -> None:
    held = rich()
    place = tmp_path / where if where in ("no/folder/x", ".") else where
    with pytest.raises(EpicError):
        method(held, call)(place)
    assert files(tmp_path) == []


@pytest.mark.parametrize("link", ["itself", "symlink", "hard link"])
@pytest.mark.parametrize("call", ["file.export", "file.backup"])
def test_a_memory_is_never_written_over_itself(path: Path, call: str, link: str) -> None:
    with memory(path) as held:
        held.add(OTHERS[:5])
        target = path if link == "itself" else path.with_name("link")
        if link == "symlink":
            target.symlink_to(path)
        elif link == "hard link":
            os.link(path, target)
        before = path.read_bytes()
        with pytest.raises(StoreError):
            method(held, call)(target, overwrite=True)
        assert path.read_bytes() == before
        held.add(OTHERS[5:9])
    with opened(path) as held:
        assert len(held) == 9


def test_a_backup_onto_a_file_is_refused_unless_wanted(tmp_path: Path, path: Path) -> None:
    target = tmp_path / "copy.epic"
    target.write_bytes(b"mine")
    with memory(path) as held:
        held.add(OTHERS[:5])
        with pytest.raises(AlreadyThereError):
            held.file.backup(target)
        assert target.read_bytes() == b"mine"
        held.file.backup(target, overwrite=True)
        held.add(OTHERS[5:8])
        held.file.backup(str(target), overwrite=True)
    with opened(target) as copy:
        assert len(copy) == 8
    assert files(tmp_path) == ["copy.epic", "me.epic"]


def test_a_backup_is_of_the_last_commit(tmp_path: Path, path: Path) -> None:
    with memory(path) as held, opened(path) as other:
        held.add(OTHERS[:5])
        with other._session.lock, other._session.store.transaction():
            other._session.store.items.remove("default", ["other1"])
            held.file.backup(tmp_path / "copy.epic")
        with opened(tmp_path / "copy.epic") as copy:
            assert len(copy) == 5


def test_compacting_makes_the_file_smaller_and_changes_nothing_else(path: Path) -> None:
    noise = random.Random(2)
    with memory(path, tau=0.1) as held:
        held.add([Item(id=str(n), text=f"red wine {noise.getrandbits(1500):x}") for n in range(150)])
        # Freed in many places.
        held.forget(*(str(n) for n in range(0, 150, 2)))
        before, hits = contents(held, path.parent), searched(held)
        size = path.stat().st_size
        gained = held.file.compact()
        assert gained == size - path.stat().st_size >= 0
        assert held.file.compact() == 0
        assert contents(held, path.parent) == before and searched(held) == hits
        held.add(OTHERS[:3])
        held.file.verify()
        assert files(path.parent) == ["me.epic"]
    with opened(path) as held:
        assert len(held) == 78


def test_verifying_counts_rows_and_finds_what_is_wrong(path: Path) -> None:
    with memory(path) as held:
        held.add(OTHERS[:5])
        rows = held.file.verify()
        held.add(OTHERS[5:6])
        # An item, an entry, a cached verdict.
        assert held.file.verify() == rows + 3
        with closing(sqlite3.connect(path)) as other:
            other.execute("UPDATE items SET text = 'white wine' WHERE id = 'other3'")
            other.commit()
        with pytest.raises(DamagedError, match="items"):
            held.file.verify()
    # Opening does not read every text; it says so as soon as that one is looked at.
    with opened(path) as held, pytest.raises(DamagedError):
        held.file.verify()


@pytest.mark.parametrize("ids", [("a", "e"), ("nobody",)])
async def test_the_asynchronous_twin_forgets_the_same(
    tmp_path: Path, ids: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A slow machine would commit the same verdicts in more blocks, and so in another order.
    monkeypatch.setattr("epic_memory.runtime.streaming._MOMENT", 60.0)
    outcomes = []
    for twin in (False, True):
        folder = tmp_path / str(twin)
        folder.mkdir()
        with rich(folder / "me.epic") as held:
            try:
                result: Any = await held.aforget(*ids) if twin else held.forget(*ids)
            except EpicError as error:
                result = type(error), str(error)
            held.file.verify()
            lines = contents(held, folder)
        for line in lines:
            line.pop("expires_at", None)
            for entry in line.get("entries", ()):
                del entry["added"]
        outcomes.append((result, lines, files(folder)))
    assert outcomes[0] == outcomes[1]


# reading only


def test_reading_only_never_writes(path: Path, tmp_path: Path) -> None:
    rich(path).close()
    os.utime(path, ns=(10**18, 10**18))
    before = path.read_bytes(), path.stat().st_mtime_ns
    with opened(path, read_only=True) as held:
        for _ in range(140):
            held.search(WINE)
        held.stats(), held.explain("a"), held.file.not_kept(), list(held.preferences), len(held), held.file.verify()
        held.context(WINE)
        held.file.export(tmp_path / "export.jsonl")
        held.file.backup(tmp_path / "copy.epic")
        assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert files(tmp_path) == ["copy.epic", "export.jsonl", "me.epic"]


CHANGES: list[tuple[str, tuple[Any, ...]]] = [
    *((name, ([text],)) for name in ("add", "aadd") for text in ("red wine more", "yellow")),
    *((name, ("a",)) for name in ("forget", "aforget")),
    *((name, ()) for name in ("retry", "file.compact")),
    ("file.reencode", (HashEncoder(fingerprint="v2"),)),
    ("preferences.add", ("cold wind",)),
    ("preferences.remove", (WINE,)),
    *(("preferences.replace", (WINE, new)) for new in ("cold wind", WINE)),
    ("preferences.set_aspects", (WINE, {"liked": ["port"]})),
    ("preferences.set_expansion", (WINE, {"follows": ["port"]})),
]


@pytest.mark.parametrize("ledger", [None, 0])
async def test_reading_only_refuses_every_change_before_a_model_is_asked(path: Path, ledger: int | None) -> None:
    rich(path).close()
    before = path.read_bytes()
    with opened(path, read_only=True, ledger=ledger, verifier=KeepAll()) as held:
        expected = searched(held)
        for name, given in CHANGES:
            with pytest.raises(ReadOnlyError):
                made = method(held, name)(*given)
                await made
        with pytest.raises(ReadOnlyError):
            add_conversation(held, [{"role": "user", "content": "red wine more"}])
        assert asked(held) == 0 and searched(held) == expected
    assert path.read_bytes() == before


def test_reading_only_makes_no_file_and_no_namespace(path: Path) -> None:
    with pytest.raises(StoreError):
        opened(path, read_only=True)
    assert not path.exists()
    memory(path).close()
    before = path.read_bytes()
    for options in ({"namespace": "new"}, {"budget": 10**6}, {"tau": 0.2}, {"verdict_cache": 0}):
        with opened(path, read_only=True, **options) as held:
            held.search(WINE)
    with pytest.raises(ReadOnlyError):
        memory(path, [WINE, SEA, TRAIN], read_only=True, sync=True)
    with pytest.raises(ReadOnlyError):
        opened(path, read_only=True, encoder=HashEncoder(fingerprint="v2"), reencode=True)
    assert path.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_and_folder_without_write_permission_can_be_read(path: Path) -> None:
    rich(path).close()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        for read_only in (False, True):
            with opened(path, read_only=read_only) as held:
                assert len(held.search(WINE, k=20)) > 1
                with pytest.raises(ReadOnlyError):
                    held.add(["red wine more"])
    finally:
        path.parent.chmod(0o755)


# preferences that end


def ending(path: Path | None, clock: Clock, **options: Any) -> EpicMemory:
    held = memory(path, [Preference(text=WINE, expires_at=clock.ends(1)), SEA], **options)
    held.add(Item(id=name, text=text) for name, text in (("wine", WINE), ("both", f"{WINE} {SEA}"), ("sea", SEA)))
    return held


def ids(held: EpicMemory, query: str = WINE) -> set[str]:
    """The ids of what is kept for a preference; the light tier has the rest."""
    return {hit.item.id for hit in held.search(query, k=20) if hit.entries}


def told(held: EpicMemory) -> list[str]:
    return [preference.text for preference in held.preferences]


def asked(held: EpicMemory) -> int:
    return len(held.verifier.asked)


def test_a_preference_counts_until_its_time_is_over(clock: Clock) -> None:
    held = ending(None, clock)
    clock.pass_by(0.5)
    assert told(held) == [WINE, SEA] and ids(held) == {"wine", "both", "sea"}
    assert [text for text, _, _ in held.search(WINE).steered_by] == [WINE]
    clock.pass_by(0.5)
    assert told(held) == [SEA]
    hits = held.search(WINE, k=20)
    assert {hit.item.id: hit.preferences for hit in hits} == {"both": [SEA], "sea": [SEA], "wine": []}
    assert {hit.item.id: hit.tier for hit in hits} == {"both": "memory", "sea": "memory", "wine": "light"}
    assert [preference.text for preference, _ in hits.matters] == [SEA]
    assert WINE not in [text for text, *_ in hits.steered_by]
    changes: list[Callable[[], object]] = [
        lambda: held.search(WINE, options=SearchOptions(preferences=[WINE])),
        lambda: held.preferences.remove(WINE),
        lambda: held.preferences.replace(WINE, TRAIN),
    ]
    for change in changes:
        with pytest.raises(UnknownPreferenceError):
            change()
    # It does not match what comes either.
    report = held.add([Item(id="new", text="red wine anew"), Item(id="mixed", text="red wine at blue sea anew")])
    assert report.kept == 1
    assert [entry.preference for entry in held.explain("mixed").entries] == [SEA]


@pytest.mark.parametrize("read_only", [False, True])
def test_what_has_expired_is_hidden_after_opening_too(path: Path, clock: Clock, read_only: bool) -> None:
    ending(path, clock).close()
    clock.pass_by(2)
    before = path.read_bytes()
    with opened(path, read_only=read_only) as held:
        assert told(held) == [SEA] and ids(held) == {"both", "sea"}
        if read_only:
            with pytest.raises(ReadOnlyError):
                held.add(["blue sea more"])
        held.file.verify()
    assert path.read_bytes() == before or not read_only


CHANGES_AFTER: list[tuple[str, tuple[Any, ...]]] = [
    ("add", ([Item(id="later", text="something else")],)),
    ("preferences.add", (TRAIN,)),
    ("preferences.replace", (SEA, "blue sea always")),
    ("file.compact", ()),
]


@pytest.mark.parametrize(("change", "given"), CHANGES_AFTER)
@pytest.mark.parametrize("options", [{}, {"budget": 300_000, "reserve": 0}], ids=["default", "as in the paper"])
def test_the_next_change_removes_what_has_expired(
    path: Path, clock: Clock, change: str, given: tuple[Any, ...], options: dict[str, Any]
) -> None:
    with ending(path, clock, **options) as held:
        verdicts = held.stats().counts["verdicts"]
        clock.pass_by(2)
        method(held, change)(*given)
        counts = held.stats().counts
        assert (counts["items"], counts["preferences"]) == (2, 1 + (change == "preferences.add"))
        assert ids(held, SEA) == {"both", "sea"}
        assert ("expired" if options else "light tier") in str(held.explain("wine"))
        assert not held.explain("wine").entries
        if options:
            assert [(record.item_id, record.stage) for record in held.file.not_kept()][-1:] == [("wine", "expired")]
        assert all(entry.preference != WINE for entry in held.explain("both").entries)
        assert counts["verdicts"] < verdicts + 3
        held.file.verify()
    octets = path.read_bytes()
    assert b"think of red wine" not in octets and b"because of red wine" not in octets


def test_the_time_changes_by_replacing_by_sync_and_by_adding_again(path: Path, clock: Clock) -> None:
    with ending(path, clock) as held:
        before = asked(held)
        held.preferences.replace(WINE, Preference(text=WINE, expires_at=clock.ends(10)))
        assert held.preferences[0] == Preference(text=WINE, expires_at=clock.ends(10))
        clock.pass_by(5)
        assert ids(held) == {"wine", "both", "sea"}
        held.preferences.replace(WINE, WINE)
        clock.pass_by(500)
        assert ids(held) == {"wine", "both", "sea"} and held.preferences[0].expires_at is None
        # Nothing was verified again, nothing lost.
        assert asked(held) == before
    with memory(path, [Preference(text=WINE, expires_at=clock.ends(9)), SEA], sync=True) as held:
        assert held.preferences[0].expires_at == clock.ends(9)
        clock.pass_by(3)
        assert ids(held) == {"wine", "both", "sea"}
        held.preferences.replace(WINE, Preference(text=WINE, expires_at=clock.ends(-1)))
        assert ids(held) == {"both", "sea"}
    with opened(path) as held:
        assert told(held) == [SEA]
        held.preferences.add(Preference(text=WINE, expires_at=clock.ends(1)))
        assert told(held) == [SEA, WINE]
        # What only the old one held went to the light tier, and is matched again.
        assert sorted(entry.preference for entry in held.explain("both").entries) == [SEA, WINE]
        assert ids(held) == {"wine", "both", "sea"}
        held.file.verify()
        clock.pass_by(2)
        assert ids(held) == {"both", "sea"}


def test_a_replaced_preference_with_an_id_of_its_own_is_the_new_text() -> None:
    """The same id with another text is another preference: what was found near the old one is not near this one."""
    held = memory(None, [Preference(text=WINE, id="mine")])
    held.add([Item(id="wine", text="red wine")])
    held.preferences.replace("mine", Preference(text=SEA, id="mine"))
    assert told(held) == [SEA]
    assert held.add([Item(id="sea", text="blue sea")]).kept == 1
    assert ids(held, SEA) == {"sea"}
    assert [text for text, _, _ in held.search(SEA).steered_by] == [SEA]


def test_the_same_program_runs_before_and_after_the_time(path: Path, clock: Clock) -> None:
    given = [Preference(text=WINE, expires_at=clock.ends(1)), Preference(text=SEA)]
    for left in ([WINE, SEA], [SEA]):
        for sync in (False, True, False):
            with memory(path, given, sync=sync) as held:
                assert told(held) == left
                held.add([*OTHERS[:2], Item(id="sea", text="blue sea")] if WINE in left else [])
                assert ids(held) == {*({"other0", "other1"} if WINE in left else ()), "sea"}
        clock.pass_by(2)


def test_a_preference_that_has_ended_costs_nothing_and_nothing_waits_for_it(clock: Clock) -> None:
    held = memory(None, [Preference(text=WINE, expires_at=clock.ends(1)), SEA])
    held.add([Item(id="w", text="red wine wait"), Item(id="s", text="blue sea wait")])
    clock.pass_by(2)
    before = asked(held)
    with suppress(EpicError):
        held.preferences.add(Preference(text="sea wait", expires_at=clock.ends(-1)))
    assert told(held) == [SEA] and asked(held) == before
    held.verifier = KeepAll()
    report = held.retry()
    assert (report.kept, report.discarded) == (1, 1) and ids(held, SEA) == {"s"}
    assert held.stats().counts["pending"] == 0


@pytest.mark.parametrize("text", ["2031-03-31T12:00:00+01:00", "2031-03-31T11:00:00Z", "2031-03-31 11:00+00:00"])
def test_a_time_may_be_given_as_text(path: Path, text: str) -> None:
    preference = Preference(text=WINE, expires_at=text)
    assert preference.expires_at == datetime(2031, 3, 31, 11, tzinfo=timezone.utc)
    memory(path, [preference]).close()
    with opened(path) as held:
        assert held.preferences == [preference]


FIRST_MINUTE = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))


@pytest.mark.parametrize(
    "wrong", [datetime(2031, 3, 31), "2031-03-31T12:00:00", "tomorrow", 0, True, float("nan"), FIRST_MINUTE], ids=str
)
def test_what_is_no_time_with_a_zone_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInputError):
        Preference(text=WINE, expires_at=wrong)
