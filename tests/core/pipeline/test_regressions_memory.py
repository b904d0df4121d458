"""What a memory keeps true while it changes: its queue, its tiers, its encoder, its settings and its file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from epic_memory import EpicMemory, Filter, Item, Preference, SearchOptions
from epic_memory.errors import EncoderError, InvalidInputError
from epic_memory.storage import namespace
from epic_memory.text.chunking import WordChunker
from epic_memory.types import Candidate, FloatArray
from epic_memory.verification import EmbeddedVerifier
from helpers import DiscardAll, HashEncoder, KeepAll, UndecidedAll, memory_of, settled

WINE, TRAIN, SEA = "red wine", "night train", "blue sea"
ALL_THREE = "red wine in a night train at blue sea"
NEARLY_WINE = "red night train to far north and back"  # 0.25 from the wine, 0.5 from the train


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
    """Something else happens before its first encoding, once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.happens: Callable[[], object] | None = None

    def encode(self, texts: Sequence[str]) -> FloatArray:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return super().encode(texts)


class Raising(HashEncoder):
    """Raises what it is told to."""

    error: BaseException | None = None

    def _encode(self, texts: Sequence[str]) -> FloatArray:
        if self.error is not None:
            raise self.error
        return super()._encode(texts)


def opened(path: Path, preferences: Sequence[str] | None = None, **options: Any) -> EpicMemory:
    return EpicMemory.open(path, preferences, **settled(**{"encoder": HashEncoder(), "verifier": KeepAll(), **options}))


def held_for(memory: EpicMemory, item_id: str) -> list[str]:
    """The preferences an item has entries for, sorted."""
    return sorted(entry.preference for entry in memory.explain(item_id).entries)


def counted(memory: EpicMemory, *names: str) -> list[int]:
    return [memory.stats().counts[name] for name in names]


def other() -> HashEncoder:
    return HashEncoder(512, name="other", fingerprint="v2")


# the file


@pytest.mark.parametrize(
    "options",
    [{"tau": 7}, {"nonsense": 1}, {"namespace": ""}, {"keep_rate": 2}, {"steering": "x"}, {"reserve": "-1 MB"}],
)
def test_a_failed_open_leaves_no_new_file(path: Path, options: dict[str, Any]) -> None:
    with pytest.raises((InvalidInputError, TypeError)):
        opened(path, [WINE], **options)
    assert not path.exists()


# filters and searching


def test_true_and_one_are_different_filters() -> None:
    memory = memory_of()
    memory.add(
        [Item(id="one", text="red wine", metadata={"f": 1}), Item(id="true", text="a red wine", metadata={"f": True})]
    )
    for value, wanted in [(1, "one"), (True, "true"), (1, "one")]:
        assert [hit.item.id for hit in memory.search("wine", filter=Filter.eq("f", value))] == [wanted]


# undecided items


def test_a_held_item_waits_for_all_the_preferences_it_was_undecided_under() -> None:
    memory = memory_of(WINE)
    memory.add([Item(id="x", text=ALL_THREE)])
    memory.verifier = UndecidedAll()
    memory.preferences.add(TRAIN)
    memory.preferences.add(SEA)
    assert held_for(memory, "x") == [WINE]
    memory.verifier = KeepAll()
    memory.retry()
    assert held_for(memory, "x") == sorted([WINE, TRAIN, SEA])
    assert counted(memory, "items", "entries", "pending") == [1, 3, 0]


@pytest.mark.parametrize("budget", [None, "1 MB"])
def test_a_retry_considers_preferences_that_came_later(path: Path, budget: str | None) -> None:
    memory = opened(path, [WINE], verifier=UndecidedAll(), budget=budget)
    memory.add([Item(id="x", text=ALL_THREE)])
    memory.verifier = KeepAll()
    memory.preferences.add(TRAIN)
    memory.retry()
    assert held_for(memory, "x") == sorted([WINE, TRAIN])


@pytest.mark.parametrize("budget", [None, "1 MB"])
def test_a_verdict_under_another_preference_ends_no_wait(path: Path, budget: str | None) -> None:
    memory = opened(path, [WINE], verifier=UndecidedAll(), budget=budget, reserve="100 KB")
    memory.add([Item(id="x", text=ALL_THREE)])
    memory.verifier = KeepAll()
    memory.preferences.add(TRAIN)
    assert held_for(memory, "x") == [TRAIN] and counted(memory, "pending") == [1]
    memory.retry()
    assert held_for(memory, "x") == sorted([WINE, TRAIN]) and counted(memory, "pending") == [0]


def test_a_retry_that_decides_nothing_removes_nothing(path: Path) -> None:
    memory = opened(path, [WINE], verifier=DiscardAll(), reserve="200 KB", tau=-1.0)
    memory.add(f"note {number} of a blue sea" for number in range(600))
    memory.verifier = UndecidedAll()
    memory.add(f"note {number} of a red wine" for number in range(60))
    before = sorted(item.id for item in memory.items())
    for _ in range(3):
        memory.retry()
    assert sorted(item.id for item in memory.items()) == before


def test_the_version_that_is_offered_last_wins_over_one_that_waits() -> None:
    memory = memory_of(WINE)
    first, second = (Item(id="x", text="red wine", metadata={"version": number}) for number in (1, 2))
    memory.add([first])
    memory.verifier = UndecidedAll()
    memory.add([second])
    memory.verifier = KeepAll()
    memory.add([first])
    memory.retry()
    assert memory.items() == [first] and counted(memory, "pending") == [0]


def test_a_retry_keeps_an_item_that_matches_what_replaced_its_preference() -> None:
    memory = memory_of(WINE, verifier=UndecidedAll())
    memory.add([Item(id="x", text=ALL_THREE), Item(id="y", text="some red wine")])
    memory.verifier = KeepAll()
    memory.preferences.replace(WINE, TRAIN)
    report = memory.retry()
    assert held_for(memory, "x") == [TRAIN]
    # It was found for its text, and so kept when the preference came.
    assert (report.seen, report.kept, report.discarded) == (2, 0, 1)
    assert counted(memory, "items", "pending") == [1, 0]


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


@pytest.mark.parametrize("verifier", [KeepAll, DiscardAll, UndecidedAll])
def test_what_passed_a_retry_is_kept_discarded_or_undecided(verifier: type[Any]) -> None:
    memory = memory_of(WINE, verifier=UndecidedAll())
    memory.add([ALL_THREE, "some red wine"])
    memory.preferences.replace(WINE, TRAIN)
    memory.verifier = verifier()
    report = memory.retry()
    assert report.seen == report.passed == report.kept + report.discarded + report.undecided == 2


@pytest.mark.parametrize("change", ["add", "replace"])
def test_a_changed_preference_is_reported_with_timings_and_what_is_undecided(change: str) -> None:
    memory = memory_of(WINE)
    memory.add([ALL_THREE])
    memory.verifier = UndecidedAll()
    report = memory.preferences.add(TRAIN) if change == "add" else memory.preferences.replace(WINE, TRAIN)
    assert {"embedding", "verification", "index"} <= report.timings.keys()
    assert report.undecided == 1
    assert any("undecided" in warning for warning in report.warnings)


# at the same time


def test_an_item_added_while_it_is_being_added_is_held_once() -> None:
    verifier = Meanwhile()
    memory = memory_of(verifier=verifier)
    item = Item(id="x", text="some red wine")
    verifier.happens = lambda: memory.add([item])
    memory.add([item])
    assert counted(memory, "items", "entries") == [1, 1]
    assert len(memory.search("wine")) == 1


async def test_an_item_added_by_two_tasks_is_held_once() -> None:
    memory = memory_of()
    item = Item(id="x", text="some red wine")
    await asyncio.gather(memory.aadd([item]), memory.aadd([item]))
    assert counted(memory, "items", "entries") == [1, 1]
    assert len(await memory.asearch("wine")) == 1


def test_an_item_being_verified_is_matched_with_a_preference_added_meanwhile() -> None:
    verifier = Meanwhile()
    memory = memory_of(verifier=verifier)
    verifier.happens = lambda: memory.preferences.add(TRAIN)
    memory.add([Item(id="x", text=ALL_THREE), Item(id="y", text="a night train")])
    assert held_for(memory, "x") == sorted([WINE, TRAIN])
    assert held_for(memory, "y") == [TRAIN]


def test_what_is_added_during_a_reencoding_is_embedded_anew_too(path: Path) -> None:
    memory = opened(path, [WINE])
    memory.add(["some red wine"])
    encoder = EncodingMeanwhile(dimension=512, name="other", fingerprint="v2")
    encoder.happens = lambda: memory.add(["another red wine"])
    memory.file.reencode(encoder)
    assert {hit.item.text for hit in memory.search("wine")} == {"some red wine", "another red wine"}
    memory.close()
    with opened(path, encoder=other()) as again:
        assert {hit.item.text for hit in again.search("wine")} == {"some red wine", "another red wine"}


# chunks


def test_a_shorter_version_takes_all_earlier_pieces_away() -> None:
    memory = memory_of(chunker=WordChunker(max_words=4))
    memory.add([Item(id="a", text="A red wine here. A red wine there. A red wine nowhere.")])
    assert {hit.item.id for hit in memory.search("wine")} == {"a#0", "a#1", "a#2"}
    memory.add([Item(id="a", text="Only red wine.")])
    assert [(hit.item.id, hit.item.text) for hit in memory.search("wine")] == [("a", "Only red wine.")]
    assert len(memory) == 1


# a StopIteration is an error like any other


def stopping(query: str, k: int) -> list[str]:
    raise StopIteration


async def test_a_stopiteration_does_not_end_a_call_as_if_it_were_done() -> None:
    encoder = Raising()
    memory, other = memory_of(encoder=encoder), memory_of(fallback=stopping)
    encoder.error = StopIteration("text")
    calls: list[Callable[[], Any]] = [
        lambda: memory.search("wine"),
        lambda: memory.add(["red wine"]),
        lambda: memory.preferences.add(TRAIN),
        lambda: memory.asearch("wine"),
        lambda: memory.aadd(["red wine"]),
        lambda: other.search("something else"),
        lambda: other.asearch("something else"),
    ]
    for call in calls:
        with pytest.raises((StopIteration, RuntimeError)):
            await asyncio.wait_for(call(), 60)


# encoders, taus and the reserve of a file


def test_the_tau_given_to_a_reencoding_open_stays(path: Path) -> None:
    opened(path, [WINE], tau=0.4).close()
    with opened(path, encoder=other(), tau=0.55, reencode=True) as memory:
        assert memory.tau == 0.55
    with opened(path, encoder=other()) as memory:
        assert memory.tau == 0.55


def test_tau_belongs_to_a_namespace_and_the_reserve_to_the_file(path: Path) -> None:
    opened(path, [WINE], namespace="a", tau=0.5).close()
    with opened(path, [WINE], namespace="b") as memory:
        assert memory.tau == 0.3 and memory.add(["blue sky"]).light == 1
    with opened(path, namespace="a") as memory:
        assert memory.tau == 0.5 and memory.add(["blue sky"]).light == 1


def test_a_fallback_once_leaves_the_stored_reserve(path: Path) -> None:
    opened(path, [WINE]).close()
    opened(path, fallback=lambda query, k: []).close()
    with opened(path) as memory:
        assert memory.add(["blue sky"]).light == 1


@pytest.mark.parametrize("order", [[SEA, TRAIN, WINE], [TRAIN, WINE]])
def test_sync_takes_over_the_given_order(path: Path, order: list[str]) -> None:
    opened(path, [WINE, TRAIN]).close()
    with opened(path, order, sync=True) as memory:
        assert memory.preferences == [Preference(text=text) for text in order]
    with opened(path) as memory:
        assert [preference.text for preference in memory.preferences] == order


# the default verifier


@pytest.mark.slow
def test_the_instruction_of_an_endless_word_is_short() -> None:
    encoder = HashEncoder()
    memory = memory_of(encoder=encoder, verifier=EmbeddedVerifier(encoder, threshold=0.0), tau=-1.0)
    item = Item(id="x", text="x" * 1_000_000)
    assert memory.add([item]).kept == 1
    assert all(len(entry.instruction) < 1000 for entry in memory.explain("x").entries)


@pytest.mark.parametrize("dimension", [512, 1024])
def test_a_reencoding_during_an_addition_refuses_it_and_writes_nothing(path: Path, dimension: int) -> None:
    verifier = Meanwhile()
    memory = opened(path, [WINE], verifier=verifier)
    encoder = HashEncoder(dimension, name="other", fingerprint="v2")
    verifier.happens = lambda: memory.file.reencode(encoder)
    with pytest.raises(EncoderError, match="embedded anew"):
        memory.add(["some red wine"])
    assert memory.add(["some red wine"]).kept == 1
    instruction = memory.explain(Item(text="some red wine").id).entries[0].instruction
    (hit,) = memory.search(instruction, options=SearchOptions(steering="off"))
    assert hit.entries[0].score == pytest.approx(1.0, abs=1e-5)


def test_what_is_held_light_is_told_by_the_tau_of_the_file(path: Path) -> None:
    opened(path, [WINE], tau=0.5).close()
    with opened(path) as memory:
        report = memory.add(["wine cellar of old", "red wine"])  # 0.35 from the wine, and all of it
        assert (memory.tau, report.kept, report.light) == (0.5, 1, 1)
        assert [item.text for item in memory.items()] == ["wine cellar of old", "red wine"]
        assert counted(memory, "items", "light") == [1, 1]


def test_items_that_are_known_are_returned_when_others_need_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "_ITEMS_KEPT", 4)
    with memory_of() as memory:
        memory.add([f"red wine number {number}" for number in range(6)])
        space = memory._session.space()
        rows = sorted(space.rows_of)
        assert list(space.held(rows[:3])) == rows[:3]
        assert list(space.held(rows[1:5])) == rows[1:5]
