"""What a model could not decide: it waits, says why, is decided later; and what the model took is reported."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from epic_memory import BuildReport, EpicMemory, Item
from epic_memory.errors import RetryQueueFullError
from helpers import method
from scripted import BOTH, TRAIN, WINE, Asked, Scripted, built, contents, documents, held, memory_of, opened

pytestmark = pytest.mark.usefixtures("locking")

BROKEN = "Perhaps, perhaps not."


def broken(asked: Asked) -> str | None:
    """Nothing can be read."""
    return BROKEN


def sometimes(*words: str) -> Any:
    """What names one of the words cannot be read."""
    return lambda asked: BROKEN if any(word in chunk for chunk in asked.chunks for word in words) else None


def waiting(memory: EpicMemory) -> int:
    return memory.stats().counts["pending"]


def wines(*numbers: int) -> list[Item]:
    return [Item(id=f"wine {n}", text=f"red wine {n}") for n in numbers]


# waiting


@pytest.mark.parametrize("batch_size", [1, 8])
def test_what_cannot_be_decided_waits_and_is_decided_later(batch_size: int) -> None:
    lm, items = Scripted(hook=broken), documents()
    memory = memory_of(lm, batch_size=batch_size)
    report = memory.add(items)
    assert (report.passed, report.undecided, report.kept, report.discarded) == (16, 16, 0, 0)
    assert waiting(memory) == 16 and len(memory) == 0
    assert memory.retry().undecided == 16 and waiting(memory) == 16
    lm.hook = None
    report = memory.retry()
    assert (report.seen, report.kept, report.discarded, report.undecided) == (16, 12, 4, 0)
    assert waiting(memory) == 0
    assert contents(memory, items) == built(items, batch_size=batch_size)[0]


def test_the_report_says_why_and_what_the_model_said_and_so_does_explain(path: Path) -> None:
    with opened(path, Scripted(hook=sometimes("2"))) as memory:
        report = memory.add(wines(1, 2, 3))
    assert (report.kept, report.undecided) == (2, 1)
    assert report.failures.keys() == report.answers.keys() == {"wine 2"}
    assert "could not be understood" in report.failures["wine 2"]
    assert report.answers["wine 2"] == BROKEN
    assert "1 items are undecided" in report.warnings[0] and "memory.retry()" in report.warnings[0]
    assert "undecided" in str(report) and report.failures["wine 2"] in str(report)
    # What it took: four calls, one of them again.
    assert re.search(r"language model +4 calls \(1 again\) +28 \+ 12 tokens +\d+\.\d s in calls", str(report))
    with opened(path, Scripted()) as memory:
        explanation = memory.explain("wine 2")
        assert "language model" not in str(memory.add(wines(1)))
    assert explanation.item == wines(2)[0] and explanation.entries == ()
    for said in (explanation.note, str(explanation)):
        assert "retry queue" in said and "could not be understood" in said and BROKEN in said


def test_of_many_failures_the_first_hundred_are_told_and_long_answers_wait_shortened() -> None:
    long = "perhaps " * 10_000
    memory = memory_of(Scripted(hook=lambda asked: long))
    report = memory.add(wines(*range(130)))
    assert report.undecided == waiting(memory) == 130
    assert len(report.failures) == len(report.answers) == 100 and {*report.answers.values()} == {long[:4000]}
    note = memory.explain("wine 129").note
    assert "perhaps perhaps" in note and len(note) < 1000


def test_an_undecided_item_that_was_held_with_the_same_text_stays_held(path: Path) -> None:
    lm = Scripted()
    with opened(path, lm, WINE) as memory:
        memory.add([Item(id="a", text=BOTH)])
        lm.hook = lambda asked: "A secret, perhaps."
        assert memory.preferences.add(TRAIN).undecided == 1
        assert memory.search("wine")[0].preferences == [WINE] and waiting(memory) == 1
        explanation = memory.explain("a")
        assert [entry.preference for entry in explanation.entries] == [WINE]
        assert "Undecided" in explanation.note and "secret" in explanation.note
        # What the model said goes with a preference that it was asked about.
        memory.add([Item(id="b", text=BOTH + " again")])
        memory.preferences.remove(TRAIN)
        assert "secret" not in memory.explain("b").note
        lm.hook = None
        assert memory.retry().kept == 1 and waiting(memory) == 0
    assert b"secret" not in path.read_bytes()


# bounded


def test_a_full_queue_is_an_error_that_says_how_many_and_what_to_do() -> None:
    memory = memory_of(Scripted(hook=broken), retry_queue=3)
    with pytest.raises(RetryQueueFullError) as caught:
        memory.add(wines(*range(10)))
    message = str(caught.value)
    assert re.search(r"\b3 items wait", message)
    # Of those that came at once: on a slow machine not all of them do.
    assert re.search(r"\b[1-7] more are undecided \(first 'wine \d'\)", message)
    assert "memory.retry()" in message and "add the same items again" in message
    assert "could not be understood" in message
    assert waiting(memory) == 3


@pytest.mark.parametrize("twin", [False, True])
@pytest.mark.parametrize(("bound", "concurrency"), [(0, 1), (7, 1), (7, 4)])
async def test_a_full_queue_loses_nothing(
    bound: int, concurrency: int, twin: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All answers come in one batch, however slow the machine is.
    monkeypatch.setattr("epic_memory.runtime.streaming._MOMENT", 60.0)
    items = documents(6)
    expected, _ = built(items)
    lm = Scripted(hook=sometimes("1", "3", "4", "5"), concurrency=concurrency)
    memory = memory_of(lm, retry_queue=bound)
    with pytest.raises(RetryQueueFullError):
        await method(memory, "add", twin=twin)(items)
    assert waiting(memory) == bound
    # What was decided beside it is kept.
    assert all(f"item {n}" in held(memory, items) for n in (0, 2))
    lm.hook = None
    assert memory.retry().undecided == 0
    memory.add(items)
    assert contents(memory, items) == expected


def test_items_that_wait_already_take_no_other_place(path: Path) -> None:
    with opened(path, Scripted(hook=broken), retry_queue=2) as memory:
        memory.add(wines(1, 2))
    memory = opened(path, Scripted(hook=broken), retry_queue=2)
    report = memory.add(wines(1, 2))
    assert (report.duplicates, report.waiting) == (2, 2)
    assert any("wait in the retry queue" in warning for warning in report.warnings)
    # Undecided once more, with other metadata, with another text.
    assert memory.retry().undecided == 2
    memory.add([Item(id="wine 1", text="red wine 1", metadata={"n": 1})])
    memory.add([Item(id="wine 2", text="red wine 2 anew")])
    assert waiting(memory) == 2
    assert memory.explain("wine 1").item.metadata == {"n": 1}
    assert memory.explain("wine 2").item.text == "red wine 2 anew"
    with pytest.raises(RetryQueueFullError):
        memory.add(wines(3))
    memory.close()
    with opened(path, Scripted(hook=broken), retry_queue=3) as memory:
        assert memory.add(wines(3)).undecided == 1


def test_an_earlier_version_stays_where_there_is_no_room_for_the_new_one() -> None:
    lm = Scripted(hook=sometimes("new"))
    memory = memory_of(lm, retry_queue=0)
    memory.add([Item(id="a", text="red wine old")])
    with pytest.raises(RetryQueueFullError):
        memory.add([Item(id="a", text="red wine new")])
    assert memory.explain("a").item.text == "red wine old" and len(memory.search("wine")) == 1
    lm.hook = None
    memory.add([Item(id="a", text="red wine new")])
    assert [hit.item.text for hit in memory.search("wine")] == ["red wine new"]


def test_the_queue_of_one_namespace_takes_no_place_of_another(path: Path) -> None:
    lm = Scripted(hook=broken)
    options: dict[str, Any] = {"retry_queue": 1}
    with opened(path, lm, WINE, namespace="ann", **options) as ann:
        ann.add(wines(1))
        with opened(path, lm, WINE, namespace="bob", **options) as bob:
            assert bob.add(wines(1)).undecided == 1
            assert waiting(ann) == waiting(bob) == 1


# what it took


def used(report: BuildReport) -> tuple[int, int, int, int]:
    usage = report.usage
    return usage.calls, usage.retries, usage.prompt_tokens, usage.completion_tokens


def test_the_report_counts_calls_and_tokens() -> None:
    memory = memory_of(Scripted())
    report = memory.add(documents())
    assert used(report) == (16, 0, 16 * 7, 16 * 3) and report.usage.seconds > 0
    assert used(memory.add(wines(0))) == (0, 0, 0, 0)  # the text is known
    assert used(memory.preferences.add("sky")) == (4, 0, 4 * 7, 4 * 3)  # those of the light tier that are near


@pytest.mark.parametrize("twin", [False, True])
async def test_every_operation_reports_what_it_took(twin: bool) -> None:
    lm, calls = Scripted(), []
    memory = memory_of(lm, WINE)
    for name, *arguments in (
        ("add", [Item(id="a", text=BOTH)]),
        ("preferences.add", TRAIN),
        ("preferences.replace", WINE, "red train"),
        ("preferences.remove", "red train"),
        ("retry",),
    ):
        done = method(memory, name, twin=twin)(*arguments)
        calls.append((await done if twin else done).usage.calls)
    assert calls == [1, 1, 1, 0, 0] and sum(calls) == lm.calls
