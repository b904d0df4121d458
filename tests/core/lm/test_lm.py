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
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypeAlias

import pytest

from epic_memory.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError, MissingExtraError
from epic_memory.lm import Completion, LanguageModel, Message, OllamaLM, OpenAICompatibleLM, Token
from lm_servers import Json, LMServer, Reply, in_turn
from scripted import Model, model_of, until

Make: TypeAlias = Callable[..., Model]
Ask: TypeAlias = Callable[..., Awaitable[Completion]]

HELLO = [Message("system", "Be brief."), Message("user", "Is it so?")]
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


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Asks a model, with or without blocking the event loop."""

    async def ask(lm: LanguageModel, messages: Sequence[Message] = HELLO, **settings: Any) -> Completion:
        if request.param == "sync":
            return lm.complete(messages, **settings)
        return await lm.acomplete(messages, **settings)

    return ask


async def failing(asked: Awaitable[Completion]) -> LMError:
    """The error that asking ends with; it has to be no more than that."""
    with pytest.raises(LMError) as caught:
        await asked
    assert caught.value.__cause__ is not caught.value
    return caught.value


# what comes back


async def test_an_answer_is_the_same_in_each_way(server: LMServer, make: Make, ask: Ask) -> None:
    server.answer = lambda request: Reply(
        text="Zürich 🙂 素食", tokens=[("Zürich", -0.5), (" 🙂", 0.0), (" 素食", -2.25)], prompt_tokens=17
    )
    assert await ask(make()) == Completion(
        text="Zürich 🙂 素食",
        tokens=(Token("Zürich", -0.5), Token(" 🙂", 0.0), Token(" 素食", -2.25)),
        prompt_tokens=17,
        completion_tokens=3,
        cut=False,
    )


async def test_an_answer_that_grew_too_long_is_cut(server: LMServer, make: Make, ask: Ask) -> None:
    server.answer = lambda request: Reply(text="Yes, it", cut=True)
    answer = await ask(make(), max_tokens=3)
    assert (answer.text, answer.cut) == ("Yes, it", True)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(text=""), Completion(text="", prompt_tokens=5)),
        (
            Reply(text="Yes", tokens=(), completion_tokens=1),
            Completion(text="Yes", prompt_tokens=5, completion_tokens=1),
        ),
    ],
    ids=["an empty answer", "no tokens"],
)
async def test_what_is_missing_in_an_answer_is_empty(
    server: LMServer, make: Make, ask: Ask, reply: Reply, expected: Completion
) -> None:
    server.answer = lambda request: reply
    assert await ask(make()) == expected


async def test_there_are_no_tokens_if_nobody_asks_for_them(server: LMServer, make: Make, ask: Ask) -> None:
    assert (await ask(make(logprobs=False))).tokens is None
    assert "logprobs" not in server.asked[0]


async def test_thinking_is_no_part_of_the_answer(server: LMServer, make: Make, ask: Ask) -> None:
    server.answer = lambda request: Reply(text="Yes", thinking="It could be, so")
    assert (await ask(make())).text == "Yes"


# what is sent


async def test_what_ollama_is_sent(server: LMServer, ollama: Make, ask: Ask) -> None:
    lm = ollama(context=4096, keep_alive="3m", options={"num_thread": 4})
    await ask(lm, schema=SCHEMA, max_tokens=50)
    request = server.requests[0]
    assert request.path == "/api/chat"
    assert request.body.pop("tools", []) == []
    assert request.body == {
        "model": "tiny",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it so?"}],
        "stream": False,
        "format": SCHEMA,
        "think": False,
        "logprobs": True,
        "keep_alive": "3m",
        "options": {"temperature": 0, "seed": 0, "num_ctx": 4096, "num_predict": 50, "num_thread": 4},
    }


async def test_what_openai_is_sent(server: LMServer, openai: Make, ask: Ask) -> None:
    await ask(openai(extra={"top_k": 1}), schema=SCHEMA, max_tokens=50)
    request = server.requests[0]
    assert request.path == "/v1/chat/completions"
    form = {"name": "answer", "schema": SCHEMA, "strict": True}
    assert request.body == {
        "model": "tiny",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it so?"}],
        "temperature": 0,
        "seed": 0,
        "max_tokens": 50,
        "response_format": {"type": "json_schema", "json_schema": form},
        "logprobs": True,
        "top_logprobs": 1,
        "top_k": 1,
    }


async def test_what_is_not_asked_for_is_not_sent(server: LMServer, make: Make, ask: Ask) -> None:
    await ask(make())
    sent = server.asked[0]
    assert not {"format", "response_format", "max_tokens"} & sent.keys()
    assert "num_predict" not in sent.get("options", {})


async def test_ollama_is_left_to_think_as_it_likes(server: LMServer, ollama: Make, ask: Ask) -> None:
    await ask(ollama(think=None, keep_alive=None))
    await ask(ollama(think=True))
    assert not {"think", "keep_alive"} & server.asked[0].keys()
    assert server.asked[1]["think"] is True


async def test_extra_fields_have_the_last_word(server: LMServer, openai: Make, ask: Ask) -> None:
    await ask(openai(extra={"temperature": 0.7, "seed": 5}), schema=MappingProxyType(SCHEMA))
    assert (server.asked[0]["temperature"], server.asked[0]["seed"]) == (0.7, 5)
    assert server.asked[0]["response_format"]["json_schema"]["schema"] == SCHEMA


async def test_a_lone_surrogate_is_no_reason_to_fail(server: LMServer, make: Make, ask: Ask) -> None:
    await ask(make(), [Message("assistant", "half a smile: \ud83d")])
    assert server.asked[0]["messages"][0]["content"] == "half a smile: ?"


def test_ollama_is_found_where_the_environment_says(server: LMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    lm = OllamaLM("tiny")
    assert lm.host == server.url
    # Where it was found when the model was made it stays.
    monkeypatch.setenv("OLLAMA_HOST", "http://192.0.2.7:9")
    assert lm.complete(HELLO).text == asyncio.run(lm.acomplete(HELLO)).text == "Yes, it is."


# the key


async def test_a_key_is_sent_only_if_there_is_one(
    server: LMServer, openai: Make, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    await ask(openai(api_key="sk-other"))
    await ask(openai())
    assert server.requests[0].headers["Authorization"] == "Bearer sk-other"
    assert "Authorization" not in server.requests[1].headers


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
async def test_a_key_is_never_shown(server: LMServer, openai: Make, ask: Ask, reply: Reply) -> None:
    lm = openai(api_key=KEY)
    server.answer = lambda request: reply
    error = await failing(ask(lm))
    shown = f"{error} {error!r} {error.__cause__!r} {lm} {lm!r} {lm.name}"
    assert KEY[:12] not in shown


async def test_a_refused_key_is_for_the_user_to_change(server: LMServer, openai: Make, ask: Ask) -> None:
    server.api_key = KEY
    for lm in (openai(), openai(api_key="sk-wrong")):
        error = await failing(ask(lm))
        assert isinstance(error, LMSetupError) and "api_key" in str(error) and "sk-wrong" not in str(error)
    assert (await ask(openai(api_key=KEY))).text == "Yes, it is."


# no answer


async def test_a_server_that_is_not_there(server: LMServer, make: Make, ask: Ask) -> None:
    lm = make()
    server.stop()
    error = await failing(ask(lm))
    assert isinstance(error, LMUnavailableError) and not error.timed_out
    start = "ollama serve" if isinstance(lm, OllamaLM) else "vllm serve"
    assert start in str(error) and server.url in str(error)
    if isinstance(lm, OllamaLM):
        assert str(error).endswith("Another address: OLLAMA_HOST, host=, or --llm-url on the command line.")


async def test_a_server_that_dies_and_comes_back(server: LMServer, make: Make, ask: Ask) -> None:
    lm = make()
    await ask(lm)
    server.stop()
    assert isinstance(await failing(ask(lm)), LMUnavailableError)
    server.start()
    assert (await ask(lm)).text == "Yes, it is."
    async with lm.session():
        await lm.acomplete(HELLO)
        server.stop()
        server.start()
        # The connection that was open is gone.
        assert (await lm.acomplete(HELLO)).text == "Yes, it is."


async def test_a_model_the_server_does_not_have(make: Make, ask: Ask) -> None:
    lm = make("huge")
    error = await failing(ask(lm))
    assert isinstance(error, LMSetupError)
    assert ("ollama pull huge" if isinstance(lm, OllamaLM) else "does not know the model 'huge'") in str(error)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, LMError),
        (413, LMError),
        (401, LMSetupError),
        (403, LMSetupError),
        (404, LMSetupError),
        (408, LMUnavailableError),
        (429, LMUnavailableError),
        (500, LMUnavailableError),
        (503, LMUnavailableError),
    ],
)
async def test_what_a_status_means(
    server: LMServer, make: Make, ask: Ask, status: int, expected: type[LMError]
) -> None:
    server.answer = lambda request: Reply(status=status, text="said the server")
    lm = make()
    error = await failing(ask(lm))
    assert type(error) is expected
    if status != 404:
        assert "said the server" in str(error) and str(status) in str(error)
    assert server.calls == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0", 0.0), ("soon", None), ("-1", None), ("²", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)],
)
async def test_how_long_a_server_asks_to_wait(
    server: LMServer, make: Make, ask: Ask, header: str, seconds: float | None
) -> None:
    server.answer = lambda request: Reply(status=429, text="too many", headers={"Retry-After": header})
    try:
        raise OSError("another model failed before")
    except OSError:
        error = await failing(ask(make()))
    assert isinstance(error, LMUnavailableError) and error.retry_after == seconds


async def test_a_server_that_takes_too_long(server: LMServer, make: Make, ask: Ask) -> None:
    server.answer = lambda request: Reply(text="Yes", delay=600.0)
    error = await failing(ask(make(timeout=0.2)))
    assert isinstance(error, LMUnavailableError) and error.timed_out and "timeout=" in str(error)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(text="Yes, it is so.", break_off=True),
        Reply(text="Yes, it is so.", unfinished=True),
        Reply(text="Yes, it is so.", fails="out of memory"),
        Reply(not_json=True),
    ],
    ids=["broken off", "unfinished", "failed", "not JSON"],
)
async def test_what_is_no_whole_answer_is_none(server: LMServer, make: Make, ask: Ask, reply: Reply) -> None:
    lm = make()
    server.answer = in_turn(reply, "Yes")
    error = await failing(ask(lm))
    assert type(error) is LMUnavailableError and not error.timed_out
    if reply.fails:
        assert reply.fails in str(error)
    assert (await ask(lm)).text == "Yes"


async def test_a_server_that_moved(server: LMServer, make: Make, ask: Ask) -> None:
    server.answer = lambda request: Reply(status=308, headers={"Location": "https://elsewhere/v1"})
    error = await failing(ask(make()))
    assert isinstance(error, LMSetupError) and "https://elsewhere/v1" in str(error)


# answers without an end


@pytest.mark.parametrize("kind", ["openai", "ollama"])
@pytest.mark.parametrize(("status", "where"), [(200, "headers"), (200, "body"), (400, "body")])
async def test_what_drips_is_not_waited_for(kind: str, status: int, where: str, ask: Ask) -> None:
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
        lm = (
            OpenAICompatibleLM(f"{address}/v1", "m", timeout=0.5)
            if kind == "openai"
            else OllamaLM("m", host=address, timeout=0.5)
        )
        error = await failing(ask(lm))
        over.set()
    assert isinstance(error, LMUnavailableError) and error.timed_out and "timeout=" in str(error)
    assert len(sent) < 600


async def test_an_answer_that_is_too_large_is_not_read_whole(server: LMServer, openai: Make, ask: Ask) -> None:
    sent = []

    def endless() -> Iterator[bytes]:
        for number in range(64):
            sent.append(number)
            yield b" " * 2**20

    server.answer = lambda request: Reply(pieces=endless)
    error = await failing(ask(openai()))
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


@pytest.mark.parametrize(
    "values",
    [*({"logprobs": given} for given in LOGPROBS), *({"usage": given} for given in USAGES)],
    ids=lambda values: str(values)[:40],
)
async def test_probabilities_and_counts_that_cannot_be_read_leave_the_answer(
    server: LMServer, openai: Make, ask: Ask, values: Json
) -> None:
    server.answer = odd(**values)
    assert await ask(openai()) == Completion(text="Yes")


async def test_probabilities_ollamas_client_does_not_take_are_not_asked_for(
    server: LMServer, ollama: Make, ask: Ask
) -> None:
    def answer(request: Json) -> Reply:
        body: Json = {"model": "tiny", "message": {"role": "assistant", "content": "Yes"}, "done": True}
        body |= {"prompt_eval_count": -5, "eval_count": 1}
        body |= {"logprobs": [{"token": "Yes", "logprob": None}]} if request.get("logprobs") else {}
        return Reply(pieces=lambda: [json.dumps(body).encode() + b"\n"])

    server.answer = answer
    assert await ask(ollama()) == Completion(text="Yes", completion_tokens=1)
    assert ["logprobs" in request for request in server.asked] == [True, False]


async def test_a_text_may_come_in_parts(server: LMServer, openai: Make, ask: Ask) -> None:
    thinking = {"type": "thinking", "thinking": "Well."}
    server.answer = odd([thinking, {"type": "text", "text": "Yes, "}, {"type": "text", "text": "it is."}])
    assert (await ask(openai())).text == "Yes, it is."


@pytest.mark.parametrize("content", [5, {"text": "Yes"}, ["Yes"], [{"type": "text", "text": 5}]], ids=str)
async def test_a_text_that_is_none_is_no_answer(server: LMServer, openai: Make, ask: Ask, content: Any) -> None:
    server.answer = odd(content)
    error = await failing(ask(openai()))
    assert type(error) is LMUnavailableError and "neither text nor parts of text" in str(error)


@pytest.mark.parametrize("before", range(60, 240, 8))
async def test_a_text_that_is_none_shows_no_key(server: LMServer, openai: Make, ask: Ask, before: int) -> None:
    server.answer = odd(["x" * before + KEY])
    assert KEY[:12] not in str(await failing(ask(openai(api_key=KEY))))


# settings that are left out


def refusing(*names: str, status: int = 400) -> Callable[[dict[str, Any]], Reply]:
    """Refuses requests with one of these settings, naming the first."""

    def answer(request: dict[str, Any]) -> Reply:
        found = [name for name in names if name in request]
        return Reply(status=status, text=f"'{found[0]}' is not supported") if found else Reply(text="Yes")

    return answer


async def test_a_model_that_cannot_think_is_asked_without(server: LMServer, ollama: Make, ask: Ask) -> None:
    lm = ollama()
    server.answer = refusing("think")
    assert (await ask(lm)).text == (await ask(lm)).text == "Yes"
    assert ["think" in request for request in server.asked] == [True, False, False]


@pytest.mark.parametrize("status", [400, 422, 501])
async def test_settings_a_server_refuses_are_left_out(server: LMServer, openai: Make, ask: Ask, status: int) -> None:
    lm = openai()
    server.answer = refusing("logprobs", "seed", "temperature", status=status)
    for _ in range(2):
        assert await ask(lm, schema=SCHEMA) == Completion(text="Yes", prompt_tokens=5, completion_tokens=1)
    left = {"logprobs", "seed", "temperature"}
    assert [len(left & request.keys()) for request in server.asked] == [3, 2, 1, 0, 0]


@pytest.mark.parametrize(("status", "older"), [(400, True), (422, True), (500, True), (400, False), (422, False)])
async def test_a_schema_is_sent_in_the_older_form_where_the_newer_is_refused_and_then_left_out(
    server: LMServer, openai: Make, ask: Ask, status: int, older: bool
) -> None:
    known = ("json_object", None) if older else (None,)

    def answer(request: dict[str, Any]) -> Reply:
        form = request.get("response_format", {}).get("type")
        refusal = Reply(status=status, text="response_format.type: input should be 'text'")
        return Reply(text="Yes") if form in known else refusal

    server.answer = answer
    lm = openai()
    assert (await ask(lm, schema=SCHEMA)).text == (await ask(lm, schema=SCHEMA)).text == "Yes"
    forms: list[Json | None] = [
        {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}},
        {"type": "json_object", "schema": SCHEMA},
        None,
    ]
    assert [request.get("response_format") for request in server.asked] == [
        *forms[: len(forms) - older],
        forms[1 if older else 2],
    ]


async def test_probabilities_are_asked_for_without_alternatives_where_these_are_refused(
    server: LMServer, openai: Make, ask: Ask
) -> None:
    server.answer = refusing("top_logprobs")
    assert (await ask(openai())).tokens == (Token("Yes", -0.1),)
    assert ["top_logprobs" in request for request in server.asked] == [True, False]


async def test_a_limit_is_sent_under_its_newer_name_where_the_older_is_refused(
    server: LMServer, openai: Make, ask: Ask
) -> None:
    def answer(request: dict[str, Any]) -> Reply:
        refusal = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        return Reply(text="Yes") if "max_tokens" not in request else Reply(status=400, text=refusal)

    server.answer = answer
    lm = openai()
    assert (await ask(lm, max_tokens=9)).text == (await ask(lm, max_tokens=9)).text == "Yes"
    assert [request.get("max_completion_tokens") for request in server.asked] == [None, 9, 9]


async def test_a_setting_of_the_users_own_is_not_left_out(server: LMServer, openai: Make, ask: Ask) -> None:
    server.answer = refusing("seed")
    error = await failing(ask(openai(extra={"seed": 7})))
    assert type(error) is LMError and server.calls == 1


async def test_a_refusal_that_goes_on_ends(server: LMServer, make: Make, ask: Ask) -> None:
    server.answer = lambda request: Reply(status=400, text="think, logprobs and seed are not supported")
    assert type(await failing(ask(make()))) is LMError
    assert server.calls == 2


@pytest.mark.parametrize("said", ["seeds", "reseed", "temperature_scale", "logprobs2"])
async def test_a_setting_is_named_by_a_whole_word(server: LMServer, openai: Make, ask: Ask, said: str) -> None:
    server.answer = lambda request: Reply(status=400, text=f"{said} is not supported")
    assert type(await failing(ask(openai()))) is LMError
    assert server.calls == 1


async def test_a_setting_is_named_in_any_language(server: LMServer, openai: Make, ask: Ask) -> None:
    server.answer = in_turn(Reply(status=400, text="不支持temperature参数"), "Yes")
    assert (await ask(openai())).text == "Yes"


@pytest.mark.parametrize(
    "said", ["no logprobs, no seed", "response_format.type: input should be 'text'", "use 'max_completion_tokens'"]
)
async def test_only_what_helped_is_left_out_from_then_on(server: LMServer, openai: Make, ask: Ask, said: str) -> None:
    lm = openai()
    server.answer = in_turn(Reply(status=400, text=said), Reply(status=400, text="too long"), "Yes")
    assert type(await failing(ask(lm, schema=SCHEMA, max_tokens=9))) is LMError
    await ask(lm, schema=SCHEMA, max_tokens=9)
    first, second, third = server.asked
    assert second != first == third


async def test_calls_at_the_same_time_all_learn_what_is_refused(server: LMServer, make: Make) -> None:
    together = threading.Barrier(4)

    def answer(request: dict[str, Any]) -> Reply:
        if not {"think", "seed"} & request.keys():
            return Reply(text="Yes")
        together.wait(60)
        return Reply(status=400, text="'think' and 'seed' are not supported")

    server.answer = answer
    lm = make(concurrency=4)
    assert [answer.text for answer in await asyncio.gather(*(lm.acomplete(HELLO) for _ in range(4)))] == ["Yes"] * 4
    assert server.calls == 8


# several calls at once


def meeting(size: int) -> Callable[[dict[str, Any]], str]:
    """Answers only once so many requests are there."""
    barrier = threading.Barrier(size)

    def answer(request: dict[str, Any]) -> str:
        barrier.wait(60)
        return "Yes"

    return answer


async def test_no_more_threads_or_tasks_call_than_the_model_takes(server: LMServer, make: Make) -> None:
    lm = make(concurrency=3)
    server.answer = meeting(3)
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: lm.complete(HELLO).text, range(12)))
    assert (answers, server.most_at_once) == (["Yes"] * 12, 3)
    completions = await asyncio.gather(*(lm.acomplete(HELLO) for _ in range(12)))
    assert ([completion.text for completion in completions], server.most_at_once) == (["Yes"] * 12, 3)


def test_one_call_at_a_time_is_the_default(server: LMServer, make: Make) -> None:
    lm = make()
    server.answer = lambda request: Reply(text="Yes", delay=0.01)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: lm.complete(HELLO), range(4)))
    assert server.most_at_once == 1


@pytest.mark.slow
async def test_more_calls_at_once_than_http_clients_let_through_by_default(server: LMServer, kind: str) -> None:
    lm = model_of(server, kind, concurrency=110)
    server.answer = meeting(110)
    await asyncio.gather(*(lm.acomplete(HELLO) for _ in range(110)))
    with ThreadPoolExecutor(110) as pool:
        list(pool.map(lambda _: lm.complete(HELLO), range(110)))
    assert server.most_at_once == 110


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


def test_one_model_in_several_event_loops_one_after_the_other(server: LMServer, make: Make) -> None:
    lm = make()
    loops = []

    async def several() -> list[str]:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        return [answer.text for answer in await asyncio.gather(*(lm.acomplete(HELLO) for _ in range(3)))]

    for _ in range(3):
        assert asyncio.run(several()) == ["Yes, it is."] * 3
        assert lm.complete(HELLO).text == "Yes, it is."
    gc.collect()
    # Whoever calls asyncio.run once a question must not collect loops.
    assert [loop() for loop in loops] == [None] * 3


def test_one_model_in_several_event_loops_at_once(server: LMServer, make: Make) -> None:
    lm = make(concurrency=2)

    async def several() -> int:
        return len(await asyncio.gather(*(lm.acomplete(HELLO) for _ in range(4))))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: asyncio.run(several()), range(4))) == [4] * 4


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
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", LEAVING_NOTHING_OPEN, server.url],
        capture_output=True,
        text=True,
        check=False,
    )
    # What is found in a destructor is printed, and does not change the status.
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


# check()


def test_checking_finds_the_model(server: LMServer, kind: str) -> None:
    model_of(server, kind).check()
    assert [request.path for request in server.requests] == [{"ollama": "/api/tags", "openai": "/v1/models"}[kind]]
    assert server.calls == 0


def test_checking_finds_that_there_is_no_such_model_or_no_server(server: LMServer, kind: str) -> None:
    with pytest.raises(LMSetupError, match={"ollama": "ollama pull huge", "openai": "It has: tiny"}[kind]):
        model_of(server, kind, "huge").check()
    server.stop()
    with pytest.raises(LMUnavailableError, match={"ollama": "ollama serve", "openai": "vllm serve"}[kind]):
        model_of(server, kind).check()


def test_checking_finds_that_the_key_is_refused(server: LMServer) -> None:
    server.api_key = KEY
    with pytest.raises(LMSetupError, match="api_key"):
        model_of(server, "openai").check()
    model_of(server, "openai", api_key=KEY).check()


def test_checking_finds_that_the_version_is_missing_and_accepts_a_server_without_a_list(server: LMServer) -> None:
    with pytest.raises(LMSetupError, match=f"Give {server.base_url} as base_url"):
        OpenAICompatibleLM(f"{server.url}/", "tiny").check()
    OpenAICompatibleLM(f"{server.url}/v2", "tiny").check()


# arguments

LIMITS: list[dict[str, Any]] = [
    *({"timeout": value} for value in (0, -1, float("nan"), float("inf"), "5", None, True)),
    *({"concurrency": value} for value in (0, -1, 1.5, "2", None, True)),
    *({"context": value} for value in (0, 255, 4096.0, "8k", True)),
]


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_limits_that_cannot_be_are_refused(server: LMServer, kind: str, limit: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(limit))):
        model_of(server, kind, **limit)


@pytest.mark.parametrize("model", ["", "  ", None, 5, b"tiny"])
def test_names_that_cannot_be_are_refused(server: LMServer, kind: str, model: Any) -> None:
    with pytest.raises(InvalidInputError, match="name of a model"):
        model_of(server, kind, model)


@pytest.mark.parametrize(
    ("address", "for_both"),
    [
        *((address, False) for address in ("", "localhost:8000", "ftp://here/v1", "http://", None)),
        *((address, True) for address in ("http://here:port/v1", "http://[::1", 5)),
    ],
)
def test_addresses_that_cannot_be_are_refused(address: Any, for_both: bool) -> None:
    with pytest.raises(InvalidInputError, match="base_url"):
        OpenAICompatibleLM(address, "tiny")
    if for_both:
        with pytest.raises(InvalidInputError, match="no address"):
            OllamaLM("tiny", host=address)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ollama", None)
    with pytest.raises(MissingExtraError, match="ollama is not installed"):
        OllamaLM("tiny")
