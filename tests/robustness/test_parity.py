"""The synchronous and the asynchronous path give the same, and the second never blocks the event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from epic_learn import aadd_conversation, add_conversation
from epic_memory import EpicMemory, Filter, Item, Settings
from epic_memory.types import BuildReport
from epic_memory.verification import EmbeddedVerifier
from helpers import HashEncoder, KeepAll, Raising, TooFew, UndecidedAll, method, searching, settled

PREFERENCES = ["I love red wine.", "I avoid the night train."]
TEXTS = [
    *(Item(text=f"I love red wine number {n}", metadata={"n": n}) for n in range(12)),
    *(Item(text=f"I avoid the night train number {n}", metadata={"n": n}) for n in range(12)),
    *(f"{n} steam engines" for n in range(12)),
]
MESSAGES = [{"role": role, "content": f"I love red wine {n}"} for n in range(12) for role in ("user", "assistant")]

VERIFIERS: dict[str, Callable[[HashEncoder], Any]] = {
    "keep": lambda _: KeepAll(),
    "undecided": lambda _: UndecidedAll(),
    "raising": lambda _: Raising(TimeoutError("slow"), after=5),
    "too few": lambda _: TooFew(),
    "embedded": EmbeddedVerifier,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "signed": {"steering": "signed"},
    "paper": {"steering": "paper"},
    "off": {"steering": "off"},
    "coarse off": {"coarse": False},
    "fine off": {"fine": False},
    "light tier": {"tau": 0.9, "reserve": "1 MB"},
    "budget": {"budget": 64_000},
    "fallback": {"fallback": lambda query, k: [f"{query} {n}" for n in range(k)]},
}


def pair(verifier: str = "keep", **options: Any) -> tuple[EpicMemory, EpicMemory]:
    encoders = HashEncoder(), HashEncoder()
    one, other = (
        EpicMemory(PREFERENCES, encoder=encoder, **settled(verifier=VERIFIERS[verifier](encoder), **options))
        for encoder in encoders
    )
    return one, other


def told(report: BuildReport) -> dict[str, Any]:
    """A report without its times."""
    return {key: value if key != "timings" else list(value) for key, value in asdict(report).items()}


def state(memory: EpicMemory) -> Any:
    counts = memory.stats().counts
    return counts, memory.tau, memory.search("red wine train engine", k=99), [p.text for p in memory.preferences]


# What goes for a budget goes by its age, too: the clock stands still.
@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("verifier", "name"),
    [*(("keep", name) for name in OPTIONS), *((verifier, "signed") for verifier in VERIFIERS if verifier != "keep")],
)
async def test_add_and_search_are_the_same(verifier: str, name: str) -> None:
    options = OPTIONS[name]
    sync, other = pair(verifier, **options)
    assert told(sync.add(TEXTS)) == told(await other.aadd(TEXTS))
    assert state(sync) == state(other)
    queries: list[dict[str, Any]] = [
        {},
        {"k": 3, "stance_policy": "only_supports"},
        {"filter": Filter.ge("n", 6)},
        {"steering": "paper"},
        {"preferences": [PREFERENCES[1]], "stance_policy": "any"},
        {"namespace": "nobody"},
        {"min_score": 0.3},
        {"keys": "instruction", "min_score": None},
    ]
    asked = False
    for query in ("which red wine", "a night train", "steam engines", "🙂"):
        for arguments in queries:
            options_ = searching(**arguments)
            expected, found = sync.search(query, **options_), await other.asearch(query, **options_)
            assert expected == found and list(expected.timings) == list(found.timings)
            for said in ("steered_by", "fallback", "matters", "relevant"):
                assert getattr(expected, said) == getattr(found, said)
            asked |= expected.fallback
        assert sync.context(query) == await other.acontext(query)
        assert sync.preferences.for_(query) == await other.preferences.afor_(query)
    assert asked == ("fallback" in options)


@pytest.mark.parametrize("verifier", VERIFIERS)
async def test_preferences_and_retry_are_the_same(verifier: str) -> None:
    sync, other = pair(verifier)
    calls: list[tuple[str, Any]] = [
        ("add", [TEXTS]),
        ("preferences.add", ["steam engines"]),
        ("preferences.replace", [PREFERENCES[0], "I love number 3"]),
        ("preferences.remove", [PREFERENCES[1]]),
        ("retry", []),
    ]
    for name, given in calls:
        if name == "retry":
            sync.verifier = other.verifier = KeepAll()
        done, twin = method(sync, name)(*given), await method(other, name, twin=True)(*given)
        assert (told(done) == told(twin)) if done is not None else twin is None
        assert state(sync) == state(other)


async def test_conversations_are_the_same() -> None:
    sync, other = pair()
    assert told(add_conversation(sync, MESSAGES)) == told(await aadd_conversation(other, MESSAGES))
    assert state(sync) == state(other)
    assert sync.search("wine")[0].item.metadata["kind"] == "conversation"


@pytest.mark.parametrize("bad", [["I love red wine", ""], 7, [None]])
async def test_errors_are_the_same(bad: Any) -> None:
    sync, other = pair()
    with pytest.raises(Exception) as expected:
        sync.add(bad)
    with pytest.raises(type(expected.value)) as found:
        await other.aadd(bad)
    assert str(found.value) == str(expected.value)
    assert state(sync) == state(other)


@pytest.mark.parametrize("verifier", VERIFIERS)
async def test_the_asynchronous_path_never_encodes_on_the_event_loop(verifier: str) -> None:
    encoder = HashEncoder()
    memory = EpicMemory(PREFERENCES, encoder=encoder, settings=Settings(verifier=VERIFIERS[verifier](encoder)))
    encoder.sync_threads.clear()
    await memory.aadd(TEXTS)
    await aadd_conversation(memory, MESSAGES)
    await memory.asearch("which red wine")
    await memory.acontext("which night train")
    await memory.preferences.aadd("steam engines")
    await memory.preferences.areplace("steam engines", "number 3")
    await memory.preferences.aremove("number 3")
    await memory.aretry()
    assert threading.get_ident() not in encoder.sync_threads


async def test_the_asynchronous_path_never_verifies_synchronously() -> None:
    class OnlyAsync(KeepAll):
        async def averify(self, candidates: Any) -> Any:
            for verdict in self.verdicts(candidates):
                yield verdict

        def verify(self, candidates: Any) -> Any:
            raise AssertionError("the synchronous verify was called")

    memory = EpicMemory(PREFERENCES, encoder=HashEncoder(), settings=Settings(verifier=OnlyAsync()))
    assert (await memory.aadd(TEXTS)).kept == 24
    assert (await memory.preferences.aadd("steam engines")).kept == 12


async def test_the_database_is_never_written_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    from epic_memory.storage.store import Store

    memory, threads = EpicMemory(PREFERENCES, encoder=HashEncoder(), settings=Settings(verifier=KeepAll())), set()
    transaction = Store.transaction

    def watched(store: Store) -> Any:
        threads.add(threading.get_ident())
        return transaction(store)

    monkeypatch.setattr(Store, "transaction", watched)
    await memory.aadd(TEXTS)
    await memory.preferences.aadd("steam engines")
    await memory.preferences.aremove("steam engines")
    assert threads and threading.get_ident() not in threads
