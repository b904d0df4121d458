"""Markdown of a memory: what it shows, and edits of its preferences that come back as proposals."""

from __future__ import annotations

from pathlib import Path

import pytest

from epic_apps import import_from, sync
from epic_apps.markdown import export_markdown
from epic_memory import EpicMemory, Item
from epic_memory.errors import AlreadyThereError

AVOIDS, LIKES, EATS = "I avoid hotels with casinos.", "I like night trains.", "I follow a vegan diet."
HOTEL = "A hotel with a casino."


@pytest.fixture
def memory() -> EpicMemory:
    made = EpicMemory([AVOIDS, LIKES, EATS])
    made.facts.add("My sister is called Ines.")
    made.add([Item(text=HOTEL, id="ace", metadata={"title": "The Ace <!-- x -->", "origin": "page"})])
    return made


def test_what_is_written(memory: EpicMemory, tmp_path: Path) -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in export_markdown(memory, tmp_path / "md")}
    assert f"- {AVOIDS} <!-- {memory.preferences[0].id[:8]} -->" in texts["preferences.md"]
    assert "- My sister is called Ines." in texts["facts.md"]
    kept = texts["kept.md"]
    assert "## The Ace x\n" in kept and f"> {HOTEL}" in kept
    assert "kept because it is about hotels and casinos" in kept
    with pytest.raises(AlreadyThereError):
        export_markdown(memory, tmp_path / "md")
    assert export_markdown(memory, tmp_path / "md", overwrite=True)


def edited(memory: EpicMemory, folder: Path) -> set[str]:
    report = sync(memory, folder)
    assert not memory.get(["md/preferences.md"]) and len(memory.items()) == 2, "nothing of it is a note"
    return set(report.proposed)


def test_nothing_grows_by_giving_it_back(memory: EpicMemory, tmp_path: Path) -> None:
    export_markdown(memory, tmp_path / "md")
    before = memory.stats().counts
    for _ in range(3):
        sync(memory, tmp_path / "md")
        import_from(memory, tmp_path / "md")
    assert memory.stats().counts == before and not memory.proposals


def test_preferences_of_an_editor_that_writes_a_byte_order_mark(memory: EpicMemory, tmp_path: Path) -> None:
    path = export_markdown(memory, tmp_path / "md")[0]
    text = path.read_text(encoding="utf-8").replace("night trains", "slow trains")
    path.write_text(text, encoding="utf-8-sig")
    assert edited(memory, tmp_path / "md") == {"replace preference: I like night trains. -> I like slow trains."}


def test_preferences_that_are_no_text_are_a_failure(memory: EpicMemory, tmp_path: Path) -> None:
    path = export_markdown(memory, tmp_path / "md")[0]
    path.write_bytes(path.read_bytes() + "- I love caf\xe9s.\n".encode("latin-1"))
    report = sync(memory, tmp_path / "md")
    assert len(report.failures) == 1 and "preferences.md" in report.failures[0]
    assert not report.proposed and not memory.proposals and len(memory.items()) == 2
