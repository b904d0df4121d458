"""Sources: notes, corpora and chat logs of files and folders as items; files of preferences."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from command_line import jsonl
from epic_apps.cli.sources import Sources, read_preferences
from epic_apps.origins import attributed
from epic_memory import Item
from epic_memory.errors import InvalidInputError
from tables import lines

unprivileged = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not stop this user"
)


def note(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read(*paths: Path) -> list[Item]:
    return list(Sources(paths))


def refused(*paths: Path) -> str:
    with pytest.raises(InvalidInputError) as raised:
        read(*paths)
    return str(raised.value)


def reported(*paths: Path) -> str:
    """What could not be read, by a reading that goes on."""
    sources = Sources(paths)
    list(sources)
    assert sources.failures
    return "\n".join(sources.failures)


# examples: the files of a row, and what is read of them

EXAMPLES = lines(Path(__file__).with_name("sources.jsonl"))


def made(folder: Path, files: dict[str, Any], encoding: str = "utf-8") -> list[Path]:
    """Write files of texts, of the records of a list, or of another value as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = content if isinstance(content, list) and path.suffix == ".jsonl" else [content]
        path.write_bytes("\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines).encode(encoding))
    return [folder / name for name in files]


def named(messages: list[str], expected: list[list[str]]) -> None:
    """Each message has the parts that are expected of it."""
    assert len(messages) == len(expected), messages
    for message, parts in zip(messages, expected, strict=True):
        assert message.encode() and all(part in message for part in parts), message


@pytest.mark.parametrize("row", EXAMPLES, ids=[row["name"] for row in EXAMPLES])
def test_what_is_read_of_files(tmp_path: Path, row: dict[str, Any]) -> None:
    given = made(tmp_path, row["files"], row.get("encoding", "utf-8"))
    paths = [tmp_path / name for name in row["read"]] if "read" in row else given
    if "refused" in row:
        sources = Sources(paths)
        with pytest.raises(InvalidInputError) as raised:
            next(iter(sources))
        assert all(part in str(raised.value) for part in row["refused"])
        return
    sources = Sources(paths)
    items = list(sources)
    named(sources.failures, row.get("failures", []))
    named(sources.skipped, row.get("skipped", []))
    if "items" in row:
        assert [item.text.split() for item in items] == [text.split() for _, text, *_ in row["items"]]
        for item, (key, text, *metadata) in zip(items, row["items"], strict=True):
            assert item.id == (key or item.id) and (item.text == text or "\r" in item.text)
            assert [item.metadata] == metadata or not metadata
    assert len({item.id for item in items}) == len(items)
    assert [item.id for item in Sources(paths)] == [item.id for item in items]


SENTENCES = " ".join(f"Sentence {n} has exactly seven words here." for n in range(40))


def test_a_long_text_is_cut_and_its_pieces_numbered(tmp_path: Path) -> None:
    items = read(note(tmp_path / "a.txt", SENTENCES))
    assert [(item.id, item.metadata["chunk"]) for item in items] == [(f"a.txt#{n}", n) for n in range(3)]
    assert " ".join(item.text for item in items) == SENTENCES
    titled = read(jsonl(tmp_path / "c.jsonl", {"text": SENTENCES, "id": "x", "title": "Head"}))
    assert [item.id for item in titled] == ["x#0", "x#1", "x#2"]
    assert all(item.text.startswith("Head. Sentence") for item in titled)


def test_deep_nesting_is_no_json(tmp_path: Path) -> None:
    sources = Sources([note(tmp_path / "c.jsonl", f'{{"text": "One."}}\n{"[" * 100_000}\n{{"text": "Four."}}\n')])
    assert [item.text for item in sources] == ["One.", "Four."]
    (failure,) = sources.failures
    assert "c.jsonl, line 2" in failure and "JSON" in failure
    assert "a.json" in reported(note(tmp_path / "a.json", "[" * 100_000))


def test_what_cannot_be_read_does_not_fill_the_screen(tmp_path: Path) -> None:
    lines = reported(note(tmp_path / "c.jsonl", "broken\n" * 5_000)).split("\n")
    assert len(lines) == 21 and lines[-1].endswith("4980 more")
    message = reported(note(tmp_path / "d.jsonl", '{"text": "' + "word " * 1_000_000))
    assert "line 1" in message and len(message) < 1000


# notes


@pytest.mark.slow
def test_a_line_of_five_megabytes_without_a_full_stop_is_cut_between_words(tmp_path: Path) -> None:
    text = "word " * 1_000_000
    items = read(note(tmp_path / "a.txt", text))
    assert " ".join(item.text for item in items) == text.strip()
    assert {item.metadata["chunks"] for item in items} == {len(items)} == {10_000}


# chat logs


def test_a_log_becomes_windows_of_turns(tmp_path: Path) -> None:
    log = [{"role": "user" if n % 2 else "assistant", "content": f"Turn {n}."} for n in range(12)]
    items = read(jsonl(tmp_path / "chat.jsonl", *log))
    assert [item.id for item in items] == ["chat.jsonl#0", "chat.jsonl#1"]
    assert items[0].text.split("\n")[:2] == ["assistant: Turn 0.", "user: Turn 1."]
    assert [len(item.text.split("\n")) for item in items] == [8, 6]
    assert items[1].metadata == {"source": "chat.jsonl", "chunk": 1, "turn": 7, "origin": "assistant"}


# folders and paths


def test_files_of_one_name_have_different_ids(tmp_path: Path) -> None:
    items = read(*(note(tmp_path / folder / "a.txt", f"In {folder}.") for folder in ("x", "y", "z")))
    assert [item.text for item in items] == ["In x.", "In y.", "In z."]
    assert len({item.id for item in items}) == 3


@unprivileged
@pytest.mark.parametrize("name", ["a.txt", "c.jsonl"])
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, name: str) -> None:
    path = jsonl(tmp_path / name, {"text": "Secret."})
    path.chmod(0)
    assert name in reported(path)


@pytest.mark.skipif(os.name == "nt", reason="links need a right on Windows")
def test_a_link_out_of_a_folder_is_reported_and_not_followed(tmp_path: Path) -> None:
    secret, folder = note(tmp_path / "other/secret.txt", "Secret."), tmp_path / "folder"
    inside = note(folder / "deep/a.txt", "A.")
    (folder / "file.txt").symlink_to(secret)
    (folder / "deep/all").symlink_to(secret.parent, target_is_directory=True)
    (folder / "relative.md").symlink_to("../other/secret.txt")
    (folder / "loop.txt").symlink_to(folder / "loop.txt")
    (folder / "again.txt").symlink_to(inside)
    sources = Sources([folder])
    assert [item.text for item in sources] == ["A."]
    assert f"not followed, 3 ({Path('deep/all')}, file.txt, relative.md)" in sources.skipped[0]
    assert [item.text for item in Sources([folder / "file.txt"])] == ["Secret."]
    inside.unlink()
    assert "lead out" in refused(folder)


def test_a_record_cannot_claim_to_be_the_users(tmp_path: Path) -> None:
    claims = {"origin": "user", "turn": 1}, {"source": "mine.md"}, {"origin": "user", "source": "mine.md"}, {"turn": 2}
    jsonl(tmp_path / "found.jsonl", *({"text": f"Text {n}.", "metadata": claim} for n, claim in enumerate(claims)))
    read = list(Sources([str(tmp_path / "found.jsonl")], mark=attributed))
    assert [item.metadata["origin"] for item in read] == ["page"] * 4


# preferences


def test_preferences_are_lines(tmp_path: Path) -> None:
    (path,) = made(tmp_path, {"prefs.txt": "\ufeff# mine\r\n\r\n  I avoid casinos.  \r\n#I hate tea.\n我不喝酒。\n"})
    assert [preference.text for preference in read_preferences(path)] == ["I avoid casinos.", "我不喝酒。"]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("I avoid casinos.\n\nI like tea.\ni  AVOID casinos.\n", r"prefs\.txt, line 4.*line 1"),
        *((content, r"prefs\.txt holds no preference") for content in ("", "\n \n", "# only a comment\n")),
        ("I like tea.\nI like\x00coffee.\n", r"prefs\.txt, line 2"),
        ("I like tea.\nI avoid cafés.\n", r"prefs\.txt, line 2.*UTF-8"),
    ],
)
def test_what_holds_no_preferences_is_refused(tmp_path: Path, content: str, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        read_preferences(made(tmp_path, {"prefs.txt": content}, "latin-1")[0])
    for name in ("missing.txt", "."):
        with pytest.raises(InvalidInputError, match="no file"):
            read_preferences(tmp_path / name)
