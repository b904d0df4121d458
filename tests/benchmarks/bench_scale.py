"""A memory of 100,000 entries in one file: how long it takes to open, add to, search, and take a preference out of.

Items, preferences and the encoder are made up: bags of words, each item about one preference or two. So the embeddings
cost next to nothing and what is timed is the memory. Everything goes through the file as it always does. Times are
medians of several runs; the goals stand beside them.
"""

from __future__ import annotations

import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import Judging, script_options, seconds_of, settled, unit
from epic_memory import EpicMemory
from epic_memory.storage.vector_index import PAYS_AFTER
from epic_memory.types import Alignment, Candidate, Decision, Item, Stance, Verdict

DIMENSION = 256
PREFERENCES = 10
WORDS = 5_000
IN_A_TEXT = 70
IN_AN_INSTRUCTION = 25
# Of four items three are about one preference, the fourth about two.
ENTRIES_EACH = 5 / 4


class Bags:
    """Embeds a text as the sum of fixed random vectors, one for each word; topics weigh more than words.

    Other words, such as those of the questions that every query is compared with, stand for the first word.
    """

    name = "bags"
    dimension = DIMENSION
    fingerprint = "v1"
    tau = 0.3
    floor = 0.1

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self.words = unit(generator.standard_normal((WORDS, DIMENSION))).astype(np.float32)
        self.topics = 12.0 * unit(generator.standard_normal((PREFERENCES + 1, DIMENSION))).astype(np.float32)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return unit(np.stack([self._vector(text) for text in texts])).astype(np.float32)

    async def aencode(self, texts: Sequence[str]) -> np.ndarray:
        return self.encode(texts)

    def _vector(self, text: str) -> np.ndarray:
        topics = [int(number) for number in re.findall(r"\btopic(\d+)\b", text)]
        words = [int(number) for number in re.findall(r"\bword(\d+)\b", text)]
        return self.topics[topics].sum(axis=0) + self.words[words or [0]].sum(axis=0)


class KeepsAll(Judging):
    """Keeps every item under each of its preferences, and quotes its first words as the instruction."""

    name = "keeps-all"

    def verdict(self, candidate: Candidate) -> Verdict:
        words, stances = candidate.item.text.split(), tuple(Stance)
        quoted = " ".join(word for word in words if word.startswith("word"))[: 8 * IN_AN_INSTRUCTION]
        alignments = tuple(
            Alignment(
                preference_id=preference.id,
                instruction=f"{preference.text} {quoted}",
                stance=stances[len(words) % len(stances)],
                confidence=0.5 + similarity / 2.0,
                rationale="near",
            )
            for preference, similarity in zip(candidate.preferences, candidate.similarities, strict=True)
        )
        return Verdict(decision=Decision.KEEP, rationale="near", alignments=alignments)


PREFERENCE_TEXTS = [f"I like topic{number}" for number in range(PREFERENCES)]


def text_of(number: int) -> str:
    """The text of an item about one preference, or of each fourth about two."""
    generator = np.random.default_rng(number)
    topics = generator.choice(PREFERENCES, 1 + (number % 4 == 3), replace=False)
    words = generator.integers(WORDS, size=IN_A_TEXT)
    return " ".join([*(f"topic{topic}" for topic in topics), *(f"word{word}" for word in words)])


def question_of(number: int) -> str:
    """A question about a preference, in words of its own."""
    generator = np.random.default_rng(1_000_000_000 + number)
    words = generator.integers(WORDS, size=12)
    return " ".join([f"topic{number % PREFERENCES}", *(f"word{word}" for word in words)])


def opened(path: Path, **options: Any) -> EpicMemory:
    """The memory in a file."""
    return EpicMemory.open(path, encoder=Bags(), **settled(verifier=KeepsAll(), **options))


def build(path: Path, entries: int) -> None:
    """Fill a new file."""
    items = round(entries / ENTRIES_EACH)
    started = time.perf_counter()
    with opened(path, preferences=PREFERENCE_TEXTS) as memory:
        memory.add(Item(id=f"item-{number}", text=text_of(number)) for number in range(items))
        taken = time.perf_counter() - started
        counts = memory.stats().counts
        print(
            f"{counts['entries']} entries on {counts['items']} items, {counts['preferences']} preferences;"
            f" built in {taken:.1f} s, {1e3 * taken / counts['entries']:.3f} ms an entry"
        )


def shown(what: str, seconds: Sequence[float], goal: float | None = None) -> None:
    """A line of the table: median, the slowest tenth, the goal."""
    middle, slow = statistics.median(seconds), float(np.quantile(seconds, 0.9))
    said = "" if goal is None else f"   (at most {1e3 * goal:.0f} ms{'' if middle <= goal else ': MISSED'})"
    print(f"{what:34} median {1e3 * middle:9.2f} ms   90 % below {1e3 * slow:9.2f} ms{said}")


def opening(path: Path, runs: int) -> None:
    """Open, and open and search."""
    taken = []
    for _ in range(runs):
        started = time.perf_counter()
        memory = opened(path)
        middle = time.perf_counter()
        memory.search(question_of(0))
        taken.append((middle - started, time.perf_counter() - started))
        memory.close()
    shown("open", [opening for opening, _ in taken], 1.0)
    shown("open and first search", [both for _, both in taken], 1.0)


def working(path: Path, runs: int) -> None:
    """Search and add, in one open memory."""
    with opened(path) as memory:
        memory.search(question_of(0))
        searching = [seconds_of(lambda n=n: memory.search(question_of(n))) for n in range(PAYS_AFTER + 40 * runs)]
        shown("search, k = 5", searching[: 40 * runs], 5e-3)
        shown("with an approximate index, after 300", searching[PAYS_AFTER:], 5e-3)
        first = 10_000_000
        adding = [seconds_of(lambda n=n: memory.add([text_of(first + n)])) for n in range(12 * runs)]
        shown("add one item", adding, 3e-3)


def preferences(path: Path, runs: int) -> None:
    """Take a preference out, search, put it back; each time from the same file."""
    taken: dict[str, list[float]] = {"remove": [], "search": [], "add": []}
    for run in range(runs):
        copy = path.with_suffix(".copy")
        shutil.copy(path, copy)
        with opened(copy) as memory:
            memory.search(question_of(0))
            chosen = PREFERENCE_TEXTS[run % PREFERENCES]
            taken["remove"].append(seconds_of(lambda c=chosen, m=memory: m.preferences.remove(c)))
            taken["search"].append(seconds_of(lambda m=memory: m.search(question_of(1))))
            taken["add"].append(seconds_of(lambda c=chosen, m=memory: m.preferences.add(c)))
        copy.unlink()
    shown("remove a preference", taken["remove"], 1.0)
    shown("first search after it", taken["search"], 1.0)
    shown("add a preference", taken["add"], 2.0)


def main() -> None:
    options = script_options(__doc__, entries=100_000, runs=5, keep=Path)
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "large.epic"
        if not path.exists():
            build(path, options.entries)
        size = path.stat().st_size
        print(f"file after close: {size / 1e6:.1f} MB, {size / options.entries:.0f} bytes an entry")
        opening(path, options.runs)
        preferences(path, options.runs)
        working_copy = Path(folder) / "working.epic"
        shutil.copy(path, working_copy)
        working(working_copy, options.runs)


if __name__ == "__main__":
    main()
