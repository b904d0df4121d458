"""An MCP server over a pool: each call takes the memory of its user, and gives it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epic_memory import Settings
from epic_memory.errors import InvalidInputError
from epic_memory.text.chunking import WordChunker
from epic_scale import MemoryPool

pytest.importorskip("mcp.server.mcpserver", reason="its client is that of version 2 of the SDK")

from mcp import Client

from epic_apps.mcp import memory_server
from epic_apps.mcp_memory import Access
from epic_apps.mcp_pool import PoolMemory


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[MemoryPool]:
    with MemoryPool(tmp_path, encoder="static", settings=Settings(chunker=WordChunker())) as made:
        for user, text in (("ann", "I am vegan."), ("ben", "I like trains.")):
            with made.get(user) as memory:
                memory.preferences.add(text)
        yield made


async def call(pool: MemoryPool, name: str, access: Access = "write", any_user: bool = False, **arguments: Any) -> str:
    async with Client(memory_server(PoolMemory(pool, "ann", access=access, any_user=any_user))) as client:
        return str((await client.call_tool(name, arguments)).content)


async def test_each_call_is_a_turn_of_its_user(pool: MemoryPool) -> None:
    assert "saved" in await call(pool, "save_note", text="A vegan soup of lentils.")
    assert "lentils" in await call(pool, "search_memory", "read", query="What is a vegan soup?")
    assert "trains" in await call(pool, "list_preferences", any_user=True, user_id="ben")
    assert pool.health().in_use == 0 and pool.health().turns >= 5


async def test_nobody_elses_memory_is_reached_or_made(pool: MemoryPool) -> None:
    assert "one user" in await call(pool, "list_preferences", user_id="ben")
    assert "no such user" in await call(pool, "list_preferences", "propose", any_user=True, user_id="eve")
    assert not pool.has("eve")
    with pytest.raises(InvalidInputError, match="access"):
        PoolMemory(pool, "ann", access="all")  # type: ignore[arg-type]
