"""Preferences that change: what a memory holds is what it would hold had it been built with the final preferences."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epic_memory import Decision, EpicMemory, Item, Preference, Settings, Stance, Verdict
from epic_memory.errors import DuplicatePreferenceError, RetryQueueFullError, UnknownPreferenceError
from epic_memory.types import Alignment, BuildReport, Candidate, FloatArray
from epic_memory.types.verdicts import combined
from epic_memory.verification import EmbeddedVerifier
from helpers import Answering, FakeVerifier, HashEncoder, KeepAll, Raising, UndecidedAll, method, settled

WORDS = ["wine", "train", "garden", "cheese", "lamp", "violin", "desert", "harbour"]
WINE, TRAIN, GARDEN = "red wine", "night train", "green garden"
DIMENSION = 256


def encoder() -> HashEncoder:
    return HashEncoder(DIMENSION)


# Verifiers whose verdict on a pair depends on nothing but the pair.


class Pairwise(FakeVerifier):
    """The embedded verifier, asked about each pair alone: of several preferences it keeps only those near the nearest,
    so that its verdict on a pair depends on what it is asked about beside it."""

    name = "pairwise"

    def __init__(self) -> None:
        super().__init__()
        self.inner = EmbeddedVerifier(encoder(), threshold=0.6)

    def verdicts(self, candidates: Sequence[Candidate]) -> Iterator[object]:
        for candidate in candidates:
            alone = [
                replace(
                    candidate,
                    preferences=(preference,),
                    similarities=(candidate.similarities[place],),
                    preference_embeddings=candidate.preference_embeddings[[place]],
                )
                for place, preference in enumerate(candidate.preferences)
            ]
            yield combined(list(self.inner.verify(alone)))


def judged(candidate: Candidate) -> Verdict:
    """As a language model would: for some preferences yes, for some no, by what the texts say."""
    alignments = tuple(
        Alignment(
            preference_id=preference.id,
            instruction=f"{preference.text}: {candidate.item.text}",
            stance=list(Stance)[(len(preference.text) + len(candidate.item.text)) % 4],
            confidence=round(0.5 + (len(candidate.item.text) % 7) / 20, 2),
            rationale=f"because of {preference.text}",
        )
        for preference in candidate.preferences
        if (len(preference.text) * 7 + sum(map(ord, candidate.item.text))) % 3
    )
    decision = Decision.KEEP if alignments else Decision.DISCARD
    return Verdict(decision=decision, rationale="read", alignments=alignments)


def judge() -> FakeVerifier:
    """A scripted language model, whose verdicts are cached."""
    made: Any = Answering(judged)
    made.name, made.cached = "judge", True
    return made  # type: ignore[no-any-return]


VERIFIERS: dict[str, Callable[[], FakeVerifier]] = {"keeps all": KeepAll, "embedded": Pairwise, "judge": judge}


# What a memory holds, as anyone can see it.


def state_of(memory: EpicMemory) -> dict[str, Any]:
    """Everything an export says, but when it was added and how often it was found."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.jsonl"
        memory.file.export(path)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    state: dict[str, Any] = {"preferences": set(), "items": {}, "entries": {}, "pending": {}}
    for line in lines:
        if line["kind"] == "preference":
            state["preferences"].add((line["id"], line["text"]))
        elif line["kind"] == "pending":
            state["pending"][line["id"]] = (line["text"], sorted(line["preferences"]))
        elif line["kind"] == "item":
            state["items"][line["id"]] = (line["text"], line["metadata"], line["version"], line["light"])
            for entry in line["entries"]:
                said = {name: entry[name] for name in ("instruction", "stance", "rationale")}
                numbers = {name: entry[name] for name in ("similarity", "confidence")}
                state["entries"][line["id"], entry["preference"]] = (said, numbers)
    return state


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for part in ("preferences", "items", "pending"):
        assert found[part] == wanted[part]
    assert found["entries"].keys() == wanted["entries"].keys()
    for pair, (said, numbers) in wanted["entries"].items():
        assert found["entries"][pair][0] == said, pair
        assert found["entries"][pair][1] == pytest.approx(numbers, abs=1e-6), pair


def built(
    items: Sequence[Item], preferences: Sequence[str], verifier: FakeVerifier, reserve: int | None = None
) -> dict[str, Any]:
    """What a memory holds that starts with some preferences and is then given items."""
    with EpicMemory(preferences, encoder=encoder(), settings=Settings(verifier=verifier, reserve=reserve)) as memory:
        if preferences or reserve is None:
            memory.add(items)
        return state_of(memory)


def rows_of(path: Path) -> dict[tuple[str, str], int]:
    """The row of each entry, as it is in the file."""
    with closing(sqlite3.connect(path)) as db:
        found = db.execute(
            "SELECT i.id, p.id, e.row FROM entries e JOIN items i ON i.row = e.item"
            " JOIN preferences p ON p.row = e.preference"
        ).fetchall()
    return {(item, preference): row for item, preference, row in found}


# Any operations in any order.

TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
PREFERENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
IDS = st.sampled_from([f"item {n}" for n in range(12)])
PLACES = st.integers(0, 20)
OPERATIONS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.builds(Item, id=IDS, text=TEXTS), min_size=1, max_size=8)),
    st.tuples(st.just("add"), st.lists(TEXTS.map(lambda text: Item(text=text)), min_size=1, max_size=8)),
    st.tuples(st.just("add preference"), PREFERENCES),
    st.tuples(st.just("remove preference"), PLACES),
    st.tuples(st.just("replace preference"), PLACES, PREFERENCES),
    st.tuples(st.just("replace and back"), PLACES, PREFERENCES),
    st.tuples(st.just("forget"), PLACES),
    st.tuples(st.just("reopen")),
)


class Drift:
    """A memory in a file, and beside it what it has to hold: all items, or without a light tier those always kept."""

    def __init__(
        self, path: Path, preferences: list[str], verifier: str, *, asynchronous: bool, reserve: int | None
    ) -> None:
        self.path = path
        self.reserve = reserve
        self.make = VERIFIERS[verifier]
        self.verifier = self.make()
        self.preferences = list(preferences)
        self.items: dict[str, Item] = {}
        self.state: dict[str, Any] | None = None
        self.asynchronous = asynchronous
        self.memory = EpicMemory.open(
            path, preferences, encoder=encoder(), settings=Settings(verifier=self.verifier, reserve=reserve)
        )

    def call(self, name: str, *given: Any) -> Any:
        if not self.asynchronous:
            return method(self.memory, name)(*given)
        return asyncio.run(method(self.memory, name, twin=True)(*given))

    def wanted(self) -> dict[str, Any]:
        return built(list(self.items.values()), self.preferences, self.make(), self.reserve)

    def drop_what_nothing_holds(self) -> None:
        self.state = self.wanted()
        self.items = {key: item for key, item in self.items.items() if key in self.state["items"]}

    def add(self, items: list[Item]) -> None:
        if not self.preferences and self.reserve == 0:
            return
        self.call("add", items)
        # Of several with one id the last counts. A new version takes the place of the old one or of nothing.
        for item in items:
            self.items[item.id] = item
        self.drop_what_nothing_holds()

    def add_preference(self, text: str) -> None:
        new = Preference(text=text)
        if new.id in self.ids():
            with pytest.raises(DuplicatePreferenceError):
                self.call("preferences.add", text)
            return
        self.asked_only_about(text, "preferences.add", text)
        self.preferences.append(text)

    def remove_preference(self, place: int) -> None:
        if not self.preferences:
            with pytest.raises(UnknownPreferenceError):
                self.call("preferences.remove", "nothing")
            return
        gone = self.preferences.pop(place % len(self.preferences))
        self.asked_only_about(None, "preferences.remove", gone)
        self.drop_what_nothing_holds()

    def replace_preference(self, place: int, text: str) -> None:
        if not self.preferences:
            return
        place %= len(self.preferences)
        old, new = Preference(text=self.preferences[place]), Preference(text=text)
        if new.id in self.ids() - {old.id}:
            with pytest.raises(DuplicatePreferenceError):
                self.call("preferences.replace", old, text)
            return
        self.asked_only_about(None if new.id == old.id else text, "preferences.replace", old, text)
        self.preferences[place] = text
        self.drop_what_nothing_holds()

    def replace_and_back(self, place: int, text: str) -> None:
        if not self.preferences:
            return
        before = self.preferences[place % len(self.preferences)]
        self.replace_preference(place, text)
        self.replace_preference(place, before)

    def forget(self, place: int) -> None:
        if self.items:
            gone = sorted(self.items)[place % len(self.items)]
            self.call("forget", gone)
            del self.items[gone]

    def reopen(self) -> None:
        self.memory.close()
        self.verifier = self.make()
        self.memory = EpicMemory.open(self.path, encoder=encoder(), settings=Settings(verifier=self.verifier))

    def ids(self) -> set[str]:
        return {Preference(text=text).id for text in self.preferences}

    def asked_only_about(self, text: str | None, name: str, *given: Any) -> None:
        """A change of the preferences asks about pairs under the new one only, and leaves the others' rows alone."""
        before, entries = len(self.verifier.asked), rows_of(self.path)
        self.call(name, *given)
        asked = self.verifier.asked[before:]
        assert {preferences for _, preferences in asked} <= ({(text,)} if text else set())
        assert {held for held, _ in asked} <= {item.text for item in self.items.values()}
        after = rows_of(self.path)
        changed = {Preference.of(preference).id for preference in given}
        untouched = {pair: row for pair, row in entries.items() if pair[1] not in changed}
        assert {pair: row for pair, row in after.items() if pair[1] not in changed} == untouched

    def check(self) -> None:
        assert [p.text for p in self.memory.preferences] == self.preferences
        # What a fresh memory holds was found out for the change already, if it was one of those that may drop items.
        found = state_of(self.memory)
        assert_same(found, self.state or self.wanted())
        self.state = None
        assert found["items"].keys() == self.items.keys()
        assert len(self.memory) == len({item for item, _ in found["entries"]})


@pytest.mark.parametrize(
    ("verifier", "asynchronous", "reserve"),
    [("keeps all", False, None), ("embedded", True, None), ("judge", True, None), ("judge", False, 0)],
)
@given(
    preferences=st.lists(PREFERENCES, min_size=1, max_size=3, unique_by=lambda text: text),
    operations=st.lists(OPERATIONS, min_size=1, max_size=12),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_changes_leave_what_a_fresh_build_with_the_final_preferences_holds(
    verifier: str, asynchronous: bool, reserve: int | None, preferences: list[str], operations: list[tuple[Any, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        drift = Drift(Path(folder) / "me.epic", preferences, verifier, asynchronous=asynchronous, reserve=reserve)
        try:
            for name, *given_ in operations:
                getattr(drift, name.replace(" ", "_"))(*given_)
                drift.check()
            drift.reopen()
            drift.check()
            assert drift.memory.file.verify() > 0
        finally:
            drift.memory.close()


# One change at a time, where it can be said exactly what has to happen.


def items_of(*texts: str) -> list[Item]:
    return [Item(id=text, text=text) for text in texts]


def test_what_is_found_after_a_change_is_what_a_fresh_memory_finds(path: Path) -> None:
    items = items_of("red wine", "night train", "red wine on the night train", "green garden", "wine in the garden")
    with EpicMemory.open(path, [WINE, TRAIN], encoder=encoder(), settings=Settings(verifier=KeepAll())) as memory:
        memory.add(items)
        memory.search("red wine")  # what is loaded before has to notice the change
        memory.preferences.replace(TRAIN, GARDEN)
        memory.preferences.add("desert lamp")
        held = [item for item in items if item.id in state_of(memory)["items"]]
        fresh = EpicMemory([WINE, GARDEN, "desert lamp"], encoder=encoder(), settings=Settings(verifier=KeepAll()))
        fresh.add(held)
        for query in ("red wine", "night train", "green garden", "wine", "lamp", "nothing of this"):
            found, wanted = memory.search(query, k=9), fresh.search(query, k=9)
            assert {hit.item.id: pytest.approx(hit.score, abs=1e-6) for hit in wanted} == {
                hit.item.id: hit.score for hit in found
            }
            assert found.steered_by == wanted.steered_by


# A change that fails in the middle.


class Refusing(HashEncoder):
    """Refuses texts that contain a word, a number of times."""

    error: BaseException = RuntimeError()
    word, times = "", 0

    def _encode(self, texts: Sequence[str]) -> FloatArray:
        if self.times and any(self.word in text for text in texts):
            self.times -= 1
            raise self.error
        return super()._encode(texts)


HELD = ["red wine", "night train", "wine in the green garden", "a green garden", "night train to the garden"]

Change = Callable[[EpicMemory], BuildReport]
BUDGET = {"budget": "1 MB"}
CHANGES: dict[str, tuple[Change, list[str], dict[str, Any]]] = {
    "add": (lambda memory: memory.preferences.add(GARDEN), [WINE, TRAIN, GARDEN], {}),
    "replace": (lambda memory: memory.preferences.replace(WINE, GARDEN), [GARDEN, TRAIN], {}),
    "replace, async": (lambda memory: asyncio.run(memory.preferences.areplace(WINE, GARDEN)), [GARDEN, TRAIN], {}),
    "replace, budget": (lambda memory: memory.preferences.replace(WINE, GARDEN), [GARDEN, TRAIN], BUDGET),
}
changes = pytest.mark.parametrize("name", list(CHANGES))


def held_memory(path: Path, **options: Any) -> EpicMemory:
    made = EpicMemory.open(path, [WINE, TRAIN], encoder=Refusing(DIMENSION), **settled(verifier=KeepAll(), **options))
    made.add(items_of(*HELD[:3], HELD[4]))
    return made


def assert_as_fresh(memory: EpicMemory, preferences: list[str], make: Callable[[], FakeVerifier] = KeepAll) -> None:
    state = state_of(memory)
    held = [Item(id=key, text=text) for key, (text, *_) in state["items"].items()]
    assert_same(state, built(held, preferences, make()))


FAILURES: dict[str, tuple[type[BaseException], Callable[[EpicMemory], object]]] = {
    "the verifier at once": (KeyboardInterrupt, lambda memory: _verified_by(memory, Raising(KeyboardInterrupt()))),
    "the verifier later": (
        KeyboardInterrupt,
        lambda memory: _verified_by(memory, Raising(KeyboardInterrupt(), after=1)),
    ),
    "the preference": (RuntimeError, lambda memory: _refused(memory, "green garden", RuntimeError("no"))),
    "a text": (KeyboardInterrupt, lambda memory: _refused(memory, "wine in the green garden", KeyboardInterrupt())),
    "an instruction": (RuntimeError, lambda memory: _refused(memory, "Think of green garden", RuntimeError("no"))),
    "out of memory": (MemoryError, lambda memory: _refused(memory, "Think of green garden", MemoryError())),
    "the queue is full": (RetryQueueFullError, lambda memory: _verified_by(memory, UndecidedAll())),
}


def _verified_by(memory: EpicMemory, verifier: FakeVerifier) -> None:
    memory.verifier = verifier


def _refused(memory: EpicMemory, word: str, error: BaseException) -> None:
    model: Any = memory.encoder
    model.error, model.word, model.times = error, word, 1


@changes
@pytest.mark.parametrize("failure", FAILURES)
def test_a_change_that_fails_changes_nothing_and_done_again_it_is_right(path: Path, name: str, failure: str) -> None:
    change, preferences, options = CHANGES[name]
    raised, fail = FAILURES[failure]
    with held_memory(path, retry_queue=1, **options) as memory:
        before, rows = state_of(memory), rows_of(path)
        fail(memory)
        with pytest.raises(raised):
            change(memory)
        assert (state_of(memory), rows_of(path)) == (before, rows)
        assert [p.text for p in memory.preferences] == [WINE, TRAIN]
        memory.verifier = KeepAll()
        change(memory)
        assert {key for key, _ in state_of(memory)["entries"]} >= {HELD[2], HELD[4]}
        assert_as_fresh(memory, preferences)
        assert memory.file.verify() > 0


@changes
def test_items_undecided_under_the_new_preference_wait_and_are_right_after_a_retry(path: Path, name: str) -> None:
    change, preferences, options = CHANGES[name]
    with held_memory(path, **options) as memory:
        before = state_of(memory)
        memory.verifier = UndecidedAll()
        assert change(memory).undecided == 2
        waiting = state_of(memory)
        assert [p.text for p in memory.preferences] == preferences
        garden = Preference(text=GARDEN).id
        assert {key: ids for key, (_, ids) in waiting["pending"].items()} == {HELD[2]: [garden], HELD[4]: [garden]}
        kept = {pair: entry for pair, entry in before["entries"].items() if pair in waiting["entries"]}
        assert waiting["entries"] == kept
        memory.verifier = KeepAll()
        memory.retry()
        final = state_of(memory)
        assert final["pending"] == {}
        assert {(HELD[2], garden), (HELD[4], garden)} <= final["entries"].keys()
        assert_as_fresh(memory, preferences)
