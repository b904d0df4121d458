"""What was not kept, in a memory without a light tier: it is not looked at twice, and a sample is on record."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from epic_memory import EpicMemory, Item
from epic_memory.storage.tables.items import version_of
from epic_memory.types import Candidate, Decision, Verdict
from helpers import Answering, DiscardAll, HashEncoder, KeepAll, UndecidedAll, settled

pytestmark = pytest.mark.usefixtures("locking")

WINE, SEA = "red wine", "blue sea"
FAR = "green hills"
NEAR = "red wine from far away"


def memory(*preferences: str, path: Path | None = None, **options: Any) -> EpicMemory:
    options = {"encoder": HashEncoder(), "verifier": DiscardAll(), "reserve": 0, **options}
    if path is None:
        return EpicMemory(preferences or (WINE,), **settled(**options))
    return EpicMemory.open(path, preferences or None, **settled(**options))


def asked(held: EpicMemory) -> list[str]:
    return [text for text, _ in held.verifier.asked]  # type: ignore[attr-defined]


def encoded(held: EpicMemory, text: str) -> int:
    return held.encoder.texts[text]  # type: ignore[attr-defined, no-any-return]


def far(number: int) -> Item:
    return Item(text=f"{FAR} {number}", id=str(number))


def is_looked_at(held: EpicMemory, item: str | Item) -> bool:
    """Whether adding an item has it embedded: what is known of it would spare that."""
    text = Item.of(item).text
    before = encoded(held, text)
    report = held.add([item])
    looked = encoded(held, text) > before
    assert report.known == (not looked)
    return looked


# what is known, and until when


@pytest.mark.parametrize("text", [FAR, NEAR], ids=["by the coarse filter", "by verification"])
def test_what_was_discarded_is_not_looked_at_again(text: str) -> None:
    held = memory()
    first = held.add([text])
    embedded, verified = encoded(held, text), list(asked(held))
    assert (first.known, first.new, encoded(held, text)) == (0, 1, 1)
    again = held.add([text, text])
    assert (again.seen, again.known, again.duplicates, again.new, again.passed) == (2, 1, 1, 0, 0)
    assert "1 not kept before" in str(again)
    assert encoded(held, text) == embedded and asked(held) == verified
    assert held.stats().counts["seen"] == 1


@pytest.mark.parametrize("text", [FAR, NEAR])
def test_a_new_preference_or_another_verifier_has_it_looked_at_again(text: str) -> None:
    held = memory()
    held.add([text])
    held.preferences.add(SEA)
    assert is_looked_at(held, text) and not is_looked_at(held, text)
    held.verifier = KeepAll()  # of the same name
    assert not is_looked_at(held, text)
    held.verifier.name = "another"
    assert is_looked_at(held, text)


@pytest.mark.parametrize(
    "options",
    [
        {"tau": 0.2},
        {"coarse": False},
        {"fine": False},
        {"reserve": "1 MB"},
        {"encoder": HashEncoder(fingerprint="v2"), "reencode": True},
    ],
    ids=lambda options: next(iter(options)),
)
def test_other_settings_have_it_looked_at_again_after_opening(path: Path, options: dict[str, Any]) -> None:
    with memory(WINE, path=path) as held:
        held.add([FAR])
    with memory(path=path, **options) as held:
        assert is_looked_at(held, FAR)


def test_a_restart_leaves_it_known(path: Path) -> None:
    items = [far(number) for number in range(600)]
    with memory(WINE, path=path, ledger=1000) as held:
        held.add(items)
        sampled = held.file.not_kept()
    with memory(path=path, ledger=1000) as held:
        assert held.file.not_kept() == sampled and sampled
        report = held.add(items)
        # Nothing is embedded, nothing verified.
        assert (report.known, report.new, asked(held)) == (600, 0, [])
        assert not any(encoded(held, item.text) for item in items)


def test_without_a_number_the_ledger_takes_a_small_part_of_the_file(path: Path) -> None:
    with memory(WINE, path=path) as held:
        for start in range(0, 8_000, 2_000):
            held.add(far(number) for number in range(start, start + 2_000))
        known = held.stats().counts["seen"]
        assert 50 <= known < 4_000 and path.stat().st_size < 100_000
    with memory(path=path) as held:
        # Of the last, all but those that came to a verifier and were noted in another order.
        assert held.add([far(number) for number in range(8_000 - known, 8_000)]).known > 0.9 * known


def test_another_version_of_an_item_is_looked_at() -> None:
    held = memory()
    held.add([Item(text=FAR, id="a", metadata={"page": 1})])
    assert is_looked_at(held, Item(text=FAR + " changed", id="a", metadata={"page": 1}))
    assert is_looked_at(held, Item(text=FAR, id="a", metadata={"page": 2}))
    assert is_looked_at(held, Item(text=FAR, id="b", metadata={"page": 1}))
    assert not is_looked_at(held, Item(text=FAR, id="a", metadata={"page": 1}))


def test_a_version_seen_before_replaces_a_held_one() -> None:
    """Otherwise a memory would go on showing a text that its user has taken back."""
    held = memory(verifier=KeepAll())
    held.add([Item(text=FAR, id="a")])
    held.add([Item(text=NEAR, id="a")])
    assert len(held) == 1
    held.add([Item(text=FAR, id="a")])
    assert len(held) == 0


def test_a_ledger_of_nothing_knows_nothing(path: Path) -> None:
    with memory(WINE, path=path, ledger=0, not_kept=0) as held:
        held.add([FAR, NEAR])
        assert is_looked_at(held, FAR) and is_looked_at(held, NEAR)
        assert held.stats().counts["seen"] == 0 and held.file.not_kept() == []
    with memory(path=path) as held:
        assert is_looked_at(held, FAR) and not is_looked_at(held, FAR)


@pytest.mark.parametrize("reopened", [False, True])
def test_the_oldest_leave_a_full_ledger_and_are_looked_at_again(path: Path, reopened: bool) -> None:
    held = memory(WINE, path=path, ledger=10)
    for start in range(0, 25, 5):
        held.add([far(number) for number in range(start, start + 5)])
        assert held.stats().counts["seen"] == min(10, start + 5)
    if reopened:
        held.close()
        held = memory(path=path, ledger=10)
    for number in (24, 15):
        assert not is_looked_at(held, far(number)), number
    for number in (0, 14):
        assert is_looked_at(held, far(number)), number
    held.close()


def test_what_is_kept_or_waits_is_not_in_the_ledger_and_what_a_retry_discards_is() -> None:
    held = memory(verifier=KeepAll())
    held.add([NEAR])
    assert held.stats().counts["seen"] == 0
    waiting = memory(verifier=UndecidedAll())
    waiting.add([NEAR])
    assert (waiting.stats().counts["seen"], waiting.stats().counts["pending"]) == (0, 1)
    waiting.verifier = DiscardAll()
    waiting.retry()
    assert not is_looked_at(waiting, NEAR)


def test_evicted_items_are_known(path: Path) -> None:
    items = [
        Item(text=f"red wine {'number ' * 40}{n} {random.Random(n).getrandbits(2000):x}", id=str(n)) for n in range(120)
    ]
    options: dict[str, Any] = {"encoder": HashEncoder(512), "verifier": KeepAll(), "tau": 0.01, "floor": 0}
    with memory(WINE, path=path, budget=160_000, **options) as held:
        assert held.add(items).evicted > 20
        evicted = [record for record in held.file.not_kept() if record.stage == "budget"]
        assert evicted and all("red wine number" in record.text for record in evicted)
        gone = next(item for item in items if item.id == evicted[0].item_id)
        assert not is_looked_at(held, gone)
        assert evicted[0].preference == WINE and evicted[0].similarity is not None
        assert "budget" in str(held.explain(gone.id))
    with memory(path=path, **options) as held:
        assert not is_looked_at(held, gone)


# the sample


def sample(held: EpicMemory) -> set[str]:
    return {record.item_id for record in held.file.not_kept()}


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
@pytest.mark.parametrize("text", [FAR, WINE], ids=["coarse filter", "verification"])
def test_the_sample_is_uniform_whatever_the_order_and_the_batches(size: int, text: str) -> None:
    items = [Item(text=f"{text} {number}", id=str(number)) for number in range(100)]
    random.Random(size).shuffle(items)
    held = memory(not_kept=12)
    for start in range(0, len(items), size):
        held.add(items[start : start + size])
    # Those with the smallest digests: what a digest says has nothing to do with what an item says.
    assert sample(held) == {item.id for item in sorted(items, key=version_of)[:12]}


def test_stages_and_reasons_are_right() -> None:
    def answer(candidate: Candidate) -> Verdict:
        return Verdict(decision=Decision.DISCARD, rationale=f"not what {candidate.preferences[0].text} is about")

    held = memory(WINE, SEA, verifier=Answering(answer))
    held.add([Item(text=FAR, id="far"), Item(text=NEAR, id="near"), Item(text=NEAR + " blue sea sea", id="both")])
    found = {record.item_id: record for record in held.file.not_kept()}
    assert found["far"].stage == "coarse filter" and "tau 0.3" in found["far"].reason
    assert (found["far"].similarity, found["far"].text) == (0.0, FAR)
    assert (found["near"].stage, found["near"].reason) == ("verification", "not what red wine is about")
    assert found["near"].preference == WINE and found["near"].similarity == pytest.approx(2 / 10**0.5, abs=1e-4)
    assert found["both"].preference == SEA
    assert all(record.at > 1_600_000_000 for record in found.values())
    assert "not what red wine is about" in str(held.explain("near")) and NEAR in str(held.explain("near"))


def test_the_newest_come_first_and_only_the_beginning_of_a_long_text_is_on_record() -> None:
    held = memory()
    for number in range(4):
        held.add([Item(text=far(number).text + " and on" * 1000, id=str(number))])
    records = held.file.not_kept()
    assert [record.item_id for record in records] == ["3", "2", "1", "0"]
    assert all(record.text.startswith(FAR) and len(record.text) < 500 for record in records)


def test_what_is_kept_later_is_no_longer_on_record() -> None:
    """`not_kept` says what is not held."""
    held = memory(verifier=KeepAll())
    held.add([Item(text=SEA, id="a")])
    assert sample(held) == {"a"}
    held.preferences.add(SEA)
    held.add([Item(text=SEA, id="a")])
    assert len(held) == 1
    assert sample(held) == set()
