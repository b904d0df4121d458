"""Files that earlier versions made: they open, are brought up to date at once or not at all, and work."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_core import EpicMemory, Item, Preference, Stance
from epic_core.errors import DamagedError, EncoderMismatchError, ReadOnlyError, StoreError
from epic_core.preferences.parser import parse_aspects
from epic_core.storage.memory_schema import GRAPH_VERSION, SCHEMA_VERSION
from epic_core.storage.row_codec import checksum
from epic_core.storage.store import Store
from epic_core.verification.base import rewriter_of
from helpers import HashEncoder, KeepAll
from scripted import SEA, TRAIN, WINE, Scripted, anew, rows, verifier_of

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
# What the second version added.
SECOND_SCHEMA = """
CREATE TABLE verdicts (
    chunk BLOB NOT NULL, preference BLOB NOT NULL, version BLOB NOT NULL, written INTEGER NOT NULL,
    kept INTEGER NOT NULL, stance TEXT, instruction TEXT, rationale TEXT, confidence REAL,
    PRIMARY KEY (chunk, preference, version)
) WITHOUT ROWID;
CREATE TABLE rewrites (
    chunk BLOB NOT NULL, preferences BLOB NOT NULL, version BLOB NOT NULL, written INTEGER NOT NULL,
    text TEXT NOT NULL, PRIMARY KEY (chunk, preferences, version)
) WITHOUT ROWID;
ALTER TABLE items ADD COLUMN rewrite TEXT;
ALTER TABLE items ADD COLUMN rewritten_for BLOB;
"""
# As the third version had preferences; all else is as it is now.
THIRD_PREFERENCES = """CREATE TABLE preferences (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, position INTEGER, id TEXT, text TEXT, expires REAL,
 vector BLOB, crc INTEGER
)"""
TABLES = ("entries", "items", "pending", "preferences")
HELD = Item(id="held", text="a red wine", metadata={"n": 1})
SECOND = Item(id="second", text="wine cellar in the old castle of Dover")
WAITING = Item(id="waiting", text="another red wine", metadata={"n": 2})
INSTRUCTION = "Think of red wine: a red wine"
# Ann's, in files of the second version.
BOTH = Item(id="both", text="blue sea from the night train", metadata={"a": "ü", "y": [1, None]})
LONG = Item(id="long", text="blue sea and more of the blue sea " * 40)
ANEW = anew(BOTH.text, TRAIN, SEA)
GONE = "blue sea nosea"
ASKED = Item(id="asked", text="another blue sea")


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


def hashed(*parts: str, size: int = 16) -> bytes:
    """As verdicts and rewritten texts are found."""
    made = blake2b(digest_size=size)
    for part in parts:
        made.update(len(part.encode()).to_bytes(8, "little") + part.encode())
    return made.digest()


def make_second(path: Path) -> Path:
    """A file as the second version left it: as `make_first`, and Ann's, whose texts were rewritten."""
    make_first(path)
    train, sea = Preference(text=TRAIN), Preference(text=SEA)
    verifier = verifier_of(Scripted(), refine="rewrite")
    rewriter = rewriter_of(verifier)
    assert rewriter is not None
    judged, made = hashed(verifier.name, size=8), hashed(rewriter.name, size=8)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        for statement in SECOND_SCHEMA.split(";\n"):
            db.execute(statement)
        db.execute("PRAGMA user_version = 2")
        meta = {"tau/ann": 0.25, "verifier/ann": verifier.name}
        db.executemany("INSERT INTO meta VALUES (?, ?)", [(key, json.dumps(value)) for key, value in meta.items()])
        # The one that came first stands last.
        for row, position, preference in ((2, 1, sea), (3, 0, train)):
            db.execute(
                "INSERT INTO preferences VALUES (?, 'ann', ?, ?, ?, ?)",
                (row, position, preference.id, preference.text, blob(preference.text)),
            )
        under = hashed(*sorted((sea.id, train.id)), size=8)
        for row, item, rewrite, rewritten_for in ((3, BOTH, ANEW, under), (4, LONG, None, None)):
            metadata = json.dumps(dict(item.metadata), ensure_ascii=False, separators=(",", ":"))
            db.execute(
                "INSERT INTO items VALUES (?, 'ann', ?, ?, ?, NULL, ?, ?)",
                (row, item.id, item.text, metadata, rewrite, rewritten_for),
            )
        for row, item_row, preference_row, instruction, text in (
            (2, 3, 2, "", ANEW),
            (3, 3, 3, "", ANEW),
            (4, 4, 2, "Go to the sea.", "Go to the sea."),
        ):
            db.execute(
                "INSERT INTO entries VALUES (?, ?, ?, ?, 'mixed', 'said', NULL, 0.5, ?)",
                (row, item_row, preference_row, instruction, blob(text)),
            )
        db.execute(
            "INSERT INTO pending VALUES (2, 'ann', ?, ?, '{}', 'Perhaps.', ?)",
            (ASKED.id, ASKED.text, json.dumps([sea.id])),
        )
        for written, text, name, said in (
            (1, BOTH.text, TRAIN, (1, "mixed", "", "said", None)),
            (2, BOTH.text, SEA, (1, "mixed", "", "said", None)),
            (3, GONE, SEA, (0, None, None, None, 0.75)),
        ):
            db.execute(
                "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (hashed("ann", text), hashed("ann", name), judged, written, *said),
            )
        names = b"".join(sorted(hashed("ann", name) for name in (TRAIN, SEA)))
        db.execute("INSERT INTO rewrites VALUES (?, ?, ?, 4, ?)", (hashed("ann", BOTH.text), names, made, ANEW))
        db.execute("COMMIT")
    return path


MAKE = {1: make_first, 2: make_second}


def make_third(path: Path) -> Path:
    """A file as the third version left it, with what `make_second` has in it."""
    opened(make_second(path)).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        kept = "row, namespace, position, id, text, expires, vector"
        held = db.execute(f"SELECT {kept} FROM preferences").fetchall()
        db.execute("BEGIN IMMEDIATE")
        db.execute("DROP TABLE preferences")
        db.execute(THIRD_PREFERENCES)
        for row in held:
            db.execute("INSERT INTO preferences VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, checksum(*row[1:])))
        db.execute("UPDATE sums SET total = (SELECT sum(crc) FROM preferences) WHERE name = 'preferences'")
        db.execute("PRAGMA user_version = 3")
        db.execute("COMMIT")
    return path


def dump(path: Path) -> list[str]:
    """All that a file holds."""
    with closing(sqlite3.connect(path)) as db:
        return [f"version {db.execute('PRAGMA user_version').fetchone()[0]}", *db.iterdump()]


def verified(path: Path) -> None:
    """Nothing in a file is other than it was written."""
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    store = Store(path, must_exist=True)
    assert store.verify() > 0
    store.close()


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


@pytest.fixture(params=[1, 2])
def old(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def path(tmp_path: Path, old: int) -> Path:
    return MAKE[old](tmp_path / "me.epic")


@pytest.fixture
def second(tmp_path: Path) -> Path:
    return make_second(tmp_path / "me.epic")


def ann(path: Path, lm: Scripted | None = None, **options: Any) -> EpicMemory:
    return opened(path, namespace="ann", verifier=verifier_of(lm or Scripted(), refine="rewrite"), **options)


# brought up to date


def test_a_file_of_an_older_version_is_brought_up_to_this_one(path: Path, old: int) -> None:
    assert version(path) == old < SCHEMA_VERSION
    opened(path).close()
    number, tables = schema(path)
    assert number == SCHEMA_VERSION
    assert {"verdicts", "rewrites", "uses", "ledger", "not_kept", "sums"} <= tables.keys()
    assert {"rewrite", "rewritten_for", "digest", "crc", "text_crc"} <= set(tables["items"])
    assert [p.name for p in path.parent.iterdir()] == ["me.epic"]
    verified(path)


def test_it_has_the_schema_of_a_new_file(path: Path, tmp_path: Path) -> None:
    opened(path).close()
    opened(tmp_path / "new.epic", WINE).close()
    assert structure(path) == structure(tmp_path / "new.epic")


def test_all_that_was_held_is_held(path: Path, old: int) -> None:
    with opened(path, WINE) as memory:
        counts = memory.stats().counts
        held = {"items": 1, "light": 1, "entries": 1, "preferences": 1, "pending": 1}
        assert counts == {**held, "verdicts": 4 if old == 2 else 0, "seen": 0}
        (hit,) = memory.search("which wine", k=1)
        assert (hit.item, hit.text, hit.instructions) == (HELD, HELD.text, [INSTRUCTION])
        assert (hit.stances, hit.preferences, hit.tier) == ([Stance.SUPPORTS], [WINE], "memory")
        assert INSTRUCTION in memory.context("which wine", k=1)
        (entry,) = memory.explain("held").entries
        assert (entry.rationale, entry.confidence, entry.rewrite) == ("near", 0.9, "")
        encoder = HashEncoder()
        assert entry.similarity == pytest.approx(float(encoder.vector(HELD.text) @ encoder.vector(WINE)), abs=1e-6)
        assert "no answer" in memory.explain("waiting").note
        assert memory.search("castle Dover", k=1)[0].item == SECOND
        assert memory.tau == 0.3


def test_its_vectors_are_what_they_were_and_a_search_scores_as_before(path: Path) -> None:
    encoder = HashEncoder()
    with opened(path) as memory:
        total = encoder.vector("castle wine") + encoder.vector(WINE)
        score = float(encoder.vector(INSTRUCTION) @ total / np.linalg.norm(total))
        (hit,) = memory.search(
            "castle wine", k=1, steering="paper", stance_policy="any", keys="instruction", min_score=None
        )
        assert hit.score == pytest.approx(score, abs=2e-3)
    store = Store(path)
    ((first, *_),) = [store.preferences("default", encoder.dimension)[2]]
    for found, text in (
        (first, WINE),
        (store.space("default", encoder.dimension).vectors[0], INSTRUCTION),
        (store.text_vectors(store.light_rows("default"), encoder.dimension)[0], SECOND.text),
    ):
        assert found == pytest.approx(encoder.vector(text), abs=2e-3)
    store.close()


def test_rewritten_texts_are_held_under_their_preferences_in_the_users_order(second: Path) -> None:
    lm = Scripted()
    with ann(second, lm) as memory:
        assert [preference.text for preference in memory.preferences] == [TRAIN, SEA] and memory.tau == 0.25
        assert memory.stats().verified_by == verifier_of(Scripted(), refine="rewrite").name
        explained = memory.explain("both")
        assert explained.item == BOTH and {entry.preference for entry in explained.entries} == {TRAIN, SEA}
        assert {(entry.rewrite, entry.instruction, entry.rationale, entry.stance) for entry in explained.entries} == {
            (ANEW, "", "said", Stance.MIXED)
        }
        (entry,) = memory.explain("long").entries
        assert (entry.instruction, entry.confidence, entry.similarity) == ("Go to the sea.", None, 0.5)
        assert memory.explain("long").item == LONG
        (hit,) = memory.search("night train to the sea", k=1)
        assert (hit.item, hit.text) == (BOTH, ANEW)
        assert "Perhaps." in memory.explain("asked").note
        # Nothing was rewritten for other preferences than those it has.
        memory.retry()
        assert {asked.chunk for asked in lm.asked} == {ASKED.text}
    with opened(second) as memory:
        assert [preference.text for preference in memory.preferences] == [WINE]
    verified(second)


def test_what_was_cached_in_it_costs_no_call(second: Path) -> None:
    lm = Scripted()
    with ann(second, lm) as memory:
        report = memory.add([Item(id="copy", text=BOTH.text), Item(id="gone", text=GONE)])
        assert (lm.calls, report.kept, report.discarded, report.cached) == (0, 1, 1, 3)
        (one, other) = memory.explain("copy").entries
        assert one.rewrite == other.rewrite == ANEW and one.rationale == "said"
        memory.remove_preference(SEA)
        assert memory.stats().counts["verdicts"] == rows(second) + rows(second, "rewrites")
    with closing(sqlite3.connect(second)) as db:
        found = db.execute("SELECT count(*) FROM verdicts WHERE preference = ?", (hashed("ann", SEA),)).fetchone()
    assert found == (0,)
    verified(second)


def test_what_is_cached_later_counts_as_newer(second: Path) -> None:
    lm = Scripted()
    with ann(second, lm, verdict_cache=5) as memory:
        memory.add(["a blue sea nosea 1", "a blue sea nosea 2", "a blue sea nosea 3"])
        calls = lm.calls
        memory.add([Item(id="again", text="a blue sea nosea 3")])
        assert lm.calls == calls
        memory.add([Item(id="copy", text=BOTH.text)])
        assert lm.calls > calls


@pytest.mark.parametrize("emptied", [False, True], ids=["some left", "none left"])
def test_a_number_that_was_given_is_not_given_again(path: Path, emptied: bool) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE sqlite_sequence SET seq = 90")
        if emptied:
            for table in TABLES:
                db.execute(f"DELETE FROM {table}")
    for _ in range(2):
        opened(path, *([WINE] if emptied else []), sync=True).close()
    with opened(path) as memory:
        memory.add(["red wine in the evening"])
        memory.add_preference(TRAIN)
        memory.verifier = verifier_of(Scripted(hook=lambda asked: "Perhaps."))
        assert memory.add(["red wine, perhaps"]).undecided == 1
    with closing(sqlite3.connect(path)) as db:
        highest = {table: db.execute(f"SELECT max(row) FROM {table}").fetchone()[0] for table in TABLES}
    assert [table for table, row in highest.items() if row <= 90] == []


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
        assert texts == ["a red wine anew", "another red wine", "red wine in the night train", SECOND.text]
        memory.reencode(HashEncoder(512, name="other"))
        assert len(memory.search("wine", k=9)) == 4


def test_verdicts_are_cached_in_it(path: Path) -> None:
    lm, before = Scripted(), rows(path) + rows(path, "rewrites") if version(path) == 2 else 0
    with opened(path, verifier=verifier_of(lm)) as memory:
        assert (memory.retry().kept, lm.calls) == (1, 1)
        memory.add(["red wine nowine"])
    with opened(path, verifier=verifier_of(lm)) as memory:
        memory.add([Item(id="no", text="red wine nowine"), Item(id="copy", text=WAITING.text)])
        assert lm.calls == 2 and memory.stats().counts["verdicts"] == before + 2


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


def test_a_file_of_an_older_version_that_holds_nothing_works(path: Path, old: int) -> None:
    with closing(sqlite3.connect(path)) as db:
        for table in ("meta", *TABLES, *(("verdicts", "rewrites") if old == 2 else ())):
            db.execute(f"DELETE FROM {table}")
        db.commit()
    with opened(path, TRAIN) as memory:
        assert memory.add(["the night train"]).kept == 1


# all or nothing


def test_what_fails_in_the_middle_leaves_the_older_version_as_it_was(path: Path) -> None:
    # A table in the way of the last ones: those before it are made anew, and taken back.
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE sums (x)")
        db.commit()
    data, before = path.read_bytes(), dump(path)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"me\.epic"):
            opened(path)
        assert dump(path) == before and path.read_bytes() == data
        assert [p.name for p in path.parent.iterdir()] == ["me.epic"]
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE sums")
        db.commit()
    with opened(path) as memory:
        assert memory.search("wine", k=1)[0].item == HELD


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE items SET metadata = '{bad' WHERE id = 'held'",
        "UPDATE entries SET vector = x'000000' WHERE row = 1",
        "UPDATE entries SET vector = 'none' WHERE row = 1",
        "UPDATE preferences SET vector = 5 WHERE row = 1",
        "UPDATE items SET second_tier = x'' WHERE id = 'second'",
        "UPDATE items SET text = x'ff' WHERE id = 'held'",
        "UPDATE items SET text = CAST(x'ff' AS TEXT) WHERE id = 'held'",
        "ALTER TABLE entries RENAME TO others",
        "ALTER TABLE entries RENAME COLUMN stance TO other",
    ],
)
def test_what_the_older_version_never_wrote_is_a_clear_error_and_stays(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()
    data = path.read_bytes()
    with pytest.raises(DamagedError, match=r"me\.epic"):
        opened(path)
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE notes (x)",
        "CREATE TRIGGER t AFTER UPDATE ON items BEGIN DELETE FROM items; END",
        "CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM entries; END",
        "CREATE TRIGGER t BEFORE DELETE ON preferences BEGIN DELETE FROM items; END",
    ],
)
def test_what_is_no_part_of_an_older_version_is_not_run_and_what_is_refused_stays(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()
    data = path.read_bytes()
    try:
        memory = opened(path)
    except StoreError:
        assert path.read_bytes() == data
        return
    assert memory.search("wine", k=1)[0].item == HELD and memory.stats().counts["light"] == 1
    memory.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT name FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchall() == []


KILLED = """
import os, sqlite3, sys
from pathlib import Path

def die(sql):
    if sys.argv[2] in sql:
        os.kill(os.getpid(), 9)

class Dying(sqlite3.Connection):
    def execute(self, sql, *parameters):
        die(sql)
        return super().execute(sql, *parameters)

    def executemany(self, sql, *parameters):
        die(sql)
        return super().executemany(sql, *parameters)

connect = sqlite3.connect

def small(*arguments, **options):
    made = connect(*arguments, factory=Dying, **options)
    # What is changed goes to the file at once, and has to be taken back from the journal.
    made.execute("PRAGMA cache_size = 1")
    made.execute("PRAGMA cache_spill = 1")
    return made

sqlite3.connect = small
from epic_core.storage.store import Store
Store(Path(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "at",
    [
        "BEGIN IMMEDIATE",
        "DROP TABLE",
        "CREATE TABLE items",
        "CREATE TABLE sums",
        "INTO entries",
        "INTO pending",
        "COMMIT",
    ],
)
def test_a_process_killed_in_the_middle_leaves_the_older_version_as_it_was(path: Path, old: int, at: str) -> None:
    before = dump(path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), at], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    if at == "COMMIT":
        assert Path(f"{path}-journal").stat().st_size > 512
    assert dump(path) == before
    with opened(path) as memory:
        assert memory.search("wine", k=1)[0].item == HELD
    assert version(path) == SCHEMA_VERSION
    verified(path)


def test_a_killed_upgrade_is_taken_back_and_done_again_when_the_file_is_opened(path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), "COMMIT"], check=False, capture_output=True)
    assert killed.returncode == -9 and Path(f"{path}-journal").exists()
    with opened(path) as memory:
        assert memory.search("wine", k=1)[0].item == HELD
    assert [p.name for p in path.parent.iterdir()] == ["me.epic"]
    verified(path)


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
    assert version(path) == SCHEMA_VERSION


def test_a_file_that_is_opened_for_reading_only_is_a_clear_error_and_stays(path: Path) -> None:
    data = path.read_bytes()
    with pytest.raises(StoreError, match=r"me\.epic was made by an older .* Open it for writing"):
        Store(path, read_only=True)
    assert path.read_bytes() == data
    opened(path).close()
    store = Store(path, read_only=True)
    assert list(store.items("default")) == [HELD, SECOND]
    with pytest.raises(ReadOnlyError), store.transaction():
        pass
    store.close()


def test_a_file_that_another_process_writes_is_a_clear_error_and_stays(
    path: Path, old: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epic_core.storage.sqlite.database._BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process"):
            opened(path)
        db.execute("ROLLBACK")
    assert version(path) == old
    opened(path).close()
    assert version(path) == SCHEMA_VERSION


@pytest.mark.parametrize("number", [0, GRAPH_VERSION + 1, 99, -1])
def test_a_version_that_is_not_known_is_a_clear_error(path: Path, number: int) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {number}")
    data = path.read_bytes()
    with pytest.raises(StoreError, match=rf"schema version {number}\b.*reads {GRAPH_VERSION}"):
        opened(path)
    assert path.read_bytes() == data
    assert [p.name for p in path.parent.iterdir()] == ["me.epic"]


def test_a_version_that_the_tables_do_not_have_is_a_clear_error(path: Path, old: int) -> None:
    for number in {1, 2, 3, 4} - {old}:
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"PRAGMA user_version = {number}")
        data = path.read_bytes()
        with pytest.raises(DamagedError, match=r"me\.epic is damaged"):
            opened(path)
        assert path.read_bytes() == data


# at the same time


def test_several_threads_open_it_at_once(tmp_path: Path, old: int) -> None:
    for attempt in range(5):
        path, start = MAKE[old](tmp_path / f"{attempt}.epic"), threading.Barrier(4)

        def first_hit(path: Path = path, start: threading.Barrier = start) -> Item:
            start.wait()
            with opened(path) as memory:
                return memory.search("wine", k=1)[0].item

        with ThreadPoolExecutor(4) as pool:
            found = [job.result() for job in [pool.submit(first_hit) for _ in range(4)]]
        assert found == [HELD] * 4 and version(path) == SCHEMA_VERSION


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
    assert version(path) == SCHEMA_VERSION
    with opened(path) as memory:
        assert len(memory) == 3
    verified(path)


def test_one_that_is_open_sees_what_another_writes(path: Path) -> None:
    with opened(path) as one, opened(path) as other:
        other.add(["red wine of the other"])
        found = {hit.item.text for hit in one.search("wine", k=9)}
        assert found == {HELD.text, SECOND.text, "red wine of the other"}


# the third version, which had checksums already


@pytest.fixture
def third(tmp_path: Path) -> Path:
    return make_third(tmp_path / "me.epic")


def test_the_third_version_is_brought_up_to_this_one(third: Path, tmp_path: Path) -> None:
    assert version(third) == 3
    with closing(sqlite3.connect(third)) as db:
        before = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in ("items", "entries")}
    with opened(third) as memory:
        assert memory.search("wine", k=1)[0].item == HELD
        assert memory.aspects() == {WINE: parse_aspects(WINE)}
    verified(third)
    with closing(sqlite3.connect(third)) as db:
        # The search counted a use.
        for name in ("items", "entries"):
            assert db.execute(f"SELECT * FROM {name}").fetchall() == before[name]
        assert db.execute("SELECT count(*) FROM uses").fetchone() == (1,)
    opened(tmp_path / "new.epic", WINE).close()
    assert structure(third) == structure(tmp_path / "new.epic")


def test_all_that_the_third_version_held_is_held(third: Path) -> None:
    second = make_second(third.with_name("second.epic"))
    with ann(third) as one, ann(second) as other:
        assert one.preferences == other.preferences and one.stats().counts == other.stats().counts
        for item_id in ("both", "long"):
            assert one.explain(item_id) == other.explain(item_id)
        assert one.add([Item(id="copy", text=BOTH.text)]).cached == other.add([Item(id="copy", text=BOTH.text)]).cached


def test_a_number_that_the_third_version_gave_is_not_given_again(third: Path) -> None:
    with closing(sqlite3.connect(third, isolation_level=None)) as db:
        db.execute("UPDATE sqlite_sequence SET seq = 90")
    with opened(third) as memory:
        memory.add_preference(TRAIN)
        memory.add(["night train"])
    with closing(sqlite3.connect(third)) as db:
        for table in ("preferences", "entries"):
            assert db.execute(f"SELECT max(row) FROM {table}").fetchone()[0] > 90


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE preferences SET text = 'another' WHERE row = 1",
        "UPDATE entries SET stance = 'conflicts' WHERE row = 1",
        "DELETE FROM preferences WHERE row = 3",
        "DELETE FROM items WHERE row = 1",
        "ALTER TABLE preferences ADD COLUMN aspects TEXT",
        "CREATE TABLE notes (x)",
        "CREATE TRIGGER t BEFORE DELETE ON preferences BEGIN DELETE FROM items; END",
    ],
)
def test_a_damaged_file_of_the_third_version_is_refused_and_stays(third: Path, statement: str) -> None:
    with closing(sqlite3.connect(third)) as db:
        db.execute(statement)
        db.commit()
    data = third.read_bytes()
    with pytest.raises(StoreError, match=r"me\.epic"):
        opened(third)
    assert third.read_bytes() == data


@pytest.mark.parametrize(
    "at", ["BEGIN IMMEDIATE", "DROP TABLE main.uses", "CREATE TABLE preferences", "INTO main.entries", "COMMIT"]
)
def test_a_process_killed_in_the_middle_leaves_the_third_version_as_it_was(third: Path, at: str) -> None:
    before = dump(third)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(third), at], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    assert dump(third) == before
    with opened(third) as memory:
        assert memory.search("wine", k=1)[0].item == HELD
    assert version(third) == SCHEMA_VERSION
    verified(third)


def test_the_third_version_is_not_written_by_a_reader(third: Path) -> None:
    data = third.read_bytes()
    with pytest.raises(StoreError, match="made by an older"):
        Store(third, read_only=True)
    assert third.read_bytes() == data
