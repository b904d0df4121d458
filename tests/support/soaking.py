"""Random calls of a memory's methods from several threads of a process, and an account of what they were told."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from crashing import TOPICS, TopicEncoder
from epic_memory import EpicMemory, Filter, Item, Settings
from epic_memory.errors import DuplicatePreferenceError, UnknownItemError
from helpers import KeepAll

HELD_TOPICS, OTHER_TOPIC = TOPICS[:4], TOPICS[7]
BUDGET = 200_000
THREADS = 4
_WARM = 0.4
# An item's text: some are long enough to be compressed.
_WORDS = ("old", "quiet", "bright", "narrow", "wooden", "early", "distant", "copper", "gentle", "plain")


class Encoder(TopicEncoder):
    """Borrows no expansions, so that an item has one entry: that under its topic."""

    borrow = False


@dataclass
class Account:
    """What the calls of a process acknowledged.

    Attributes:
        kept: The ids of items that `add` reported as kept.
        evicted: How many entries were reported as evicted.
        forgotten: The ids of items that `forget` was called for.
        calls: How often each method was called.
        failures: Unexpected exceptions.
        megabytes: Memory of the process, after it has warmed up and at the end.
    """

    kept: set[str] = field(default_factory=set)
    evicted: int = 0
    forgotten: set[str] = field(default_factory=set)
    calls: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)


def opened(path: Path) -> EpicMemory:
    """Open the memory that all processes share; it holds items of four topics, and each under one preference."""
    preferences = None if path.exists() else HELD_TOPICS
    return EpicMemory.open(
        path, preferences, encoder=Encoder(), settings=Settings(verifier=KeepAll(), budget=BUDGET, not_kept=50)
    )


def soaked(path: Path, seed: int, seconds: float) -> Account:
    """Call methods from four threads for some seconds."""
    account, began = Account(), time.monotonic()
    with opened(path) as memory:
        callers = [_Caller(memory, account, f"{seed}-{n}", began + seconds) for n in range(THREADS)]
        threads = [threading.Thread(target=caller.run) for caller in callers]
        for thread in threads:
            thread.start()
        for share in (_WARM, 1.0):
            time.sleep(max(0.0, began + share * seconds - time.monotonic()))
            account.megabytes.append(_resident())
        for thread in threads:
            thread.join()
    account.evicted = sum(caller.evicted for caller in callers)
    return account


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


class _Caller:
    """Calls from one thread, which alone adds and forgets the items whose ids begin with its name."""

    def __init__(self, memory: EpicMemory, account: Account, name: str, until: float) -> None:
        self.memory, self.account, self.name, self.until = memory, account, name, until
        self.random = random.Random(name)
        self.mine: list[str] = []
        self.evicted = 0
        self.added = 0

    def run(self) -> None:
        calls = {
            self.add: 8, self.search: 6, self.context: 2, self.forget: 3, self.explain: 2, self.prefer: 1,
            self.look: 1, self.retry: 1,
        }  # fmt: skip
        while time.monotonic() < self.until and not self.account.failures:
            (call,) = self.random.choices(list(calls), list(calls.values()))
            try:
                call()
            except Exception as error:  # what it is, the test says
                self.account.failures.append(f"{call.__name__}: {error!r}")
            self.account.calls[call.__name__] += 1

    def _text(self) -> str:
        words = " ".join(self.random.choices(_WORDS, k=self.random.randint(3, 90)))
        return f"{self.random.choice(HELD_TOPICS)} {self.name} {self.added} {words}"

    def add(self) -> None:
        items = []
        for _ in range(self.random.randint(1, 6)):
            self.added += 1
            items.append(Item(id=f"{self.name}-{self.added}", text=self._text(), metadata={"by": self.name}))
        report = self.memory.add(iter(items))
        self.evicted += report.evicted
        if report.kept != len(items):
            self.account.failures.append(f"{report.kept} of {len(items)} items were kept")
        self.mine += [item.id for item in items]
        self.account.kept.update(item.id for item in items)

    def search(self) -> None:
        self.memory.search(self._text(), k=5, filter=Filter.eq("by", self.name) if self.random.random() < 0.3 else None)

    def context(self) -> None:
        self.memory.context(self._text())

    def forget(self) -> None:
        if self.mine:
            item_id = self.mine.pop(self.random.randrange(len(self.mine)))
            self.account.forgotten.add(item_id)
            try:
                self.memory.forget(item_id)
            except UnknownItemError:
                return  # it was evicted

    def explain(self) -> None:
        if self.mine:
            try:
                self.memory.explain(self.random.choice(self.mine))
            except UnknownItemError:
                return  # it was evicted

    def prefer(self) -> None:
        preference = f"{OTHER_TOPIC} of {self.name}"
        try:
            report = self.memory.preferences.add(preference)
        except DuplicatePreferenceError:
            report = self.memory.preferences.remove(preference)
        self.evicted += report.evicted

    def look(self) -> None:
        self.memory.stats()
        self.memory.file.not_kept()
        assert len(self.memory.preferences) >= len(HELD_TOPICS)

    def retry(self) -> None:
        self.evicted += self.memory.retry().evicted
