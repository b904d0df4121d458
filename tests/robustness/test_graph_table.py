"""The graph's part of the file: what damage, kills, a budget and hostile rows do to it, and what keeps it right."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from test_budget import Quoting, Watch, watch

from epic_graph import Unextracted
from epic_memory import EpicMemory, Item
from epic_memory.errors import DamagedError, StoreError
from forging import forge
from graph_helpers import (
    PEOPLE,
    QUERIES,
    SEA,
    WINE,
    Marked,
    Saying,
    again,
    exactly,
    found,
    made,
    recounted,
)
from helpers import HashEncoder, KeepAll, settled

__all__ = ["watch"]

PLAIN: dict[str, Any] = {"encoder": HashEncoder(256), "verifier": KeepAll(), "tau": 0.1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "memory").mkdir()
    return tmp_path / "memory" / "me.epic"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with everything in it that a graph can have."""
    path = tmp_path_factory.mktemp("sound") / "me.epic"

    def say(text: str) -> Any:
        return Unextracted("it failed") if "nobody" in text else Marked().answer(text)

    with made(path, extractor=Saying(say, "marked-v1")) as graph:
        graph.add(PEOPLE)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM passages WHERE failure IS NOT NULL").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM passages WHERE relations IS NOT NULL").fetchone() == (4,)
    return path


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sound, tmp_path / "copy.epic"))


def looked(path: Path) -> None:
    with again(path) as graph:
        exactly(graph)
        graph.memory.file.verify()


# damage


def changed(path: Path, sql: str, *values: Any) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(sql, values)


DAMAGE = {
    "an entity's name": "UPDATE entities SET name = 'Oskar' WHERE row = 1",
    "an entity's key": "UPDATE entities SET key = 'oskar' WHERE row = 1",
    "an entity's namespace": "UPDATE entities SET namespace = 'other' WHERE row = 1",
    "an entity's passages": "UPDATE entities SET passages = passages + 1 WHERE row = 1",
    "an entity gone": "DELETE FROM entities WHERE row = 1",
    "an entity twice": "INSERT INTO entities SELECT 99, namespace, name, key, passages, spelt, crc"
    " FROM entities WHERE row = 1",
    "a passage's entities": "UPDATE passages SET entities = x'01000000' WHERE item = 2",
    "a passage's facts": "UPDATE passages SET facts = x'00000000' WHERE item = 1",
    "a passage's relations": "UPDATE passages SET relations = NULL WHERE item = 1",
    "a passage's failure": "UPDATE passages SET failure = 'no' WHERE item = 1",
    "a passage's extractor": "UPDATE passages SET extractor = 5 WHERE item = 1",
    "a passage gone": "DELETE FROM passages WHERE item = 1",
    "all passages gone": "DELETE FROM passages",
    "a passage of nothing": "UPDATE passages SET item = 77 WHERE item = 1",
}


@pytest.mark.parametrize("sql", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_graph_is_noticed(copy: Path, sql: str) -> None:
    data = copy.read_bytes()
    changed(copy, sql)
    assert copy.read_bytes() != data
    with pytest.raises(StoreError):
        looked(copy)
    with pytest.raises(StoreError), EpicMemory.open(copy, **settled(**PLAIN)) as memory:
        memory.file.verify()


FORGED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "entities of half a number": ("passages", "item = 1", {"entities": b"\1\0\0"}),
    "entities as text": ("passages", "item = 1", {"entities": "12345678"}),
    "no entities": ("passages", "item = 1", {"entities": None}),
    "entities that are not there": ("passages", "item = 1", {"entities": b"\x63\0\0\0\x64\0\0\0"}),
    "facts beyond the entities": ("passages", "item = 1", {"facts": b"\0\0\x09\0"}),
    "half a fact": ("passages", "item = 1", {"facts": b"\0\0"}),
    "relations that are none": ("passages", "item = 1", {"relations": "{"}),
    "relations of another number": ("passages", "item = 1", {"relations": "[]"}),
    "no name": ("entities", "row = 1", {"name": None}),
    "a number for a name": ("entities", "row = 1", {"name": 7}),
    "another's key": ("entities", "row = 1", {"key": "clara"}),
    "passages as text": ("entities", "row = 1", {"passages": "many"}),
}


@pytest.mark.parametrize(("table", "where", "columns"), FORGED.values(), ids=FORGED.keys())
def test_forged_rows_are_an_error_of_ours_or_do_no_harm(
    copy: Path, table: str, where: str, columns: dict[str, Any]
) -> None:
    ((column, value),) = columns.items()
    forge(copy, f"UPDATE {table} SET {column} = ? WHERE {where}", value)
    with again(copy) as graph:
        calls: list[Callable[[], object]] = [
            *(lambda query=query: graph.search(query) for query in QUERIES),  # type: ignore[misc]
            graph.entities,
            lambda: [graph.neighbours(name) for name in graph.entities()],
            lambda: [graph.entities(item.id) for item in PEOPLE],
            lambda: [graph.facts(item.id) for item in PEOPLE],
            graph.counts,
            lambda: graph.add("[Oscar Reed] and [Clara] drink red wine"),
            graph.reextract,
            lambda: graph.memory.forget("oscar"),
            lambda: graph.memory.file.reencode(HashEncoder(64)),
        ]
        for call in calls:
            try:
                call()
            except DamagedError:
                continue


# a budget


def passage(number: int, names: int = 4) -> Item:
    marked = " ".join(f"[Name {(number * 7 + n) % 90}]" for n in range(names))
    return Item(id=f"p{number}", text=f"Number {number} is about red wine, {marked}, sure{number % 10}.")


def test_a_budget_is_never_exceeded(path: Path, watch: Watch) -> None:
    budget = 150_000
    options: dict[str, Any] = {"verifier": Quoting(), "budget": budget, "encoder": HashEncoder(64), "not_kept": 4}
    with made(path, [WINE, SEA], **options) as graph:
        report = graph.add([passage(n, names=2 + n % 5) for n in range(80)])
        assert report.passages > 20
        outside = graph.counts()["outside"]
        assert outside <= report.no_room
        graph.memory.forget(graph.memory.items()[0].id)
        graph.add([passage(n, names=3) for n in range(80, 90)])
        graph.memory.preferences.replace(SEA, "green sea")
        graph.update()
        graph.reextract()
        assert graph.counts()["passages"] + graph.counts()["outside"] == len(graph)
        assert len(found(graph, "Name 7", 500)) == len(graph)
        assert graph.memory.file.verify() > 0
        recounted(path)
        for preference in graph.memory.preferences:
            graph.memory.preferences.remove(preference)
        assert graph.entities() == []
        assert len(graph) == 0
    assert watch.looks > 100
    assert watch.worst <= budget
    with again(path, **{**options, "budget": None}) as graph:
        assert graph.memory.file.verify() > 0


def test_a_passage_with_too_many_entities_for_the_budget_stays_outside(path: Path, watch: Watch) -> None:
    options: dict[str, Any] = {"budget": 48_000, "encoder": HashEncoder(64), "coarse": False}
    asked = Marked()
    with made(path, [WINE], extractor=asked, **options) as graph:
        graph.add([passage(n) for n in range(20)])
        report = graph.add([passage(99, names=125)])
        assert (report.no_room, report.passages, graph.counts()["outside"]) == (1, 0, 1)
        assert "no room" in str(report)
        assert "p99" in found(graph, "Name 7", 50)
        before = len(asked.asked)
        graph.add([passage(50)])
        assert len(asked.asked) == before + 1, "what has no room is not extracted again and again"
        assert graph.update().no_room == 1
        graph.memory.forget("p99")
        assert graph.counts()["outside"] == 0
    assert watch.worst <= 48_000
