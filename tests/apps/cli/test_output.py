"""What commands print: JSON, tables, colour, suggestions, and completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Epic
from epic_apps.cli.options import ENCODERS, MODELS
from epic_apps.cli.reasons import marked
from epic_memory import EpicMemory, Item, Stance
from epic_memory.encoders.by_name import NAMES
from epic_memory.lm.by_name import NAMES as MODEL_NAMES
from tables import table

AVOIDS = "I avoid hotels with casinos."
TEXTS = {"inn": "The Desert Inn is a hotel with a casino.", "note": "The square root of two is no fraction."}


@pytest.fixture
def epic(terminal: Epic) -> Epic:
    """Runs a command beside me.epic."""
    with EpicMemory.open("me.epic", [AVOIDS]) as memory:
        memory.add([Item(id=name, text=text, metadata={"place": name}) for name, text in TEXTS.items()])
    Path("chat.txt").write_text("User: I love opera.\n", encoding="utf-8")
    return terminal


@pytest.mark.parametrize(("command", "key"), table(__file__, "what_a_command_prints_is_json_if_that_is_asked_for"))
def test_what_a_command_prints_is_json_if_that_is_asked_for(epic: Epic, command: str, key: str | None) -> None:
    result = epic(*("I like \x1b[31mtea." if word == "TEXT" else word for word in command.split()), "--json")
    assert result.code == 0, result.err
    printed = json.loads(result.out)
    assert isinstance(printed, list) if key is None else key in printed
    assert result.out.isascii() and "\x1b" not in result.out


def test_colour_is_for_a_terminal_that_wants_it(
    epic: Epic, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in epic("explain", "me.epic", "inn").out
    with monkeypatch.context() as terminal:
        terminal.setenv("TERM", "xterm-256color")
        terminal.setattr("rich.console.Console.is_terminal", True)
        assert "\x1b[1;36minn\x1b[0m" in epic("explain", "me.epic", "inn").out
        terminal.setenv("NO_COLOR", "1")
        assert "\x1b[1;36m" not in epic("explain", "me.epic", "inn").out


def test_a_reason_has_the_sign_and_the_colour_of_its_stance(epic: Epic, monkeypatch: pytest.MonkeyPatch) -> None:
    signs = {"supports": ("✓ why", "green"), "conflicts": ("✗ why", "red"), "mixed": ("~ why", "yellow")}
    for stance in Stance:
        words = marked("why", stance)
        assert (words.plain, words.style) == signs.get(stance.value, ("why", ""))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    for command in ("ask me.epic hotel", "explain me.epic inn"):
        out = epic(*command.split()).out
        assert "\x1b[31m✗ kept because it is about hotels and casinos" in out and "\x1b[32m" not in out


def test_a_long_text_is_cut_where_many_are_shown_and_whole_where_one_is(epic: Epic) -> None:
    text = "A hotel with a casino. " * 500
    with EpicMemory.open("me.epic") as memory:
        memory.add([Item(id="long", text=text)])
    asked = epic("ask", "me.epic", "hotel with a casino").out
    assert f"… ({len(text):,} characters)" in asked and max(map(len, asked.splitlines())) < 2100
    assert text.rstrip() in epic("explain", "me.epic", "long").out


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors in a shell")
@pytest.mark.slow
def test_a_command_works_with_closed_streams(epic: Epic) -> None:
    for command in ("list me.epic <&- >&-", "ask me.epic <&-", "onboard me.epic <&- >&-"):
        shell = ["/bin/sh", "-c", f"{sys.executable} -m epic_apps.cli.main {command}"]
        done = subprocess.run(shell, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_help_is_quick_and_complete() -> None:
    assert (ENCODERS, MODELS) == (NAMES, MODEL_NAMES)
    code = "import sys; from epic_apps.cli.main import main; main(['--help']); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.endswith("False\n")


def test_a_shell_completes_commands() -> None:
    words = {"COMP_WORDS": "epic preferences re", "COMP_CWORD": "2", "_EPIC_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-m", "epic_apps.cli.main"],
        env={**os.environ, **words},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.split() == ["remove", "replace", "reread"]
