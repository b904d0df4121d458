"""`epic bench`: each public format in a tiny sample, what is found and chosen, and files of another shape."""

from __future__ import annotations

import csv
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from command_line import Epic, refused
from epic_eval import public
from epic_eval.public import BENCHES, hash_of, letter
from epic_eval.public_formats import READERS, History, read
from lm_servers import LMServer

TEA, BOAT = "I only drink green tea in the morning.", "My boat is called Heron and lies in Faro."


def written(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content)
    path.write_bytes(lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode())
    return path


def said(*texts: str, role: str = "role", content: str = "content") -> list[dict[str, str]]:
    return [{role: "user" if number % 2 == 0 else "assistant", content: text} for number, text in enumerate(texts)]


def longmemeval(folder: Path) -> Path:
    record = {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "What is my boat called?",
        "answer": "Heron",
        "question_date": "2025/05/01 (Thu) 10:00",
        "haystack_session_ids": ["s1", "s2"],
        "haystack_dates": ["2025/01/06 (Mon) 20:15", "2025/02/06 (Thu) 20:15"],
        "haystack_sessions": [said(TEA, "Noted."), said(BOAT, "Nice.")],
        "answer_session_ids": ["s2"],
    }
    return written(folder / "s.json.xz", [record, record | {"question_type": "multi-session"}])


def locomo(folder: Path) -> Path:
    turns = [{"speaker": "Ann", "dia_id": f"D1:{n}", "text": text} for n, text in enumerate((TEA, BOAT), start=1)]
    conversation = {"speaker_a": "Ann", "session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
    questions = [
        {"question": "What is Ann's boat called?", "answer": "Heron", "evidence": ["D1:2; D9:9"], "category": 4},
        {"question": "What is Ann's car called?", "evidence": ["D1:1"], "category": 5},
    ]
    whole = [{"sample_id": name, "conversation": conversation, "qa": questions} for name in ("conv-26", "conv-30")]
    return written(folder / "locomo10.json", whole)


def locomo_plus(folder: Path) -> Path:
    cue = {"relation_type": "causal", "time_gap": "two weeks later"}
    triggers = {BOAT: "A: What did I call my boat?", TEA: "A: What do I drink in the morning?"}
    cues = [cue | {"cue_dialogue": f"A: {one}\nB: I see.\nReally.", "trigger_query": triggers[one]} for one in triggers]
    return written(folder / "plus.json", cues)


def prefeval(folder: Path) -> Path:
    case = {"question": "What shall I drink?", "preference": TEA}
    options = ["Green tea.", "Black coffee.", "Cola with ice.", "Beer."]
    written(folder / "mcq" / "drinks.json", [case | {"classification_task_options": options}])
    return folder / "mcq"


def personamem(folder: Path) -> Path:
    history = {"chat_history": [{"role": "system", "content": "You are told."}, *said(TEA, "Noted.")]}
    written(folder / "data" / "chat.json", history)
    row = {
        "persona_id": "1",
        "chat_history_32k_link": "data/chat.json",
        "user_query": "{'role': 'user', 'content': 'What shall I drink?'}",
        "correct_answer": "Green tea, as always.",
        "incorrect_answers": '["Cola.", "Beer.", "Rum."]',
        "pref_type": "stated",
    }
    with (folder / "benchmark.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, list(row))
        rows.writeheader()
        rows.writerow(row)
    return folder / "benchmark.csv"


def membench(folder: Path) -> Path:
    asking = {"question": "Where does my boat lie?", "choices": {"A": "Rome", "B": "Faro"}, "ground_truth": "B"}
    flat = {"message_list": [TEA, BOAT], "QA": asking | {"target_step_id": [1]}}
    both = {"user": BOAT, "agent": "Nice."}
    nested = {"message_list": [[{"user": TEA, "agent": "Noted."}], [both]], "QA": asking | {"target_step_id": [[1, 0]]}}
    return written(folder / "first.json", {"simple": {"roles": [flat]}, "noisy": {"places": [nested]}})


def convomem(folder: Path) -> Path:
    conversations = [
        {"id": str(n), "messages": said(t, "Hm.", role="speaker", content="text")} for n, t in enumerate((TEA, BOAT))
    ]
    item = {"question": "What is my boat called?", "answer": "Heron", "conversations": conversations}
    items = {"evidence_items": [item | {"message_evidences": [{"speaker": "User", "text": BOAT}]}]}
    return written(folder / "user_evidence" / "1_evidence" / "p.json", items).parents[2]


def perma(folder: Path) -> Path:
    tasks = folder / "tasks" / "user1"
    dialogs = [{"task_id": name, "conversation": said(text, "Noted.")} for name, text in (("t1", TEA), ("t2", BOAT))]
    written(tasks / "raw_dialogues_c.json", [{"topic": "Drinks", "dialogs": dialogs}])
    written(
        tasks / "interleaved_timeline.json", [{"task_id": f"t{n}", "date": f"2023-0{n}-01 Morning"} for n in (2, 1)]
    )
    meta = {"question": "What shall I drink?", "question_date": "2023-01-15", "task_type": 2, "gold_label": "B"}
    meta["options"] = "A: Cola.\nWith ice.\nB: Green tea."
    written(folder / "evaluation" / "user1" / "meta" / "overall" / "SD-Drinks-task-1_2.json", meta)
    return folder


SAMPLES = [longmemeval, locomo, locomo_plus, prefeval, personamem, membench, convomem, perma]
NAMES = [sample.__name__.replace("_", "-") for sample in SAMPLES]


def histories(name: str, folder: Path) -> list[History]:
    return list(read(name, SAMPLES[NAMES.index(name)](folder)))


def test_every_benchmark_has_a_reader_and_a_sample() -> None:
    assert list(BENCHES) == list(READERS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_each_format_is_run(name: str, tmp_path: Path, epic: Epic) -> None:
    path = SAMPLES[NAMES.index(name)](tmp_path / "data")
    done = epic("bench", name, str(path), "--out", str(tmp_path / "out"))
    assert done.code == 0, done.err
    assert hash_of(path) in done.out and BENCHES[name].split in done.out
    assert done.out.index("Split, named before the run") < done.out.index("number")
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

    arguments = ["bench", "prefeval", str(prefeval(tmp_path)), "--out", str(tmp_path / "out"), "--llm"]
    with LMServer(answer) as server:
        done = epic(*arguments, f"openai:tiny@{server.base_url}")
        assert done.code == 0, done.err
        row = next(line.split() for line in done.out.splitlines() if line.startswith("looked at:"))
        assert row[2:5] == ["drinks", "1", "1.000"]
        calls = server.calls
        assert epic(*arguments, f"openai:tiny@{server.base_url}").code == 0
        assert server.calls == calls >= 1


def test_the_first_questions_can_be_those_that_were_looked_at(tmp_path: Path, epic: Epic) -> None:
    done = epic("bench", "longmemeval", str(longmemeval(tmp_path)), "--looked-at", "1")
    assert "looked at: single-session-user" in done.out and "unseen: multi-session" in done.out
    limited = epic("bench", "longmemeval", str(longmemeval(tmp_path)), "--limit", "1")
    assert "unseen: single-session-user" in limited.out and "multi-session" not in limited.out


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", ["{}", "[{}]", "[1, 2", "nonsense"])
def test_a_file_of_another_shape_is_refused(name: str, content: str, tmp_path: Path, epic: Epic) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(content, encoding="utf-8")
    refused(epic("bench", name, str(path)), "wrong.json")


def test_what_is_not_there_is_refused(tmp_path: Path, epic: Epic) -> None:
    refused(epic("bench", "longmemeval", str(tmp_path / "no.json")), "no.json")
    refused(epic("bench", "latin", str(tmp_path)), "latin", "longmemeval")


@pytest.mark.parametrize(("answer", "place"), [("B", 1), ("(C)", 2), ("A would do, but I say D.", 3), ("none", None)])
def test_the_letter_of_an_answer(answer: str, place: int | None) -> None:
    assert letter(answer) == place


def test_published_figures_have_their_sources() -> None:
    for name in BENCHES:
        shown = public.published(name)
        assert not isinstance(shown, public.Table) or all(all(row) for row in shown.rows)
