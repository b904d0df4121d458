"""Building again: each note is held once wherever the build starts from, and what its folder lost leaves the memory."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from command_line import Epic, jsonl
from epic_memory import EpicMemory, Item, Settings

Build: TypeAlias = Callable[..., dict[str, Any]]

PALMS, ACE = "The Palms is a hotel with a casino.", "The Golden Ace is a hotel with a casino."
RENT = "Pay the rent on Friday."


@pytest.fixture
def build(terminal: Epic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Builds me.epic of sources, from a folder; notes/ and other/notes/ are there."""
    write("notes/palms.md", PALMS)
    write("notes/home/rent.md", RENT)
    write("other/notes/palms.md", ACE)
    with EpicMemory.open("me.epic", ["I avoid hotels with casinos."], settings=Settings(reserve="1 MB")):
        pass

    def run(*sources: str | Path, start: str = ".", namespace: str = "default") -> dict[str, Any]:
        monkeypatch.chdir(tmp_path / start)
        options = ("--out", str(tmp_path / "me.epic"), "--namespace", namespace, "--json")
        result = terminal("build", *options, *map(str, sources))
        monkeypatch.chdir(tmp_path)
        assert result.code == 0, result.err
        report: dict[str, Any] = json.loads(result.out)
        return report

    return run


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def held(namespace: str = "default") -> dict[str, str]:
    with EpicMemory.open("me.epic", settings=Settings(must_exist=True, namespace=namespace)) as memory:
        return {item.id: item.text for item in memory.items()}


BOTH = {"notes/palms.md": PALMS, "notes/home/rent.md": RENT}


@pytest.mark.skipif(os.name == "nt", reason="links need a right on Windows")
def test_a_folder_is_one_folder_however_it_is_named(build: Build, tmp_path: Path) -> None:
    Path("elsewhere").mkdir()
    Path("elsewhere/link").symlink_to(tmp_path, target_is_directory=True)
    Path("notes/again.md").symlink_to(tmp_path / "notes/palms.md")
    assert build("notes")["report"]["seen"] == 2
    for sources, start in (
        (["."], "notes"),
        ([".."], "notes/home"),
        (["../elsewhere/link/notes"], "other"),
        (["notes", tmp_path / "notes"], "."),
        (["rent.md"], "notes/home"),
        (["notes/palms.md", "notes/again.md"], "."),
    ):
        report = build(*sources, start=start)["report"]
        assert report["seen"] == report["duplicates"] > 0, sources
    assert held() == BOTH


def test_only_what_came_from_a_folder_leaves_with_it(build: Build) -> None:
    build("notes")
    fact = "My locker has the number 12."
    write("notes/fact.md", fact)
    build("notes")
    with EpicMemory.open("me.epic") as memory:
        memory.facts.add(fact)
        memory.add(
            [
                # as loaders of other packages name where a text is from
                Item(id="loaded", text=f"{ACE} It is old.", metadata={"source": "notes/palms.md"}),
                Item(id="notes/gone.md", text=f"{PALMS} It is new."),
                "A hotel with a casino in Reno.",
            ]
        )
    jsonl(Path("c.jsonl"), {"text": f"{ACE} It is red.", "id": "own", "metadata": {"source": "notes/palms.md"}})
    build("c.jsonl")
    build("notes", namespace="other")
    before = held()
    for name in ("notes/palms.md", "notes/fact.md"):
        Path(name).unlink()
    assert build("notes")["gone"] == ["notes/fact.md", "notes/palms.md"]
    assert fact in held().values()
    assert held() == {name: text for name, text in before.items() if name not in ("notes/palms.md", "notes/fact.md")}
    assert set(held("other")) == {"notes/palms.md", "notes/home/rent.md", "notes/fact.md"}


def test_what_cannot_be_read_stays(build: Build, terminal: Epic) -> None:
    build("notes")
    Path("notes/palms.md").write_bytes(b"caf\xe9")
    assert terminal("build", "--out", "me.epic", "notes").code == 2
    assert held() == BOTH
    # Nothing is deleted because of a disk that is not there.
    shutil.rmtree("notes")
    assert terminal("build", "--out", "me.epic", "notes").code == 2
    Path("notes").mkdir()
    assert terminal("build", "--out", "me.epic", "notes").code == 2
    assert held() == BOTH


def test_a_file_says_where_folders_are_only_as_long_as_it_holds_some_of_them(build: Build, tmp_path: Path) -> None:
    build("notes", "other/notes/palms.md")
    with EpicMemory.open("me.epic") as memory:
        memory.forget("palms.md")
    build("notes")
    with EpicMemory.open("me.epic") as memory:
        assert memory.file.state("sources") == {"notes": str(tmp_path / "notes")}
