"""A memory whose items a language model verifies: answers that are none, what does not fit, and models that fail."""

from __future__ import annotations

import json
import math
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from epic_core import Item
from epic_core.errors import LMError, LMSetupError, LMUnavailableError
from epic_core.lm import Completion, Message
from epic_core.lm.prompting import Prompt
from epic_core.verification import LMVerifier
from epic_core.verification.prompts import Prompts
from scripted import (
    DISCARDED,
    EXPECTED,
    ITEMS,
    KEPT,
    LONG,
    PASSED,
    SHORT,
    SIMPLE,
    TEXTS,
    WAYS,
    Add,
    Answer,
    Own,
    in_each_form,
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


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    """Tests here leave no thread of theirs behind."""
    yield
    until(lambda: own_threads() == 0)


# answers in other forms than the one asked for


FORMS = list(in_each_form({"decision": "", "rationale": "", "preferences": []}))


@pytest.mark.parametrize("form", FORMS)
async def test_a_schema_that_is_ignored_does_not_matter(form: str, add: Add) -> None:
    said = script()
    lm = Own(lambda messages: in_each_form(json.loads(said(messages)))[form])
    memory = memory_with(LMVerifier(lm))
    report = await add(memory, SIMPLE)

    assert report.failures == {}
    assert (report.kept, report.discarded) == (1, 1)
    assert {pair: said[:2] for pair, said in pairs_of(memory).items()} == {
        pair: said[:2] for pair, said in EXPECTED.items() if pair[0] == "stew"
    }
    assert report.usage.calls == 2


UNREADABLE = {
    "empty": "",
    "white space": " \n\t ",
    "another language": "Behalten, weil es zur veganen Ernährung passt.",
    "JSON in another language": '{"Entscheidung": "Behalten", "Begründung": "Es passt."}',
    "no decision": "I think this is an interesting text.",
    "both": "Keep or Discard? It is hard to say.",
    "neither": '{"decision": "Maybe", "rationale": "Who knows.", "preferences": []}',
    "a refusal": "I'm sorry, but I can't help with that.",
    "two decisions": '{"decision": "Keep", "preferences": [1]}\n{"decision": "Discard", "preferences": []}',
    "thinking without end": "<think>Keep it? Let me see. Keep. No, Discard.",
    "the schema itself": '{"type": "object", "properties": {"decision": {"enum": ["Keep", "Discard"]}}}',
    "HTML": "<html><body><h1>502 Bad Gateway</h1></body></html>",
    "repetition": "the the " * 5000,
    "NULs and surrogates": "\x00\ud800",
}


@pytest.mark.parametrize(
    ("way", "garbage"),
    [*(("single", garbage) for garbage in UNREADABLE), ("paper", "no decision"), ("batch", "no decision")],
)
async def test_garbage_is_asked_about_once_more_and_then_waits(way: Any, garbage: str, add: Add) -> None:
    lm = Own(lambda messages: UNREADABLE[garbage])
    memory = memory_with(patient(lm, way=way))
    report = await add(memory)

    assert (report.kept, report.discarded) == (0, 0)
    nothing_lost(memory, report, waiting=len(PASSED))
    assert len(lm.sent) == 2 * len(PASSED) + (way == "batch")
    assert set(report.failures) == set(PASSED)
    assert all("could not be understood" in reason for reason in report.failures.values())
    shown = UNREADABLE[garbage].replace("\ud800", "?").replace("\x00", "")
    assert report.answers == (dict.fromkeys(PASSED, shown[:4000]) if shown else {})

    lm.answer = script()
    again = memory.retry()
    assert (again.kept, again.discarded) == (len(KEPT), len(DISCARDED))
    nothing_lost(memory, again, waiting=0)
    assert pairs_of(memory) == EXPECTED


def test_a_repair_shows_the_model_what_it_said() -> None:
    said = script()
    lm = Own(lambda messages: "Behalten, weil es passt." if len(messages) == 2 else said(messages))
    memory = memory_with(LMVerifier(lm))
    report = memory.add(ITEMS)

    assert pairs_of(memory) == EXPECTED
    assert (report.usage.calls, report.usage.retries) == (2 * report.passed, report.passed)
    for first, second in zip(lm.sent[::2], lm.sent[1::2], strict=True):
        assert second.messages[:2] == first.messages
        assert [message.role for message in second.messages[2:]] == ["assistant", "user"]
        assert second.messages[2].content == "Behalten, weil es passt."
        assert second.messages[3].content
        assert (second.schema, second.max_tokens) == (first.schema, first.max_tokens)

    lm.answer = lambda messages: "Behalten, weil es passt."
    memory.add([Item(text=f"{TEXTS['stew']} Again.", id="again")])
    explanation = memory.explain("again")
    assert explanation.entries == ()
    assert "could not be understood" in explanation.note and "Behalten, weil es passt." in explanation.note


# answers that are cut


def cut_at_first(answer: Answer, share: float = 0.2) -> Answer:
    """Cuts the first answer to a prompt, and no later one."""
    seen: Counter[str] = Counter()

    def cutting(messages: Sequence[Message]) -> str | Completion:
        seen[user_text(messages)] += 1
        text = str(answer(messages))
        if seen[user_text(messages)] > 1:
            return text
        return Completion(text=text[: int(share * len(text))], cut=True)

    return cutting


@pytest.mark.parametrize(("way", "share"), [("single", 0.05), ("single", 0.2), ("single", 0.8), ("paper", 0.2)])
async def test_an_answer_that_was_cut_is_asked_for_again_with_more_room(way: Any, share: float, add: Add) -> None:
    lm = Own(cut_at_first(script(), share))
    memory = memory_with(LMVerifier(lm, way=way))
    report = await add(memory, [item for item in ITEMS if item.id in KEPT])

    assert pairs_of(memory) == EXPECTED
    assert report.usage.retries == report.usage.calls / 2
    for first, second in zip(lm.sent[::2], lm.sent[1::2], strict=True):
        assert second.messages == first.messages
        assert second.max_tokens == 2 * (first.max_tokens or 0)


async def test_an_instruction_that_was_left_out_is_asked_for_by_itself(add: Add) -> None:
    said = script()

    def forgetful(messages: Sequence[Message]) -> str:
        answer: str = said(messages)
        if read_prompt(messages).kind != "single":
            return answer
        stated = json.loads(answer)
        for relevant in stated["preferences"][:1]:
            del relevant["instruction"]
        return json.dumps(stated)

    lm = Own(forgetful)
    memory = memory_with(LMVerifier(lm))
    report = await add(memory, ITEMS)

    assert pairs_of(memory) == EXPECTED
    kinds = Counter(read_prompt(sent.messages).kind for sent in lm.sent)
    assert kinds == {"single": report.passed, "instruct": report.kept}
    assert report.usage.retries == 0


def test_a_batch_that_was_cut_is_used_as_far_as_it_goes() -> None:
    said = script()
    cut = cut_at_first(said, 0.6)
    lm = Own(lambda messages: cut(messages) if "Chunk 1," in user_text(messages) else said(messages))
    memory = memory_with(LMVerifier(lm, way="batch"))
    report = memory.add(ITEMS)

    assert pairs_of(memory) == EXPECTED
    assert 1 < report.usage.calls < 1 + report.passed


def test_without_more_room_a_cut_answer_is_repaired() -> None:
    own = Prompt(system="", user="{preferences}\n{chunk}")
    lm = Own(lambda messages: Completion(text="x" * 30, cut=True), context=256)
    memory = memory_with(LMVerifier(lm, prompts=Prompts(single=own), max_tokens=150))
    report = memory.add([TEXTS["stew"]])

    assert report.undecided == 1
    assert [len(sent.messages) for sent in lm.sent] == [1, 3]
    assert [sent.max_tokens for sent in lm.sent] == [150, 150]


@pytest.mark.parametrize("way", WAYS)
def test_the_length_of_answers_can_be_chosen(way: Any) -> None:
    lm = Own(script())
    memory_with(LMVerifier(lm, way=way, max_tokens=333)).add(ITEMS)

    assert {sent.max_tokens for sent in lm.sent} == {333}


# what does not fit


@pytest.mark.parametrize("way", WAYS)
async def test_a_chunk_that_does_not_fit_is_not_sent(way: Any, add: Add) -> None:
    said = script()
    memory = memory_with(LMVerifier(Own(said, context=512), way=way, prompts=SHORT, max_tokens=64))
    report = await add(memory, [*ITEMS[:2], LONG, *ITEMS[2:]])

    assert pairs_of(memory) == EXPECTED
    assert said.about(LONG.text) == [] == said.about(LONG.text.strip())
    nothing_lost(memory, report, waiting=1)
    reason = report.failures["long"]
    assert "too long" in reason and "512" in reason
    assert re.search(r"\b[89]\d\d tokens", reason)
    assert "WordChunker" in reason and "context=" in reason
    assert report.usage.calls == len(said.asked)


def test_a_chunk_that_did_not_fit_is_verified_by_a_model_with_more_room() -> None:
    said = script()
    memory = memory_with(LMVerifier(Own(said, context=512), prompts=SHORT, max_tokens=64))
    memory.add([LONG])
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
WAYS_TO_FAIL = [("single", AWAY), ("single", STRANGE), ("paper", AWAY), ("batch", STRANGE)]


@pytest.mark.parametrize(("way", "error"), WAYS_TO_FAIL)
async def test_a_model_that_fails_for_a_while_is_asked_again(way: Any, error: Exception, add: Add) -> None:
    memory = memory_with(patient(Own(Failing(error, 3, script())), way=way, retries=3))
    report = await add(memory)

    assert pairs_of(memory) == EXPECTED
    assert report.usage.retries == 3
    nothing_lost(memory, report, waiting=0)


@pytest.mark.parametrize(("way", "error"), WAYS_TO_FAIL)
async def test_a_model_that_fails_for_good_is_left_alone_after_two_items(way: Any, error: Exception, add: Add) -> None:
    lm = Own(Failing(error, math.inf, script()))
    memory = memory_with(patient(lm, way=way, batch_size=2, retries=2))
    report = await add(memory)

    assert len(lm.sent) == report.usage.calls == 2 * 3
    assert report.usage.retries == 2 * 2 + (way == "batch")
    nothing_lost(memory, report, waiting=len(PASSED))
    assert all("broken pipe dream" in reason for reason in report.failures.values())

    # Another round begins with one attempt.
    memory.retry()
    assert len(lm.sent) == 7

    lm.answer.times = 0  # type: ignore[attr-defined]
    again = memory.retry()
    nothing_lost(memory, again, waiting=0)
    assert pairs_of(memory) == EXPECTED


def test_one_item_that_always_fails_does_not_stop_the_others() -> None:
    said = script()

    def answer(messages: Sequence[Message]) -> str:
        if TEXTS["stew"] in user_text(messages):
            raise OSError("no beans")
        return said(messages)

    memory = memory_with(patient(Own(answer), retries=2))
    report = memory.add(ITEMS)

    nothing_lost(memory, report, waiting=1)
    assert list(report.failures) == ["stew"]
    assert pairs_of(memory) == {pair: said for pair, said in EXPECTED.items() if pair[0] != "stew"}


async def test_what_the_user_has_to_change_is_asked_once(add: Add) -> None:
    lm = Own(Failing(LMSetupError("Pull it first."), math.inf, script()))
    memory = memory_with(patient(lm))
    report = await add(memory)

    assert len(lm.sent) == 1
    nothing_lost(memory, report, waiting=len(PASSED))
    assert set(report.failures.values()) == {"Pull it first."}


async def test_a_refused_request_is_not_asked_again_and_others_are(add: Add) -> None:
    said = script()

    def answer(messages: Sequence[Message]) -> str:
        if "casinos" in user_text(messages):
            raise LMError("I do not talk about that.")
        return said(messages)

    lm = Own(answer)
    memory = memory_with(patient(lm))
    report = await add(memory)

    assert set(report.failures) == {"palms", "fair"}
    assert len(lm.sent) == report.passed
    assert pairs_of(memory) == {pair: said for pair, said in EXPECTED.items() if pair[0] not in report.failures}


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
