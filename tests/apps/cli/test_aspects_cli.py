"""`epic preferences`: what each likes and avoids is shown, corrected, and read anew."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from command_line import Epic
from epic_memory import EpicMemory, Preference
from epic_memory.types.preferences import Aspects, Expansion
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


def aspects(preference: str) -> Aspects:
    with EpicMemory.open("me.epic") as memory:
        return memory.preferences.aspects(preference)


def test_list_shows_what_each_likes_and_avoids_and_who_read_it(preferences: Shown) -> None:
    first, likes, second, prefers = preferences("list").splitlines()
    assert AVOIDS in first and PREFERS in second
    assert likes.startswith("    avoids ") and "casinos" in likes and likes.endswith("(read by the parser)")
    assert prefers.startswith("    likes trains | avoids flights | firmness 0.5")


def test_set_changes_what_is_given(preferences: Shown) -> None:
    said = preferences("set", PREFERS, "--likes", "trains", "--likes", "ferries", "--scope", "in Europe")
    line = "    likes trains; ferries | avoids flights | firmness 0.5 | in Europe  (set by the user)\n"
    assert line in said and line in preferences("list")
    assert aspects(PREFERS) == Aspects(
        liked=("trains", "ferries"), avoided=("flights",), firmness=0.5, scope="in Europe", source="user"
    )
    preferences("set", PREFERS, "--avoids", "", "--firmness", "strict", "--scope", "")
    assert aspects(PREFERS) == Aspects(liked=("trains", "ferries"), firmness=1.0)


def test_reread_takes_it_back(preferences: Shown) -> None:
    before = aspects(AVOIDS)
    preferences("set", AVOIDS, "--likes", "casinos", "--avoids", "")
    assert "(read by the parser)" in preferences("reread", AVOIDS) and aspects(AVOIDS) == before


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["set", "I love tea.", "--likes", "tea"], "No preference"),
        (["set", AVOIDS, "--likes", "", "--avoids", ""], "need something"),
        (["set", AVOIDS, "--firmness", "somehow"], "is not one of"),
        (["set"], "PREFERENCE"),
        (["reread", "I love tea."], "No preference"),
    ],
)
def test_what_cannot_be_changes_nothing(preferences: Shown, arguments: list[str], part: str) -> None:
    before = aspects(AVOIDS)
    said = preferences(*arguments)
    assert said.startswith("2: ") and part in said and aspects(AVOIDS) == before


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


def test_set_changes_the_expansion_and_show_prints_it(epic: Shown) -> None:
    shown = epic("preferences", "me.epic", "show", AVOIDS)
    assert re.search(r"avoids +.*casinos", shown) and "no expansion of its own" in shown
    edit = ("preferences", "me.epic", "set", AVOIDS)
    epic(*edit, "--question", "Where to stay?", "--follows", "an inn", "--follows", "a hut\nbreaks  \x1b[31mtea")
    shown = epic(*edit, "--question", "", "--breaks", "a casino floor")
    assert held() == Expansion(follows=("an inn", "a hut\nbreaks  \x1b[31mtea"), breaks=("a casino floor",))
    assert shown == epic("preferences", "me.epic", "show", Preference(text=AVOIDS).id)
    rows = [" ".join(line.split()) for line in shown.splitlines()[-4:]]
    assert rows == [
        "follows an inn", "follows a hut breaks \ufffd[31mtea", "breaks a casino floor", "(set by the user)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["set", AVOIDS], "--likes, --avoids, --follows"),
        (["set", AVOIDS, "--follows", ""], "at least one"),
        (["set", AVOIDS, "--follows", "an inn", "--avoids", ""], "need something"),
        (["set", AVOIDS, "--follows", "an inn", "--breaks", "An inn"], "both follow and break"),
        (["set", AVOIDS, *(f"--follows=inn {n}" for n in range(3000))], "at most 64"),
        (["set", "I love tea.", "--follows", "tea"], "No preference"),
        (["show", "I love tea."], "No preference"),
        (["reread", AVOIDS, "--expand", "tiny"], "There is no model 'tiny'"),
    ],
)
def test_an_expansion_that_cannot_be_changes_nothing(epic: Shown, arguments: list[str], part: str) -> None:
    said = epic("preferences", "me.epic", *arguments)
    assert said.startswith("2: ") and part in said and "Traceback" not in said and held() is None


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
