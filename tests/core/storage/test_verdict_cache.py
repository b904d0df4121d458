"""What a language model was asked once is not asked again: the verdict cache, and builds that are taken up again."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_memory import BuildReport, EpicMemory, Item, Settings, Stance
from epic_memory.errors import EncoderError, LMError, LMUnavailableError
from epic_memory.lm import Completion
from epic_memory.lm.prompting import prompt_of
from epic_memory.text.chunking import WordChunker
from epic_memory.verification import EmbeddedVerifier, LMVerifier
from helpers import HashEncoder, KeepAll, method
from scripted import (
    BOTH,
    SEA,
    TRAIN,
    WINE,
    Asked,
    Hanging,
    Scripted,
    built,
    cancelled,
    contents,
    documents,
    held,
    memory_of,
    opened,
    rows,
    verifier_of,
)


def verdicts(memory: EpicMemory) -> int:
    return memory.stats().counts["verdicts"]


# asked once


def test_the_same_documents_again_cost_no_call() -> None:
    lm, items = Scripted(), documents()
    memory = memory_of(lm, ledger=0, reserve=0)
    first = memory.add(items)
    assert (first.passed, first.kept, first.discarded, first.cached) == (16, 12, 4, 0)
    assert lm.calls == first.usage.calls == 16
    before = contents(memory, items)
    again = memory.add(items)
    # What is kept is a duplicate; what was discarded is discarded again, from the cache.
    assert (again.duplicates, again.discarded, again.cached, again.usage.calls) == (12, 4, 4, 0)
    assert lm.calls == 16 and contents(memory, items) == before
    assert "verdict cache" in str(again) and "4 verdicts" in str(again)


@pytest.mark.parametrize(("reserve", "duplicates", "known"), [(None, 20, 0), (0, 12, 8)])
def test_the_same_documents_again_are_not_even_looked_at(
    path: Path, reserve: int | None, duplicates: int, known: int
) -> None:
    lm, items = Scripted(), documents()
    with opened(path, lm, reserve=reserve) as memory:
        assert memory.add(items).discarded == 4
        before = contents(memory, items)
    with opened(path, lm, reserve=reserve) as memory:
        again = memory.add(items)
        # Four that the model discarded, and four that the coarse filter left out: in the light tier, or in the ledger.
        assert (again.duplicates, again.known) == (duplicates, known)
        assert (again.new, again.passed, again.discarded, again.cached) == (0, 0, 0, 0)
        assert (lm.calls, again.usage.calls) == (16, 0) and contents(memory, items) == before
        # Under another id, or with other metadata, it is another item: the cache answers.
        others = memory.add([replace(item, id=f"other {item.id}") for item in items])
        assert (others.kept, others.discarded, others.cached, lm.calls) == (12, 4, 24, 16)
        changed = [replace(item, metadata={"year": 2024}) for item in items]
        assert memory.add(changed).kept == 12 and lm.calls == 16


@pytest.mark.parametrize("twin", [False, True])
@pytest.mark.parametrize("batch_size", [1, 8])
async def test_two_items_with_one_text_in_one_add_are_asked_about_once(batch_size: int, twin: bool) -> None:
    lm = Scripted(concurrency=4)
    memory = memory_of(lm, batch_size=batch_size)
    done = method(memory, "add", twin=twin)([Item(id=f"{n}", text=f"red wine {n % 3}") for n in range(6)])
    report: BuildReport = await done if twin else done
    assert (report.kept, report.entries, len(memory)) == (6, 6, 6)
    assert sorted(chunk for one in lm.asked for chunk in one.chunks) == ["red wine 0", "red wine 1", "red wine 2"]
    assert len({hit.item.id for hit in memory.search("wine", k=9)}) == 6


def copies(count: int, text: str = "red wine") -> list[Item]:
    return [Item(id=f"{text} {n}", text=text) for n in range(count)]


def test_copies_do_not_ask_a_server_that_is_down_again_and_again() -> None:
    def down(asked: Asked) -> str | None:
        raise LMUnavailableError("down")

    report = memory_of(Scripted(hook=down), WINE).add(copies(200) + copies(200, "more red wine"))
    assert report.undecided == 400 and report.usage.calls <= 8


def test_chunks_of_a_changed_document_that_stayed_the_same_cost_no_call() -> None:
    lm = Scripted()
    memory = memory_of(lm, chunker=WordChunker(max_words=4))
    memory.add([Item(id="a", text="One red wine. Two red wine. Three red wine.")])
    assert lm.calls == 3
    memory.add([Item(id="a", text="Two red wine. One red wine. New red wine. Three red wine.")])
    assert {asked.chunk for asked in lm.asked[3:]} <= {"New red wine.", "Two red wine.", "One red wine."}
    assert len(memory) == 4


# asked again


def test_a_new_preference_is_asked_about_alone() -> None:
    lm, items = Scripted(), documents()
    memory = memory_of(lm, WINE)
    memory.add(items)
    calls = lm.calls
    report = memory.preferences.add(TRAIN)
    # Those that say "nowine" are in the light tier, and are asked about with those that were kept.
    asked = lm.asked[calls:]
    assert {one.preferences for one in asked} == {(TRAIN,)} and report.usage.calls == len(asked)
    assert {f"{BOTH} nowine {n}" for n in range(4)} <= {one.chunk for one in asked}
    memory.add(items)
    assert lm.calls == calls + len(asked)
    fresh = memory_of(Scripted())
    fresh.add(items)
    assert contents(memory, items)[:2] == contents(fresh, items)[:2]


STRICT = replace(prompt_of("verify"), system=prompt_of("verify").system + " Be strict.")


@pytest.mark.parametrize(
    "other", [verifier_of(Scripted(name="other")), verifier_of(Scripted(), prompt=STRICT)], ids=["model", "prompt"]
)
def test_another_model_or_another_prompt_asks_again(other: LMVerifier) -> None:
    lm = Scripted()
    memory = memory_of(lm)
    memory.add([Item(id="a", text="red wine nowine")])
    memory.verifier = other
    for item in "bc":
        assert memory.add([Item(id=item, text="red wine nowine")]).discarded == 1
    assert isinstance(other.lm, Scripted) and other.lm.calls == 1
    # The first one's verdicts are still there, for whoever asks in the same way.
    memory.verifier = verifier_of(lm, max_tokens=99, retries=5)
    assert memory.add([Item(id="d", text="red wine nowine")]).discarded == 1
    assert lm.calls == 1


def test_a_verifier_that_is_not_worth_caching_is_not_cached() -> None:
    fake, lm = KeepAll(), Scripted()
    for verifier in (EmbeddedVerifier(HashEncoder()), fake):
        memory = EpicMemory([WINE], encoder=HashEncoder(), settings=Settings(verifier=verifier))
        memory.add([Item(id="a", text="red wine"), Item(id="b", text="red wine")])
        memory.add([Item(id="c", text="red wine")])
        assert verdicts(memory) == 0
    assert fake.asked == [("red wine", (WINE,))] * 3
    memory = memory_of(lm, fine=False)
    assert memory.add(["red wine"]).kept == 1
    assert verdicts(memory) == lm.calls == 0


# bounded, counted


@pytest.mark.parametrize("bound", [1, 7])
def test_the_cache_never_holds_more_than_its_bound_after_an_add(path: Path, bound: int) -> None:
    lm = Scripted()
    with opened(path, lm, verdict_cache=bound) as memory:
        for start in range(0, 60, 7):
            memory.add([f"red wine nowine {n}" for n in range(start, start + 7)])
            assert 1 <= rows(path) <= bound
        calls = lm.calls
        memory.add([Item(id="newest", text="red wine nowine 62")])
        assert lm.calls == calls, "the newest is still there"
        memory.add([Item(id="oldest", text="red wine nowine 0")])
        assert lm.calls == calls + 1, "the oldest is gone"


def test_a_smaller_bound_holds_from_the_next_add_on_and_a_cache_of_zero_keeps_none(path: Path) -> None:
    lm, items = Scripted(), documents()
    with opened(path, lm, verdict_cache=0) as memory:
        report = memory.add(items)
        again = memory.add([replace(item, id=f"other {item.id}") for item in items])
        assert (report.usage.calls, again.usage.calls, again.cached) == (16, 16, 0)
        memory.preferences.add(SEA)
        assert verdicts(memory) == memory.stats().bytes["verdicts"] == rows(path) == 0
    with opened(path, lm) as memory:
        memory.add([f"red wine nowine at noon {n}" for n in range(30)])
        assert rows(path) == 30
    with opened(path, lm, verdict_cache=5) as memory:
        memory.add(["red wine at night"])
        assert rows(path) <= 5
    opened(path, lm, verdict_cache=0).close()
    assert rows(path) == 0


def test_a_cache_that_is_too_small_says_so() -> None:
    memory = memory_of(Scripted(), WINE, verdict_cache=5)
    assert memory.add([f"red wine nowine {n}" for n in range(5)]).warnings == []
    warnings = memory.add([f"more red wine nowine {n}" for n in range(5)]).warnings
    assert any("verdict_cache" in warning for warning in warnings)


def test_verdicts_are_counted_and_weighed() -> None:
    memory = memory_of(Scripted())
    memory.add(["blue sky"])
    assert verdicts(memory) == memory.stats().bytes["verdicts"] == 0
    memory.add([BOTH])
    one = memory.stats().bytes["verdicts"]
    assert verdicts(memory) == 2 and one > 2 * len(f"Serve {WINE} with {BOTH}")
    # A discarded one takes less than a hundred bytes; whole pages are counted.
    memory.add([f"nowine{' red wine' * n}" for n in range(1, 101)])
    stats = memory.stats()
    assert verdicts(memory) == 102 and 100 * 40 < stats.bytes["verdicts"] - one < 100 * 100
    assert sum(size for part, size in stats.bytes.items() if part != "total") == stats.bytes["total"]
    assert "verdicts" in str(stats)


# forgotten


def test_what_was_cached_under_a_removed_preference_is_gone_from_the_file(path: Path) -> None:
    lm = Scripted()
    with opened(path, lm) as memory:
        memory.add([BOTH, "red wine", "train by night"])
        assert b"Serve night train" in path.read_bytes() and verdicts(memory) == 4
        memory.preferences.remove(TRAIN)
        assert verdicts(memory) == 2
    assert b"Serve night train" not in path.read_bytes() and b"Serve red wine" in path.read_bytes()
    with opened(path, lm) as memory:
        calls = lm.calls
        memory.preferences.add(TRAIN)
        assert lm.calls == calls + 2  # what is held under the other one, and what went to the light tier
        memory.preferences.replace(TRAIN, SEA)
    data = path.read_bytes()
    assert b"Serve night train" not in data and TRAIN.encode() not in data.replace(BOTH.encode(), b"")


@pytest.mark.parametrize("batch_size", [1, 8])
def test_what_is_answered_under_a_preference_that_is_removed_meanwhile_is_forgotten(
    path: Path, batch_size: int
) -> None:
    def hook(asked: Asked) -> None:
        if TRAIN in asked.preferences and len(memory.preferences) == 2:
            memory.preferences.remove(TRAIN)

    with opened(path, Scripted(), verifier=verifier_of(Scripted(hook=hook), batch_size=batch_size)) as memory:
        memory.add([BOTH, "a night train", "red wine"])
        assert {p for hit in memory.search("wine", k=9) for p in hit.preferences} == {WINE}
        assert verdicts(memory) >= 1
    assert b"Serve night train" not in path.read_bytes()


def test_what_was_cached_about_a_replaced_text_is_gone_from_the_file(path: Path) -> None:
    lm = Scripted()
    with opened(path, lm) as memory:
        memory.add([Item(id="a", text="red wine Oldsecret"), Item(id="b", text="red wine other")])
        memory.add([Item(id="a", text="red wine new")])
        assert verdicts(memory) == 2
    assert b"Oldsecret" not in path.read_bytes()
    with opened(path, lm) as memory:
        calls = lm.calls
        memory.add([Item(id="a", text="red wine Oldsecret")])
        assert lm.calls == calls + 1
        memory.add([Item(id="a", text="blue sky")])  # replaced by what the coarse filter leaves out
    assert b"Oldsecret" not in path.read_bytes() and rows(path) == 1


def test_what_was_cached_about_a_waiting_text_or_a_chunk_that_is_no_more_is_gone(path: Path) -> None:
    lm = Scripted()
    with opened(path, lm, WINE, chunker=WordChunker(max_words=4)) as memory:
        memory.add([Item(id="b", text="One red wine. Two red wine. Oldsecret red wine.")])
        memory.add([Item(id="b", text="One red wine. Two red wine.")])
        assert verdicts(memory) == 2 and b"Oldsecret" not in path.read_bytes()
        memory.add([Item(id="a", text="red wine in the night train Oldsecret")])
        lm.hook = lambda asked: "Perhaps."
        memory.preferences.add(TRAIN)
        memory.add([Item(id="a", text="red wine new")])
    assert b"Oldsecret" not in path.read_bytes()


def test_namespaces_and_texts_cannot_be_mistaken_for_each_other(path: Path) -> None:
    with opened(path, Scripted(), "red n\x1fwine", namespace="a") as memory:
        memory.add(["red n\x1fwine here"])
    lm = Scripted()
    with opened(path, lm, "red wine", "wine", namespace="a\x1fred n") as memory:
        memory.add(["wine here", "n\x1fwine here"])
    assert lm.calls == 2


# interrupted


@pytest.mark.parametrize("stop", [1, 2, 3])
@pytest.mark.parametrize(
    ("change", "arguments"), [("preferences.add", (TRAIN,)), ("preferences.replace", (WINE, TRAIN))]
)
def test_an_interrupted_preference_change_changes_nothing_but_is_not_asked_again(
    change: str, arguments: tuple[str, ...], stop: int
) -> None:
    def state() -> tuple[Any, ...]:
        return held(memory, items), [p.text for p in memory.preferences], len(memory)

    lm, items = Scripted(), [Item(id=f"{n}", text=f"{BOTH} {n}") for n in range(3)]
    memory, fresh = memory_of(lm, WINE), memory_of(Scripted(), WINE)
    memory.add(items)
    before = state()
    lm.interrupt_at = {3 + stop}
    with pytest.raises(KeyboardInterrupt):
        method(memory, change)(*arguments)
    assert state() == before
    assert verdicts(memory) == 3 + stop - 1
    calls = lm.calls
    report = method(memory, change)(*arguments)
    assert lm.calls - calls == 3 - (stop - 1) == report.usage.calls and report.cached == stop - 1
    fresh.add(items)
    method(fresh, change)(*arguments)
    assert held(memory, items) == held(fresh, items)


@given(stops=st.sets(st.integers(1, 20), max_size=6))
@settings(deadline=None, max_examples=40)
@pytest.mark.slow
def test_an_interrupted_build_taken_up_again_holds_what_an_uninterrupted_one_holds(stops: set[int]) -> None:
    items = documents()
    expected, calls = built(items)
    lm = Scripted()
    lm.interrupt_at = stops
    memory, interrupted = memory_of(lm), 0
    while True:
        try:
            memory.add(items)
        except KeyboardInterrupt:
            interrupted += 1
            continue
        break
    assert contents(memory, items) == expected
    assert lm.calls == calls + interrupted
    assert interrupted == sum(stop <= lm.calls for stop in stops)


@pytest.mark.parametrize(("stop", "concurrency"), [(1, 1), (16, 1), (9, 4)])
async def test_a_cancelled_build_keeps_what_was_decided_before(
    monkeypatch: pytest.MonkeyPatch, concurrency: int, stop: int
) -> None:
    # Nothing is committed before the cancellation, which would otherwise come in the middle of it under load.
    monkeypatch.setattr("epic_memory.runtime.streaming._MOMENT", math.inf)
    items = documents()
    expected, calls = built(items)
    lm = Hanging(concurrency=concurrency)
    lm.interrupt_at = {stop}
    memory = memory_of(lm)
    await cancelled(memory.aadd(items), lm)
    await memory.aadd(items)
    assert contents(memory, items) == expected
    assert calls + 1 <= lm.calls <= calls + concurrency


class Cancelling(Scripted):
    """Has its task cancelled with the answer to one of its calls."""

    task: asyncio.Task[Any] | None = None
    at = 1

    async def acomplete(self, *messages: Any, **settings: Any) -> Completion:
        answer = await super().acomplete(*messages, **settings)
        if self.calls >= self.at and self.task is not None:
            task, self.task = self.task, None
            await asyncio.sleep(0)
            task.cancel()
        return answer


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("count", [1, 3, 600])
@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_cancellation_that_comes_with_the_last_answer_is_not_swallowed(
    monkeypatch: pytest.MonkeyPatch, concurrency: int, at: int, count: int
) -> None:
    monkeypatch.setattr("epic_memory.runtime.streaming._MOMENT", 0.0)  # each answer is committed as it comes
    lm = Cancelling(concurrency=concurrency)
    lm.at = min(at, count)
    building = asyncio.create_task(memory_of(lm, WINE).aadd([f"red wine {n}" for n in range(count)]))
    lm.task = building
    with pytest.raises(asyncio.CancelledError):
        await building
    assert lm.calls < 512  # the first batch is not even finished


class Failing(HashEncoder):
    """Fails on instructions, as long as it has an error to raise."""

    error: BaseException | None = None

    def _encode(self, texts: Sequence[str]) -> Any:
        if self.error is not None and any("Serve" in text for text in texts):
            raise self.error
        return super()._encode(texts)


@pytest.mark.parametrize(
    ("error", "twin"), [(EncoderError("gone"), False), (EncoderError("gone"), True), (KeyboardInterrupt(), False)]
)
async def test_verdicts_survive_an_encoder_that_fails_on_their_instructions(error: BaseException, twin: bool) -> None:
    items = documents()
    expected, calls = built(items)
    lm, encoder = Scripted(), Failing()
    memory = memory_of(lm, encoder=encoder)
    encoder.error = error
    with pytest.raises(type(error)):
        done = method(memory, "add", twin=twin)(items)
        await done
    asked, encoder.error = lm.calls, None
    assert asked and verdicts(memory)
    memory.add(items)
    assert contents(memory, items) == expected
    assert lm.calls <= 2 * calls if twin else lm.calls == calls


# sync and async


def test_that_similarity_decides_where_a_model_did_is_said(path: Path) -> None:
    with opened(path, Scripted()) as memory:
        memory.add(["red wine nowine", "red wine"])
        assert memory.add(["red wine 2"]).warnings == []
    with EpicMemory.open(path, encoder=HashEncoder()) as memory:
        assert isinstance(memory.verifier, EmbeddedVerifier)
        assert memory.add(["blue sky"]).warnings == []
        assert any("language model" in warning for warning in memory.add(["red wine 3"]).warnings)
    with opened(path, Scripted()) as memory:
        assert memory.add(["red wine 4"]).warnings == []


def test_a_cached_verdict_says_what_the_first_one_said() -> None:
    def mixed(asked: Asked) -> str | None:
        if len(asked.preferences) == 1:
            return None
        relevant = [{"preference": 2, "stance": "conflicts", "instruction": "Steer clear of it."}]
        answer = {"chunk": 1, "decision": "Keep", "preferences": relevant, "evidence": "It warns."}
        return json.dumps({"answers": [answer]})

    memory = memory_of(Scripted(hook=mixed))
    memory.add([Item(id="a", text=BOTH)])
    memory.add([Item(id="b", text=BOTH)])
    (own,), (other,) = memory.explain("a").entries, memory.explain("b").entries
    assert replace(other, item_id="a") == own
    assert (own.stance, own.rationale, own.instruction) == (Stance.CONFLICTS, "It warns.", "Steer clear of it.")


def test_a_model_that_fails_for_one_preference_is_asked_about_that_one_again() -> None:
    lm = Scripted()
    memory = memory_of(lm, WINE)
    memory.add([f"{BOTH} nowine"])

    def fails(asked: Asked) -> str | None:
        raise LMError("broken")

    lm.hook = fails
    memory.preferences.add(TRAIN)
    assert (memory.stats().counts["pending"], len(memory)) == (1, 0)
    lm.hook, calls = None, lm.calls
    report = memory.retry()
    assert (report.kept, report.cached) == (1, 1)
    assert [asked.preferences for asked in lm.asked[calls:]] == [(TRAIN,)]
    assert memory.search("train")[0].preferences == [TRAIN]
