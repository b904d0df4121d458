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

from epic_memory import BuildReport, Decision, EpicMemory, Item, Preference
from epic_memory.errors import (
    InvalidInputError,
    LMError,
    NoPreferencesError,
    ReadOnlyError,
)
from epic_memory.pipeline.judge import JUDGED_AT_ONCE
from epic_memory.types import Candidate
from epic_memory.types.verdicts import Judged
from helpers import (
    Answering,
    HashEncoder,
    KeepAll,
    TooFew,
    UndecidedAll,
    keep,
    memory_at,
    memory_of,
    settled,
)
from scripted import BOTH, TRAIN, WINE, Asked, Scripted, documents, opened, rows, verifier_of
from scripted import memory_of as scripted_memory

Judge = Callable[..., Any]
Pairs = dict[tuple[str, str], tuple[Any, ...]]


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


def judging(*preferences: str | Preference, answer: Callable[[Candidate], object] = keep, **options: Any) -> EpicMemory:
    """A memory whose verifier says what a function says."""
    return memory_of(*preferences, verifier=Answering(answer), **options)


def kept_of(judged: Sequence[Judged]) -> Pairs:
    """What was kept, by item and preference."""
    return {
        (one.item.id, preference.text): (found.instruction, found.stance, found.rationale, found.confidence, near)
        for one in judged
        if one.kept
        for found, preference, near in zip(one.verdict.alignments, one.preferences, one.similarities, strict=True)
    }


def entries_of(memory: EpicMemory, items: Sequence[Item]) -> Pairs:
    """What a memory holds of items, by item and preference."""
    found = memory.file.entries([item.id for item in items])
    # An entry without a preference is there where neither stage says what an item is for.
    return {
        (item_id, each.preference): (each.instruction, each.stance, each.rationale, each.confidence, each.similarity)
        for item_id, entries in found.items()
        for each in entries
        if each.preference
    }


def alike(one: Pairs, other: Pairs) -> None:
    """Both are the same, but for the last digits of numbers."""
    assert one.keys() == other.keys()
    for pair, (*texts, confidence, similarity) in one.items():
        assert other[pair] == (*texts, pytest.approx(confidence, abs=1e-6), pytest.approx(similarity, abs=1e-6))


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


async def test_alignments_come_strongest_first_then_the_most_similar_then_by_the_preferences(judge: Judge) -> None:
    said = {WINE: 0.4, TRAIN: 0.9, "blue sea": None}

    def verdict(candidate: Any) -> Any:
        kept = keep(candidate)
        alignments = tuple(
            replace(alignment, confidence=said.get(preference.text, 0.5))
            for alignment, preference in zip(kept.alignments, candidate.preferences, strict=True)
        )
        return replace(kept, alignments=alignments[::-1], confidence=None)

    for one in await judge(
        judging(*said, answer=verdict), ["red wine, blue sea, night train", "blue sea red wine night train"]
    ):
        assert [preference.text for preference in one.preferences] == [TRAIN, WINE, "blue sea"]
        assert [alignment.confidence for alignment in one.verdict.alignments] == [0.9, 0.4, None]
    equally_sure = ["blue sea of glass", "green glass", "sky of glass", "red glass"]
    for answer in (keep, verdict):
        (one,) = await judge(judging(*equally_sure, answer=answer), ["red green glass blue sea of sky"])
        assert list(one.similarities) == sorted(one.similarities, reverse=True)
        assert [p.text for p in one.preferences] == ["blue sea of glass", "sky of glass", "green glass", "red glass"]
        assert [a.preference_id for a in one.verdict.alignments] == [p.id for p in one.preferences]


async def test_what_is_not_known_of_an_alignment_is_what_the_verdict_says(judge: Judge) -> None:
    def verdict(candidate: Any) -> Any:
        kept = keep(candidate)
        alignments = tuple(replace(one, confidence=None, rationale="") for one in kept.alignments)
        return replace(kept, alignments=alignments, confidence=0.7, rationale="all of it")

    ((alignment,),) = [one.verdict.alignments for one in await judge(judging(answer=verdict), ["red wine"])]
    assert (alignment.confidence, alignment.rationale) == (0.7, "all of it")


async def test_the_same_text_under_one_id_or_several_is_judged_each_time(judge: Judge) -> None:
    lm, report = Scripted(), BuildReport()
    items = [
        *(Item(id="a", text=text) for text in ("red wine", "red wine", "red wine nowine", "blue sky")),
        Item(id="b", text="red wine", metadata={"n": 1}),
        "red wine",
    ]
    memory = scripted_memory(lm)
    judged = await judge(memory, items, report=report)
    assert [one.kept for one in judged] == [True, True, False, False, True, True]
    assert [one.item for one in judged] == [Item.of(item) for item in items]
    assert judged[4].item.metadata == {"n": 1}
    assert (report.seen, report.passed, report.kept, report.discarded, report.entries) == (6, 5, 4, 1, 4)
    assert lm.calls == report.usage.calls == 2
    # One text and one item are taken too.
    assert [one.kept for one in await judge(memory, "red wine")] == [True]
    assert [one.item.id for one in await judge(memory, Item(id="a", text="red wine"))] == ["a"]
    assert await judge(memory, []) == []


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many items as may be are judged together, however slow the machine is."""
    monkeypatch.setattr("epic_memory.runtime.batching._WAIT", 60.0)


def endless(taken: list[int]) -> Iterator[str]:
    for number in itertools.count():
        taken.append(number)
        yield f"red wine {number}"


async def aendless(taken: list[int]) -> AsyncIterator[str]:
    for text in endless(taken):
        await asyncio.sleep(0)
        yield text


@pytest.mark.usefixtures("at_once")
def test_an_endless_iterator_is_read_only_a_little_ahead() -> None:
    taken: list[int] = []
    report, lm = BuildReport(), Scripted()
    verdicts = scripted_memory(lm).judge(endless(taken), report=report)
    assert taken == []
    first = [one.item.text for one in itertools.islice(verdicts, 5)]
    assert first == [f"red wine {number}" for number in range(5)]
    assert len(taken) == report.seen == lm.calls == JUDGED_AT_ONCE
    assert [one.item.text for one in itertools.islice(verdicts, JUDGED_AT_ONCE)][-1] == f"red wine {JUDGED_AT_ONCE + 4}"
    assert len(taken) == report.seen == 2 * JUDGED_AT_ONCE
    verdicts.close()
    assert next(verdicts, None) is None and len(taken) == 2 * JUDGED_AT_ONCE


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("stream", [endless, aendless])
async def test_an_endless_stream_is_read_only_a_little_ahead(stream: Any) -> None:
    taken: list[int] = []
    verdicts = scripted_memory(Scripted()).ajudge(stream(taken))
    async for one in verdicts:
        assert one.kept
        if one.item.text == "red wine 5":
            break
    assert len(taken) == JUDGED_AT_ONCE
    await verdicts.aclose()
    assert len(taken) <= JUDGED_AT_ONCE + 1


@pytest.mark.usefixtures("at_once")
def test_verdicts_come_in_order_and_the_report_grows_until_something_is_no_item() -> None:
    report, given = BuildReport(), documents(39)[: 3 * JUDGED_AT_ONCE]
    seen, judged = [], []
    with pytest.raises(InvalidInputError, match="Item 192"):
        for one in scripted_memory(Scripted()).judge(iter([*given, 3]), report=report):
            judged.append(one)
            if not seen or report.seen != seen[-1]:
                seen.append(report.seen)
    assert seen == [64, 128, 192]
    assert [one.item for one in judged] == given
    assert [one.kept for one in judged] == ([True, False, True, True, False] * 39)[:192]
    assert (report.passed, report.kept, report.discarded, report.undecided) == (154, 115, 39, 0)
    assert report.entries == 153 and report.tau == 0.3
    assert {"embedding", "verification"} <= report.timings.keys()
    assert report.usage.calls == 154 and report.usage.prompt_tokens == 154 * 7


# nothing is taken in, but what a model said is remembered


async def test_what_is_held_stays_as_it_is_also_where_the_budget_is_full(judge: Judge, path: Path) -> None:
    with opened(path, Scripted(), budget="160 KB") as memory:
        memory.add(documents(2))
        before = entries_of(memory, documents(2))
        changed = [replace(item, text="red wine nowine 77") for item in documents()]
        assert not any(one.kept for one in await judge(memory, changed))
        judged = await judge(memory, documents(60))
        assert sum(one.kept for one in judged) == 180
        assert entries_of(memory, documents(2)) == before
        assert memory.stats().bytes["total"] <= 160_000


async def test_what_was_decided_is_not_asked_again_also_after_an_interruption(judge: Judge) -> None:
    lm, items = Scripted(), documents()
    memory, report, again = scripted_memory(lm), BuildReport(), BuildReport()
    lm.interrupt_at = {6}
    with pytest.raises(KeyboardInterrupt):
        list(memory.judge(items, report=report))
    assert report.usage.calls == 5
    first = await judge(memory, items)
    assert lm.calls == 16 + 1  # the one that was interrupted
    second = await judge(memory, items, report=again)
    assert kept_of(second) == kept_of(first)
    assert [one.preferences for one in second] == [one.preferences for one in first]
    assert again.usage.calls == 0 and again.cached == 24
    report = memory.add(items)
    assert lm.calls == 17 and report.usage.calls == 0 and report.kept == again.kept == 12
    alike(kept_of(first), entries_of(memory, items))


async def test_an_abandoned_stream_is_closed() -> None:
    closed = asyncio.Event()

    async def source() -> AsyncIterator[str]:
        try:
            for number in itertools.count():
                yield f"red wine {number}"
        finally:
            closed.set()

    verdicts = scripted_memory(Scripted()).ajudge(source())
    assert (await anext(verdicts)).kept
    await verdicts.aclose()
    await asyncio.wait_for(closed.wait(), 60)


async def test_nothing_blocks_the_event_loop() -> None:
    encoder, lm = HashEncoder(), Scripted(concurrency=3, seconds=0.001)
    memory = scripted_memory(lm, encoder=encoder)
    encoder.sync_threads.clear()
    read: set[int] = set()

    def source() -> Iterator[Item]:
        for item in documents():
            read.add(threading.get_ident())
            yield item

    assert len(await ajudged(memory, source())) == 20
    assert encoder.sync_threads == set() and threading.get_ident() not in read and lm.most_at_once == 3


async def test_there_have_to_be_preferences_that_have_not_expired(judge: Judge) -> None:
    gone, lasting = (
        Preference(text=text, expires_at=datetime.now(timezone.utc) + timedelta(hours=hours))
        for text, hours in ((WINE, -1), (TRAIN, 1))
    )
    wine, both = await judge(judging(gone, lasting), ["red wine", BOTH])
    assert not wine.kept and [p.text for p in both.preferences] == [TRAIN]
    for given_preferences in ([], [gone]):
        with pytest.raises(NoPreferencesError, match=r"preferences=\["):
            await judge(EpicMemory(given_preferences, encoder=HashEncoder()), ["red wine"])


async def test_what_was_asked_under_a_preference_that_goes_meanwhile_is_forgotten(judge: Judge, path: Path) -> None:
    with opened(path, Scripted()) as memory:
        done = []

        def removes(asked: Asked) -> None:
            if not done:
                done.append(memory.preferences.remove(WINE))

        memory.verifier.lm.hook = removes  # type: ignore[attr-defined]
        await judge(memory, [BOTH, "red wine 1", "night train 1"])
        # The two that are left are about the other preference.
        assert memory.stats().counts["verdicts"] == 2
        memory.preferences.remove(TRAIN)
        assert memory.stats().counts["verdicts"] == 0
    assert rows(path) == 0


async def test_a_memory_opened_for_reading_judges_without_a_model(judge: Judge, path: Path) -> None:
    with opened(path, Scripted()) as writer:
        writer.add(["red wine 1"])  # so that the file knows the model
        with memory_at(path, read_only=True) as reader:
            assert [one.kept for one in await judge(reader, ["red wine"])] == [True]
        lm = Scripted()
        # What it could not remember is not asked.
        with opened(path, lm, read_only=True) as reader, pytest.raises(ReadOnlyError):
            await judge(reader, ["red wine 2"])
        assert lm.calls == 0

        def removes(candidate: Any) -> Any:
            writer.preferences.remove(WINE)
            return keep(candidate)

        with memory_at(path, verifier=Answering(removes), read_only=True) as reader:
            assert [one.kept for one in await judge(reader, ["red wine"])] == [True]
