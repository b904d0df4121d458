"""Tables by one command: a scripted model over HTTP verifies, writes, answers and judges; killed, and taken up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from test_whole_path import scripted_answer, scripted_verdict

from command_line import Epic, refused
from epic_eval.experiments.making import FIGURES, TABLES
from epic_eval.journal import read_lines
from epic_memory.lm import Message
from epic_memory.types import Stance
from evaluation_data import tiny_data
from lm_servers import Json, LMServer, Reply
from scripted import answer_to, aspects_for, preference_read, read_prompt

FEW = ("--personas", "1", "--scenes", "1")


def scripted(request: Json, seconds: float = 0.0) -> Reply:
    """Does all that a model has to do in a table; what an arm asks takes its time."""
    messages = [Message(**message) for message in request["messages"]]
    system = messages[0].content
    if system.startswith("You answer a user"):
        return Reply(text=scripted_answer(messages))
    if system.startswith("You check"):
        return Reply(text=scripted_verdict(messages))
    if (preference := preference_read(messages)) is not None:
        return Reply(text=aspects_for(preference), delay=seconds)
    if system.startswith(("You prepare", "Summarise", "These are")):
        return Reply(text="Quiet places, trains and vegan food.", delay=seconds)
    asked = read_prompt(messages)
    return Reply(text=answer_to(asked, lambda chunk, p: Stance.SUPPORTS if p[-6:-1] in chunk else None), delay=seconds)


def folder_of(tmp_path: Path) -> Path:
    """The tiny data with a third set, which Table 12 is about."""
    made = tiny_data(tmp_path / "data", personas=1)
    (made / "personas" / "PrefEval.json").write_bytes((made / "personas" / "PrefWiki.json").read_bytes())
    return made


def tables_in(markdown: str) -> dict[str, dict[str, list[str]]]:
    """The tables of a report: title to the first cell of a row to the others."""
    made: dict[str, dict[str, list[str]]] = {}
    for line in markdown.splitlines():
        if line.startswith("## "):
            made[line[3:]] = {}
        elif line.startswith("| "):
            first, *others = line.strip("| ").split(" | ")
            made[list(made)[-1]][first] = others
    return made


@pytest.mark.slow
def test_all_tables_are_made_by_one_command_killed_and_taken_up(tmp_path: Path, epic: Epic) -> None:
    folder, out = folder_of(tmp_path), tmp_path / "out"
    kills, process = [5, 11, 14, 60], None

    def killing(request: Json) -> Reply:
        if kills and len(server.served) == kills[0] and process is not None:
            kills.pop(0)
            os.kill(process.pid, signal.SIGKILL)
            raise ConnectionAbortedError
        return scripted(request, 0.4)

    with LMServer(killing) as server:
        model = f"openai:tiny@{server.base_url}"
        given = ["eval", "all", str(folder), "--out", str(out), "--sets", "PrefWiki,PrefEval", *FEW]
        given += ["--llm", model, "--judge", model]
        code = "import sys; from epic_apps.cli.main import main; sys.exit(main(sys.argv[1:]))"
        ends = []
        while not ends or ends[-1] == -signal.SIGKILL:
            process = subprocess.Popen([sys.executable, "-c", code, *given], stderr=subprocess.PIPE)
            ends.append((process.communicate(), process.returncode)[1])
        assert ends == [-signal.SIGKILL] * 4 + [0]
        answered = [request for request, _ in server.served if len(request["messages"]) > 1]
        prompts = Counter(json.dumps(request["messages"]) for request in answered)
        # A call that was answered while the kill came was not journalled: it is asked once more.
        assert sum(prompts.values()) - len(prompts) <= len(ends)
        made = {name: (out / f"table_{name}.md").read_text(encoding="utf-8") for name in (*TABLES, FIGURES)}
        assert all("- |" in text for text in made.values())
        assert {each.stem for each in out.glob("stream_*")} == {"stream_bytes", "stream_choice", "stream_accuracy"}
        stream = tables_in(made[FIGURES])["Stream under changing preferences"]
        last = dict(zip(stream["items"], stream[list(stream)[-1]], strict=True))
        accuracies = {n.partition(":")[0]: float(cell.split(" / ")[0]) for n, cell in last.items() if "accuracy" in n}
        assert accuracies["EPIC ours lm"] == 100.0 and len(accuracies) == 6
        # The seconds of the tables are those of the server's own log: it takes its time over what arms ask alone.
        log = {json.dumps(request["messages"]): taken for request, taken in server.served if taken > 0.3}
        records = list(read_lines(out / "asked.jsonl"))
        assert len(records) == len(log)
        assert sum(record["seconds"] for record in records) == pytest.approx(sum(log.values()), rel=0.05)
        calls = tables_in(made["8"])["Calls of openai:tiny, all personas"]
        summaries = [taken for prompt, taken in log.items() if "Summarise" in prompt][:3]
        assert calls["raptor-lite lm, built"][0] == "3"
        assert float(calls["raptor-lite lm, built"][4]) > sum(summaries) > 1.2
        # Made again, nothing is asked and every figure is the same.
        count = len(server.served)
        assert epic("eval", "table", "8", *given[2:]).code == 0
        assert len(server.served) == count
        again = (out / "table_8.md").read_text(encoding="utf-8")
        assert tables_in(again)["Table 8: indexing"] == tables_in(made["8"])["Table 8: indexing"]


def test_a_table_shows_accuracy_and_replays_for_two_backbones(tmp_path: Path, epic: Epic) -> None:
    folder, out = folder_of(tmp_path), tmp_path / "out"
    with LMServer(scripted, models=("tiny", "qwen3-4b")) as server:
        one, other = f"openai:tiny@{server.base_url}", f"ollama:qwen3-4b@{server.url}"
        given = (str(folder), "--out", str(out), "--sets", "PrefWiki", *FEW)
        done = epic("eval", "table", "4,9", *given, "--llm", one, "--llm", other, "--judge", one)
        assert done.code == 0, done.err
        text = (out / "table_4.md").read_text(encoding="utf-8")
        rows = tables_in(text)["Table 4: stages alone and together"]
        assert rows["arm"][:2] == ["openai:tiny: W accuracy / MB / s", "ollama:qwen3-4b: W accuracy / MB / s"]
        assert rows["C+F lm"][-1] == "52.53 / 0.36"
        assert float(rows["EPIC ours lm"][0].split(" / ")[0]) == 100.0
        assert "were replayed" in text  # `EPIC lm` asks what `C+F lm` has asked
        nine = tables_in((out / "table_9.md").read_text(encoding="utf-8"))["Tables 3 and 9: ms by part"]
        assert nine["item: calls in the paper's way"][2] == "0.22"
        assert float(nine["item: calls in the paper's way"][0]) > float(nine["item: model calls"][0]) > 0
        # Other settings are another run; both can be judged for good.
        before = len(server.served)
        assert epic("eval", "table", "4", *given, "--seed", "1", "--llm", one, "--judge", one).code == 0
        asked = ("--answers-by", one, "--judged-by", one, "--modes", "guided")
        runs = [record["run"] for record in read_lines(out / "runs.jsonl")]
        assert len(set(runs)) == 2
        for run in dict.fromkeys(runs):
            shown = epic("eval", "accuracy", str(out), *asked, "--run", run[:8])
            assert shown.code == 0, shown.err
            assert "dense" in shown.out and "0 undecided" not in shown.out
        refused(epic("eval", "accuracy", str(out), *asked, "--run", "zz"), "no run 'zz'", runs[0][:8])
        assert len(server.served) > before


@pytest.mark.parametrize(("ill", "why"), [("You answer", "No answer was judged"), ("", "could not be judged")])
def test_what_a_model_leaves_empty_is_asked_again_by_the_next_run(
    tmp_path: Path, epic: Epic, ill: str, why: str
) -> None:
    given = (str(folder_of(tmp_path)), "--out", str(tmp_path / "out"), "--sets", "PrefWiki", *FEW)
    silent = [ill]

    def answer(request: Json) -> Reply:
        return Reply(text="") if request["messages"][0]["content"].startswith(tuple(silent)) else scripted(request)

    with LMServer(answer) as server:
        model = f"openai:tiny@{server.base_url}"
        table = "eval", "table", "4", *given, "--llm", model, "--judge", model
        refused(epic(*table), why, "Run it again")
        silent.clear()
        done = epic(*table)
    assert done.code == 0 and " 0 failed" in done.out, done.err


def test_all_are_those_of_the_sets_that_are_there(tmp_path: Path, epic: Epic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_eval.cli.TABLES", {name: TABLES[name] for name in ("12",)})
    out = tmp_path / "out"
    done = epic("eval", "all", str(folder_of(tmp_path)), "--out", str(out), "--sets", "PrefWiki", *FEW[:2])
    assert done.code == 0 and "not made: 12" in done.err
    assert sorted(each.name for each in out.glob("table_*.md")) == ["table_figures.md"]


def test_tables_without_a_model_and_what_cannot_be_made(
    tmp_path: Path, epic: Epic, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = folder_of(tmp_path), tmp_path / "out"
    given = (str(folder), "--out", str(out), "--personas", "1", "--sets")
    done = epic("eval", "table", "2,14", *given, "PrefWiki")
    assert done.code == 0, done.err
    assert "Table 2 by proxy: choice" in done.out and "Without a model (--llm)" in done.out
    assert "no HippoRAG 2, HippoRAG 2+F" in done.out
    monkeypatch.setitem(sys.modules, "hipporag", None)
    with LMServer(lambda request: Reply(status=400, text="The model is broken.")) as server:
        model = ("--llm", f"openai:tiny@{server.base_url}")
        run = ("eval", "run", *given, "PrefWiki", "--no-tau", "--arms", "HippoRAG 2+F", *model)
        refused(epic(*run), "HippoRAG cannot be imported")
        failed = epic("eval", "table", "9", *given, "PrefWiki", *model)
        assert failed.code != 0
        assert "could not be judged" in failed.err and "Traceback" not in failed.err
    # A model that answers nothing but what arms ask of it: there is nothing to judge.
    with LMServer(lambda request: Reply(status=400) if "answer" in str(request)[:120] else scripted(request)) as server:
        model = f"openai:tiny@{server.base_url}"
        failed = epic("eval", "table", "13", *given, "PrefWiki", "--llm", model, "--judge", model, "--scenes", "1")
        assert failed.code != 0
        assert "No answer was judged" in failed.err and "Traceback" not in failed.err
    monkeypatch.setitem(sys.modules, "bm25s", None)
    refused(epic("eval", "table", "2", *given, "PrefWiki"), "epic-memory[eval]")
