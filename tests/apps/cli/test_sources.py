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
from epic_memory import EpicMemory, Item
from epic_memory.errors import InvalidInputError

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


# notes


@pytest.mark.parametrize("name", ["a.txt", "a.md", "A.TXT", "été 你好.md"])
def test_a_note_is_an_item_with_its_source(tmp_path: Path, name: str) -> None:
    [item] = read(note(tmp_path / name, "A short note.\n"))

    assert (item.text, item.id, item.metadata) == ("A short note.", name, {"source": name})


def test_a_long_note_is_cut_and_its_pieces_numbered(tmp_path: Path) -> None:
    text = " ".join(f"Sentence {n} has exactly seven words here." for n in range(40))
    items = read(note(tmp_path / "a.txt", text))

    assert [item.id for item in items] == [f"a.txt#{n}" for n in range(len(items))]
    assert [item.metadata["chunk"] for item in items] == list(range(len(items)))
    assert " ".join(item.text for item in items) == text
    assert len(items) == 3


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf" + f"Two lines{ending}of text.".encode())

    assert read(path)[0].text.split() == ["Two", "lines", "of", "text."]


@pytest.mark.parametrize("content", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["a.txt", "a.md"])
def test_an_empty_note_is_reported(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    sources = Sources([tmp_path / name, note(tmp_path / "b.txt", "Text.")])

    assert [item.id for item in sources] == ["b.txt"]
    assert len(sources.skipped) == 1
    assert name in sources.skipped[0]


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [("a.txt", "one\ntwo\nthrée", 3), ("c.jsonl", '{"text": "one"}\n{"text": "zwölf"}\n', 2)],
)
def test_what_is_not_utf8_is_named_with_the_line(tmp_path: Path, name: str, content: str, line: int) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))

    assert f"{name}, line {line}: this is not UTF-8" in reported(tmp_path / name)


@pytest.mark.slow
def test_a_line_of_five_megabytes_without_a_full_stop_is_cut_between_words(tmp_path: Path) -> None:
    text = "word " * 1_000_000

    items = read(note(tmp_path / "a.txt", text))

    assert " ".join(item.text for item in items) == text.strip()
    assert {item.metadata["chunks"] for item in items} == {len(items)} == {10_000}


# corpora


def test_a_record_keeps_its_id_title_and_metadata(tmp_path: Path) -> None:
    [item] = read(
        jsonl(tmp_path / "c.jsonl", {"text": "Body.", "id": "x1", "title": "Head", "metadata": {"year": 2020}})
    )

    assert item.id == "x1"
    assert item.text == "Head. Body."
    assert item.metadata == {"source": "c.jsonl", "title": "Head", "year": 2020}


def test_a_record_needs_nothing_but_a_text(tmp_path: Path) -> None:
    items = read(
        jsonl(tmp_path / "c.jsonl", {"text": "One."}, {"text": "Two.", "unknown": [1]}, {"text": "三。", "id": 7})
    )

    assert [item.text for item in items] == ["One.", "Two.", "三。"]
    assert len({item.id for item in items}) == 3
    assert items[2].id == "7"


def test_a_long_record_repeats_its_title_in_each_piece(tmp_path: Path) -> None:
    text = " ".join(f"Sentence {n} has exactly seven words here." for n in range(40))
    items = read(jsonl(tmp_path / "c.jsonl", {"text": text, "id": "x", "title": "Head"}))

    assert [item.id for item in items] == ["x#0", "x#1", "x#2"]
    assert all(item.text.startswith("Head. Sentence") for item in items)


def test_empty_lines_and_a_byte_order_mark_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'\xef\xbb\xbf\n{"text": "One."}\n\n  \n{"text": "Two."}')

    assert [item.text for item in read(path)] == ["One.", "Two."]


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_corpus_is_reported(tmp_path: Path, content: str) -> None:
    sources = Sources([note(tmp_path / "c.jsonl", content)])

    assert list(sources) == []
    assert "c.jsonl" in sources.skipped[0]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": "cut off', "JSON"),
        ("{'text': 'quotes'}", "JSON"),
        ("plain words", "JSON"),
        ("[" * 100_000, "JSON"),
        ('["a", "list"]', "object"),
        ('"a string"', "object"),
        ("null", "object"),
        ('{"id": "2"}', "text"),
        ('{"text": null}', "text"),
        ('{"text": 5}', "text"),
        ('{"text": ""}', "text is empty"),
        ('{"text": " \\n "}', "text is empty"),
        ('{"text": "x", "id": [1]}', "id"),
        ('{"text": "x", "title": 5}', "title"),
        ('{"text": "x", "metadata": "none"}', "metadata"),
        ('{"text": "x", "id": "1"}', "line 1"),
        (r'{"text": "a \ud800 b"}', ""),
        (r'{"text": "b", "title": "a \u0000 b"}', ""),
        (r'{"text": "b", "id": "a \ud800 b"}', ""),
        ('{"text": "b", "metadata": {"k": [NaN]}}', ""),
        (r'{"text": "b", "metadata": {"k": "a \ud800 b"}}', ""),
    ],
)
def test_a_record_that_cannot_be_used_is_named_and_the_rest_is_read(tmp_path: Path, line: str, problem: str) -> None:
    sources = Sources([note(tmp_path / "c.jsonl", f'{{"text": "One.", "id": "1"}}\n\n{line}\n{{"text": "Four."}}\n')])

    assert [item.text for item in sources] == ["One.", "Four."]
    [message] = sources.failures
    assert "c.jsonl, line 3" in message
    assert problem in message and message.encode()


def test_one_id_in_two_files_is_reported_with_both_places(tmp_path: Path) -> None:
    first = jsonl(tmp_path / "a.jsonl", {"id": "x", "text": "one"})
    second = jsonl(tmp_path / "b.jsonl", {"text": "two"}, {"id": "x", "text": "three"})
    message = reported(first, second)

    assert all(place in message for place in (f"{first}, line 1", f"{second}, line 2", "'x'"))


def test_a_number_and_a_string_are_the_same_id(tmp_path: Path) -> None:
    assert "line 2" in reported(jsonl(tmp_path / "c.jsonl", {"text": "One.", "id": 1}, {"text": "Two.", "id": "1"}))


def test_the_reasons_of_a_file_with_no_good_line_are_counted(tmp_path: Path) -> None:
    lines = reported(note(tmp_path / "c.jsonl", "broken\n" * 5_000)).split("\n")

    assert len(lines) == 21
    assert lines[-1].endswith("4980 more")


def test_a_broken_line_of_five_megabytes_does_not_fill_the_screen(tmp_path: Path) -> None:
    message = reported(note(tmp_path / "c.jsonl", '{"text": "' + "word " * 1_000_000))

    assert "line 1" in message
    assert len(message) < 1000


# chat logs


def test_a_log_becomes_windows_of_turns(tmp_path: Path) -> None:
    log = [{"role": "user" if n % 2 else "assistant", "content": f"Turn {n}."} for n in range(12)]
    items = read(jsonl(tmp_path / "chat.jsonl", *log))

    assert [item.id for item in items] == ["chat.jsonl#0", "chat.jsonl#1"]
    assert items[0].text.split("\n")[:2] == ["assistant: Turn 0.", "user: Turn 1."]
    assert [len(item.text.split("\n")) for item in items] == [8, 6]
    assert items[1].metadata == {"source": "chat.jsonl", "chunk": 1, "turn": 7, "origin": "assistant"}


def test_turns_that_cannot_be_used_are_counted_and_named(tmp_path: Path) -> None:
    lines = [
        '{"role": "user", "content": "hi"}',
        '{"role": "user"}',
        '{"content": "hi"}',
        '{"role": 1, "content": "a"}',
    ]
    lines.append('{"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}')
    sources = Sources([note(path := tmp_path / "chat.jsonl", "\n".join(lines))])

    assert [item.text for item in sources] == ["user: hi"]
    assert sources.skipped == [
        f"{path}: 2 messages without a role",
        f"{path}: 1 messages without text",
        f"{path}: 1 tool calls",
    ]


def test_an_exported_conversation_is_read_if_it_is_named(tmp_path: Path) -> None:
    chat = {"messages": [{"role": "user", "content": "hi", "timestamp": "2026-05-03T10:00:00Z"}]}
    (item,) = read(note(tmp_path / "chat.json", json.dumps(chat)))

    assert item.text == "user: hi"
    who = {"speaker": "user", "turn": 1, "origin": "user"}
    assert item.metadata == {"source": "chat.json", "chunk": 0, "time": "2026-05-03T10:00:00+00:00", **who}
    assert "Export it anew" in reported(note(tmp_path / "broken.json", "{"))


def test_an_array_of_records_is_a_corpus(tmp_path: Path) -> None:
    records = [{"text": "One.", "id": "1", "title": "Head"}, {"text": 2}, "three", {"text": "Four."}]
    sources = Sources([note(tmp_path / "c.json", json.dumps(records))])

    assert {item.id: item.text for item in sources} == {"1": "Head. One.", "c.json:4": "Four."}
    assert ["record 2" in sources.failures[0], "record 3" in sources.failures[1]] == [True, True]


APRIL, MAY = 1775379600, 1777809600  # Unix seconds
GARDEN, BALCONY = "I planted tomatoes in the garden.", "The tomatoes on the balcony have yellow leaves."


def chatgpts(*said: Any) -> dict[str, Any]:
    """A conversation as ChatGPT exports it, of roles, contents and times."""

    def node(key: str, parent: str | None, message: object) -> dict[str, Any]:
        return {"id": key, "message": message, "parent": parent, "children": []}

    mapping = {"0": node("0", None, None)}
    for number, (role, content, time) in enumerate(said, start=1):
        author = {"role": role, "name": None, "metadata": {}}
        about = {"status": "finished_successfully", "recipient": "all", "metadata": {}}
        message = {"id": str(number), "author": author, "create_time": time, "content": content, **about}
        mapping[str(number)] = node(str(number), str(number - 1), message)
    last = str(len(said))
    return {"title": "Plants", "create_time": APRIL, "mapping": mapping, "current_node": last, "conversation_id": "c"}


def words(*parts: object, kind: str = "text") -> dict[str, Any]:
    return {"content_type": kind, "parts": list(parts)}


CHATGPT = [
    chatgpts(
        ("system", words(""), None),
        ("user", words(GARDEN), APRIL),
        ("assistant", {"content_type": "thoughts", "thoughts": []}, APRIL + 1),
        ("assistant", {"content_type": "code", "language": "unknown", "text": "search()"}, APRIL + 2),
        ("user", words({"content_type": "image_asset_pointer"}, BALCONY, kind="multimodal_text"), MAY),
        ("user", words({"content_type": "audio_transcription", "text": "And now?"}, kind="multimodal_text"), None),
    )
]
MEM0 = {
    "results": [
        {"id": "1", "memory": GARDEN, "created_at": "2026-04-05T02:00:00.5-07:00", "updated_at": None, "user_id": "a"},
        {"id": "2", "memory": BALCONY, "created_at": "2026-05-03T05:00:00.5-07:00", "metadata": {"category": "x"}},
        {"id": "3", "memory": None, "created_at": "2026-05-03T05:00:00.5-07:00"},
    ]
}
LOG = [
    {"role": "user", "content": GARDEN, "timestamp": APRIL},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "user", "content": BALCONY, "timestamp": "3 May 2026, 14:00"},
    {"role": "user", "content": "And now?", "timestamp": "just now"},
]


@pytest.mark.parametrize(
    ("name", "content", "unusable"),
    [
        (
            "conversations.json",
            CHATGPT,
            [
                "1 hidden messages",
                "2 messages without text",
                "1 parts of type code",
                "1 parts of type image_asset_pointer",
            ],
        ),
        ("mem0.json", MEM0, ["1 messages without a role"]),
        ("chat.jsonl", LOG, ["1 times that are no date", "1 tool calls"]),
    ],
)
def test_what_was_said_in_may_is_found_in_an_export(
    tmp_path: Path, name: str, content: list[Any], unusable: list[str]
) -> None:
    path = tmp_path / name
    if path.suffix == ".jsonl":
        jsonl(path, *content)
    else:
        note(path, json.dumps(content))
    sources, memory = Sources([path]), EpicMemory(["I read crime novels."])
    memory.add(sources)
    assert sources.skipped == [f"{path}: {line}" for line in unusable]
    (hit,) = memory.search("What did I say in May?")
    assert BALCONY in hit.item.text and hit.item.metadata["time"].startswith("2026-05-03T")
    assert BALCONY in memory.search("What did I say about the tomatoes in May?")[0].item.text
    assert GARDEN in memory.search("What did I say about the tomatoes in April?")[0].item.text
    assert not memory.search("What did I say in July?")


# folders and paths


def test_a_folder_is_read_with_its_subfolders_and_without_hidden_files(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    for name in ["b.txt", "a.md", "sub/c.txt", ".hidden.txt", ".git/d.txt", "sub/.e.md", "picture.png", "f.TXT"]:
        note(folder / name, f"The note {name}.")
    jsonl(folder / "sub/g.jsonl", {"text": "A record."})

    ids = {item.id for item in read(folder)}

    assert ids == {"notes/b.txt", "notes/a.md", "notes/sub/c.txt", "notes/f.TXT", "notes/sub/g.jsonl:1"}
    assert [item.id for item in read(folder)] == [item.id for item in read(folder)]
    sources = Sources([folder])
    list(sources)
    assert sources.skipped == [f"{folder}: files of kinds that are not read from folders (1 .png)"]


def test_a_folder_below_a_hidden_one_can_be_named(tmp_path: Path) -> None:
    note(tmp_path / ".cache/notes/a.txt", "Text.")

    assert [item.text for item in read(tmp_path / ".cache/notes")] == ["Text."]


def test_several_paths_are_read_in_their_order(tmp_path: Path) -> None:
    paths = [note(tmp_path / "z.txt", "Z."), note(tmp_path / "a.txt", "A.")]

    assert [item.text for item in read(*paths)] == ["Z.", "A."]


def test_a_path_given_twice_is_read_once(tmp_path: Path) -> None:
    path = note(tmp_path / "a.txt", "A.")

    assert len(read(path, path)) == 1
    assert len(read(tmp_path, path)) == 1


def test_files_of_one_name_have_different_ids(tmp_path: Path) -> None:
    items = read(*(note(tmp_path / folder / "a.txt", f"In {folder}.") for folder in ("x", "y", "z")))

    assert [item.text for item in items] == ["In x.", "In y.", "In z."]
    assert len({item.id for item in items}) == 3


def test_a_name_with_a_folder_in_its_suffix_is_a_folder(tmp_path: Path) -> None:
    note(tmp_path / "folder.txt/a.md", "Text.")

    assert [item.text for item in read(tmp_path / "folder.txt")] == ["Text."]


def test_a_missing_path_is_named_before_anything_is_read(tmp_path: Path) -> None:
    sources = Sources([note(tmp_path / "a.txt", "A."), tmp_path / "missing.txt"])

    with pytest.raises(InvalidInputError, match=r"missing\.txt"):
        next(iter(sources))


@pytest.mark.parametrize("name", ["a.png", "a", "a.txt.gz"])
def test_another_kind_of_file_is_refused_with_the_kinds_there_are(tmp_path: Path, name: str) -> None:
    message = refused(note(tmp_path / name, "Text."))

    assert name in message
    assert ".txt, .md," in message and ".jsonl" in message


@pytest.mark.parametrize("text", ["Text.", "[", "[" * 100_000])
def test_an_export_that_is_no_json_is_reported_with_its_name(tmp_path: Path, text: str) -> None:
    assert "a.json" in reported(note(tmp_path / "a.json", text))


@pytest.mark.parametrize("inside", [[], ["picture.png"], [".hidden.txt"]])
def test_a_folder_without_notes_is_refused(tmp_path: Path, inside: list[str]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in inside:
        note(folder / name, "Text.")

    assert "folder holds no" in refused(folder)


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


# preferences


def test_preferences_are_lines(tmp_path: Path) -> None:
    path = tmp_path / "prefs.txt"
    path.write_bytes("\ufeff# mine\r\n\r\n  I avoid casinos.  \r\n#I hate tea.\n我不喝酒。\n".encode())

    assert [preference.text for preference in read_preferences(path)] == ["I avoid casinos.", "我不喝酒。"]


def test_a_repeated_preference_is_named_with_both_lines(tmp_path: Path) -> None:
    path = note(tmp_path / "prefs.txt", "I avoid casinos.\n\nI like tea.\ni  AVOID casinos.\n")

    with pytest.raises(InvalidInputError, match=r"prefs\.txt, line 4.*line 1"):
        read_preferences(path)


@pytest.mark.parametrize("content", ["", "\n \n", "# only a comment\n"])
def test_a_file_without_preferences_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InvalidInputError, match=r"prefs\.txt holds no preference"):
        read_preferences(note(tmp_path / "prefs.txt", content))


def test_a_preference_with_a_nul_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"prefs\.txt, line 2"):
        read_preferences(note(tmp_path / "prefs.txt", "I like tea.\nI like\x00coffee.\n"))


def test_preferences_that_are_not_utf8_are_named_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "prefs.txt"
    path.write_bytes("I like tea.\nI avoid cafés.\n".encode("latin-1"))

    with pytest.raises(InvalidInputError, match=r"prefs\.txt, line 2.*UTF-8"):
        read_preferences(path)


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_preferences_need_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match="no file"):
        read_preferences(tmp_path / name)


def test_a_record_cannot_claim_to_be_the_users(tmp_path: Path) -> None:
    claims = {"origin": "user", "turn": 1}, {"source": "mine.md"}, {"origin": "user", "source": "mine.md"}, {"turn": 2}
    jsonl(tmp_path / "found.jsonl", *({"text": f"Text {n}.", "metadata": claim} for n, claim in enumerate(claims)))
    read = list(Sources([str(tmp_path / "found.jsonl")], mark=attributed))
    assert [item.metadata["origin"] for item in read] == ["page"] * 4
