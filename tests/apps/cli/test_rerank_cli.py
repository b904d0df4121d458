"""Training a reranker on the command line, and a collection that is stopped in the middle."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock

import pytest

from epic_apps.cli.main import main
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


def test_collect_train_eval_forget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory, log, asked = tmp_path / "me.epic", tmp_path / "log.jsonl", tmp_path / "asked.jsonl"
    with EpicMemory.open(memory, ["I like baking."], settings=Settings(coarse=False, fine=False)) as made:
        made.add([f"A note on {what}, number {n}." for n in range(2) for what in ("bread", "cake", "trains", "tea")])
    lines = [json.dumps({"question": f"What about my {what}?", "reference": "Rye."}) for what in ("oven", "dough")]
    asked.write_text("\n".join(lines))
    with LMServer(scoring) as server:
        command = ["rerank", "collect", str(memory), str(asked), "--scorer", "openai:tiny", "--lists", "12", "-k", "3"]
        command += ["--llm-url", server.base_url, "--out", str(log)]
        answered, kept = 0, server.answer

        def dying(request: Json) -> str | Reply:
            nonlocal answered
            answered += 1
            return kept(request) if answered <= 5 else Reply(status=400, text="no more")

        server.answer = dying
        assert main(command) == 2
        whole = log.read_text()
        log.write_text(whole + '{"kind": "sco')  # killed in the middle of a line
        server.answer, before = kept, server.calls
        assert main(command) == 0
        scores = [line for line in map(json.loads, log.read_text().splitlines()) if line["kind"] == "score"]
        assert log.read_text().startswith(whole)
        assert server.calls - before == len(scores) - 5
        assert len({(line["key"], tuple(line["list"])) for line in scores}) == len(scores)
        calls = server.calls
        assert main(command) == 0
        assert server.calls == calls
    assert "bread" not in log.read_text()
    assert main(["rerank", "train", str(memory), str(log)]) == 0
    capsys.readouterr()
    assert main(["rerank", "eval", str(memory), str(log)]) == 0
    assert "2 questions: expected reward +" in capsys.readouterr().out
    with EpicMemory.open(memory) as opened:
        assert reranker_of(opened).is_trained
    assert main(["rerank", "forget", str(memory)]) == 0
    assert main(["rerank", "eval", str(memory), str(asked)]) == 2
    with EpicMemory.open(memory) as opened:
        assert not reranker_of(opened).is_trained


def test_a_model_without_log_probabilities_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory, asked = tmp_path / "me.epic", tmp_path / "asked.jsonl"
    with EpicMemory.open(memory, ["I like baking."], settings=Settings(coarse=False, fine=False)) as made:
        made.add(["A note on bread.", "A note on cake."])
    asked.write_text('{"question": "What bread?", "reference": "Rye."}')
    with LMServer(lambda request: "Rye.") as server:
        command = ["rerank", "collect", str(memory), str(asked), "--scorer", "openai:tiny"]
        command += ["--llm-url", server.base_url, "--out", str(tmp_path / "log.jsonl")]
        assert main(command) == 2
        assert "gave no log-probabilities" in capsys.readouterr().err
        assert main([*command, "--metric", "--lists", "3"]) == 0


def test_several_lists_are_scored_at_once_and_none_twice(tmp_path: Path) -> None:
    memory, log, asked = tmp_path / "me.epic", tmp_path / "log.jsonl", tmp_path / "asked.jsonl"
    with EpicMemory.open(memory, ["I like baking."], settings=Settings(coarse=False, fine=False)) as made:
        made.add([f"A note on {what}, number {n}." for n in range(2) for what in ("bread", "cake", "trains", "tea")])
    asked.write_text('{"question": "What about my oven?", "reference": "Rye."}')
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
        command = ["rerank", "collect", str(memory), str(asked), "--scorer", "openai:tiny", "--lists", "16", "-k", "3"]
        command += ["--llm-url", server.base_url, "--out", str(log), "--concurrency", "4"]
        assert main(command) == 2
        kept = log.read_text()
        assert main(command) == 0
    scores = [line for line in map(json.loads, log.read_text().splitlines()) if line["kind"] == "score"]
    assert log.read_text().startswith(kept) and kept.count("score") > 4
    assert len({tuple(line["list"]) for line in scores}) == len(scores)
    assert 2 <= most <= 4


@pytest.mark.parametrize("content", [b"My only notes, on one line", b"{", b'{"kind": "other"}'])
def test_no_other_file_is_written_over(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    memory, asked, mine = tmp_path / "me.epic", tmp_path / "asked.jsonl", tmp_path / "mine.txt"
    with EpicMemory.open(memory, ["I like baking."], settings=Settings(coarse=False, fine=False)) as made:
        made.add(["A note on bread.", "A note on cake."])
    asked.write_text('{"question": "What bread?", "reference": "Rye."}')
    with LMServer(scoring) as server:
        collect = [
            "rerank",
            "collect",
            str(memory),
            str(asked),
            "--scorer",
            "openai:tiny",
            "--llm-url",
            server.base_url,
        ]
        assert main([*collect, "--out", str(tmp_path / "log.jsonl")]) == 0
        mine.write_bytes(content)
        # What is left of a line of a log is dropped; this could be one.
        assert main([*collect, "--out", str(mine)]) == (0 if content == b"{" else 2)
        assert mine.read_bytes() == content or content == b"{"
    mine.write_bytes(content)
    train = ["rerank", "train", str(memory), str(tmp_path / "log.jsonl"), "--out"]
    for taken in (mine, memory):
        before = taken.read_bytes()
        assert main([*train, str(taken)]) == 2
        assert taken.read_bytes() == before
    new = str(tmp_path / "new.json")
    assert [main([*train, new]), main([*train, new])] == [0, 0]


def test_questions_that_cannot_be_read_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory, asked, log = tmp_path / "me.epic", tmp_path / "asked.jsonl", tmp_path / "log.jsonl"
    with EpicMemory.open(memory, ["I like baking."], settings=Settings(coarse=False, fine=False)) as made:
        made.add(["A note on bread.", "A note on cake."])
    with LMServer(scoring) as server:
        command = ["rerank", "collect", str(memory), str(asked), "--scorer", "openai:tiny"]
        command += ["--llm-url", server.base_url, "--out", str(tmp_path / "new.jsonl")]
        for content in (b"\xff", b"[" * 100_000, b"[]", b'{"question": "What bread?"}'):
            asked.write_bytes(content)
            assert main(command) == 2
            assert "line 1" in capsys.readouterr().err
            log.write_bytes(content + b"\n")
            assert main(["rerank", "train", str(memory), str(log)]) == 2
            assert "line 1" in capsys.readouterr().err
        # A line separator inside of a text ends no line of JSON.
        asked.write_text('{"question": "What\u2028bread?", "reference": "Rye."}', encoding="utf-8")
        assert main(command) == 0
