"""Verification by a model behind a server, over real HTTP: both protocols, and all that servers do wrong."""

from __future__ import annotations

import asyncio
import json
import math
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from epic_core import EpicMemory, Item
from epic_core.errors import LMSetupError
from epic_core.types import Stance
from epic_core.verification import LMVerifier
from helpers import HashEncoder
from lm_servers import LMServer, Reply, in_turn
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
    TRUTH,
    WAYS,
    Add,
    Answers,
    Model,
    Script,
    adding,
    anew,
    first_properties,
    forget_environment,
    in_each_form,
    instruction_for,
    memory_with,
    model_of,
    nothing_lost,
    pairs_of,
    read_prompt,
    user_text,
)

Make: TypeAlias = Callable[..., Model]
Json: TypeAlias = dict[str, Any]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_environment(monkeypatch)


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def server(answers: Answers) -> Iterator[LMServer]:
    with LMServer(answers) as server:
        yield server


@pytest.fixture
def make(server: LMServer, kind: str) -> Make:
    """Models of both kinds."""
    return lambda **settings: model_of(server, kind, **{"timeout": 10.0, **settings})


# The server may have to be stopped and started meanwhile, so nothing else may block the event loop either.
@pytest.fixture(params=["thread", "async"], ids=["sync", "async"])
def add(request: pytest.FixtureRequest) -> Add:
    """Adds `ITEMS`, or others, by one path or the other."""
    return adding(request.param)


def patient(lm: Model, **options: Any) -> LMVerifier:
    """A verifier that waits for a moment only."""
    return LMVerifier(lm, **{"backoff": 0.002, **options})


def mended(memory: EpicMemory, answers: Answers, waiting: set[str]) -> None:
    """Once the server is well, what waits is decided, and nothing else is asked about."""
    answers.well()
    before = len(answers.said.asked)
    again = memory.retry()
    assert again.passed == len(waiting)
    nothing_lost(memory, again, waiting=0)
    asked = {chunk for one in answers.said.asked[before:] for chunk in one.chunks}
    assert asked == {TEXTS[name] for name in waiting}
    assert pairs_of(memory) == EXPECTED


# what is sent, and what comes back


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("way", WAYS)
async def test_all_ways_give_the_same_memory(
    server: LMServer, make: Make, way: Any, concurrency: int, add: Add
) -> None:
    memory = memory_with(LMVerifier(make(concurrency=concurrency), way=way))
    report = await add(memory)

    assert pairs_of(memory) == EXPECTED
    assert (report.kept, report.discarded) == (len(KEPT), len(DISCARDED))
    nothing_lost(memory, report, waiting=0)
    assert server.calls == report.usage.calls == {"single": 6, "paper": 13, "batch": 1}[way]
    assert server.most_at_once <= concurrency
    assert report.usage.prompt_tokens > report.usage.completion_tokens > 0
    assert report.usage.seconds > 0
    assert f"{server.calls:>8} calls" in str(report)


@pytest.mark.parametrize(
    ("cuts", "logprobs", "total"),
    [
        ("(Keep|Discard)", {"Keep": -0.25, "Discard": -0.25}, -0.25),
        ('("Ke)(ep)|("Disc)(ard)', {'"Ke': -0.5, "ep": -0.125, '"Disc': -0.5, "ard": -0.125}, -0.625),
    ],
    ids=["one token", "two tokens"],
)
@pytest.mark.parametrize("way", WAYS)
async def test_confidence_is_the_probability_of_the_decision(
    make: Make, answers: Answers, way: Any, cuts: str, logprobs: dict[str, float], total: float, add: Add
) -> None:
    def sure(request: Json, number: int) -> Reply:
        text = answers.said(request["messages"])
        return Reply(text=text, tokens=[(part, logprobs.get(part, -3.0)) for part in re.split(cuts, text) if part])

    answers.alter = sure
    memory = memory_with(LMVerifier(make(), way=way))
    await add(memory)

    assert pairs_of(memory) == EXPECTED
    for name in KEPT:
        for entry in memory.explain(name).entries:
            assert entry.confidence == pytest.approx(math.exp(total))
        assert f"confidence   {math.exp(total):.2f}" in str(memory.explain(name))


async def test_confidence_is_unknown_where_a_server_gives_no_probabilities(
    make: Make, answers: Answers, add: Add
) -> None:
    answers.alter = lambda request, number: Reply(text=answers.said(request["messages"]), tokens=())
    memory = memory_with(LMVerifier(make()))
    await add(memory)

    assert pairs_of(memory) == EXPECTED
    assert {entry.confidence for name in KEPT for entry in memory.explain(name).entries} == {None}
    assert "confidence   unknown" in str(memory.explain("stew"))


def schema_of(body: Json) -> Json:
    """The schema of a request, wherever the protocol has it."""
    schema = body["format"] if "format" in body else body["response_format"]["json_schema"]["schema"]
    assert isinstance(schema, dict)
    return schema


async def test_the_schema_is_sent_with_the_decision_first(server: LMServer, make: Make, add: Add) -> None:
    memory = memory_with(LMVerifier(make()))
    await add(memory)

    assert len(server.asked) == len(PASSED)
    for body in server.asked:
        assert first_properties(schema_of(body)) == ["decision", "rationale", "preferences"]
        asked = read_prompt(body["messages"])
        assert re.search(r"^\| .*\w", user_text(body["messages"]), re.M)
        assert asked.preferences
        (name,) = (name for name, text in TEXTS.items() if text == asked.chunks[0])
        assert set(asked.preferences) == PASSED[name]


async def test_the_schema_of_a_batch_holds_as_many_answers_as_chunks(server: LMServer, make: Make, add: Add) -> None:
    await add(memory_with(LMVerifier(make(), way="batch")))

    (body,) = server.asked
    answer = schema_of(body)["properties"]["answers"]
    assert (answer["minItems"], answer["maxItems"]) == (len(PASSED),) * 2
    assert first_properties(answer["items"])[:2] == ["chunk", "decision"]


async def test_kept_items_can_be_rewritten(server: LMServer, make: Make, add: Add) -> None:
    memory = memory_with(LMVerifier(make(), refine="rewrite"))
    report = await add(memory)

    assert report.failures == {}
    assert server.calls == len(PASSED) + len(KEPT)
    for name in KEPT:
        wanted = [preference for known, preference in TRUTH if known == name]
        assert {entry.rewrite for entry in memory.explain(name).entries} == {anew(TEXTS[name], *wanted)}


@pytest.mark.parametrize("form", ["fenced", "after thinking", "XML", "labelled lines", "with words around it"])
async def test_a_server_that_ignores_the_schema(make: Make, answers: Answers, form: str, add: Add) -> None:
    answers.alter = lambda request, number: in_each_form(json.loads(answers.said(request["messages"])))[form]
    memory = memory_with(LMVerifier(make()))
    report = await add(memory, SIMPLE)

    assert report.failures == {}
    assert (report.kept, report.discarded, report.usage.calls) == (1, 1, 2)


async def test_thinking_that_a_server_gives_apart(make: Make, answers: Answers, add: Add) -> None:
    answers.alter = lambda request, number: Reply(
        text=answers.said(request["messages"]), thinking='{"decision": "Discard", "preferences": []}'
    )
    memory = memory_with(LMVerifier(make()))
    await add(memory)

    assert pairs_of(memory) == EXPECTED


# answers that are no answers


GARBAGE = ["", "Behalten, weil es zur veganen Ernährung passt.", "I am a teapot.", '{"decision": "Maybe"}']


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_is_asked_about_once_more_and_then_waits(
    server: LMServer, make: Make, answers: Answers, garbage: str, add: Add
) -> None:
    answers.alter = lambda request, number: garbage
    memory = memory_with(patient(make()))
    report = await add(memory)

    nothing_lost(memory, report, waiting=len(PASSED))
    asked = Counter(user_text(body["messages"]) for body in server.asked)
    assert set(asked.values()) == {2}
    assert [len(body["messages"]) for body in server.asked] == [2, 4] * len(PASSED)
    assert all("could not be understood" in reason for reason in report.failures.values())
    assert report.answers == (dict.fromkeys(PASSED, garbage) if garbage else {})
    mended(memory, answers, set(PASSED))


async def test_an_answer_that_was_cut_is_asked_for_with_more_room(
    server: LMServer, make: Make, answers: Answers, add: Add
) -> None:
    def cut(request: Json, number: int) -> Reply | None:
        return Reply(text='{"decision": "Keep", "rationale": "The pl', cut=True) if number % 2 else None

    answers.alter = cut
    memory = memory_with(patient(make()))
    await add(memory, [Item(text=TEXTS["palms"], id="palms"), Item(text=TEXTS["fair"], id="fair")])

    rooms = [body["options"]["num_predict"] if "options" in body else body["max_tokens"] for body in server.asked]
    assert rooms == [rooms[0], 2 * rooms[0], rooms[2], 2 * rooms[2]]
    assert pairs_of(memory) == {pair: said for pair, said in EXPECTED.items() if pair[0] in ("palms", "fair")}


BROKEN = {
    "a status of 500": Reply(status=500, text="out of memory"),
    "a status of 503": Reply(status=503, text="loading the model"),
    "a status of 429": Reply(status=429, text="slow down"),
    "a connection that breaks off": Reply(text='{"decision": "Keep", "rationale": "Half of', break_off=True),
    "an answer without an end": Reply(text='{"decision": "Discard"}', unfinished=True),
    "an error in the middle": Reply(text='{"decision": "Discard", "rationale": "So."}', fails="CUDA error"),
    "a page of HTML": Reply(not_json=True),
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_what_goes_wrong_once_is_tried_again(
    server: LMServer, make: Make, answers: Answers, broken: str, add: Add
) -> None:
    answers.alter = lambda request, number: BROKEN[broken] if number == 3 else None
    memory = memory_with(patient(make()))
    report = await add(memory)

    assert pairs_of(memory) == EXPECTED
    assert (report.usage.calls, report.usage.retries) == (len(PASSED) + 1, 1)
    nothing_lost(memory, report, waiting=0)


@pytest.mark.parametrize("broken", BROKEN)
async def test_what_goes_wrong_always_is_given_up(
    server: LMServer, make: Make, answers: Answers, broken: str, add: Add
) -> None:
    answers.alter = lambda request, number: BROKEN[broken]
    memory = memory_with(patient(make(), retries=2))
    report = await add(memory)

    # Two items, three attempts each; the others are not asked about.
    assert server.calls == report.usage.calls == 6
    nothing_lost(memory, report, waiting=len(PASSED))
    assert all(len(reason) > 20 and "Traceback" not in reason for reason in report.failures.values())
    if BROKEN[broken].status >= 400:
        assert all(BROKEN[broken].text in reason for reason in report.failures.values())
    mended(memory, answers, set(PASSED))


async def test_a_batch_that_fails_once_is_not_lost(server: LMServer, make: Make, answers: Answers, add: Add) -> None:
    answers.alter = lambda request, number: BROKEN["a status of 500"] if number <= 2 else None
    memory = memory_with(patient(make(), way="batch", retries=3))
    report = await add(memory)

    assert pairs_of(memory) == EXPECTED
    assert report.usage.calls == 3


@pytest.mark.parametrize("wait", ["1", "0", "soon"])
async def test_a_server_that_says_when_to_come_back(
    server: LMServer, make: Make, answers: Answers, kind: str, wait: str
) -> None:
    busy = Reply(status=429, headers={"Retry-After": wait}, text="too many requests")
    answers.alter = lambda request, number: busy if number == 1 else None
    memory = memory_with(patient(make()))
    began = time.perf_counter()
    report = await asyncio.to_thread(memory.add, ITEMS)
    seconds = time.perf_counter() - began

    assert pairs_of(memory) == EXPECTED
    assert report.usage.retries == 1
    if kind == "openai" and wait == "1":
        assert seconds >= 1.0


# servers that are not there, or die


async def test_no_server(server: LMServer, make: Make, answers: Answers, add: Add) -> None:
    server.stop()
    memory = memory_with(patient(make(), retries=2))
    began = time.perf_counter()
    report = await add(memory)

    assert time.perf_counter() - began < 8.0
    assert report.usage.calls == 6
    nothing_lost(memory, report, waiting=len(PASSED))
    for reason in report.failures.values():
        assert f"answers at {server.url}" in reason
        assert "Start it" in reason

    # Still none: the next round is short.
    assert memory.retry().usage.calls == 1
    server.start()
    mended(memory, answers, set(PASSED))


async def test_a_model_that_was_not_pulled(server: LMServer, make: Make, answers: Answers, add: Add) -> None:
    memory = memory_with(patient(make(name="huge:70b")))
    report = await add(memory)

    assert server.calls == report.usage.calls == 1
    nothing_lost(memory, report, waiting=len(PASSED))
    assert all("does not" in reason and "'huge:70b'" in reason for reason in report.failures.values())

    server.models = ("tiny", "huge:70b")
    mended(memory, answers, set(PASSED))


async def test_a_refused_key(make: Make, server: LMServer, answers: Answers, kind: str, add: Add) -> None:
    server.api_key = "sk-right"
    memory = memory_with(patient(make()))
    report = await add(memory)

    assert server.calls == 1
    nothing_lost(memory, report, waiting=len(PASSED))
    assert all("refuses this" in reason for reason in report.failures.values())
    server.api_key = None
    mended(memory, answers, set(PASSED))


class Accident:
    """Stops a server at a request, and starts it again after some seconds, if at all."""

    def __init__(self, server: LMServer, at: int, seconds: float | None) -> None:
        self._server = server
        self._at = at
        self._seconds = seconds
        self._happening = threading.Event()
        self._thread = threading.Thread(target=self._happen, daemon=True)
        self._thread.start()

    def __call__(self, request: Json, number: int) -> Reply | None:
        if number != self._at:
            return None
        self._happening.set()
        # It dies before this is over.
        return Reply(text="never sent", delay=30.0)

    def _happen(self) -> None:
        self._happening.wait(30.0)
        self._server.stop()
        if self._seconds is not None:
            time.sleep(self._seconds)
            self._server.start()

    def over(self) -> None:
        self._thread.join(30.0)


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_server_that_dies_and_is_back_soon(
    server: LMServer, make: Make, answers: Answers, concurrency: int, add: Add
) -> None:
    accident = answers.alter = Accident(server, 3, 0.1)
    memory = memory_with(patient(make(concurrency=concurrency), retries=6, backoff=0.03))
    report = await add(memory)
    accident.over()

    assert pairs_of(memory) == EXPECTED
    assert report.usage.retries >= 1
    nothing_lost(memory, report, waiting=0)


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_server_that_dies_and_is_back_too_late(
    server: LMServer, make: Make, answers: Answers, concurrency: int, add: Add
) -> None:
    accident = answers.alter = Accident(server, 4, None)
    memory = memory_with(patient(make(concurrency=concurrency), retries=1))
    report = await add(memory)
    accident.over()

    decided = report.kept + report.discarded
    assert decided == 3 if concurrency == 1 else decided < len(PASSED)
    nothing_lost(memory, report, waiting=len(PASSED) - decided)
    kept_so_far = pairs_of(memory)
    assert kept_so_far.items() <= EXPECTED.items()

    server.start()
    mended(memory, answers, set(report.failures))


async def test_a_server_that_hangs_is_not_waited_for_by_every_item(
    server: LMServer, make: Make, answers: Answers, add: Add
) -> None:
    answers.alter = lambda request, number: Reply(delay=60.0)
    items = [Item(text=f"A vegan dish, number {number}.", id=str(number)) for number in range(60)]
    memory = memory_with(patient(make(timeout=0.08)))
    began = time.perf_counter()
    report = await add(memory, items)

    assert time.perf_counter() - began < 6.0
    assert server.calls == report.usage.calls == 4
    nothing_lost(memory, report, waiting=60)
    assert all("in time" in reason and "timeout=" in reason for reason in report.failures.values())

    # It hangs still: one attempt.
    began = time.perf_counter()
    assert memory.retry().usage.calls == 1
    assert time.perf_counter() - began < 3.0
    answers.well()
    memory.verifier = patient(make())
    assert memory.retry().discarded == 60


async def test_hanging_calls_at_the_same_time_are_bounded_too(
    server: LMServer, make: Make, answers: Answers, add: Add
) -> None:
    answers.alter = lambda request, number: Reply(delay=60.0)
    items = [Item(text=f"A vegan dish, number {number}.", id=str(number)) for number in range(60)]
    memory = memory_with(patient(make(timeout=0.08, concurrency=8)))
    began = time.perf_counter()
    report = await add(memory, items)

    assert time.perf_counter() - began < 6.0
    assert server.calls <= 3 * 8
    nothing_lost(memory, report, waiting=60)


async def test_one_item_that_hangs_does_not_stop_the_others(
    server: LMServer, make: Make, answers: Answers, add: Add
) -> None:
    answers.alter = lambda request, number: (
        Reply(delay=60.0) if TEXTS["stew"] in user_text(request["messages"]) else None
    )
    memory = memory_with(patient(make(timeout=0.2)))
    report = await add(memory)

    assert list(report.failures) == ["stew"]
    nothing_lost(memory, report, waiting=1)
    mended(memory, answers, {"stew"})


# what is long


@pytest.mark.parametrize("way", WAYS)
async def test_a_chunk_that_does_not_fit_is_not_sent(
    server: LMServer, make: Make, kind: str, way: Any, add: Add
) -> None:
    verifier = LMVerifier(make(context=512), way=way, prompts=SHORT, max_tokens=64)
    memory = memory_with(verifier)
    report = await add(memory, [LONG, *ITEMS])

    assert pairs_of(memory) == EXPECTED
    nothing_lost(memory, report, waiting=1)
    assert re.search(r"\d+ tokens, .* has 512", report.failures["long"])
    assert not [body for body in server.asked if "vegan diet of beans" in user_text(body["messages"])]
    if kind == "ollama":
        assert {body["options"]["num_ctx"] for body in server.asked} == {512}


async def test_a_thousand_preferences_are_each_shown_once(server: LMServer, make: Make, add: Add) -> None:
    preferences = [f"Preference {number} about matter {number}" for number in range(1000)]
    text = "A chunk about three matters."
    wanted = {preferences[1]: Stance.SUPPORTS, preferences[500]: Stance.CONFLICTS, preferences[998]: Stance.MIXED}
    said = Script({(text, preference): stance for preference, stance in wanted.items()})
    server.answer = lambda request: said(request["messages"])
    memory = memory_with(LMVerifier(make(context=4096)), preferences=preferences, coarse=False)
    await add(memory, [Item(text=text, id="stew")])

    assert {preference: one[:2] for (_, preference), one in pairs_of(memory).items()} == {
        preference: (stance, instruction_for(text, preference)) for preference, stance in wanted.items()
    }
    assert sorted(p for asked in said.asked for p in asked.preferences) == sorted(preferences)
    assert server.calls == len(said.asked) < 50


# several at once


def own_memory(verifier: LMVerifier) -> EpicMemory:
    return memory_with(verifier, encoder=HashEncoder())


def test_memories_in_threads_share_a_model_that_takes_one_call_at_a_time(
    server: LMServer, make: Make, answers: Answers
) -> None:
    verifier = LMVerifier(make(concurrency=1))
    memories = [own_memory(verifier) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(lambda memory: memory.add(ITEMS), memories))

    assert server.most_at_once == 1
    assert server.calls == 8 * len(PASSED)
    for memory, report in zip(memories, reports, strict=True):
        assert pairs_of(memory) == EXPECTED
        assert report.usage.calls == len(PASSED)
        nothing_lost(memory, report, waiting=0)


async def test_memories_in_tasks_share_a_model_that_takes_one_call_at_a_time(server: LMServer, make: Make) -> None:
    verifier = LMVerifier(make(concurrency=1))
    memories = [own_memory(verifier) for _ in range(8)]
    await asyncio.gather(*(memory.aadd(ITEMS) for memory in memories))

    assert server.most_at_once == 1
    assert all(pairs_of(memory) == EXPECTED for memory in memories)


def test_threads_that_share_a_failing_server_lose_nothing(server: LMServer, make: Make, answers: Answers) -> None:
    answers.alter = lambda request, number: BROKEN["a status of 500"] if number % 3 == 0 else None
    verifier = patient(make(concurrency=2), retries=1)
    memories = [own_memory(verifier) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(lambda memory: memory.add(ITEMS), memories))
    answers.well()

    for memory, report in zip(memories, reports, strict=True):
        nothing_lost(memory, report, waiting=len(report.failures))
        memory.retry()
        assert pairs_of(memory) == EXPECTED


@pytest.mark.parametrize(("kind", "mode"), [("ollama", "sync"), ("openai", "async")])
def test_as_many_calls_are_under_way_as_may_be(server: LMServer, answers: Answers, kind: str, mode: str) -> None:
    answers.alter = lambda request, number: Reply(text='{"decision": "Discard"}', delay=0.2)
    items = [Item(text=f"A vegan dish, number {number}.") for number in range(32)]

    memory = memory_with(LMVerifier(model_of(server, kind, concurrency=8, timeout=10.0)))
    report = memory.add(items) if mode == "sync" else asyncio.run(memory.aadd(items))
    assert report.discarded == len(items)
    assert server.most_at_once == 8


# what is sent to whom


@pytest.fixture
def connections(server: LMServer, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every address that a connection goes to; only this machine is let through, and only it is looked up."""
    seen: list[Any] = []
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def guarded(self: socket.socket, address: Any) -> None:
        seen.append(address)
        assert address[0] == "127.0.0.1", f"a connection to {address}"
        connect(self, address)

    def guarded_look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        assert host in ("127.0.0.1", b"127.0.0.1", None), f"{host} was looked up"
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)
    return seen


@pytest.mark.parametrize("way", WAYS)
async def test_connections_go_to_the_server_alone(
    server: LMServer, make: Make, connections: list[Any], way: Any, add: Add, tmp_path: Path
) -> None:
    verifier = LMVerifier(make(), way=way)
    with EpicMemory.open(
        tmp_path / "me.epic", ["Vegan diet", "Old churches"], encoder=HashEncoder(), verifier=verifier, tau=0.05
    ) as memory:
        await add(memory)
        memory.add_preference("Night trains")
        memory.search("Where to eat?")
        memory.retry()

    port = int(server.url.rpartition(":")[2])
    assert server.calls > 0
    assert set(connections) == {("127.0.0.1", port)}
    assert {request.path for request in server.requests} <= {"/api/chat", "/v1/chat/completions"}


async def test_nothing_is_sent_before_it_has_to_be(
    server: LMServer, make: Make, connections: list[Any], add: Add
) -> None:
    memory = memory_with(LMVerifier(make()))
    memory.search("Where to eat?")
    memory.stats()
    await add(memory, [TEXTS["ships"], "The quick brown fox."])
    memory.retry()
    memory.add_preference("Loud rooms")

    assert connections == []
    assert server.connections == 0


async def test_a_server_that_sends_callers_elsewhere_is_not_followed(server: LMServer, make: Make, add: Add) -> None:
    with LMServer(lambda request: '{"decision": "Discard"}') as elsewhere:
        server.answer = lambda request: Reply(status=307, headers={"Location": f"{elsewhere.url}/api/chat"})
        memory = memory_with(patient(make(), retries=0))
        report = await add(memory)

        assert elsewhere.connections == 0
    nothing_lost(memory, report, waiting=len(PASSED))


def test_checking_a_model_needs_no_prompt(server: LMServer, make: Make) -> None:
    make().check()
    with pytest.raises(LMSetupError, match="missing"):
        make(name="missing").check()
    assert server.calls == 0


def test_answers_in_turn_become_different_memories(server: LMServer, make: Make) -> None:
    discard, keep = '{"decision": "Discard"}', {"preference": 1, "stance": "supports", "instruction": "Cook it."}
    server.answer = in_turn(discard, json.dumps({"decision": "Keep", "rationale": "So.", "preferences": [keep]}))
    verifier = LMVerifier(make())
    first, second = own_memory(verifier), own_memory(verifier)
    stew = Item(text=TEXTS["stew"], id="stew")

    assert (first.add([stew]).kept, second.add([stew]).kept) == (0, 1)
    # A verdict is a memory's own, and is remembered there.
    assert second.explain("stew").entries[0].instruction == "Cook it."
    assert server.calls == 2
