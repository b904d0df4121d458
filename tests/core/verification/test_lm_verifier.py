"""A memory whose items a language model verifies: what it is asked, and what its answers become."""

from __future__ import annotations

import asyncio
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import Item
from epic_memory.encoders import default_encoder
from epic_memory.errors import InvalidInputError
from epic_memory.lm import Completion, Message, Token
from epic_memory.lm.prompting import Prompt
from epic_memory.types import Candidate, Decision, Stance, Verdict
from epic_memory.verification import LMVerifier
from epic_memory.verification.embedded import verifier_of
from scripted import (
    DISCARDED,
    EXPECTED,
    ITEMS,
    KEPT,
    PASSED,
    TEXTS,
    TRUTH,
    Add,
    Own,
    Script,
    candidate,
    first_properties,
    instruction_for,
    memory_with,
    nothing_lost,
    own_threads,
    pairs_of,
    preference_read,
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


# The answers of one batch are in the order of PASSED: palms, stew, pun, sleeper, worms, fair. What else leaves a chunk
# without a decision: test_answers.py.
DAMAGES: dict[str, tuple[Callable[[list[Any]], list[Any]], set[str]]] = {
    "the first left out": (lambda answers: answers[1:], {"palms"}),
    "all left out": (lambda answers: [], set(PASSED)),
    "no decision": (lambda answers: [*answers[:2], answers[2] | {"decision": "Perhaps"}, *answers[3:]], {"pun"}),
    "another order": (lambda answers: answers[::-1], set()),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_what_an_answer_leaves_out_or_mangles_is_asked_about_once_more(damage: str, add: Add) -> None:
    alter, again = DAMAGES[damage]
    said = script()

    def answer(messages: Sequence[Message]) -> str:
        answers = json.loads(said(messages))["answers"]
        return json.dumps({"answers": alter(answers) if len(said.asked) == 1 else answers})

    memory = memory_with(LMVerifier(Own(answer), batch_size=8))
    report = await add(memory)

    assert len(said.asked) == report.usage.calls == 1 + bool(again)
    assert {TEXTS[name] for name in again} == {chunk for asked in said.asked[1:] for chunk in asked.chunks}
    assert pairs_of(memory) == EXPECTED
    assert report.usage.retries == bool(again)
    nothing_lost(memory, report, waiting=0)


def test_a_batch_keeps_an_item_under_none_but_its_own_preferences() -> None:
    def answer(messages: Sequence[Message]) -> str:
        asked = read_prompt(messages)
        everything = [
            {"preference": number, "stance": "supports", "instruction": f"For {preference}."}
            for number, preference in enumerate(asked.preferences, start=1)
        ]
        answers = [
            {"chunk": number, "decision": "Keep", "preferences": everything}
            for number in range(1, len(asked.chunks) + 1)
        ]
        return json.dumps({"answers": answers})

    memory = memory_with(LMVerifier(Own(answer), batch_size=8))
    report = memory.add(ITEMS)

    assert report.usage.calls == 1
    assert {pair: said[1] for pair, said in pairs_of(memory).items()} == {
        (name, preference): f"For {preference}." for name, preferences in PASSED.items() for preference in preferences
    }


def decided(candidates: Sequence[Candidate], verdicts: Sequence[Verdict]) -> dict[tuple[str, str], tuple[Stance, str]]:
    """What verdicts keep: stance and instruction by chunk and preference."""
    return {
        (candidate.item.text, preference.text): (alignment.stance, alignment.instruction)
        for candidate, verdict in zip(candidates, verdicts, strict=True)
        for preference in candidate.preferences
        for alignment in verdict.alignments
        if alignment.preference_id == preference.id
    }


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
def test_a_number_means_the_preference_that_this_prompt_shows_under_it(
    lists: list[list[int]], seed: int, batch_size: int, context: int | None
) -> None:
    candidates = [
        candidate(f"Chunk of text {n}.", *(f"Preference {p} of the user" for p in order))
        for n, order in enumerate(lists)
    ]
    truth = {
        (one.item.text, preference.text): list(Stance)[zlib.crc32(f"{seed}{one.item.text}{preference}".encode()) % 4]
        for one in candidates
        for preference in one.preferences
        if zlib.crc32(f"{seed + 1}{one.item.text}{preference}".encode()) % 3 == 0
    }
    said = Script(truth)
    lm = Own(said, context=context)
    verdicts = list(LMVerifier(lm, batch_size=batch_size).verify(candidates))

    assert decided(candidates, verdicts) == {pair: (stance, instruction_for(*pair)) for pair, stance in truth.items()}
    kept = {text for text, _ in truth}
    assert [verdict.decision for verdict in verdicts] == [
        Decision.KEEP if one.item.text in kept else Decision.DISCARD for one in candidates
    ]
    assert sum(verdict.usage.calls for verdict in verdicts if verdict.usage) == len(said.asked)
    for sent in lm.sent:
        size = sum(len(message.content.encode()) for message in sent.messages)
        assert context is None or size // 3 + (sent.max_tokens or 0) <= context


# confidence


def test_each_item_of_a_batch_has_its_own_confidence() -> None:
    said = script()
    logprobs = dict(zip(PASSED, (-0.1, -0.2, -0.3, -0.4, -0.5, -0.6), strict=True))

    def answer(messages: Sequence[Message]) -> Completion:
        text = said(messages)
        order = iter(logprobs.values())
        parts = [part for part in re.split("(Keep|Discard)", text) if part]
        return Completion(
            text=text,
            tokens=tuple(Token(part, next(order) if part in ("Keep", "Discard") else -3.0) for part in parts),
        )

    memory = memory_with(LMVerifier(Own(answer), batch_size=8))
    memory.add(ITEMS)

    for name in KEPT:
        for entry in memory.explain(name).entries:
            assert entry.confidence == pytest.approx(math.exp(logprobs[name]))


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
        assert first_properties(one) == one["required"] == ["chunk", "decision", "preferences", "evidence"]
        assert one["properties"]["chunk"]["enum"] == list(range(1, len(asked.chunks) + 1))
        assert one["properties"]["decision"]["enum"] == ["Keep", "Discard"]
        relevant = one["properties"]["preferences"]["items"]
        assert first_properties(relevant) == relevant["required"] == ["preference", "stance", "instruction"]
        assert relevant["properties"]["preference"]["enum"] == list(range(1, len(asked.preferences) + 1))
        assert relevant["properties"]["stance"]["enum"] == [str(stance) for stance in Stance]
        assert {each["additionalProperties"] for each in (sent.schema, one, relevant)} == {False}
        assert sent.max_tokens is not None and 0 < sent.max_tokens <= 800 * len(asked.chunks)


def test_a_prompt_of_the_users_own_is_sent() -> None:
    own = Prompt(system="Be strict.", user="Tastes:\n{preferences}\nTexts:\n{chunks}\nKeep or Discard?")
    lm = Own(script())
    verifier = LMVerifier(lm, prompt=own)
    memory_with(verifier).add([TEXTS["stew"]])

    (sent,) = lm.sent
    assert sent.messages[0] == Message("system", "Be strict.")
    assert sent.messages[1].content.startswith("Tastes:\n1. Vegan diet\nTexts:\nChunk 1, ")
    names = {verifier.name, LMVerifier(lm).name, LMVerifier(Own(script(), name="other")).name}
    assert len(names) == 3 and LMVerifier(Own(script())).name in names


# what fits


@pytest.mark.parametrize("context", [None, 2048, 8192])
async def test_many_preferences_are_each_shown_once_in_lists_that_fit(context: int | None, add: Add) -> None:
    preferences = [f"Preference {number} about matter {number}" for number in range(100)]
    text = "A chunk about three matters."
    wanted = {preferences[0]: Stance.SUPPORTS, preferences[57]: Stance.CONFLICTS, preferences[99]: Stance.MIXED}
    said = Script({(text, preference): stance for preference, stance in wanted.items()})
    lm = Own(said, context=context)
    memory = memory_with(LMVerifier(lm), preferences=preferences, coarse=False)
    report = await add(memory, [Item(text=text, id="stew"), "Of nothing."])

    assert report.failures == {}
    assert {preference: one[:2] for (_, preference), one in pairs_of(memory).items()} == {
        preference: (stance, instruction_for(text, preference)) for preference, stance in wanted.items()
    }
    for chunk in (text, "Of nothing."):
        shown = [p for asked in said.about(chunk) for p in asked.preferences]
        assert sorted(shown) == sorted(preferences)
    for sent in lm.sent:
        size = sum(len(message.content.encode()) for message in sent.messages)
        assert context is None or size // 3 + (sent.max_tokens or 0) <= context
    assert len(lm.sent) <= 2 * math.ceil(100 / 32)


def test_a_list_without_an_answer_leaves_the_item_undecided() -> None:
    preferences = [f"Preference {number} about matter {number}" for number in range(100)]
    said = Script({("A chunk.", preferences[3]): Stance.SUPPORTS})
    lm = Own(lambda messages: said(messages) if preferences[40] not in user_text(messages) else "Perhaps.")
    report = memory_with(LMVerifier(lm), preferences=preferences, coarse=False).add(["A chunk."])

    assert (report.kept, report.undecided) == (0, 1)
    assert report.usage.calls == 3  # and nothing is asked about the lists behind


# several at once


async def test_as_many_items_are_verified_at_once_as_the_model_takes(add: Add) -> None:
    said = script()

    def answer(messages: Sequence[Message]) -> str:
        if preference_read(messages) is None:
            until(lambda: lm.most_at_once >= 3)
        return said(messages)

    lm = Own(answer, concurrency=3)
    memory = memory_with(LMVerifier(lm, batch_size=1))
    await add(memory)

    assert lm.most_at_once == 3
    assert pairs_of(memory) == EXPECTED


async def test_a_slow_item_does_not_hold_up_the_others(add: Add) -> None:
    committed: list[int] = []
    said = script()

    def answer(messages: Sequence[Message]) -> str:
        if TEXTS["palms"] in user_text(messages):
            until(lambda: len(said.asked) == len(PASSED) - 1)
            committed.append(len(said.asked))
        return said(messages)

    class Threaded(Own):
        async def acomplete(self, messages: Sequence[Message], **settings: Any) -> Completion:
            return await asyncio.to_thread(self.complete, messages, **settings)

    memory = memory_with(LMVerifier(Threaded(answer, concurrency=2), batch_size=1))
    await add(memory)

    assert committed == [len(PASSED) - 1]
    assert pairs_of(memory) == EXPECTED


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


@pytest.mark.parametrize("lm", [None, "qwen3:4b", Own, object(), 7, lambda messages: "Keep"])
def test_what_is_no_language_model_is_refused(lm: Any) -> None:
    with pytest.raises(InvalidInputError, match="language model"):
        LMVerifier(lm)
    nameless = Own(script())
    del nameless.name
    with pytest.raises(InvalidInputError, match="name"):
        LMVerifier(nameless)


def test_nothing_is_asked_before_the_first_add_nor_when_nothing_passes() -> None:
    lm = Own(script())
    memory = memory_with(LMVerifier(lm))
    memory.search("casinos")
    memory.add([TEXTS["ships"]])
    memory.retry()

    assert lm.sent == []


@pytest.mark.parametrize(
    ("preference", "language"),
    [("I avoid casinos.", ""), ("Ich mag keine Hotels mit Casino.", "German"), ("カジノは避けたい。", "Japanese")],
)
def test_instructions_are_asked_for_in_the_language_of_the_preferences(preference: str, language: str) -> None:
    own = Own(lambda messages: '{"answers": [{"chunk": 1, "decision": "Discard", "preferences": []}]}')
    list(LMVerifier(own).verify([candidate("A hotel with a casino.", preference)]))
    wish = f"\n\nWrite the instructions in {language}." if language else ""
    assert f"- {preference}{wish}\n\nChunk 1" in user_text(own.sent[0][0]).replace("1. ", "- ")


@pytest.mark.parametrize(
    ("language", "wish"),
    [
        (None, "\n\nWrite the instructions for preference 2 in German."),
        ("en", ""),
        ("fr", "\n\nWrite the instructions in French."),
    ],
)
def test_the_language_of_instructions_can_be_set(language: str | None, wish: str) -> None:
    own = Own(lambda messages: '{"answers": [{"chunk": 1, "decision": "Discard", "preferences": []}]}')
    verifier = verifier_of(None, default_encoder(), own, language)
    list(verifier.verify([candidate("A hotel with a casino.", "I avoid casinos.", "Ich mag keine Hotels mit Casino.")]))
    assert f"Hotels mit Casino.{wish}\n\nChunk 1" in user_text(own.sent[0][0])
