"""Tags: written to metadata, and filtered by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from epic_memory import EpicMemory, Filter, Item, Settings
from epic_memory.errors import InvalidInputError
from epic_memory.text.tagging import Tags
from helpers import HashEncoder, KeepAll, settled

WINES = ["red wine from Porto", "red wine from Bordeaux", "red wine with cheese"]


class Places:
    """Finds places; fails for what it is told to; counts what it reads."""

    name = "places"

    def __init__(self) -> None:
        self.read: list[str] = []
        self.fails: set[str] = set()

    def tag(self, texts: Sequence[str]) -> list[Tags | None]:
        self.read += texts
        return [
            None if text in self.fails else {"entities": [place for place in ("Porto", "Bordeaux") if place in text]}
            for text in texts
        ]

    async def atag(self, texts: Sequence[str]) -> list[Tags | None]:
        return self.tag(texts)


def held(tagger: Places, path: Path | None = None) -> EpicMemory:
    options: dict[str, Any] = {"encoder": HashEncoder(), "verifier": KeepAll(), "tagger": tagger}
    return (
        EpicMemory.open(path, ["red wine"], **settled(**options))
        if path
        else EpicMemory(["red wine"], **settled(**options))
    )


async def test_tags_are_metadata_that_filters_work_on() -> None:
    memory, other = held(Places()), held(Places())
    memory.add(WINES)
    await other.aadd(WINES)
    for each in (memory, other):
        (hit,) = each.search("red wine", filter=Filter.contains("tags_entities", "Porto"))
        assert hit.item.metadata == {"tags_entities": ["Porto"]}
        assert sum(not item.metadata for item in each.items()) == 1


def test_own_metadata_stays_and_what_is_held_is_not_read_again(path: Path) -> None:
    tagger = Places()
    own = Item(text=WINES[0], id="own", metadata={"tags_entities": ["Lisbon"], "year": 2020})
    with held(tagger, path) as memory:
        memory.add([own, WINES[1]])
        assert memory.get(["own"])[0].metadata == own.metadata
    read = list(tagger.read)
    with held(tagger, path) as memory:
        report = memory.add([WINES[1], own])
        assert tagger.read == read and report.duplicates == 2
        memory.add([Item(text="red wine from Bordeaux and Porto", id="own")])
        assert memory.get(["own"])[0].metadata == {"tags_entities": ["Porto", "Bordeaux"]}


def test_what_a_tagger_cannot_read_is_added_without_tags_and_reported() -> None:
    tagger = Places()
    tagger.fails = {WINES[0]}
    memory = held(tagger)
    report = memory.add(WINES)
    assert len(memory) == 3 and "1 items have no tags" in str(report)
    tagger.fails = set()
    memory.add(WINES)
    assert memory.search("red wine", filter=Filter.contains("tags_entities", "Porto"))


def test_what_cannot_be() -> None:
    for wrong in (Places, "phrases", object()):
        with pytest.raises(InvalidInputError, match="tagger must be"):
            EpicMemory(settings=Settings(tagger=wrong))  # type: ignore[arg-type]
