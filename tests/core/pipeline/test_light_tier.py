"""What was not kept is held by its text while there is room, searched, and looked through again."""

from __future__ import annotations

from pathlib import Path

from helpers import DiscardAll, memory_at, memory_of

WINE, CHEESE = "red wine", "old cheddar"


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


def test_a_preference_finds_what_was_offered_before_it_and_leaves_it_when_it_goes(path: Path) -> None:
    with memory_at(path, WINE) as memory:
        memory.add(["old cheddar from Somerset", "a train to Berlin"])
        assert len(memory) == 0
        report = memory.preferences.add(CHEESE)
        assert report.kept == 1 and len(memory) == 1
        (hit,) = memory.search("old cheddar", k=1)
        assert (hit.tier, hit.preferences) == ("memory", [CHEESE])
        memory.preferences.remove(CHEESE)
        assert (len(memory), memory.stats().counts["light"]) == (0, 2)
        (hit,) = memory.search("old cheddar", k=1)
        assert (hit.tier, hit.instructions) == ("light", [])
    assert b"Think of" not in path.read_bytes()


def test_the_file_stays_within_its_reserve_and_keeps_what_is_nearest(path: Path) -> None:
    far = [f"item {number} about {' '.join(f'w{number}x{word}' for word in range(40))}" for number in range(400)]
    near = [f"wine {number} {' '.join(f'n{number}x{word}' for word in range(20))}" for number in range(20)]
    with memory_at(path, WINE, verifier=DiscardAll(), reserve="100 KB") as memory:
        report = memory.add([*far, *near])
        assert report.light + report.no_room >= 420 and report.no_room > 0
        assert memory.stats().bytes["total"] <= 110_000
        held = {item.text for item in memory.items()}
        assert set(near) <= held
    with memory_at(path) as again:
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
