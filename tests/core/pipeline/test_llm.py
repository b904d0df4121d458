"""One language model for all that one can do: `EpicMemory(llm=..., model_budget=...)`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epic_memory import EpicMemory, Settings
from epic_memory.errors import LMUnavailableError
from epic_memory.lm import OllamaLM
from epic_memory.lm.budget import BudgetedLM, ModelBudget
from epic_memory.types import Stance
from helpers import Call, Clock
from lm_servers import NOT_JSON, LMServer, Reply
from minds import CHAT, Mind
from scripted import Own, forget_environment, instruction_for, until

BEANS, TRAINS = PREFERENCES = ["I like to cook with beans.", "I travel by train."]
ITEMS = [f"Note {number} of a stew of beans, eaten on a train." for number in range(24)]
QUESTION = "Which stew of beans should I cook?"


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes before another attempt."""

    async def none(*_: object) -> None:
        pass

    monkeypatch.setattr("epic_memory.lm.client.Pause.run", lambda *_: None)
    monkeypatch.setattr("epic_memory.lm.client.Pause.arun", none)


def opened(path: Path, mind: Mind, budget: int | str | None = None, **options: Any) -> EpicMemory:
    """A memory whose model keeps to a budget, and which is asked about every text."""
    settings = Settings(**{"model_budget": budget, "tau": -1.0, **options})
    return EpicMemory.open(path, PREFERENCES, llm=Own(mind, concurrency=1), settings=settings)


def all_asked_once(mind: Mind) -> bool:
    return set(mind.answered.values()) == {1}


def wanted(memory: EpicMemory) -> bool:
    """Whether the memory holds all that the model says of all items."""
    found = {item.text: memory.explain(item.id).entries for item in memory.items()}
    return len(found) == len(ITEMS) and all(
        {entry.instruction for entry in entries} == {instruction_for(text, each) for each in PREFERENCES}
        for text, entries in found.items()
    )


# what it does


@pytest.fixture(params=["name", "model"])
def llm(request: pytest.FixtureRequest, mind: Mind, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model in the forms in which it may be given; a framework's are tested with the plugins."""
    if request.param == "model":
        return Own(mind)
    forget_environment(monkeypatch)
    server = LMServer(lambda body: mind(body["messages"]))
    server.start()
    request.addfinalizer(server.stop)
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    return "ollama:tiny"


async def test_one_word_does_all_that_a_model_can(llm: Any, mind: Mind, path: Path, call: Call) -> None:
    with EpicMemory.open(path, PREFERENCES, llm=llm, settings=Settings(tau=-1.0)) as memory:
        assert {made.source for made in memory.preferences.expansions().values() if made is not None} == {"model"}
        assert {made.source for made in memory.preferences.aspects().values()} == {"model"}
        await call(memory, "add", ITEMS)
        assert wanted(memory)
        (proposal,) = await call(memory, "proposals.propose", CHAT)
        assert proposal.text == "I am a vegetarian."
        await call(memory, "facts.add", "I call my cat Miso.")
        report = await call(memory, "facts.add", "My rent is 900 euros.")
        assert [edit.kind for edit in report.edits] == ["replace"]
        assert memory.opening_report.usage.calls == 2
    assert mind.kinds >= {"read", "propose", "compare"} and all_asked_once(mind)
    with EpicMemory.open(path) as memory:
        name = llm.name if isinstance(llm, Own) else ""
        assert re.search(rf"^verified by +lm/{name}", str(memory.stats()), re.M)


async def test_what_a_question_finds_is_judged_in_the_background(mind: Mind, call: Call) -> None:
    memory = EpicMemory(PREFERENCES, llm=Own(mind), settings=Settings(tau=1.0))
    memory.add(ITEMS[:3])
    assert memory.stats().counts["entries"] == 0
    assert len(await call(memory, "search", QUESTION)) == 3
    until(lambda: memory.stats().counts["entries"] > 0)
    until(lambda: any(hit.instructions for hit in memory.search(QUESTION)))
    assert all_asked_once(mind)


def test_a_verifier_of_ones_own_stays_and_the_model_does_the_rest(mind: Mind) -> None:
    memory = EpicMemory(PREFERENCES, llm=Own(mind), settings=Settings(verifier=EpicMemory().verifier, tau=-1.0))
    memory.add(ITEMS[:2])
    assert mind.kinds == {"read"}


def test_who_names_no_model_meets_nothing_of_it(path: Path) -> None:
    script = f"""
import sys
from epic_memory import EpicMemory
with EpicMemory.open({str(path)!r}, {PREFERENCES!r}) as memory:
    memory.add({ITEMS[:3]!r}), memory.search("Which stew?"), memory.retry(), memory.stats()
met = ("epic_memory.lm", "httpx", "ollama", "langchain", "llama_index")
print([name for name in sys.modules if name.startswith(met)])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == "[]"
    with EpicMemory.open(path) as memory:
        assert (memory.stats().model_use, memory.stats().waiting, memory.stats().unread) == (None, "", 0)


# the budget


async def test_what_is_left_over_waits_is_found_and_is_taken_up(
    mind: Mind, path: Path, clock: Clock, call: Call
) -> None:
    with opened(path, mind, 3) as memory:
        report = await call(memory, "add", ITEMS)
        assert mind.asked == 3 and report.usage.calls == 1
        waiting = {item.id for item in memory.items(waiting=True)}
        assert len(waiting) == report.undecided == memory.stats().counts["pending"] > 0
        assert f"budget of 3 calls a day is used up: {len(waiting)} items and 0 preferences wait" in str(report)
        assert re.search(r"^model +3 calls, \d+ tokens today, of 3 calls a day$", str(memory.stats()), re.M)
        assert f"{len(waiting)} items to be verified" in str(memory.stats())
        hits = await call(memory, "search", "A note of a stew of beans, eaten on a train", 24)
        assert {hit.item.id for hit in hits if hit.tier == "waiting"} == waiting
        assert {hit.tier for hit in hits} == {"memory", "waiting"}
        assert memory.add(ITEMS[-1:]).waiting == (memory.items(waiting=True)[-1].text == ITEMS[-1])
        again = await call(memory, "retry")
        assert mind.asked == 3 and again.undecided == len(waiting) and again.usage.calls == 0
    with opened(path, mind, 3) as memory:  # another process, the same day
        assert memory.retry().undecided == len(waiting) and mind.asked == 3
    clock.pass_by(1)
    with opened(path, mind, 100) as memory:
        assert memory.stats().model_use is None
        assert (await call(memory, "retry")).kept == len(waiting) and wanted(memory)
        assert {hit.tier for hit in memory.search(ITEMS[-1], 24)} == {"memory"}
    assert all_asked_once(mind)


def test_the_next_day_takes_up_what_waits_by_itself(mind: Mind, path: Path, clock: Clock) -> None:
    with opened(path, mind, 3) as memory:
        memory.add(ITEMS[:-1])
        assert memory.stats().counts["pending"] > 0
        memory._session.model_budget.limit = 100
        clock.pass_by(1)
        memory.add(ITEMS[-1:])
        until(lambda: memory.stats().counts["pending"] == 0)
        assert wanted(memory)
    assert all_asked_once(mind)


def test_a_budget_of_tokens_which_a_model_may_bring(mind: Mind, path: Path) -> None:
    with opened(path, mind, "1 tokens") as memory:
        # The first call is within it, and takes more than it has.
        assert mind.asked == 1
        assert memory.add(ITEMS).undecided == len(ITEMS)
    assert mind.asked == 1
    with opened(path, mind, "100_000_000 tokens a day") as memory:
        memory.retry()
        assert wanted(memory)
    assert all_asked_once(mind)
    theirs = Mind()
    memory = EpicMemory(PREFERENCES, llm=BudgetedLM(Own(theirs), ModelBudget(2)), settings=Settings(tau=-1.0))
    assert memory.add(ITEMS).undecided == len(ITEMS) and theirs.asked == 2
    assert "of 2 calls a day" in str(memory.stats().model_use)


@pytest.mark.parametrize("together", [True, False], ids=["side by side", "one after the other"])
def test_processes_share_the_budget(mind: Mind, path: Path, together: bool) -> None:
    with opened(path, mind) as memory:
        assert len(memory.preferences) == mind.asked == 2
    first = opened(path, mind, 3)
    second = opened(path, mind, 3) if together else None
    first.add(ITEMS[:2])
    assert 1 <= mind.asked - 2 <= 2
    if second is None:
        first.close()
        second = opened(path, mind, 3)
    second.add(ITEMS[2:])
    assert mind.asked - 2 == 3
    if together:
        assert first.add(["A third stew of beans, on a train."]).undecided == 1 and mind.asked - 2 == 3
    for memory in (first, second):
        memory.close()


def test_a_call_without_an_answer_is_not_counted(mind: Mind, path: Path, pauses: None) -> None:
    mind.well, mind.fault = False, lambda: (_ for _ in ()).throw(LMUnavailableError("It is down."))
    with opened(path, mind, 30) as memory:
        assert memory.add(ITEMS).undecided == len(ITEMS)
        assert "is used up" not in str(memory.retry())
        mind.well = True
        memory.retry()
        assert wanted(memory)
    assert all_asked_once(mind)


def test_a_budget_that_is_used_up_leaves_answers_as_they_are(mind: Mind, path: Path, clock: Clock) -> None:
    with opened(path, mind, 2, tau=1.0, on_demand=60.0) as memory:
        memory.add(ITEMS[:3])
        assert [hit.entries for hit in memory.search(QUESTION)] == [()] * 3
        assert mind.asked == 2 and memory.stats().counts["pending"] == 0
        clock.pass_by(1)
        assert any(hit.instructions for hit in memory.search(QUESTION))


FAULTS: dict[str, Callable[[], Reply | str]] = {
    "fails": lambda: Reply(status=500, text="out of memory"),
    "cuts": lambda: Reply(text='{"decision": "Ke', cut=True),
    "breaks off": lambda: Reply(text="Keep", break_off=True),
    "hangs": lambda: Reply(delay=1.0),
    "says nothing of use": lambda: Reply(text="Who knows."),
    "is no model": lambda: NOT_JSON,
}


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_server_that_fails_loses_nothing_and_is_asked_nothing_twice(
    mind: Mind, path: Path, fault: str, call: Call
) -> None:
    mind.fault, mind.well, items = FAULTS[fault], False, ITEMS[:4]
    with LMServer(lambda body: mind(body["messages"])) as server:
        llm = OllamaLM("tiny", host=server.url, timeout=0.1 if fault == "hangs" else 60.0)
        with EpicMemory.open(path, PREFERENCES, llm=llm, settings=Settings(tau=-1.0)) as memory:
            assert memory.preferences.unread == PREFERENCES and len(memory.preferences) == 2
            report = await call(memory, "add", items)
            assert report.undecided == memory.stats().counts["pending"] == len(items) == len(report.failures)
            assert {item.text for item in memory.items(waiting=True)} == set(items)
            assert (await call(memory, "proposals.propose", CHAT)).report.failures
            await call(memory, "facts.add", "I call my cat Miso.")
            added = await call(memory, "facts.add", "My rent is 900 euros.")
            assert [edit.kind for edit in added.edits] == ["insert"] and added.warnings

        llm = OllamaLM("tiny", host=server.url)
        mind.well = True
        with EpicMemory.open(path, llm=llm, settings=Settings(tau=-1.0)) as memory:
            report = await call(memory, "retry")
            assert (report.kept, report.undecided, memory.preferences.unread) == (len(items), 0, [])
            assert len(await call(memory, "proposals.propose", CHAT)) == 1
            held = {item.id: memory.explain(item.id).entries for item in memory.items() if not item.fact}
            assert [len(entries) for entries in held.values()] == [2] * len(items)
            # What is known is not asked again, whatever would be said now.
            mind.stance, before = Stance.CONFLICTS, mind.asked
            await call(memory, "add", items)
            await call(memory, "retry")
            await call(memory, "search", QUESTION)
        with EpicMemory.open(path, llm=llm, settings=Settings(tau=-1.0)) as memory:
            memory.add(items)
            assert {id_: memory.explain(id_).entries for id_ in held} == held
    assert mind.asked == before and all_asked_once(mind)


BEAN_NOTES = ["Kidney beans have to be soaked overnight.", "Beans are sold by the pound at the market."]
ABOUT_BEANS = "Which beans should I cook?"


@pytest.fixture
def built_without(path: Path) -> Path:
    with EpicMemory.open(path, PREFERENCES) as memory:
        memory.add(BEAN_NOTES)
        assert stances(memory) == {Stance.NEUTRAL} and memory.preferences.unread == []
    return path


def stances(memory: EpicMemory) -> set[Stance]:
    """How the notes of beans stand to the preference about them."""
    notes = [item.id for item in memory.items() if item.text in BEAN_NOTES]
    return {entry.stance for each in notes for entry in memory.explain(each).entries if entry.preference == BEANS}


@pytest.mark.parametrize("discards", [False, True], ids=["keeps", "discards"])
async def test_what_came_before_the_model_is_judged_by_a_question_and_preferences_are_read(
    mind: Mind, built_without: Path, call: Call, discards: bool
) -> None:
    mind.stance = None if discards else Stance.CONFLICTS
    options: dict[str, Any] = {"llm": Own(mind), "settings": Settings(tau=-1.0, on_demand=60.0)}
    with EpicMemory.open(built_without, **options) as memory:
        assert memory.preferences.unread == PREFERENCES == list(memory.opening_report.unread)
        assert mind.asked == 0
        await call(memory, "search", ABOUT_BEANS)
        assert stances(memory) == {Stance.NEUTRAL if discards else Stance.CONFLICTS}
        until(lambda: memory.preferences.unread == [])
        assert {made.source for made in memory.preferences.aspects().values()} == {"model"}
    asked = mind.asked
    with EpicMemory.open(built_without, **options) as memory:
        assert not memory.opening_report.unread
        await call(memory, "search", ABOUT_BEANS)
        await call(memory, "retry")
    assert mind.asked == asked and mind.kinds == {"read", "judge"} and all_asked_once(mind)


def test_what_came_before_the_model_is_read_and_judged_within_the_budget(
    mind: Mind, built_without: Path, clock: Clock
) -> None:
    with opened(built_without, mind, 1, on_demand=60.0) as memory:
        report = memory.add(["Another stew of beans."])
        assert mind.asked == 1 and "1 preferences wait" in str(report)
        memory.search(ABOUT_BEANS)
        assert mind.asked == 1 and stances(memory) == {Stance.NEUTRAL}
        clock.pass_by(1)
        memory._session.model_budget.limit = 100
        memory.search(ABOUT_BEANS)
        assert stances(memory) == {Stance.SUPPORTS}
        until(lambda: memory.preferences.unread == [])
    assert all_asked_once(mind)
