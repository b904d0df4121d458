"""What the command line writes to a terminal: file names, arguments and documents as nothing that a terminal obeys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epic_apps.cli.main import main
from epic_memory import EpicMemory, Item, Settings

ESCAPE = "\x1b[31m"


@pytest.mark.parametrize(
    "arguments",
    [
        ["stats", f"{ESCAPE}.epic"],
        ["build", "--preferences", f"{ESCAPE}.txt", "--out", "me.epic", "notes.txt"],
        ["build", "--preferences", "p.txt", "--out", f"none/{ESCAPE}/me.epic", "notes.txt"],
        ["build", "--preferences", "p.txt", "--out", "me.epic", f"{ESCAPE}.txt"],
        ["stats", "me.epic", f"--{ESCAPE}"],
        [f"{ESCAPE}"],
    ],
)
def test_no_message_carries_an_escape(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.txt").write_text("I like wine.\n", encoding="utf-8")
    Path("notes.txt").write_text("red wine\n", encoding="utf-8")
    try:
        assert main(arguments) == 2
    except SystemExit as ended:
        assert ended.code == 2
    written = capsys.readouterr()
    assert written.err and "\x1b" not in written.out + written.err


HOSTILE = (
    "[bold red]hotel[/] [link=file:///etc/passwd]casino[/link] [/nothing] :bomb: \\[x]",
    "hotel \x1b[2J\x1b[31m\x1b]8;;http://evil.example\x07casino\x1b]8;;\x07",
    "hotel \x1b]0;title\x07\x1b]52;c;aGk=\x07 casino \x9b31m\x90q\x9c",
    "hotel \u202eonisac\u202c \u2066casino\u2069 \u200f\u061c",
    "hotel\rcasino\x08\x08\x7f\x0b\x0c",
    "hotel\u2028casino\u2029\x85",
    "hotel " + "casino" * 20_000,
    "hotel with a casino <script>alert(1)</script>",
    "hotel casino\n" * 1_000,
)
SHOWING = ("ask FILE hotel --all -v -k 20", "list FILE", "explain FILE a0", "explain FILE a0 -v")
_STYLE = re.compile(r"\x1b\[[\d;]*m")
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_a_document_is_no_command_to_a_terminal(
    hostile: str,
    is_terminal: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(tmp_path / "me.epic")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("rich.console.Console.is_terminal", is_terminal)
    with EpicMemory.open(
        path, ["I avoid hotels with casinos.", hostile[:2000]], settings=Settings(coarse=False)
    ) as memory:
        memory.add([Item(id="a0", text=hostile, metadata={"note": hostile[:200]})])
        memory.add([Item(id=f"b {hostile[:40]}", text="A hotel with a casino.")])
    for command in SHOWING:
        assert main([path if word == "FILE" else word for word in command.split()]) == 0
        shown = capsys.readouterr()
        printed = _STYLE.sub("", shown.out + shown.err) if is_terminal else shown.out + shown.err
        assert not _OBEYED.search(printed)
        assert is_terminal is False or max(map(len, printed.splitlines())) <= 100 or "search done" in printed
        if hostile.startswith("[bold"):
            assert "[bold red]hotel[/]" in printed
