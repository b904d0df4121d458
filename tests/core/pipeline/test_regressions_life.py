"""What a memory lives through: failures in the middle of a change, others at its file, files that are damaged."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import string
import threading
import zlib
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_memory import EpicMemory, Item, Verdict
from epic_memory.errors import DamagedError, InvalidInputError, StoreError, UnknownItemError, VerifierError
from epic_memory.pipeline import opening
from epic_memory.retention import Held
from epic_memory.storage.memory_schema import ITEMS
from epic_memory.storage.store import Store
from epic_memory.storage.tables.entries import Entries
from epic_memory.text.chunking import WordChunker
from epic_memory.types import BuildReport, Candidate
from helpers import Answering, HashEncoder, KeepAll, keep, memory_at, memory_of
from scripted import WINE

TEA, GREEN_TEA = "tea cups", "green tea cups"


def noise(seed: int, length: int) -> str:
    """A word that is hardly made smaller by compression."""
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=length))


def teas(count: int, length: int = 100, *, start: int = 0) -> list[Item]:
    return [Item(id=f"item {n}", text=f"tea cups {noise(n, length)}") for n in range(start, start + count)]


def found(memory: EpicMemory, query: str = TEA) -> dict[str, float]:
    return {hit.item.id: round(hit.score, 5) for hit in memory.search(query, k=1000)}


def preferences_of(memory: EpicMemory) -> list[str]:
    return [preference.text for preference in memory.preferences]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "memory").mkdir()
    return tmp_path / "memory" / "me.epic"


# a replacement that fails


def test_a_replacement_that_cannot_be_written_leaves_the_preference_it_replaces(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: Any) -> Any:
        raise ConnectionError("gone")

    with memory_at(path, TEA, budget="1 MB") as memory:
        memory.add(teas(60))
        before = found(memory)
        with monkeypatch.context() as patched:
            patched.setattr(Entries, "put_all", failing)
            with pytest.raises(ConnectionError, match="gone"):
                memory.preferences.replace(TEA, GREEN_TEA)
        assert (preferences_of(memory), len(memory), found(memory)) == ([TEA], 60, before)
        assert memory.add(teas(3, start=60)).kept == 3
    with memory_at(path) as memory:
        assert (preferences_of(memory), len(memory)) == ([TEA], 63)
        memory.file.verify()


# budgets


def test_a_smaller_budget_evicts_no_more_than_it_must(path: Path) -> None:
    with memory_at(path, TEA, "blue stamps") as memory:
        memory.add(teas(800, 200))
    budget = path.stat().st_size // 3
    with memory_at(path, budget=budget) as memory:
        assert 0.55 * budget < path.stat().st_size <= budget
        assert 0 < len(memory) < 800
        assert len(found(memory)) == len(memory)


def test_a_budget_that_another_sets_is_kept_from_the_next_change_on(path: Path) -> None:
    with memory_at(path, TEA) as memory:
        memory_at(path, budget="100 KB").close()
        for start in range(0, 120, 60):
            memory.add(teas(60, 250, start=start))
            assert path.stat().st_size <= 100_000
        assert memory.stats().budget == 100_000
        assert 0 < len(memory) < 120


class Shareless:
    name = "shareless"

    def order(self, held: Held, now: float) -> Any:
        return np.arange(len(held))


class Greedy(Shareless):
    share = 5


class Floats(Shareless):
    share = 0.1

    def order(self, held: Held, now: float) -> Any:
        return np.arange(len(held), dtype=np.float64)


@pytest.mark.parametrize("policy", [Shareless, Greedy])
def test_a_retention_policy_without_a_share_is_refused(path: Path, policy: Any) -> None:
    with pytest.raises(InvalidInputError, match="share"):
        memory_at(path, TEA, budget="100 KB", retention=policy())
    assert not path.exists()


def test_a_retention_policy_that_orders_by_floats_is_refused(path: Path) -> None:
    with memory_at(path, TEA, budget="100 KB", retention=Floats()) as memory:
        with pytest.raises(InvalidInputError, match="must return positions"):
            for start in range(0, 600, 60):
                memory.add(teas(60, 150, start=start))
        assert len(found(memory)) == len(memory) > 0
        memory.file.verify()


# others meanwhile


def test_a_reencoding_that_cannot_be_committed_leaves_the_encoder(path: Path) -> None:
    with memory_at(path, TEA) as memory:
        memory.add(teas(20))
        before = found(memory)
        memory._session.store._connection.execute("PRAGMA busy_timeout = 20")
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM items").fetchall()
            with pytest.raises(StoreError):
                memory.file.reencode(HashEncoder(512, name="other", fingerprint="v2"))
            reader.execute("ROLLBACK")
        assert memory.encoder.name == "hash"
        assert found(memory) == before
        assert memory.add(teas(1, start=20)).kept == 1
    with memory_at(path) as memory:
        assert len(found(memory)) == 21


# confidence


@pytest.mark.parametrize(("of", "confidence"), [("verdict", float("nan")), ("alignment", 7.0)])
def test_a_confidence_that_is_none_is_an_error_of_the_verifier(path: Path, confidence: float, of: str) -> None:
    def judged(candidate: Candidate) -> Verdict:
        kept = keep(candidate)
        if of == "verdict":
            return replace(kept, confidence=confidence)
        return replace(kept, alignments=tuple(replace(one, confidence=confidence) for one in kept.alignments))

    with memory_at(path, TEA, verifier=Answering(judged)) as memory:
        with pytest.raises(VerifierError, match="confidence"):
            memory.add(teas(2))
        assert len(memory) == 0
        memory.verifier = KeepAll()
        memory.add(teas(2))
        memory.file.verify()
    with memory_at(path) as memory:
        assert len(found(memory)) == 2


# files


def test_a_file_made_wal_by_others_is_taken_back(path: Path) -> None:
    memory_at(path, TEA, budget="100 KB").close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    with memory_at(path) as memory:
        memory.add(teas(20))
        assert [file.name for file in path.parent.iterdir()] == ["me.epic"]
        assert path.read_bytes()[18:20] == b"\1\1"  # as the format has it: no log of writes
    with memory_at(path) as memory:
        assert len(found(memory)) == 20


@pytest.mark.parametrize("linked", [False, True])
def test_a_relative_name_stays_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool) -> None:
    for name in ("real", "elsewhere"):
        (tmp_path / name).mkdir()
    name = "link.epic" if linked else "real/me.epic"
    if linked:
        memory_at(tmp_path / "real" / "me.epic", TEA).close()
        (tmp_path / name).symlink_to("real/me.epic")
    monkeypatch.chdir(tmp_path)
    with memory_at(name, TEA, budget="1 MB") as memory:
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert memory.add(teas(5)).kept == 5
        size = (tmp_path / "real" / "me.epic").stat().st_size
        assert memory.stats().bytes["total"] == size
        assert memory.forget("item 0") == 1
    assert [file.name for file in (tmp_path / "real").iterdir()] == ["me.epic"]
    assert not list((tmp_path / "elsewhere").iterdir())
    with memory_at(tmp_path / name) as memory:
        assert len(memory) == 4


def test_the_name_of_a_database_in_ram_is_none_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=r"EpicMemory\("):
        memory_at(":memory:", TEA)
    assert not list(tmp_path.iterdir())


def test_a_text_that_inflates_without_end_is_damage(path: Path) -> None:
    with memory_at(path, TEA) as memory:
        memory.add([Item(id="a", text=TEA)])
    bomb = zlib.compress(b"a" * (2**26 + 1))
    store = Store(path)
    with store.transaction():
        store.update(ITEMS, 1, text=bomb)
    store.close()
    assert path.stat().st_size < 1_000_000
    with memory_at(path) as memory:
        for call in (lambda: memory.search(TEA), lambda: memory.explain("a")):
            with pytest.raises(DamagedError, match="too long"):
                call()


@pytest.mark.parametrize("overwrite", ["copy", "compact"])
def test_a_damaged_memory_takes_the_place_of_nothing(path: Path, overwrite: str) -> None:
    copy = path.with_name("copy.epic")
    with memory_at(path, TEA) as memory:
        memory.add([Item(id="a", text="tea cups unusual")])
        memory.file.backup(copy)
    good, written = copy.read_bytes(), path.read_bytes()
    assert b"unusual" in written
    damaged = written.replace(b"unusual", b"unusuam")
    path.write_bytes(damaged)
    with memory_at(path) as memory, pytest.raises(DamagedError):
        memory.file.backup(copy, overwrite=True) if overwrite == "copy" else memory.file.compact()
    assert (copy.read_bytes(), path.read_bytes()) == (good, damaged)
    assert sorted(file.name for file in path.parent.iterdir()) == ["copy.epic", "me.epic"]


def test_a_memory_names_its_namespaces(path: Path) -> None:
    with (
        memory_at(path, TEA) as memory,
        memory_at(path, WINE, namespace="b"),
        memory_at(path, WINE, namespace="a") as other,
    ):
        assert memory.file.namespaces == other.file.namespaces == ["a", "b", "default"]


def test_a_document_is_forgotten_without_its_chunker(path: Path) -> None:
    with memory_at(path, TEA, chunker=WordChunker(max_words=4)) as memory:
        memory.add([Item(id="doc", text="Tea cups one here. Tea cups two there. Tea cups three nowhere.")])
        memory.add([Item(id="document", text="Tea cups")])
        assert found(memory).keys() == {"doc#0", "doc#1", "doc#2", "document"}
    with memory_at(path) as memory:
        assert memory.forget("doc") == 3
        assert found(memory).keys() == {"document"}
        with pytest.raises(UnknownItemError):
            memory.forget("doc")
    assert b"nowhere" not in path.read_bytes()


# streams


@pytest.mark.slow
def test_each_batch_is_reported_by_a_report_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_memory.runtime.batching._WAIT", 60.0)
    reports: list[BuildReport] = []
    memory = memory_of(TEA)
    last = memory.add((f"tea cups {n}" for n in range(1100)), progress=reports.append)
    assert [report.seen for report in reports] == [512, 1024, 1100]
    assert [report.kept for report in reports] == [512, 1024, 1100]
    assert len({id(report) for report in [*reports, last]}) == 4


async def test_a_coroutine_that_is_told_of_batches_is_awaited() -> None:
    seen: list[int] = []

    async def told(report: BuildReport) -> None:
        await asyncio.sleep(0)
        seen.append(report.seen)

    memory = memory_of(TEA)
    await memory.aadd([f"tea cups {n}" for n in range(600)], progress=told)
    assert seen == [512, 600]


async def test_what_a_slow_stream_gave_is_committed_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_memory.runtime.batching._WAIT", 0.01)
    memory = memory_of(TEA)

    async def committed(count: int) -> None:
        while len(memory) < count:
            await asyncio.sleep(0.01)

    async def slow() -> AsyncIterator[str]:
        yield "tea cups one"
        yield "tea cups two"
        await asyncio.wait_for(committed(2), 60)
        yield "tea cups three"

    report = await memory.aadd(slow())
    assert (report.seen, len(memory)) == (3, 3)


def test_nobody_writes_between_a_reencoding_and_its_adoption(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = memory_of()
    memory.add(["red wine from the south"])
    adopt = opening._adopt
    writers = []

    def adopted(*given: Any) -> None:
        writers.append(threading.Thread(target=memory.add, args=(["more red wine"],)))
        writers[0].start()
        writers[0].join(0.2)
        assert writers[0].is_alive()  # it waits: its vectors would be the old encoder's
        adopt(*given)

    monkeypatch.setattr(opening, "_adopt", adopted)
    memory.file.reencode(HashEncoder(32))
    writers[0].join()
    assert len(memory.search(WINE)) == 2
