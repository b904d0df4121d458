"""The command line with a language model: what it asks, prints and leaves behind, and its exit codes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Epic, jsonl, refused
from epic_memory import EpicMemory, Settings
from epic_memory.types import MemoryEntry, Stance
from lm_servers import LMServer, Reply
from scripted import Script, instruction_for, preference_read, rows, until
from tables import table

CASINOS, VEGAN = PREFERENCES = ["I avoid hotels with on-site casinos.", "I follow a strict vegan diet."]
TEXTS = {
    "casino": "The Desert Inn is a hotel with an on-site casino.",
    "vegan": "A strict vegan diet leaves out milk, eggs and honey.",
    "pun": "Casino hotels is a song about hotels with casinos.",
    "noise": "The square root of two cannot be written as a fraction.",
}
TRUTH = {("casino", CASINOS): Stance.CONFLICTS, ("vegan", VEGAN): Stance.SUPPORTS}
PASSED = 3
KEY = "sk-very-secret-0123456789"


@pytest.fixture
def said() -> Script:
    return Script({(TEXTS[name], preference): stance for (name, preference), stance in TRUTH.items()})


@pytest.fixture
def server(said: Script) -> Iterator[LMServer]:
    with LMServer(lambda request: said(request["messages"])) as server:
        yield server


@pytest.fixture
def epic(terminal: Epic) -> Epic:
    """Runs a command in a folder that holds prefs.txt and corpus.jsonl."""
    Path("prefs.txt").write_text("\n".join(PREFERENCES), encoding="utf-8")
    jsonl(Path("corpus.jsonl"), *({"text": text, "id": name} for name, text in TEXTS.items()))
    return terminal


@pytest.fixture
def llm(server: LMServer) -> list[str]:
    """The options that name the server's model."""
    return ["--llm", "openai:tiny", "--llm-url", server.base_url]


BUILD = ["build", "--preferences", "prefs.txt", "--out", "me.epic", "--quiet", "corpus.jsonl"]


def entries(*names: str) -> dict[tuple[str, str], MemoryEntry]:
    """The entries that the file holds of items, all of `TEXTS` if none are named."""
    with EpicMemory.open("me.epic", settings=Settings(must_exist=True)) as memory:
        found = memory.file.entries(names or TEXTS)
    return {(name, entry.preference): entry for name, several in found.items() for entry in several}


def right() -> bool:
    """Whether the file holds what the model said."""
    found = {pair: (entry.stance, entry.instruction) for pair, entry in entries().items()}
    return found == {
        (name, preference): (stance, instruction_for(TEXTS[name], preference))
        for (name, preference), stance in TRUTH.items()
    }


def pending() -> int:
    with EpicMemory.open("me.epic", settings=Settings(must_exist=True)) as memory:
        return memory.stats().counts["pending"]


# build


def test_build_asks_the_model_and_reports_its_calls(epic: Epic, server: LMServer, said: Script, llm: list[str]) -> None:
    result = epic(*BUILD, *llm)
    assert (result.code, result.err) == (0, "")
    assert server.calls == 1 + len(PREFERENCES) and said.read == PREFERENCES and server.most_at_once == 1
    assert "2 preferences read by the model, 0 not (2 calls)" in result.out
    assert re.search(r"^language model +1 calls +[1-9]\d* \+ [1-9]\d* tokens +[\d.]+ s in calls$", result.out, re.M)
    assert re.search(r"^verification +2 kept", result.out, re.M)
    assert right()
    assert {entry.confidence for entry in entries().values()} != {None}
    server.stop()  # what was built can be asked without it
    assert instruction_for(TEXTS["casino"], CASINOS) in epic("ask", "me.epic", "Which hotel should I book?", "-v").out
    assert "confidence   0." in epic("explain", "me.epic", "vegan", "-v").out


def test_concurrency_and_timeout_can_be_chosen(epic: Epic, server: LMServer, said: Script, llm: list[str]) -> None:
    together = threading.Barrier(2)

    def answer(request: dict[str, Any]) -> str:
        text = said(request["messages"])
        if preference_read(request["messages"]) is not None:
            together.wait(60)
        return text

    server.answer = answer
    assert epic(*BUILD, *llm, "--concurrency", "2", "--timeout", "60").code == 0
    assert server.most_at_once == 2
    assert right()


# what stands in the way is said before anything is written


def nothing_written() -> bool:
    return sorted(path.name for path in Path().iterdir()) == ["corpus.jsonl", "prefs.txt"]


@pytest.mark.parametrize("missing", ["server", "model", "key"])
def test_what_is_missing_is_named(epic: Epic, server: LMServer, llm: list[str], missing: str) -> None:
    if missing == "server":
        server.stop()
    elif missing == "model":
        server.models = ("other",)
    else:
        server.api_key = "sk-another"
    parts = {"server": [f"answers at {server.url}", "Start it"], "model": ["'tiny'", "does not"], "key": ["refuses"]}
    refused(epic(*BUILD, *llm), *parts[missing])
    assert server.calls == 0
    assert nothing_written()


@pytest.mark.parametrize(("options", "parts"), table(__file__, "options_that_cannot_be"), ids=" ".join)
def test_options_that_cannot_be(epic: Epic, options: list[str], parts: list[str]) -> None:
    refused(epic(*BUILD, *options), *parts)
    assert nothing_written()


@pytest.mark.parametrize("named", ["--llm=ollama:tiny", "--llm=auto", "--encoder=ollama/tiny"])
def test_an_address_of_ollama_that_cannot_be(epic: Epic, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "localhost:many")
    refused(epic(*BUILD, named), "localhost:many", "no address of a server")
    assert nothing_written()


def test_a_memory_that_is_there_stays_as_it_is_without_a_server(epic: Epic, server: LMServer, llm: list[str]) -> None:
    epic(*BUILD, *llm)
    before = Path("me.epic").read_bytes()
    server.stop()
    for command in (
        ["build", "--out", "me.epic", "--quiet", "corpus.jsonl"],
        ["retry", "me.epic"],
        ["preferences", "me.epic", *llm, "add", "I love trains."],
        ["preferences", "me.epic", *llm, "remove", VEGAN],
    ):
        refused(epic(*command, *([] if command[0] == "preferences" else llm)), f"answers at {server.url}")
    assert Path("me.epic").read_bytes() == before


# retry and preferences


def test_retry_decides_what_waits(epic: Epic, server: LMServer, said: Script, llm: list[str]) -> None:
    server.answer = lambda request: Reply(text="Behalten, weil es passt.")
    built = epic(*BUILD, *llm)
    assert built.code == 0
    assert "could not be understood" in built.out
    assert pending() == PASSED
    assert "Behalten, weil es passt." in epic("explain", "me.epic", "vegan").out
    asked = epic("ask", "me.epic", "Which hotel should I book?").out
    assert "Nothing in this memory yet." not in asked
    assert f"{PASSED} items to be verified" in asked and "epic retry me.epic --llm MODEL" in asked
    server.answer = lambda request: said(request["messages"])
    retried = epic("retry", "me.epic", *llm)
    assert retried.code == 0
    assert pending() == 0
    assert right()
    assert re.search(r"^verified by +lm/(ollama|openai):tiny", epic("stats", "me.epic").out, re.M)


# the key


@pytest.fixture
def keyed(server: LMServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    server.api_key = KEY
    monkeypatch.setenv("EPIC_LLM_KEY", KEY)
    return ["--llm", "openai:tiny", "--llm-url", server.base_url]


def test_the_key_is_sent_and_not_shown(epic: Epic, server: LMServer, keyed: list[str]) -> None:
    result = epic(*BUILD, *keyed)
    assert result.code == 0
    assert right()
    assert {request.headers.get("Authorization") for request in server.requests} == {f"Bearer {KEY}"}
    assert KEY not in result.out + result.err
    assert KEY.encode() not in Path("me.epic").read_bytes()


def test_the_key_is_not_shown_when_the_server_repeats_it(epic: Epic, server: LMServer, keyed: list[str]) -> None:
    server.answer = lambda request: Reply(status=400, text=f"failed for {KEY}")
    built = epic(*BUILD, *keyed, "--timeout", "5")
    assert "failed for ***" in built.out
    server.api_key = "sk-another"
    refusal = epic("retry", "me.epic", *keyed)
    refused(refusal, "refuses this key")
    shown = [built.out, built.err, refusal.out, refusal.err, *(epic("explain", "me.epic", name).out for name in TEXTS)]
    assert KEY not in "".join(shown)
    assert KEY.encode() not in Path("me.epic").read_bytes()


# as a process


COUNT = 60
MANY = {f"n{number}": f"Hotel number {number} has an on-site casino." for number in range(COUNT)}


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGINT to send")
@pytest.mark.usefixtures("sigint")
@pytest.mark.slow
def test_ctrl_c_keeps_what_was_decided_and_the_next_run_goes_on(
    epic: Epic, tmp_path: Path, server: LMServer, said: Script
) -> None:
    said.truth = {(text, CASINOS): Stance.CONFLICTS for text in MANY.values()}
    jsonl(Path("many.jsonl"), *({"text": text, "id": name} for name, text in MANY.items()))
    slow = threading.Event()

    def answer(request: dict[str, Any]) -> str | Reply:
        text = said(request["messages"])
        if len(said.asked) <= 4:
            # It takes longer than answers are gathered before they are committed.
            return Reply(text=text, delay=0.1)
        slow.set()
        return Reply(text=text, delay=600.0)

    server.answer = answer
    options = ["--llm", "ollama:tiny", "--llm-url", server.url, "--concurrency", "3"]
    command = ["build", "--preferences", "prefs.txt", "--out", "me.epic", "--quiet", "many.jsonl", *options]
    with subprocess.Popen(
        [sys.executable, "-m", "epic_apps.cli.main", *command], cwd=tmp_path, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            assert slow.wait(300)
            until(lambda: rows(Path("me.epic"), "entries") > 0, 300)
            process.send_signal(signal.SIGINT)
            # The answer that is under way takes ten minutes: it is not waited for.
            _, err = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "run it again" in err
    kept = {name for name, _ in entries(*MANY)}
    assert kept and kept < set(MANY)
    server.answer = lambda request: said(request["messages"])
    before = len(said.asked)
    result = epic(*command)
    assert result.code == 0
    assert {name for name, _ in entries(*MANY)} == set(MANY)
    again = {chunk for asked in said.asked[before:] for chunk in asked.chunks}
    assert again == {MANY[name] for name in set(MANY) - kept}
    assert pending() == 0
