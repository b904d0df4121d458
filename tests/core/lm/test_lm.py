"""Language models over HTTP, in each way they can be asked."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypeAlias

import pytest

from epic_memory.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError
from epic_memory.lm import Completion, Message, OllamaLM, OpenAICompatibleLM, Token
from lm_servers import NOT_JSON, Json, LMServer, Reply, in_turn
from scripted import ASKED, Complete, Model, model_of, until

Make: TypeAlias = Callable[..., Model]

HELLO = [Message("user", "Is it so?")]
SENT = [{"role": message.role, "content": message.content} for message in ASKED]
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
KEY = "sk-very-secret-0123456789"


@pytest.fixture
def make(server: LMServer, kind: str) -> Make:
    """A model of each kind."""
    return lambda *args, **settings: model_of(server, kind, *args, **settings)


@pytest.fixture
def openai(server: LMServer) -> Make:
    return lambda *args, **settings: model_of(server, "openai", *args, **settings)


@pytest.fixture
def ollama(server: LMServer) -> Make:
    return lambda *args, **settings: model_of(server, "ollama", *args, **settings)


async def failing(asked: Awaitable[Completion]) -> LMError:
    """The error that asking ends with; it has to be no more than that."""
    with pytest.raises(LMError) as caught:
        await asked
    assert caught.value.__cause__ is not caught.value
    return caught.value


# what comes back

UNICODE = (Token("Zürich", -0.5), Token(" 🙂", 0.0), Token(" 素食", -2.25))
YES: Json = {"text": "Yes", "tokens": (Token("Yes", -0.1),), "prompt_tokens": 6, "completion_tokens": 1}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (
            Reply(text="Zürich 🙂 素食", tokens=[(one.text, one.logprob) for one in UNICODE], prompt_tokens=17),
            {"text": "Zürich 🙂 素食", "tokens": UNICODE, "prompt_tokens": 17, "completion_tokens": 3},
        ),
        (Reply(text="Yes", cut=True), YES | {"cut": True}),
        (Reply(text="Yes", thinking="It could be, so"), YES),
        (Reply(text="Yes", tokens=(), completion_tokens=1), YES | {"tokens": None}),
        (Reply(text=""), {"text": "", "prompt_tokens": 6}),
    ],
    ids=["unicode", "too long", "with thinking", "no tokens", "empty"],
)
async def test_an_answer_is_the_same_in_each_way(
    server: LMServer, make: Make, complete: Complete, reply: Reply, expected: Json
) -> None:
    server.answer = lambda request: reply
    assert await complete(make(), max_tokens=3) == Completion(**expected)


# what is sent


async def test_what_ollama_is_sent(server: LMServer, ollama: Make, complete: Complete) -> None:
    lm = ollama(context=4096, keep_alive="3m", options={"num_thread": 4})
    await complete(lm, schema=SCHEMA, max_tokens=50)
    request = server.requests[0]
    assert request.path == "/api/chat"
    assert request.body.pop("tools", []) == []
    assert request.body == {
        "model": "tiny",
        "messages": SENT,
        "stream": False,
        "format": SCHEMA,
        "think": False,
        "logprobs": True,
        "keep_alive": "3m",
        "options": {"temperature": 0, "seed": 0, "num_ctx": 4096, "num_predict": 50, "num_thread": 4},
    }
    await complete(ollama(think=None, keep_alive=None))
    await complete(ollama(think=True))
    assert not {"think", "keep_alive"} & server.asked[1].keys() and server.asked[2]["think"] is True


async def test_what_openai_is_sent(server: LMServer, openai: Make, complete: Complete) -> None:
    await complete(openai(extra={"top_k": 1}), schema=SCHEMA, max_tokens=50)
    request = server.requests[0]
    assert request.path == "/v1/chat/completions"
    form = {"name": "answer", "schema": SCHEMA, "strict": True}
    assert request.body == {
        "model": "tiny",
        "messages": SENT,
        "temperature": 0,
        "seed": 0,
        "max_tokens": 50,
        "response_format": {"type": "json_schema", "json_schema": form},
        "logprobs": True,
        "top_logprobs": 1,
        "top_k": 1,
    }
    # Extra fields have the last word.
    await complete(openai(extra={"temperature": 0.7, "seed": 5}), schema=MappingProxyType(SCHEMA))
    assert (server.asked[1]["temperature"], server.asked[1]["seed"]) == (0.7, 5)
    assert server.asked[1]["response_format"]["json_schema"]["schema"] == SCHEMA


async def test_what_is_not_asked_for_is_not_sent(server: LMServer, make: Make, complete: Complete) -> None:
    # A lone surrogate is no reason to fail.
    assert (await complete(make(logprobs=False), [Message("assistant", "half a smile: \ud83d")])).tokens is None
    sent = server.asked[0]
    assert sent["messages"][0]["content"] == "half a smile: ?"
    assert not {"format", "response_format", "max_tokens", "logprobs"} & sent.keys()
    assert "num_predict" not in sent.get("options", {})


# the key


@pytest.mark.parametrize(
    "reply",
    [
        *(Reply(status=status, text=f"Incorrect key {KEY}.") for status in (400, 401, 403, 404, 408, 429, 500)),
        # The key lies across the place where what a server says is cut.
        Reply(status=500, text="x" * 260 + KEY),
        Reply(fails=f"Incorrect key {KEY}.", text="Yes, it is."),
        Reply(status=307, headers={"Location": f"http://127.0.0.1/{KEY}"}),
    ],
    ids=lambda reply: str(reply.status),
)
async def test_a_key_is_never_shown(server: LMServer, openai: Make, complete: Complete, reply: Reply) -> None:
    lm = openai(api_key=KEY)
    server.answer = lambda request: reply
    error = await failing(complete(lm))
    shown = f"{error} {error!r} {error.__cause__!r} {lm} {lm!r} {lm.name}"
    assert KEY[:12] not in shown


async def test_a_refused_key_is_for_the_user_to_change(
    server: LMServer, openai: Make, complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)  # which goes to no server
    server.api_key = KEY
    for lm in (openai(), openai(api_key="sk-wrong")):
        error = await failing(complete(lm))
        assert isinstance(error, LMSetupError) and "api_key" in str(error) and "sk-wrong" not in str(error)
        with pytest.raises(LMSetupError, match="api_key"):
            lm.check()
    assert (await complete(openai(api_key=KEY))).text == "Yes, it is."
    openai(api_key=KEY).check()
    sent = [request.headers.get("Authorization") for request in server.requests[::2]]
    assert sent == [None, "Bearer sk-wrong", f"Bearer {KEY}"]


# no answer


async def test_a_server_that_dies_and_comes_back(server: LMServer, make: Make, complete: Complete) -> None:
    lm = make()
    await complete(lm)
    server.stop()
    error = await failing(complete(lm))
    assert isinstance(error, LMUnavailableError) and not error.timed_out
    start = "ollama serve" if isinstance(lm, OllamaLM) else "vllm serve"
    assert start in str(error) and server.url in str(error)
    assert isinstance(lm, OpenAICompatibleLM) or "OLLAMA_HOST, host=, or --llm-url" in str(error)
    with pytest.raises(LMUnavailableError, match=start):
        lm.check()
    server.start()
    assert (await complete(lm)).text == "Yes, it is."
    async with lm.session():
        await lm.acomplete(HELLO)
        server.stop()
        server.start()
        # The connection that was open is gone.
        assert (await lm.acomplete(HELLO)).text == "Yes, it is."


async def test_a_model_the_server_does_not_have(make: Make, complete: Complete) -> None:
    lm = make("huge")
    error = await failing(complete(lm))
    assert isinstance(error, LMSetupError)
    assert ("ollama pull huge" if isinstance(lm, OllamaLM) else "does not know the model 'huge'") in str(error)
    with pytest.raises(LMSetupError, match="ollama pull huge" if isinstance(lm, OllamaLM) else "It has: tiny"):
        lm.check()


def test_checking_asks_for_the_list_alone(server: LMServer, kind: str) -> None:
    model_of(server, kind).check()
    assert [request.path for request in server.requests] == [{"ollama": "/api/tags", "openai": "/v1/models"}[kind]]
    with pytest.raises(LMSetupError, match=f"Give {server.base_url} as base_url"):
        OpenAICompatibleLM(f"{server.url}/", "tiny").check()
    OpenAICompatibleLM(f"{server.url}/v2", "tiny").check()  # a server without a list is accepted
    assert server.calls == 0


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, LMError),
        (413, LMError),
        *((status, LMSetupError) for status in (308, 401, 403, 404)),
        *((status, LMUnavailableError) for status in (408, 429, 500, 503)),
    ],
)
async def test_what_a_status_means(
    server: LMServer, make: Make, complete: Complete, status: int, expected: type[LMError]
) -> None:
    elsewhere = {"Location": "https://elsewhere/v1"}
    server.answer = lambda request: Reply(status=status, text="said the server", headers=elsewhere)
    error = await failing(complete(make()))
    assert type(error) is expected
    if status == 308:
        assert "https://elsewhere/v1" in str(error)
    elif status != 404:
        assert "said the server" in str(error) and str(status) in str(error)
    assert server.calls == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0", 0.0), ("soon", None), ("-1", None), ("²", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)],
)
async def test_how_long_a_server_asks_to_wait(
    server: LMServer, make: Make, complete: Complete, header: str, seconds: float | None
) -> None:
    server.answer = lambda request: Reply(status=429, text="too many", headers={"Retry-After": header})
    try:
        raise OSError("another model failed before")
    except OSError:
        error = await failing(complete(make()))
    assert isinstance(error, LMUnavailableError) and error.retry_after == seconds


@pytest.mark.parametrize(
    "reply",
    [
        Reply(text="Yes, it is so.", break_off=True),
        Reply(text="Yes, it is so.", unfinished=True),
        Reply(text="Yes, it is so.", fails="out of memory"),
        NOT_JSON,
    ],
    ids=["broken off", "unfinished", "failed", "not JSON"],
)
async def test_what_is_no_whole_answer_is_none(server: LMServer, make: Make, complete: Complete, reply: Reply) -> None:
    lm = make()
    server.answer = in_turn(reply, "Yes")
    error = await failing(complete(lm))
    assert type(error) is LMUnavailableError and not error.timed_out and reply.fails in str(error)
    assert (await complete(lm)).text == "Yes"


# answers without an end


@pytest.mark.parametrize("kind", ["openai", "ollama"])
@pytest.mark.parametrize(("status", "where"), [(200, "headers"), (200, "body"), (400, "body")])
async def test_what_drips_is_not_waited_for(kind: str, status: int, where: str, complete: Complete) -> None:
    head = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\n".encode()
    over, sent = threading.Event(), list[bytes]()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.recv(2**16)
                connection.sendall(head + (b"X: " if where == "headers" else b"Content-Length: 100\r\n\r\n"))
                while not over.wait(0.1) and len(sent) < 600:
                    sent.append(b" ")
                    connection.sendall(b" ")

        threading.Thread(target=drip, daemon=True).start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        lm: Model = OllamaLM("m", host=address, timeout=0.5)
        if kind == "openai":
            lm = OpenAICompatibleLM(f"{address}/v1", "m", timeout=0.5)
        error = await failing(complete(lm))
        over.set()
    assert isinstance(error, LMUnavailableError) and error.timed_out and "timeout=" in str(error)
    assert len(sent) < 600


async def test_an_answer_that_is_too_large_is_not_read_whole(
    server: LMServer, openai: Make, complete: Complete
) -> None:
    sent = []

    def endless() -> Iterator[bytes]:
        for number in range(64):
            sent.append(number)
            yield b" " * 2**20

    server.answer = lambda request: Reply(pieces=endless)
    error = await failing(complete(openai()))
    assert type(error) is LMUnavailableError and "longer than it may be" in str(error)
    assert len(sent) < 64


# answers in another form


def odd(content: Any = "Yes", logprobs: Any = None, usage: Any = None) -> Callable[[Json], Reply]:
    """Answers as OpenAI's protocol has them, with these values in them."""

    def answer(request: Json) -> Reply:
        choice = {"message": {"content": content}, "logprobs": logprobs, "finish_reason": "stop"}
        body = json.dumps({"choices": [choice], "usage": usage})
        return Reply(pieces=lambda: [body.encode()])

    return answer


LOGPROBS: list[Any] = [
    *({"content": [{"token": "Yes", "logprob": value}]} for value in (None, float("nan"), "high")),
    {"content": [{"token": "Y", "logprob": -0.1}, {"token": "es"}]},
    {"content": [None]},
    {"content": 5},
    [-0.1],
    "none",
]
COUNTS: list[Any] = [-1, "many", float("nan"), float("inf"), [1], {}, 10**400]
USAGES = [float("nan"), "many", [1, 2], *({"prompt_tokens": count, "completion_tokens": count} for count in COUNTS)]
TEXT_PARTS = [{"type": "thinking", "thinking": "Well."}, {"type": "text", "text": "Y"}, {"type": "text", "text": "es"}]


@pytest.mark.parametrize(
    "values",
    [*({"logprobs": given} for given in LOGPROBS), *({"usage": given} for given in USAGES), {"content": TEXT_PARTS}],
    ids=lambda values: str(values)[:40],
)
async def test_what_cannot_be_read_beside_an_answer_leaves_it(
    server: LMServer, openai: Make, complete: Complete, values: Json
) -> None:
    server.answer = odd(**values)
    assert await complete(openai()) == Completion(text="Yes")


async def test_probabilities_ollamas_client_does_not_take_are_not_asked_for(
    server: LMServer, ollama: Make, complete: Complete
) -> None:
    def answer(request: Json) -> Reply:
        body: Json = {"model": "tiny", "message": {"role": "assistant", "content": "Yes"}, "done": True}
        body |= {"prompt_eval_count": -5, "eval_count": 1}
        body |= {"logprobs": [{"token": "Yes", "logprob": None}]} if request.get("logprobs") else {}
        return Reply(pieces=lambda: [json.dumps(body).encode() + b"\n"])

    server.answer = answer
    assert await complete(ollama()) == Completion(text="Yes", completion_tokens=1)
    assert ["logprobs" in request for request in server.asked] == [True, False]


@pytest.mark.parametrize(
    "content",
    [5, {"text": "Yes"}, ["Yes"], [{"type": "text", "text": 5}], *(["x" * n + KEY] for n in range(60, 240, 8))],
    ids=lambda content: str(len(str(content))),
)
async def test_a_text_that_is_none_is_no_answer_and_shows_no_key(
    server: LMServer, openai: Make, complete: Complete, content: Any
) -> None:
    server.answer = odd(content)
    error = await failing(complete(openai(api_key=KEY)))
    assert type(error) is LMUnavailableError and "neither text nor parts of text" in str(error)
    assert KEY[:12] not in str(error)


# settings that are left out


def refusing(*names: str, status: int = 400, said: str = "'{}' is not supported") -> Callable[[Json], Reply]:
    """Refuses requests with one of these settings, naming the first."""

    def answer(request: Json) -> Reply:
        found = [name for name in names if name in request]
        return Reply(status=status, text=said.format(found[0])) if found else Reply(text="Yes")

    return answer


@pytest.mark.parametrize(
    ("kind", "refused", "status", "said"),
    [
        ("ollama", ["think"], 400, "'{}' is not supported"),
        ("openai", ["top_logprobs"], 400, "'{}' is not supported"),
        *(("openai", ["logprobs", "seed", "temperature"], status, "no {}") for status in (400, 422, 501)),
        ("openai", ["temperature"], 400, "不支持{}参数"),
        ("openai", ["max_tokens"], 400, "'{}' is not supported with this model. Use 'max_completion_tokens' instead."),
    ],
)
async def test_settings_a_server_refuses_are_left_out_from_then_on(
    server: LMServer, make: Make, complete: Complete, refused: list[str], status: int, said: str
) -> None:
    lm, count = make(), len(refused)
    server.answer = refusing(*refused, said=said, status=status)
    for _ in range(2):
        answer = await complete(lm, schema=SCHEMA, max_tokens=9)
        tokens = None if "logprobs" in refused else (Token("Yes", -0.1),)
        assert answer == Completion(text="Yes", tokens=tokens, prompt_tokens=6, completion_tokens=1)
    assert [len({*refused} & request.keys()) for request in server.asked] == [*range(count, -1, -1), 0]
    if refused == ["max_tokens"]:
        assert [request.get("max_completion_tokens") for request in server.asked] == [None, 9, 9]


@pytest.mark.parametrize(("status", "older"), [(400, True), (422, True), (500, True), (400, False), (422, False)])
async def test_a_schema_is_sent_in_the_older_form_where_the_newer_is_refused_and_then_left_out(
    server: LMServer, openai: Make, complete: Complete, status: int, older: bool
) -> None:
    known = ("json_object", None) if older else (None,)

    def answer(request: Json) -> Reply:
        form = request.get("response_format", {}).get("type")
        refusal = Reply(status=status, text="response_format.type: input should be 'text'")
        return Reply(text="Yes") if form in known else refusal

    server.answer = answer
    lm = openai()
    assert (await complete(lm, schema=SCHEMA)).text == (await complete(lm, schema=SCHEMA)).text == "Yes"
    newer = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    plain = {"type": "json_object", "schema": SCHEMA}
    sent = [request.get("response_format") for request in server.asked]
    assert sent == ([newer, plain, plain] if older else [newer, plain, None, None])


@pytest.mark.parametrize(
    ("said", "extra", "calls"),
    [
        # A setting is named by a whole word, and one of the user's own is not left out.
        *((f"{name} is not supported", {}, 1) for name in ("seeds", "reseed", "temperature_scale", "logprobs2")),
        ("'seed' is not supported", {"extra": {"seed": 7}}, 1),
        # A refusal that goes on ends.
        ("think, logprobs and seed are not supported", {}, 2),
    ],
)
async def test_a_refusal_ends(
    server: LMServer, make: Make, complete: Complete, kind: str, said: str, extra: Json, calls: int
) -> None:
    server.answer = lambda request: Reply(status=400, text=said)
    assert type(await failing(complete(make(**(extra if kind == "openai" else {}))))) is LMError
    assert server.calls == calls


@pytest.mark.parametrize(
    "said", ["no logprobs, no seed", "response_format.type: input should be 'text'", "use 'max_completion_tokens'"]
)
async def test_only_what_helped_is_left_out_from_then_on(
    server: LMServer, openai: Make, complete: Complete, said: str
) -> None:
    lm = openai()
    server.answer = in_turn(Reply(status=400, text=said), Reply(status=400, text="too long"), "Yes")
    assert type(await failing(complete(lm, schema=SCHEMA, max_tokens=9))) is LMError
    await complete(lm, schema=SCHEMA, max_tokens=9)
    first, second, third = server.asked
    assert second != first == third


async def test_calls_at_the_same_time_all_learn_what_is_refused(server: LMServer, make: Make) -> None:
    together, refusal = threading.Barrier(4), refusing("think", "seed", said="'think' and 'seed' are not supported")

    def answer(request: Json) -> Reply:
        reply = refusal(request)
        if reply.status != 200:
            together.wait(60)
        return reply

    server.answer = answer
    lm = make(concurrency=4)
    assert [answer.text for answer in await asyncio.gather(*(lm.acomplete(HELLO) for _ in range(4)))] == ["Yes"] * 4
    assert server.calls == 8


# several calls at once


@pytest.mark.parametrize(
    ("size", "count", "options"),
    # By default one; and more than HTTP clients let through by default.
    [(1, 4, {}), (3, 12, {"concurrency": 3}), pytest.param(110, 110, {"concurrency": 110}, marks=pytest.mark.slow)],
)
async def test_no_more_threads_or_tasks_call_than_the_model_takes(
    server: LMServer, make: Make, size: int, count: int, options: Json
) -> None:
    barrier = threading.Barrier(size)

    def answer(request: Json) -> Reply:
        barrier.wait(60)
        return Reply(text="Yes", delay=0.01)

    server.answer, lm = answer, make(**options)
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(lambda _: lm.complete(HELLO).text, range(count)))
    assert (answers, server.most_at_once) == (["Yes"] * count, size)
    completions = await asyncio.gather(*(lm.acomplete(HELLO) for _ in range(count)))
    assert ([one.text for one in completions], server.most_at_once) == (["Yes"] * count, size)


# event loops


async def test_cancelling_is_prompt_and_leaves_the_model_usable(server: LMServer, make: Make) -> None:
    lm = make()
    server.answer = in_turn(Reply(text="too late", delay=600.0), "Yes")
    task = asyncio.create_task(lm.acomplete(HELLO))
    waiting = asyncio.create_task(lm.acomplete(HELLO))
    await asyncio.to_thread(until, lambda: server.calls == 1)
    for cancelled in (waiting, task):
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(cancelled, 60)
    # The model takes one call at a time: the place has to be free again.
    assert (await asyncio.wait_for(lm.acomplete(HELLO), 60)).text == "Yes"
    assert lm.complete(HELLO).text == "Yes"


def test_one_model_in_several_event_loops(server: LMServer, make: Make) -> None:
    lm = make(concurrency=2)
    loops = []

    async def several() -> list[str]:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        return [answer.text for answer in await asyncio.gather(*(lm.acomplete(HELLO) for _ in range(3)))]

    for _ in range(3):
        assert asyncio.run(several()) == ["Yes, it is."] * 3
        assert lm.complete(HELLO).text == "Yes, it is."
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: asyncio.run(several()), range(4))) == [["Yes, it is."] * 3] * 4
    gc.collect()
    # Whoever calls asyncio.run once a question must not collect loops.
    assert [loop() for loop in loops] == [None] * 7


async def test_a_session_keeps_connections_open(server: LMServer, kind: str) -> None:
    lm = model_of(server, kind)
    async with lm.session():
        for _ in range(4):
            await lm.acomplete(HELLO)
    assert server.connections == 1
    for _ in range(4):
        lm.complete(HELLO)
    assert server.connections == 2


LEAVING_NOTHING_OPEN = """
import asyncio, gc, sys
from epic_memory.errors import LMError
from epic_memory.lm import Message, OllamaLM, OpenAICompatibleLM
from epic_memory.runtime.streaming import acompleted

url = sys.argv[1]
hello = [Message("user", "Is it so?")]

async def use(lm, broken):
    await lm.acomplete(hello)
    async with lm.session():
        await asyncio.gather(*(lm.acomplete(hello) for _ in range(3)))
    async for _ in acompleted(lambda _: lm.acomplete(hello), range(3), 2):
        pass
    task = asyncio.create_task(lm.acomplete(hello))
    await asyncio.sleep(0.003)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    try:
        await broken.acomplete(hello)
        sys.exit("no error")
    except LMError:
        pass

for model in (
    lambda name: OllamaLM(name, host=url, concurrency=2),
    lambda name: OpenAICompatibleLM(f"{url}/v1", name, concurrency=2),
):
    for _ in range(2):
        asyncio.run(use(model("tiny"), model("broken")))
        model("tiny").complete(hello)
        gc.collect()
print("done")
"""


def test_nothing_is_left_open(server: LMServer) -> None:
    server.models = ("tiny", "broken")
    server.answer = lambda request: Reply(text="Yes, it is.", break_off=request["model"] == "broken")
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", LEAVING_NOTHING_OPEN, server.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # What is found in a destructor is printed, and does not change the status.
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


# arguments

WRONG: list[tuple[dict[str, Any], str]] = [
    *(({"timeout": value}, "timeout") for value in (0, -1, float("nan"), float("inf"), "5", None, True)),
    *(({"concurrency": value}, "concurrency") for value in (0, -1, 1.5, "2", None, True)),
    *(({"context": value}, "context") for value in (0, 255, 4096.0, "8k", True)),
    *(({"name": value}, "name of a model") for value in ("", "  ", None, 5, b"tiny")),
]


@pytest.mark.parametrize(("options", "match"), WRONG, ids=str)
def test_arguments_that_cannot_be_are_refused(server: LMServer, kind: str, options: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        model_of(server, kind, **options)


@pytest.mark.parametrize(
    "address", ["", "localhost:8000", "ftp://here/v1", "http://", None, "http://here:port/v1", "http://[::1", 5]
)
def test_addresses_that_cannot_be_are_refused(address: Any) -> None:
    with pytest.raises(InvalidInputError, match="base_url"):
        OpenAICompatibleLM(address, "tiny")
    if address in ("http://here:port/v1", "http://[::1", 5):
        with pytest.raises(InvalidInputError, match="no address"):
            OllamaLM("tiny", host=address)
