"""`epic preferences`: what each likes and avoids is shown, corrected, and read anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from command_line import Epic
from epic_memory import EpicMemory, Preference
from epic_memory.types.preferences import Expansion
from lm_servers import LMServer, in_turn
from scripted import Script, aspects_for, preference_read

AVOIDS, PREFERS = "I avoid hotels with casinos.", "I prefer trains over flights."

PARTS = {"questions": ["What about it?"], "follows": ["more of it"], "breaks": ["less of it"]}
WRITTEN = Expansion(**{part: tuple(said) for part, said in PARTS.items()}, source="model")  # type: ignore[arg-type]
Shown: TypeAlias = Callable[..., str]


@pytest.fixture
def epic(terminal: Epic) -> Shown:
    """Runs a command beside me.epic; what it printed and warned of, after its exit code if that is not 0."""
    EpicMemory.open("me.epic", [AVOIDS, PREFERS]).close()

    def run(*arguments: str) -> str:
        result = terminal(*arguments)
        return result.out + result.err if result.code == 0 else f"{result.code}: {result.err}"

    return run


@pytest.fixture
def preferences(epic: Shown) -> Shown:
    """Runs `epic preferences me.epic ...`."""
    return lambda *arguments: epic("preferences", "me.epic", *arguments)


@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_a_model_reads(preferences: Shown, kind: str) -> None:
    said = Script({})
    with LMServer(lambda request: said(request["messages"])) as server:
        llm = ["--llm", f"{kind}:tiny", "--llm-url", server.url if kind == "ollama" else server.base_url]
        assert "(read by a language model)" in preferences("reread", AVOIDS, *llm)
        # The one that came without a model is read as well.
        assert "2 preferences read" in preferences("add", "I love tea.", *llm)
        assert sorted(said.read) == sorted([AVOIDS, PREFERS, "I love tea."])
        server.answer = in_turn("Well.", "Well.", aspects_for("tea"))
        failed = preferences("reread", PREFERS, *llm)
        assert "warning: The model's answer could not be understood" in failed
        assert "a language model failed, and is asked again" in failed and "asked again" in preferences("list")
        # It is asked about that one again, and about the new one.
        assert "2 preferences read" in preferences("add", "I love coffee.", *llm)
    assert preferences("list").count("(read by a language model)") == 4
    # A model that is not there is said before anything is changed.
    assert preferences("reread", AVOIDS, *llm).startswith("2: ")
    assert preferences("list").count("(read by a language model)") == 4


def test_what_a_model_says_is_no_command_to_a_terminal(preferences: Shown) -> None:
    with EpicMemory.open("me.epic") as memory:
        memory.preferences.set_aspects(AVOIDS, {"avoided": ["\x1b[31mcasinos \u202eonisac\u2066"]})
    listed = preferences("list")
    assert not set("\x1b\u202e\u2066") & set(listed) and "casinos" in listed


# expansions


def both(request: dict[str, Any]) -> str:
    """Aspects, and `WRITTEN`."""
    name = str(preference_read(request["messages"]))
    return json.dumps(json.loads(aspects_for(name)) | PARTS)


def held(text: str = AVOIDS) -> Expansion | None:
    with EpicMemory.open("me.epic") as memory:
        return memory.preferences.expansions(text)


def test_an_expansion_is_shown_without_control_characters_and_has_a_limit(epic: Shown) -> None:
    edit = ("preferences", "me.epic", "set", AVOIDS)
    shown = epic(*edit, "--follows", "an inn", "--follows", "a hut\nbreaks  \x1b[31mtea")
    assert held() == Expansion(follows=("an inn", "a hut\nbreaks  \x1b[31mtea"))
    assert shown == epic("preferences", "me.epic", "show", Preference(text=AVOIDS).id)
    assert [" ".join(line.split()) for line in shown.splitlines()[-3:]] == [
        "follows an inn", "follows a hut breaks \ufffd[31mtea", "(set by the user)",
    ]  # fmt: skip
    assert "at most 64" in epic(*edit, *(f"--follows=inn {n}" for n in range(3000)))


def test_expand_names_a_model_that_only_reads_preferences(epic: Shown) -> None:
    Path("prefs.txt").write_text("I love tea.", encoding="utf-8")
    Path("corpus.txt").write_text("A tea house in Kyoto.", encoding="utf-8")
    with LMServer(both) as server:
        llm = ["--expand", "ollama:tiny", "--llm-url", server.url]
        built = epic("build", "--preferences", "prefs.txt", "--out", "new.epic", "--quiet", "corpus.txt", *llm)
        assert "1 preferences read by the model, 0 not, 1 expanded" in built and server.calls == 1
        epic("preferences", "me.epic", "add", "I love tea.", *llm)
        epic("preferences", "me.epic", "replace", "I love tea.", "I love chai.", *llm)
        assert held("I love chai.") == WRITTEN
        # What the user said is taken back.
        epic("preferences", "me.epic", "set", AVOIDS, "--follows", "an inn")
        assert "(read by a language model)" in epic("preferences", "me.epic", "reread", AVOIDS, *llm)
        assert held() == WRITTEN
        assert "written by a language model" in epic("preferences", "me.epic", "show", AVOIDS)
