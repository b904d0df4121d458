"""A memory's reranker: untrained it changes nothing; it learns of feedback, and is kept, exported and forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_memory import EpicMemory, Item, SearchOptions
from epic_memory.errors import InvalidInputError
from epic_rerank import LearnedReranker, alearn, forget, learn, reranker_of, set_reranker
from epic_rerank.tables import Learnt
from helpers import HashEncoder, both, imported, memory_at, memory_of, searching

WORDS = ("tea", "wine", "bread", "cheese", "soup", "cake", "rice", "bean", "fish", "apple", "pear", "plum")
PREFERENCE = "food and drink"


def texts(count: int = 40) -> list[Item]:
    generator = np.random.default_rng(0)
    return [
        Item(id=f"n{n}", text=f"food note {n} about {' '.join(generator.choice(WORDS, 2 + 8 * (n % 2)))}")
        for n in range(count)
    ]


@pytest.fixture
def memory() -> EpicMemory:
    made = memory_of(PREFERENCE, tau=-1.0)
    made.add(texts())
    return made


def learnt(memory: EpicMemory, **options: Any) -> SearchOptions:
    """Search in the order that the memory has learnt."""
    return SearchOptions(chooser=reranker_of(memory), **options)


def feed(memory: EpicMemory, events: int) -> None:
    """A user who uses long notes only."""
    for number in range(events):
        hits = memory.search(f"food {WORDS[number % 12]}", k=3, options=learnt(memory, min_score=None))
        learn(memory, hits, {hit.item.id: "used" for hit in hits if len(hit.item.text) > 60})


def used(memory: EpicMemory, chooser: Any = None) -> float:
    options = SearchOptions(min_score=None, chooser=chooser)
    shown = [memory.search(f"food {word} note", k=3, options=options) for word in WORDS]
    return float(np.mean([len(hit.item.text) > 60 for hits in shown for hit in hits]))


async def test_untrained_equals_retrieval(memory: EpicMemory) -> None:
    for k in (1, 3, 30):
        plain = memory.search("food tea", k=k)
        ranked = await both(memory, "search", "food tea", k=k, options=learnt(memory))
        assert list(ranked) == list(plain)
        np.testing.assert_array_equal(np.stack(ranked.vectors), np.stack(plain.vectors))
    assert plain.ranking is None


async def test_it_learns_of_feedback(memory: EpicMemory) -> None:
    before = used(memory)
    feed(memory, 16)
    assert used(memory, reranker_of(memory)) > before + 0.1
    assert used(memory) == before
    hits = await both(memory, "search", "food tea", k=3, options=learnt(memory))
    weights = reranker_of(memory).weights["w3"].copy()
    await alearn(memory, hits, {hits[0].item.id: 1.0})
    assert (reranker_of(memory).weights["w3"] != weights).any()


def test_another_encoder_begins_anew(path: Path) -> None:
    with memory_at(path, PREFERENCE, tau=-1.0) as memory:
        memory.add(texts())
        feed(memory, 3)
        memory.file.reencode(HashEncoder(32))
        assert not reranker_of(memory).is_trained


def test_it_is_kept_seen_by_others_exported_and_forgotten(tmp_path: Path, path: Path) -> None:
    with memory_at(path, PREFERENCE, tau=-1.0) as memory, memory_at(path) as reading:
        memory.add(texts())
        assert not reranker_of(reading).is_trained
        feed(memory, 3)
        weights = reranker_of(memory).as_object()
        assert reranker_of(reading).as_object() == weights
        memory.file.export(tmp_path / "me.jsonl")
    assert len(json.dumps(weights)) < 100_000
    with imported(tmp_path / "me.jsonl", tmp_path / "other.epic") as other:
        assert reranker_of(other).as_object()["weights"] == weights["weights"]
    with memory_at(path) as memory:
        assert reranker_of(memory).as_object() == weights
        assert forget(memory)
        assert not reranker_of(memory).is_trained
        assert not forget(memory)
        assert Learnt(memory._session.store).events(memory.namespace) == []


def test_what_cannot_be_learnt_is_refused(memory: EpicMemory) -> None:
    hits = memory.search("food", k=3, options=learnt(memory, min_score=None))
    for shown, feedback in (
        (memory.search("food", k=3), {}),
        (hits, {"other": "used"}),
        *((hits, {hits[0].item.id: worth}) for worth in ("liked", 2.0)),
    ):
        with pytest.raises(InvalidInputError):
            learn(memory, shown, feedback)
    for options in (
        {"chooser": reranker_of(memory), "keys": "instruction"},
        {"chooser": "x"},
        {"chooser": LearnedReranker},
    ):
        with pytest.raises(InvalidInputError):
            memory.search("food", **searching(**options))
    with pytest.raises(InvalidInputError, match="another encoder"):
        set_reranker(memory, LearnedReranker(encoder="of another"))


def test_what_export_wrote_is_checked() -> None:
    value = LearnedReranker(encoder="one").as_object()
    assert LearnedReranker.from_object(value, encoder="one").encoder == "one"
    with pytest.raises(InvalidInputError, match="another encoder"):
        LearnedReranker.from_object(value, encoder="two")
    for wrong in ([], "x", {**value, "features": []}, {**value, "weights": {"W1": [1.0]}}):
        with pytest.raises(InvalidInputError):
            LearnedReranker.from_object(wrong)


@pytest.mark.parametrize("call", [reranker_of, forget, lambda given: set_reranker(given, LearnedReranker(encoder=""))])
def test_the_name_of_a_file_is_no_memory_that_learns(call: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidInputError, match="memory must be an EpicMemory, not str"):
        call("me.epic")
