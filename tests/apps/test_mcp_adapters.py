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
from epic_memory import EpicMemory, Item
from epic_memory.types.proposals import Proposal
from lm_servers import serving

Call: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[tuple[str, bool]]]

AVOIDS, PALMS = "I avoid hotels with casinos.", "The Palms is a quiet hotel near the sea."
DOG, CAT = (Proposal(kind="add_fact", text=f"I have a {pet}.", quote=f"my {pet}") for pet in ("dog", "cat"))
TOKEN = "a-token-that-is-long-enough"
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("search_memory", {"query": "Which quiet hotel near the sea?", "limit": 1}, PALMS),
    ("get_context", {"query": "Which hotel should I book?"}, AVOIDS),
    ("list_preferences", {}, AVOIDS),
    ("list_facts", {}, "My sister is called Ines."),
    ("list_proposals", {}, "I have a dog."),
    ("remember", {"text": "I live in Porto."}, "remembered"),
    ("save_note", {"text": "Bake the bread at 200 degrees.", "title": "Bread"}, "saved"),
    ("get_context", {"query": "How hot is the oven for bread?"}, "Written by: an assistant, not by the user"),
    ("remember", {"text": "I prefer buses.", "kind": "preference", "replaces": AVOIDS}, "in place of"),
    ("accept_proposal", {"proposal": DOG.id}, "accepted"),
    ("reject_proposal", {"proposal": CAT.id}, "rejected"),
    ("forget", {"id": "palms"}, "forgotten"),
]
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("search_memory", {}, "query is missing. Call search_memory again with query, limit, user_id."),
    ("search_memory", {"query": " "}, "query is empty"),
    ("get_context", {"query": ["hotel"]}, "query must be a text, not list"),
    ("list_facts", {"user_id": "eve"}, "This server works for one user."),
    ("remember", {"text": "My password is hunter2."}, "is not remembered from a chat"),
    ("save_note", {"text": "PIN: 4711"}, "Save it without."),
    ("forget", {"id": "none"}, "Nothing with the id 'none' is held."),
    ("accept_proposal", {"proposal": "none"}, "No open proposal has the id 'none'."),
]


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
    assert names == {name for name, *_ in CALLS}
    for name, arguments, expected in CALLS:
        text, failed = await call(name, arguments)
        assert not failed and expected in text, (name, text)
    for name, arguments, expected in WRONG:
        text, failed = await call(name, arguments)
        assert failed and expected in text and "validation error" not in text, (name, text)


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
