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


CASINOS, WIFI, CODE = "I avoid hotels with casinos.", "What is the wifi password?", "marble-otter-77"


@pytest.mark.parametrize("metadata", table(__file__, "a_text_is_found_by_its_title_alone"))
def test_a_text_is_found_by_its_title_alone(metadata: dict[str, str]) -> None:
    memory = EpicMemory([CASINOS])
    memory.add([Item(text=CODE, metadata=metadata), *OTHERS])
    hit = memory.search(WIFI)[0]
    assert hit.item.text == CODE
    assert hit.content.casefold() == f"wifi password\n{CODE}"
    assert f"ifi password\n{CODE}" in memory.context(WIFI)


MAIL = f"From: a@example.org\nSubject: Your wifi password\nDate: Tue, 3 Mar 2026 10:00:00 +0000\n\n{CODE}\n"


@pytest.mark.parametrize(("name", "text"), [("Wifi password.md", CODE), ("one.eml", MAIL)])
def test_a_file_of_a_folder_is_found_by_its_name_and_a_mail_by_its_subject(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "Shopping.md").write_text(OTHERS[1], encoding="utf-8")
    memory = EpicMemory([CASINOS])
    memory.add(Sources([str(tmp_path)]))
    assert CODE in memory.search(WIFI)[0].item.text


@pytest.mark.parametrize("metadata", [{"title": "Wifi password"}, {"source": "notes/Wifi password.md"}])
def test_a_document_is_found_by_its_title_and_comes_back_as_it_was(metadata: dict[str, str]) -> None:
    store = EpicVectorStore()
    (first, *_) = store.add_documents([Document(CODE, metadata=metadata), *map(Document, OTHERS)])
    assert store.similarity_search(WIFI, 1) == [Document(CODE, id=first, metadata=metadata)]


def test_a_verifier_reads_the_title() -> None:
    memory = EpicMemory(["I love red wine."], settings=Settings(verifier=KeepAll(), tau=-1.0))
    memory.add([Item(text="Ten bottles left.", metadata={"title": "Red wine"})])
    assert "Red wine\nTen bottles left." in memory.context("Which red wine is left?")
    assert memory.search("red wine")[0].item.text == "Ten bottles left."


@pytest.mark.parametrize(
    ("text", "metadata"), [*table(__file__, "what_has_no_title_is_its_text"), ("a note", {"title": "x" * 5_000})]
)
def test_what_has_no_title_is_its_text(text: str, metadata: dict[str, object]) -> None:
    assert content_of(text, metadata) == text
