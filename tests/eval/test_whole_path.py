"""Whole path: retrieval, answers, verdicts and tables, stopped at random and taken up, here and on another machine."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from command_line import Epic, jsonl, refused
from epic_eval.answering import request_of
from epic_eval.asking import ask, export_requests
from epic_eval.datasets import read_data
from epic_eval.experiments.retrieval import Retrieval
from epic_eval.journal import Journal, read_lines
from epic_eval.judge import Judge
from epic_eval.stages import Folder, Slots, accuracy_parts
from epic_memory.encoders import default_encoder
from epic_memory.lm import Message
from evaluation_data import OPTIONS, QUIET, TRAINS, VEGAN, tiny_data
from lm_servers import LMServer
from scripted import Own, Scripted

SETS = ("PrefWiki", "PrefRQ")
ARMS = ("none", "dense", "EPIC", "EPIC ours")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the arms have retrieved."""
    folder = tmp_path_factory.mktemp("run")
    retrieval = Retrieval(read_data(tiny_data(folder / "data"), sets=SETS), default_encoder(), folder / "out")
    retrieval.ask(ARMS)
    retrieval.close()
    return folder / "out"


@pytest.fixture
def out(run: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "retrieved.jsonl").write_bytes((run / "retrieved.jsonl").read_bytes())
    return tmp_path / "out"


def scripted_answer(messages: Sequence[Message]) -> str:
    """Follows a preference that it is shown; else breaks it."""
    text = messages[-1].content
    question = text.rsplit("The question:", 1)[1]
    known = {"cook": VEGAN, "Vienna": TRAINS, "weekend": QUIET}
    preference = next(p for word, p in known.items() if word in question)
    options = OPTIONS.get(preference, ["Walk on the heath.", "Go to the fair."])
    return options[0] if preference.split()[-1].strip(".") in text.rsplit("The question:", 1)[0] else options[1]


def scripted_verdict(messages: Sequence[Message]) -> str:
    """Knows which options break a preference."""
    text = messages[-1].content
    breaking = [option for options in OPTIONS.values() for option in options[1:]] + ["Go to the fair."]
    if "Does the answer recommend" in text:
        return json.dumps({"reason": "", "answer": "yes" if any(option in text for option in breaking) else "no"})
    return json.dumps({"quote": "", "answer": "yes" if "specific, relevant" in text else "no"})


class Stopping(Own):
    """A model that is stopped at random calls, after or before it has answered."""

    def __init__(self, answer: object, name: str, seed: int) -> None:
        super().__init__(answer, name=name)  # type: ignore[arg-type]
        self.chance = random.Random(seed)

    def complete(self, *given: object, **options: object) -> object:  # type: ignore[override]
        if self.chance.random() < 0.2:
            raise KeyboardInterrupt
        return super().complete(*given, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_stopped_at_random_asks_nothing_twice(out: Path, seed: int) -> None:
    lm, judge_lm = Stopping(scripted_answer, "writer", seed), Stopping(scripted_verdict, "judge", seed)
    chance, stops = random.Random(seed), 0
    while True:
        folder = Folder(out)
        slots = Slots(out=str(out)).chosen(folder)
        judge = Judge("judge", folder.verdicts)
        try:
            ask(lm, [slot.request for slot in slots], folder.answers)
            judge.run(judge_lm, folder.judgements(slots, "writer"))
            parts = accuracy_parts(folder, slots, "writer", judge)
            break
        except KeyboardInterrupt:
            stops += 1
        finally:
            folder.close()
        # What a kill does to the file that is being written: its last line is cut short.
        if chance.random() < 0.5:
            with (out / "answers.jsonl").open("ab") as file:
                file.write(b'{"key": "half a li')
    assert stops > 3
    for model in (lm, judge_lm):
        prompts = [tuple(sent.messages) for sent in model.sent]
        assert len(prompts) == len(set(prompts))
    wanted = {slot.request.digest for slot in slots}
    assert len(lm.sent) == len(wanted) == len(read_lines(out / "answers.jsonl"))
    tables = {table.title: {row[0]: row[1:] for row in table.rows} for table in parts if hasattr(table, "rows")}
    found = tables["Table 2: accuracy"]
    # Told everything, the scripted writer follows everything; it makes nothing up without being told.
    assert {cells[0][:5] for arm, cells in found.items() if arm.endswith(", told")} == {"100.0"}
    assert found["none, content"][0].startswith("0.0")
    assert tables["Outcomes"]["none, content"][1] == "0"


def test_retrieval_stopped_and_taken_up_retrieves_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = read_data(tiny_data(tmp_path / "data"), sets=SETS)
    asked: list[tuple[str, str, int, str]] = []
    retrieve = Retrieval._retrieve

    def stopping(self: Retrieval, arm: object, name: str, question: object) -> None:
        asked.append((name, question.set, question.persona, question.question.text))  # type: ignore[attr-defined]
        retrieve(self, arm, name, question)  # type: ignore[arg-type]
        if len(asked) in (1, 4, 9):
            raise KeyboardInterrupt

    monkeypatch.setattr(Retrieval, "_retrieve", stopping)
    for stopped in (True, True, True, False):
        retrieval = Retrieval(data, default_encoder(), tmp_path / "out")
        if stopped:
            with pytest.raises(KeyboardInterrupt):
                retrieval.ask(ARMS)
        else:
            retrieval.ask(ARMS)
        retrieval.close()
    questions = sum(len(p.questions) for d in data.datasets for p in d.personas)
    assert len(asked) == len(set(asked)) == questions * len(ARMS) == len(read_lines(tmp_path / "out/retrieved.jsonl"))


def test_arms_that_ask_a_model_are_taken_up_without_asking_twice(tmp_path: Path) -> None:
    data = read_data(tiny_data(tmp_path / "data"), sets=("PrefWiki",))
    verifier = Scripted()

    def answer(messages: Sequence[Message]) -> str:
        writes = messages[0].content.startswith(("You prepare", "Summarise", "These are"))
        return "A text about bridges." if writes else verifier.complete(messages).text

    lm = Stopping(answer, "writer", 3)
    stops, arms = 0, ("Pref-QR-lite", "MemoryBank-lite lm", "EPIC lm")
    while True:
        retrieval = Retrieval(data, default_encoder(), tmp_path / "out", lm=lm)
        try:
            retrieval.ask(arms)
            break
        except KeyboardInterrupt:
            stops += 1
        finally:
            retrieval.close()
    assert stops > 1
    prompts = [tuple(sent.messages) for sent in lm.sent]
    assert len(prompts) == len(set(prompts)) == len(read_lines(tmp_path / "out" / "asked.jsonl")) > 5


def test_context_modes_show_what_they_say(run: Path) -> None:
    with Journal(run / "retrieved.jsonl") as journal:
        record = next(r for r in journal if r["arm"] == "EPIC ours" and r["preference"] == VEGAN and r["passages"])
    texts = {mode: request_of(record, mode).messages[-1].content for mode in ("content", "guided", "told")}  # type: ignore[arg-type]
    first = record["passages"][0]
    assert all(first["text"] in text for text in texts.values())
    assert VEGAN not in texts["content"] and "How to use it" not in texts["content"]
    assert "How to use it" in texts["guided"] and VEGAN in texts["guided"]
    assert all(preference in texts["told"] for preference in record["preferences"])


def test_a_model_elsewhere_answers_and_judges_by_files(out: Path, epic: Epic, tmp_path: Path) -> None:
    exported, answered = tmp_path / "prompts.jsonl", tmp_path / "answers.jsonl"

    def elsewhere(stage: str, answer: object, *options: str) -> int:
        given = epic("eval", "export-prompts", str(out), str(exported), "--stage", stage, "--model", stage, *options)
        assert given.code == 0
        prompts = {line["key"]: [Message(**each) for each in line["messages"]] for line in read_lines(exported)}
        jsonl(answered, *({"key": key, "answer": answer(asked)} for key, asked in prompts.items()))  # type: ignore[operator]
        assert epic("eval", "import-answers", str(out), str(answered), "--stage", stage, "--model", stage).code == 0
        return len(prompts)

    assert elsewhere("answers", scripted_answer) > 10
    assert elsewhere("answers", scripted_answer) == 0
    assert elsewhere("judge", scripted_verdict, "--answers-by", "answers") > 600  # 200 labelled answers among them
    table = epic("eval", "accuracy", str(out), "--answers-by", "answers", "--judged-by", "judge", "--modes", "told")
    assert table.code == 0
    assert "100.0" in table.out and "Agreement" in table.out and "undecided" in table.out
    assert (out / "accuracy.md").exists()


def test_a_sample_is_even_over_sets_and_personas_and_told_apart_by_nothing(run: Path, tmp_path: Path) -> None:
    folder = Folder(run)
    every = Slots(out=str(run)).chosen(folder)
    few = Slots(out=str(run), arms="none:content,dense:told", modes="guided", sample=4, words=120)
    chosen = few.chosen(folder)
    assert {(slot.record["arm"], slot.mode) for slot in chosen} == {("none", "content"), ("dense", "told")}
    assert Counter(slot.record["set"] for slot in chosen) == dict.fromkeys(SETS, 4)
    assert len({(slot.record["set"], slot.record["persona"]) for slot in chosen}) == min(
        4, len({(slot.record["set"], slot.record["persona"]) for slot in every})
    )
    asked = [slot.request for slot in chosen]
    assert all("at most 120 words" in request.messages[-1].content for request in asked)
    written = export_requests(asked, "m", folder.answers, tmp_path / "p.jsonl")
    folder.close()
    keys = [line["key"] for line in read_lines(tmp_path / "p.jsonl")]
    assert keys == sorted({request.digest for request in asked}) and len(keys) == written


def test_a_real_server_by_the_command_line(out: Path, epic: Epic) -> None:
    def reply(request: dict[str, object]) -> str:
        messages = [Message(**message) for message in request["messages"]]  # type: ignore[attr-defined]
        return scripted_answer(messages) if "The question:" in messages[-1].content else "?"

    with LMServer(reply) as server:
        for expected in ("asked", "0 asked"):
            model = ("--llm", "openai:tiny", "--llm-url", server.base_url)
            done = epic("eval", "answer", str(out), "--arms", "dense", "--modes", "told", "--sample", "2", *model)
            assert done.code == 0
            assert expected in done.out


def test_what_cannot_be_asked_is_refused(out: Path, epic: Epic, tmp_path: Path) -> None:
    refused(epic("eval", "answer", str(out)), "--llm")
    refused(epic("eval", "answer", str(out), "--llm", "openai:m"), "address")
    refused(epic("eval", "accuracy", str(tmp_path), "--answers-by", "a", "--judged-by", "b"), "retrieved.jsonl")
    refused(epic("eval", "accuracy", str(out), "--answers-by", "a", "--judged-by", "b"), "'a' has answered nothing")
    refused(epic("eval", "export-prompts", str(out), str(tmp_path / "p"), "--model", "m", "--modes", "all"), "mode")
    refused(epic("eval", "export-prompts", str(out), str(tmp_path / "p"), "--model", "m", "--arms", "x"), "'x'")
    bad = jsonl(tmp_path / "bad.jsonl", {"key": "a"})
    refused(epic("eval", "import-answers", str(out), str(bad), "--model", "m"), "line 1")
