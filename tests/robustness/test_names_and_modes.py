"""Files: names that none can have, a disk that is full, who may read them; arguments of the wrong kind."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epic_memory import EpicMemory, Settings
from epic_memory.errors import InvalidInputError, StoreError
from helpers import method

NAMES = {"too long": "a" * 300, "NUL": "a\0b", "half a character": "\ud800"}


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EpicMemory]:
    monkeypatch.chdir(tmp_path)
    with EpicMemory.open(
        "me.epic", preferences=["I like wine."], settings=Settings(coarse=False, fine=False)
    ) as memory:
        memory.add(["red wine"])
        yield memory


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_that_no_file_can_have_is_an_error_of_ours(memory: EpicMemory, name: str) -> None:
    calls: list[Any] = [memory.file.export, memory.file.backup, EpicMemory.open]
    for call in (*calls, lambda path: EpicMemory.restore(path, "another.epic")):
        with pytest.raises(StoreError, match="name"):
            call(name)


WRONG: dict[str, tuple[str, list[Any]]] = {
    "half a character as an id": ("get", [["\ud800"]]),
    "one id": ("get", ["abc"]),
    "no ids": ("get", [None]),
    "a number as an id": ("get", [[3]]),
    "a list to remove": ("preferences.remove", [[]]),
    "a list to replace": ("preferences.replace", [[], "x"]),
    "aspects of a list": ("preferences.set_aspects", [[], None]),
    "an encoder that is none": ("file.reencode", ["x"]),
}


@pytest.mark.parametrize(("name", "given"), WRONG.values(), ids=WRONG)
def test_an_argument_of_the_wrong_kind_is_an_error_of_ours(memory: EpicMemory, name: str, given: list[Any]) -> None:
    with pytest.raises(InvalidInputError):
        method(memory, name)(*given)


def test_a_full_disk_is_an_error_of_ours_and_leaves_what_was_there(
    memory: EpicMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.file.export("before.jsonl")
    before = Path("before.jsonl").read_bytes()
    memory.add(["white wine"])

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        memory.file.export("before.jsonl", overwrite=True)
    assert Path("before.jsonl").read_bytes() == before
    assert sorted(path.name for path in Path().iterdir()) == ["before.jsonl", "me.epic"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no files of this kind")
def test_what_is_no_ordinary_file_is_not_replaced(memory: EpicMemory) -> None:
    os.mkfifo("pipe")
    for write in (memory.file.export, memory.file.backup):
        with pytest.raises(StoreError, match="ordinary file"):
            write("pipe", overwrite=True)
    assert Path("pipe").is_fifo()


def mode_of(name: str) -> int:
    return stat.S_IMODE(Path(name).stat().st_mode)


@pytest.mark.skipif(sys.platform == "win32", reason="no permissions of this kind")
def test_files_are_their_owners_alone_unless_the_user_wants_otherwise(memory: EpicMemory) -> None:
    memory.file.backup("copy.epic")
    memory.file.export("lines.jsonl")
    assert [mode_of(name) for name in ("me.epic", "copy.epic", "lines.jsonl")] == [0o600] * 3
    Path("me.epic").chmod(0o640)
    Path("lines.jsonl").chmod(0o644)
    memory.file.compact()
    memory.add(["white wine"])
    memory.file.backup("another.epic")
    memory.file.export("lines.jsonl", overwrite=True)
    assert [mode_of(name) for name in ("me.epic", "another.epic", "lines.jsonl")] == [0o640, 0o640, 0o644]
