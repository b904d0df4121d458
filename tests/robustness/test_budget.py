"""A byte budget: the file never exceeds it, and what goes for it goes by a rule and on record."""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_memory import Decision, EpicMemory, Item, Preference, Settings, Stance, Verdict
from epic_memory.errors import BudgetError, InvalidInputError, RetryQueueFullError
from epic_memory.retention import checked_budget
from epic_memory.storage.sqlite import database
from epic_memory.types import Alignment, Candidate
from helpers import FakeVerifier, HashEncoder, KeepAll, UndecidedAll, not_locked, settled
from tables import table

pytestmark = pytest.mark.usefixtures("locking")

WINE, TRAIN, GARDEN = "red wine", "night train", "green garden"
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "memory").mkdir()
    return tmp_path / "memory" / "me.epic"


@pytest.fixture
def oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the oldest entries leave first, whatever their values."""
    monkeypatch.setattr(
        "epic_memory.pipeline.eviction.least_valuable_first", lambda held: np.arange(len(held), dtype=np.intp)
    )


# Measuring.


class Watch:
    """The most bytes that a file took at any moment somebody looked, and how often its journal stood beside it."""

    def __init__(self, path: Path) -> None:
        self.file, self.journal = str(path), f"{path}-journal"
        self.worst = 0
        self.looks = 0
        self.journals = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def look(self) -> int:
        octets = 0
        with suppress(OSError):
            octets = os.stat(self.file).st_size  # noqa: PTH116 - called many thousand times
            self.journals += os.path.exists(self.journal)  # noqa: PTH110
        self.worst = max(self.worst, octets)
        self.looks += 1
        return 0

    def _poll(self) -> None:
        while not self._over.wait(0.001):
            self.look()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def again(self) -> None:
        """Look from now on only."""
        self.worst = 0


@pytest.fixture
def watch(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Looks every few steps of SQLite's machine, from the moment a file is opened, and all the time in between."""
    watching = Watch(path)
    connect = database.connect

    def watched(target: str, *key: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(target, *key, **options)
        connection.set_progress_handler(watching.look, 20)
        return connection

    monkeypatch.setattr(database, "connect", watched)
    yield watching
    watching.stop()


# What comes in.


class Quoting(FakeVerifier):
    """Keeps everything under all of its preferences: the instruction quotes the first sentence, and how sure it is
    stands in the text, as sure0 to sure9. With a function that decides otherwise, it counts as a language model."""

    def __init__(self, decide: Callable[[Candidate], Decision] | None = None) -> None:
        super().__init__()
        self.name, self.cached = ("quoting", False) if decide is None else ("judge", True)
        self.decide = decide

    def verdicts(self, candidates: Sequence[Candidate]) -> Iterator[object]:
        yield from map(self.verdict, candidates)

    def verdict(self, candidate: Candidate) -> Verdict:
        decision = Decision.KEEP if self.decide is None else self.decide(candidate)
        if decision is not Decision.KEEP:
            return Verdict(decision=decision, rationale="so")
        text = candidate.item.text
        found = re.search(r"\bsure(\d)", text)
        alignments = tuple(
            Alignment(
                preference_id=preference.id,
                instruction=f'For {preference.text}: "{text[:60]}"',
                stance=Stance.SUPPORTS,
                confidence=int(found[1]) / 10 if found else 0.5,
            )
            for preference in candidate.preferences
        )
        return Verdict(decision=decision, rationale="near", alignments=alignments)


def number_of(candidate: Candidate) -> int:
    return int(re.findall(r"\d+", candidate.item.id)[-1])


def by_seven(undecided: int | None = 6) -> Quoting:
    """A scripted language model: by the item's number, of seven it discards three and cannot say for one."""

    def decide(candidate: Candidate) -> Decision:
        number = number_of(candidate) % 7
        if number == undecided:
            return Decision.UNDECIDED
        return Decision.DISCARD if number < 3 else Decision.KEEP

    return Quoting(decide)


def text_of(number: int, octets: int, *, about: str = WINE, compressible: bool = False, sure: int | None = None) -> str:
    """About so many bytes in sentences, each different."""
    generator = random.Random(number)
    made = f"Number {number} is about {about}, sure{generator.randrange(10) if sure is None else sure}."
    while len(made) < octets:
        words = ["and so on"] * 12 if compressible else ["".join(generator.choices(LETTERS, k=9)) for _ in range(8)]
        made += f" Also {about} {' '.join(words)}."
    return made[: max(octets, 40)]


def stream(total: int, octets: int | tuple[int, ...], **options: Any) -> Iterator[Item]:
    """Items of so many bytes, or of several sizes in turn, that come to a total."""
    sizes, number, came = (octets,) if isinstance(octets, int) else octets, 0, 0
    while came < total:
        size = sizes[number % len(sizes)]
        about = (WINE, TRAIN, f"{WINE} on the {TRAIN}")[number % 3]
        yield Item(id=f"item {number}", text=text_of(number, size, about=about, **options))
        came += size
        number += 1


def opened(path: Path, budget: int | str | None = None, **options: Any) -> EpicMemory:
    given: dict[str, Any] = {"encoder": HashEncoder(64), "verifier": Quoting(), "tau": 0.05, **options}
    return EpicMemory.open(path, **settled(budget=budget, **given))


def exported(memory: EpicMemory, folder: Path) -> list[dict[str, Any]]:
    memory.file.export(folder / "export.jsonl", overwrite=True)
    lines = (folder / "export.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def held_of(memory: EpicMemory, folder: Path) -> dict[str, dict[str, Any]]:
    return {line["id"]: line for line in exported(memory, folder) if line["kind"] == "item"}


# What a budget can be.


@not_locked
@pytest.mark.parametrize(
    ("given_", "octets"),
    [
        *table(__file__, "a_budget_is_a_number_of_bytes_or_says_its_unit"),
        ("1 GiB", 2**30),
        (np.int64(100_000), 100_000),
    ],
)
def test_a_budget_is_a_number_of_bytes_or_says_its_unit(given_: Any, octets: int | None) -> None:
    assert checked_budget(given_) == octets
    assert type(checked_budget(given_)) is type(octets)


BAD: list[Any] = [
    0, -1, True, False, 1.5, 1e6, float("nan"), float("inf"), "", " ", "MB", "-1 MB", "0", "0 MB", "0.0001 KB", "1 TB",
    "1,5 MB", "1e6", "1 000 000", "many", "unlimited MB", "1 MB 2", b"1 MB", [1], {}, object(), "9" * 400,
    "9" * 400 + " MB",
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: repr(bad)[:20])
def test_anything_else_is_an_error_that_makes_no_file(bad: Any, path: Path) -> None:
    with pytest.raises(InvalidInputError, match="budget"):
        checked_budget(bad)
    with pytest.raises(InvalidInputError, match="budget"):
        opened(path, bad)
    assert not path.exists()


# The file remembers it.


def test_the_file_remembers_its_budget_until_it_is_lifted(path: Path) -> None:
    opened(path, "200 KB", preferences=[WINE]).close()
    for given, octets in ((None, 200_000), (300_000, 300_000), (None, 300_000), ("unlimited", None), (None, None)):
        with opened(path, given) as memory:
            assert memory.stats().budget == octets
    with opened(path) as memory:
        memory.add(stream(600_000, 2000))
    assert path.stat().st_size > 300_000


def test_a_remembered_budget_holds_after_reopening_and_for_other_namespaces(path: Path, watch: Watch) -> None:
    opened(path, 100_000, preferences=[WINE, TRAIN]).close()
    with opened(path) as memory:
        memory.add(stream(300_000, 700))
    with opened(path, namespace="other", preferences=[WINE, TRAIN]) as memory:
        assert memory.stats().budget == 100_000
        with suppress(BudgetError):
            memory.add(stream(300_000, 700))
    assert watch.worst <= 100_000


# Never exceeded.

BUDGET = 64_000

STREAMS: dict[str, dict[str, Any]] = {
    "short": {"octets": 150},
    "passages": {"octets": 700},
    "long": {"octets": 2200},
    "several sizes": {"octets": (90, 400, 3000, 12_000, 200)},
    "compressible": {"octets": 4000, "compressible": True},
}
SETUPS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "judge": lambda: {"verifier": by_seven(None)},
    "undecided": lambda: {"verifier": by_seven()},
    "second tier": lambda: {"tau": 0.5, "reserve": "1 MB"},
}


def used(memory: EpicMemory) -> None:
    """Everything that writes, once a stream has filled a memory."""
    for number in range(70):
        memory.search((WINE, TRAIN, "wine train", "number")[number % 4], k=5)
    memory.retry()
    memory.preferences.add(GARDEN)
    memory.add(Item(id=f"late {n}", text=text_of(n, 500, about=GARDEN)) for n in range(40))
    memory.preferences.replace(TRAIN, "night train to the coast")
    memory.search(WINE)
    memory.preferences.remove(GARDEN)
    memory.forget(*[hit.item.id for hit in memory.search(WINE, k=3)])
    memory.file.compact()


@pytest.mark.parametrize(
    ("name", "setup"),
    [
        *((name, "plain") for name in STREAMS),
        ("passages", "judge"),
        ("compressible", "undecided"),
        ("passages", "second tier"),
    ],
)
def test_many_times_the_budget_streamed_in_and_used_never_exceeds_it(
    path: Path, watch: Watch, name: str, setup: str
) -> None:
    options = SETUPS[setup]()
    # Short items are many: fewer of them say as much.
    total = (2 if name == "short" else 4 if name == "passages" else 6 if setup == "plain" else 10) * BUDGET
    with opened(path, BUDGET, preferences=[WINE, TRAIN], **options) as memory:
        came, evicted = list(stream(total, **STREAMS[name])), 0
        for start in range(0, len(came), 40):
            try:
                evicted += memory.add(came[start : start + 40]).evicted
            except RetryQueueFullError:
                memory.verifier = by_seven(None)
                evicted += memory.retry().evicted
        assert watch.worst <= BUDGET
        # Room is made for what comes, not for more.
        assert path.stat().st_size > BUDGET / 3
        assert evicted or setup != "plain"
        assert len(memory) + memory.stats().counts["light"] > 3
        used(memory)
        assert memory.stats().bytes["total"] <= BUDGET
        assert memory.file.verify() > 0
    assert watch.worst <= BUDGET
    assert watch.journals > 0
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208
    with opened(path, **options) as memory:
        assert memory.search(WINE)
        memory.add(stream(BUDGET, **STREAMS[name]))
    assert watch.worst <= BUDGET


def test_items_rewritten_again_and_again_never_exceed_it(path: Path, watch: Watch) -> None:
    with opened(path, BUDGET, preferences=[WINE, TRAIN]) as memory:
        for version in range(8):
            memory.add(Item(id=f"item {n}", text=text_of(1000 * version + n, 900)) for n in range(60))
            assert all(f"Number {version}0" in hit.item.text for hit in memory.search(WINE, k=3)) or version == 0
    assert watch.worst <= BUDGET


def test_many_waiting_items_and_a_preference_that_goes_never_exceed_it(path: Path, watch: Watch) -> None:
    with opened(path, BUDGET, preferences=[WINE, TRAIN], verifier=UndecidedAll()) as memory:
        with suppress(RetryQueueFullError, BudgetError):
            memory.add(stream(BUDGET, 600))
        waiting = memory.stats().counts["pending"]
        assert waiting > 3
        memory.preferences.remove(TRAIN)
        assert memory.stats().counts["pending"] == waiting
        assert watch.worst <= BUDGET
        memory.verifier = Quoting()
        memory.retry()
        assert memory.stats().counts["pending"] == 0
        assert len(memory) > 0
    assert watch.worst <= BUDGET


@not_locked
def test_a_memory_in_ram_is_held_to_its_budget_too() -> None:
    memory = EpicMemory(
        [WINE, TRAIN], encoder=HashEncoder(64), settings=Settings(verifier=Quoting(), tau=0.05, budget=BUDGET)
    )
    assert memory.add(stream(4 * BUDGET, 700)).evicted
    assert memory.stats().bytes["total"] <= BUDGET


# Too small.


@not_locked
@pytest.mark.parametrize("budget", [1, 12_000])
def test_a_budget_below_what_a_memory_needs_is_an_error_that_leaves_all_as_it_is(path: Path, budget: int) -> None:
    with pytest.raises(BudgetError, match="budget"):
        opened(path, budget, preferences=[WINE])
    assert os.listdir(path.parent) == []  # noqa: PTH208
    with opened(path, preferences=[WINE, TRAIN]) as memory:
        memory.add(stream(60_000, 700))
    before = path.read_bytes()
    with pytest.raises(BudgetError, match="budget"):
        opened(path, budget)
    assert path.read_bytes() == before
    with opened(path) as memory:
        assert memory.stats().budget is None
        assert memory.search(WINE)


def test_no_room_for_a_single_entry_is_an_error_and_the_file_stays_good(path: Path, watch: Watch) -> None:
    with pytest.raises(BudgetError, match="at least") as refused:
        opened(path, 14_000, preferences=[WINE])
    assert not path.exists()
    least = int(re.search(r"(\d+) at least", str(refused.value))[1])  # type: ignore[index]
    with opened(path, least, preferences=[WINE]) as memory:
        assert memory.add([text_of(1, 300)]).kept == 1
        assert len(memory) == 1
        assert memory.file.verify() > 0
    assert watch.worst <= least


def test_an_item_that_alone_is_too_large_is_on_record_and_the_rest_is_kept(path: Path, watch: Watch) -> None:
    with opened(path, BUDGET, preferences=[WINE]) as memory:
        memory.add([Item(id="first", text=text_of(1, 300))])
        large = Item(id="large", text=text_of(2, 200_000))
        # What fits is kept, whether the large one comes first or in between.
        report = memory.add([large, Item(id="second", text=text_of(3, 300)), Item(id="third", text=text_of(4, 300))])
        assert report.evicted == 1
        assert {hit.item.id for hit in memory.search(WINE, k=9)} == {"first", "second", "third"}
        records = {record.item_id: record for record in memory.file.not_kept()}
        assert records["large"].stage == "budget"
        assert "fit" in records["large"].reason
        assert large.text.startswith(records["large"].text)
        assert "fit" in memory.explain("large").note
        # It is known: the same again costs nothing.
        assert memory.add([large]).known == 1
    assert watch.worst <= BUDGET


# A larger file.


@pytest.mark.parametrize("share", [0.8, 0.25])
def test_a_larger_file_is_within_a_smaller_budget_once_it_is_open(path: Path, watch: Watch, share: float) -> None:
    with opened(path, preferences=[WINE, TRAIN]) as memory:
        memory.add(stream(200_000, 700))
        memory.file.compact()
    budget = int(share * path.stat().st_size)
    with opened(path, budget) as memory:
        assert sum(file.stat().st_size for file in path.parent.iterdir()) <= budget
        assert len(memory) > 0
        assert memory.stats().budget == budget
        watch.again()
        used(memory)
        memory.add(stream(2 * budget, 700))
        assert memory.file.verify() > 0
        assert watch.worst <= budget
    with opened(path) as memory:
        assert memory.stats().budget == budget
        assert memory.search(WINE)
    assert watch.worst <= budget


@pytest.mark.parametrize("kind", ["discards", "undecided"])
def test_what_is_bounded_by_number_shrinks_with_the_budget(path: Path, watch: Watch, kind: str) -> None:
    """What a model said of items that are not held, and what waits, must not push everything else out."""
    other = Decision.DISCARD if kind == "discards" else Decision.UNDECIDED
    verifier = Quoting(lambda candidate: other if number_of(candidate) % 8 else Decision.KEEP)
    with opened(path, preferences=[WINE, TRAIN], verifier=verifier) as memory:
        memory.add(stream(300_000, 300))
    budget = path.stat().st_size // 2
    try:
        memory = opened(path, budget, verifier=verifier)
    except BudgetError:
        # What waits must not be lost, and may be too much.
        assert kind == "undecided"
        return
    with memory:
        assert path.stat().st_size <= budget
        assert len(memory) > 3
    assert watch.looks > 0


# What goes, and what is known of it.


@pytest.mark.parametrize("floor", [0, 3])
def test_no_preference_falls_below_its_floor_by_eviction(path: Path, floor: int) -> None:
    with opened(
        path, 150_000, preferences=[WINE, "tiny lamp"], floor=floor, tau=0.25, encoder=HashEncoder(512)
    ) as memory:
        # The few of one preference are the least sure, and the oldest.
        few = [Item(id=f"lamp {n}", text=f"A tiny lamp and lamp number {n}, sure0.") for n in range(8)]
        memory.add(few)
        report = memory.add(Item(id=f"wine {n}", text=text_of(n, 600, sure=9)) for n in range(130))
        assert report.evicted > 20
        lamp = Preference(text="tiny lamp").id
        entries = [entry for line in held_of(memory, path.parent.parent).values() for entry in line["entries"]]
        assert len(entries) >= 4 * floor
        assert sum(entry["preference"] == lamp for entry in entries) == floor


def test_evicted_entries_are_counted_and_on_record_with_the_reason(path: Path) -> None:
    with opened(path, BUDGET, preferences=[WINE, TRAIN], not_kept=100) as memory:
        came = {item.id: item for item in stream(4 * BUDGET, 250)}
        report = memory.add(came.values())
        counts = memory.stats().counts
        assert report.evicted == report.entries - counts["entries"] > 0
        assert report.kept == len(came)
        held = held_of(memory, path.parent.parent)
        records = [record for record in memory.file.not_kept() if record.stage == "budget"]
        assert records
        for record in records:
            assert record.item_id in came
            assert came[record.item_id].text.startswith(record.text)
            assert "least valuable" in record.reason
            assert record.preference in {WINE, TRAIN}
            assert record.similarity is not None
        gone = list(dict.fromkeys(record.item_id for record in records if record.item_id not in held))
        assert "least valuable" in memory.explain(gone[0]).note
        assert any("had to go" in warning for warning in report.warnings)
        # What went was seen: it costs nothing when it comes again, as far as the ledger reaches.
        assert gone
        again = memory.add(came[key] for key in gone)
        assert again.known == len(gone)


# Judged again before they go.


def other(number: int) -> Item:
    return Item(id=f"other {number}", text=text_of(9000 + number, 250, sure=9))


def filled_to(share: float, memory: EpicMemory, about: str = WINE) -> int:
    """Add items until a file has a share of its budget; how many."""
    number = 0
    while memory.stats().bytes["total"] < BUDGET * share and number < 150:
        memory.add([Item(id=f"item {number}", text=text_of(number, 250, about=about, sure=number % 3))])
        number += 1
    return number


def test_a_preference_that_suits_all_of_a_full_memory_takes_little_of_it(path: Path) -> None:
    with opened(path, "400 KB", preferences=[f"I love {WINE}."], verifier=KeepAll(), coarse=False, reserve=0) as memory:
        memory.add(stream(600_000, 600))
        before = len(memory.items())
        report = memory.preferences.add(f"I love {TRAIN}.")
        assert report.entries and len(memory.items()) >= 0.8 * before


@pytest.mark.usefixtures("oldest_first")
def test_entries_that_would_go_are_judged_again_by_a_language_model(path: Path, watch: Watch) -> None:
    """Those it keeps stay, with its verdict; those it discards go."""
    with opened(path, BUDGET, preferences=[WINE], floor=0) as memory:
        filled_to(0.5, memory)
        before = held_of(memory, path.parent.parent)
        memory.verifier = second = Quoting(lambda c: Decision.KEEP if number_of(c) % 2 else Decision.DISCARD)
        for n in range(1, 600, 2):
            # Only until it has come to that: those it keeps are the oldest again in time.
            report = memory.add([other(n)])
            texts = {text for text, _ in second.asked}
            asked = [int(key.split()[1]) for key, line in before.items() if line["text"] in texts]
            if len(asked) > 2 and report.evicted:
                break
        held = held_of(memory, path.parent.parent)
        assert len(asked) > 2
        gone = [n for n in asked if f"item {n}" not in held]
        assert report.evicted > 0
        # Of those asked about, the discarded went.
        assert {n for n in asked if n % 2 == 0} <= set(gone)
        kept = [n for n in asked if n % 2 and f"item {n}" in held]
        assert kept
        key = f"item {kept[0]}"
        first, fresh = (where[key]["entries"][0]["verifier"] for where in (before, held))
        assert fresh != first
    assert watch.worst <= BUDGET


@pytest.mark.usefixtures("oldest_first")
def test_what_is_forgotten_while_it_is_judged_again_does_not_come_back(path: Path) -> None:
    gone: list[str] = []

    def slowly(candidate: Candidate) -> Decision:
        if candidate.item.id.startswith("item") and not gone:
            gone.append(candidate.item.id)
            memory.forget(candidate.item.id)
        return Decision.KEEP

    with opened(path, BUDGET, preferences=[WINE], floor=0) as memory:
        filled_to(0.5, memory)
        memory.verifier = Quoting(slowly)
        for n in range(300):
            memory.add([other(n)])
            if gone:
                break
        assert gone and gone[0] not in {item.id for item in memory.items()}


@pytest.mark.usefixtures("oldest_first")
def test_a_preference_under_which_the_language_model_discards_goes_though_another_keeps(path: Path) -> None:
    def only_wine(candidate: Candidate) -> Decision:
        return Decision.KEEP if candidate.preferences[0].text == WINE else Decision.DISCARD

    with opened(path, BUDGET, preferences=[WINE, TRAIN], floor=0) as memory:
        filled_to(0.85, memory, about=f"{WINE} on the {TRAIN}")
        memory.verifier = judge = Quoting(only_wine)
        memory.add(other(n) for n in range(12))
        train = Preference(text=TRAIN).id
        held = held_of(memory, path.parent.parent)
        asked = {text for text, preferences in judge.asked if preferences == (TRAIN,)}
        again = [line for key, line in held.items() if key.startswith("item") and line["text"] in asked]
        assert asked
        assert again
        assert not [line["id"] for line in again if train in {entry["preference"] for entry in line["entries"]}]


@not_locked
@pytest.mark.parametrize("failing", ["undecided", "raises"])
@pytest.mark.usefixtures("oldest_first")
def test_a_language_model_that_fails_leaves_them_as_they_were_judged(path: Path, watch: Watch, failing: str) -> None:
    def fails(candidate: Candidate) -> Decision:
        if not candidate.item.id.startswith("item"):
            return Decision.KEEP
        if failing == "raises":
            raise OSError("gone")
        return Decision.UNDECIDED

    with opened(path, BUDGET, preferences=[WINE], floor=0) as memory:
        number = filled_to(0.5, memory)
        before = held_of(memory, path.parent.parent)
        memory.verifier = verifier = Quoting(fails)
        memory.add(other(n) for n in range(30))
        assert {text for text, _ in verifier.asked} & {line["text"] for line in before.values()}
        held = held_of(memory, path.parent.parent)
        assert memory.stats().counts["pending"] == 0
        for key in held.keys() & before.keys():
            assert held[key]["entries"] == before[key]["entries"]
        # The order decides: of the old ones, the oldest went.
        numbers = sorted(int(key.split()[1]) for key in held if key in before)
        assert numbers == list(range(number - len(numbers), number))
    assert watch.worst <= BUDGET
