"""`epic preferences`: what each likes and avoids is shown, corrected, and read anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from epic_core import EpicMemory
from epic_core.cli.main import main
from epic_core.types.preferences import Aspects
from lm_servers import LMServer, in_turn
from scripted import Script, aspects_for, forget_environment

AVOIDS, PREFERS = "I avoid hotels with casinos.", "I prefer trains over flights."

Epic = Callable[..., str]


@pytest.fixture
def epic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Epic:
    """Runs `epic preferences me.epic ...`; what it printed, after its exit code if that is not 0."""
    forget_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)
    EpicMemory.open("me.epic", [AVOIDS, PREFERS]).close()

    def run(*arguments: str) -> str:
        try:
            code = main(["preferences", "me.epic", *arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        said = capsys.readouterr()
        return said.out if code == 0 else f"{code}: {said.err}"

    return run


def aspects(preference: str) -> Aspects:
    with EpicMemory.open("me.epic") as memory:
        return memory.aspects(preference)


def test_list_shows_what_each_likes_and_avoids_and_who_read_it(epic: Epic) -> None:
    first, likes, second, prefers = epic("list").splitlines()
    assert AVOIDS in first and PREFERS in second
    assert likes.startswith("    avoids ") and "casinos" in likes and likes.endswith("(read by the parser)")
    assert prefers.startswith("    likes trains | avoids flights | firmness 0.5")


def test_set_changes_what_is_given(epic: Epic) -> None:
    said = epic("set", PREFERS, "--likes", "trains", "--likes", "ferries", "--scope", "in Europe")
    assert said == "    likes trains; ferries | avoids flights | firmness 0.5 | in Europe  (set by the user)\n"
    assert said in epic("list")
    assert aspects(PREFERS) == Aspects(
        liked=("trains", "ferries"), avoided=("flights",), firmness=0.5, scope="in Europe", source="user"
    )
    epic("set", PREFERS, "--avoids", "", "--firmness", "strict", "--scope", "")
    assert aspects(PREFERS) == Aspects(liked=("trains", "ferries"), firmness=1.0)


def test_reread_takes_it_back(epic: Epic) -> None:
    before = aspects(AVOIDS)
    epic("set", AVOIDS, "--likes", "casinos", "--avoids", "")
    assert "(read by the parser)" in epic("reread", AVOIDS) and aspects(AVOIDS) == before


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["set", "I love tea.", "--likes", "tea"], "No preference"),
        (["set", AVOIDS, "--likes", "", "--avoids", ""], "need something"),
        (["set", AVOIDS, "--firmness", "somehow"], "invalid choice"),
        (["set"], "text"),
        (["reread", "I love tea."], "No preference"),
        (["reread", AVOIDS, "--way", "single"], "--llm says which"),
    ],
)
def test_what_cannot_be_changes_nothing(epic: Epic, arguments: list[str], part: str) -> None:
    before = aspects(AVOIDS)
    said = epic(*arguments)
    assert said.startswith("2: ") and part in said and aspects(AVOIDS) == before


@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_a_model_reads(epic: Epic, kind: str) -> None:
    said = Script({})
    with LMServer(lambda request: said(request["messages"])) as server:
        llm = ["--llm", f"{kind}/tiny", "--llm-url", server.url if kind == "ollama" else server.base_url]
        assert "(read by a language model)" in epic("reread", AVOIDS, *llm)
        assert "1 preferences read" in epic("add", "I love tea.", *llm)
        assert said.read == [AVOIDS, "I love tea."]
        server.answer = in_turn("Well.", "Well.", aspects_for("tea"))
        failed = epic("reread", PREFERS, *llm)
        assert "warning: The model's answer could not be understood" in failed
        assert "a language model failed, and is asked again" in failed and "asked again" in epic("list")
        # It is asked about that one again, and about the new one.
        assert "2 preferences read" in epic("add", "I love coffee.", *llm)
    assert epic("list").count("(read by a language model)") == 4
    # A model that is not there is said before anything is changed.
    assert epic("reread", AVOIDS, *llm).startswith("2: ")
    assert epic("list").count("(read by a language model)") == 4


def test_what_a_model_says_is_no_command_to_a_terminal(epic: Epic) -> None:
    with EpicMemory.open("me.epic") as memory:
        memory.set_aspects(AVOIDS, {"avoided": ["\x1b[31mcasinos"]})
    assert "\x1b" not in epic("list") and "casinos" in epic("list")
