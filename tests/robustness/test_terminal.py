"""What the command line writes to a terminal: names of files and arguments without characters that a terminal obeys."""

from __future__ import annotations

from pathlib import Path

import pytest

from epic_core.cli.main import main

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
