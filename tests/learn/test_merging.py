"""Merges of two devices' files: what they have to be in any history, what forgetting leaves, and what a kill does."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import Epic, refused
from crashing import Workers
from devices import DEEDS, FACTS, PREFERENCES, TEXTS, Step, check_files, check_states, do, observed
from epic_learn.merging import merge
from epic_memory import EpicMemory, Item, Settings
from epic_memory.errors import StoreError

STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(DEEDS), st.integers(0, 3), st.integers(0, 1)), max_size=12
)


@given(STEPS, STEPS)
@settings(max_examples=300)
def test_neither_order_nor_repetition_matters(before: list[Step], steps: list[Step]) -> None:
    check_states(before[:4], steps)


@pytest.mark.parametrize(
    ("before", "steps"),
    [
        # Changed on two devices, forgotten on one and changed on another, added again, and a fact.
        ([(0, "prefer", 0, 0)], [(0, "replace", 0, 0), (1, "replace", 0, 1), (2, "item", 1, 0)]),
        ([(0, "prefer", 0, 0), (0, "item", 0, 0)], [(0, "forget", 0, 0), (1, "item", 0, 1), (2, "prefer", 1, 0)]),
        ([(0, "prefer", 0, 0), (0, "item", 0, 0)], [(0, "forget", 0, 0), (0, "item", 0, 1), (1, "unprefer", 0, 0)]),
        ([(0, "fact", 0, 0)], [(0, "fact", 0, 1), (1, "fact", 1, 0), (2, "fact", 0, 0), (2, "prefer", 2, 0)]),
    ],
)
def test_files_come_to_the_same_in_any_order(tmp_path: Path, before: list[Step], steps: list[Step]) -> None:
    check_files(tmp_path, before, steps)


@pytest.mark.slow
@given(steps=STEPS, before=STEPS)
@settings(max_examples=25)
def test_files_come_to_the_same_in_any_history(
    tmp_path_factory: pytest.TempPathFactory, before: list[Step], steps: list[Step]
) -> None:
    check_files(tmp_path_factory.mktemp("devices"), before[:4], steps[:8])


@pytest.fixture
def other(path: Path) -> Path:
    """A copy of a memory of some items, which is at `path`."""
    with EpicMemory.open(path, PREFERENCES[:2]) as memory:
        for thing in range(3):
            do(memory, "item", thing, 0)
        do(memory, "fact", 0, 0)
    return Path(shutil.copy(path, path.with_name("other.epic")))


def test_what_one_device_forgot_is_in_no_byte_of_the_other(path: Path, other: Path) -> None:
    with EpicMemory.open(other) as memory:
        memory.forget("item-1", *(fact for fact in memory.facts))
    for file in (other, path):
        with EpicMemory.open(path) as memory:
            merge(memory, other)
        assert not [text for text in (TEXTS[1][0], FACTS[0], "item-1") if text.encode() in file.read_bytes()]


def test_a_preference_that_one_device_removed_does_not_come_back(path: Path, other: Path) -> None:
    with EpicMemory.open(other) as memory:
        memory.preferences.remove(PREFERENCES[0])
    for mine, theirs in ((path, other), (other, path)):
        with EpicMemory.open(mine) as memory:
            merge(memory, theirs)
            assert [each.text for each in memory.preferences] == [PREFERENCES[1]]


def test_what_both_changed_waits_and_is_decided_once(path: Path, other: Path) -> None:
    changed = ("I avoid hotels with lifts.", "I avoid hotels with dogs.")
    for file, text in zip((path, other), changed, strict=True):
        with EpicMemory.open(file) as memory:
            memory.preferences.replace(PREFERENCES[0], text)
    with EpicMemory.open(path) as memory:
        assert merge(memory, other).conflicts == 1
        (waiting,) = memory.proposals
        assert {waiting.old, waiting.text} == set(changed) and waiting.old in [p.text for p in memory.preferences]
        memory.proposals.accept(waiting)
        merge(memory, other)
        decided = observed(memory)
        assert waiting.text in decided["preferences"] and waiting.old not in decided["preferences"]
    with EpicMemory.open(other) as memory:
        merge(memory, path)
        assert observed(memory) == decided


def test_what_is_new_on_each_is_judged_under_the_preferences_of_the_other(path: Path, other: Path) -> None:
    with EpicMemory.open(path) as memory:
        memory.preferences.add("I follow a strict vegan diet.")
    with EpicMemory.open(other) as memory:
        memory.add([Item(id="stew", text="A strict vegan diet needs this stew of lentils.")])
        merge(memory, path)
        theirs = observed(memory)
    with EpicMemory.open(path) as memory:
        merge(memory, other)
        assert observed(memory) == theirs
        assert [entry.preference for entry in memory.explain("stew").entries] == ["I follow a strict vegan diet."]


def test_what_is_ruled_out_here_does_not_come(path: Path, other: Path) -> None:
    with EpicMemory.open(other) as memory:
        memory.add([Item(id="soup", text="A soup with lentils.")])
    with EpicMemory.open(path) as memory:
        memory.forget("item-2")
        memory.never.add("lentils")
        assert merge(memory, other).ruled_out == 1
        assert not memory.get(["soup"])


def test_a_file_that_was_copied_in_the_midst_of_a_write_is_refused_and_nothing_changes(path: Path, other: Path) -> None:
    with EpicMemory.open(other) as memory:
        memory.add([Item(id=f"more-{n}", text=f"A hotel with {n} rooms and a casino.") for n in range(50)])
    whole, before = other.read_bytes(), path.read_bytes()
    for share in (0.3, 0.6, 0.9):
        cut = int(len(whole) * share) // 512 * 512
        for part in (whole[:cut], whole[:cut] + bytes(len(whole) - cut), whole[:cut] + before[cut:]):
            other.write_bytes(part)
            with EpicMemory.open(path) as memory, pytest.raises(StoreError, match="nothing was changed"):
                merge(memory, other)
    assert path.read_bytes() == before


def test_the_command_merges_and_syncs_with_a_file(epic: Epic, path: Path, other: Path) -> None:
    with EpicMemory.open(other) as memory:
        memory.add([Item(id="new", text="A new hotel without a casino.")])
    assert "1 items" in epic("merge", str(path), str(other)).out
    assert "0 items" in epic("sync", str(path), "--with", str(other)).out
    refused(epic("merge", str(path), str(path)), "itself")
    refused(epic("sync", str(path), "--with", f"{other}.gone"), "There is no memory")


def test_a_merge_of_locked_files_asks_for_the_key_of_each(path: Path, other: Path) -> None:
    pytest.importorskip("sqlcipher3")
    for file, key in ((path, "mine"), (other, "theirs")):
        with EpicMemory.open(file) as memory:
            memory.add([Item(id=key, text="A new hotel without a casino.")])
            memory.file.rekey(key)
    with EpicMemory.open(path, settings=Settings(key="mine")) as memory:
        with pytest.raises(StoreError, match="another key"):
            merge(memory, other)
        assert merge(memory, other, key="theirs").items == 1


MERGING = """
from epic_learn.merging import merge
from epic_memory import EpicMemory
def work(path, other):
    with EpicMemory.open(path) as memory:
        print("opened", flush=True)
        merge(memory, other)
        print("merged", flush=True)
"""


@pytest.mark.slow
def test_a_kill_during_a_merge_leaves_the_old_or_the_new(path: Path, other: Path) -> None:
    with EpicMemory.open(other) as memory:
        memory.preferences.add(PREFERENCES[3])
        memory.add([Item(id=f"more-{n}", text=f"A vegan hotel with {n} rooms and a casino.") for n in range(300)])
    old, first, ends = path.read_bytes(), {}, set()
    with EpicMemory.open(path) as memory:
        first["old"] = observed(memory)
        started = time.perf_counter()
        merge(memory, other)
        took = time.perf_counter() - started
        first["new"] = observed(memory)
    with Workers(MERGING) as workers:
        for kill in range(41):
            path.write_bytes(old)
            # Forty kills; the last worker comes to its end.
            said = workers.run(str(path), str(other), killed_after=took * 1.2 * kill / 40 if kill < 40 else None)
            with EpicMemory.open(path) as memory:
                found = observed(memory)
                assert memory.file.verify() > 0
            ends.add(next(name for name, held in first.items() if held == found))
            assert said and ("merged" not in said or found == first["new"])
    assert ends == {"old", "new"}
