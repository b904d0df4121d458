"""The commands import, sync, never and why-not, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from exports import archive, chatgpt, chatgpt_message

from command_line import Epic, refused, runner
from epic_memory import EpicMemory

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


def test_sync(epic: Epic) -> None:
    refused(epic("sync", "me.epic"), "Say which folder")
    assert "+ notes/a.md" in epic("sync", "me.epic", "notes").out
    Path("notes/b.md").write_text("A second note.", encoding="utf-8")
    Path("notes/a.md").rename("notes/c.md")
    told = epic("sync", "me.epic").out
    assert "+ notes/b.md" in told and "notes/a.md -> notes/c.md" in told
    Path("notes/bad.md").write_bytes(b"\xff")
    refused(epic("sync", "me.epic"), "bad.md", "stays as it was")
    refused(epic("sync", "me.epic", "none"), "There is no folder none")


def test_never_and_why_not(epic: Epic) -> None:
    with EpicMemory.open("me.epic"):
        pass
    assert "Nothing is ruled out." in epic("never", "me.epic").out
    refused(epic("never", "me.epic", "add"), "Say what")
    told = epic("never", "me.epic", "add", "my health", "--folder", "notes/private").out
    assert "my health: 0 kept out" in told and f"folder {Path('notes/private').resolve()}" in told
    Path("notes/private").mkdir()
    Path("notes/private/diary.md").write_text("A secret.", encoding="utf-8")
    epic("add", "me.epic", "I take insulin every morning.")
    epic("sync", "me.epic", "notes")
    epic("import", "me.epic", "notes")
    epic("build", "--out", "me.epic", "notes")
    assert "The lamp" in epic("list", "me.epic").out + epic("ask", "me.epic", "Where is the lamp?").out
    with EpicMemory.open("me.epic") as memory:
        assert {item.text for item in memory.items()} == {"The lamp is in the hall."}
    assert "my health: 1 kept out" in epic("never", "me.epic").out
    assert "ruled out: it is about 'my health'" in epic("why-not", "me.epic", "I take insulin every morning.").out
    assert "epic never me.epic remove 'my health'" in epic("why-not", "me.epic", "I take insulin every morning.").out
    assert "Nothing is ruled out." in epic(
        "never", "me.epic", "remove", "my health", "--folder", "notes/private"
    ).out  # fmt: skip


def test_a_missing_folder_does_not_stop_the_others(epic: Epic, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"Something of {name}.")
    me = str(tmp_path / "me.epic")
    assert epic("sync", me, str(tmp_path / "one"), str(tmp_path / "two")).code == 0
    (tmp_path / "one").rename(tmp_path / ".gone")
    (tmp_path / "two" / "b.md").write_text("More.")
    done = epic("sync", me)
    assert done.code == 2 and "+ two/b.md" in done.out
    assert "There is no folder" in done.err and "1 of 2 folders" in done.err and "--forget" in done.err
    done = epic("sync", me, str(tmp_path / "one"), "--forget")
    assert done.code == 0 and "1 files forgotten" in done.out
    assert epic("sync", me).code == 0
    refused(epic("sync", me, "--forget"), "Say which folder")
