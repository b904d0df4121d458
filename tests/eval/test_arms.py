"""Arms: all of them build, find and count their bytes; what each one is for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from epic_eval import ARMS, arm_of
from epic_eval.arms import WITHOUT_MODEL
from epic_eval.arms.tagged import matches, ranked
from epic_eval.asking import JournalledLM
from epic_eval.journal import Journal
from epic_memory import Item
from epic_memory.encoders import default_encoder
from epic_memory.errors import InvalidInputError, LMError, MissingExtraError
from epic_memory.lm import Message
from evaluation_data import OPTIONS, QUIET, TRAINS, VEGAN
from scripted import Own, Scripted

PREFERENCES = [VEGAN, TRAINS, QUIET]
CORPUS = [Item(text=option) for options in OPTIONS.values() for option in options]
CORPUS += [
    Item(text=f"A treatise on {subject} in the {n}th century.") for n, subject in enumerate(["looms", "bells"] * 10)
]
STORES = [name for name in WITHOUT_MODEL if name not in ("none", "told")]


@pytest.mark.parametrize("name", WITHOUT_MODEL)
def test_every_arm_finds_passages_of_the_corpus_and_its_bytes_are_those_of_its_folder(
    tmp_path: Path, name: str
) -> None:
    arm = arm_of(name, default_encoder())
    assert arm.name == name
    assert arm.build(CORPUS, PREFERENCES, tmp_path).held <= len(CORPUS)
    found = arm.retrieve("What should I cook for dinner?", 5)
    assert len({passage.id for passage in found.passages}) == len(found.passages) <= 5
    texts = {item.id: item.text for item in CORPUS}
    assert all(each.id.startswith("summary-") or texts[each.id] == each.text for each in found.passages)
    arm.prefer(PREFERENCES)
    parts = dict(arm.bytes())
    total = parts.pop("total")
    arm.close()
    assert total == sum(parts.values())
    if name in STORES:
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) == pytest.approx(total, rel=0.05)


def test_stores_of_everything_take_new_preferences_without_building(tmp_path: Path) -> None:
    arm = arm_of("S", default_encoder())
    assert not arm.personal
    arm.build(CORPUS, [VEGAN], tmp_path)
    found = [arm.retrieve("How do I get to Vienna?", 5).passages]
    for preferences in ([TRAINS], [VEGAN], []):
        arm.prefer(preferences)
        found.append(arm.retrieve("How do I get to Vienna?", 5).passages)
    vegan, trains, vegan_again, plain = found
    assert all(map(len, found)) and any("train" in passage.text for passage in trains)
    assert vegan == vegan_again != plain != trains
    arm.close()


def test_epics_own_way_opens_with_preferences_and_gives_guidance(tmp_path: Path) -> None:
    arm = arm_of("EPIC ours", default_encoder())
    arm.build(CORPUS, PREFERENCES, tmp_path)
    found = arm.retrieve("What should I cook for dinner tonight?", 3)
    assert VEGAN in found.opening
    assert any(passage.guidance for passage in found.passages)
    arm.close()
    told = arm_of("told", default_encoder())
    told.prefer(PREFERENCES)
    assert told.retrieve("?", 5).opening == tuple(PREFERENCES)


@pytest.mark.parametrize("name", ["dense", "BM25", "EPIC"])
def test_an_arm_with_a_budget_stays_within_it(tmp_path: Path, name: str) -> None:
    arm = arm_of(f"{name} budget=0.03", default_encoder())
    arm.build(CORPUS, PREFERENCES, tmp_path)
    assert 0 < arm.bytes()["total"] <= 0.03 * 2**20
    assert arm.retrieve("dinner", 3).passages
    arm.close()


def test_a_threshold_in_the_name_is_the_memorys(tmp_path: Path) -> None:
    held = []
    for tau in ("0.0", "0.9"):
        arm = arm_of(f"C tau={tau}", default_encoder())
        (tmp_path / tau).mkdir()
        held.append(arm.build(CORPUS, PREFERENCES, tmp_path / tau).held)
        arm.close()
    assert held[0] > held[1]


@pytest.mark.parametrize("name", ["Pref-QR-lite", "PBR-lite", "raptor-lite lm", "MemoryBank-lite lm", "tags-lite lm"])
def test_arms_with_a_model_ask_it(tmp_path: Path, name: str) -> None:
    lm = Own(lambda messages: "Take the night train to Vienna.")
    arm = arm_of(name, default_encoder(), lm=lm)
    arm.build(CORPUS, PREFERENCES, tmp_path)
    found = arm.retrieve("How do I get to Austria?", 3)
    assert lm.sent and any("train" in passage.text for passage in found.passages)
    assert arm.bytes()["total"] == sum(path.stat().st_size for path in tmp_path.iterdir())


@pytest.mark.parametrize("name", ["EPIC lm", "F lm", "EPIC ours lm", "EPIC lm tau=0.2", "EPIC+graph lm"])
def test_arms_of_ours_have_a_model_verify(tmp_path: Path, name: str) -> None:
    lm = Scripted()
    arm = arm_of(name, default_encoder(), lm=lm)
    cost = arm.build(CORPUS, PREFERENCES, tmp_path)
    arm.close()
    assert lm.sent and cost.two_calls > cost.held > 0


def test_tags_move_passages_up_by_the_published_rule() -> None:
    assert ranked(np.zeros(20, dtype=int)).tolist() == [0, 1, 2]
    alike = np.zeros(20, dtype=int)
    alike[[5, 6]] = 3, 6  # the sixth reaches 18, the seventh the second place
    assert ranked(alike).tolist() == [0, 6, 1, 2, 5]
    encoder = default_encoder()
    assert matches(encoder, ["Vienna", "trains"], [["vienna"], [], ["trains", "Vienna"]]).tolist() == [1, 0, 2]


def test_what_a_model_failed_to_judge_makes_no_table(tmp_path: Path) -> None:
    def fails(messages: Sequence[Message]) -> str:
        raise LMError("The server is gone.")

    with pytest.raises(LMError, match="could not be judged: The server is gone"):
        arm_of("EPIC lm", default_encoder(), lm=Own(fails)).build(CORPUS, PREFERENCES, tmp_path)


def test_the_work_is_measured_beside_the_model_and_a_replay_says_what_was_asked(tmp_path: Path) -> None:
    costs = []
    for turn in range(2):
        with Journal(tmp_path / "asked.jsonl") as journal:
            lm = JournalledLM(Own(lambda messages: "Night trains.", seconds=0.05), journal)
            arm = arm_of("raptor-lite lm", default_encoder(), lm=lm)
            (tmp_path / str(turn)).mkdir()
            began = time.perf_counter()
            work = sum(arm.build(CORPUS, PREFERENCES, tmp_path / str(turn)).seconds.values())
            costs.append(lm.take_cost())
            assert work + costs[-1].asked_seconds < time.perf_counter() - began
    asked, replayed = costs
    assert asked.asked == replayed.replayed > 1
    assert (asked.replayed, replayed.asked, replayed.asked_seconds) == (0, 0, 0.0)
    assert replayed.seconds == pytest.approx(asked.seconds)
    assert asked.seconds >= 0.05 * asked.asked


def test_a_latency_leaves_out_the_turn_in_the_queue_and_equal_questions_are_asked_once(tmp_path: Path) -> None:
    with Journal(tmp_path / "asked.jsonl") as journal, ThreadPoolExecutor(4) as pool:
        lm = JournalledLM(Own(lambda messages: messages[0].content, seconds=0.03), journal)
        began = time.perf_counter()
        answers = list(pool.map(lambda n: lm.complete([Message("user", f"{n % 4}")]).text, range(8)))
        wall, cost = time.perf_counter() - began, lm.take_cost()
    assert answers == [f"{n % 4}" for n in range(8)]
    assert (cost.asked, cost.replayed) == (4, 4)
    assert 4 * 0.03 <= cost.asked_seconds <= wall  # one after the other
    assert cost.replayed_seconds == pytest.approx(cost.asked_seconds)


def test_unknown_arms_and_missing_parts_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match="no arm"):
        arm_of("nothing", default_encoder())
    with pytest.raises(InvalidInputError, match="--llm"):
        arm_of("PBR-lite", default_encoder())
    with pytest.raises(InvalidInputError, match="verifies nothing"):
        arm_of("dense lm", default_encoder(), lm=Scripted())
    monkeypatch.setitem(__import__("sys").modules, "bm25s", None)
    with pytest.raises(MissingExtraError, match=r"epic-memory\[eval\]"):
        arm_of("BM25", default_encoder())
    assert set(WITHOUT_MODEL) <= set(ARMS)
