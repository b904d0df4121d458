"""EPIC in front of the real HippoRAG 2: what breaks there without it, and what the memory decides.

Needs `hipporag` 2.0.0a4, installed without its pins (`.ci/run` does it).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipporag_real import Script, imported, instance

from epic_eval import arm_of
from epic_eval.asking import JournalledLM
from epic_eval.journal import Journal
from epic_graph.extraction import PhraseExtractor
from epic_graph.hipporag import EpicHippoRAG
from epic_memory import EpicMemory, Item, Settings
from epic_memory.encoders import default_encoder
from epic_memory.errors import InvalidInputError, NoPreferencesError, StoreError
from epic_memory.types import Candidate, Decision, Stance, Verdict
from helpers import Answering, KeepAll, UndecidedAll, keep, method, settled
from lm_servers import LMServer, Reply
from scripted import Own, answer_to, read_prompt

imported()

SOLD = "Idris Pell sold the old tractor in May."
FARM = "Sallow Green bought a tractor and grows leeks."
SOUP = "The lentil soup needs leeks and cumin."
WALL = "The garden wall was built in 1911."
DOCS = [SOLD, FARM, SOUP]
TRIPLES = {
    "Idris": [("Idris Pell", "sold", "tractor")],
    "Sallow": [("Sallow Green", "bought", "tractor"), ("Sallow Green", "grows", "leeks")],
    "soup": [("lentil soup", "needs", "leeks")],
    "wall": [("garden wall", "built in", "1911")],
}
GARDEN, VEGAN = "I grow my own vegetables.", "I follow a strict vegan diet."
QUESTION = "Who sold the tractor to the farm that grows leeks?"


@pytest.fixture
def script() -> Script:
    return Script(TRIPLES)


@pytest.fixture
def server(script: Script) -> Iterator[LMServer]:
    with LMServer(script) as running:
        yield running


class Make:
    """Makes instances, each in a folder of its own unless it is named."""

    def __init__(self, folder: Path, server: LMServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.server, self.monkeypatch, self.made = folder, server, monkeypatch, 0

    def raw(self, name: str | None = None, **config: Any) -> Any:
        self.made += 1
        return instance(self.folder / (name or f"rag{self.made}"), self.server, self.monkeypatch, **config)

    def epic(self, memory: EpicMemory | None = None, hipporag: Any = None, **options: Any) -> EpicHippoRAG:
        return EpicHippoRAG(self.raw() if hipporag is None else hipporag, memory or keeping(), **options)


@pytest.fixture
def make(tmp_path: Path, server: LMServer, monkeypatch: pytest.MonkeyPatch) -> Make:
    return Make(tmp_path, server, monkeypatch)


def keeping(preferences: Sequence[str] = (GARDEN, VEGAN), **options: Any) -> EpicMemory:
    """A memory that keeps everything."""
    return EpicMemory(preferences, **settled(**{"verifier": KeepAll(), "coarse": False, **options}))


def only(*words: str) -> Answering:
    """Keeps what contains one of some words."""

    def answer(candidate: Candidate) -> Verdict:
        kept = any(word in candidate.item.text for word in words)
        return keep(candidate) if kept else Verdict(decision=Decision.DISCARD, rationale="far")

    return Answering(answer)


def texts(rag: Any) -> set[str]:
    return set(rag.chunk_embedding_store.get_all_texts())


def entities(rag: Any) -> set[str]:
    return set(rag.entity_embedding_store.get_all_texts())


def edges(rag: Any) -> Counter[tuple[frozenset[str], float]]:
    names = rag.graph.vs["content"]
    return Counter(
        (frozenset((names[one], names[other])), round(weight, 3))
        for (one, other), weight in zip(rag.graph.get_edgelist(), rag.graph.es["weight"], strict=True)
    )


def found(rag: Any, query: str = QUESTION, **options: Any) -> list[str]:
    return list(rag.retrieve([query], **options)[0].docs)


# what breaks


def test_documents_that_come_after_a_question_are_found_and_can_be_deleted(make: Make) -> None:
    rag = make.epic()
    rag.index([SOLD, FARM])
    assert len(rag.retrieve_dpr([QUESTION])[0].docs) == 2
    rag.index([SOUP])
    assert set(rag.retrieve_dpr([QUESTION])[0].docs) == set(found(rag)) == set(DOCS)
    rag.delete([SOUP])
    assert texts(rag) == {SOLD, FARM}


def test_a_question_asked_before_follows_the_preference_that_holds_now(make: Make, script: Script) -> None:
    script.chosen = lambda facts: facts[:1]
    rag = make.epic(keeping([GARDEN]))
    rag.index(DOCS)
    first = rag.search(QUESTION, steering="paper")
    rag.memory.preferences.replace(GARDEN, "I only read about the history of tractors.")
    rag.update()
    second = rag.search(QUESTION, steering="paper")
    assert [one for one, *_ in second.steered_by] == ["I only read about the history of tractors."]
    assert not np.allclose(first.vector, second.vector)


def test_a_question_whose_facts_score_nothing_is_answered(make: Make, script: Script) -> None:
    script.chosen = lambda facts: facts[-1:]  # best first: the last one's normalised score is zero
    rag = make.epic()
    rag.index(DOCS)
    assert set(found(rag)) == set(DOCS)
    rag.embedding_model.zero = "???"  # the question has no direction at all
    assert set(found(rag, "???")) == set(DOCS)


def test_an_empty_store_gives_nothing(make: Make) -> None:
    rag = make.epic()
    assert rag.retrieve([QUESTION, "Another?"])[0].docs == rag.retrieve_dpr([QUESTION])[0].docs == []
    assert rag.search(QUESTION) == [] and rag.context(QUESTION) == ""
    solutions, recall = rag.retrieve([QUESTION], gold_docs=[[SOLD]])
    assert solutions[0].docs == [] and recall["Recall@1"] == 0.0


def test_what_comes_and_goes_piece_by_piece_gives_the_graph_of_indexing_at_once(make: Make, script: Script) -> None:
    swap = "They gave the tractor for leeks."
    script.triples["gave"] = [("tractor", "was given for", "leeks")]
    whole, rag = make.raw(), make.epic()
    whole.index([*DOCS, WALL])
    rag.index([SOLD])
    rag.index([FARM, swap])
    rag.delete([swap])  # both its entities are in FARM as well
    rag.index([SOUP, WALL])
    assert edges(rag) == edges(whole)


@pytest.mark.parametrize("step", ["named_entities", "triples"])
def test_what_a_model_answers_is_not_run(make: Make, script: Script, tmp_path: Path, step: str) -> None:
    trap = tmp_path / "trap"
    code = f"__import__('pathlib').Path('{trap}').write_text('x')"
    script.raw["Mallory"] = f'{{"{step}": [{code}, ["a", "b", "c"]]}}'.replace("]]", "] ]")
    doc = "Mallory wrote: whoever reads this runs it."
    raw, rag = make.raw(), make.epic()
    raw.index([doc])
    assert trap.exists()
    trap.unlink()
    report = rag.index([doc])
    assert not trap.exists()
    assert texts(rag) == {doc}
    assert report.memory.kept == 1


def test_entities_go_with_the_last_passage_that_names_them_and_leave_the_disk(make: Make) -> None:
    rag = make.epic()
    rag.index(DOCS)
    rag.delete([SOLD])
    rag.delete([FARM])
    assert entities(rag) == {"lentil soup", "leeks"}
    assert set(rag.graph.vs["content"]) == {"lentil soup", "leeks", SOUP}
    assert "Idris Pell" not in Path(rag.openie_results_path).read_text()
    rag.delete([SOUP])
    assert texts(rag) == set()
    rag.index([SOUP])
    assert found(rag) == [SOUP]


def full(*_: Any) -> None:
    raise OSError("No space left on device")


@pytest.mark.parametrize("part", ["embedding", "graph"])
def test_an_index_that_fails_leaves_all_as_it_was(make: Make, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    rag = make.epic()
    rag.index([SOLD])
    before = edges(rag)
    with monkeypatch.context() as patched:
        if part == "graph":
            patched.setattr(rag.hipporag, "save_igraph", full)
        else:  # the entity; the passage is embedded before
            patched.setattr(rag.hipporag.embedding_model, "fails", "sallow green")
        with pytest.raises((RuntimeError, OSError), match=r"is gone|No space left"):
            rag.index([FARM])
    assert (texts(rag), edges(rag), found(rag)) == ({SOLD}, before, [SOLD])
    assert rag.update().indexed == 1  # the memory holds it
    assert rag.graph.degree(rag.graph.vs.find(content=FARM)) > 0
    assert set(found(rag)) == {SOLD, FARM}


def test_an_extraction_file_of_another_store_does_not_come_in_the_way(make: Make) -> None:
    # It is one for all embedding models in a folder.
    make.epic(hipporag=make.raw("two")).index([SOLD])
    rag = make.epic(hipporag=make.raw("two", embedding_model_name="other"))
    rag.index([SOUP])
    assert found(rag) == [SOUP]


def test_passages_without_any_entity_are_found(make: Make, script: Script) -> None:
    script.triples = {}
    rag = make.epic()
    report = rag.index([SOLD, SOUP])
    assert set(found(rag)) == {SOLD, SOUP}
    assert script.shown == []  # no model is asked to choose among no facts
    assert not report.failures  # the model found nothing, which is no failure
    rag.index([FARM])
    assert set(found(rag)) == set(DOCS)


def test_names_of_other_scripts_are_not_one_entity(make: Make, script: Script) -> None:
    script.triples = {
        "Москва": [("Москва", "столица", "Россия")],
        "東京": [("東京", "首都", "日本")],
        "Café": [("Café Zoë", "serves", "crème brûlée")],
    }
    docs = ["Москва столица.", "東京は首都。", "The Café Zoë."]
    rag = make.epic()
    report = rag.index(docs)
    assert entities(rag) == {"cafe zoe", "creme brulee"}
    assert "2 facts were left out" in str(report)
    assert set(found(rag, "Где Москва?")) == set(docs)


# the memory decides


def test_what_is_discarded_is_not_indexed_and_costs_no_extraction(make: Make, script: Script) -> None:
    rag = make.epic(keeping(verifier=only("leeks")))
    report = rag.index([*DOCS, SOUP, "  "])
    assert texts(rag) == {FARM, SOUP}
    assert sorted(script.extracted) == sorted([FARM, SOUP])
    assert (report.memory.seen, report.memory.kept, report.memory.discarded, report.indexed) == (4, 2, 1, 2)
    assert "1 documents without text" in str(report)
    again = rag.index(DOCS)
    # What was discarded is in the memory's light tier, but not in the graph.
    assert (again.memory.duplicates, again.memory.known, again.indexed, again.removed) == (3, 0, 0, 0)


def test_the_undecided_wait_and_are_tried_again(make: Make) -> None:
    rag = make.epic(keeping(verifier=UndecidedAll()))
    report = rag.index(DOCS)
    assert (report.memory.undecided, report.passages) == (3, 0)
    assert found(rag) == []
    rag.memory.verifier = only("leeks")
    report = rag.retry()
    assert (report.memory.kept, report.indexed) == (2, 2)
    assert set(found(rag)) == {FARM, SOUP}


def test_what_leaves_the_memory_leaves_the_graph(make: Make) -> None:
    rag = make.epic()
    rag.index(DOCS)
    by_text = {item.text: item for item in rag.memory.items()}
    rag.memory.forget(by_text[SOLD])
    assert set(found(rag)) == texts(rag) == {FARM, SOUP}
    assert rag.forget(by_text[FARM].id) == 1 and texts(rag) == {SOUP}
    assert rag.delete([SOUP, "Nobody knows this."]).passages == 0
    assert len(rag.memory) == 0


def cached(make: Make, name: str) -> bytes:
    """Return what the models' caches of an instance hold, as bytes."""
    return b"".join(path.read_bytes() for path in (make.folder / name / "llm_cache").glob("*.sqlite*"))


def test_what_leaves_the_memory_leaves_the_cache_of_the_model(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rag = make.epic(hipporag=make.raw("cached"))
    rag.index(DOCS)
    rag.rag_qa([QUESTION])
    assert b"Idris" in cached(make, "cached")
    item = next(item for item in rag.memory.items() if item.text == SOLD)
    with monkeypatch.context() as patched:
        # Nothing is given up for removed while a cache cannot be written.
        patched.setattr("epic_graph.hipporag.instance._BUSY", 0.0)
        (path,) = (make.folder / "cached" / "llm_cache").glob("*.sqlite")
        with closing(sqlite3.connect(path)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(StoreError, match="llm_cache"):
                rag.forget(item)
    assert SOLD in {str(row["content"]) for row in rag.hipporag.chunk_embedding_store.get_all_id_to_rows().values()}
    assert found(rag) and b"Idris" not in cached(make, "cached")
    assert rag.delete([]).passages == 2


@pytest.mark.parametrize("part", ["delete", "save_igraph"])
def test_what_cannot_be_removed_is_not_given_away(make: Make, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    rag = make.epic()
    rag.index(DOCS)
    with monkeypatch.context() as patched:
        patched.setattr(type(rag.hipporag), part, full)
        rag.memory.forget(*(item for item in rag.memory.items() if item.text == SOLD))
        for _ in range(2 if part == "delete" else 1):
            with pytest.raises(OSError, match="No space left"):
                rag.retrieve([QUESTION])
    assert set(found(rag)) == texts(rag) == {FARM, SOUP}
    rag.index([SOLD])
    assert set(found(rag)) == set(DOCS)


def test_a_graph_of_another_memory_is_not_emptied_unasked(make: Make, tmp_path: Path) -> None:
    make.epic(hipporag=make.raw("kept")).index([SOLD, FARM])
    rag = make.epic(hipporag=make.raw("kept"))
    for call in (lambda: rag.retrieve([QUESTION]), lambda: rag.index([SOUP]), lambda: rag.foreign):
        with pytest.raises(InvalidInputError, match=r"none of the 2 passages .* update\(\) takes them out"):
            call()
    assert texts(rag) == {SOLD, FARM}
    assert rag.memory.items()
    report = make.epic(rag.memory, make.raw("kept")).update()
    assert (report.removed, report.indexed) == (2, 1)


def test_a_preference_that_goes_takes_its_passages_along_and_one_that_comes_brings_some(make: Make) -> None:
    def answer(candidate: Candidate) -> Verdict:
        near = {GARDEN: "leeks", VEGAN: "soup"}
        wanted = {p.id for p in candidate.preferences if near.get(p.text, "tractor") in candidate.item.text}
        kept = tuple(one for one in keep(candidate).alignments if one.preference_id in wanted)
        return Verdict(decision=Decision.KEEP if kept else Decision.DISCARD, alignments=kept)

    rag = make.epic(keeping(verifier=Answering(answer)))
    rag.index(DOCS)
    assert texts(rag) == {FARM, SOUP}
    rag.memory.preferences.remove(GARDEN)
    assert set(found(rag)) == texts(rag) == {SOUP}
    rag.memory.preferences.add("I collect tractors.")
    rag.index(DOCS)
    assert set(found(rag)) == set(DOCS)


@pytest.mark.parametrize("lost", [[SOLD], DOCS], ids=["one", "all"])
def test_what_the_instance_has_lost_is_indexed_again(make: Make, lost: list[str]) -> None:
    rag = make.epic()
    rag.index(DOCS)
    rag.hipporag.delete(lost)
    assert rag.update().indexed == len(lost)
    assert texts(rag) == set(DOCS)


def test_passages_from_before_stay_until_they_are_judged(make: Make) -> None:
    raw = make.raw()
    raw.index([SOLD, FARM])
    rag = make.epic(keeping(verifier=only("leeks")), raw)
    report = rag.index([SOUP])
    assert (report.foreign, report.passages) == (2, 3)
    assert set(rag.foreign) == {SOLD, FARM}
    hits = {hit.item.text: hit for hit in rag.search(QUESTION)}
    assert set(hits) == set(DOCS)
    assert (hits[SOUP].tier, hits[SOLD].tier, hits[SOLD].entries) == ("memory", "fallback", ())
    report = rag.adopt()
    assert (report.foreign, report.removed, report.indexed) == (0, 1, 0)
    assert texts(rag) == {FARM, SOUP}
    assert all(hit.tier == "memory" for hit in rag.search(QUESTION))


def test_items_with_the_same_text_are_one_passage_until_the_last_goes(make: Make) -> None:
    rag = make.epic()
    items = [Item(id="a", text=SOLD, metadata={"source": "one"}), Item(id="b", text=SOLD)]
    assert rag.index(items).passages == 1
    assert rag.index(items).indexed == 0
    rag.forget("a")
    assert found(rag) == [SOLD]
    assert rag.search(QUESTION)[0].item.id == "b"
    rag.forget("b")
    assert found(rag) == []


def test_both_are_opened_again(make: Make, tmp_path: Path) -> None:
    def ranked(rag: EpicHippoRAG) -> list[tuple[str, float]]:
        return [(hit.item.text, round(hit.score, 5)) for hit in rag.search(QUESTION)]

    path, keeps = tmp_path / "me.epic", Settings(verifier=KeepAll(), coarse=False)
    with EpicMemory.open(path, [GARDEN, VEGAN], settings=keeps) as memory:
        rag = make.epic(memory, make.raw("kept"))
        rag.index(DOCS)
        before = ranked(rag)
    with EpicMemory.open(path, settings=Settings(read_only=True)) as memory:
        assert set(found(make.epic(memory, make.raw("kept")))) == set(DOCS)
    with EpicMemory.open(path, settings=keeps) as memory:
        memory.forget(*(item for item in memory.items() if item.text == SOUP))
        rag = make.epic(memory, make.raw("kept"))
        assert rag.foreign == [] and texts(rag) == {SOLD, FARM}
        assert rag.index(DOCS).indexed == 1
        assert ranked(rag) == before


@pytest.mark.parametrize(
    ("content", "said"), [("{", "cannot be read"), ('{"version": 2, "passages": {}, "failed": {}}', "version 2")]
)
def test_a_record_that_cannot_be_read_is_named(make: Make, content: str, said: str) -> None:
    raw = make.raw()
    (Path(raw.working_dir) / "epic_passages.json").write_text(content)
    with pytest.raises(StoreError, match=said):
        make.epic(hipporag=raw)


@pytest.mark.parametrize("how", ["lost", "made anew"])
def test_a_graph_that_is_not_there_is_made_again(make: Make, script: Script, how: str) -> None:
    memory = keeping()
    rag = make.epic(memory, make.raw("kept"))
    rag.index(DOCS)
    before = edges(rag)
    if how == "lost":
        Path(rag.working_dir, "graph.pickle").unlink()
    asked = len(script.extracted)
    rag = make.epic(memory, make.raw("kept", force_index_from_scratch=how == "made anew"))
    assert set(found(rag)) == set(DOCS)
    assert edges(rag) == before
    assert len(script.extracted) == asked


def test_without_its_stages_it_is_graph_rag_alone(make: Make) -> None:
    rag = make.epic(EpicMemory(settings=Settings(coarse=False, fine=False, steering="off")))
    report = rag.index([*DOCS, WALL])
    assert report.passages == 4
    assert len(found(rag)) == 4
    rag.rag_qa([QUESTION])
    rag.forget(*rag.memory.items())
    assert found(rag) == []


# extraction


def test_what_cannot_be_extracted_is_indexed_and_tried_again(make: Make, script: Script) -> None:
    script.raw = {"Idris": "I cannot help with that.", "soup": Reply(status=400, text="no")}
    rag = make.epic()
    report = rag.index(DOCS)
    by_text = {item.text: item.id for item in rag.memory.items()}
    assert set(report.failures) == {by_text[SOLD], by_text[SOUP]} == set(rag.failures)
    assert "no list 'triples'" in report.failures[by_text[SOLD]]
    assert "retry() tries again" in str(report)
    assert set(found(rag)) == set(DOCS)
    script.raw = {}
    report = rag.retry()
    assert (report.failures, report.indexed, report.removed) == ({}, 2, 0)
    assert {"idris pell", "lentil soup"} <= entities(rag)
    assert set(found(rag)) == set(DOCS)


def test_another_extractor_can_take_its_place(make: Make, server: LMServer) -> None:
    rag = make.epic(extractor=PhraseExtractor())
    rag.index(DOCS)
    assert server.calls == 0
    assert "idris pell" in entities(rag)
    assert set(found(rag)) == set(DOCS)


# steering

CASINO = "The Golden Palace is a hotel on the Strip with a huge casino floor and gambling all night."
QUIET = "The Desert Rose is a quiet hotel near the Strip with a garden and no gambling."
STAY = "Which hotel on the Strip in Las Vegas should I stay at?"


def test_both_vectors_of_a_query_are_steered_and_the_instance_keeps_its_own(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    preference = "I avoid hotels with casinos."
    rag = make.epic(keeping([preference]))
    rag.index([CASINO, QUIET, SOLD])
    raw, searched = rag.hipporag, {}
    for kind, name in (("triple", "get_fact_scores"), ("passage", "dense_passage_retrieval")):
        own = getattr(type(raw), name)

        def spy(self: Any, query: str, kind: str = kind, own: Any = own) -> Any:
            searched[kind] = self.query_to_embedding[kind][query].copy()
            return own(self, query)

        monkeypatch.setattr(type(raw), name, spy)
    rag.retrieve([STAY], steering="off")
    plain, before = dict(searched), set(vars(raw))
    assert not np.allclose(plain["triple"], plain["passage"])
    towards = raw.embedding_model.batch_encode([preference])[0]
    rag.retrieve([STAY, STAY], steering="paper")
    for kind, vector in plain.items():
        moved = vector + towards
        assert searched[kind] == pytest.approx(moved / np.linalg.norm(moved), abs=1e-5)  # Eq. 8
        assert np.array_equal(raw.query_to_embedding[kind][STAY], vector)
    rag.retrieve([STAY])
    for kind, vector in plain.items():
        assert np.linalg.norm(searched[kind]) == pytest.approx(1.0, abs=1e-5)
        assert searched[kind] @ vector < 0.999
        assert np.array_equal(raw.query_to_embedding[kind][STAY], vector)
    assert set(vars(raw)) == before


def test_what_is_avoided_comes_last(make: Make) -> None:
    rag = make.epic(keeping(["I avoid hotels with casinos.", GARDEN]))
    rag.index([CASINO, QUIET])
    assert found(rag, STAY, steering="off")[0] == CASINO
    assert found(rag, STAY)[0] == QUIET
    assert rag.retrieve_dpr([STAY])[0].docs[0] == QUIET
    assert [text for text, *_ in rag.search(STAY).steered_by] == ["I avoid hotels with casinos."]


def test_without_steering_it_is_the_instances_own_retrieval(make: Make, script: Script) -> None:
    script.chosen = lambda facts: facts[:2]
    raw, rag = make.raw(), make.epic(keeping(steering="off"))
    raw.index(DOCS)
    rag.index(DOCS)
    own, ours = raw.retrieve([QUESTION])[0], rag.retrieve([QUESTION])[0]
    assert own.docs == ours.docs
    assert own.doc_scores == pytest.approx(ours.doc_scores)
    assert len(rag.retrieve([QUESTION], num_to_retrieve=2)[0].docs) == 2


# instructions and answers


def test_who_answers_reads_the_instructions_and_who_asks_gets_the_texts(make: Make, script: Script) -> None:
    rag = make.epic()
    rag.index(DOCS)
    solutions, *_ = rag.rag_qa(["What goes into the soup?"])
    assert solutions[0].answer == "as it says"
    assert set(solutions[0].docs) == set(DOCS)
    assert f"Think of {VEGAN}: {SOUP}" in script.read[-1]
    assert texts(rag) == set(DOCS)
    solutions = rag.retrieve(["What goes into the soup?"])
    answered, *_ = rag.rag_qa(solutions)
    assert answered[0].docs == solutions[0].docs
    assert script.read[-1].count("Interpretation Guidance:") == 3
    *_, recall, scores = rag.rag_qa_dpr(["Soup?"], [[SOUP]], [["as it says"]])
    assert recall["Recall@5"] == 1.0
    assert scores["ExactMatch"] == 1.0


def test_hits_say_what_is_known(make: Make) -> None:
    rag = make.epic()
    rag.index([Item(id="soup", text=SOUP, metadata={"source": "notes.md"}), SOLD])
    solution = rag.retrieve(["What goes into the soup?"])[0]
    hits = rag.hits(solution)
    assert [hit.item.text for hit in hits] == solution.docs
    assert (hits[0].item.id, hits[0].item.metadata) == ("soup", {"source": "notes.md"})
    assert {entry.preference for entry in hits[0].entries} == {GARDEN, VEGAN}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert f"- Think of {VEGAN}: {SOUP}" in rag.context("What goes into the soup?")
    hits[0].item.metadata["source"] = "changed"  # type: ignore[index]
    assert rag.hits(solution)[0].item.metadata == {"source": "notes.md"}


# the rest


async def test_asynchronously_it_is_the_same(make: Make) -> None:
    outcomes = []
    for twin in (False, True):
        rag = make.epic()

        async def call(name: str, *given: Any, rag: EpicHippoRAG = rag, twin: bool = twin) -> Any:
            made = method(rag, name, twin=twin)(*given)
            return await made if twin else made

        for name, *given in (("index", [*DOCS, WALL]), ("delete", [WALL]), ("update",), ("retry",)):
            await call(name, *given)
        solutions, dense = await call("retrieve", [QUESTION]), await call("retrieve_dpr", [QUESTION])
        answers, context = await call("rag_qa", [QUESTION]), await call("context", QUESTION)
        hits = [hit.item.text for hit in await call("search", QUESTION, 2)]
        count = await call("forget", *rag.memory.items())
        outcomes.append((solutions[0].docs, dense[0].docs, answers[1], context, hits, count))
    assert outcomes[0] == outcomes[1]


def test_bad_input_is_named(make: Make) -> None:
    raw = make.raw()
    for arguments, said in [
        ({"hipporag": object()}, "no HippoRAG 2 instance"),
        ({"memory": "me.epic"}, "must be an EpicMemory"),
        ({"extractor": PhraseExtractor}, "extractor must be"),
    ]:
        given = {"hipporag": raw, "memory": keeping(), **arguments}
        with pytest.raises(InvalidInputError, match=said):
            EpicHippoRAG(given.pop("hipporag"), given.pop("memory"), **given)
    with pytest.raises(TypeError):
        EpicHippoRAG(raw, keeping(), tau=0.3)  # type: ignore[call-arg]
    rag = make.epic(hipporag=raw)
    for call, said in [
        (lambda: rag.index(7), "takes texts or Items"),
        (lambda: rag.index([SOLD, 7]), "Item 1"),
        (lambda: rag.delete([7]), "must be a string"),
        (lambda: rag.delete(None), "takes texts or Items"),
        (lambda: rag.hits(rag.retrieve([QUESTION])), "takes one solution"),
        (lambda: rag.retrieve({QUESTION: 1}), "as a list"),
        (lambda: rag.retrieve([QUESTION], gold_docs=[SOUP]), "a list of texts for each"),
        (lambda: EpicHippoRAG(rag, keeping()), "has a memory"),
        (lambda: rag.retrieve("a text"), "as a list"),
        (lambda: rag.retrieve([""]), "query"),
        (lambda: rag.retrieve([QUESTION], 0), "num_to_retrieve"),
        (lambda: rag.retrieve([QUESTION], steering="far"), "steering mode must be"),
        (lambda: rag.search(QUESTION, 0), "k must be"),
        (lambda: rag.rag_qa([]), "no queries"),
    ]:
        with pytest.raises(InvalidInputError, match=said):
            call()
    assert rag.retrieve([]) == []
    with pytest.raises(NoPreferencesError):
        make.epic(EpicMemory()).index(DOCS)
    for config in ({"save_openie": False}, {"force_openie_from_scratch": True}):
        with pytest.raises(InvalidInputError, match="save_openie=True"):
            make.epic(hipporag=make.raw(**config))
    raw.embedding_model = None
    with pytest.raises(InvalidInputError, match="openie_mode='online'"):
        make.epic(hipporag=raw)


@pytest.mark.parametrize(("name", "held"), [("HippoRAG 2", 4), ("EPIC+HippoRAG 2", 2)])
def test_an_arm_of_the_evaluation_asks_any_language_model(tmp_path: Path, script: Script, name: str, held: int) -> None:
    def answer(messages: Sequence[Any]) -> str:
        if "to be judged under" in messages[-1].content:
            soup = read_prompt(messages)
            return answer_to(soup, lambda chunk, preference: Stance.SUPPORTS if "leeks" in chunk else None)
        return str(script({"messages": [{"role": m.role, "content": m.content} for m in messages]}))

    lm = JournalledLM(Own(answer), Journal(tmp_path / "asked.jsonl"))
    arm = arm_of(name, default_encoder(), lm=lm)
    (tmp_path / "arm").mkdir()
    cost = arm.build([Item(text=text) for text in [*DOCS, WALL]], ["I love lentil soup with leeks."], tmp_path / "arm")
    assert cost.held == held
    asked = [sent.messages for sent in lm.sent]
    verifying = sum("to be judged under" in messages[-1].content for messages in asked)
    assert verifying == (name != "HippoRAG 2")  # the model that was given verifies
    assert lm.take_cost().asked == len(asked) == 2 * held + verifying  # names, and facts
    found = arm.retrieve("What does the soup need?", 3)
    assert found.passages[0].text == SOUP
    assert lm.take_cost().asked == 1  # which facts matter
    folder = tmp_path / "arm"
    assert arm.bytes()["total"] == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    arm.close()
