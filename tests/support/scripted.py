"""Language models that read our prompts and answer them, and what they are asked about.

A `Script` knows what is true of pairs of a chunk and a preference. It answers for a model in this process and for
one behind a server:

    said = Script({("A stew of beans.", "Vegan diet"): Stance.SUPPORTS})
    LMVerifier(Own(said))
    LMServer(lambda request: said(request["messages"]))
    assert said.asked[0].preferences == ("Vegan diet",)

`Scripted` is a model that needs no truth, as it keeps what does not say no. It can be interrupted, and a hook can
take its place:

    lm = Scripted(hook=lambda asked: "Perhaps." if "beans" in asked.chunk else None)
    lm.interrupt_at = {3}

Memories made here have their preferences read by the parser, unless `aspects=` says otherwise: what a model is asked
is asked about items.

There are two corpora. `ITEMS` are verified as `TRUTH` has it, and `EXPECTED` is what a memory then holds of them.
`documents()` are for a `Scripted` model: as many as one likes, kept under `WINE`, `TRAIN`, both or neither.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest

from epic_memory import EpicMemory, Item
from epic_memory.errors import UnknownItemError
from epic_memory.lm import Completion, Message, OllamaLM, OpenAICompatibleLM
from epic_memory.lm.prompting import Prompt
from epic_memory.types import BuildReport, Candidate, Preference, Stance
from epic_memory.verification import LMVerifier
from helpers import HashEncoder, settled
from lm_servers import LMServer

# reading prompts


class Asked(NamedTuple):
    """What a prompt asks.

    Attributes:
        under: The numbers of the preferences that each chunk is judged under.
    """

    chunks: tuple[str, ...]
    preferences: tuple[str, ...]
    under: tuple[tuple[int, ...], ...]

    @property
    def chunk(self) -> str:
        return self.chunks[0]


def user_text(messages: Sequence[Any]) -> str:
    """The first text of the user in messages, as objects or as a protocol has them."""
    return next(content for role, content in _plain(messages) if role == "user")


def read_prompt(messages: Sequence[Any]) -> Asked:
    """Reads a prompt as it stands; messages that follow it do not matter."""
    text = user_text(messages)
    listed = re.findall(r"^(\d+)\. (.*)$", text, re.M)
    numbers = tuple(int(number) for number, _ in listed)
    assert numbers == tuple(range(1, len(listed) + 1))
    quoted = re.findall(r"<chunk \w+>\n(.*?)\n</chunk \w+>", text, re.S)
    under = re.findall(r"^Chunk \d+, to be judged under preferences? ([\d, ]+):$", text, re.M)
    assert len(under) == len(quoted)
    return Asked(
        chunks=tuple(re.sub(r"^\| ", "", chunk, flags=re.M) for chunk in quoted),
        preferences=tuple(preference for _, preference in listed),
        under=tuple(tuple(map(int, shown.split(", "))) for shown in under),
    )


def preference_read(messages: Sequence[Any]) -> str | None:
    """The preference of a prompt that asks what it likes and avoids; None for another prompt."""
    text = user_text(messages)
    shown = re.search(r"<preference \w+>\n(.*?)\n</preference \w+>", text, re.S)
    return re.sub(r"^\| ", "", shown[1], flags=re.M) if shown and "Say what it likes" in text else None


def aspects_for(preference: str) -> str:
    """What scripted models say that a preference likes and avoids."""
    said = {"liked": [f"what {preference} wants"], "avoided": [], "firmness": "mild", "scope": ""}
    return json.dumps(said)


def _plain(messages: Sequence[Any]) -> list[tuple[str, str]]:
    plain = [message if isinstance(message, Mapping) else vars(message) for message in messages]
    return [(message["role"], message["content"]) for message in plain]


# answering them


def instruction_for(chunk: str, preference: str) -> str:
    """What scripted models write, which no other pair has."""
    return f"Serve {preference} with {chunk}"


def rationale_for(chunk: str) -> str:
    """Why scripted models say that they keep a chunk, or not."""
    return f"Said of {chunk[:40]}"


StanceOf: TypeAlias = Callable[[str, str], "Stance | None"]


def answer_to(asked: Asked, stance_of: StanceOf) -> str:
    """Answers in the form a prompt asks for. A chunk is kept under the preferences it has a stance on."""
    judged = [_judged(asked, place, stance_of) for place in range(len(asked.chunks))]
    return json.dumps({"answers": judged})


def _judged(asked: Asked, place: int, stance_of: StanceOf) -> dict[str, Any]:
    chunk, relevant = asked.chunks[place], []
    for number in asked.under[place]:
        preference = asked.preferences[number - 1]
        stance = stance_of(chunk, preference)
        if stance is not None:
            instruction = instruction_for(chunk, preference)
            relevant.append({"preference": number, "stance": str(stance), "instruction": instruction})
    decision = "Keep" if relevant else "Discard"
    return {"chunk": place + 1, "decision": decision, "preferences": relevant, "evidence": rationale_for(chunk)}


class Script:
    """Answers prompts from what is true of pairs of a chunk and a preference; all other pairs are irrelevant.

    Attributes:
        asked: What was asked about items, in the order in which it was.
        read: The preferences it was to read.
    """

    def __init__(self, truth: Mapping[tuple[str, str], Stance]) -> None:
        self.truth = truth
        self.asked: list[Asked] = []
        self.read: list[str] = []

    def __call__(self, messages: Sequence[Any]) -> str:
        preference = preference_read(messages)
        if preference is not None:
            self.read.append(preference)
            return aspects_for(preference)
        asked = read_prompt(messages)
        self.asked.append(asked)
        return answer_to(asked, lambda chunk, preference: self.truth.get((chunk, preference)))

    def about(self, text: str) -> list[Asked]:
        """What was asked about a chunk."""
        return [asked for asked in self.asked if text in asked.chunks]


# models


class Sent(NamedTuple):
    """A request as a model gets it."""

    messages: list[Message]
    schema: Mapping[str, Any] | None
    max_tokens: int | None


Answer: TypeAlias = Callable[[Sequence[Message]], "str | Completion"]


class Own:
    """A language model of the user's own: a plain class that has what the seam asks for.

    Args:
        answer: Says what to answer to messages, or raises; may be exchanged at any time.
        seconds: How long an answer takes.

    Attributes:
        sent: What was sent, in the order in which it was.
        most_at_once: The largest number of calls that were under way at the same time.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        name: str = "own",
        concurrency: int = 1,
        context: int | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.answer = answer
        self.name = name
        self.concurrency = concurrency
        self.context = context
        self.seconds = seconds
        self.sent: list[Sent] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()

    def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, max_tokens: int | None = None
    ) -> Completion:
        with self._under_way(Sent(list(messages), schema, max_tokens)):
            time.sleep(self.seconds)
            return self._answer(messages)

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, max_tokens: int | None = None
    ) -> Completion:
        with self._under_way(Sent(list(messages), schema, max_tokens)):
            await asyncio.sleep(self.seconds)
            return self._answer(messages)

    @contextmanager
    def _under_way(self, sent: Sent) -> Iterator[None]:
        self._begin(sent)
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            yield
        finally:
            with self._lock:
                self._now -= 1

    def _begin(self, sent: Sent) -> None:
        self.sent.append(sent)

    def _answer(self, messages: Sequence[Message]) -> Completion:
        said = self.answer(messages)
        return Completion(text=said) if isinstance(said, str) else said


class Scripted(Own):
    """A model that keeps a chunk under every preference, but under "red wine" not if it says "nowine".

    Args:
        hook: Is told what is asked before it is answered; may raise, or give the answer itself.

    Attributes:
        asked: What was asked about items, also by calls that had no answer.
        read: The preferences it was to read.
        interrupt_at: The calls, counted from 1, that are interrupted.
    """

    def __init__(
        self,
        hook: Callable[[Asked], str | None] | None = None,
        *,
        name: str = "scripted",
        concurrency: int = 1,
        seconds: float = 0.0,
    ) -> None:
        super().__init__(self._hooked, name=name, concurrency=concurrency, seconds=seconds)
        self.hook = hook
        self.asked: list[Asked] = []
        self.read: list[str] = []
        self.interrupt_at: set[int] = set()

    @property
    def calls(self) -> int:
        return len(self.asked)

    def _begin(self, sent: Sent) -> None:
        preference = preference_read(sent.messages)
        if preference is not None:
            self.read.append(preference)
            super()._begin(sent)
            return
        asked = read_prompt(sent.messages)
        with self._lock:
            self.asked.append(asked)
            interrupted = len(self.asked) in self.interrupt_at
        if interrupted:
            raise KeyboardInterrupt
        super()._begin(sent)

    def _hooked(self, messages: Sequence[Message]) -> Completion:
        preference = preference_read(messages)
        if preference is not None:
            return Completion(text=aspects_for(preference), prompt_tokens=7, completion_tokens=3)
        asked = read_prompt(messages)
        text = None if self.hook is None else self.hook(asked)
        if text is None:
            text = answer_to(asked, _unless_it_says_no)
        return Completion(text=text, prompt_tokens=7, completion_tokens=3)


def _unless_it_says_no(chunk: str, preference: str) -> Stance | None:
    return None if f"no{preference.rsplit(maxsplit=1)[-1]}" in chunk else Stance.SUPPORTS


class Hanging(Scripted):
    """Where it is interrupted it says that it hangs, and waits until it is cancelled."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.hangs = asyncio.Event()

    async def acomplete(self, messages: Sequence[Message], **options: Any) -> Completion:
        try:
            return await super().acomplete(messages, **options)
        except KeyboardInterrupt:
            self.hangs.set()
            await asyncio.sleep(3600)
            raise


async def cancelled(building: Awaitable[object], lm: Hanging) -> None:
    """Cancels a build as soon as its model hangs."""
    task = asyncio.ensure_future(building)
    await lm.hangs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# models of a server

Model: TypeAlias = OllamaLM | OpenAICompatibleLM


def model_of(server: LMServer, kind: str, name: str = "tiny", **settings: Any) -> Model:
    """A model of a server, asked by one protocol or the other."""
    if kind == "ollama":
        return OllamaLM(name, host=server.url, **settings)
    return OpenAICompatibleLM(server.base_url, name, **settings)


def forget_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset the variables that say where models are, and how to get there."""
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "OLLAMA_HOST", "OLLAMA_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)


def until(met: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something to happen."""
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def own_threads() -> int:
    """How many threads there are that call models."""
    return sum(thread.name == "epic-lm" for thread in threading.enumerate())


# items that are verified as TRUTH has it

# A preference and an item that share a word pass the coarse filter together.
TAU = 0.05
PREFERENCES = ["Avoid casinos", "Vegan diet", "Night trains", "Old churches", "Quiet parks"]
CASINOS, VEGAN, TRAINS, CHURCHES, PARKS = PREFERENCES
TEXTS = {
    "palms": "The Palms has casinos beside old churches.",
    "stew": "A stew of beans fits any vegan diet.",
    "pun": "Parks was a politician who liked trains.",
    "sleeper": "The night sleeper trains pass quiet parks.",
    "worms": "The Diet of Worms met behind old walls.",
    "fair": "Vegan casinos, night trains, old churches, quiet parks.",
    "ships": "Seven ships sailed south.",
}
PASSED = {
    "palms": {CASINOS, CHURCHES},
    "stew": {VEGAN},
    "pun": {TRAINS, PARKS},
    "sleeper": {TRAINS, PARKS},
    "worms": {VEGAN, CHURCHES},
    "fair": set(PREFERENCES),
}
TRUTH = {
    ("palms", CASINOS): Stance.CONFLICTS,
    ("palms", CHURCHES): Stance.SUPPORTS,
    ("stew", VEGAN): Stance.SUPPORTS,
    ("sleeper", TRAINS): Stance.SUPPORTS,
    ("fair", CASINOS): Stance.MIXED,
    ("fair", TRAINS): Stance.NEUTRAL,
    ("fair", PARKS): Stance.SUPPORTS,
}
ITEMS = [Item(text=text, id=name) for name, text in TEXTS.items()]
KEPT = {name for name, _ in TRUTH}
DISCARDED = set(PASSED) - KEPT

# With short prompts all but a long item fit in a small context.
LONG = Item(text="A vegan diet of beans. " * 100, id="long")
SHORT = Prompt(system="Judge.", user="{preferences}\n{chunks}")

Pairs: TypeAlias = dict[tuple[str, str], tuple[Stance, str, str]]
EXPECTED: Pairs = {
    (name, preference): (stance, instruction_for(TEXTS[name], preference), rationale_for(TEXTS[name]))
    for (name, preference), stance in TRUTH.items()
}


def script() -> Script:
    """Answers about `TEXTS` as `TRUTH` has it."""
    return Script({(TEXTS[name], preference): stance for (name, preference), stance in TRUTH.items()})


def patient(lm: Any, **options: Any) -> LMVerifier:
    """A verifier that does not wait between attempts."""
    return LMVerifier(lm, **{"backoff": 0.0, **options})


def memory_with(verifier: LMVerifier, **options: Any) -> EpicMemory:
    """A memory of `PREFERENCES`."""
    options = {"preferences": PREFERENCES, "encoder": HashEncoder(), "tau": TAU, "aspects": "parser", **options}
    return EpicMemory(**settled(verifier=verifier, **options))


def pairs_of(memory: EpicMemory) -> Pairs:
    """What a memory holds of `ITEMS`: stance, instruction and rationale of each pair."""
    found = {}
    for name in TEXTS:
        try:
            entries = memory.explain(name).entries
        except UnknownItemError:
            continue
        for entry in entries:
            found[name, entry.preference] = entry.stance, entry.instruction, entry.rationale
    return found


def nothing_lost(memory: EpicMemory, report: BuildReport, *, waiting: int) -> None:
    """Every item that passed is accounted for, and so many wait."""
    assert report.passed == report.kept + report.discarded + report.undecided
    assert memory.stats().counts["pending"] == report.undecided == waiting
    assert len(report.failures) == min(waiting, 100)


Add: TypeAlias = Callable[..., Awaitable[BuildReport]]


ASKED = [
    Message("system", "You judge."),
    Message("user", "Keep it?"),
    Message("assistant", "?"),
    Message("user", "Do."),
]
Complete: TypeAlias = Callable[..., Awaitable[Completion]]


def candidate(text: str, *preferences: str) -> Candidate:
    """What a verifier is asked about, with similarities that do not matter to it."""
    vectors = np.ones((len(preferences), 2), dtype=np.float32)
    return Candidate(
        item=Item(text=text),
        embedding=np.ones(2, dtype=np.float32),
        preferences=tuple(Preference(text=preference) for preference in preferences),
        similarities=(0.5,) * len(preferences),
        preference_embeddings=vectors,
    )


# documents for a Scripted model

WINE, TRAIN, SEA = "red wine", "night train", "blue sea"
BOTH = "red wine in the night train"


def documents(count: int = 4) -> list[Item]:
    """Items kept under one preference, discarded, kept under two, under one of two, and far from both."""
    texts = [
        text
        for n in range(count)
        for text in (f"red wine {n}", f"red wine nowine {n}", f"{BOTH} {n}", f"{BOTH} nowine {n}", f"blue sky {n}")
    ]
    return [Item(id=f"item {n}", text=text, metadata={"n": n}) for n, text in enumerate(texts)]


def verifier_of(lm: Scripted, **options: Any) -> LMVerifier:
    """A verifier that tries once, and asks about one item at a time, so that calls can be counted."""
    return LMVerifier(lm, **{"retries": 0, "backoff": 0.0, "batch_size": 1, **options})


def memory_of(lm: Scripted, *preferences: str, batch_size: int = 1, **options: Any) -> EpicMemory:
    """A memory of two preferences, if no others are named."""
    verifier = verifier_of(lm, batch_size=batch_size)
    options = {"encoder": HashEncoder(), "verifier": verifier, "aspects": "parser", **options}
    return EpicMemory(preferences or (WINE, TRAIN), **settled(**options))


def opened(path: Path, lm: Scripted, *preferences: str, **options: Any) -> EpicMemory:
    """A memory in a file, made with two preferences where there is none."""
    wanted = None if path.exists() and not preferences else preferences or (WINE, TRAIN)
    options = {"encoder": HashEncoder(), "verifier": verifier_of(lm), "aspects": "parser", **options}
    return EpicMemory.open(path, wanted, **settled(**options))


def held(memory: EpicMemory, items: Iterable[Item]) -> dict[str, Any]:
    """What is held of some items, with their entries."""
    found = {}
    for item in items:
        try:
            explanation = memory.explain(item.id)
        except UnknownItemError:
            continue
        if explanation.note.startswith("Not held."):
            continue  # on record among what was discarded
        entries = sorted(explanation.entries, key=lambda entry: entry.preference)
        found[item.id] = (explanation.item, entries)
    return found


def contents(memory: EpicMemory, items: Iterable[Item]) -> tuple[Any, ...]:
    """All of a memory that does not depend on when it was written."""
    hits = {(hit.item.id, round(hit.score, 5)) for hit in memory.search("wine in the train", k=1000)}
    return held(memory, items), hits, memory.stats().counts, [p.text for p in memory.preferences]


def built(items: Sequence[Item], **options: Any) -> tuple[tuple[Any, ...], int]:
    """The contents of a memory that was built without interruption, and the calls it took."""
    lm = Scripted()
    memory = memory_of(lm, **options)
    memory.add(items)
    return contents(memory, items), lm.calls


def rows(path: Path, table: str = "verdicts") -> int:
    """How many rows a table of a memory's file has."""
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
