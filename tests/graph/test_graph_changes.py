"""GraphMemory: the graph follows what happens to the memory, here and in other processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epic_graph import Extraction, Fact, GraphMemory
from epic_memory import EpicMemory, Item, Preference, SearchOptions, Settings
from epic_memory.errors import EpicError, UnknownEntityError
from graph_helpers import (
    HILLS,
    PEOPLE,
    QUERIES,
    SEA,
    TEXTS,
    WINE,
    Marked,
    Saying,
    SometimesFailing,
    again,
    alike,
    anew,
    exactly,
    found,
    made,
    outcome,
    recounted,
    seen,
)
from helpers import Clock, DiscardAll, HashEncoder, KeepAll, UndecidedAll, method, settled, together

# what happens to it


ITEM = st.tuples(st.integers(0, 5), st.integers(0, len(TEXTS) - 1))
PREFERENCE = st.sampled_from([WINE, SEA, HILLS])
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["add", "outside"]), ITEM),
    st.tuples(st.just("forget"), st.tuples(st.integers(0, 5))),
    st.tuples(st.sampled_from(["prefer", "drop"]), st.tuples(PREFERENCE)),
    st.tuples(st.just("replace"), st.tuples(PREFERENCE, PREFERENCE)),
    st.tuples(st.sampled_from(["retry", "reextract"]), st.just(())),
    st.tuples(st.just("search"), st.tuples(st.sampled_from(QUERIES))),
)


CALLS = {
    "add": "add",
    "outside": "add",
    "forget": "forget",
    "prefer": "preferences.add",
    "drop": "preferences.remove",
    "replace": "preferences.replace",
}


def act(graph: GraphMemory, kind: str, rest: Any, *, twin: bool = False) -> Any:
    """Do it with the graph, or with its memory; asynchronously if it is the twin; return what comes of it."""
    if kind in ("add", "outside"):
        rest = [[Item(id=f"i{rest[0]}", text=TEXTS[rest[1]])]]
    elif kind == "forget":
        rest = [f"i{rest[0]}"]
    component = graph if kind == "add" or kind not in CALLS else graph.memory
    call = method(component, CALLS.get(kind, kind), twin=twin)
    try:
        return outcome(asyncio.run(call(*rest)) if twin else call(*rest))
    except EpicError as error:
        return type(error)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, min_size=1, max_size=10), mended=st.booleans())
@pytest.mark.slow
def test_whatever_happens_it_is_as_if_built_anew(
    actions: list[tuple[str, Any]], mended: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("graphs") / "me.epic"
    with made(file, extractor=SometimesFailing()) as graph, made(extractor=SometimesFailing()) as second:
        for action in actions:
            assert act(graph, *action) == act(second, *action, twin=True)
            # Each look takes in what has changed since the one before.
            assert graph.counts() == second.counts()
        if mended:
            graph.extractor.fails = second.extractor.fails = False  # type: ignore[attr-defined]
            graph.retry()
            asyncio.run(second.aretry())
        graph.update()
        asyncio.run(second.aupdate())
        state = seen(graph)
        assert alike(seen(second), state)
        recounted(file)
        assert graph.memory.file.verify() > 0
        assert alike(seen(anew(graph)), state)
        precise = exactly(graph)
    with again(file) as reopened:
        assert exactly(reopened) == precise
        recounted(file)


def test_retrying_and_reextracting_are_the_same_in_both_ways() -> None:
    graphs = [made(extractor=SometimesFailing()) for _ in range(2)]
    for graph in graphs:
        graph.add([*PEOPLE, Item(id="fails", text=TEXTS[-1])])
        graph.extractor.fails = False  # type: ignore[attr-defined]
    one, other = graphs
    assert outcome(one.retry()) == outcome(asyncio.run(other.aretry()))
    assert one.entities("fails") == ["Oslo"]
    assert exactly(one)["counts"] == exactly(other)["counts"]
    for graph in graphs:
        graph.extractor = Saying(lambda _: Extraction(("Another",)))
    report = one.reextract()
    assert outcome(report) == outcome(asyncio.run(other.areextract()))
    assert (report.passages, report.entities) == (6, 1)
    assert one.entities() == other.entities() == ["Another"]
    assert one.reextract().passages == 0
    assert outcome(one.update()) == outcome(asyncio.run(other.aupdate()))


def test_undecided_items_come_into_the_graph_when_they_are_decided() -> None:
    graph = made(verifier=UndecidedAll())
    assert graph.add(PEOPLE).memory.undecided == 5
    assert graph.counts()["passages"] == graph.counts()["outside"] == 0
    graph.memory.verifier = KeepAll()
    report = graph.retry()
    assert (report.memory.kept, report.passages) == (5, 5)
    assert graph.entities("oscar") == ["Oscar Reed", "Clara"]


def test_a_file_gets_its_graph_when_it_is_opened_as_one(path: Path) -> None:
    options: dict[str, Any] = {"encoder": HashEncoder(256), "verifier": KeepAll(), "tau": 0.1}
    with EpicMemory.open(path, [WINE, SEA], **settled(**options)) as memory:
        memory.add(PEOPLE)
    with made(path, None, read_only=True) as graph:
        assert graph.counts() == {"entities": 0, "passages": 0, "failed": 0, "edges": 0, "outside": 5}
        assert found(graph, "red wine", 2) and graph.search("Oscar Reed").entities == []
        assert graph.entities() == graph.entities("oscar") == graph.facts("oscar") == [] and graph.failures() == {}
        with pytest.raises(UnknownEntityError):
            graph.neighbours("Oscar Reed")
        for write in (graph.update, graph.retry, graph.reextract, lambda: graph.add("red wine")):
            with pytest.raises(EpicError, match="reading only"):
                write()
    with again(path) as graph:
        assert graph.counts()["outside"] == graph.update().passages == 5
        assert alike(seen(graph), seen(anew(graph)))
    # A plain memory goes on with it.
    with EpicMemory.open(path, **settled(**options)) as memory:
        assert memory.stats().bytes["graph"] > 0
        memory.add(
            [Item(id="new", text="[Oscar Reed] bought red wine in [Oslo]."), Item(id="idris", text="Idris, red")]
        )
        memory.forget("clara")
        memory.preferences.remove(SEA)
        assert memory.file.verify() > 0
        memory.file.compact()
    recounted(path)
    with again(path) as graph:
        assert "Berlin Mitte" not in graph.entities()
        # What only the sea held is in the light tier.
        assert {item.id for item in graph.memory.items()} == {"oscar", "berlin", "new", "idris", "bare"}
        assert graph.counts()["outside"] == 2
        graph.update()
        assert alike(seen(graph), seen(anew(graph)))


# namespaces


def test_namespaces_do_not_see_each_others_entities(path: Path) -> None:
    with made(path, namespace="ann") as ann, made(path, namespace="bob") as bob:
        ann.add(PEOPLE[:2])
        assert bob.entities() == bob.search("Oscar Reed") == []
        with pytest.raises(UnknownEntityError):
            bob.neighbours("Clara")
        bob.add(PEOPLE[1:])
        assert set(ann.entities()) == {"Oscar Reed", "Clara", "Berlin Mitte"}
        assert set(bob.entities()) == {"Clara", "Berlin Mitte", "Berlin Mitte Nord", "Idris", "Oslo"}
        assert bob.search("Oscar Reed").entities == []
        assert found(bob, "Clara").keys() == {item.id for item in PEOPLE[1:]}
        state = exactly(bob)
        ann.memory.forget("clara")
        ann.memory.preferences.remove(WINE)
        assert exactly(bob) == state
        assert ann.entities() == [] and ann.counts()["passages"] == 0
        recounted(path)


# what goes takes its entities with it


def held_in(path: Path, *names: str) -> set[str]:
    data = path.read_bytes()
    return {name for name in names if name.encode() in data or name.casefold().encode() in data}


NAMES = ("Zanzibar Quill", "Xerxes Mbeki", "Quagmire")
SECRET = Item(id="secret", text="[Zanzibar Quill] and [Xerxes Mbeki] drink red wine in [Clara], {Quagmire}.")


class Telling(Marked):
    """Also has a relation that quotes the text."""

    name = "telling-v1"

    def answer(self, text: str) -> Any:
        answer = super().answer(text)
        relation = "of Quagmire" if "Quagmire" in text else ""
        return Extraction(answer.entities, tuple(Fact(f.subject, relation, f.object) for f in answer.facts))


NOTHING = [Item(id="secret", text="red wine and no more")]
WAYS_OUT: dict[str, Any] = {
    "forget": lambda graph: graph.memory.forget("secret"),
    "aforget": lambda graph: asyncio.run(graph.memory.aforget("secret")),
    "remove_preference": lambda graph: graph.memory.preferences.remove(WINE),
    "replace_preference": lambda graph: (
        setattr(graph.memory, "verifier", DiscardAll()),
        graph.memory.preferences.replace(WINE, "red wine of old"),
        graph.memory.forget(SECRET),
    ),
    "another text": lambda graph: graph.add(NOTHING),
    "another text, outside": lambda graph: graph.memory.add(NOTHING),
    "another text, discarded": lambda graph: graph.add([Item(id="secret", text="nothing at all")]),
    "another extractor": lambda graph: (
        setattr(graph, "extractor", Saying(lambda _: Extraction())),
        graph.reextract(),
        graph.memory.forget("secret"),
    ),
}


@pytest.mark.parametrize("way", WAYS_OUT.values(), ids=WAYS_OUT.keys())
def test_nothing_of_what_has_gone_is_left_in_the_file(path: Path, way: Any) -> None:
    with made(path, extractor=Telling(), not_kept=0, verdict_cache=0, reserve=0) as graph:
        graph.add([*PEOPLE, SECRET])
        assert graph.entities("secret") == ["Zanzibar Quill", "Xerxes Mbeki", "Clara"]
        assert held_in(path, *NAMES[:2]) == set(NAMES[:2])
        way(graph)
        assert not {"Zanzibar Quill", "Xerxes Mbeki"} & set(graph.entities())
        assert graph.search("Zanzibar Quill").entities == []
        assert held_in(path, *NAMES) == set()
        recounted(path)
        assert graph.memory.file.verify() > 0
    assert held_in(path, *NAMES) == set()


def test_another_spelling_of_what_has_gone_is_not_left_either(path: Path) -> None:
    with made(path) as graph:
        graph.add([Item(id="secret", text="The [QUILLS OF ZANZIBAR] and red wine"), *PEOPLE])
        graph.add([Item(id="stays", text="A [quill of Zanzibar] and red wine")])
        assert graph.entities("stays") == ["QUILLS OF ZANZIBAR"]
        graph.memory.forget("secret")
        assert b"QUILLS" not in path.read_bytes()
        assert graph.search("the quill of Zanzibar", 1)[0].item.id == "stays"
    with again(path) as graph:
        assert [name.casefold() for name in graph.entities("stays")] == ["quill of zanzibar"]


def test_the_spelling_of_what_went_while_it_was_read_is_not_written(path: Path) -> None:
    class Acting(Marked):
        def answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Any]]:
            yield from super().answers(texts)
            graph.memory.forget("loud")

    with made(path, extractor=Acting()) as graph:
        loud, low = "[OSCARREED] drinks red wine", "[OscarReed] and red wine"
        graph.add([Item(id="loud", text=loud), Item(id="low", text=low)])
        assert graph.entities() == ["OscarReed"]
    assert b"OSCARREED" not in path.read_bytes()


def test_what_expires_takes_its_entities_with_it(path: Path, clock: Clock) -> None:
    with made(path, [SEA, Preference(text=WINE, expires_at=clock.ends(1))], not_kept=0, reserve=0) as graph:
        graph.add([*PEOPLE, SECRET])
        clock.pass_by(2)
        assert found(graph, "Zanzibar Quill or Clara").keys() == {"clara", "idris", "bare"}
        graph.memory.file.compact()
        assert set(graph.entities()) == {"Clara", "Berlin Mitte", "Idris", "Oslo"}
        assert held_in(path, *NAMES[:2]) == set()
        recounted(path)


def test_two_graphs_on_a_file_see_what_the_other_does(path: Path) -> None:
    with made(path) as one, again(path) as other:
        one.add(PEOPLE[:2])
        assert exactly(other) == exactly(one)
        one.extractor = Saying(lambda text: Extraction((text[:9],)))
        for change in (
            lambda: other.add([*PEOPLE[2:], Item(id="oscar", text="[Oscar Reed] left for [Oslo] with red wine.")]),
            lambda: one.memory.forget("idris"),
            lambda: other.memory.preferences.remove(WINE),
            one.reextract,
        ):
            change()
            assert alike(seen(one), seen(other))
        assert alike(seen(one), seen(anew(one)))
        one.memory.forget(*[item.id for item in one.memory.items()])
        assert exactly(one) == exactly(other) and other.entities() == []


def test_copies(path: Path, tmp_path: Path) -> None:
    copy, lines, other = tmp_path / "copy.epic", tmp_path / "export.jsonl", tmp_path / "other.epic"
    with made(path) as graph:
        graph.add(PEOPLE)
        state, looked = exactly(graph), seen(graph)
        graph.memory.file.backup(copy)
        graph.memory.file.export(lines)
        graph.memory.file.compact()
        assert exactly(graph) == state
        assert graph.memory.file.verify() > 0
    for file, options in ((path, {}), (path, {"read_only": True}), (copy, {})):
        with again(file, **options) as graph:
            assert exactly(graph) == state
    settings = Settings(verifier=KeepAll(), tau=0.1)
    with EpicMemory.restore(lines, other, encoder=HashEncoder(256), settings=settings) as memory:
        graph = GraphMemory(memory=memory, extractor=Marked())
        assert graph.counts()["outside"] == 5
        graph.update()
        assert alike(seen(graph), looked)


# embedding anew


def test_a_memory_is_embedded_anew_while_its_graph_grows(path: Path) -> None:
    class Meanwhile(Marked):
        name = "marked-v1"
        todo = True

        def answer(self, text: str) -> Any:
            if self.todo:
                self.todo = False
                graph.memory.file.reencode(HashEncoder(128, name="another"))
            return super().answer(text)

    with made(path, extractor=Meanwhile()) as graph:
        graph.add(PEOPLE)
        assert graph.counts()["passages"] == 5
        assert alike(seen(graph), seen(anew(graph, encoder=HashEncoder(128, name="another"))))


# at the same time


def test_adding_and_searching_at_the_same_time(path: Path) -> None:
    over = threading.Event()

    def searching() -> None:
        while not over.is_set():
            for query in QUERIES[:2]:
                hits = graph.search(query, 5)
                assert len({hit.item.id for hit in hits}) == len(hits)
            graph.entities()
            graph.counts()

    def adding(first: int) -> None:
        for number in range(first, first + 10):
            graph.add([Item(id=f"{number}", text=f"[Oscar Reed] drinks red wine in [Town{number % 7}] {number}")])
            if number % 3 == 0:
                graph.memory.forget(f"{number}")

    def adding_all() -> None:
        try:
            together(*(partial(adding, 100 * n) for n in range(3)))
        finally:
            over.set()

    with made(None) as graph:
        graph.add(PEOPLE)
        together(searching, adding_all)
        graph.update()
        assert graph.memory.file.verify() > 0
        assert alike(seen(graph), seen(anew(graph)))


async def test_nothing_synchronous_is_called_on_the_event_loop() -> None:
    encoder = HashEncoder(256)
    graph = made(encoder=encoder)
    await graph.aadd(PEOPLE)
    assert encoder.sync_threads == {threading.get_ident()}, "the preferences, when it was made"
    calls = encoder.calls
    encoder.sync_threads.clear()
    await graph.asearch("Reed")
    await graph.aupdate()
    await graph.aretry()
    assert encoder.calls > calls
    assert encoder.sync_threads == set()


def test_in_signed_mode_the_first_passages_are_told_apart_by_what_they_say() -> None:
    graph = GraphMemory(["I avoid hotels with casinos."], settings=Settings(coarse=False, verifier=KeepAll()))
    casino = Item(id="casino", text="The Golden Ace in Las Vegas is a hotel with a casino and slot machines.")
    graph.add([casino, Item(id="quiet", text="The Bellmore in Las Vegas is a quiet hotel with a garden.")])
    query = "Which hotel in Las Vegas should I book?"
    assert [hit.item.id for hit in graph.search(query)] == ["quiet", "casino"]
    told = found(graph, query)
    assert told["quiet"] > found(graph, query, steering="off")["quiet"]
    assert told["casino"] == pytest.approx(found(graph, query, steering="paper")["casino"], abs=0.05)
    assert "telling apart" in graph.search(query).timings
    assert "telling apart" not in graph.search(query, options=SearchOptions(stance_policy="any")).timings
