"""The service of the examples: what a caller does wrong, or has to try again, is answered so."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

testclient = pytest.importorskip("fastapi.testclient")
pytest.importorskip("langchain")
from langchain_core.messages import AIMessage  # noqa: E402 - after it is known to be there

APP = Path(__file__).parents[2] / "examples" / "service" / "app.py"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("EPIC_ROOT", str(tmp_path))
    found = importlib.util.spec_from_file_location("service_app", APP)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "service_app", module)
    found.loader.exec_module(module)
    return module


def test_what_a_caller_does_wrong_is_no_error_of_the_service(service: ModuleType) -> None:
    vegan = {"text": "I follow a strict vegan diet."}
    with testclient.TestClient(service.app, raise_server_exceptions=False) as client:
        assert client.post("/ann/preferences", json=vegan).json() == [vegan["text"]]
        assert client.post("/ann/preferences", json=vegan).status_code == 409
        assert client.post("/ann/preferences", json={"text": "  "}).status_code == 422
        assert client.post("/ann/chat", json={"text": ""}).status_code == 422
        for blank in ("%20", "%E2%80%8B"):
            assert client.post(f"/{blank}/preferences", json=vegan).status_code == 422
            assert client.delete(f"/{blank}").status_code == 422
        assert client.get("/health").json()["in_use"] == 0


def test_forgetting_during_a_chat_is_to_be_tried_again(service: ModuleType) -> None:
    service.pool._wait = 0.2
    begun, end = threading.Event(), threading.Event()
    answers: list[Any] = []

    class Agent:
        async def ainvoke(self, said: Any, context: Any) -> Any:
            begun.set()
            await asyncio.to_thread(end.wait, 60)
            return {"messages": [AIMessage("Lisbon.")]}

    service.agent = Agent
    with testclient.TestClient(service.app, raise_server_exceptions=False) as client:
        chat = threading.Thread(target=lambda: answers.append(client.post("/ann/chat", json={"text": "Hi"})))
        chat.start()
        assert begun.wait(60)
        refused = client.delete("/ann")
        end.set()
        chat.join()
        assert refused.status_code == 409 and refused.headers["retry-after"] == "5"
        assert answers[0].status_code == 200
        assert client.delete("/ann").json()["removed"]
