"""Verification on demand: what a question finds and nobody has judged is judged then, once, and kept."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from epic_memory import EpicMemory, Settings
from epic_memory.errors import InvalidInputError
from epic_memory.runtime.background import Background
from epic_memory.types import Alignment, Candidate, Decision, Hits, Preference, Stance, Verdict
from epic_memory.types.preferences import Expansion
from epic_memory.verification.base import BaseVerifier
from helpers import settled
from scripted import until

WOOL = "I'm allergic to wool."
MERINO = "A jumper of merino wool, warm enough for the winter."
COTTON = "A jumper of brushed cotton, warm enough for the winter."
TOASTER = "The toaster is under guarantee until May."
RUG = "A rug of pure new wool for the floor of the hall."
QUESTION = "Which jumper should I buy for the winter?"


class Model(BaseVerifier):
    """Stands for a language model: its verdicts are cached, and it can fail or hang."""

    name = "lm/judge"
    cached = True

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, str]] = Counter()
        self.fails = False
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.begun = threading.Event()
        self.meanwhile: Callable[[], object] = lambda: None

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        self.begun.set()
        self.goes_on.wait(60)
        for candidate in candidates:
            yield self._verdict(candidate)

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        for candidate in candidates:
            yield self._verdict(candidate)

    def _verdict(self, candidate: Candidate) -> Verdict:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        self.asked.update((candidate.item.text, preference.text) for preference in candidate.preferences)
        if self.fails:
            return Verdict(decision=Decision.UNDECIDED, rationale="the server is down")
        if "jumper" not in candidate.item.text:
            return Verdict(decision=Decision.DISCARD)
        stance = Stance.CONFLICTS if "wool" in candidate.item.text else Stance.SUPPORTS
        return Verdict(
            decision=Decision.KEEP,
            alignments=tuple(
                Alignment(preference_id=preference.id, instruction="Mind the wool.", stance=stance)
                for preference in candidate.preferences
            ),
        )


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture(params=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "async")


def memory_of(model: Model, on_demand: str | float, path: Path | None = None) -> EpicMemory:
    """A memory whose coarse filter lets nothing pass, so that nothing is judged when it is written."""
    options = {"verifier": model, "tau": 1.0, "on_demand": on_demand}
    memory = (
        EpicMemory([WOOL], **settled(**options))
        if path is None
        else EpicMemory.open(path, [WOOL], **settled(**options))
    )
    if len(memory) == 0:
        memory.add([MERINO, COTTON, TOASTER])
    assert not model.asked
    return memory


def found(memory: EpicMemory, is_async: bool = False, question: str = QUESTION) -> Hits:
    return asyncio.run(memory.asearch(question)) if is_async else memory.search(question)


def stances(hits: Hits) -> dict[str, list[Stance]]:
    return {hit.text: [entry.stance for entry in hit.entries] for hit in hits}


def test_an_answer_waits_for_verdicts_as_long_as_it_may(model: Model, is_async: bool) -> None:
    memory = memory_of(model, "60 s")
    hits = found(memory, is_async)
    assert hits[0].text == COTTON
    assert stances(hits) == {COTTON: [Stance.SUPPORTS], MERINO: [Stance.CONFLICTS]}
    found(memory, is_async)
    assert set(model.asked.values()) == {1}


def test_in_the_background_the_next_answer_is_the_better_one(model: Model, is_async: bool) -> None:
    memory = memory_of(model, "background")
    model.goes_on.clear()
    assert not any(stances(found(memory, is_async)).values())
    assert not any(stances(found(memory, is_async)).values())  # it is being asked: not twice
    model.goes_on.set()
    until(lambda: len(memory.file.entries([hit.item.id for hit in found(memory)])) == 2)
    assert stances(found(memory, is_async)) == {COTTON: [Stance.SUPPORTS], MERINO: [Stance.CONFLICTS]}
    assert set(model.asked.values()) == {1}


def test_a_model_that_hangs_holds_up_no_answer_and_no_end(model: Model, is_async: bool) -> None:
    model.goes_on.clear()
    memory = memory_of(model, "1 ms")
    for question in (QUESTION, "Which warm jumper is best?", "A jumper for the cold?"):
        assert found(memory, is_async, question)
    memory.close()
    model.goes_on.set()


def test_what_the_model_answers_while_the_memory_closes_is_kept(
    model: Model, path: Path, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epic_memory.memory._LAST_ANSWER", 60.0)
    memory = memory_of(model, "background", path)
    closing = threading.Thread(target=memory.close)
    begun = threading.Event()

    def close() -> None:
        closing.start()
        begun.set()
        until(lambda: memory._session.background.submit(lambda _: None).cancelled())

    model.meanwhile = close
    found(memory, is_async)
    assert begun.wait(60)
    closing.join()
    again = Model()
    with memory_of(again, 60.0, path) as memory:
        assert stances(found(memory, is_async)) == {COTTON: [Stance.SUPPORTS], MERINO: [Stance.CONFLICTS]}
    assert not again.asked


def test_what_is_discarded_stays_and_is_not_asked_about_again(model: Model, path: Path) -> None:
    question = "Which rug is best for somebody who is allergic to wool?"
    with memory_of(model, 60.0, path) as memory:
        memory.add([RUG])
        assert RUG in stances(found(memory, question=question))
        assert model.asked[RUG, WOOL] == 1
        assert RUG in stances(found(memory, question=question))
        assert RUG in {item.text for item in memory.items()}
    with EpicMemory.open(path, settings=Settings(verifier=model, on_demand=60.0)) as memory:
        assert RUG in stances(found(memory, question=question))
    assert model.asked[RUG, WOOL] == 1


def test_what_does_not_pass_the_coarse_filter_is_not_asked_about(model: Model) -> None:
    memory = memory_of(model, 60.0)
    question = "Which toaster is best for somebody who is allergic to wool?"
    assert {TOASTER, MERINO} <= stances(found(memory, question=question)).keys()
    assert (TOASTER, WOOL) not in model.asked and model.asked[MERINO, WOOL] == 1


def test_a_model_that_fails_loses_nothing_and_is_asked_again(model: Model, is_async: bool) -> None:
    memory = memory_of(model, 60.0)
    model.fails = True
    before = stances(found(memory, is_async))
    assert set(before) == {MERINO, COTTON} and not any(before.values())
    assert memory.stats().counts["pending"] == 0 and len(list(memory.items())) == 3
    model.fails = False
    assert stances(found(memory, is_async))[COTTON] == [Stance.SUPPORTS]


@pytest.mark.parametrize(
    ("on_demand", "question"),
    [("off", QUESTION), (60.0, "Thanks!"), (60.0, "When does the guarantee of the toaster end?")],
    ids=["off", "chat", "what stands in a note"],
)
def test_nobody_is_asked_where_no_verdict_counts(model: Model, on_demand: str | float, question: str) -> None:
    memory = memory_of(model, on_demand)
    found(memory, question=question)
    assert not model.asked


def test_a_memory_that_is_only_read_asks_nobody(model: Model, path: Path) -> None:
    memory_of(model, "off", path).close()
    with EpicMemory.open(path, settings=Settings(verifier=model, on_demand=60.0, read_only=True)) as memory:
        assert set(stances(found(memory))) == {MERINO, COTTON}
    assert not model.asked


def test_without_a_model_nothing_is_judged_later() -> None:
    memory = EpicMemory([WOOL], settings=Settings(tau=1.0, on_demand=60.0))
    memory.add([MERINO, COTTON])
    assert not any(stances(found(memory)).values())


@pytest.mark.parametrize("given", ["soon", "300", "-1 s", -1.0, float("inf"), True, "9" * 400 + " s"])
def test_a_time_that_is_none_is_refused(given: object) -> None:
    with pytest.raises(InvalidInputError, match="on_demand"):
        EpicMemory(settings=Settings(on_demand=given))  # type: ignore[arg-type]


def test_verdicts_wait_for_another_process_that_writes_and_no_search_does(model: Model, path: Path) -> None:
    model.goes_on.clear()
    with memory_of(model, "background", path) as memory:
        found(memory)
        assert model.begun.wait(60)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            model.goes_on.set()
            until(lambda: bool(model.asked))
            started = time.perf_counter()
            for _ in range(20):
                found(memory)
                time.sleep(0.01)
            assert time.perf_counter() - started < 5
            other.execute("COMMIT")
        until(lambda: all(stances(found(memory)).values()))
        assert set(model.asked.values()) == {1}


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


def verdicts_in(memory: EpicMemory) -> int:
    return memory.stats().counts["verdicts"]


def test_a_verdict_on_what_was_forgotten_meanwhile_is_not_kept(model: Model, path: Path) -> None:
    model.goes_on.clear()
    with memory_of(model, "background", path) as memory:
        held = {item.text: item.id for item in memory.items()}
        found(memory)
        until(lambda: memory._session.background.waiting == 0)
        memory.forget(held[MERINO])
        model.goes_on.set()
        until(lambda: bool(memory.file.entries([held[COTTON]])))
        assert MERINO not in {item.text for item in memory.items()}
        assert verdicts_in(memory) == 1


def test_a_verdict_under_what_was_removed_meanwhile_is_not_kept(model: Model, path: Path) -> None:
    model.goes_on.clear()
    with memory_of(model, "background", path) as memory:
        found(memory)
        until(lambda: memory._session.background.waiting == 0)
        memory.preferences.remove(WOOL)
        model.goes_on.set()
        until(lambda: len(model.asked) == 2)
        memory._session.background.submit(lambda _: None).result(60)
        assert verdicts_in(memory) == 0


def test_what_waits_for_other_verdicts_goes_on_waiting(model: Model) -> None:
    memory = memory_of(model, 60.0)
    model.fails = True
    memory.preferences.add(Preference(text="I work at night.", expansion=Expansion(breaks=("jumper",))))
    assert memory.stats().counts["pending"] == 2
    model.fails = False
    assert all(stances(found(memory)).values())
    assert memory.stats().counts["pending"] == 2


def test_pairs_of_which_no_verdict_could_be_written_are_asked_about_again(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = memory_of(model, 60.0)

    def broken(*_: object) -> Iterator[None]:
        raise RuntimeError("a part that is broken")
        yield

    with monkeypatch.context() as patched:
        patched.setattr("epic_memory.pipeline.on_demand.written", broken)
        assert not any(stances(found(memory)).values())
    assert all(stances(found(memory)).values())
