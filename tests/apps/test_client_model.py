"""The model of an MCP client, which may answer late or never: as for any other model there is a time limit."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from epic_apps.client_model import ClientLM
from epic_apps.mcp_sdk import Caller
from epic_memory.errors import LMUnavailableError
from epic_memory.lm import Message

HELLO = [Message("user", "hello")]
IN_TIME = r"client/slow did not answer in time, within 0\.05 s\. Give it longer \(timeout="


class Slow:
    """A client that does not answer."""

    client = "slow"

    async def sample(self, *_: object, **__: object) -> Any:
        await asyncio.Event().wait()


def slow() -> ClientLM:
    return ClientLM(cast(Caller, Slow()), timeout=0.05)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_client_that_does_not_answer_is_not_waited_for(is_async: bool) -> None:
    async def ask() -> None:
        lm = slow()
        await (lm.acomplete(HELLO) if is_async else asyncio.to_thread(lm.complete, HELLO))

    with pytest.raises(LMUnavailableError, match=IN_TIME) as raised:
        asyncio.run(ask())
    assert raised.value.timed_out


@pytest.mark.filterwarnings("ignore:coroutine")
def test_nobody_waits_for_a_server_that_has_stopped() -> None:
    loop = asyncio.new_event_loop()

    async def make() -> ClientLM:
        return slow()

    lm = loop.run_until_complete(make())
    running = threading.Thread(target=loop.run_forever)
    running.start()
    loop.call_soon_threadsafe(loop.stop)
    running.join()
    with ThreadPoolExecutor(1) as pool, pytest.raises(LMUnavailableError, match=IN_TIME):
        pool.submit(lm.complete, HELLO).result(30)
    loop.close()


def test_the_limit_is_that_of_other_models() -> None:
    async def seconds() -> float:
        return ClientLM(cast(Caller, Slow())).timeout

    assert asyncio.run(seconds()) == 120.0
