"""`epic bench`: each public format in a tiny sample, what is found and chosen, and files of another shape."""

from __future__ import annotations

import lzma
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from command_line import Epic, jsonl, refused
from epic_eval import public
from epic_eval.journal import Journal
from epic_eval.public import BENCHES, hash_of, letter
from epic_eval.public_formats import READERS, History, read
from lm_servers import LMServer

TEA, BOAT = "I only drink green tea in the morning.", "My boat is called Heron and lies in Faro."


SAMPLES = Path(__file__).with_name("samples")
PATHS = {
    "longmemeval": "s.json.xz",
    "locomo": "locomo10.json",
    "locomo-plus": "plus.json",
    "prefeval": "mcq",
    "personamem": "benchmark.csv",
    "membench": "first.json",
    "convomem": ".",
    "perma": ".",
    "lamp": "dev_questions.json",
}
NAMES = list(PATHS)


def sample(name: str, folder: Path) -> Path:
    """Copy the sample of a benchmark into a folder; the path that its reader takes."""
    shutil.copytree(SAMPLES / name, folder, dirs_exist_ok=True)
    if name == "longmemeval":
        (folder / "s.json.xz").write_bytes(lzma.compress((folder / "s.json").read_bytes()))
        (folder / "s.json").unlink()
    return folder / PATHS[name]


def histories(name: str, folder: Path) -> list[History]:
    return list(read(name, sample(name, folder)))


def test_every_benchmark_has_a_reader_and_a_sample() -> None:
    assert list(BENCHES) == list(READERS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_each_format_is_run(name: str, tmp_path: Path, epic: Epic) -> None:
    path = sample(name, tmp_path / "data")
    done = epic("bench", name, str(path), "--out", str(tmp_path / "out"))
    assert done.code == 0, done.err
    assert hash_of(path) in done.out and BENCHES[name].split in done.out
    assert done.out.index("Split, named before the run") < done.out.index("number" if name != "lamp" else "--llm")
    ours = [line for line in done.out.splitlines() if "epic-memory  " in line]
    assert all(line.split()[-4] == "1.000" for line in ours)  # any in 5
    assert bool(ours) == BENCHES[name].recalls
    assert (tmp_path / "out" / f"{name}.md").read_text(encoding="utf-8").startswith(f"# {name}")


def test_what_a_format_says_is_read(tmp_path: Path) -> None:
    first, second = histories("locomo", tmp_path)
    assert [one.part for one in (*first.asked, *second.asked)] == ["looked at", "unseen"]
    assert first.asked[0].turns == {("D1", 2)} and first.asked[0].kind == "one fact"
    (plus,) = histories("locomo-plus", tmp_path)
    assert [m["content"] for m in plus.sessions[0].messages] == [BOAT, "I see.\nReally."]
    assert plus.asked[0].question == "What did I call my boat?"
    flat, nested = histories("membench", tmp_path)
    assert flat.asked[0].turns == {("session 0", 2)} and flat.asked[0].right == 1
    assert nested.asked[0].turns == {("session 1", 1), ("session 1", 2)} and nested.asked[0].kind == "noisy"
    (found,) = histories("convomem", tmp_path / "convomem")
    assert found.asked[0].turns == {("1", 1)} and found.asked[0].kind == "user_evidence"
    (user,) = histories("perma", tmp_path / "perma")
    assert [session.name for session in user.sessions] == ["t1", "t2"]
    assert user.asked[0][:3] == ("What shall I drink?", "SD, type 2", 1)
    assert user.asked[0].options == ["Cola.\nWith ice.", "Green tea."] and user.asked[0].right == 1
    (told,) = histories("personamem", tmp_path)
    assert [m["content"] for m in told.sessions[0].messages] == [TEA, "Noted."]
    assert told.asked[0].options[told.asked[0].right] == "Green tea, as always."


def test_a_model_chooses_by_what_is_remembered_and_is_asked_once(tmp_path: Path, epic: Epic) -> None:
    def answer(request: dict[str, Any]) -> str:
        asked = request["messages"][-1]["content"]
        options = dict(line.split(". ", 1) for line in asked.splitlines() if line[1:3] == ". ")
        return next(f"I take {key}." for key, option in options.items() if ("tea" in option.lower()) == (TEA in asked))

    path, out = sample("prefeval", tmp_path / "data"), tmp_path / "out"
    with LMServer(answer) as server:
        command = ("bench", "prefeval", str(path), "--out", str(out), "--llm", f"openai:tiny@{server.base_url}")
        done = epic(*command)
        assert done.code == 0, done.err
        row = next(line.split() for line in done.out.splitlines() if line.startswith("looked at:"))
        assert row[2:5] == ["drinks", "1", "1.000"]
        calls = server.calls
        assert epic(*command).code == 0
        assert server.calls == calls >= 1


def test_what_users_wrote_is_compared_with_what_a_model_writes(tmp_path: Path, epic: Epic) -> None:
    def answer(request: dict[str, Any]) -> str:
        system, asked = (message["content"] for message in request["messages"])
        if system.startswith("You order"):
            return "2, 1"
        return "5" if "score: 5" in asked else "It has no number."

    path = sample("lamp", tmp_path / "data")
    with LMServer(answer) as server:
        done = epic("bench", "lamp", str(path), "--llm", f"openai:tiny@{server.base_url}")
    assert done.code == 0, done.err
    cells = [re.split(r" {2,}", line.strip()) for line in done.out.splitlines() if "LaMP_3" in line]
    rows = {way: measures for _, way, _, *measures in cells}
    assert set(rows) == {"epic-memory", "cosine", "BM25", "RankGPT-lite", "no records"}
    assert rows["cosine"] == rows["RankGPT-lite"] == ["1.000", "0.000", "1.000", "1.000"]
    assert rows["no records"] == ["0.000", "4.000", "0.000", "0.000"]
    assert "the paper of PURPLE" in done.out
    rows_of = tmp_path / "topics.jsonl"
    jsonl(rows_of, {"input": "Write.", "output": "It rains.", "profile": [{"summary": "a", "content": "b", "id": "1"}]})
    (found,) = read("lamp", rows_of)
    assert found.asked[0].answer == "It rains." and found.sessions[0].messages[0]["content"] == "summary: a, content: b"


def test_only_the_first_histories_are_asked_about(tmp_path: Path, epic: Epic) -> None:
    path = sample("longmemeval", tmp_path)
    limited = epic("bench", "longmemeval", str(path), "--limit", "1")
    assert "unseen: single-session-user" in limited.out and "multi-session" not in limited.out


def test_it_says_if_no_question_is_unseen(tmp_path: Path, epic: Epic) -> None:
    path = sample("locomo", tmp_path)
    assert "no figure here" not in epic("bench", "locomo", str(path)).out
    assert "no figure here" in epic("bench", "locomo", str(path), "--limit", "1").out


def test_questions_about_preferences_stand_first(tmp_path: Path) -> None:
    kinds = ("unseen", "unseen: knowledge-update", "unseen: single-session-preference")
    found = public.Found({(kind, "turns", "BM25"): [[1.0] * 4] for kind in kinds}, [], [])
    with Journal(tmp_path / "answers.jsonl") as journal:
        (table,) = public.parts_of(found, None, journal)
    assert isinstance(table, public.Table)
    assert [row[0] for row in table.rows] == [kinds[2], *kinds[:2]]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", ["{}", "[{}]", "[1, 2", "nonsense"])
def test_a_file_of_another_shape_is_refused(name: str, content: str, tmp_path: Path, epic: Epic) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(content, encoding="utf-8")
    refused(epic("bench", name, str(path)), "wrong.json")


@pytest.mark.parametrize(("answer", "place"), [("B", 1), ("(C)", 2), ("A would do, but I say D.", 3), ("none", None)])
def test_the_letter_of_an_answer(answer: str, place: int | None) -> None:
    assert letter(answer) == place


def test_published_figures_have_their_sources() -> None:
    for name in BENCHES:
        shown = public.published(name)
        assert not isinstance(shown, public.Table) or all(all(row) for row in shown.rows)
