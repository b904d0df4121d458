"""Arms: the protocol of everything that is compared, and what they have in common."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from epic_memory import Item
from epic_memory.encoders import Encoder, embed
from epic_memory.errors import LMError
from epic_memory.types import BuildReport

Vectors = NDArray[np.float32]


class Passage(NamedTuple):
    """A retrieved text.

    Attributes:
        id: The item's id; that of a summary begins with "summary-".
        text: Its text.
        guidance: How to use it for this user, a line for each preference; empty for an arm that says nothing.
    """

    id: str
    text: str
    guidance: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Retrieved:
    """Result of an arm for one question.

    Attributes:
        passages: Best first.
        opening: The preferences that the arm itself puts before the passages.
        encoding, search: Seconds for the query's embedding, and for the rest.
        steering: Those of `search` that steering took.
    """

    passages: tuple[Passage, ...] = ()
    opening: tuple[str, ...] = ()
    encoding: float = 0.0
    search: float = 0.0
    steering: float = 0.0


@dataclass(kw_only=True)
class BuildCost:
    """Cost of building.

    Attributes:
        seconds: By part, by a clock that stands while a language model is asked; the embedding of the corpus is not in
            it (`CorpusEncoder.seconds`).
        held, undecided: How many items the arm holds, and of how many the model's answers could not be understood.
        two_calls: Calls of the papers' way: a decision for each item that passed, an instruction for each that is kept.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    held: int = 0
    undecided: int = 0
    two_calls: int = 0


class Arm(Protocol):
    """Protocol of a way to find passages for a question.

    Attributes:
        name: As tables show it.
        personal: Whether what is built depends on the preferences; if not, it is built once for all personas.
    """

    name: str
    personal: bool

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Build the state for one persona in an empty folder."""
        ...

    def prefer(self, preferences: Sequence[str]) -> None:
        """Take the preferences of the persona that asks now; the state stays."""
        ...

    def retrieve(self, question: str, k: int) -> Retrieved:
        """Return at most k passages."""
        ...

    def bytes(self) -> dict[str, int]:
        """Return the bytes of the state by part, with their "total": all that lies in the folder."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class BaseArm(Arm):
    """Base of most arms: they know no preferences, and leave nothing open.

    Attributes:
        clock: Measures the work; that of a `JournalledLM` leaves out what the model takes.
    """

    personal = False
    clock: Callable[[], float] = staticmethod(time.perf_counter)

    def prefer(self, preferences: Sequence[str]) -> None:
        """Ignore preferences."""

    def close(self) -> None:
        """Do nothing."""


class CorpusEncoder:
    """An encoder that has the embeddings of a corpus; every other text is encoded when it comes.

    All arms share it, so that each passage is encoded once, and a query's encoding is still timed.

    Args:
        encoder: Encodes texts.
        texts: The corpus.

    Attributes:
        seconds: What encoding the corpus took.
    """

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        self.encoder = encoder
        started = time.perf_counter()
        vectors = embed(encoder, list(texts))
        self.seconds = time.perf_counter() - started
        self._known = dict(zip(texts, vectors, strict=True))

    def __getattr__(self, name: str) -> Any:
        # Name, dimension, thresholds and everything else are the encoder's own.
        return getattr(self.encoder, name)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape `(n, d)`."""
        missing = [text for text in texts if text not in self._known]
        if len(missing) == len(texts):
            return embed(self.encoder, missing)
        fresh = iter(embed(self.encoder, missing)) if missing else iter(())
        return np.stack([self._known[text] if text in self._known else next(fresh) for text in texts])

    async def aencode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors as `encode` does."""
        return self.encode(texts)


class Nothing(BaseArm):
    """The arm that finds nothing; with `tells`, it puts all the preferences before the question."""

    def __init__(self, name: str, *, tells: bool = False) -> None:
        self.name = name
        self.tells = tells
        self.preferences: tuple[str, ...] = ()

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Build nothing."""
        self.prefer(preferences)
        return BuildCost()

    def prefer(self, preferences: Sequence[str]) -> None:
        """Take the preferences to tell."""
        self.preferences = tuple(preferences)

    def retrieve(self, question: str, k: int) -> Retrieved:
        """Return no passages."""
        return Retrieved(opening=self.preferences if self.tells else ())

    def bytes(self) -> dict[str, int]:
        """Return the bytes of the preferences, if they are told."""
        size = sum(len(text.encode()) + 1 for text in self.preferences) if self.tells else 0
        return {"preferences": size, "total": size}


class Within:
    """An arm that holds only the newest passages, as many as fit into a number of bytes.

    The corpus comes in random order, so this is a random sample, too.

    Args:
        name: As tables show it.
        arm: One that holds what it is given.
        budget: Bytes that its state does not exceed.
    """

    def __init__(self, name: str, arm: Arm, budget: int) -> None:
        self.name = name
        self.arm = arm
        self.budget = budget

    def __getattr__(self, name: str) -> Any:
        return getattr(self.arm, name)

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Build with ever fewer passages until the state fits."""
        held = len(corpus)
        while True:
            cost = self.arm.build(corpus[len(corpus) - held :], preferences, folder)
            size = self.arm.bytes()["total"]
            if size <= self.budget or held <= 1:
                return cost
            self.arm.close()
            for path in folder.iterdir():
                path.unlink()
            held = max(1, min(held - 1, int(held * self.budget / size * 0.99)))


def write_documents(folder: Path, items: Iterable[Item]) -> int:
    """Write texts with their ids as JSON lines, and return the bytes."""
    path = folder / "documents.jsonl"
    lines = (json.dumps({"id": item.id, "text": item.text}, ensure_ascii=False) + "\n" for item in items)
    path.write_text("".join(lines), encoding="utf-8")
    return path.stat().st_size


def with_total(**parts: int) -> dict[str, int]:
    """Return the parts with their sum."""
    return {**parts, "total": sum(parts.values())}


def build_cost(report: BuildReport, work: float, held: int) -> BuildCost:
    """Return what a build cost of which a memory reports a part; the rest of the work is "structure".

    Raises:
        LMError: if the model failed: a table of items that nobody judged would be false.
    """
    failed = [reason for item, reason in report.failures.items() if item not in report.answers]
    if failed:
        raise LMError(f"{report.undecided} items could not be judged: {failed[0]} Run it again to go on from here.")
    parts = dict(report.timings)
    if "verification" in parts:
        parts["verification"] = max(0.0, parts["verification"] - report.usage.seconds)
    parts["structure"] = max(0.0, work - sum(parts.values()))
    return BuildCost(
        seconds={part: used for part, used in parts.items() if part != "embedding"},
        held=held,
        undecided=report.undecided,
        two_calls=report.passed + report.kept,
    )
