"""GraphMemory: what is built, and what is found."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from epic_graph import GraphMemory
from epic_memory import EpicMemory, Filter, Item, SearchOptions, Settings, Stance
from epic_memory.errors import InvalidInputError, UnknownEntityError, UnknownPreferenceError
from graph_helpers import PEOPLE, QUERIES, SEA, WINE, again, exactly, found, made
from helpers import DiscardAll, KeepAll, searching


@pytest.fixture
def graph() -> GraphMemory:
    graph = made()
    graph.add(PEOPLE)
    return graph


# what is built and found


def test_what_was_added_is_in_the_graph(graph: GraphMemory) -> None:
    assert graph.entities() == ["Oscar Reed", "Clara", "Berlin Mitte", "Berlin Mitte Nord", "Idris", "Oslo"]
    assert graph.entities("clara") == ["Clara", "Berlin Mitte"]
    assert graph.facts("clara") == [("Clara", "meets", "Berlin Mitte")]
    assert graph.entities("bare") == graph.entities("nobody") == graph.facts("bare") == graph.facts("nobody") == []
    assert dict(graph.neighbours("the clara's")) == {"Oscar Reed": 1, "Berlin Mitte": 1}
    assert graph.neighbours("berlin mitte") == [("Clara", 1)]
    graph.add([Item(id="again", text="[Clara] drinks red wine in [Berlin Mitte].")])
    assert graph.neighbours("Clara") == [("Berlin Mitte", 2), ("Oscar Reed", 1)]
    graph.memory.forget("again")
    assert graph.counts() == {"entities": 6, "passages": 5, "failed": 0, "edges": 12, "outside": 0}
    assert len(graph) == 5 and graph


def test_the_report_says_what_was_done(path: Path) -> None:
    with made(path) as graph:
        report = graph.add([*PEOPLE, "Nothing to do with it."])
        assert (report.memory.seen, report.memory.kept) == (6, 5)
        assert (report.passages, report.without_entities, report.entities, report.facts) == (5, 1, 6, 4)
        assert (report.failed, report.no_room, report.evicted, report.failures) == (0, 0, 0, {})
        assert set(report.timings) == {"extraction", "writing"}
        assert all(seconds > 0.0 for seconds in report.timings.values())
        assert report.seconds == pytest.approx(report.memory.seconds + sum(report.timings.values()))
        assert report.seconds >= sum(report.memory.timings.values()) > 0.0
        assert "5 passages   (1 without an entity)" in str(report) and "6 new entities, 4 facts" in str(report)
        report = graph.add(PEOPLE)
        assert (report.memory.duplicates, report.passages, report.entities) == (5, 0, 0)


def test_a_walk_finds_what_no_word_of_the_query_tells(graph: GraphMemory) -> None:
    hits = graph.search("Oscar Reed", k=2, options=SearchOptions(steering="off"))
    assert [hit.item.id for hit in hits] == ["oscar", "clara"]
    assert hits.entities == [("Oscar Reed", 1.0)]
    assert hits[0].score == 1.0 > hits[1].score > 0.0
    assert all(type(hit.score) is float for hit in hits)
    assert hits[1].entries and hits[1].instructions


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("steering", "k"), [("off", 1), ("paper", 5), ("signed", 3), ("signed", 50)])
def test_k_hits_come_in_order_and_in_range(graph: GraphMemory, query: str, steering: Any, k: int) -> None:
    hits = graph.search(query, k, options=SearchOptions(steering=steering))
    scores = [hit.score for hit in hits]
    assert len({hit.item.id for hit in hits}) == len(hits) == min(k, 5)
    assert scores == sorted(scores, reverse=True)
    assert all(type(score) is float and math.isfinite(score) for score in scores)
    assert len(hits.vectors) == len(hits)
    if hits.entities:
        assert min(scores) >= 0.0
        assert steering == "signed" or max(scores) <= 1.0 + 1e-6
        assert sum(share for _, share in hits.entities) == pytest.approx(1.0)
    assert bool(hits.steered_by) <= (steering != "off")


@pytest.mark.parametrize("query", ["red wine", "Nobody Known", "...", "наводнение", "海", "\U0001f377"])
def test_a_query_that_names_nothing_known_is_answered_by_nearness(graph: GraphMemory, query: str) -> None:
    for steering in ("off", "signed"):
        hits = graph.search(query, 3, options=SearchOptions(steering=steering))
        assert hits.entities == []
        dense = graph.memory.search(query, 3, options=SearchOptions(steering=steering))
        assert [(h.item, h.score, h.entries) for h in hits] == [(h.item, h.score, h.entries) for h in dense]
        assert hits.steered_by == dense.steered_by
        assert set(hits.timings) >= {"embedding", "steering", "index"}


def test_a_graph_without_anything_finds_nothing(path: Path) -> None:
    with made(path) as graph:
        assert graph.search("Oscar Reed") == graph.search("Oscar Reed").entities == []
        assert graph.entities() == graph.entities("oscar") == []
        assert graph.counts() == {"entities": 0, "passages": 0, "failed": 0, "edges": 0, "outside": 0}
        assert len(graph) == 0 and graph
        with pytest.raises(UnknownEntityError, match="Oscar"):
            graph.neighbours("Oscar")
        assert graph.context("Oscar") == graph.memory.context("Oscar")


def test_the_context_is_that_of_the_hits(graph: GraphMemory) -> None:
    context = graph.context("Oscar Reed", 1)
    assert "drinks red wine" in context and "Oslo" not in context
    assert asyncio.run(graph.acontext("Oscar Reed", 1)) == context


@pytest.mark.parametrize(("language", "heading"), [(None, "Inhalt:"), ("en", "Content:")])
@pytest.mark.parametrize("steering", ["signed", "off"])
def test_the_context_is_in_the_language_of_the_settings(language: Any, steering: Any, heading: str) -> None:
    settings = Settings(language=language, verifier=KeepAll(), coarse=False)
    own = GraphMemory(["Ich mag keine Hotels mit Casino."], settings=settings)
    own.add(["Oscar Reed wohnt in Hamburg."])
    assert f"\n{heading}\n" in own.context("Oscar Reed", options=SearchOptions(steering=steering))


def test_what_the_walk_does_not_reach_comes_after_it_the_nearest_first(path: Path) -> None:
    items = [Item(id=f"{n:02}", text="red wine " + "and more " * n) for n in range(60)]
    with made(path) as graph:
        graph.add([*items[::-1], Item(id="oscar", text="[Oscar Reed] of the red houses")])
        options: dict[str, Any] = {"steering": "off", "keys": "instruction", "min_score": None}
        ids = [hit.item.id for hit in graph.search("Oscar Reed, red wine", 61, **searching(**options))]
        dense = [hit.item.id for hit in graph.memory.search("Oscar Reed, red wine", 61, **searching(**options))]
        assert [each for each in ids if each != "oscar"] == [each for each in dense if each != "oscar"]


# stages, filters, stances


@pytest.mark.parametrize(
    ("coarse", "fine", "held"), [(True, True, ""), (False, True, ""), (True, False, "people"), (False, False, "all")]
)
def test_stages_are_switched_off_one_by_one(path: Path, coarse: bool, fine: bool, held: str) -> None:
    texts = [*PEOPLE, Item(id="far", text="[Oscar Reed] in the desert")]
    with made(path, (WINE, SEA), coarse=coarse, fine=fine, tau=0.3, verifier=DiscardAll()) as graph:
        graph.add(texts)
        assert {item.id for item in graph.memory.items()} == {item.id for item in texts}
        ids = graph.memory.file.entries(item.id for item in texts).keys()
        assert ids == {item.id for item in {"": [], "people": PEOPLE, "all": texts}[held]}
        if held == "all":
            entries = {hit.item.id: [e.preference_id for e in hit.entries] for hit in graph.search("Oscar Reed", 9)}
            assert entries == {item.id: [None] for item in texts}
        assert set(graph.counts().values()) >= {len(ids)}
        state = exactly(graph)
    with again(path, coarse=coarse, fine=fine, tau=0.3) as graph:
        assert exactly(graph) == state


def test_without_the_first_two_stages_no_preferences_are_needed(path: Path) -> None:
    options: dict[str, Any] = {"coarse": False, "fine": False, "steering": "off"}
    with made(path, (), **options) as graph:
        assert graph.add(PEOPLE).memory.kept == 5
        assert found(graph, "Oscar Reed", 2).keys() == {"oscar", "clara"}
        assert graph.add([Item(id="oscar", text="[Oscar Reed] moved to [Oslo].")]).memory.kept == 1
        assert graph.facts("oscar") == [("Oscar Reed", "meets", "Oslo")]
        graph.memory.forget("clara")
        state = exactly(graph)
    with again(path, **options) as graph:
        assert exactly(graph) == state
        # Preferences that come later are for what is kept for them from then on.
        graph.memory.preferences.add(WINE)
        assert len(graph) == 4
        graph.memory.preferences.remove(WINE)
        assert len(graph) == 4


@pytest.mark.parametrize("steering", ["off", "paper", "signed"])
def test_steering_moves_the_start_of_the_walk(graph: GraphMemory, steering: Any) -> None:
    hits = graph.search("Idris by the blue sea", 5, options=SearchOptions(steering=steering, preferences=[SEA]))
    assert [text for text, *_ in hits.steered_by] == ([] if steering == "off" else [SEA])
    assert hits[0].item.id == "idris"
    assert hits.entities
    dense = graph.memory.search("Idris by the blue sea", 5, options=SearchOptions(steering=steering, preferences=[SEA]))
    assert hits.steered_by == dense.steered_by


def test_a_filter_applies_inside_the_walk(path: Path) -> None:
    with made(path) as graph:
        graph.add([Item(id=item.id, text=item.text, metadata={"n": n}) for n, item in enumerate(PEOPLE)])
        for query in QUERIES:
            ids = found(graph, query, 2, filter=Filter.gt("n", 0))
            assert len(ids) == 2 and "oscar" not in ids
        assert found(graph, "Oscar Reed", filter=Filter.eq("n", 9)) == {}
        assert next(iter(found(graph, "Oscar Reed", 1, filter=Filter.gt("n", 0)))) == "clara"


def test_preferences_of_a_call_leave_the_others_entries_out(graph: GraphMemory) -> None:
    for query in ("Oscar Reed", "red wine"):
        hits = graph.search(query, 9, options=SearchOptions(preferences=[SEA]))
        held = graph.memory.search(query, 9, options=SearchOptions(preferences=[SEA]))
        assert {hit.item.id for hit in hits} == {hit.item.id for hit in held}
        assert {entry.preference for hit in hits for entry in hit.entries} == {SEA}
    with pytest.raises(UnknownPreferenceError):
        graph.search("Oscar Reed", options=SearchOptions(preferences=["deserts"]))


def test_stances_order_what_is_found(path: Path) -> None:
    items = [Item(id="against", text="[Oscar Reed] hates red wine"), Item(id="for", text="[Oscar Reed] loves red wine")]
    with made(path, [WINE], verifier=KeepAll({"hates": Stance.CONFLICTS})) as graph:
        graph.add(items)
        regardless = found(graph, "Oscar Reed", stance_policy="any")
        preferred = found(graph, "Oscar Reed")
        assert set(regardless) == {"for", "against"}
        assert 0.0 < preferred["against"] < 0.9 * regardless["against"]
        assert list(preferred) == ["for", "against"]
        assert list(found(graph, "Oscar Reed", stance_policy="only_supports")) == ["for"]


def test_the_light_tier_is_searched_where_nothing_known_is_named(path: Path) -> None:
    with made(path, [WINE], tau=0.5) as graph:
        second = Item(id="second", text="red and old lamp of [Oscar Reed]")
        graph.add([Item(id="wine", text="red wine [Clara]"), second])
        assert graph.memory.stats().counts["light"] == 1
        assert [hit.item.id for hit in graph.search("old lamp")] == ["second", "wine"]
        assert [hit.tier for hit in graph.search("old lamp")] == ["light", "memory"]
        assert [(hit.item.id, hit.tier) for hit in graph.search("Clara")] == [("wine", "memory")]
        assert graph.entities() == ["Clara"]
        # Verified after all, it is a passage like any other, and gets its entities.
        graph.memory.preferences.add("old lamp")
        assert found(graph, "Clara").keys() == {"wine", "second"}
        assert graph.counts()["outside"] == 1
        assert graph.update().passages == 1
        assert graph.entities("second") == ["Oscar Reed"]
        assert exactly(graph) == exactly(again(path, tau=0.5))


def test_a_memory_in_place_of_preferences_is_refused() -> None:
    with EpicMemory() as memory, pytest.raises(InvalidInputError, match=r"GraphMemory\(memory=\.\.\.\)"):
        GraphMemory(memory)  # type: ignore[arg-type]
