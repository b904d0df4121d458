"""Training a reranker on the command line, and a collection that is stopped in the middle."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from command_line import Epic, jsonl, refused
from epic_memory import EpicMemory, Settings
from epic_rerank import reranker_of
from lm_servers import Json, LMServer, Reply
from scripted import until


def scoring(request: Json) -> Reply:
    """vLLM with a model that finds the reference likely if the note about bread comes first."""
    notes, reference = request["messages"][0]["content"], request["messages"][-1]["content"]
    first = notes.split("[2]")[0]
    value = -1.0 if "bread" in first else -5.0
    body = {"choices": [], "prompt_logprobs": [None, {"7": {"logprob": value, "decoded_token": reference}}]}
    return Reply(pieces=lambda: [json.dumps(body).encode()])


@pytest.fixture
def epic(terminal: Epic) -> Epic:
    """Runs a command beside me.epic and the questions asked.jsonl."""
    with EpicMemory.open("me.epic", ["I like baking."], settings=Settings(coarse=False, fine=False)) as made:
        made.add([f"A note on {what}, number {n}." for n in range(2) for what in ("bread", "cake", "trains", "tea")])
    jsonl(Path("asked.jsonl"), *({"question": f"My {what}?", "reference": "Rye."} for what in ("oven", "dough")))
    return terminal


def collecting(server: LMServer, *options: str, out: str = "log.jsonl") -> list[str]:
    scorer = ["--scorer", "openai:tiny", "--llm-url", server.base_url]
    return ["rerank", "collect", "me.epic", "asked.jsonl", *scorer, "--out", out, *options]


def scores() -> list[dict[str, Any]]:
    return [line for line in map(json.loads, Path("log.jsonl").read_text().splitlines()) if line["kind"] == "score"]


def test_collect_train_eval_forget(epic: Epic) -> None:
    with LMServer(scoring) as server:
        command = collecting(server, "--lists", "12", "-k", "3")
        answered, kept = 0, server.answer

        def dying(request: Json) -> str | Reply:
            nonlocal answered
            answered += 1
            return kept(request) if answered <= 5 else Reply(status=400, text="no more")

        server.answer = dying
        assert epic(*command).code == 2
        whole = Path("log.jsonl").read_text()
        Path("log.jsonl").write_text(whole + '{"kind": "sco')  # killed in the middle of a line
        server.answer, before = kept, server.calls
        assert epic(*command).code == 0
        assert Path("log.jsonl").read_text().startswith(whole)
        assert server.calls - before == len(scores()) - 5
        assert len({(line["key"], tuple(line["list"])) for line in scores()}) == len(scores())
        calls = server.calls
        assert epic(*command).code == 0 and server.calls == calls
    assert "bread" not in Path("log.jsonl").read_text()
    assert epic("rerank", "train", "me.epic", "log.jsonl").code == 0
    assert "2 questions: expected reward +" in epic("rerank", "eval", "me.epic", "log.jsonl").out
    with EpicMemory.open("me.epic") as opened:
        assert reranker_of(opened).is_trained
    assert epic("rerank", "forget", "me.epic").code == 0
    assert epic("rerank", "eval", "me.epic", "asked.jsonl").code == 2
    with EpicMemory.open("me.epic") as opened:
        assert not reranker_of(opened).is_trained


def test_a_model_without_log_probabilities_is_refused(epic: Epic) -> None:
    with LMServer(lambda request: "Rye.") as server:
        refused(epic(*collecting(server)), "gave no log-probabilities")
        assert epic(*collecting(server, "--metric", "--lists", "3")).code == 0


def test_several_lists_are_scored_at_once_and_none_twice(epic: Epic) -> None:
    together, answered, most, lock = 0, 0, 0, Lock()

    def slow(request: Json) -> Reply:
        nonlocal together, answered, most
        with lock:
            together, answered = together + 1, answered + 1
            most, number = max(most, together), answered
        until(lambda: most >= 2)
        with lock:
            together -= 1
        return Reply(status=400, text="no more") if number == 9 else scoring(request)

    with LMServer(slow) as server:
        command = collecting(server, "--lists", "16", "-k", "3", "--concurrency", "4")
        assert epic(*command).code == 2
        kept = Path("log.jsonl").read_text()
        assert epic(*command).code == 0
    assert Path("log.jsonl").read_text().startswith(kept) and kept.count("score") > 4
    assert len({(line["key"], tuple(line["list"])) for line in scores()}) == len(scores())
    assert 2 <= most <= 4


@pytest.mark.parametrize("content", [b"My only notes, on one line", b"{", b'{"kind": "other"}'])
def test_no_other_file_is_written_over(epic: Epic, content: bytes) -> None:
    mine = Path("mine.txt")
    mine.write_bytes(content)
    with LMServer(scoring) as server:
        # What is left of a line of a log is dropped; "{" could be one.
        assert epic(*collecting(server, out="mine.txt")).code == (0 if content == b"{" else 2)
    assert mine.read_bytes() == content or content == b"{"


@pytest.mark.parametrize("content", [b"\xff", b"[" * 100_000, b"[]", b'{"question": "What bread?"}'])
def test_questions_that_cannot_be_read_are_said(epic: Epic, content: bytes) -> None:
    Path("asked.jsonl").write_bytes(content)
    Path("log.jsonl").write_bytes(content + b"\n")
    with LMServer(scoring) as server:
        refused(epic(*collecting(server, out="new.jsonl")), "line 1")
    refused(epic("rerank", "train", "me.epic", "log.jsonl"), "line 1")


def test_a_line_separator_inside_of_a_text_ends_no_line_of_json(epic: Epic) -> None:
    Path("asked.jsonl").write_text('{"question": "What\u2028bread?", "reference": "Rye."}', encoding="utf-8")
    with LMServer(scoring) as server:
        assert epic(*collecting(server, "--lists", "3")).code == 0
