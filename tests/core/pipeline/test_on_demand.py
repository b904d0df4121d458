"""Verification on demand: what a question finds and nobody has judged is judged then, once, and kept."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from epic_memory import EpicMemory, Settings
from epic_memory.runtime.background import Background
from epic_memory.types import Candidate, Decision, Hits, Preference, Stance, Verdict
from epic_memory.types.preferences import Expansion
from helpers import Answering, Call, keep
from scripted import until

WOOL = "I'm allergic to wool."
MERINO = "A jumper of merino wool, warm enough for the winter."
COTTON = "A jumper of brushed cotton, warm enough for the winter."
TOASTER = "The toaster is under guarantee until May."
RUG = "A rug of pure new wool for the floor of the hall."
QUESTION = "Which jumper should I buy for the winter?"


BOTH_JUDGED = {COTTON: [Stance.SUPPORTS], MERINO: [Stance.CONFLICTS]}


class Model(Answering):
    """Stands for a language model: its verdicts are cached, and it can fail or hang."""

    name = "lm/judge"
    cached = True

    def __init__(self) -> None:
        super().__init__(self._verdict)
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.fails = False
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.begun = threading.Event()
        self.meanwhile: Callable[[], object] = lambda: None

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        self.begun.set()
        self.goes_on.wait(60)
        yield from super().verify(candidates)

    def _verdict(self, candidate: Candidate) -> Verdict:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        self.pairs.update((candidate.item.text, preference.text) for preference in candidate.preferences)
        if self.fails:
            return Verdict(decision=Decision.UNDECIDED, rationale="the server is down")
        if "jumper" not in candidate.item.text:
            return Verdict(decision=Decision.DISCARD)
        return keep(candidate, Stance.CONFLICTS if "wool" in candidate.item.text else Stance.SUPPORTS)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def search(call: Call) -> Call:
    """Searches with a question, one way or the other."""
    return lambda memory, question=QUESTION: call(memory, "search", question)


def memory_of(model: Model, on_demand: str | float, path: Path | None = None, **options: Any) -> EpicMemory:
    """A memory whose coarse filter lets nothing pass, so that nothing is judged when it is written."""
    settings = Settings(verifier=model, tau=1.0, on_demand=on_demand, **options)
    memory = EpicMemory([WOOL], settings=settings) if path is None else EpicMemory.open(path, [WOOL], settings=settings)
    if not memory.items():
        memory.add([MERINO, COTTON, TOASTER])
    assert not model.pairs
    return memory


def stances(hits: Hits) -> dict[str, list[Stance]]:
    return {hit.text: [entry.stance for entry in hit.entries] for hit in hits}


async def test_an_answer_waits_for_verdicts_as_long_as_it_may(model: Model, search: Call) -> None:
    memory = memory_of(model, "60 s")
    hits = await search(memory)
    assert hits[0].text == COTTON and stances(hits) == BOTH_JUDGED
    await search(memory)
    assert set(model.pairs.values()) == {1}


async def test_in_the_background_the_next_answer_is_the_better_one(model: Model, search: Call) -> None:
    memory = memory_of(model, "background")
    model.goes_on.clear()
    for _ in range(2):  # it is being asked: not twice
        assert not any(stances(await search(memory)).values())
    model.goes_on.set()
    until(lambda: len(memory.file.entries([hit.item.id for hit in memory.search(QUESTION)])) == 2)
    assert stances(await search(memory)) == BOTH_JUDGED
    assert set(model.pairs.values()) == {1}


async def test_a_model_that_hangs_holds_up_no_answer_and_no_end(model: Model, search: Call) -> None:
    model.goes_on.clear()
    memory = memory_of(model, "1 ms")
    for question in (QUESTION, "Which warm jumper is best?", "A jumper for the cold?"):
        assert await search(memory, question)
    memory.close()
    model.goes_on.set()


async def test_what_the_model_answers_while_the_memory_closes_is_kept(
    model: Model, path: Path, search: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epic_memory.memory._LAST_ANSWER", 60.0)
    # A slow machine would commit the first verdict by itself.
    monkeypatch.setattr("epic_memory.runtime.streaming._MOMENT", 60.0)
    memory = memory_of(model, "background", path)
    closing_thread, begun = threading.Thread(target=memory.close), threading.Event()

    def close() -> None:
        closing_thread.start()
        begun.set()
        until(lambda: memory._session.background.submit(lambda _: None).cancelled())

    model.meanwhile = close
    await search(memory)
    assert begun.wait(60)
    closing_thread.join()
    again = Model()
    with memory_of(again, 60.0, path) as memory:
        assert stances(await search(memory)) == BOTH_JUDGED
    assert not again.pairs


def test_what_is_discarded_stays_and_is_not_asked_about_again(model: Model, path: Path) -> None:
    question = "Which rug is best for somebody who is allergic to wool?"
    with memory_of(model, 60.0, path) as memory:
        memory.add([RUG])
        for _ in range(2):
            assert RUG in stances(memory.search(question)) and model.pairs[RUG, WOOL] == 1
        assert RUG in {item.text for item in memory.items()}
    with EpicMemory.open(path, settings=Settings(verifier=model, on_demand=60.0)) as memory:
        assert RUG in stances(memory.search(question))
    assert model.pairs[RUG, WOOL] == 1


def test_what_does_not_pass_the_coarse_filter_is_not_asked_about(model: Model) -> None:
    memory = memory_of(model, 60.0)
    question = "Which toaster is best for somebody who is allergic to wool?"
    assert {TOASTER, MERINO} <= stances(memory.search(question)).keys()
    assert (TOASTER, WOOL) not in model.pairs and model.pairs[MERINO, WOOL] == 1


async def test_a_model_that_fails_loses_nothing_and_is_asked_again(model: Model, search: Call) -> None:
    memory = memory_of(model, 60.0)
    model.fails = True
    assert stances(await search(memory)) == {MERINO: [], COTTON: []}
    assert memory.stats().counts["pending"] == 0 and len(memory.items()) == 3
    # What waits for other verdicts goes on waiting.
    memory.preferences.add(Preference(text="I work at night.", expansion=Expansion(breaks=("jumper",))))
    assert memory.stats().counts["pending"] == 2
    model.fails = False
    found = stances(await search(memory))
    assert Stance.SUPPORTS in found[COTTON] and all(found.values())
    assert memory.stats().counts["pending"] == 2


@pytest.mark.parametrize(
    ("options", "question"),
    [
        ({"on_demand": "off"}, QUESTION),
        ({"on_demand": 60.0}, "Thanks!"),
        ({"on_demand": 60.0}, "When does the guarantee of the toaster end?"),
        ({"on_demand": 60.0, "read_only": True}, QUESTION),
    ],
    ids=["off", "chat", "what stands in a note", "only read"],
)
def test_nobody_is_asked_where_no_verdict_counts(
    model: Model, path: Path, options: dict[str, Any], question: str
) -> None:
    memory_of(model, "off", path).close()
    with memory_of(model, path=path, **options) as memory:
        hits = memory.search(question)
        assert set(stances(hits)) == {MERINO, COTTON} or question != QUESTION
    assert not model.pairs


def test_without_a_model_nothing_is_judged_later() -> None:
    memory = EpicMemory([WOOL], settings=Settings(tau=1.0, on_demand=60.0))
    memory.add([MERINO, COTTON])
    assert not any(stances(memory.search(QUESTION)).values())


def test_verdicts_wait_for_another_process_that_writes_and_no_search_does(model: Model, path: Path) -> None:
    model.goes_on.clear()
    with memory_of(model, "background", path) as memory:
        memory.search(QUESTION)
        assert model.begun.wait(60)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            model.goes_on.set()
            until(lambda: bool(model.pairs))
            started = time.perf_counter()
            for _ in range(20):
                memory.search(QUESTION)
                time.sleep(0.01)
            assert time.perf_counter() - started < 5
            other.execute("COMMIT")
        until(lambda: all(stances(memory.search(QUESTION)).values()))
        assert set(model.pairs.values()) == {1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes of this kind")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_jobs_are_done_in_a_process_that_was_forked_too() -> None:
    background = Background()
    background.submit(lambda _: None).result(60)
    if (child := os.fork()) == 0:
        try:
            background.submit(lambda _: None).result(10)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(("gone", "left"), [("text", 1), ("preference", 0)])
def test_a_verdict_on_what_went_meanwhile_is_not_kept(model: Model, path: Path, gone: str, left: int) -> None:
    model.goes_on.clear()
    with memory_of(model, "background", path) as memory:
        memory.search(QUESTION)
        until(lambda: memory._session.background.waiting == 0)
        if gone == "text":
            memory.forget(next(item for item in memory.items() if item.text == MERINO))
        else:
            memory.preferences.remove(WOOL)
        model.goes_on.set()
        until(lambda: len(model.pairs) == 2)
        memory._session.background.submit(lambda _: None).result(60)
        assert memory.stats().counts["verdicts"] == len(memory.file.entries([i.id for i in memory.items()])) == left
        assert (MERINO in {item.text for item in memory.items()}) == (gone != "text")


def test_pairs_of_which_no_verdict_could_be_written_are_asked_about_again(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = memory_of(model, 60.0)

    def broken(*_: object) -> None:
        raise RuntimeError("a part that is broken")

    with monkeypatch.context() as patched:
        patched.setattr("epic_memory.pipeline.on_demand.written", broken)
        assert not any(stances(memory.search(QUESTION)).values())
    assert all(stances(memory.search(QUESTION)).values())
