"""The option --llm, which means the same on every command: what the model does, what it may, and what waits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from command_line import Epic, jsonl, refused
from epic_apps.cli.main import app
from epic_memory import EpicMemory, Settings
from lm_servers import LMServer
from minds import CHAT, Mind
from tables import table

BEANS = "I like to cook with beans."
TEXTS = [f"Note {number} of a stew of beans." for number in range(24)]


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture
def server(mind: Mind) -> Iterator[LMServer]:
    with LMServer(lambda body: mind(body["messages"])) as server:
        yield server


@pytest.fixture
def llm(server: LMServer) -> list[str]:
    return ["--llm", f"openai:tiny@{server.base_url}"]


@pytest.fixture
def epic(terminal: Epic) -> Epic:
    """Runs a command in a folder with the memory me.epic, in which nobody has judged what it holds."""
    with EpicMemory.open("me.epic", [BEANS], settings=Settings(tau=1.0)) as memory:
        memory.add(TEXTS[:3])
        memory.facts.add("I call my cat Miso.")
    Path("prefs.txt").write_text(BEANS, encoding="utf-8")
    Path("chat.json").write_text(json.dumps([{"role": "user", "content": CHAT[0][1]}]), encoding="utf-8")
    jsonl(Path("notes.jsonl"), *({"text": text} for text in TEXTS))
    return terminal


@pytest.mark.parametrize(
    ("command", "kind", "shown"),
    table(__file__, "the_model_does_what_a_command_can_use_it_for"),
    ids=lambda value: value.split()[0] if isinstance(value, str) and " " in value else "",
)
def test_the_model_does_what_a_command_can_use_it_for(
    epic: Epic, mind: Mind, llm: list[str], command: str, kind: str, shown: str
) -> None:
    words = {"WHICH": "Which stew of beans should I cook?", "RENT": "My rent is 900 euros.", "VEGAN": "I eat no meat."}
    result = epic(*(words.get(word, word) for word in command.split()), *llm)
    assert (result.code, result.err) == (0, "")
    assert shown in result.out
    assert kind in mind.kinds and set(mind.answered.values()) == {1}


def test_a_model_that_fails_is_named_where_a_fact_is_noted_or_a_proposal_accepted(
    epic: Epic, mind: Mind, llm: list[str]
) -> None:
    epic("import", "me.epic", "chat.json", *llm)
    mind.well = False
    noted = epic("note", "me.epic", "My rent is 900 euros.", *llm)
    assert noted.code == 0 and "did not say what a fact changes" in noted.err
    accepted = epic("proposals", "me.epic", "accept", "all", *llm)
    assert accepted.code == 0 and "2 preferences could not be read by the model" in accepted.err


def test_what_a_question_had_judged_is_kept(epic: Epic, mind: Mind, llm: list[str]) -> None:
    question = "Which stew of beans should I cook?"
    asked = [epic("ask", "me.epic", question, *options) for options in (llm, llm, [])]
    assert [result.code for result in asked] == [0, 0, 0]
    assert asked[0].out == asked[1].out == asked[2].out
    assert set(mind.answered.values()) == {1}
    off = epic("ask", "me.epic", "Which other stew of beans?", *llm, "--on-demand", "off")
    assert off.code == 0 and set(mind.answered.values()) == {1}


def test_what_is_over_the_budget_waits_and_is_shown(epic: Epic, mind: Mind, llm: list[str]) -> None:
    build = ["build", "--preferences", "prefs.txt", "--out", "new.epic", "--tau", "-1", "--quiet", "notes.jsonl"]
    built = epic(*build, *llm, "--model-budget", "2")
    assert built.code == 0 and mind.asked == 2
    found = re.search(r"budget of 2 calls a day is used up: (\d+) items and 0 preferences wait", built.out)
    assert found is not None
    for shown in ("2 calls, ", " tokens today, of 2 calls a day", f"{found[1]} items to be verified"):
        assert shown in epic("stats", "new.epic").out
    again = epic("retry", "new.epic", *llm, "--model-budget", "2")
    assert again.code == 0 and mind.asked == 2 and f": {found[1]} items" in again.out
    rest = epic("retry", "new.epic", *llm, "--model-budget", "100_000 tokens")
    assert rest.code == 0 and f"{found[1]} kept" in rest.out
    assert "waiting" not in epic("stats", "new.epic").out
    assert set(mind.answered.values()) == {1}


@pytest.mark.slow
def test_the_demo_runs_with_ones_own_model(epic: Epic, mind: Mind, llm: list[str]) -> None:
    result = epic("demo", *llm, "--on-demand", "off", "--out", "demo.epic")
    assert result.code == 0
    found = re.search(r"tiny was asked (\d+) times: it expanded 8 of 8 preferences, and left 0 texts", result.out)
    assert found is not None and int(found[1]) == mind.asked
    with EpicMemory.open("demo.epic") as memory:
        assert {made.source for made in memory.preferences.expansions().values() if made is not None} == {"model"}


def test_a_printed_configuration_names_the_model(epic: Epic, llm: list[str]) -> None:
    result = epic("connect", "cursor", "me.epic", "--print", *llm, "--model-budget", "9", "--timeout", "5")
    arguments = json.loads(result.out)["mcpServers"]["epic-memory"]["args"]
    assert {*llm, "--timeout", "5.0", "--model-budget", "9"} < set(arguments)


@pytest.mark.parametrize(
    ("command", "parts"),
    table(__file__, "options_that_cannot_be"),
    ids=str,
)
def test_options_that_cannot_be(epic: Epic, mind: Mind, llm: list[str], command: str, parts: list[str]) -> None:
    before = Path("me.epic").read_bytes()
    given = [part for word in command.split() for part in (llm if word == "LLM" else [word])]
    refused(epic(*given), *parts)
    assert mind.asked == 0 and Path("me.epic").read_bytes() == before


def test_every_command_that_can_use_a_model_takes_the_same_options() -> None:
    program: Any = typer.main.get_command(app)
    options = {name: {each.name for each in one.params} for name, one in program.commands.items()}
    asking = {name: given for name, given in options.items() if "llm" in given}
    commands = "build add ask onboard import sync proposals note retry mcp connect inspect demo"
    assert set(asking) == set(commands.split())
    for given in asking.values():
        assert given >= {"llm", "llm_url", "model_budget", "on_demand", "concurrency", "timeout"}
