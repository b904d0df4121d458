"""GraphMemory: extractors that fail, interruptions, and bad input."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from epic_graph import Extraction, Fact, GraphMemory, Unextracted
from epic_graph import ingest as growing
from epic_memory import Item
from epic_memory.errors import InvalidInputError, MemoryClosedError, UnknownEntityError, UnknownItemError, VerifierError
from epic_memory.types import Usage
from graph_helpers import (
    PEOPLE,
    WINE,
    Failing,
    Marked,
    Saying,
    again,
    alike,
    anew,
    answering_some,
    exactly,
    failing_at_once,
    failing_midway,
    found,
    made,
    recounted,
    seen,
    unextracted,
)
from helpers import HashEncoder, both, searching, settled


@pytest.fixture
def graph() -> GraphMemory:
    graph = made()
    graph.add(PEOPLE)
    return graph


# extractors that fail


WRONG = {"at once": failing_at_once, "midway": failing_midway, "for some": answering_some, "says so": unextracted}
FAILED = {"at once": 5, "midway": 4, "for some": 2, "says so": 3}


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
def test_what_the_extractor_fails_for_is_found_by_its_text_and_tried_again(path: Path, how: str, sync: bool) -> None:
    extractor, failed = Failing(WRONG[how]), FAILED[how]
    with made(path, extractor=extractor) as graph:
        report = graph.add(PEOPLE) if sync else asyncio.run(graph.aadd(PEOPLE))
        assert (report.passages, report.failed, graph.counts()["failed"]) == (5, failed, failed)
        assert report.failures == graph.failures()
        assert len(report.failures) == failed and all(report.failures.values())
        assert len(report.answers) == (3 if how == "says so" else 0)
        assert f"{failed}" in str(report) and next(iter(report.failures.values())) in str(report)
        assert len(found(graph, "red wine")) == 5
        # Neither adding nor updating asks again.
        asked = graph.counts()
        graph.update()
        assert graph.counts() == asked
    extractor.mended = True
    with again(path, extractor=extractor) as graph:
        assert len(graph.failures()) == failed
        report = graph.retry() if sync else asyncio.run(graph.aretry())
        assert (report.passages, report.failed, graph.failures()) == (failed, 0, {})
        assert alike(seen(graph), seen(anew(graph)))
        recounted(path)


BROKEN: dict[str, Any] = {
    "no extraction": lambda _: "Oscar",
    "nothing": lambda _: None,
    "no names": lambda _: Extraction((5,)),  # type: ignore[arg-type]
    "names as bytes": lambda _: Extraction((b"Oscar",)),  # type: ignore[arg-type]
    "one name": lambda _: Extraction("Oscar"),  # type: ignore[arg-type]
    "no facts": lambda _: Extraction(("Oscar",), (("Oscar", "is", "he"),)),  # type: ignore[arg-type]
    "no ends": lambda _: Extraction(("Oscar",), (Fact("Oscar", "is", None),)),  # type: ignore[arg-type]
    "no usage": lambda _: Extraction(("Oscar",), (), None),  # type: ignore[arg-type]
    "no usage but a text": lambda _: Extraction(("Oscar",), (), "much"),  # type: ignore[arg-type]
    "no reason": lambda _: Unextracted(None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("say", BROKEN.values(), ids=BROKEN.keys())
def test_an_extractor_that_keeps_no_contract_is_an_error(say: Any) -> None:
    graph = made(extractor=Saying(say))
    with pytest.raises(VerifierError, match="saying-v1"):
        graph.add(PEOPLE)
    assert len(graph) == 5
    assert graph.counts()["outside"] == 5
    graph.extractor = Marked()
    assert graph.update().passages == 5


def test_what_a_model_was_used_for_is_added_up() -> None:
    def say(text: str) -> Any:
        used = Usage(calls=1, seconds=0.5)
        return Unextracted("no", usage=used) if "Idris" in text else Extraction(("Clara",), usage=used)

    graph = made(extractor=Saying(say))
    report = graph.add(PEOPLE)
    assert (report.usage.calls, report.usage.seconds) == (5, 2.5)
    assert "5 calls" in str(report)
    assert graph.retry().usage.calls == 2


STRANGE: dict[str, tuple[Any, list[str]]] = {
    "no letters": (Extraction(("...", "!?", "", " ", "\U0001f377")), []),
    "one with letters": (Extraction(("...", "  Oscar \n Reed ")), ["Oscar Reed"]),
    "several spellings": (Extraction(("Oscar Reed", "OSCAR REED", "the oscar reeds", "Oscar Reed's")), ["Oscar Reed"]),
    "full-width letters": (Extraction(("Oscar Reed", "ＯＳＣＡＲ Reed")), ["Oscar Reed"]),
    "facts with other ends": (Extraction((), (Fact("Oscar", "met", "Clara"),)), ["Oscar", "Clara"]),
    "facts with no ends": (Extraction(("Oscar",), (Fact("", "met", "Oscar"), Fact("...", "is", ""))), ["Oscar"]),
    "a fact of one": (Extraction(("Oscar",), (Fact("Oscar", "is", "the OSCAR"),)), ["Oscar"]),
    "a huge name": (Extraction(("x" * 100_000, "Oscar")), ["Oscar"]),
    "a huge relation": (Extraction((), (Fact("Oscar", "y" * 100_000, "Clara"),)), ["Oscar", "Clara"]),
    "surrogates": (Extraction(("Osc\ud800ar",), (Fact("Oscar", "\udfff", "Osc\ud800ar"),)), ["Osc?ar", "Oscar"]),
    "a NUL": (Extraction(("Osc\x00ar",)), ["Oscar"]),
    "other scripts": (Extraction(("北京", "Москва", "القاهرة", "서울")), ["北京", "Москва", "القاهرة", "서울"]),
}


@pytest.mark.parametrize(("answer", "names"), STRANGE.values(), ids=STRANGE.keys())
def test_strange_names(path: Path, answer: Extraction, names: list[str]) -> None:
    with made(path, extractor=Saying(lambda _: answer)) as graph:
        graph.add([PEOPLE[0]])
        assert graph.entities() == graph.entities("oscar") == names
        assert all(one in names and other in names for one, _, other in graph.facts("oscar"))
        for name in names:
            assert graph.neighbours(name) is not None
        state = exactly(graph)
        recounted(path)
    with again(path) as graph:
        assert exactly(graph) == state
        assert graph.memory.file.verify() > 0


@pytest.mark.parametrize(
    ("text", "query"), [("Москва и Берлин, red wine", "Что есть Москва?"), ("北京的红酒 red wine", "北京")]
)
def test_text_in_another_script(text: str, query: str) -> None:
    graph = made(extractor=None)
    graph.add([Item(id="other", text=text), *PEOPLE])
    hits = graph.search(query, 1)
    assert graph.entities("other")
    assert hits.entities
    assert hits[0].item.id == "other"


def test_a_passage_with_more_entities_than_can_be(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Their places have two bytes; as many as that take some seconds.
    assert growing.MOST_ENTITIES == 2**16
    monkeypatch.setattr(growing, "MOST_ENTITIES", 2_000)
    names = tuple(f"entity {n:05}" for n in range(2_100))
    facts = (Fact(names[0], "is", names[1]), Fact(names[0], "is not", names[-1]))
    extractor = Saying(lambda _: Extraction(names, facts))
    with made(path, extractor=extractor, encoder=HashEncoder(4)) as graph:
        report = graph.add([PEOPLE[0]])
        assert report.entities == graph.counts()["entities"] == 2_000
        assert graph.facts("oscar") == [("entity 00000", "is", "entity 00001")]
        graph.memory.forget("oscar")
        assert graph.entities() == []


# interruptions


class Interrupting(Marked):
    """Is interrupted at some text."""

    def __init__(self, error: type[BaseException], at: int) -> None:
        super().__init__()
        self.error = error
        self.at = at
        self.interrupts = True

    def answer(self, text: str) -> Any:
        if self.interrupts and len(self.asked) == self.at:
            raise self.error
        return super().answer(text)


@pytest.mark.parametrize(("error", "at"), [(KeyboardInterrupt, 0), (SystemExit, 3)])
def test_what_was_committed_before_an_interruption_stays(path: Path, error: type[BaseException], at: int) -> None:
    extractor = Interrupting(error, at)
    with made(path, extractor=extractor) as graph:
        with pytest.raises(error):
            graph.add(PEOPLE)
        assert graph.counts()["passages"] == at
        assert len(graph) == 5
        assert len(found(graph, "Oscar Reed")) == 5
    extractor.interrupts = False
    with again(path, extractor=extractor) as graph:
        # What an interruption left outside is taken in by an update, and by the next addition.
        report = graph.add(PEOPLE) if at else graph.update()
        assert report.passages == 5 - at
        assert alike(seen(graph), seen(anew(graph)))


# bad input


def test_bad_arguments_are_named(graph: GraphMemory) -> None:
    class Nameless:
        stream = astream = Marked.stream

    for options, said in (
        ({"extractor": Marked}, "extractor"),
        ({"extractor": object()}, "extractor"),
        ({"extractor": Nameless()}, "extractor"),
        ({"preferences": 5}, "preferences"),
        ({"tau": 7}, "tau"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            GraphMemory(**settled(**options))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="steer"):
        GraphMemory([WINE], steer="off")  # type: ignore[call-arg]
    for arguments in ({"tau": 0.2}, {"preferences": [WINE]}, {"preferences": 5}):
        with pytest.raises(InvalidInputError, match="memory="):
            GraphMemory(memory=graph.memory, **settled(**arguments))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="EpicMemory"):
        GraphMemory(memory="me.epic")  # type: ignore[arg-type]


async def test_bad_queries_are_named(graph: GraphMemory) -> None:
    calls: list[tuple[Any, dict[str, Any]]] = [(query, {}) for query in ("", "  ", None, 5)]
    calls += [("Oscar", {"k": k}) for k in (0, -1, 1.5, True)]
    calls += [("Oscar", {"steering": "sideways"}), ("Oscar", {"stance_policy": "all"}), ("Oscar", {"filter": {"n": 1}})]
    for query, options in calls:
        with pytest.raises(InvalidInputError):
            await both(graph, "search", query, **searching(**options))
    for look in (graph.entities, graph.facts, graph.neighbours):
        with pytest.raises(InvalidInputError):
            look(5)  # type: ignore[operator]
    for name in ("Nobody", "..."):
        with pytest.raises(UnknownEntityError, match=name):
            graph.neighbours(name)
    with pytest.raises(UnknownItemError):
        graph.memory.forget("nobody")
    for items in (5, [5], b"red wine", {"a": 1}):
        with pytest.raises(InvalidInputError):
            graph.add(items)  # type: ignore[arg-type]


async def test_a_closed_graph_says_so(path: Path) -> None:
    graph = made(path)
    graph.add(PEOPLE)
    graph.close()
    graph.close()
    for name, *given in (("search", "Oscar"), ("add", "red wine"), ("update",), ("retry",), ("reextract",)):
        with pytest.raises(MemoryClosedError, match="closed"):
            await both(graph, name, *given)
    looks: list[Any] = [graph.entities, graph.counts, graph.failures]
    for look in (*looks, lambda: graph.facts("oscar"), lambda: graph.neighbours("Clara")):
        with pytest.raises(MemoryClosedError, match="closed"):
            look()
    assert "closed" in repr(graph)


def test_a_new_file_is_removed_again_if_the_graph_cannot_be(path: Path) -> None:
    with pytest.raises(InvalidInputError, match="extractor"):
        made(path, extractor=object())
    assert not path.exists()
