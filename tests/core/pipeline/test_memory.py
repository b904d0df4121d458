"""The facade: what goes in, what comes out, and what happens when something goes wrong."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import Decision, EpicMemory, Filter, Hit, Item, Preference, SearchOptions, Settings, Stance, Verdict
from epic_memory.encoders import default_encoder
from epic_memory.errors import (
    DuplicatePreferenceError,
    EncoderError,
    EncoderMismatchError,
    InvalidInputError,
    MemoryClosedError,
    NoPreferencesError,
    PreferencesMismatchError,
    UnknownItemError,
    UnknownPreferenceError,
    VerifierError,
)
from epic_memory.text.chunking import WordChunker
from epic_memory.types import Candidate
from helpers import (
    BROKEN,
    CONTRACT_BREAKERS,
    AlteredEncoder,
    Answering,
    DiscardAll,
    HashEncoder,
    KeepAll,
    Raising,
    TooFew,
    UndecidedAll,
    both,
    keep,
    memory_at,
    memory_of,
    searching,
)

WINE, TRAIN = "red wine", "night train"


def wines(count: int, **metadata: Any) -> list[Item]:
    return [Item(text=f"red wine number {n}", metadata={"n": n, **metadata}) for n in range(count)]


def texts(hits: list[Hit]) -> list[str]:
    return [hit.item.text for hit in hits]


def told(preferences: Iterable[Preference]) -> list[str]:
    return [preference.text for preference in preferences]


# building


def test_what_is_near_a_preference_is_kept_and_found() -> None:
    memory = memory_of(WINE, TRAIN)
    report = memory.add(["a red wine", "the night train", "a steam engine"])
    assert (report.seen, report.passed, report.kept, report.discarded, report.entries) == (3, 2, 2, 0, 2)
    assert report.tau == memory.tau == 0.3
    assert len(memory) == 2
    hits = memory.search("which wine", k=1)
    assert texts(hits) == ["a red wine"] and hits[0].tier == "memory"
    assert (hits[0].preferences, hits[0].stances) == ([WINE], [Stance.SUPPORTS])
    assert hits[0].instructions == ["Think of red wine: a red wine"]
    # The parts of the paper's Tables 3 and 9.
    assert list(report.timings) == ["embedding", "coarse filter", "verification", "embedding instructions", "index"]
    assert list(hits.timings) == ["embedding", "steering", "index"]
    assert all(seconds >= 0 for seconds in (*report.timings.values(), *hits.timings.values()))
    assert report.seconds == pytest.approx(sum(report.timings.values()))


def test_the_report_adds_up() -> None:
    decisions = {"1": Decision.KEEP, "2": Decision.DISCARD, "3": Decision.UNDECIDED}

    def judged(candidate: Candidate) -> Verdict:
        decision = next(decisions[word[0]] for word in candidate.item.text.split() if word[0] in decisions)
        return keep(candidate) if decision is Decision.KEEP else Verdict(decision=decision, rationale="why")

    memory = memory_of(verifier=Answering(judged))
    memory.add(["red wine 1"])
    report = memory.add(
        ["red wine 1", "red wine 11", "red wine 2", "red wine 3", "wine in a b c d e f g h i j k", "sky"]
    )
    assert (report.seen, report.duplicates, report.new) == (6, 1, 5)
    # What was discarded, and the two that the coarse filter left out.
    assert (report.passed, report.light, report.no_room) == (3, 3, 0)
    assert (report.kept, report.discarded, report.undecided) == (1, 1, 1)
    assert report.share_passed == 3 / 5 and report.share_kept == 1 / 5
    assert report.failures == {Item(text="red wine 3").id: "why"}
    assert any("retry" in warning for warning in report.warnings)
    assert "undecided" in str(report)


def test_a_known_id_with_another_text_replaces_the_earlier_version_whether_it_is_kept_or_not() -> None:
    memory = memory_of()
    memory.add([Item(id="a", text="red wine old"), Item(id="b", text="red wine other")])
    report = memory.add([Item(id="a", text="red wine new")])
    assert (report.duplicates, report.kept) == (0, 1)
    assert sorted(texts(memory.search("wine"))) == ["red wine new", "red wine other"]
    assert memory.stats().counts["entries"] == 2
    assert "new" in memory.explain("a").entries[0].instruction
    memory.add([Item(id="a", text="blue sky")])
    assert len(memory) == 1 and memory.items()[-1].text == "blue sky" and memory.search("sky", k=1)[0].tier == "light"


@pytest.mark.parametrize(
    ("given", "kept"),
    [("red wine", 1), (Item(text="red wine"), 1), (iter(wines(3)), 3), ({"red wine", "more wine"}, 2), ([], 0)],
    ids=["a text", "an item", "an iterator", "a set", "nothing"],
)
def test_any_iterable_is_taken_and_one_text_or_item_alone(given: Any, kept: int) -> None:
    report = memory_of().add(given)
    assert (report.seen, report.kept, report.warnings) == (kept, kept, [])


def test_the_progress_bar_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert memory_of().add(wines(3), progress=True).kept == 3
    assert "items" in capsys.readouterr().err
    memory_of().add(wines(3))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        *(
            (["red wine", bad], "Item 1")
            for bad in ("", "  \n", None, 7, b"red wine", ["red wine"], "a\x00b", "\ud800")
        ),
        *((bad, "add takes") for bad in (None, 7, b"red wine", {"a": "red wine"})),
    ],
)
def test_what_is_no_text_is_an_error_with_its_position_and_nothing_is_written(bad: Any, what: str) -> None:
    memory = memory_of()
    with pytest.raises(InvalidInputError, match=what):
        memory.add(bad)
    assert len(memory) == 0


def test_batches_before_a_bad_item_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_memory.runtime.batching._WAIT", 60.0)
    memory = memory_of()
    with pytest.raises(InvalidInputError, match="Item 600"):
        memory.add(itertools.chain((f"red wine {n}" for n in range(600)), [""]))
    assert len(memory) == 512
    assert memory.add(["red wine after"]).kept == 1


def test_a_chunker_cuts_items_and_keeps_their_metadata() -> None:
    memory = memory_of(chunker=WordChunker(max_words=4))
    memory.add([Item(id="a", text="One red wine. Two red wine.", metadata={"k": 1}), Item(id="b", text="Red wine.")])
    items = {hit.item.id: hit.item for hit in memory.search("red wine")}
    assert items.keys() == {"a#0", "a#1", "b"}
    assert items["a#1"].text == "Two red wine." and items["a#1"].metadata == {"k": 1, "chunk": 1, "chunks": 2}


def test_warnings_say_when_nothing_or_nearly_everything_is_kept() -> None:
    skies = [f"sky {n}" for n in range(90)]
    for verifier, items, warned in (
        (KeepAll(), skies[:60], "lower tau"),
        (DiscardAll(), wines(60), "fine verification discarded everything"),
        (KeepAll(), wines(60), "100%"),
    ):
        assert warned in memory_of(verifier=verifier).add(items).warnings[0]
    assert memory_of().add([*wines(10), *skies]).warnings == []


def test_without_preferences_both_stages_have_to_be_off_or_there_is_a_light_tier() -> None:
    memory = EpicMemory(encoder=HashEncoder(), settings=Settings(reserve=0))
    with pytest.raises(NoPreferencesError, match=r"preferences\.add"):
        memory.add(["red wine"])
    assert memory.preferences == [] and memory.search("wine") == [] and memory.context("wine") == ""
    memory.preferences.add(WINE)
    assert memory.add(["red wine"]).kept == 1
    memory = EpicMemory(encoder=HashEncoder(), settings=Settings(coarse=False, fine=False))
    assert memory.add(["red wine", "blue sky"]).kept == 2
    assert texts(memory.search("sky", k=1)) == ["blue sky"] and memory.search("sky")[0].preferences == []


def test_a_stage_that_is_off_is_left_out() -> None:
    verifier = KeepAll()
    memory = memory_of(WINE, TRAIN, verifier=verifier, coarse=False)
    report = memory.add(["blue sky"])
    assert (report.passed, report.entries, report.tau) == (1, 2, None)
    assert {len(preferences) for _, preferences in verifier.asked} == {2}
    memory = memory_of(WINE, TRAIN, verifier=(verifier := KeepAll()), fine=False)
    report = memory.add(["red wine", "blue sky"])
    assert (report.passed, report.kept, report.entries) == (1, 1, 1)
    assert verifier.asked == []
    hit, other = memory.search("wine")
    assert hit.instructions == [] and hit.preferences == [WINE] and hit.stances == [Stance.NEUTRAL]
    assert (other.item.text, other.tier) == ("blue sky", "light")
    assert "Interpretation Guidance" not in memory.context("wine")
    # What was kept for no preference is found for any.
    memory = memory_of(WINE, TRAIN, coarse=False, fine=False)
    assert memory.add(["red wine", "blue sky"]).entries == 2
    assert texts(memory.search("sky", k=1, options=SearchOptions(preferences=[WINE]))) == ["blue sky"]


def test_the_verifier_sees_only_the_near_preferences_most_similar_first() -> None:
    verifier = KeepAll()
    memory_of("wine", TRAIN, "red wine", verifier=verifier).add(["one red wine"])
    assert verifier.asked == [("one red wine", ("red wine", "wine"))]


# retrieving


def test_steering_can_be_overridden_per_call() -> None:
    memory = memory_of(steering="off")
    memory.add(wines(3))

    def steered(query: str, **options: Any) -> list[tuple[str, float, float]]:
        return memory.search(query, **searching(**options)).steered_by

    ((text, similarity, weight),) = steered("wine", steering="paper")
    assert (text, weight) == (WINE, 1.0) and type(similarity) is float
    assert [text for text, *_ in steered("wine", steering="signed")] == [WINE]
    assert steered("wine") == steered("sky", steering="signed", keys="instruction", min_score=None) == []


@pytest.mark.parametrize("k", [1, 20, 21, 10_000])
def test_k_gives_k_or_all_there_is_with_scores_as_floats_in_descending_order(k: int) -> None:
    memory = memory_of(WINE, TRAIN)
    memory.add([*wines(10), *(f"night train {n}" for n in range(10))])
    for options in ({}, {"stance_policy": "any"}, {"steering": "paper"}, {"steering": "off"}):
        hits = memory.search("red wine number 7 in the night train", k=k, **searching(**options))
        assert len(hits) == min(k, 20)
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        cosines = [cosine for hit in hits for entry in hit.entries for cosine in (entry.score, entry.similarity)]
        assert {type(one) for one in (*scores, *cosines)} == {float}
        assert all(-1.00001 <= cosine <= 1.00001 for cosine in cosines)


def test_an_empty_memory_finds_nothing() -> None:
    memory = memory_of()
    assert memory.search("wine") == memory.items() == [] and len(memory) == 0
    assert memory.context("wine") == "The user's preferences, the most relevant first:\n- red wine"
    assert memory.context("wine", options=SearchOptions(opening="none")) == ""
    assert memory, "an empty memory is still a memory"


def test_the_entries_of_an_item_are_merged_and_have_ids_of_their_own_that_stay() -> None:
    def ids(namespace: str) -> set[str]:
        memory = memory_of("red wine", "wine bottle", "red bottle", namespace=namespace)
        memory.add([f"red wine bottle {n}" for n in range(10)])
        merged = memory.search("red wine bottle", k=4)
        assert len({hit.item.id for hit in merged}) == 4
        scores = next([entry.score for entry in hit.entries] for hit in merged if len(hit.entries) == 3)
        assert scores == sorted(scores, reverse=True)
        return {entry.id for item in memory.items() for entry in memory.explain(item.id).entries}

    ann = ids("ann")
    assert len(ann) == 30 and ann == ids("ann") and len(ann | ids("bob")) == 60


def test_a_filter_sees_items_added_and_removed_later_and_tells_true_from_one() -> None:
    memory = memory_of()
    condition = Filter.ge("n", 1) & ~Filter.exists("hidden")
    hidden = [Item(text="red wine number 3", metadata={"n": 3, "hidden": True})]
    for added, found in ((wines(2), 1), (wines(4), 3), (hidden, 2)):
        memory.add(added)
        assert len(memory.search("wine", filter=condition)) == found
    memory.add([Item(text=f"red wine {flag}", metadata={"flag": flag}) for flag in (1, True)])
    for flag in (1, True, 1):
        assert texts(memory.search("wine", filter=Filter.eq("flag", flag))) == [f"red wine {flag}"]


def test_items_are_those_whose_metadata_satisfies_a_condition(path: Path) -> None:
    with memory_at(path, WINE) as memory, memory_at(path, namespace="bob") as other:
        memory.add(wines(6, kind="wine"))
        assert memory.items() == wines(6, kind="wine")
        assert memory.items(Filter.ge("n", 4)) == wines(6, kind="wine")[4:]
        assert memory.items(Filter.eq("kind", "beer")) == memory.items(namespace="bob") == []
        memory.forget(*memory.items(Filter.lt("n", 5)))
        assert memory.items() == wines(6, kind="wine")[5:]
        assert (other.items(), other.items(namespace="default")) == ([], memory.items())
        # What waits can be listed by itself.
        memory.verifier = UndecidedAll()
        memory.add([near := Item(id="near", text="red wine", metadata={"n": 1}), Item(id="far", text="blue sky")])
        assert {item.id for item in memory.items()} >= {"far", "near"}
        assert memory.items(waiting=True) == memory.items(Filter.eq("n", 1), waiting=True) == [near]
        assert memory.items(Filter.eq("n", 2), waiting=True) == memory.items(waiting=True, namespace="bob") == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=3), parts, max_size=3),
    max_leaves=8,
)


@given(
    text=st.text(min_size=1).filter(lambda t: t.strip() and "\x00" not in t),
    metadata=st.dictionaries(st.text(max_size=3), JSON, max_size=5),
    reverse=st.booleans(),
)
def test_any_text_and_metadata_come_back_as_they_went_in_the_order_of_keys_included(
    text: str, metadata: dict[str, Any], reverse: bool
) -> None:
    said = dict(sorted(metadata.items(), reverse=reverse))
    memory = memory_of(tau=-1.0)
    memory.add([Item(id="a", text=text, metadata=said)])
    (hit,) = memory.search(text)
    assert hit.item == Item(id="a", text=text, metadata=said)
    assert [str(item.metadata) for item in memory.items()] == [str(said)]
    assert memory.add([Item(id="a", text=text, metadata=dict(reversed(said.items())))]).duplicates == 1


def test_stances_order_what_is_found_and_only_supports_still_gives_k() -> None:
    stances = {"good": Stance.SUPPORTS, "half": Stance.MIXED, "evil": Stance.CONFLICTS}
    memory = memory_of(verifier=KeepAll(stances))
    memory.add(["red wine evil", "red wine half", "red wine good"])
    assert [hit.stances[0] for hit in memory.search("red wine")] == [Stance.SUPPORTS, Stance.MIXED, Stance.CONFLICTS]
    by_similarity = memory.search("red wine", options=SearchOptions(stance_policy="any"))
    # But for the rounding of E(x) in the file.
    assert [hit.score for hit in by_similarity] == pytest.approx([by_similarity[0].score] * 3, abs=0.01)
    memory.add([*(f"red wine evil {n}" for n in range(50)), *(f"red wine good {n}" for n in range(5))])
    hits = memory.search("red wine evil", k=5, options=SearchOptions(stance_policy="only_supports"))
    assert len(hits) == 5 and not any("evil" in text for text in texts(hits))


@pytest.mark.parametrize("given_as", [TRAIN, [TRAIN], [Preference(text=TRAIN)], [Preference(text=TRAIN).id]])
def test_preferences_of_a_call_alone_steer_and_are_searched(given_as: Any) -> None:
    memory = memory_of(WINE, TRAIN)
    memory.add(["red wine", "night train", "red wine in the night train"])
    hits = memory.search("wine train", options=SearchOptions(preferences=given_as), k=5)
    assert sorted(texts(hits)) == ["night train", "red wine in the night train"]
    assert {text for hit in hits for text in hit.preferences} == {TRAIN}
    assert [text for text, *_ in hits.steered_by] == [TRAIN]
    assert memory.search("wine", options=SearchOptions(preferences=[])) == []


def test_the_context_numbers_documents_and_says_what_to_steer_clear_of() -> None:
    memory = memory_of("I avoid casinos", verifier=KeepAll({"poker": Stance.CONFLICTS}), tau=0.1)
    memory.add(["casinos with poker", "a hotel where guests avoid noise and casinos"])
    context = memory.context("casinos", k=2)
    opening, first, second = context.split("\n\n")
    assert opening == "The user's preferences, the most relevant first:\n- I avoid casinos"
    assert first.startswith("Document 1:\nInterpretation Guidance:\n") and second.startswith("Document 2:\n")
    assert "Content:\ncasinos with poker" in context
    assert 'Steer clear: this conflicts with the preference "I avoid casinos".' in context
    assert context.count("Steer clear") == 1
    assert memory.context("casinos", k=1).count("Document") == 1


def test_explain_tells_why_an_item_is_held() -> None:
    memory = memory_of(WINE, TRAIN)
    memory.add([Item(id="a", text="red wine, night train", metadata={"n": 1})])
    explanation = memory.explain("a")
    assert explanation.item == Item(id="a", text="red wine, night train", metadata={"n": 1})
    assert {entry.preference for entry in explanation.entries} == {WINE, TRAIN}
    for entry in explanation.entries:
        assert (entry.rationale, entry.confidence, entry.stance) == ("near", 0.9, Stance.SUPPORTS)
        assert entry.similarity == pytest.approx(2 / np.sqrt(8), abs=1e-6)
    hit_ids = {entry.id for entry in memory.search("wine train")[0].entries}
    assert {entry.id for entry in explanation.entries} == hit_ids
    assert "similarity" in str(explanation) and "red wine, night train" in str(explanation)
    with pytest.raises(UnknownItemError, match="'nobody'"):
        memory.explain("nobody")


def test_stats_count_and_size_the_parts_of_table_6(path: Path) -> None:
    with memory_at(path, WINE) as memory:
        memory.add(wines(10))
        stats = memory.stats()
        expected = {"items": 10, "facts": 0, "light": 0, "entries": 10, "preferences": 1, "pending": 0, "verdicts": 0}
        assert stats.counts == {**expected, "seen": 0}
        parts = ["documents", "index", "instructions", "preferences", "verdicts", "ledger", "graph", "rest", "total"]
        assert list(stats.bytes) == parts
        # Of an entry five bytes for four components, of a text half a byte for each, and a share of what the pages of
        # their tables take besides.
        assert 10 * (1280 + 512) < stats.bytes["index"] < 1.4 * 10 * (1280 + 512)
        assert sum(size for part, size in stats.bytes.items() if part != "total") == stats.bytes["total"]
        assert stats.bytes["total"] == path.stat().st_size
        assert (stats.encoder, stats.verifier, stats.tau) == ("hash", "fake", 0.3)
        assert "documents" in str(stats)


class SearchObject:
    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        return [(f"{query} {n}", 0.5) for n in range(10)]


class AsyncSearchObject(SearchObject):
    async def asearch(self, query: str, k: int) -> list[tuple[str, float]]:
        return self.search(query, k)


async def afallback(query: str, k: int) -> list[str]:
    return [f"{query} {n}" for n in range(10)]


SYNC_FALLBACKS = {
    "texts": lambda query, k: [f"{query} {n}" for n in range(10)],
    "items": lambda query, k: (Item(text=f"{query} {n}") for n in range(10)),
    "hits": lambda query, k: [Hit(item=Item(text=f"{query} {n}"), score=0.5) for n in range(10)],
    "object": SearchObject(),
}


@pytest.mark.parametrize("fallback", [*SYNC_FALLBACKS.values(), afallback, AsyncSearchObject()])
async def test_a_fallback_is_asked_when_nothing_held_is_relevant(fallback: Any) -> None:
    memory, options = memory_of(fallback=fallback), SearchOptions(min_score=0.3)
    memory.add(["red wine"])
    found = [await memory.asearch("sky", k=3, options=options)]
    if fallback is afallback:
        with pytest.raises(InvalidInputError, match="asearch"):
            memory.search("sky", options=options)
    else:
        found.append(memory.search("sky", k=3, options=options))
        assert not memory.search("red wine", options=options).fallback
    for hits in found:
        assert hits.fallback and texts(hits) == ["sky 0", "sky 1", "sky 2"]
        assert {hit.tier for hit in hits} == {"fallback"} and all(type(hit.score) is float for hit in hits)


@pytest.mark.parametrize("found", [None, 7, "text", [7], [""], ["\ud800"], [("a", "b")], [("a", None)], [(3, 0.5)]])
def test_a_fallback_that_returns_something_else_is_an_error(found: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"fallback|An item"):
        memory_of(fallback=lambda query, k: found).search("sky")


def test_hits_of_a_fallback_are_filled_up_with_the_memorys_own_each_item_once() -> None:
    memory = memory_of(fallback=lambda query, k: ["red wine 0", "other"])
    memory.add(["red wine 0", "red wine 1"])
    hits = memory.search("sky", k=5, options=SearchOptions(keys="instruction", min_score=None))
    assert texts(hits) == ["red wine 0", "other", "red wine 1"]


# preferences


@pytest.mark.parametrize("again", [WINE, "  Red   WINE ", Preference(text=WINE)])
def test_duplicate_preferences_are_an_error(again: Any) -> None:
    memory = memory_of(WINE, TRAIN)
    for change in (
        lambda: memory_of(WINE, again),
        lambda: memory.preferences.add(again),
        lambda: memory.preferences.replace(TRAIN, again),
    ):
        with pytest.raises(DuplicatePreferenceError):
            change()
    assert told(memory.preferences) == [WINE, TRAIN]


@pytest.mark.parametrize("name", [TRAIN, "NIGHT train", Preference(text=TRAIN), Preference(text=TRAIN).id])
def test_removing_a_preference_drops_exactly_its_entries(name: Any) -> None:
    memory = memory_of(WINE, TRAIN)
    memory.add(["red wine", "night train", "red wine in the night train"])
    memory.preferences.remove(name)
    assert told(memory.preferences) == [WINE]
    expected = {"items": 2, "facts": 0, "light": 1, "entries": 2, "preferences": 1, "pending": 0, "verdicts": 0}
    assert memory.stats().counts == {**expected, "seen": 0}
    hits = memory.search("wine train", k=9)
    assert [(hit.item.text, hit.tier) for hit in hits if not hit.entries] == [("night train", "light")]
    assert sorted(hit.item.text for hit in hits if hit.entries) == ["red wine", "red wine in the night train"]
    assert {p for hit in hits for p in hit.preferences} == {WINE}
    assert [text for text, *_ in memory.search("night train wine").steered_by] == [WINE]


def test_a_preference_in_another_spelling_takes_its_place_and_is_held_once() -> None:
    memory = memory_of(WINE, TRAIN)
    memory.add(wines(3))
    memory.preferences.replace(WINE, " Red  Wine ")
    assert len(memory) == 3 and told(memory.preferences) == ["Red  Wine", TRAIN]
    assert {e.preference for hit in memory.search("wine", k=9) for e in hit.entries} == {"Red  Wine"}
    assert memory.stats().counts["entries"] == 3 and len(memory.search("wine", k=9)) == 3
    memory.preferences.remove(WINE)
    assert len(memory) == 0 and told(memory.preferences) == [TRAIN]


def test_what_is_no_preference_cannot_be_added_and_what_is_unknown_not_changed() -> None:
    memory = memory_of()
    for bad in ("", "  ", 7, None):
        with pytest.raises(InvalidInputError):
            memory.preferences.add(bad)
    for change in (lambda: memory.preferences.remove("sky"), lambda: memory.preferences.replace("sky", "cloud")):
        with pytest.raises(UnknownPreferenceError, match=WINE):
            change()
    assert told(memory.preferences) == [WINE]


def test_a_verifier_that_raises_in_the_middle_loses_nothing() -> None:
    memory = memory_of(verifier=Raising(TimeoutError("too slow"), after=3))
    report = memory.add(wines(10))
    assert (report.kept, report.undecided) == (3, 7)
    assert set(report.failures.values()) == {"TimeoutError: too slow"}
    assert Counter(hit.tier for hit in memory.search("wine", k=20)) == {"memory": 3, "waiting": 7}
    memory.verifier = Raising(OSError("gone"), after=2)
    assert (memory.retry().kept, memory.stats().counts["pending"]) == (2, 5)
    assert memory.retry().kept == 5
    assert [hit.tier for hit in memory.search("wine", k=20)] == ["memory"] * 10


def test_missing_verdicts_are_undecided_and_an_alignment_that_comes_twice_counts_once() -> None:
    report = memory_of(verifier=TooFew()).add(wines(3))
    assert (report.kept, report.undecided) == (2, 1)
    assert "gave no verdict" in next(iter(report.failures.values()))
    twice = Answering(lambda candidate: replace(keep(candidate), alignments=keep(candidate).alignments * 2))
    assert memory_of(verifier=twice).add(["red wine"]).entries == 1


@pytest.mark.parametrize("make", CONTRACT_BREAKERS.values(), ids=CONTRACT_BREAKERS)
async def test_a_verifier_that_breaks_its_contract_is_an_error_and_nothing_is_written(make: Any) -> None:
    memory = memory_of(verifier=make())
    with pytest.raises(VerifierError):
        await both(memory, "add", wines(2))
    assert memory.stats().counts["items"] == memory.stats().counts["pending"] == 0
    memory.verifier = KeepAll()
    assert memory.add(wines(2)).kept == 2


@pytest.mark.parametrize("alter", [BROKEN["nan"], BROKEN["too few rows"]])
async def test_an_encoder_that_returns_no_embeddings_is_a_clear_error(alter: Any) -> None:
    with pytest.raises(EncoderError, match="'hash'"):
        memory_of(encoder=AlteredEncoder(alter))
    encoder = AlteredEncoder(alter, when="bad")
    memory = memory_of(encoder=encoder)
    memory.add(["red wine"])
    with pytest.raises(EncoderError, match="'hash'"):
        memory.add(["red wine too", "bad red wine"])
    with pytest.raises(EncoderError):
        await both(memory, "search", "bad wine")
    encoder.when = "Think of"  # a bad embedding of an instruction leaves nothing half written
    with pytest.raises(EncoderError):
        memory.add(["red wine too"])
    assert texts(memory.search("wine")) == ["red wine"]
    encoder.when = "nothing"
    assert memory.add(["red wine too"]).kept == 1


def test_embeddings_of_another_length_are_normalised() -> None:
    memory = memory_of(encoder=AlteredEncoder(lambda vectors: vectors * 7))
    memory.add(["red wine"])
    hits = memory.search("red wine")
    assert np.linalg.norm([hits.query, *hits.vectors], axis=1) == pytest.approx([1.0, 1.0])
    assert memory.search("red wine", options=SearchOptions(keys="instruction", min_score=None))[0].score <= 1.00001


@pytest.mark.parametrize("steering", ["paper", "off", "signed"])
def test_every_text_is_encoded_once_and_preferences_once_ever(path: Path, steering: Any) -> None:
    encoder = HashEncoder()
    preferences = ["I really like red wine.", "I avoid casinos."]
    with memory_at(path, *preferences, encoder=encoder, steering=steering) as memory:
        memory.add(wines(5))
        memory.add(wines(7))
        for n in range(3):
            memory.search(f"which wine {n}")
        assert [text for text, count in encoder.texts.items() if count > 1] == []
        assert encoder.texts[preferences[0]] == 1

    again = HashEncoder()
    with memory_at(path, *preferences, encoder=again, steering=steering) as memory:
        memory.search("which wine")
        memory.add(wines(7))
        assert not set(again.texts) & {*preferences, *(item.text for item in wines(7))}


# files


def test_a_file_gives_the_same_hits_after_reopening(path: Path) -> None:
    query = "which train and which red wine"
    with memory_at(path, WINE, TRAIN) as memory:
        memory.add([*wines(20), "a night train to Rome"])
        before = memory.search(query, k=7)
    assert [p.name for p in path.parent.iterdir()] == ["me.epic"]
    with memory_at(str(path), must_exist=True) as memory:
        assert memory.search(query, k=7) == before and told(memory.preferences) == [WINE, TRAIN]
        assert memory.add(wines(20)).duplicates == 20
        assert str(path) in repr(memory) and memory.file.path == path
    assert "closed" in repr(memory)


def test_another_encoder_is_an_error_that_names_both_unless_everything_is_embedded_anew(path: Path) -> None:
    new = HashEncoder(512, name="new", fingerprint="v2")
    new.tau = 0.123
    with memory_at(path, WINE, namespace="other") as other:
        other.add(["red wine elsewhere"])
    for another in (HashEncoder(512), HashEncoder(name="other"), HashEncoder(fingerprint="v2")):
        with pytest.raises(EncoderMismatchError, match=rf"hash \(1024.*{another.name} \({another.dimension}"):
            memory_at(path, encoder=another)
    with memory_at(path, WINE, reserve="1 MB") as memory:
        memory.add(["red wine", "wine cellar in the old castle of Dover"])
        counts = memory.stats().counts
        with pytest.raises(EncoderError):
            memory.file.reencode(AlteredEncoder(BROKEN["zero"], when="Think of"))
        assert memory.encoder.name == "hash" and texts(memory.search("red wine", k=1)) == ["red wine"]
        memory.file.reencode(new)
        assert memory.encoder is new and memory.tau == 0.123
        assert memory.stats().counts == counts and memory.stats().encoder == "new"
        assert texts(memory.search("red wine", k=1)) == ["red wine"]
        assert memory.search("castle Dover")[0].tier == "light"
        assert texts(memory.search("wine", namespace="other")) == ["red wine elsewhere"]
        memory.add(["red wine later"])
    with pytest.raises(EncoderMismatchError):
        memory_at(path)
    with memory_at(path, encoder=new) as memory:
        assert sorted(texts(memory.search("red wine", k=2))) == ["red wine", "red wine later"]


def test_other_preferences_than_the_files_are_an_error_that_lists_them(path: Path) -> None:
    memory_at(path).close()
    memory_at(path, WINE, TRAIN).close()  # a new file takes those that are given
    with pytest.raises(PreferencesMismatchError) as caught:
        memory_at(path, WINE, "blue sky")
    for said in (f"only in the file: {TRAIN}", "only given: blue sky", "sync=True"):
        assert said in str(caught.value)
    with memory_at(path, TRAIN, "RED  wine") as memory:
        assert told(memory.preferences) == [WINE, TRAIN]


def test_sync_changes_the_files_preferences_and_matches_its_items(path: Path) -> None:
    with memory_at(path, WINE, TRAIN) as memory:
        memory.add(["red wine", "night train under the blue sky"])
    for order in ([WINE, "blue sky"], ["blue sky", TRAIN, WINE]):
        with memory_at(path, *order, sync=True) as memory:
            assert told(memory.preferences) == order
            assert "blue sky" in memory.search("sky")[0].preferences
        with memory_at(path) as memory:
            assert told(memory.preferences) == order and len(memory) == 2


def test_closing_twice_is_fine_and_use_after_close_is_an_error(path: Path) -> None:
    memory = memory_at(path, WINE)
    memory.close()
    memory.close()
    uses: list[Callable[[], object]] = [
        lambda: memory.add(["red wine"]),
        lambda: memory.search("wine"),
        lambda: memory.context("wine"),
        lambda: list(memory.judge(["red wine"])),
        lambda: memory.explain("a"),
        lambda: memory.forget("a"),
        lambda: memory.preferences.add(TRAIN),
        lambda: memory.preferences.remove(WINE),
        lambda: memory.preferences.replace(WINE, TRAIN),
        lambda: memory.file.reencode(HashEncoder()),
        lambda: memory.file.export(path.parent / "x"),
        lambda: memory.file.backup(path.parent / "x"),
        *(lambda shown=shown: list(getattr(memory, shown)) for shown in ("preferences", "facts", "proposals")),
        *(memory.stats, memory.retry, memory.file.verify, memory.file.compact, memory.file.not_kept, memory.__len__),
    ]
    for use in uses:
        with pytest.raises(MemoryClosedError, match="closed"):
            use()


# interruptions and threads


def test_an_interruption_leaves_committed_batches_and_a_usable_memory(path: Path) -> None:
    verifier = Raising(KeyboardInterrupt(), after=0, times=0, block=10)
    with memory_at(path, WINE, verifier=verifier) as memory:
        memory.add(wines(20))
        verifier.times, verifier.after = 1, 5
        with pytest.raises(KeyboardInterrupt):
            memory.add([f"red wine later {n}" for n in range(20)])
        # The five that were decided before it are kept too.
        assert len(memory.search("wine", k=99)) == len(memory) == 25
        assert memory.add([f"red wine later {n}" for n in range(20)]).kept == 15
    with EpicMemory.open(path, encoder=HashEncoder()) as memory:
        assert len(memory) == 40


def test_several_threads_change_preferences_while_others_add() -> None:
    memory = memory_of(WINE, encoder=default_encoder(), tau=-1.0)

    def change(n: int) -> None:
        memory.preferences.add(f"preference {n}")
        memory.preferences.remove(f"preference {n}")

    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(change, n) for n in range(10)]
        jobs += [pool.submit(memory.add, [f"red wine {n}"]) for n in range(30)]
        for job in jobs:
            job.result()
    assert told(memory.preferences) == [WINE]
    hits = memory.search("wine", k=100)
    assert len(hits) == len(memory) == 30
    assert {p for hit in hits for p in hit.preferences} == {WINE}
    assert memory.stats().counts["entries"] == 30


async def test_many_searches_and_adds_at_once_on_one_loop() -> None:
    memory = memory_of()
    await asyncio.gather(*(memory.aadd([f"red wine {n}"]) for n in range(20)))
    found = await asyncio.gather(*(memory.asearch(f"red wine {n}", k=1) for n in range(20)))
    assert [texts(hits)[0] for hits in found] == [f"red wine {n}" for n in range(20)]


@pytest.mark.parametrize("reserve", [0, "1 MB"])
def test_what_waits_for_a_preference_that_went_is_settled_by_a_retry(reserve: Any) -> None:
    memory = memory_of("wine", "trains", reserve=reserve, verifier=UndecidedAll(), tau=-1.0)
    memory.add(["a red wine"])
    for preference in list(memory.preferences):
        memory.preferences.remove(preference)
    report = memory.retry()
    assert (report.seen, report.kept, report.discarded) == (1, 0, 1)
    assert memory.stats().counts["pending"] == 0
