"""Files that an earlier version made: they open, are brought up to date at once or not at all, and work."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_core import EpicMemory, Item, Preference, SecondTier, Stance
from epic_core.errors import EncoderMismatchError, StoreError
from helpers import HashEncoder, KeepAll
from scripted import TRAIN, WINE, Scripted, verifier_of

# As the first version made it.
FIRST_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE preferences (
    row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, position INTEGER NOT NULL,
    id TEXT NOT NULL, text TEXT NOT NULL, vector BLOB NOT NULL, UNIQUE (namespace, id)
);
CREATE TABLE items (
    row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, id TEXT NOT NULL,
    text TEXT NOT NULL, metadata TEXT NOT NULL, second_tier BLOB, UNIQUE (namespace, id)
);
CREATE TABLE entries (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    item INTEGER NOT NULL REFERENCES items (row) ON DELETE CASCADE,
    preference INTEGER REFERENCES preferences (row) ON DELETE CASCADE,
    instruction TEXT NOT NULL, stance TEXT NOT NULL, rationale TEXT NOT NULL,
    confidence REAL, similarity REAL NOT NULL, vector BLOB NOT NULL, UNIQUE (item, preference)
);
CREATE INDEX entries_preference ON entries (preference);
CREATE TABLE pending (
    row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, id TEXT NOT NULL,
    text TEXT NOT NULL, metadata TEXT NOT NULL, reason TEXT NOT NULL, preferences TEXT NOT NULL,
    UNIQUE (namespace, id)
);
"""
HELD = Item(id="held", text="a red wine", metadata={"n": 1})
SECOND = Item(id="second", text="wine cellar in the old castle of Dover")
WAITING = Item(id="waiting", text="another red wine", metadata={"n": 2})
INSTRUCTION = "Think of red wine: a red wine"


def blob(text: str) -> bytes:
    return np.ascontiguousarray(HashEncoder().vector(text), dtype="<f4").tobytes()


def make_first(path: Path) -> Path:
    """A file as the first version left it: a preference, a held item, one in the second tier and one that waits."""
    encoder, wine = HashEncoder(), Preference(text=WINE)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA page_size = 1024")
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("BEGIN IMMEDIATE")
        db.execute(f"PRAGMA application_id = {0x45504943}")
        for statement in FIRST_SCHEMA.split(";\n"):
            db.execute(statement)
        db.execute("PRAGMA user_version = 1")
        described = {"name": encoder.name, "dimension": encoder.dimension, "fingerprint": encoder.fingerprint}
        meta = {"encoder": described, "tau/default": 0.3, "second_tier/default": 0.2}
        db.executemany("INSERT INTO meta VALUES (?, ?)", [(key, json.dumps(value)) for key, value in meta.items()])
        db.execute("INSERT INTO preferences VALUES (1, 'default', 0, ?, ?, ?)", (wine.id, wine.text, blob(WINE)))
        for row, item, tier in ((1, HELD, None), (2, SECOND, blob(SECOND.text))):
            metadata = json.dumps(dict(item.metadata), separators=(",", ":"))
            db.execute("INSERT INTO items VALUES (?, 'default', ?, ?, ?, ?)", (row, item.id, item.text, metadata, tier))
        similarity = float(encoder.vector(HELD.text) @ encoder.vector(WINE))
        db.execute(
            "INSERT INTO entries VALUES (1, 1, 1, ?, 'supports', 'near', 0.9, ?, ?)",
            (INSTRUCTION, similarity, blob(INSTRUCTION)),
        )
        db.execute(
            "INSERT INTO pending VALUES (1, 'default', ?, ?, ?, 'no answer', ?)",
            (WAITING.id, WAITING.text, '{"n":2}', json.dumps([wine.id])),
        )
        db.execute("COMMIT")
    return path


def opened(path: Path, *preferences: str, **options: Any) -> EpicMemory:
    return EpicMemory.open(path, preferences or None, **{"encoder": HashEncoder(), "verifier": KeepAll(), **options})


def schema(path: Path) -> tuple[int, dict[str, list[str]]]:
    """The version of a file, and the columns of its tables."""
    with closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        tables = {name: [column for _, column, *_ in db.execute(f"PRAGMA table_info({name})")] for name in names}
        return db.execute("PRAGMA user_version").fetchone()[0], tables


def structure(path: Path) -> list[Any]:
    """Every column of every table, with its type and what is said of it."""
    with closing(sqlite3.connect(path)) as db:
        names = db.execute("SELECT type, name FROM sqlite_master ORDER BY type, name").fetchall()
        return [
            (
                kind,
                name,
                db.execute(f"PRAGMA table_info({name})").fetchall(),
                db.execute(f"PRAGMA index_list({name})").fetchall(),
            )
            for kind, name in names
        ]


def version(path: Path) -> int:
    return schema(path)[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_first(tmp_path / "me.epic")


# brought up to date


def test_a_file_of_the_first_version_is_brought_up_to_the_second(path: Path) -> None:
    assert version(path) == 1
    opened(path).close()
    number, tables = schema(path)
    assert number == 2
    assert {"verdicts", "rewrites"} <= tables.keys()
    assert {"rewrite", "rewritten_for"} <= set(tables["items"])
    assert [p.name for p in path.parent.iterdir()] == ["me.epic"]


def test_it_has_the_schema_of_a_new_file(path: Path, tmp_path: Path) -> None:
    opened(path).close()
    opened(tmp_path / "new.epic", WINE).close()
    assert structure(path) == structure(tmp_path / "new.epic")


def test_all_that_was_held_is_held(path: Path) -> None:
    with opened(path, WINE) as memory:
        counts = memory.stats().counts
        assert counts == {"items": 1, "second_tier": 1, "entries": 1, "preferences": 1, "pending": 1, "verdicts": 0}
        (hit,) = memory.search("which wine", k=1)
        assert (hit.item, hit.text, hit.instructions) == (HELD, HELD.text, [INSTRUCTION])
        assert (hit.stances, hit.preferences, hit.tier) == ([Stance.SUPPORTS], [WINE], "memory")
        assert INSTRUCTION in memory.context("which wine", k=1)
        (entry,) = memory.explain("held").entries
        assert (entry.rationale, entry.confidence, entry.rewrite) == ("near", 0.9, "")
        assert "no answer" in memory.explain("waiting").note
        assert memory.search("castle Dover", k=1)[0].item == SECOND
        assert memory.fallback == SecondTier(tau=0.2) and memory.tau == 0.3


def test_it_works(path: Path) -> None:
    with opened(path) as memory:
        assert memory.add([HELD, WAITING]).duplicates == 2
        assert memory.retry().kept == 1
        assert memory.add(["red wine in the night train"]).kept == 1
        assert memory.add_preference(TRAIN).kept == 1
        assert memory.add([Item(id="held", text="a red wine anew")]).kept == 1
        memory.remove_preference(TRAIN)
    with opened(path) as memory:
        texts = sorted(hit.item.text for hit in memory.search("wine", k=9))
        assert texts == ["a red wine anew", "another red wine", "red wine in the night train"]
        memory.reencode(HashEncoder(512, name="other"))
        assert len(memory.search("wine", k=9)) == 3


def test_verdicts_are_cached_in_it(path: Path) -> None:
    lm = Scripted()
    with opened(path, verifier=verifier_of(lm)) as memory:
        assert (memory.retry().kept, lm.calls) == (1, 1)
        memory.add(["red wine nowine"])
    with opened(path, verifier=verifier_of(lm)) as memory:
        memory.add(["red wine nowine", Item(id="copy", text=WAITING.text)])
        assert lm.calls == 2 and memory.stats().counts["verdicts"] == 2


def test_its_items_are_rewritten_for_a_new_preference(path: Path) -> None:
    lm = Scripted()
    with opened(path, verifier=verifier_of(lm, refine="rewrite")) as memory:
        memory.add_preference("a red")
        (hit,) = memory.search("a red wine", k=1)
        assert hit.text == "anew for red wine and a red: a red wine" and hit.instructions == []


def test_another_encoder_is_refused_and_can_embed_it_anew(path: Path) -> None:
    other = HashEncoder(512, name="other")
    with pytest.raises(EncoderMismatchError, match="hash"):
        opened(path, encoder=other)
    with opened(path, encoder=other, reencode=True) as memory:
        assert memory.search("wine", k=1)[0].item == HELD


def test_opening_it_again_changes_nothing(path: Path) -> None:
    opened(path).close()
    data = path.read_bytes()
    opened(path).close()
    assert path.read_bytes() == data


def test_an_empty_file_of_the_first_version_works(tmp_path: Path) -> None:
    path = make_first(tmp_path / "empty.epic")
    with closing(sqlite3.connect(path)) as db:
        for table in ("meta", "entries", "items", "pending", "preferences"):
            db.execute(f"DELETE FROM {table}")
        db.commit()
    with opened(path, TRAIN) as memory:
        assert memory.add(["the night train"]).kept == 1


# all or nothing


def test_what_fails_in_the_middle_leaves_the_first_version_as_it_was(path: Path) -> None:
    # A table in the way of the last ones: those before it are made, and taken back.
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE rewrites (x)")
        db.commit()
    before = schema(path)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"me\.epic"):
            opened(path)
        assert schema(path) == before and "verdicts" not in before[1]
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE rewrites")
        db.commit()
    with opened(path) as memory:
        assert memory.search("wine", k=1)[0].item == HELD


KILLED = """
import os, sqlite3, sys
from pathlib import Path

class Dying(sqlite3.Connection):
    def execute(self, sql, *parameters):
        if "ALTER TABLE items ADD COLUMN rewritten_for" in sql:
            os.kill(os.getpid(), 9)
        return super().execute(sql, *parameters)

connect = sqlite3.connect
sqlite3.connect = lambda *arguments, **options: connect(*arguments, factory=Dying, **options)
from epic_core.store import Store
Store(Path(sys.argv[1]))
"""


def test_a_process_killed_in_the_middle_leaves_the_first_version_as_it_was(path: Path) -> None:
    before = schema(path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    assert schema(path) == before
    with opened(path) as memory:
        assert memory.search("wine", k=1)[0].item == HELD
    assert version(path) == 2


def test_a_file_that_cannot_be_written_is_a_clear_error_and_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = path.read_bytes()
    path.chmod(0o444)
    # Also for a user whom permissions do not stop.
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda p, mode, **k: mode != os.W_OK and allowed(p, mode, **k))
    with pytest.raises(StoreError, match=r"me\.epic was made by an older .* permissions"):
        opened(path)
    assert path.read_bytes() == data
    monkeypatch.undo()
    path.chmod(0o644)
    opened(path).close()
    assert version(path) == 2


def test_a_file_that_another_process_writes_is_a_clear_error_and_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epic_core.database._BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process"):
            opened(path)
        db.execute("ROLLBACK")
    assert version(path) == 1
    opened(path).close()


@pytest.mark.parametrize("number", [0, 3, 99, -1])
def test_a_version_that_is_not_known_is_a_clear_error(path: Path, number: int) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {number}")
    data = path.read_bytes()
    with pytest.raises(StoreError, match=rf"schema version {number}\b.*reads 2"):
        opened(path)
    assert path.read_bytes() == data


# at the same time


def test_several_threads_open_it_at_once(tmp_path: Path) -> None:
    for attempt in range(5):
        path, start = make_first(tmp_path / f"{attempt}.epic"), threading.Barrier(4)

        def first_hit(path: Path = path, start: threading.Barrier = start) -> Item:
            start.wait()
            with opened(path) as memory:
                return memory.search("wine", k=1)[0].item

        with ThreadPoolExecutor(4) as pool:
            found = [job.result() for job in [pool.submit(first_hit) for _ in range(4)]]
        assert found == [HELD] * 4 and version(path) == 2


OPENING = """
import sys
from epic_core import EpicMemory
from helpers import HashEncoder, KeepAll

sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
with EpicMemory.open(sys.argv[1], encoder=HashEncoder(), verifier=KeepAll()) as memory:
    memory.add([f"red wine {sys.argv[2]}"])
    print(memory.search("wine", k=1)[0].tier)
"""


def test_two_processes_open_it_at_once(path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", OPENING, str(path), str(number)],
            cwd=Path(__file__).parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    for process in started:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=30)[0] for process in started] == ["memory\n"] * 2
    assert version(path) == 2
    with opened(path) as memory:
        assert len(memory) == 3


def test_one_that_is_open_sees_what_another_writes(path: Path) -> None:
    with opened(path) as one, opened(path) as other:
        other.add(["red wine of the other"])
        assert {hit.item.text for hit in one.search("wine", k=9)} == {HELD.text, "red wine of the other"}
