"""What was not kept is held by its text while there is room, searched, and looked through again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epic_memory import EpicMemory, Item, Settings
from epic_memory.errors import InvalidInputError
from helpers import DiscardAll, HashEncoder, KeepAll, settled

WINE, CHEESE = "red wine", "old cheddar"


def memory_of(*preferences: str, path: Path | None = None, **options: Any) -> EpicMemory:
    options = {"encoder": HashEncoder(), "verifier": KeepAll(), "tau": 0.3, **options}
    return (
        EpicMemory(preferences, **settled(**options))
        if path is None
        else EpicMemory.open(path, preferences, **settled(**options))
    )


def test_what_the_coarse_filter_and_the_verifier_turn_away_is_held_by_its_text() -> None:
    memory = memory_of(WINE)
    report = memory.add(["red wine from Porto", "a train to Berlin"])
    assert (report.kept, report.light, report.no_room) == (1, 1, 0)
    assert (len(memory), memory.stats().counts["light"]) == (1, 1)
    (hit,) = memory.search("a train to Berlin", k=1)
    assert (hit.tier, hit.entries, hit.item.text) == ("light", (), "a train to Berlin")
    rejecting = memory_of(WINE, verifier=DiscardAll())
    report = rejecting.add(["red wine from Porto"])
    assert (report.discarded, report.light, len(rejecting)) == (1, 1, 0)
    assert "far" in str(rejecting.explain(rejecting.items()[0].id))


def test_a_reserve_of_zero_holds_nothing_but_what_was_kept() -> None:
    memory = memory_of(WINE, reserve=0)
    report = memory.add(["red wine from Porto", "a train to Berlin"])
    assert (report.light, report.no_room) == (0, 1)
    assert [item.text for item in memory.items()] == ["red wine from Porto"]


@pytest.mark.parametrize("reserve", [-1, "much", True, 1.5])
def test_a_reserve_that_is_none_is_refused(reserve: Any) -> None:
    with pytest.raises(InvalidInputError, match="reserve"):
        memory_of(WINE, reserve=reserve)


def test_a_preference_that_comes_later_finds_what_was_offered_before() -> None:
    memory = memory_of(WINE)
    memory.add(["old cheddar from Somerset", "a train to Berlin"])
    assert len(memory) == 0
    report = memory.preferences.add(CHEESE)
    assert report.kept == 1 and len(memory) == 1
    (hit,) = memory.search("old cheddar", k=1)
    assert (hit.tier, hit.preferences) == ("memory", [CHEESE])


def test_what_a_preference_held_stays_by_its_text_alone_when_the_preference_goes(tmp_path: Path) -> None:
    with memory_of(WINE, CHEESE, path=tmp_path / "me.epic") as memory:
        memory.add(["red wine from Porto"])
        memory.preferences.remove(WINE)
        assert (len(memory), memory.stats().counts["light"]) == (0, 1)
        (hit,) = memory.search("red wine", k=1)
        assert (hit.tier, hit.instructions) == ("light", [])
    assert b"Think of" not in (tmp_path / "me.epic").read_bytes()


def test_the_file_stays_within_its_reserve_and_keeps_what_is_nearest(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    far = [f"item {number} about {' '.join(f'w{number}x{word}' for word in range(40))}" for number in range(400)]
    near = [f"wine {number} {' '.join(f'n{number}x{word}' for word in range(20))}" for number in range(20)]
    with memory_of(WINE, path=path, verifier=DiscardAll(), reserve="100 KB") as memory:
        report = memory.add([*far, *near])
        assert report.light + report.no_room >= 420 and report.no_room > 0
        assert memory.stats().bytes["total"] <= 110_000
        held = {item.text for item in memory.items()}
        assert set(near) <= held
    with EpicMemory.open(path, encoder=HashEncoder(), settings=Settings(verifier=KeepAll())) as again:
        assert {item.text for item in again.items()} == held
        again.add([f"red wine number {number}" for number in range(100)])
        assert len(again) == 100 and again.stats().counts["light"] < len(held)


def test_the_light_tier_goes_first_under_a_budget() -> None:
    memory = memory_of(WINE, budget="120 KB")
    memory.add([f"a train {number} {' '.join(f't{number}x{word}' for word in range(40))}" for number in range(300)])
    before = memory.stats().counts["light"]
    report = memory.add([f"red wine number {number}" for number in range(10)])
    counts = memory.stats().counts
    assert before > 0 and report.kept == 10 and report.evicted == 0
    assert counts["light"] < before and memory.stats().bytes["total"] <= 120_000


def test_both_tiers_are_the_same_after_opening_and_by_export(tmp_path: Path) -> None:
    with memory_of(WINE, path=tmp_path / "me.epic") as memory:
        memory.add([Item(id="a", text="red wine from Porto"), Item(id="b", text="a train to Porto")])
        found = [(hit.item.id, hit.tier, pytest.approx(hit.score, abs=1e-5)) for hit in memory.search("Porto", k=2)]
        memory.file.export(tmp_path / "all.jsonl")
    with EpicMemory.open(tmp_path / "me.epic", encoder=HashEncoder(), settings=Settings(verifier=KeepAll())) as again:
        assert [(hit.item.id, hit.tier, hit.score) for hit in again.search("Porto", k=2)] == found
    options: dict[str, Any] = {"encoder": HashEncoder(), "verifier": KeepAll()}
    with EpicMemory.restore(tmp_path / "all.jsonl", tmp_path / "other.epic", **settled(**options)) as taken:
        assert [(hit.item.id, hit.tier) for hit in taken.search("Porto", k=2)] == [one[:2] for one in found]


def test_forgotten_text_of_the_light_tier_leaves_no_trace(tmp_path: Path) -> None:
    with memory_of(WINE, path=tmp_path / "me.epic") as memory:
        memory.add([Item(id="secret", text="the code of the safe is zebra")])
        memory.forget("secret")
        assert memory.search("zebra safe", k=1) == []
    assert b"zebra" not in (tmp_path / "me.epic").read_bytes()
