"""What once went wrong: with odd input, with failures and others in the middle of a change, with files and retries."""

from __future__ import annotations

import asyncio
import copy
import pickle
import random
import sqlite3
import string
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_memory import (
    EpicMemory,
    Hit,
    Item,
    Preference,
    QuerySteering,
    SearchOptions,
    Verdict,
)
from epic_memory.encoders import default_encoder
from epic_memory.errors import (
    DamagedError,
    EncoderError,
    NotCopiedError,
    StoreError,
    UnknownItemError,
    VerifierError,
)
from epic_memory.pipeline import opening
from epic_memory.storage import namespace
from epic_memory.storage.memory_schema import ITEMS
from epic_memory.storage.store import Store
from epic_memory.storage.tables.entries import Entries
from epic_memory.text.chunking import WordChunker
from epic_memory.types import BuildReport, Candidate, FloatArray
from epic_memory.verification import EmbeddedVerifier
from helpers import Answering, DiscardAll, HashEncoder, KeepAll, UndecidedAll, keep, memory_at, memory_of, method

WINE, TRAIN, SEA = "red wine", "night train", "blue sea"
TEA, GREEN_TEA = "tea cups", "green tea cups"
ALL_THREE = "red wine in a night train at blue sea"
NEARLY_WINE = "red night train to far north and back"  # 0.25 from the wine, 0.5 from the train
LONE, NAN = "a \ud800 b", float("nan")


class Meanwhile(KeepAll):
    """Keeps everything; before its first verdict something else happens, once."""

    def __init__(self) -> None:
        super().__init__()
        self.happens: Callable[[], object] | None = None

    def verdicts(self, candidates: Sequence[Candidate]) -> Iterator[object]:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        yield from super().verdicts(candidates)


class EncodingMeanwhile(HashEncoder):
    """Something else happens before its first encoding, once, or raises."""

    happens: Callable[[], object] | None = None

    def _encode(self, texts: Sequence[str]) -> FloatArray:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return super()._encode(texts)


def teas(count: int, length: int = 100, *, start: int = 0) -> list[Item]:
    """Items of words that compression hardly makes smaller."""
    letters = string.ascii_letters + string.digits
    return [
        Item(id=f"item {n}", text=f"tea cups {''.join(random.Random(n).choices(letters, k=length))}")
        for n in range(start, start + count)
    ]


def found(memory: EpicMemory, query: str = TEA) -> dict[str, float]:
    return {hit.item.id: round(hit.score, 5) for hit in memory.search(query, k=1000)}


def told(memory: EpicMemory) -> list[str]:
    return [preference.text for preference in memory.preferences]


def held_for(memory: EpicMemory, item_id: str) -> list[str]:
    """The preferences an item has entries for, sorted."""
    return sorted(entry.preference for entry in memory.explain(item_id).entries)


def counted(memory: EpicMemory, *names: str) -> list[int]:
    return [memory.stats().counts[name] for name in names]


def other(dimension: int = 512) -> EncodingMeanwhile:
    return EncodingMeanwhile(dimension, name="other", fingerprint="v2")


# arguments and what they become


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5)])
def test_numbers_of_numpy_become_floats(number: Any) -> None:
    given = ["a", ("b", number), (Item(text="c"), number), Hit(item=Item(text="d"), score=number)]
    memory = memory_of(fallback=lambda query, k: given, tau=number)
    hits = memory.search("something else")
    assert [type(each) for each in (memory.tau, *(hit.score for hit in hits))] == [float] * 5
    assert [hit.score for hit in hits] == [0.0, 0.5, 0.5, 0.5] and memory.tau == 0.5


def test_one_string_is_one_preference_that_steers() -> None:
    encoder = HashEncoder()
    assert QuerySteering(encoder, "one string").preferences == (Preference(text="one string"),)
    assert QuerySteering(encoder, Preference(text="one")).preferences == (Preference(text="one"),)


def test_a_preference_is_found_among_those_held_by_its_text_id_or_as_such() -> None:
    memory = memory_of()
    (wine,) = memory.preferences
    for same in (WINE, f" {WINE.upper()} ", wine.id, wine):  # another case is the same preference
        assert same in memory.preferences
    for another in ("white wine", "", LONE, "a\0b", 3, None):
        assert another not in memory.preferences


@pytest.mark.parametrize("group", ["preferences", "facts", "proposals", "file"])
def test_what_shows_an_open_memory_says_why_it_is_not_copied(group: str) -> None:
    with memory_of() as memory:
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(NotCopiedError, match=r"EpicMemory\.open\(path\)"):
                copied(getattr(memory, group))


@pytest.mark.parametrize(("of", "confidence"), [("verdict", NAN), ("alignment", 7.0)])
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


async def test_a_stopiteration_does_not_end_a_call_as_if_it_were_done() -> None:
    def stopping(*_: object) -> Any:
        raise StopIteration

    encoder = EncodingMeanwhile()
    memory, asking = memory_of(encoder=encoder), memory_of(fallback=stopping)
    for asked, name, given in (
        *((memory, name, given) for name, given in (("search", "wine"), ("add", [WINE]), ("preferences.add", TRAIN))),
        (asking, "search", "something else"),
    ):
        for twin in (False, True):
            encoder.happens = stopping
            with pytest.raises((StopIteration, RuntimeError)):
                await asyncio.wait_for(method(asked, name, twin=twin)(given), 60)


def test_a_long_run_of_spaces_does_not_hide_the_text_after_it() -> None:
    text = "I follow a strict vegan diet."
    vectors = default_encoder().encode([text, " " * 9000 + text])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


@pytest.mark.slow
def test_the_instruction_of_an_endless_word_is_short() -> None:
    encoder = HashEncoder()
    memory = memory_of(encoder=encoder, verifier=EmbeddedVerifier(encoder, threshold=0.0), tau=-1.0)
    assert memory.add([Item(id="x", text="x" * 1_000_000)]).kept == 1
    assert all(len(entry.instruction) < 1000 for entry in memory.explain("x").entries)


# budgets


def test_a_replacement_that_cannot_be_written_leaves_the_preference_it_replaces(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> Any:
        raise ConnectionError("gone")

    with memory_at(path, TEA, budget="1 MB") as memory:
        memory.add(teas(60))
        before = found(memory)
        with monkeypatch.context() as patched:
            patched.setattr(Entries, "put_all", failing)
            with pytest.raises(ConnectionError, match="gone"):
                memory.preferences.replace(TEA, GREEN_TEA)
        assert (told(memory), len(memory), found(memory)) == ([TEA], 60, before)
        assert memory.add(teas(3, start=60)).kept == 3
    with memory_at(path) as memory:
        assert (told(memory), len(memory)) == ([TEA], 63)
        memory.file.verify()


def test_a_smaller_budget_evicts_no_more_than_it_must(path: Path) -> None:
    with memory_at(path, TEA, "blue stamps") as memory:
        memory.add(teas(800, 200))
    budget = path.stat().st_size // 3
    with memory_at(path, budget=budget) as memory:
        assert 0.55 * budget < path.stat().st_size <= budget
        assert len(found(memory)) == len(memory) and 0 < len(memory) < 800


def test_a_budget_that_another_sets_is_kept_from_the_next_change_on(path: Path) -> None:
    with memory_at(path, TEA) as memory:
        memory_at(path, budget="100 KB").close()
        for start in range(0, 120, 60):
            memory.add(teas(60, 250, start=start))
            assert path.stat().st_size <= 100_000
        assert memory.stats().budget == 100_000
        assert 0 < len(memory) < 120


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
    real, elsewhere = tmp_path / "real", tmp_path / "elsewhere"
    real.mkdir()
    elsewhere.mkdir()
    name = "link.epic" if linked else "real/me.epic"
    if linked:
        memory_at(real / "me.epic", TEA).close()
        (tmp_path / name).symlink_to("real/me.epic")
    monkeypatch.chdir(tmp_path)
    with memory_at(name, TEA, budget="1 MB") as memory:
        monkeypatch.chdir(elsewhere)
        assert memory.add(teas(5)).kept == 5
        assert memory.stats().bytes["total"] == (real / "me.epic").stat().st_size
        assert memory.forget("item 0") == 1
    assert [file.name for file in real.iterdir()] == ["me.epic"] and not list(elsewhere.iterdir())
    Store(":memory:").close()  # the name of a file like another
    assert [file.name for file in elsewhere.iterdir()] == [":memory:"]
    with memory_at(tmp_path / name) as memory:
        assert len(memory) == 4


def test_a_text_that_inflates_without_end_is_damage(path: Path) -> None:
    with memory_at(path, TEA) as memory:
        memory.add([Item(id="a", text=TEA)])
    with closing(Store(path)) as store, store.transaction():
        store.update(ITEMS, 1, text=zlib.compress(b"a" * (2**26 + 1)))
    assert path.stat().st_size < 1_000_000
    with memory_at(path) as memory:
        for call in (lambda: memory.search(TEA), lambda: memory.explain("a")):
            with pytest.raises(DamagedError, match="too long"):
                call()


@pytest.mark.parametrize("overwrite", ["copy", "compact"])
def test_a_damaged_memory_takes_the_place_of_nothing(path: Path, overwrite: str) -> None:
    backup = path.with_name("copy.epic")
    with memory_at(path, TEA) as memory:
        memory.add([Item(id="a", text="tea cups unusual")])
        memory.file.backup(backup)
    good, written = backup.read_bytes(), path.read_bytes()
    damaged = written.replace(b"unusual", b"unusuam")
    path.write_bytes(damaged)
    with memory_at(path) as memory, pytest.raises(DamagedError):
        memory.file.backup(backup, overwrite=True) if overwrite == "copy" else memory.file.compact()
    assert (backup.read_bytes(), path.read_bytes()) == (good, damaged) and damaged != written
    assert sorted(file.name for file in path.parent.iterdir()) == ["copy.epic", "me.epic"]


def test_pieces_of_a_document_go_with_it_and_without_its_chunker(path: Path) -> None:
    with memory_at(path, TEA, chunker=WordChunker(max_words=4)) as memory:
        memory.add([Item(id="doc", text="Tea cups one here. Tea cups two there. Tea cups three nowhere.")])
        memory.add([Item(id="document", text="Tea cups one. Tea cups two.")])
        assert found(memory).keys() == {"doc#0", "doc#1", "doc#2", "document#0", "document#1"}
        memory.add([Item(id="document", text="Only tea cups.")])  # a shorter version takes all earlier pieces away
    with memory_at(path) as memory:
        assert memory.forget("doc") == 3
        assert found(memory).keys() == {"document"}
        with pytest.raises(UnknownItemError):
            memory.forget("doc")
    assert b"nowhere" not in path.read_bytes()


def test_taus_belong_to_a_namespace_and_the_reserve_to_the_file(path: Path) -> None:
    memory_at(path, WINE, namespace="a", tau=0.5).close()
    memory_at(path, fallback=lambda query, k: []).close()  # and a fallback once leaves the reserve
    with memory_at(path, WINE, namespace="b") as memory:
        assert memory.tau == 0.3 and memory.add(["blue sky"]).light == 1
    with memory_at(path, namespace="a") as memory:
        report = memory.add(["wine cellar of old", WINE])  # 0.35 from the wine, and all of it
        assert (memory.tau, report.kept, report.light) == (0.5, 1, 1)
        assert [item.text for item in memory.items()] == ["wine cellar of old", WINE]
        assert counted(memory, "items", "light") == [1, 1]
    with memory_at(path, namespace="a", encoder=other(), tau=0.55, reencode=True) as memory:
        assert memory.tau == 0.55
    with memory_at(path, namespace="a", encoder=other()) as memory:
        assert memory.tau == 0.55


@pytest.mark.slow
def test_each_batch_is_reported_by_a_report_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_memory.runtime.batching._WAIT", 60.0)
    reports: list[BuildReport] = []
    last = memory_of(TEA).add((f"tea cups {n}" for n in range(1100)), progress=reports.append)
    assert [(report.seen, report.kept) for report in reports] == [(512, 512), (1024, 1024), (1100, 1100)]
    assert len({id(report) for report in [*reports, last]}) == 4


async def test_a_coroutine_that_is_told_of_batches_is_awaited() -> None:
    seen: list[int] = []

    async def told_of(report: BuildReport) -> None:
        await asyncio.sleep(0)
        seen.append(report.seen)

    await memory_of(TEA).aadd([f"tea cups {n}" for n in range(600)], progress=told_of)
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


# undecided items


def waiting(*preferences: str, items: Sequence[Item] = (Item(id="x", text=ALL_THREE),), **options: Any) -> EpicMemory:
    """A memory whose items wait, and whose verifier then keeps everything."""
    memory = memory_of(*preferences, verifier=UndecidedAll(), **options)
    memory.add(items)
    memory.verifier = KeepAll()
    return memory


def test_a_held_item_waits_for_all_the_preferences_it_was_undecided_under() -> None:
    memory = memory_of(WINE)
    memory.add([Item(id="x", text=ALL_THREE)])
    memory.verifier = UndecidedAll()
    report = memory.preferences.add(TRAIN)
    assert {"embedding", "verification", "index"} <= report.timings.keys()
    assert report.undecided == 1 and any("undecided" in warning for warning in report.warnings)
    assert memory.preferences.replace(TRAIN, SEA).undecided == 1
    memory.preferences.add(TRAIN)
    assert held_for(memory, "x") == [WINE]
    memory.verifier = KeepAll()
    memory.retry()
    assert held_for(memory, "x") == sorted([WINE, TRAIN, SEA])
    assert counted(memory, "items", "entries", "pending") == [1, 3, 0]


@pytest.mark.parametrize("budget", [None, "1 MB"])
def test_a_retry_considers_preferences_that_came_later(budget: str | None) -> None:
    memory = waiting(WINE, budget=budget, reserve="100 KB")
    memory.preferences.add(TRAIN)
    assert held_for(memory, "x") == [TRAIN] and counted(memory, "pending") == [1]  # another verdict ends no wait
    memory.retry()
    assert held_for(memory, "x") == sorted([WINE, TRAIN]) and counted(memory, "pending") == [0]


def test_a_retry_that_decides_nothing_removes_nothing() -> None:
    memory = memory_of(WINE, verifier=DiscardAll(), reserve="200 KB", tau=-1.0)
    memory.add(f"note {number} of a blue sea" for number in range(600))
    memory.verifier = UndecidedAll()
    memory.add(f"note {number} of a red wine" for number in range(60))
    before = sorted(item.id for item in memory.items())
    for _ in range(3):
        memory.retry()
        assert sorted(item.id for item in memory.items()) == before


def test_the_version_that_is_offered_last_wins_over_one_that_waits() -> None:
    first, second = (Item(id="x", text=WINE, metadata={"version": number}) for number in (1, 2))
    memory = memory_of(WINE)
    memory.add([first])
    memory.verifier = UndecidedAll()
    memory.add([second])
    memory.verifier = KeepAll()
    memory.add([first])
    memory.retry()
    assert memory.items() == [first] and counted(memory, "pending") == [0]


@pytest.mark.parametrize("verifier", [None, KeepAll, DiscardAll, UndecidedAll])
def test_a_retry_keeps_an_item_that_matches_what_replaced_its_preference(verifier: type[Any] | None) -> None:
    memory = waiting(WINE, items=[Item(id="x", text=ALL_THREE), Item(id="y", text="some red wine")])
    memory.verifier = KeepAll() if verifier is None else UndecidedAll()
    memory.preferences.replace(WINE, TRAIN)
    memory.verifier = KeepAll() if verifier is None else verifier()
    report = memory.retry()
    if verifier is None:
        # One was found for its text, and so kept when the preference came.
        assert (report.seen, report.kept, report.discarded) == (2, 0, 1)
        assert held_for(memory, "x") == [TRAIN] and counted(memory, "items", "pending") == [1, 0]
    else:
        assert report.seen == report.passed == report.kept + report.discarded + report.undecided == 2


def test_a_light_item_kept_on_retry_is_promoted() -> None:
    memory = memory_of(WINE)
    memory.add([Item(id="x", text=NEARLY_WINE)])
    assert counted(memory, "items", "light") == [0, 1]
    memory.verifier = UndecidedAll()
    memory.preferences.add(TRAIN)
    memory.verifier = KeepAll()
    memory.retry()
    assert counted(memory, "items", "light", "entries", "pending") == [1, 0, 1, 0]
    assert [(hit.item.id, hit.tier) for hit in memory.search(TRAIN)] == [("x", "memory")]


# at the same time


async def test_an_item_added_while_it_is_being_added_is_held_once() -> None:
    verifier, item = Meanwhile(), Item(id="x", text="some red wine")
    memory, twice = memory_of(verifier=verifier), memory_of()
    verifier.happens = lambda: memory.add([item])
    memory.add([item])
    await asyncio.gather(twice.aadd([item]), twice.aadd([item]))
    for each in (memory, twice):
        assert counted(each, "items", "entries") == [1, 1] and len(each.search("wine")) == 1


def test_an_item_being_verified_is_matched_with_a_preference_added_meanwhile() -> None:
    verifier = Meanwhile()
    memory = memory_of(verifier=verifier)
    verifier.happens = lambda: memory.preferences.add(TRAIN)
    memory.add([Item(id="x", text=ALL_THREE), Item(id="y", text="a night train")])
    assert held_for(memory, "x") == sorted([WINE, TRAIN]) and held_for(memory, "y") == [TRAIN]


def test_what_is_added_during_a_reencoding_is_embedded_anew_too(path: Path) -> None:
    encoder = other()
    with memory_at(path, WINE) as memory:
        memory.add(["some red wine"])
        encoder.happens = lambda: memory.add(["another red wine"])
        memory.file.reencode(encoder)
        assert {hit.item.text for hit in memory.search("wine")} == {"some red wine", "another red wine"}
    with memory_at(path, encoder=other()) as memory:
        assert {hit.item.text for hit in memory.search("wine")} == {"some red wine", "another red wine"}


@pytest.mark.parametrize("dimension", [512, 1024])
def test_a_reencoding_during_an_addition_refuses_it_and_writes_nothing(path: Path, dimension: int) -> None:
    verifier = Meanwhile()
    memory = memory_at(path, WINE, verifier=verifier)
    verifier.happens = lambda: memory.file.reencode(other(dimension))
    with pytest.raises(EncoderError, match="embedded anew"):
        memory.add(["some red wine"])
    assert memory.add(["some red wine"]).kept == 1
    instruction = memory.explain(Item(text="some red wine").id).entries[0].instruction
    (hit,) = memory.search(instruction, options=SearchOptions(steering="off"))
    assert hit.entries[0].score == pytest.approx(1.0, abs=1e-5)


def test_a_reencoding_that_cannot_be_committed_leaves_the_encoder(path: Path) -> None:
    with memory_at(path, TEA) as memory:
        memory.add(teas(20))
        before = found(memory)
        memory._session.store._connection.execute("PRAGMA busy_timeout = 20")
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM items").fetchall()
            with pytest.raises(StoreError):
                memory.file.reencode(other())
            reader.execute("ROLLBACK")
        assert memory.encoder.name == "hash" and found(memory) == before
        assert memory.add(teas(1, start=20)).kept == 1
    with memory_at(path) as memory:
        assert len(found(memory)) == 21


def test_nobody_writes_between_a_reencoding_and_its_adoption(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = memory_of()
    memory.add(["red wine from the south"])
    adopt = opening._adopt
    writer = threading.Thread(target=memory.add, args=(["more red wine"],))

    def adopted(*given: Any) -> None:
        writer.start()
        writer.join(0.2)
        assert writer.is_alive()  # it waits: its vectors would be the old encoder's
        adopt(*given)

    monkeypatch.setattr(opening, "_adopt", adopted)
    memory.file.reencode(HashEncoder(32))
    writer.join()
    assert len(memory.search(WINE)) == 2


def test_what_is_found_is_read_whole_when_it_is_more_than_is_kept_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "_ITEMS_KEPT", 4)
    memory = memory_of()
    memory.add([f"red wine number {number}" for number in range(6)])
    for k in (3, 6):
        assert len(memory.search("red wine number", k=k)) == k
