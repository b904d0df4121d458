"""Makers: pairs that a model denies are written anew, personas have no conflicts, and nothing is asked twice."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from command_line import Epic, refused
from epic_eval.datasets import read_dataset
from epic_eval.journal import Journal
from epic_eval.makers import Maker, Pair
from epic_memory.lm import Message
from lm_servers import LMServer
from scripted import Own


def scripted(messages: Sequence[Message]) -> str:
    """Writes a valid preference at the third attempt, and none for questions of bees; A and B conflict."""
    text = messages[-1].content
    if "This is attempt" in text:
        attempt = int(re.search(r"attempt (\d+)", text)[1])  # type: ignore[index]
        asked = re.search(r"\| (.*)\n", text)[1]  # type: ignore[index]
        return json.dumps({"preference": f"I like number {attempt} for {asked}", "why": "because"})
    if "different questions" in text:
        return "nothing" if "bees" in text else json.dumps({"questions": ["What now?", "What next?", "What now?", 5]})
    if "contradict each other" in text:
        return json.dumps({"reason": "", "answer": "yes" if "Only A" in text and "Only B" in text else "no"})
    bad = "bees" in text or "number 1" in text or "number 2" in text or "next" in text
    return json.dumps({"reason": "", "answer": "yes" if bad else "no"})


def test_a_preference_is_written_until_it_is_valid(tmp_path: Path) -> None:
    lm = Own(scripted)
    with Journal(tmp_path / "j.jsonl") as journal:
        made = Maker(lm, journal).preferences(["What to eat?", "What about bees?"], tries=4)
    assert made.pairs == (Pair("I like number 3 for What to eat?", ("What to eat?",)),)
    assert made.dropped == ("What about bees?",)
    prompts = [tuple(sent.messages) for sent in lm.sent]
    assert len(prompts) == len(set(prompts)) == (3 + 3 * 3) + (4 + 4 * 3)


def test_questions_are_checked_and_counted(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.jsonl") as journal:
        made = Maker(Own(scripted), journal).questions(["I like tea.", "I like bees."])
    assert made.pairs == (Pair("I like tea.", ("What now?",)),)
    assert made.dropped == ("I like bees.",)


def test_personas_have_no_conflict_and_share_no_preference(tmp_path: Path) -> None:
    pairs = [Pair(text, ("?",)) for text in ("Only A", "Only B", *(f"Like {n}" for n in range(28)))]
    with Journal(tmp_path / "j.jsonl") as journal:
        made = Maker(Own(scripted), journal).personas(pairs, seed=5)
    groups = [[block["preference"] for block in persona["preference_blocks"]] for persona in made]
    assert 2 <= len(groups) <= 3
    assert not any({"Only A", "Only B"} <= set(group) for group in groups)
    assert len({text for group in groups for text in group}) == 10 * len(groups)


@pytest.mark.parametrize("seed", [3, 8])
def test_a_maker_stopped_at_random_asks_nothing_twice(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)

    def answer(messages: Sequence[Message]) -> str:
        if chance.random() < 0.2:
            raise KeyboardInterrupt
        answered.append(tuple(messages))
        return scripted(messages)

    answered: list[tuple[Message, ...]] = []
    while True:
        try:
            with Journal(tmp_path / "j.jsonl") as journal:
                made = Maker(Own(answer), journal).preferences(["What to eat?", "What to read?"])
            break
        except KeyboardInterrupt:
            continue
    assert len(answered) == len(set(answered))
    with Journal(tmp_path / "k.jsonl") as journal:
        assert Maker(Own(scripted), journal).preferences(["What to eat?", "What to read?"]) == made


def test_by_the_command_line(tmp_path: Path, epic: Epic) -> None:
    texts, pairs, people = tmp_path / "texts.txt", tmp_path / "pairs.jsonl", tmp_path / "people.json"
    texts.write_text("\n".join(f"I like thing {n}." for n in range(12)), encoding="utf-8")

    def reply(request: dict[str, object]) -> str:
        return scripted([Message(**message) for message in request["messages"]])  # type: ignore[attr-defined]

    with LMServer(reply) as server:
        model = ("--llm", "openai:tiny", "--llm-url", server.base_url)
        assert "12 preferences" in epic("eval", "make-questions", str(texts), str(pairs), *model).out
        assert "1 personas" in epic("eval", "make-personas", str(pairs), str(people), *model).out
        refused(epic("eval", "make-preferences", str(texts), str(pairs), "--conditions", "4", *model), "conditions")
    assert len(read_dataset(people).personas[0].preferences) == 10
