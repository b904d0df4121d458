"""`judge`: what a memory would keep, without taking it in. It decides as `add` does."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_memory import BuildReport, Decision, EpicMemory, Item, Preference, Settings
from epic_memory.errors import (
    InvalidInputError,
    LMError,
    NoPreferencesError,
    ReadOnlyError,
    UnknownItemError,
    VerifierError,
)
from epic_memory.pipeline.judge import JUDGED_AT_ONCE
from epic_memory.types.verdicts import Judged
from helpers import CONTRACT_BREAKERS, Answering, HashEncoder, KeepAll, Raising, TooFew, UndecidedAll, keep, settled
from scripted import BOTH, TRAIN, WINE, Asked, Scripted, documents, memory_of, opened, rows, verifier_of

Judge = Callable[..., Any]


async def ajudged(memory: EpicMemory, items: Any, **options: Any) -> list[Judged]:
    return [one async for one in memory.ajudge(items, **options)]


@pytest.fixture(params=["sync", "async"])
def judge(request: pytest.FixtureRequest) -> Judge:
    """All verdicts on items, reached with or without blocking the event loop."""

    async def judged(memory: EpicMemory, items: Any, **options: Any) -> list[Judged]:
        if request.param == "async":
            return await ajudged(memory, items, **options)
        return list(memory.judge(items, **options))

    return judged


def kept_of(judged: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """What was kept, by item and preference."""
    return {
        one.item.id: {
            preference.text: (alignment.instruction, alignment.stance, alignment.rationale, alignment.confidence, near)
            for alignment, preference, near in zip(
                one.verdict.alignments, one.preferences, one.similarities, strict=True
            )
        }
        for one in judged
        if one.kept
    }


def entries_of(memory: EpicMemory, items: Sequence[Item]) -> dict[str, dict[str, Any]]:
    """What a memory holds of items, by item and preference."""
    found = {}
    for item in items:
        try:
            explanation = memory.explain(item.id)
        except UnknownItemError:
            continue
        if explanation.entries:
            # One without a preference is there where neither stage says what an item is for.
            found[item.id] = {
                entry.preference: (
                    entry.instruction,
                    entry.stance,
                    entry.rationale,
                    entry.confidence,
                    entry.similarity,
                )
                for entry in explanation.entries
                if entry.preference
            }
    return found


def alike(one: dict[str, dict[str, Any]], other: dict[str, dict[str, Any]]) -> None:
    """Both are the same, but for the last digits of numbers."""
    assert one.keys() == other.keys()
    for key, pairs in one.items():
        assert pairs.keys() == other[key].keys()
        for preference, (*texts, confidence, similarity) in pairs.items():
            *others, other_confidence, other_similarity = other[key][preference]
            assert texts == others
            assert confidence == (None if other_confidence is None else pytest.approx(other_confidence, abs=1e-6))
            assert similarity == pytest.approx(other_similarity, abs=1e-6)


# as add


WORDS = ["wine", "red", "train", "night", "sea", "blue", "nowine", "notrain", "engine", "casino", "hotel", "vegan"]
LIKES = [WINE, TRAIN, "blue sea", "I avoid hotels with casinos.", "vegan hotel"]
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
CORPUS = st.lists(TEXT, min_size=1, max_size=9).map(
    lambda texts: [Item(id=f"item {number}", text=text) for number, text in enumerate(texts)]
)
CHOSEN = st.lists(st.sampled_from(LIKES), min_size=1, max_size=4, unique=True)
OPTIONS: dict[str, dict[str, Any]] = {
    "usual": {},
    "coarse off": {"coarse": False},
    "fine off": {"fine": False},
    "both off": {"coarse": False, "fine": False},
    "high tau": {"tau": 0.6},
    "keep rate": {"keep_rate": 0.4},
    "second tier": {"tau": 0.5, "reserve": "1 MB"},
    "no cache": {"verdict_cache": 0},
}


def _said(asked: Asked) -> None:
    if any("engine" in chunk for chunk in asked.chunks):
        raise LMError("It stalled.")


VERIFIERS: dict[str, Callable[[], Any]] = {
    "embedded": lambda: None,
    "model": lambda: verifier_of(Scripted()),
    "model that fails": lambda: verifier_of(Scripted(_said)),
    "model, in batches": lambda: verifier_of(Scripted(), batch_size=4),
    "keep": KeepAll,
    "undecided": UndecidedAll,
    "too few": TooFew,
}


@pytest.mark.parametrize("verifier", VERIFIERS)
@settings(max_examples=12, deadline=None)
@given(items=CORPUS, preferences=CHOSEN, name=st.sampled_from(sorted(OPTIONS)))
def test_what_it_keeps_is_what_add_keeps(verifier: str, items: list[Item], preferences: list[str], name: str) -> None:
    made = VERIFIERS[verifier]
    memory, other = (
        EpicMemory(preferences, encoder=HashEncoder(), **settled(verifier=made(), ledger=0, **OPTIONS[name]))
        for _ in range(2)
    )
    told = BuildReport()
    judged = list(memory.judge(items, report=told))
    report = other.add(items)

    assert [one.item for one in judged] == items
    alike(kept_of(judged), entries_of(other, items))
    for field in ("seen", "passed", "kept", "discarded", "undecided", "entries", "tau", "failures"):
        assert getattr(told, field) == getattr(report, field), field
    assert told.usage.calls == report.usage.calls
    assert sum(one.verdict.decision is Decision.UNDECIDED for one in judged) == report.undecided
    assert memory.stats().counts["items"] == memory.stats().counts["pending"] == 0
    assert asyncio.run(ajudged(memory, items)) == list(memory.judge(items))


# what comes out


async def test_alignments_come_strongest_first(judge: Judge) -> None:
    said = {WINE: 0.4, TRAIN: 0.9, "blue sea": None}
    items = [Item(text="red wine, blue sea, night train"), Item(text="blue sea red wine night train")]

    def verdict(candidate: Any) -> Any:
        kept = keep(candidate)
        alignments = [
            replace(alignment, confidence=said[preference.text])
            for alignment, preference in zip(kept.alignments, candidate.preferences, strict=True)
        ]
        return replace(kept, alignments=tuple(alignments), confidence=None)

    memory = EpicMemory(list(said), encoder=HashEncoder(), settings=Settings(verifier=Answering(verdict)))
    for one in await judge(memory, items):
        assert [preference.text for preference in one.preferences] == [TRAIN, WINE, "blue sea"]
        assert [alignment.confidence for alignment in one.verdict.alignments] == [0.9, 0.4, None]


async def test_of_equally_sure_ones_the_most_similar_comes_first_else_in_the_order_of_the_preferences(
    judge: Judge,
) -> None:
    preferences = ["blue sea", TRAIN, WINE, "red wine in the glass"]

    def backwards(candidate: Any) -> Any:
        kept = keep(candidate)
        return replace(kept, alignments=kept.alignments[::-1])

    for answer in (keep, backwards):
        memory = EpicMemory(preferences, encoder=HashEncoder(), settings=Settings(verifier=Answering(answer)))
        (one,) = await judge(memory, ["red wine night train blue sea"])
        assert [p.text for p in one.preferences] == preferences
        assert list(one.similarities) == sorted(one.similarities, reverse=True)
        assert [a.preference_id for a in one.verdict.alignments] == [p.id for p in one.preferences]


async def test_what_is_not_known_of_an_alignment_is_what_the_verdict_says(judge: Judge) -> None:
    def verdict(candidate: Any) -> Any:
        kept = keep(candidate)
        alignments = tuple(replace(one, confidence=None, rationale="") for one in kept.alignments)
        return replace(kept, alignments=alignments, confidence=0.7, rationale="all of it")

    memory = EpicMemory([WINE], encoder=HashEncoder(), settings=Settings(verifier=Answering(verdict)))
    ((alignment,),) = [one.verdict.alignments for one in await judge(memory, ["red wine"])]
    assert (alignment.confidence, alignment.rationale) == (0.7, "all of it")


async def test_the_same_text_under_one_id_or_several_is_judged_each_time(judge: Judge) -> None:
    lm = Scripted()
    items = [
        Item(id="a", text="red wine"),
        Item(id="a", text="red wine"),
        Item(id="b", text="red wine", metadata={"n": 1}),
        Item(id="a", text="red wine nowine"),
        Item(id="a", text="blue sky"),
        "red wine",
    ]
    report = BuildReport()
    judged = await judge(memory_of(lm), items, report=report)
    assert [one.kept for one in judged] == [True, True, True, False, False, True]
    assert [one.item for one in judged] == [Item.of(item) for item in items]
    assert judged[2].item.metadata == {"n": 1}
    assert (report.seen, report.passed, report.kept, report.discarded, report.entries) == (6, 5, 4, 1, 4)
    assert lm.calls == report.usage.calls == 2


async def test_one_text_and_one_item_are_taken_too(judge: Judge) -> None:
    memory = memory_of(Scripted())
    assert [one.kept for one in await judge(memory, "red wine")] == [True]
    assert [one.item.id for one in await judge(memory, Item(id="a", text="red wine"))] == ["a"]
    assert await judge(memory, []) == []


async def test_a_share_is_resolved_by_the_first_items_and_stays(judge: Judge) -> None:
    memory = EpicMemory([WINE], encoder=HashEncoder(), settings=Settings(verifier=KeepAll(), keep_rate=0.25))
    items = [f"red wine {'and more ' * n}" for n in range(8)]
    report = BuildReport()
    judged = await judge(memory, items, report=report)
    assert [one.kept for one in judged] == [True, True] + [False] * 6
    assert report.tau == memory.tau and any("keep_rate was resolved" in warning for warning in report.warnings)
    assert [one.kept for one in await judge(memory, items[5:])] == [False] * 3


# lazily


def endless(taken: list[int]) -> Iterator[str]:
    for number in itertools.count():
        taken.append(number)
        yield f"red wine {number}"


async def aendless(taken: list[int]) -> AsyncIterator[str]:
    for text in endless(taken):
        await asyncio.sleep(0)
        yield text


def test_an_endless_iterator_is_read_only_a_little_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_memory.runtime.batching._WAIT", 60.0)
    taken: list[int] = []
    report, lm = BuildReport(), Scripted()
    judging = memory_of(lm).judge(endless(taken), report=report)
    assert taken == []
    first = [one.item.text for one in itertools.islice(judging, 5)]
    assert first == [f"red wine {number}" for number in range(5)]
    assert len(taken) == report.seen == lm.calls == JUDGED_AT_ONCE
    assert [one.item.text for one in itertools.islice(judging, JUDGED_AT_ONCE)][-1] == f"red wine {JUDGED_AT_ONCE + 4}"
    assert len(taken) == report.seen == 2 * JUDGED_AT_ONCE
    judging.close()
    assert next(judging, None) is None and len(taken) == 2 * JUDGED_AT_ONCE


@pytest.mark.parametrize("stream", [endless, aendless])
async def test_an_endless_stream_is_read_only_a_little_ahead(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_memory.runtime.batching._WAIT", 60.0)
    taken: list[int] = []
    judging = memory_of(Scripted()).ajudge(stream(taken))
    async for one in judging:
        assert one.kept
        if one.item.text == "red wine 5":
            break
    assert len(taken) == JUDGED_AT_ONCE
    await judging.aclose()
    assert len(taken) <= JUDGED_AT_ONCE + 1


def test_verdicts_come_in_order_and_the_report_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_memory.runtime.batching._WAIT", 60.0)
    report = BuildReport()
    judging = memory_of(Scripted()).judge(iter(documents(40)), report=report)
    seen, judged = [], []
    for one in judging:
        judged.append(one)
        if not seen or report.seen != seen[-1]:
            seen.append(report.seen)
    assert seen == [64, 128, 192, 200]
    assert [one.item for one in judged] == documents(40)
    assert [one.kept for one in judged] == [True, False, True, True, False] * 40
    assert (report.passed, report.kept, report.discarded, report.undecided) == (160, 120, 40, 0)
    assert report.entries == 160 and report.tau == 0.3
    assert {"embedding", "verification"} <= report.timings.keys()
    assert report.usage.calls == 160 and report.usage.prompt_tokens == 160 * 7


# nothing is taken in, but what a model said is remembered


async def test_what_is_held_stays_as_it_is(judge: Judge) -> None:
    memory = memory_of(Scripted())
    memory.add(documents())
    before = entries_of(memory, documents())
    changed = [replace(item, text="red wine nowine 77") for item in documents()]
    assert not any(one.kept for one in await judge(memory, changed))
    assert entries_of(memory, documents()) == before


async def test_what_was_decided_is_not_asked_again(judge: Judge) -> None:
    lm, items = Scripted(), documents()
    memory = memory_of(lm)
    first = await judge(memory, items)
    calls = lm.calls
    again = BuildReport()
    second = await judge(memory, items, report=again)
    assert kept_of(second) == kept_of(first)
    assert [one.preferences for one in second] == [one.preferences for one in first]
    assert lm.calls == calls > 0 and again.usage.calls == 0 and again.cached == 24
    report = memory.add(items)
    assert lm.calls == calls and report.usage.calls == 0 and report.kept == again.kept == 12
    alike(kept_of(first), entries_of(memory, items))


# undecided


@pytest.mark.parametrize("block", [None, 2])
async def test_a_verifier_that_raises_has_decided_what_it_decided_before(block: int | None, judge: Judge) -> None:
    verifier = Raising(TimeoutError("slow"), after=3, block=block)
    memory = EpicMemory([WINE], encoder=HashEncoder(), settings=Settings(verifier=verifier))
    judged = await judge(memory, [f"red wine {n}" for n in range(5)])
    assert [one.kept for one in judged] == [True] * 3 + [False] * 2
    assert {one.verdict.rationale for one in judged[3:]} == {"TimeoutError: slow"}


async def test_a_verifier_that_breaks_its_contract_is_an_error(judge: Judge) -> None:
    memory = EpicMemory(
        [WINE], encoder=HashEncoder(), settings=Settings(verifier=CONTRACT_BREAKERS["unknown preference"]())
    )
    with pytest.raises(VerifierError):
        await judge(memory, ["red wine 1", "red wine 2"])


# interrupted


async def test_an_interruption_loses_nothing(judge: Judge) -> None:
    lm, items = Scripted(), documents()
    memory = memory_of(lm)
    lm.interrupt_at = {6}
    report = BuildReport()
    with pytest.raises(KeyboardInterrupt):
        list(memory.judge(items, report=report))
    assert report.usage.calls == 5
    await judge(memory, items)
    assert lm.calls == 16 + 1  # the one that was interrupted
    assert memory.add(items).usage.calls == 0


async def test_an_abandoned_stream_is_closed() -> None:
    closed = asyncio.Event()

    async def source() -> AsyncIterator[str]:
        try:
            for number in itertools.count():
                yield f"red wine {number}"
        finally:
            closed.set()

    judging = memory_of(Scripted()).ajudge(source())
    assert (await anext(judging)).kept
    await judging.aclose()
    await asyncio.wait_for(closed.wait(), 60)


async def test_nothing_blocks_the_event_loop() -> None:
    encoder, lm = HashEncoder(), Scripted(concurrency=3, seconds=0.001)
    memory = memory_of(lm, encoder=encoder)
    encoder.sync_threads.clear()
    here = threading.get_ident()
    read: set[int] = set()

    def source() -> Iterator[Item]:
        for item in documents():
            read.add(threading.get_ident())
            yield item

    assert len(await ajudged(memory, source())) == 20
    assert encoder.sync_threads == set() and here not in read and lm.most_at_once == 3


# preferences


async def test_there_have_to_be_preferences(judge: Judge) -> None:
    with pytest.raises(NoPreferencesError, match=r"preferences=\["):
        await judge(EpicMemory(encoder=HashEncoder()), ["red wine"])


async def test_expired_preferences_do_not_count(judge: Judge) -> None:
    soon = datetime.now(timezone.utc) + timedelta(hours=1)
    past = datetime.now(timezone.utc) - timedelta(seconds=1)
    gone = Preference(text=WINE, expires_at=past)
    memory = EpicMemory(
        [gone, Preference(text=TRAIN, expires_at=soon)], encoder=HashEncoder(), settings=Settings(verifier=KeepAll())
    )
    wine, both = await judge(memory, ["red wine", BOTH])
    assert not wine.kept and [p.text for p in both.preferences] == [TRAIN]
    with pytest.raises(NoPreferencesError):
        await judge(EpicMemory([gone], encoder=HashEncoder()), ["red wine"])


async def test_what_was_asked_under_a_preference_that_goes_meanwhile_is_forgotten(judge: Judge, path: Path) -> None:
    with opened(path, Scripted()) as memory:
        done = []

        def removes(asked: Asked) -> None:
            if not done:
                done.append(memory.preferences.remove(WINE))

        memory._session.verifier.lm.hook = removes  # type: ignore[attr-defined]
        await judge(memory, [BOTH, "red wine 1", "night train 1"])
        kept = memory.stats().counts["verdicts"]
        # The two that are left are about the other preference.
        assert kept == 2
        memory.preferences.remove(TRAIN)
        assert memory.stats().counts["verdicts"] == 0
    assert rows(path) == 0


# bad input


async def test_what_is_no_item_is_refused_before_anything_is_asked(judge: Judge) -> None:
    lm = Scripted()
    memory = memory_of(lm)
    for items, match in (
        (["red wine", 3], "Item 1"),
        (["red wine", " "], "Item 1"),
        (["red wine", "a\0b"], "Item 1"),
        (3, "int"),
        (b"red wine", "bytes"),
        ({"text": "red wine"}, "dict"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            await judge(memory, items)
    assert lm.calls == 0


def test_of_a_stream_what_came_before_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_memory.runtime.batching._WAIT", 60.0)
    memory = memory_of(Scripted())
    texts = [*(f"red wine {n}" for n in range(JUDGED_AT_ONCE)), 3]
    seen: list[str] = []
    with pytest.raises(InvalidInputError, match=f"Item {JUDGED_AT_ONCE}"):
        for one in memory.judge(iter(texts)):  # type: ignore[arg-type]
            seen.append(one.item.text)  # noqa: PERF401
    assert seen == texts[:-1]


async def test_a_memory_opened_for_reading_judges_without_a_model(judge: Judge, path: Path) -> None:
    opened(path, Scripted()).close()
    with EpicMemory.open(path, encoder=HashEncoder(), settings=Settings(read_only=True)) as memory:
        assert [one.kept for one in await judge(memory, ["red wine"])] == [True]


async def test_who_only_reads_does_not_stumble_over_a_preference_that_goes_meanwhile(judge: Judge, path: Path) -> None:
    with opened(path, Scripted()) as writer:

        def removes(candidate: Any) -> Any:
            writer.preferences.remove(WINE)
            return keep(candidate)

        reader = EpicMemory.open(
            path, encoder=HashEncoder(), settings=Settings(verifier=Answering(removes), read_only=True)
        )
        assert [one.kept for one in await judge(reader, ["red wine"])] == [True]
        reader.close()


async def test_what_cannot_be_remembered_is_not_asked(judge: Judge, path: Path) -> None:
    with opened(path, Scripted()) as memory:
        memory.add(["red wine 1"])  # so that the file knows the model
    lm = Scripted()
    with opened(path, lm, read_only=True) as memory, pytest.raises(ReadOnlyError):
        await judge(memory, ["red wine 2"])
    assert lm.calls == 0


async def test_a_full_budget_is_no_reason_to_forget_entries(judge: Judge, path: Path) -> None:
    with opened(path, Scripted(), budget="160 KB") as memory:
        memory.add(documents(2))
        before = entries_of(memory, documents(2))
        judged = await judge(memory, documents(60))
        assert sum(one.kept for one in judged) == 180
        assert entries_of(memory, documents(2)) == before
        assert memory.stats().bytes["total"] <= 160_000
