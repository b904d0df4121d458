"""A memory's file that is not as it was written: what it holds is right, or there is an error of ours, and no more."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from epic_memory import EpicMemory, Filter, Item, SearchOptions, Settings
from epic_memory.errors import DamagedError, EpicError, LMUnavailableError, StoreError
from epic_memory.storage.additions import memory_schema
from epic_memory.storage.sqlite.locking import sqlite_errors
from epic_memory.storage.sqlite.tables import Table
from epic_memory.types import Stance
from epic_plugins.collection import Collection, Key, Record
from epic_rerank import learn, reranker_of
from forging import forge
from helpers import HashEncoder, KeepAll, not_locked, searching, settled
from scripted import BOTH, TRAIN, WINE, Asked, Scripted, verifier_of

pytestmark = pytest.mark.usefixtures("locking")

DIMENSION = 64
_LONG = " ".join(f"{BOTH} {word}" for word in ("slowly", "again", "at night", "with friends") * 6)
QUERY = "red wine in the night train"


def unsure(asked: Asked) -> str | None:
    if "unsure" in asked.chunk:
        raise LMUnavailableError("no answer now")
    return None


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, locking: None) -> Path:
    """A small memory of everything that a memory can hold."""
    path = tmp_path_factory.mktemp("sound") / "me.epic"
    lm = Scripted(hook=unsure)
    options: dict[str, Any] = {"encoder": HashEncoder(DIMENSION), "reserve": "1 MB", "not_kept": 4}
    texts = [f"red wine {n}" for n in range(4)] + [f"{BOTH} nowine {n}" for n in range(4)]
    texts += [f"{_LONG} {n}" for n in range(3)]
    texts += ["red wine nowine", "green hills", "red wine unsure", "night train unsure"]
    texts += [f"blue red sky over {n} hills and seas of {n}" for n in range(3)]
    with EpicMemory.open(path, [WINE, TRAIN], **settled(verifier=verifier_of(lm), **options)) as memory:
        memory.add([Item(id=f"item {n}", text=text, metadata={"n": n % 3, "tag": "é"}) for n, text in enumerate(texts)])
        memory.add([Item(id="anew", text=f"{_LONG} for the second time"), "green meadows", "red wine nowine again"])
        shown = memory.search(QUERY, options=SearchOptions(chooser=reranker_of(memory)))
        learn(memory, shown, {shown[0].item.id: "used"})
        _, refused = memory.proposals.propose([("user", "I'm allergic to peanuts. I hate fog.")])
        memory.proposals.reject(refused)
        memory.facts.add("The door code is 4471.")
        counts = memory.stats().counts
        assert all(counts[name] for name in ("items", "facts", "entries", "light", "pending", "verdicts", "seen"))
        assert memory.file.not_kept()
    with EpicMemory.open(
        path, [TRAIN], settings=Settings(namespace="other", verifier=KeepAll()), encoder=HashEncoder(DIMENSION)
    ) as other:
        other.add([Item(id="theirs", text="night train")])
    with collection(path) as made:
        keys = (Key(text="red wine", stance=Stance.SUPPORTS), Key(text="night train"))
        made.add([Record(id=f"{n}", text=f"{texts[n]} of the store", metadata={"n": n}) for n in range(9)])
        made.add([Record(id="by its keys", text=_LONG, keys=keys)])
    with closing(sqlite3.connect(path)) as db:
        empty = {
            table.name
            for table in memory_schema().tables.values()
            if not db.execute(f"SELECT 1 FROM {table.name}").fetchall()
        }
    assert empty == {"entities", "passages"}  # a graph is damaged in its own tests
    return path


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copy(sound, tmp_path / "copy.epic"))


# everything a user may call


def opened(path: Path, **options: Any) -> EpicMemory:
    return EpicMemory.open(path, **settled(**{"encoder": HashEncoder(DIMENSION), "verifier": KeepAll(), **options}))


def hits(memory: EpicMemory, query: str, **options: Any) -> list[Any]:
    found = memory.search(query, k=50, **searching(**options))
    return [
        (hit.item, dict(hit.item.metadata), hit.text, hit.score, hit.tier, [(e, e.added) for e in hit.entries])
        for hit in found
    ]


def collection(path: Path | None, **options: Any) -> Collection:
    return Collection(HashEncoder(DIMENSION), path, **options)


def of_collection(memory: EpicMemory) -> Any:
    with collection(memory.file.path, read_only=True) as made:
        found = [made.search(QUERY, 3), made.search(QUERY, 3, where=Filter.eq("n", 1), steering="paper")]
        return made.records(), [[(match.record, match.score) for match in each] for each in found]


def exported(memory: EpicMemory) -> str:
    target = Path(f"{memory.file.path}.jsonl")
    memory.file.export(target, overwrite=True)
    return target.read_text(encoding="utf-8")


def parts(memory: EpicMemory) -> dict[str, int]:
    # What lies behind the end of the database counts as the rest.
    return {part: octets for part, octets in memory.stats().bytes.items() if part not in ("rest", "total")}


def retried(memory: EpicMemory) -> Any:
    report = memory.retry()
    return report.seen, report.kept, report.discarded, report.undecided, report.entries


IDS = [*(f"item {n}" for n in range(18)), "anew"]
# What is written afterwards has the time in it.
LOOKS: dict[str, Callable[[EpicMemory], Any]] = {
    "preferences": lambda memory: [(p, p.text) for p in memory.preferences],
    "search": lambda memory: hits(memory, QUERY),
    "filter": lambda memory: hits(memory, QUERY, filter=Filter.eq("n", 1)),
    "one preference": lambda memory: hits(memory, "night train", preferences=[TRAIN], stance_policy="any"),
    "second tier": lambda memory: hits(memory, "blue sky"),
    "namespace": lambda memory: hits(memory, QUERY, namespace="other"),
    "length": len,
    "explain": lambda memory: [explained(memory, item_id) for item_id in IDS],
    "not kept": lambda memory: memory.file.not_kept(),
    "facts": lambda memory: (list(memory.facts), memory.facts.edits()),
    "proposals": lambda memory: list(memory.proposals),
    "export": exported,
    "collection": of_collection,
    "stats": lambda memory: (memory.stats().counts, parts(memory)),
    "verify": lambda memory: memory.file.verify(),
    "rows": lambda memory: contents_of(memory.file.path) if memory.file.verify() else None,
    "retry": retried,
    "held": lambda memory: [(item, memory.explain(item).item.text) for item in ("item 13", "item 14")],
}


def explained(memory: EpicMemory, item_id: str) -> Any:
    found = memory.explain(item_id)
    return found.item, dict(found.item.metadata), found.note, [(e, e.added) for e in found.entries]


def contents_of(path: Path | None) -> list[Any]:
    """Every row of every table: what is said to be right has to be right to the last byte."""
    contents = []
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro" if path else "", uri=True)) as db:
        for table in memory_schema().tables.values():
            # The numbers of other rows are known to nobody.
            numbered = table.name in ("preferences", "items", "entries")
            names = [name for name in table.columns if name != "row" or numbered]
            rows = db.execute(f"SELECT {', '.join(names)} FROM {table.name}").fetchall()
            contents.append((table.name, [tuple(map(repr, row)) for row in rows]))
    return contents


def look(path: Path) -> dict[str, Any]:
    """What each call gives, StoreError where it raises one; any other error goes through."""
    seen: dict[str, Any] = dict.fromkeys([*LOOKS, "closed", "again"], StoreError)
    with suppress(StoreError), opened(path) as memory:
        for name, each in LOOKS.items():
            with suppress(StoreError):
                seen[name] = each(memory)
        memory.close()
        seen["closed"] = [file.name for file in path.parent.iterdir() if file.name.startswith(f"{path.name}-")]
    # What was damaged must not pass for sound after it was written.
    with suppress(StoreError), opened(path, read_only=True) as memory:
        memory.file.verify()
        seen["again"] = untimed(contents_of(path))
    return seen


def untimed(rows: list[Any]) -> list[Any]:
    """Rows that do not depend on when they were written."""
    names = ("meta", "preferences", "items", "pending", "ledger", "verdicts")
    return [each for each in rows if each[0] in names]


class Wrong(NamedTuple):
    """A call that gave what it must not give."""

    where: str
    call: str
    gave: str


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise if it takes much too long."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def hangs(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Examiner:
    """Looks at damaged copies of a sound file."""

    def __init__(self, sound: Path, folder: Path) -> None:
        self.octets = sound.read_bytes()
        self.folder = folder
        self.right = self._look(self.octets, "sound")
        self.right["before"] = untimed(self.right["rows"])
        self.noticed = 0
        self.wrong: list[Wrong] = []

    def _look(self, octets: bytes, where: str) -> dict[str, Any]:
        path = self.folder / "copy.epic"
        path.write_bytes(octets)
        try:
            with at_most(120):
                return look(path)
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        finally:
            for file in self.folder.glob("copy.epic*"):
                file.unlink()

    def examine(self, octets: bytes, where: str) -> None:
        """Look at a damaged copy."""
        try:
            seen = self._look(octets, where)
        except AssertionError as error:
            self.wrong.append(Wrong(where, "", f"{error}"))
            return
        self.noticed += StoreError in seen.values()
        for call, gave in seen.items():
            right = [StoreError, self.right[call]]
            if call == "again" and StoreError in (seen["retry"], seen["length"]):
                right.append(self.right["before"])
            if gave not in right:
                self.wrong.append(Wrong(where, call, repr(gave)[:300]))

    def flipped(self, chance: random.Random, *places: int) -> None:
        """Look at a copy whose bytes at some places are changed."""
        changed, where = bytearray(self.octets), []
        for place in places:
            mask = chance.choice([1 << chance.randrange(8), chance.randrange(1, 256)])
            changed[place] ^= mask
            where.append(f"{place}^{mask:#04x}")
        self.examine(bytes(changed), " ".join(where))

    def check(self, *, noticed: int = 0) -> None:
        """Check that nothing was wrong, and that so many copies at least were noticed to be damaged."""
        assert not self.wrong, "\n".join(map(str, self.wrong[:20]))
        assert self.noticed >= noticed


@pytest.fixture
def examiner(sound: Path, tmp_path: Path) -> Examiner:
    made = Examiner(sound, tmp_path)
    assert StoreError not in made.right.values()
    assert made.right["closed"] == []
    assert made.right["retry"][1] == 2
    assert made._look(made.octets, "the same again").items() <= made.right.items()
    return made


PAGE = 512


def test_a_file_that_is_cut_is_noticed(examiner: Examiner) -> None:
    chance, octets = random.Random(1), examiner.octets
    # At the end of each page, and within it.
    for end in range(0, len(octets), PAGE):
        for length in (end, end + chance.randrange(1, PAGE)):
            examiner.examine(octets[:length], f"cut at {length}")
    # A piece of a page at the end may be one that is not in use.
    examiner.check(noticed=2 * len(octets) // PAGE - 10)


def test_bytes_that_are_changed_are_noticed_or_do_no_harm(examiner: Examiner) -> None:
    chance, octets = random.Random(2), examiner.octets
    # One of each page; several at once; each of the header.
    for start in range(0, len(octets), PAGE):
        examiner.flipped(chance, start + chance.randrange(PAGE))
    examiner.check(noticed=len(octets) // PAGE // 2)
    for _ in range(40):
        examiner.flipped(chance, *(chance.randrange(len(octets)) for _ in range(5)))
    for place in range(100):
        changed = bytearray(octets)
        changed[place] ^= 1
        examiner.examine(bytes(changed), f"header {place}")
    examiner.check()


def test_pages_that_are_lost_or_changed_places_are_noticed_or_do_no_harm(examiner: Examiner) -> None:
    chance, octets = random.Random(4), examiner.octets
    pages = [octets[start : start + PAGE] for start in range(0, len(octets), PAGE)]
    for _ in range(40):
        place = chance.randrange(len(pages))
        examiner.examine(b"".join([*pages[:place], bytes(PAGE), *pages[place + 1 :]]), f"no page {place}")
    for _ in range(40):
        one, other = sorted(chance.sample(range(len(pages)), 2))
        swapped = [*pages]
        swapped[one], swapped[other] = pages[other], pages[one]
        examiner.examine(b"".join(swapped), f"pages {one} and {other}")
    # An old version of a page, as a disk that forgot a write would give it.
    for _ in range(20):
        place, other = chance.sample(range(1, len(pages)), 2)
        examiner.examine(b"".join([*pages[:place], pages[other], *pages[place + 1 :]]), f"{other} in place of {place}")
    examiner.check(noticed=81)


def test_a_file_of_another_length_is_noticed_or_does_no_harm(examiner: Examiner) -> None:
    chance, octets = random.Random(5), examiner.octets
    for extra in (1, 100, 512, 5000) * 3:
        length = chance.randrange(len(octets))
        examiner.examine(octets[:length] + bytes(len(octets) - length), f"lost from {length}")
        examiner.examine(octets + chance.randbytes(extra), "something after the end")
    examiner.check(noticed=12)


# files of others


def refused(path: Path, match: str, kind: type[Exception] = StoreError, **options: Any) -> None:
    """Opening a file is an error, and leaves it as it is."""
    before = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(kind, match=match):
            opened(path, read_only=read_only, **options)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


MARK = "INSERT INTO ledger (namespace, digests, crc) VALUES ('default', x'00', 0)"
FOREIGN = {
    "trigger": [f"CREATE TRIGGER t AFTER INSERT ON entries BEGIN {MARK}; END"],
    "trigger on reading": ["CREATE VIEW v AS SELECT 1", f"CREATE TRIGGER t INSTEAD OF INSERT ON v BEGIN {MARK}; END"],
    "view": ["CREATE VIEW v AS SELECT * FROM items"],
    "view in place of a table": ["ALTER TABLE items RENAME TO i", "CREATE VIEW items AS SELECT * FROM i"],
    "table": ["CREATE TABLE notes (text)"],
    "table with a name like SQLite's own": ["CREATE TABLE sqlitenotes (text)"],
    "index with a name like SQLite's own": ["CREATE INDEX sqlitei ON items (length(text))"],
    "index": ["CREATE INDEX i ON items (text)"],
    "index on an expression": ["CREATE INDEX i ON items (length(text))"],
    "unique index": ["CREATE UNIQUE INDEX i ON items (row)"],
    "column": ["ALTER TABLE items ADD COLUMN more"],
    "computed column": ["ALTER TABLE items ADD COLUMN more AS (length(text))"],
    "renamed column": ["ALTER TABLE items RENAME COLUMN text TO words"],
    "no column": ["ALTER TABLE entries DROP COLUMN rationale"],
    "no table": ["DROP TABLE ledger"],
    "no sums": ["DROP TABLE sums"],
    "virtual table": ["CREATE VIRTUAL TABLE words USING fts5 (text)"],
}


@pytest.mark.parametrize("statements", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_file_with_other_tables_than_ours_is_refused(copy: Path, statements: list[str]) -> None:
    try:
        changed(copy, *statements)
    except sqlite3.OperationalError as error:
        pytest.skip(f"this SQLite cannot do that: {error}")
    refused(copy, "copy.epic")


ROWS = {
    "a row less": ["DELETE FROM entries WHERE row = (SELECT max(row) FROM entries)"],
    "no rows": ["DELETE FROM verdicts"],
    "a row more": [MARK],
    "a row twice": [
        "INSERT INTO pending (namespace, id, text, metadata, reason, preferences, crc)"
        " SELECT namespace, id || 'x', text, metadata, reason, preferences, crc FROM pending LIMIT 1"
    ],
    "other sums": ["UPDATE sums SET total = total + 1 WHERE name = 'items'"],
    "fewer sums": ["DELETE FROM sums WHERE name = 'passages'"],
    "another checksum": ["UPDATE preferences SET crc = crc + 1"],
}


@pytest.mark.parametrize("statements", ROWS.values(), ids=ROWS.keys())
def test_rows_that_nobody_wrote_are_noticed_on_opening(copy: Path, statements: list[str]) -> None:
    changed(copy, *statements)
    refused(copy, "is damaged", DamagedError)


COLUMNS = [
    (table.name, column) for table in memory_schema().tables.values() for column in (*table.checked, *table.texts)
]
COLUMNS += [(name, "row") for name in ("preferences", "items", "entries")]


def other(value: Any) -> Any:
    """Another value of the same type and length."""
    if isinstance(value, str):
        return value[:-1] + chr(ord(value[-1]) ^ 1)
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1])
    return value if value is None else value + 10


def blob(value: Any) -> Any:
    """What one bit in the header of a record makes of a text: bytes of the same content."""
    return value.encode() if isinstance(value, str) else value


def indexed(db: sqlite3.Connection, table: str) -> set[str]:
    """The columns that SQLite compares with an index of its own when the file is opened."""
    indexes = [name for _, name, *_ in db.execute(f"PRAGMA index_list({table})")]
    columns = {column for name in indexes for _, _, column in db.execute(f"PRAGMA index_info({name})")}
    return {*columns, "row"} if columns else columns


@pytest.mark.parametrize("change", [other, blob])
def test_a_column_that_is_changed_is_noticed(examiner: Examiner, copy: Path, change: Callable[[Any], Any]) -> None:
    sound, expected = copy.read_bytes(), 0
    for table, column in COLUMNS:
        where = f"{table}.{column}: {change.__name__}"
        copy.write_bytes(sound)
        with closing(sqlite3.connect(copy)) as db:
            before = db.execute(f"SELECT * FROM {table}").fetchall()
            db.create_function("changed", 1, change)
            try:
                db.execute(f"UPDATE {table} SET {column} = changed({column})")
            except sqlite_errors():
                continue  # two rows would have become one, or a number is wanted
            if db.execute(f"SELECT * FROM {table}").fetchall() == before:
                continue
            db.commit()
            forged = column in indexed(db, table)
        expected += 1
        if forged:
            # The index was changed with it, as no damage does: whoever asks is told.
            with suppress(StoreError), opened(copy) as memory:
                memory.file.verify()
                examiner.wrong.append(Wrong(where, "verify", "no error"))
            continue
        noticed = examiner.noticed
        examiner.examine(copy.read_bytes(), where)
        if examiner.noticed == noticed:
            examiner.wrong.append(Wrong(where, "", "nobody noticed"))
    examiner.check()
    assert expected > 20


@not_locked  # who forges a locked file has its key, and what is forged is read by the same code
@pytest.mark.parametrize("table", memory_schema().tables.values(), ids=lambda table: table.name)
def test_a_forged_value_raises_an_error_of_ours_if_any(copy: Path, table: Table) -> None:
    """The checksums are right, as no damage leaves them: `look` lets no other error through."""
    sound = copy.read_bytes()
    for column in (*table.checked, *table.texts):
        for value in (None, "forged", b"\x00\xff", -(10**15)):
            copy.write_bytes(sound)
            with suppress(sqlite3.IntegrityError):
                row = "row" if table.numbered else table.checked[0]
                forge(
                    copy,
                    f"UPDATE {table.name} SET {column} = ? WHERE {row} = (SELECT min({row}) FROM {table.name})",
                    value,
                )
                with closing(sqlite3.connect(copy)) as db:
                    stored = db.execute(f"SELECT {column} FROM {table.name} ORDER BY {row} LIMIT 1").fetchone()
                if stored is None:
                    return  # the table is empty
                if type(stored[0]) not in table.types[column]:
                    with pytest.raises(DamagedError), opened(copy, read_only=True) as memory:
                        memory.file.verify()
                with suppress(EpicError):
                    look(copy)


# what is written into a damaged file


WRITTEN: dict[str, tuple[str, Callable[[EpicMemory], object]]] = {
    "a waiting text": (
        "UPDATE pending SET text = text || ' altered'",
        lambda memory: memory.preferences.remove(WINE),
    ),
    "the ledger": (
        "UPDATE ledger SET digests = CAST(x'0102030405060708' || substr(digests, 9) AS BLOB)",
        lambda memory: memory.add(["green meadows", "grey mountains"]),
    ),
    "the order of preferences": (
        "UPDATE preferences SET position = 1 - position",
        lambda memory: memory.preferences.add("white wine"),
    ),
    "a text": ("UPDATE items SET text = 'red wine altered'", lambda memory: memory.preferences.add("white wine")),
    "an embedding": (
        "UPDATE items SET embedding = zeroblob(length(embedding)) WHERE embedding IS NOT NULL",
        lambda memory: memory.preferences.add("blue sky"),
    ),
    "an instruction": (
        "UPDATE entries SET instruction = 'Do something else.'",
        lambda memory: memory.preferences.remove(WINE),
    ),
}


@pytest.mark.parametrize("early", [True, False], ids=["before opening", "while open"])
@pytest.mark.parametrize(("statement", "write"), WRITTEN.values(), ids=WRITTEN.keys())
def test_what_is_damaged_does_not_pass_for_sound_after_a_change(
    copy: Path, statement: str, write: Callable[[EpicMemory], object], early: bool
) -> None:
    if early:
        changed(copy, statement)
    with suppress(StoreError), opened(copy, verifier=verifier_of(Scripted())) as memory:
        if not early:
            changed(copy, statement)
        with suppress(StoreError):
            write(memory)
    with pytest.raises(StoreError), opened(copy) as memory:
        memory.file.verify()
