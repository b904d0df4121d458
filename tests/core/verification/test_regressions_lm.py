"""What once went wrong where a language model decides."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from epic_memory import EpicMemory, Item
from epic_memory.errors import InvalidInputError, LMUnavailableError
from epic_memory.lm import Completion
from epic_memory.types import Candidate, Decision, Preference
from epic_memory.verification import EmbeddedVerifier
from helpers import HashEncoder
from scripted import BOTH, TRAIN, WINE, Asked, Scripted, memory_of, opened, rows, verifier_of


def copies(count: int, text: str = "red wine") -> list[Item]:
    return [Item(id=f"copy {n}", text=text) for n in range(count)]


# copies of a text


@pytest.mark.parametrize("verdict_cache", [1, 10_000])
@pytest.mark.slow
def test_copies_of_a_text_share_one_question_also_where_it_has_no_answer(verdict_cache: int) -> None:
    lm = Scripted(hook=lambda asked: "Perhaps.")
    memory = memory_of(lm, WINE, verdict_cache=verdict_cache)
    report = memory.add(copies(3000))
    # 512 items are a batch; each asks, and asks again.
    assert report.undecided == 3000 and report.usage.calls == 2 * 6
    lm.hook = None
    assert memory.retry().kept == 3000


def test_copies_do_not_ask_a_server_that_is_down_again_and_again() -> None:
    def down(asked: Asked) -> str | None:
        raise LMUnavailableError("down")

    memory = memory_of(Scripted(hook=down), WINE)
    report = memory.add(copies(200) + copies(200, "more red wine"))
    assert report.undecided == 200 and report.usage.calls <= 8


# cancellation


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_cancellation_that_comes_with_the_last_answer_is_not_swallowed(
    monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    monkeypatch.setattr("epic_memory.runtime.streaming._MOMENT", 0.0)  # each answer is committed as it comes

    class Cancelling(Scripted):
        task: asyncio.Task[Any] | None = None
        at = 1
        cancelled = False

        async def acomplete(self, *messages: Any, **settings: Any) -> Completion:
            answer = await super().acomplete(*messages, **settings)
            if self.calls >= self.at and self.task is not None and not self.cancelled:
                self.cancelled = True
                await asyncio.sleep(0)
                self.task.cancel()
            return answer

    for at, count in itertools.product((1, 2, 3), (1, 3, 600)):
        lm = Cancelling(concurrency=concurrency, seconds=0.0)
        lm.at = min(at, count)
        memory = memory_of(lm, WINE)
        lm.task = asyncio.create_task(memory.aadd([f"red wine {n}" for n in range(count)]))
        with pytest.raises(asyncio.CancelledError):
            await lm.task
        assert lm.calls < 512  # the first batch is not even finished


async def test_verdicts_in_order_come_as_soon_as_they_are_there() -> None:
    lm = Scripted()
    verifier = verifier_of(lm)
    encoder = HashEncoder()
    preference = Preference(text=WINE)
    vector = encoder.vector(WINE)
    candidates = [
        Candidate(
            item=item,
            embedding=vector,
            preferences=(preference,),
            similarities=(1.0,),
            preference_embeddings=vector[None, :],
        )
        for item in [Item(text=f"red wine {n}") for n in range(3)]
    ]
    verdicts = verifier.verify(candidates)
    assert next(verdicts).decision is Decision.KEEP and lm.calls == 1
    assert len(list(verdicts)) == 2 and lm.calls == 3
    assert [verdict.decision async for verdict in verifier.averify(candidates)] == [Decision.KEEP] * 3


# who decides


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


def test_a_verifier_that_cannot_be_is_refused_later_too() -> None:
    memory = memory_of(Scripted())
    with pytest.raises(InvalidInputError, match="verifier"):
        memory.verifier = object()  # type: ignore[assignment]
    with pytest.raises(InvalidInputError, match="There is no model"):
        memory.verifier = "qwen3:4b"  # type: ignore[assignment]


# the cache


def test_a_cache_that_is_too_small_says_so() -> None:
    memory = memory_of(Scripted(), WINE, verdict_cache=5)
    assert memory.add([f"red wine nowine {n}" for n in range(5)]).warnings == []
    warnings = memory.add([f"more red wine nowine {n}" for n in range(5)]).warnings
    assert any("verdict_cache" in warning for warning in warnings)


def test_a_file_opened_without_a_cache_has_none(path: Path) -> None:
    with opened(path, Scripted()) as memory:
        memory.add(["red wine nowine"])
    assert rows(path) == 1
    opened(path, Scripted(), verdict_cache=0).close()
    assert rows(path) == 0


def test_namespaces_and_texts_cannot_be_mistaken_for_each_other(path: Path) -> None:
    with opened(path, Scripted(), "red n\x1fwine", namespace="a") as memory:
        memory.add(["red n\x1fwine here"])
    lm = Scripted()
    with opened(path, lm, "red wine", "wine", namespace="a\x1fred n") as memory:
        memory.add(["wine here", "n\x1fwine here"])
    assert lm.calls == 2


# removal


def test_what_a_model_said_goes_with_the_preference_it_was_asked_about(path: Path) -> None:
    with opened(path, Scripted(hook=lambda asked: "A secret, perhaps.")) as memory:
        memory.add([Item(id="a", text=BOTH)])
        memory.preferences.remove(TRAIN)
        assert "secret" not in memory.explain("a").note
        memory.verifier = verifier_of(Scripted())
        assert memory.retry().kept == 1
    assert b"secret" not in path.read_bytes()


def test_an_item_that_is_held_and_waits_says_both() -> None:
    lm = Scripted()
    memory = memory_of(lm, WINE)
    memory.add([Item(id="a", text=BOTH)])
    lm.hook = lambda asked: "Perhaps."
    memory.preferences.add(TRAIN)
    explanation = memory.explain("a")
    assert [entry.preference for entry in explanation.entries] == [WINE]
    assert "Undecided" in explanation.note
