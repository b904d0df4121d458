"""The MCP server as any client sees it, by lines of JSON: this holds for each version of the SDK that is supported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from epic_memory import Settings

pytest.importorskip("mcp", reason="needs the extra mcp")

from epic_apps.local import listening_socket
from epic_apps.mcp import memory_server
from epic_apps.mcp_memory import UserMemory
from epic_apps.mcp_serving import PATH, http_app
from epic_memory import EpicMemory, __version__
from epic_memory.types import Stance
from lm_servers import serving
from minds import Mind
from scripted import instruction_for

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
        asked(5, "tools/call", name="remove_preference", arguments={"preference": "none"}),
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
        (True, "There is no such preference. Take an id from list_preferences."),
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

            def status(**headers: str) -> int:
                return client.post(PATH, json=asked(1, "initialize", **HELLO), headers=headers).status_code

            assert [status(), status(**accepted), status(**accepted, host="evil.example")] == [401, 200, 421]
            assert status(**accepted, origin="https://evil.example") == 403


class Speaking:
    """A client over standard input and output, whose model answers as `answer` says; None refuses."""

    def __init__(self, server: subprocess.Popen[str], answer: Callable[[Any], str | None] | None) -> None:
        self.server = server
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        sampling = {} if answer is None else {"sampling": {}}
        self.call("initialize", **{**HELLO, "capabilities": sampling})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, method: str, **params: Any) -> Any:
        """The result of a request; what the server asks meanwhile is answered."""
        self._send(asked(1, method, **params))
        assert self.server.stdout is not None
        while "method" in (line := json.loads(self.server.stdout.readline())):
            if line["method"] == "sampling/createMessage":
                self._send({"jsonrpc": "2.0", "id": line["id"], **self._answer(line["params"])})
        return line["result"]

    def guidance(self, query: str) -> list[str]:
        found = self.call("tools/call", name="search_memory", arguments={"query": query})
        return [each["guidance"] for each in found["structuredContent"]["results"]]

    def _answer(self, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(params)
        messages = [{"role": each["role"], "content": each["content"]["text"]} for each in params["messages"]]
        assert self.answer is not None
        said = self.answer([{"role": "system", "content": params["systemPrompt"]}, *messages])
        if said is None:
            return {"error": {"code": -1, "message": "User rejected sampling request"}}
        content = {"type": "text", "text": said}
        return {"result": {"role": "assistant", "content": content, "model": "own", "stopReason": "endTurn"}}

    def _send(self, message: dict[str, Any]) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(message) + "\n")
        self.server.stdin.flush()


@pytest.mark.slow
@pytest.mark.parametrize("offers", ["an answer", "a refusal", "no model"])
def test_the_clients_own_model_judges_what_a_question_finds(tmp_path: Path, offers: str) -> None:
    path, text = tmp_path / "jumpers.epic", "A jumper of merino wool, warm enough for the winter."
    with EpicMemory.open(path, ["I'm allergic to wool."], settings=Settings(tau=1.0)) as memory:
        memory.add([text])
        assert memory.stats().counts["entries"] == 0

    mind = Mind()
    mind.stance = Stance.CONFLICTS
    refusing = Mind()
    refusing.well, refusing.fault = False, lambda: None
    answers = {"an answer": mind, "a refusal": refusing, "no model": None}
    command = [sys.executable, "-m", "epic_apps", "mcp", str(path), "--llm", "client", "--on-demand", "60 s"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as server:
        client = Speaking(server, answers[offers])
        found = [client.guidance("Which jumper should I buy for the winter?") for _ in range(2)]
        assert server.stdin is not None
        server.stdin.close()
    judged = [instruction_for(text, "I'm allergic to wool.")]
    assert server.returncode == 0
    assert found == [judged if offers == "an answer" else [""]] * 2
    # What was answered is not asked again, and the model reads the preference once, when it has answered; what was
    # refused may be allowed the next time.
    about = ["judge" if "merino" in str(asked) else "read" for asked in client.asked]
    assert about == {"an answer": ["judge", "read"], "a refusal": ["judge", "judge"], "no model": []}[offers]
    with EpicMemory.open(path) as memory:
        assert memory.stats().counts["entries"] == (offers == "an answer")
        assert memory.stats().counts["pending"] == 0
