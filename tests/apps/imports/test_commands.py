"""The commands import, sync, never and why-not, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from exports import archive, chatgpt, chatgpt_message

from command_line import Epic, refused, runner

pytest.importorskip("ijson")

NUTS = "I am allergic to peanuts."


@pytest.fixture
def epic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Epic:
    """Runs a command in a folder with an export and notes."""
    monkeypatch.chdir(tmp_path)
    archive(tmp_path / "chatgpt.zip", conversations__json=[chatgpt("Food", chatgpt_message("user", NUTS, at=1.7e9))])
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.md").write_text("The lamp is in the hall.", encoding="utf-8")
    return runner(capsys)


def test_import(epic: Epic) -> None:
    seen = epic("import", "me.epic", "chatgpt.zip", "notes", "--dry-run")
    assert seen.code == 0 and "1 chatgpt" in seen.out and "your own turns         1" in seen.out, seen.err
    assert "proposed" not in seen.out and not Path("me.epic").exists()
    done = epic("import", "me.epic", "chatgpt.zip", "notes")
    assert "1 proposals wait for you: epic proposals me.epic" in done.out and "items/s" not in done.err
    told = epic("proposals", "me.epic").out
    assert "2023-11-14, 'Food', turn 1: 'I am allergic to peanuts.'" in told
    again = json.loads(epic("import", "me.epic", "chatgpt.zip", "--json").out)["chatgpt.zip"]
    assert (again["known"], again["proposed"]) == (1, 0)
    Path("broken.json").write_text("[{", encoding="utf-8")
    refused(epic("import", "me.epic", "broken.json"), "broken.json: broken JSON")
    refused(epic("import", "me.epic", "none.zip"), "There is no file or folder none.zip")


def test_sync_names_what_cannot_be_read(epic: Epic) -> None:
    Path("notes/bad.md").write_bytes(b"\xff")
    refused(epic("sync", "me.epic", "notes"), "bad.md", "stays as it was")
