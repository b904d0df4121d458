"""Rules about what is never kept: no item, fact or proposal about a topic, counted, in every way that texts come."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from epic_learn.types import Proposal
from epic_memory import EpicMemory, Item, Preference, Settings
from epic_memory.errors import InvalidInputError, ReadOnlyError
from epic_memory.types import FloatArray
from helpers import Call, HashEncoder, together

AVOIDS = "I avoid hotels with casinos."
INSULIN, HOTEL = "I take insulin every morning for my diabetes.", "A hotel with a casino."


@pytest.fixture
def memory() -> EpicMemory:
    made = EpicMemory([AVOIDS])
    made.never.add("my health")
    return made


def texts(memory: EpicMemory) -> set[str]:
    return {item.text for item in memory.items()} | {fact.text for fact in memory.facts}


async def test_no_item_no_fact_and_no_proposal(memory: EpicMemory, call: Call) -> None:
    report = await call(memory, "add", [HOTEL, f"{HOTEL} {INSULIN}", Item(text=INSULIN)])
    assert report.kept_out == 2 and "never kept             2" in str(report)
    assert (await call(memory, "facts.add", "I was diagnosed with depression.")).kept_out == 1
    assert texts(memory) == {HOTEL}
    assert memory.never.counts == {"my health": 3}
    made = await call(memory, "proposals.propose", [{"role": "user", "content": f"{INSULIN} I love trains."}])
    assert [each.text for each in made] == ["I love trains"] == [each.text for each in memory.proposals]
    (left,) = [each for each in made.report.left_out if "insulin" in each.quote]
    assert left.reason == "about a topic that is never kept"
    own = Proposal(kind="add_fact", text="I was diagnosed with depression.", quote="I was diagnosed with depression.")
    assert not memory.proposals.add([own])
    # A new version that is ruled out takes the old one away.
    memory.add([Item(id="a", text=f"{HOTEL} Or two.")])
    memory.add([Item(id="a", text=INSULIN)])
    assert texts(memory) == {HOTEL}


def test_a_sentence_with_all_words_of_a_topic_is_about_it_however_long_it_is() -> None:
    memory = EpicMemory([AVOIDS], encoder=HashEncoder())
    memory.never.add("Project Zebra")
    about = f"On {' '.join(f'day{n}' for n in range(30))} we spoke of zebras and other projects."
    other = "A zebra stands in the zoo of our town."
    memory.add([about, other])
    assert texts(memory) == {other}


@pytest.mark.parametrize("encoder", [None, HashEncoder()], ids=["bundled", "another"])
def test_a_rule_that_names_a_part_of_life_keeps_out_what_does_not_name_it(encoder: HashEncoder | None) -> None:
    memory = EpicMemory([AVOIDS], encoder=encoder)
    memory.never.add("anything about my health or my finances")
    assert memory.never.topic_of("Nadia lent me her bike. I can't have penicillin.")
    assert memory.never.topic_of("The mortgage payment bounced again.")
    assert memory.never.topic_of("The hotel by the lake has a sauna.") is None


def test_a_rule_rules_out_no_more_than_it_names(memory: EpicMemory) -> None:
    memory.never.add("my religion")
    assert memory.add(["卵は何分ゆでますか。", "明日は雨です。", "東京タワーは何メートルですか。"]).kept_out == 0
    memory.never.remove("my health")
    memory.never.add("my knee")
    assert memory.never.topic_of("I can't have penicillin.") is None


def test_a_rule_that_another_process_adds_meanwhile_is_kept(path: Path) -> None:
    class Meanwhile(HashEncoder):
        other: EpicMemory | None = None

        def encode(self, texts: Sequence[str]) -> FloatArray:
            if self.other is not None:
                other, self.other = self.other, None
                other.never.add("salary")
            return super().encode(texts)

    encoder = Meanwhile()
    with EpicMemory.open(path, encoder=encoder) as one, EpicMemory.open(path, encoder=HashEncoder()) as other:
        one.never.add("Project Zebra")
        encoder.other = other
        assert one.add(["We spoke of projects, and of a zebra."]).kept_out == 1
    with EpicMemory.open(path, encoder=HashEncoder()) as memory:
        assert list(memory.never) == ["Project Zebra", "salary"] and memory.never.counts["Project Zebra"] == 1


def test_rules_are_kept_in_the_file_and_seen_by_others(tmp_path: Path, path: Path) -> None:
    with EpicMemory.open(path, [AVOIDS]) as one, EpicMemory.open(path) as other:
        one.never.add("my health")
        one.never.add_folder(tmp_path / "private")
        other.add([INSULIN])
        assert texts(other) == set()
        assert list(other.never) == ["my health"] and other.never.folders == [tmp_path / "private"]
        with EpicMemory.open(path, [AVOIDS], settings=Settings(namespace="ines")) as ines:
            ines.add([INSULIN])
            assert texts(ines) == {INSULIN}
        assert one.never.counts == {"my health": 1}
        one.never.remove("my health")
        one.never.remove(tmp_path / "private")
        other.add([INSULIN])
        assert texts(other) == {INSULIN} and not other.never.folders
        assert b"insulin" not in b"".join(str(value).encode() for value in one.never.counts)


def test_a_fact_heeds_a_rule_that_another_process_added(path: Path) -> None:
    with EpicMemory.open(path, [AVOIDS]) as memory, EpicMemory.open(path) as other:
        assert list(memory.never) == []
        other.never.add("my health")
        assert memory.facts.add(INSULIN).kept_out == 1 and not memory.facts


def test_rules_of_several_threads_are_all_kept(memory: EpicMemory) -> None:
    topics = [f"topic {n}" for n in range(20)]
    together(*(partial(memory.never.add, topic) for topic in topics))
    assert sorted(memory.never) == sorted([*topics, "my health"])


def test_rules_go_with_an_export(memory: EpicMemory, tmp_path: Path) -> None:
    memory.add([INSULIN])
    memory.file.export(tmp_path / "me.jsonl")
    with EpicMemory.restore(tmp_path / "me.jsonl", tmp_path / "again.epic") as again:
        assert list(again.never) == ["my health"] and again.never.counts == {"my health": 1}
        assert again.add([INSULIN]).kept_out == 1
    text = (tmp_path / "me.jsonl").read_text(encoding="utf-8")
    for wrong in ('"never": 5', '"never": {"topics": [5]}', '"never": {"counts": {"a": "b"}}', '"never": ["a"]'):
        (tmp_path / "wrong.jsonl").write_text(re.sub(r'"never": {[^}]*}[^}]*}', wrong, text, count=1), encoding="utf-8")
        with pytest.raises(InvalidInputError, match="line 1"):
            EpicMemory.restore(tmp_path / "wrong.jsonl", tmp_path / "wrong.epic")


def test_what_cannot_be(memory: EpicMemory, path: Path) -> None:
    for wrong in ("", "my health"):
        with pytest.raises(InvalidInputError):
            memory.never.add(wrong)
    with pytest.raises(InvalidInputError, match="is not ruled out"):
        memory.never.remove("casinos")
    EpicMemory.open(path).close()
    with EpicMemory.open(path, settings=Settings(read_only=True)) as reading:
        with pytest.raises(ReadOnlyError):
            reading.never.add("my health")
        assert list(reading.never) == []  # a rule that cannot be written is not in force
    # What the user has accepted stays.
    memory.preferences.add(Preference(text="I avoid sugar because of my diabetes."))
    assert len(memory.preferences) == 2
