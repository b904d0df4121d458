"""The MCP server behind the frameworks' own adapters: every tool once, and what is wrong said in our words.

langchain-mcp-adapters needs version 1 of the MCP SDK and llama-index-tools-mcp version 2, so no environment has both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from epic_apps.local import listening_socket
from epic_apps.mcp import memory_server
from epic_apps.mcp_memory import UserMemory
from epic_apps.mcp_serving import PATH, http_app
from epic_learn.types import Proposal
from epic_memory import EpicMemory, Item
from lm_servers import serving
from tables import table

Call: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[tuple[str, bool]]]

AVOIDS, PALMS = "I avoid hotels with casinos.", "The Palms is a quiet hotel near the sea."
DOG, CAT = (Proposal(kind="add_fact", text=f"I have a {pet}.", quote=f"my {pet}") for pet in ("dog", "cat"))
TOKEN = "a-token-that-is-long-enough"
NAMES = {"AVOIDS": AVOIDS, "PALMS": PALMS, "DOG": DOG.id, "CAT": CAT.id}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "me.epic"
    with EpicMemory.open(path, [AVOIDS]) as memory:
        memory.add([Item(id="palms", text=PALMS)])
        memory.facts.add("My sister is called Ines.")
        memory.proposals.add([DOG, CAT])
    with listening_socket(None) as listening, UserMemory(path, access="write") as served:
        port = listening.getsockname()[1]
        with serving(http_app(memory_server(served), port=port, token=TOKEN), listening):
            yield f"http://127.0.0.1:{port}{PATH}"


async def check(names: set[str], call: Call) -> None:
    assert names == {name for name, *_ in table(__file__, "calls")}
    for kind in ("calls", "wrong"):
        for name, arguments, expected in table(__file__, kind):
            given = {key: NAMES.get(str(value), value) for key, value in arguments.items()}
            text, failed = await call(name, given)
            assert failed is (kind == "wrong") and NAMES.get(expected, expected) in text, (name, text)
            assert "validation error" not in text


async def test_langchain(address: str) -> None:
    sessions: Any = pytest.importorskip("langchain_mcp_adapters.client")
    loading: Any = pytest.importorskip("langchain_mcp_adapters.tools")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    client = sessions.MultiServerMCPClient({"epic": {"transport": "http", "url": address, "headers": headers}})
    async with client.session("epic") as session:
        tools = {tool.name: tool for tool in await loading.load_mcp_tools(session)}

        async def call(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
            said = await tools[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})
            return str(said.text), said.status == "error"

        await check(set(tools), call)


async def test_llamaindex(address: str) -> None:
    adapter: Any = pytest.importorskip("llama_index.tools.mcp")
    client = adapter.BasicMCPClient(address, headers={"Authorization": f"Bearer {TOKEN}"})
    tools = {tool.metadata.name: tool for tool in await adapter.McpToolSpec(client).to_tool_list_async()}

    async def call(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        result = (await tools[name].acall(**arguments)).raw_output
        return result.content[0].text, result.is_error

    await check(set(tools), call)
