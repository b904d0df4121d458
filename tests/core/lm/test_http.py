"""Where prompts and keys go: not through a proxy where that would show them, and no key to whom it is not for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from epic_memory.encoders import OllamaEncoder
from epic_memory.errors import EncoderError, InvalidInputError, LMError
from epic_memory.lm import Message, OllamaLM, OpenAICompatibleLM, lm_of
from epic_memory.lm.http import client_settings
from lm_servers import LMServer
from scripted import model_of
from tables import table

HELLO = [Message("user", "Is it so?")]
KEY = "key-very-secret-0123456789"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[LMServer]:
    """A server that the environment names as proxy."""
    with LMServer(lambda request: "Yes, said the proxy.") as proxy:
        for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(variable, proxy.url)
        yield proxy


LOOPBACK = [
    *("localhost", "LOCALHOST", "localhost.", "me.localhost", "127.0.0.1", "127.1", "127.0.0.1.", "127.200.3.4"),
    *("0x7f.1", "2130706433", "0.0.0.0", "0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"),
    "[0:0:0:0:0:0:0:1]",
]


def asked_at(url: str, kind: str, **settings: Any) -> OllamaLM | OpenAICompatibleLM:
    if kind == "ollama":
        return OllamaLM("tiny", host=url, **settings)
    return OpenAICompatibleLM(f"{url}/v1", "tiny", **settings)


def test_a_prompt_for_this_machine_takes_no_detour(server: LMServer, proxy: LMServer, kind: str) -> None:
    for host in LOOPBACK:
        try:
            assert asked_at(server.url.replace("127.0.0.1", host), kind).complete(HELLO).text == "Yes, it is."
        except LMError:  # the spelling may not reach the server on each system; the proxy it must not reach
            assert host not in ("localhost", "127.0.0.1", "127.1", "0.0.0.0")
        assert proxy.connections == 0, host
    assert server.calls >= 4
    for host in ("127.1", "localhost.", "[::ffff:127.0.0.1]"):
        with pytest.raises(EncoderError):
            OllamaEncoder("tiny", host=f"http://{host}:9").encode(["a secret"])
    assert proxy.connections == 0


@pytest.mark.parametrize("host", ["192.0.2.7", "127.example.org", "localhost.example.org", "[::2]", "1.127"])
def test_a_prompt_for_another_machine_goes_where_the_environment_says(proxy: LMServer, kind: str, host: str) -> None:
    with suppress(LMError):
        asked_at(f"http://{host}:9", kind).complete(HELLO)
    assert proxy.connections == 1


# keys


def test_the_environments_key_for_ollama_goes_to_no_other_server(
    server: LMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    OllamaLM("tiny", host=server.url).complete(HELLO)
    OllamaLM("tiny", host=server.url, api_key="other").complete(HELLO)
    lm_of("ollama:tiny", url=server.url, api_key="other").complete(HELLO)
    with pytest.raises(EncoderError):
        OllamaEncoder("tiny", host=server.url).encode(["a"])
    sent = [request.headers.get("Authorization") for request in server.requests]
    assert sent == [None, "Bearer other", "Bearer other", None]


@pytest.mark.parametrize(("address", "sent"), table(__file__, "it_goes_to_ollama_itself_and_never_in_clear"))
async def test_it_goes_to_ollama_itself_and_never_in_clear(
    monkeypatch: pytest.MonkeyPatch, address: str, sent: bool
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    shown: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        shown.append(request.headers.get("Authorization"))
        return httpx.Response(500)

    lm = OllamaLM("tiny", host=address)
    lm._server.client._client._transport = httpx.MockTransport(answer)
    with pytest.raises(LMError):
        lm.complete(HELLO)
    async with lm.session() as client:
        client._client._transport = httpx.MockTransport(answer)
        with pytest.raises(LMError):
            await lm.acomplete(HELLO)
    assert shown == [f"Bearer {KEY}" if sent else None] * 2


def test_a_key_is_not_shown_to_a_proxy(proxy: LMServer, kind: str) -> None:
    with pytest.raises(LMError):
        asked_at("http://192.0.2.7:9", kind, api_key=KEY, timeout=0.2).complete(HELLO)
    assert proxy.connections == 0
    # Through a proxy TLS is from end to end.
    assert client_settings(httpx.URL("https://192.0.2.7"), timeout=1, concurrency=1, key=KEY)["trust_env"]


@pytest.mark.parametrize("key", ["", f"{KEY}\n", f"{KEY} ", f"{KEY}é", 5])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(server: LMServer, kind: str, key: Any) -> None:
    with pytest.raises(InvalidInputError, match="api_key") as caught:
        model_of(server, kind, api_key=key)
    assert KEY not in str(caught.value)
