"""A memory whose items a language model verifies: what it is asked, what becomes of its answers, and of none."""

from __future__ import annotations

import json
import math
import random
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epic_memory.encoders import default_encoder
from epic_memory.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError
from epic_memory.lm import Completion, Message
from epic_memory.lm.prompting import Prompt
from epic_memory.types import Decision, Stance
from epic_memory.verification import LMVerifier
from epic_memory.verification.embedded import verifier_of
from scripted import (
    DISCARDED,
    EXPECTED,
    ITEMS,
    KEPT,
    LONG,
    PASSED,
    SHORT,
    TEXTS,
    TRUTH,
    Add,
    Answer,
    Own,
    Script,
    candidate,
    instruction_for,
    memory_with,
    nothing_lost,
    own_threads,
    pairs_of,
    patient,
    read_prompt,
    script,
    until,
    user_text,
)
from tables import table


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    """Tests here leave no thread of theirs behind."""
    yield
    until(lambda: own_threads() == 0)


# calls


@pytest.mark.parametrize(("batch_size", "concurrency"), [(1, 1), (1, 4), (4, 4), (8, 1)])
async def test_however_many_are_asked_about_at_once_the_memory_is_the_same(
    batch_size: int, concurrency: int, add: Add
) -> None:
    said = script()
    memory = memory_with(LMVerifier(Own(said, concurrency=concurrency), batch_size=batch_size))
    report = await add(memory)

    assert pairs_of(memory) == EXPECTED
    assert (report.seen, report.passed, report.kept, report.discarded) == (7, 6, len(KEPT), len(DISCARDED))
    assert report.entries == len(TRUTH)
    nothing_lost(memory, report, waiting=0)
    assert report.usage.calls == len(said.asked) == math.ceil(report.passed / batch_size)
    assert report.usage.retries == 0
    assert max(len(asked.chunks) for asked in said.asked) == min(batch_size, report.passed)
    shown = {
        chunk: {asked.preferences[number - 1] for number in numbers}
        for asked in said.asked
        for chunk, numbers in zip(asked.chunks, asked.under, strict=True)
    }
    assert shown == {TEXTS[name]: preferences for name, preferences in PASSED.items()}


@given(
    lists=st.lists(
        st.lists(st.integers(0, 40), min_size=1, max_size=40, unique=True).flatmap(st.permutations),
        min_size=1,
        max_size=12,
    ),
    seed=st.integers(0, 10**6),
    batch_size=st.integers(1, 9),
    context=st.sampled_from([None, 1024, 1600, 2500, 8192]),
)
@example(lists=[[*range(100)], [0]], seed=1, batch_size=8, context=None)
@example(lists=[[0], [*range(100)], [1]], seed=2, batch_size=8, context=2048)
def test_a_number_means_the_preference_that_this_prompt_shows_under_it(
    lists: list[list[int]], seed: int, batch_size: int, context: int | None
) -> None:
    candidates = [
        candidate(f"Chunk of text {n}.", *(f"Preference {p} of the user" for p in order))
        for n, order in enumerate(lists)
    ]
    chances = random.Random(seed)
    truth = {
        (one.item.text, preference.text): chances.choice(list(Stance))
        for one in candidates
        for preference in one.preferences
        if chances.random() < 0.3
    }
    said = Script(truth)
    lm = Own(said, context=context)
    verdicts = list(LMVerifier(lm, batch_size=batch_size).verify(candidates))

    decided = {
        (one.item.text, preference.text): (alignment.stance, alignment.instruction)
        for one, verdict in zip(candidates, verdicts, strict=True)
        for preference in one.preferences
        for alignment in verdict.alignments
        if alignment.preference_id == preference.id
    }
    assert decided == {pair: (stance, instruction_for(*pair)) for pair, stance in truth.items()}
    kept = {text for text, _ in truth}
    assert [verdict.decision for verdict in verdicts] == [
        Decision.KEEP if one.item.text in kept else Decision.DISCARD for one in candidates
    ]
    assert sum(verdict.usage.calls for verdict in verdicts if verdict.usage) == len(said.asked)
    assert all(len(asked.preferences) <= 32 for asked in said.asked)
    assert context is not None or len(said.asked) <= sum(math.ceil(len(one) / 32) for one in lists)
    # Each prompt has room for its answer, by a generous count of tokens.
    for sent in lm.sent:
        size = sum(len(message.content.encode()) for message in sent.messages)
        assert context is None or size // 3 + (sent.max_tokens or 0) <= context


# what is sent


def test_the_schema_asks_for_the_decision_first_and_for_nothing_else() -> None:
    lm = Own(script())
    memory_with(LMVerifier(lm)).add(ITEMS)

    for sent in lm.sent:
        asked = read_prompt(sent.messages)
        assert sent.schema is not None and "$ref" not in json.dumps(sent.schema)
        answers = sent.schema["properties"]["answers"]
        assert (answers["minItems"], answers["maxItems"]) == (len(asked.chunks),) * 2
        one = answers["items"]
        assert list(one["properties"]) == one["required"] == ["chunk", "decision", "preferences", "evidence"]
        assert one["properties"]["chunk"]["enum"] == list(range(1, len(asked.chunks) + 1))
        assert one["properties"]["decision"]["enum"] == ["Keep", "Discard"]
        relevant = one["properties"]["preferences"]["items"]
        assert list(relevant["properties"]) == relevant["required"] == ["preference", "stance", "instruction"]
        assert relevant["properties"]["preference"]["enum"] == list(range(1, len(asked.preferences) + 1))
        assert relevant["properties"]["stance"]["enum"] == [str(stance) for stance in Stance]
        assert {each["additionalProperties"] for each in (sent.schema, one, relevant)} == {False}
        assert sent.max_tokens is not None and 0 < sent.max_tokens <= 800 * len(asked.chunks)


def test_a_prompt_of_the_users_own_is_sent_when_something_passes() -> None:
    own = Prompt(system="Be strict.", user="Tastes:\n{preferences}\nTexts:\n{chunks}\nKeep or Discard?")
    lm = Own(script())
    verifier = LMVerifier(lm, prompt=own)
    memory = memory_with(verifier)
    memory.search("casinos")
    memory.add([TEXTS["ships"]])
    memory.retry()
    assert lm.sent == []
    memory.add([TEXTS["stew"]])
    (sent,) = lm.sent
    assert sent.messages[0] == Message("system", "Be strict.")
    assert sent.messages[1].content.startswith("Tastes:\n1. Vegan diet\nTexts:\nChunk 1, ")
    names = {verifier.name, LMVerifier(lm).name, LMVerifier(Own(script(), name="other")).name}
    assert len(names) == 3 and LMVerifier(Own(script())).name in names


# what fits


def test_a_list_without_an_answer_leaves_the_item_undecided() -> None:
    preferences = [f"Preference {number} about matter {number}" for number in range(100)]
    said = Script({("A chunk.", preferences[3]): Stance.SUPPORTS})
    lm = Own(lambda messages: said(messages) if preferences[40] not in user_text(messages) else "Perhaps.")
    report = memory_with(LMVerifier(lm), preferences=preferences, coarse=False).add(["A chunk."])

    assert (report.kept, report.undecided) == (0, 1)
    assert report.usage.calls == 3  # and nothing is asked about the lists behind
    report = memory_with(LMVerifier(Own(said)), preferences=preferences, coarse=False).add(["Of nothing."])
    assert (report.discarded, report.usage.calls) == (1, 4)


# several at once


def test_a_slow_one_does_not_hold_up_the_others() -> None:
    said = script()

    def answer(messages: Sequence[Message]) -> str:
        if TEXTS["stew"] in user_text(messages):
            until(lambda: len(said.asked) == 2)
        return said(messages)

    candidates = [candidate(TEXTS[name], "Vegan diet") for name in ("stew", "pun", "worms")]
    verdicts = list(LMVerifier(Own(answer, concurrency=2), batch_size=1).stream(candidates))
    assert verdicts[-1][0] == 0 and len(verdicts) == 3


# arguments


@pytest.mark.parametrize(
    "options",
    [*table(__file__, "arguments_that_cannot_be_are_refused"), {"prompt": Prompt(system="", user="{preferences}")}],
    ids=str,
)
def test_arguments_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        LMVerifier(Own(script()), **options)
    assert next(iter(options)) in str(caught.value)


def test_what_is_no_language_model_or_no_verifier_is_refused() -> None:
    nameless = Own(script())
    del nameless.name
    for lm, match in (
        (None, "language model"),
        ("qwen3:4b", "language model"),
        (Own, "language model"),
        (nameless, "name"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            LMVerifier(lm)  # type: ignore[arg-type]
    memory = memory_with(LMVerifier(Own(script())))
    for wrong, match in ((object(), "verifier"), ("qwen3:4b", "There is no model")):
        with pytest.raises(InvalidInputError, match=match):
            memory.verifier = wrong  # type: ignore[assignment]


async def test_verdicts_come_as_soon_as_they_are_there() -> None:
    said = script()
    verifier = patient(Own(said), batch_size=1)
    candidates = [candidate(TEXTS["stew"], "Vegan diet")] * 3
    verdicts = verifier.verify(candidates)
    assert next(verdicts).decision is Decision.KEEP and len(said.asked) == 1
    assert len(list(verdicts)) == 2 and len(said.asked) == 3
    assert [verdict.decision async for verdict in verifier.averify(candidates)] == [Decision.KEEP] * 3


GERMAN = "Ich mag keine Hotels mit Casino."


@pytest.mark.parametrize(
    ("language", "preferences", "wish"),
    table(__file__, "instructions_are_asked_for_in_the_language_of_the_preferences_or_the_one_that_is_set"),
)
def test_instructions_are_asked_for_in_the_language_of_the_preferences_or_the_one_that_is_set(
    language: str | None, preferences: list[str], wish: str
) -> None:
    own = Own(lambda messages: '{"answers": [{"chunk": 1, "decision": "Discard", "preferences": []}]}')
    verifier = verifier_of(None, default_encoder(), own, language)
    list(verifier.verify([candidate("A hotel with a casino.", *preferences)]))
    assert f". {preferences[-1]}{wish}\n\nChunk 1" in user_text(own.sent[0][0])


# answers that are none


@pytest.mark.parametrize("garbage", ["", "Behalten, weil es passt.", "\x00\ud800", "the the " * 5000])
async def test_garbage_is_asked_about_once_more_and_then_waits(garbage: str, add: Add) -> None:
    lm = Own(lambda messages: garbage)
    memory = memory_with(patient(lm))
    report = await add(memory)

    assert (report.kept, report.discarded) == (0, 0)
    nothing_lost(memory, report, waiting=len(PASSED))
    assert len(lm.sent) == report.usage.calls == 2
    assert report.usage.retries == 1
    assert set(report.failures) == set(PASSED)
    shown = garbage.replace("\ud800", "?").replace("\x00", "")
    assert report.answers == (dict.fromkeys(PASSED, shown[:4000]) if shown else {})
    explanation = memory.explain("stew")
    assert explanation.entries == () and shown[:100] in explanation.note
    for said in (explanation.note, *report.failures.values()):
        assert "could not be understood" in said

    lm.answer = script()
    again = memory.retry()
    assert (again.kept, again.discarded) == (len(KEPT), len(DISCARDED))
    nothing_lost(memory, again, waiting=0)
    assert pairs_of(memory) == EXPECTED


# what does not fit


@pytest.mark.parametrize("batch_size", [1, 4])
async def test_a_chunk_that_does_not_fit_is_not_sent_and_verified_by_a_model_with_more_room(
    batch_size: int, add: Add
) -> None:
    said = script()
    memory = memory_with(LMVerifier(Own(said, context=512), batch_size=batch_size, prompt=SHORT, max_tokens=64))
    report = await add(memory, [*ITEMS[:2], LONG, *ITEMS[2:]])

    assert pairs_of(memory) == EXPECTED
    assert said.about(LONG.text) == [] == said.about(LONG.text.strip())
    nothing_lost(memory, report, waiting=1)
    assert re.search(r"too long.*\b[89]\d\d tokens.*512.*WordChunker.*context=", report.failures["long"], re.S)
    assert report.usage.calls == len(said.asked)
    memory.verifier = LMVerifier(Own(said, context=8192))
    again = memory.retry()
    nothing_lost(memory, again, waiting=0)
    assert again.discarded == 1


def test_a_context_too_small_for_anything_sends_nothing() -> None:
    lm = Own(script(), context=512)
    memory = memory_with(LMVerifier(lm))
    report = memory.add(ITEMS)

    assert lm.sent == []
    nothing_lost(memory, report, waiting=len(PASSED))
    assert all("512" in reason and "tokens" in reason for reason in report.failures.values())
    assert (report.usage.calls, report.usage.retries) == (0, 0)


# a model that fails


class Failing:
    """Raises `error` for so many calls, then answers."""

    def __init__(self, error: BaseException, times: float, answer: Answer) -> None:
        self.error = error
        self.times = times
        self.answer = answer

    def __call__(self, messages: Sequence[Message]) -> str | Completion:
        if self.times > 0:
            self.times -= 1
            raise self.error
        return self.answer(messages)


AWAY = LMUnavailableError("broken pipe dream")
STRANGE = type("Strange", (Exception,), {})("out of memory, broken pipe dream")


@pytest.mark.parametrize(("batch_size", "error"), [(1, AWAY), (8, STRANGE)])
async def test_a_model_that_fails_for_good_is_left_alone_after_two_calls(
    batch_size: int, error: Exception, add: Add
) -> None:
    lm = Own(Failing(error, math.inf, script()))
    memory = memory_with(patient(lm, batch_size=batch_size, retries=2))
    report = await add(memory)

    assert len(lm.sent) == report.usage.calls == 2 * 3
    assert report.usage.retries == 2 * 2 + (batch_size > 1)
    nothing_lost(memory, report, waiting=len(PASSED))
    assert all("broken pipe dream" in reason for reason in report.failures.values())

    # Another round begins with one attempt.
    memory.retry()
    assert len(lm.sent) == 7

    lm.answer.times = 0  # type: ignore[attr-defined]
    again = memory.retry()
    nothing_lost(memory, again, waiting=0)
    assert pairs_of(memory) == EXPECTED


@pytest.mark.parametrize(
    ("words", "error", "lost", "calls"),
    [
        # Those that were asked about together with it are asked about by themselves.
        (TEXTS["stew"], OSError("no beans"), {"stew"}, None),
        # A request that is refused is not asked again.
        ("casinos", LMError("I do not talk about that."), {"palms", "fair"}, 1 + len(PASSED)),
        # What the user has to change is asked once.
        ("", LMSetupError("Pull it first."), set(PASSED), 1),
    ],
)
async def test_what_fails_for_some_does_not_stop_the_others(
    words: str, error: Exception, lost: set[str], calls: int | None, add: Add
) -> None:
    said = script()

    def answer(messages: Sequence[Message]) -> str:
        if words in user_text(messages):
            raise error
        return said(messages)

    lm = Own(answer)
    memory = memory_with(patient(lm, retries=2))
    report = await add(memory)

    nothing_lost(memory, report, waiting=len(lost))
    assert set(report.failures) == lost and all(str(error) in reason for reason in report.failures.values())
    assert calls is None or len(lm.sent) == calls
    assert pairs_of(memory) == {pair: said for pair, said in EXPECTED.items() if pair[0] not in lost}


async def test_a_model_without_acomplete_is_called_in_a_thread() -> None:
    said = script()
    threads: set[int] = set()

    class Half:
        name = "half"
        concurrency = 1
        context = None

        def complete(self, messages: Sequence[Message], **settings: Any) -> Completion:
            threads.add(threading.get_ident())
            return Completion(text=said(messages))

    memory = memory_with(patient(Half(), retries=0))  # type: ignore[arg-type]
    await memory.aadd(ITEMS)

    assert pairs_of(memory) == EXPECTED
    assert threading.get_ident() not in threads
