"""Titles, subjects and names of files: part of what is found, judged and shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.documents import Document

from epic_apps.cli.sources import Sources
from epic_langchain import EpicVectorStore
from epic_memory import EpicMemory, Item, Settings
from epic_memory.types.items import content_of
from helpers import KeepAll
from tables import table

OTHERS = (
    "The plumber comes on Friday at nine.",
    "Lentils, rice, two tins of tomatoes, coriander.",
    "The spare key hangs behind the fuse box.",
)


@pytest.mark.parametrize("metadata", table(__file__, "a_text_is_found_by_its_title_alone"))
def test_a_text_is_found_by_its_title_alone(metadata: dict[str, str]) -> None:
    memory = EpicMemory(["I avoid hotels with casinos."])
    memory.add([Item(text="marble-otter-77", metadata=metadata), *OTHERS])
    hit = memory.search("What is the wifi password?")[0]
    assert hit.item.text == "marble-otter-77"
    assert hit.content.casefold() == "wifi password\nmarble-otter-77"
    assert "ifi password\nmarble-otter-77" in memory.context("What is the wifi password?")


def test_a_file_of_a_folder_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "Wifi password.md").write_text("marble-otter-77", encoding="utf-8")
    (tmp_path / "Shopping.md").write_text(OTHERS[1], encoding="utf-8")
    memory = EpicMemory(["I avoid hotels with casinos."])
    memory.add(Sources([str(tmp_path)]))
    assert memory.search("What is the wifi password?")[0].item.text == "marble-otter-77"


def test_a_mail_is_found_by_its_subject(tmp_path: Path) -> None:
    mail = "From: a@example.org\nSubject: Your wifi password\nDate: Tue, 3 Mar 2026 10:00:00 +0000\n\nmarble-otter-77\n"
    (tmp_path / "one.eml").write_text(mail, encoding="utf-8")
    memory = EpicMemory(["I avoid hotels with casinos."])
    memory.add(Sources([str(tmp_path)]))
    memory.add(OTHERS)
    assert "marble-otter-77" in memory.search("What is the wifi password?")[0].item.text


@pytest.mark.parametrize("metadata", [{"title": "Wifi password"}, {"source": "notes/Wifi password.md"}])
def test_a_document_is_found_by_its_title_and_comes_back_as_it_was(metadata: dict[str, str]) -> None:
    store = EpicVectorStore()
    store.add_documents([Document("marble-otter-77", metadata=metadata), *map(Document, OTHERS)])
    assert store.similarity_search("What is the wifi password?", 1) == [
        Document("marble-otter-77", id=store.similarity_search("wifi", 1)[0].id, metadata=metadata)
    ]


def test_a_verifier_reads_the_title() -> None:
    judge = KeepAll()
    memory = EpicMemory(["I love red wine."], settings=Settings(verifier=judge, tau=-1.0))
    memory.add([Item(text="Ten bottles left.", metadata={"title": "Red wine"})])
    assert "Red wine\nTen bottles left." in memory.context("Which red wine is left?")
    assert memory.search("red wine")[0].item.text == "Ten bottles left."


@pytest.mark.parametrize(
    ("text", "metadata"), [*table(__file__, "what_has_no_title_is_its_text"), ("a note", {"title": "x" * 5_000})]
)
def test_what_has_no_title_is_its_text(text: str, metadata: dict[str, object]) -> None:
    assert content_of(text, metadata) == text
