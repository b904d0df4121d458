"""The MCP server as any client sees it, by lines of JSON: this holds for each version of the SDK that is supported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from epic_apps.local import listening_socket
from epic_apps.mcp import memory_server
from epic_apps.mcp_memory import UserMemory
from epic_apps.mcp_serving import PATH, http_app
from epic_memory import EpicMemory, __version__
from lm_servers import serving

TOKEN = "a-token-that-is-long-enough"
HELLO = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "me.epic"
    with EpicMemory.open(made, ["I like quiet hotels."]) as memory:
        memory.add(["The Palms is a quiet hotel near the sea."])
    return made


def asked(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@pytest.mark.slow  # a process of its own imports the SDK
def test_a_client_lists_and_calls_tools_over_standard_input_and_output(path: Path) -> None:
    lines = [
        asked(1, "initialize", **HELLO),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        asked(2, "tools/list"),
        asked(3, "tools/call", name="search_memory", arguments={"query": "Which hotel?"}),
        asked(4, "tools/call", name="search_memory", arguments={"q": "Which hotel?"}),
        asked(5, "tools/call", name="forget", arguments={"id": "none"}),
        asked(6, "resources/read", uri="memory://preferences"),
    ]
    command = [sys.executable, "-m", "epic_apps", "mcp", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as server:
        assert server.stdin is not None and server.stdout is not None
        answers: dict[int, Any] = {}
        for line in lines:
            server.stdin.write(json.dumps(line) + "\n")
            server.stdin.flush()
            if "id" in line:
                answer = json.loads(server.stdout.readline())
                answers[answer["id"]] = answer["result"]
        server.stdin.close()
    assert server.returncode == 0
    assert (answers[1]["serverInfo"]["name"], answers[1]["serverInfo"]["version"]) == ("epic-memory", __version__)
    tools = {tool["name"]: tool for tool in answers[2]["tools"]}
    assert tools["search_memory"]["annotations"]["readOnlyHint"] is True
    assert tools["forget"]["annotations"]["destructiveHint"] is False
    limit = tools["search_memory"]["inputSchema"]["properties"]["limit"]
    assert (limit["type"], limit["minimum"], limit["maximum"]) == ("integer", 1, 50)
    assert answers[3]["structuredContent"]["results"][0]["memory"] == "The Palms is a quiet hotel near the sea."
    wrong = [(answers[number]["isError"], answers[number]["content"][0]["text"]) for number in (4, 5)]
    assert wrong == [
        (True, "query is missing. Call search_memory again with query, limit, user_id."),
        (True, "Nothing with the id 'none' is held. Take one from search_memory or list_preferences."),
    ]
    assert "I like quiet hotels." in answers[6]["contents"][0]["text"]


def test_http_answers_a_client_of_this_machine_that_has_the_token(path: Path) -> None:
    with listening_socket(None) as listening, UserMemory(path) as memory:
        port = listening.getsockname()[1]
        with (
            serving(http_app(memory_server(memory), port=port, token=TOKEN), listening),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=None) as client,
        ):
            accepted = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {TOKEN}"}

            def status(**headers: str | bytes) -> int:
                return client.post(PATH, json=asked(1, "initialize", **HELLO), headers=headers).status_code

            assert [status(), status(**accepted), status(**accepted, host="evil.example")] == [401, 200, 421]
            assert {status(**accepted, origin=origin) for origin in ("https://evil.example", "null")} == {403}
            assert status(**accepted, origin=f"http://127.0.0.1:{port}") == 200
            assert {status(authorization=wrong) for wrong in (TOKEN, "Bearer é".encode())} == {401}
