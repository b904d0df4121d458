"""A memory whose process is killed: what a worker does to it, what it has to hold then, and what it does hold.

    with killers() as workers:
        for kill in killed(workers, folder / "me.epic", seed=1, kills=5):
            assert not kill.failure, kill

Each worker is killed at a moment of its own. What it does follows from a seed and from what the memory held before, so
that `Model` can tell what the memory has to hold after each operation.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from epic_learn.types import Proposal
from epic_memory import EpicMemory, Item, SearchOptions
from epic_memory.errors import StoreError
from epic_memory.runtime import batching as intake
from epic_memory.runtime import streaming as portions
from epic_memory.storage.sqlite.files import SIDE_FILES
from epic_memory.types import Alignment, Candidate, Decision, FloatArray, Verdict
from epic_memory.types.digests import item_digest
from epic_memory.types.metadata import dumped_metadata
from helpers import FakeVerifier, settled

TOPICS = ("tea", "trains", "gardens", "chess", "bread", "rivers", "clocks", "kites")
AGREED = " as agreed"
_BATCH = 5
_IDS = 60
_WORDS = ("old", "quiet", "bright", "narrow", "wooden", "early", "distant", "copper", "gentle", "plain")


class TopicEncoder:
    """An axis for each topic, so that a text passes the coarse filter for the preferences of its topics only."""

    name = "topics"
    dimension = len(TOPICS) + 8
    fingerprint = "v1"
    tau = 0.3
    floor = 0.2

    def encode(self, texts: Sequence[str]) -> FloatArray:
        return np.stack([self._vector(text) for text in texts])

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        return self.encode(texts)

    def _vector(self, text: str) -> FloatArray:
        vector = np.zeros(self.dimension, dtype=np.float32)
        for place, topic in enumerate(TOPICS):
            vector[place] = topic in text
        # Texts of one topic are near one another, but not the same.
        vector[len(TOPICS) + zlib.crc32(text.encode()) % 8] = 0.2
        return vector / np.linalg.norm(vector)


def wanted(text: str, preference: str) -> bool:
    """Whether the verifier keeps a text under a preference that it passed the coarse filter for."""
    return zlib.crc32(f"{text}/{preference}".encode()) % 6 > 0


def instruction(text: str, preference: str) -> str:
    return f"Under {preference}: {text[:60]}"


class Judge(FakeVerifier):
    """Keeps what is `wanted`; its verdicts are cached."""

    name = "judge"
    cached = True

    def verdicts(self, candidates: Sequence[Candidate]) -> Iterator[object]:
        for candidate in candidates:
            text = candidate.item.text
            alignments = tuple(
                Alignment(
                    preference_id=preference.id,
                    instruction=instruction(text, preference.text),
                    confidence=zlib.crc32(text.encode()) % 100 / 100,
                )
                for preference in candidate.preferences
                if wanted(text, preference.text)
            )
            decision = Decision.KEEP if alignments else Decision.DISCARD
            yield Verdict(decision=decision, rationale="said so", alignments=alignments)


# what is done


@dataclass(frozen=True)
class Operation:
    """One call, which changes the memory whole or not at all: "add", "prefer", "drop", "replace", "forget", "compact".

    Attributes:
        items: Id and text of what is added.
        names: Preferences, or the ids that are forgotten.
        proposed: Whether a change of preferences is the acceptance of a proposal.
    """

    kind: str
    items: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    proposed: bool = False

    @property
    def proposal(self) -> Proposal:
        """The proposal of a change of preferences."""
        quote = f"say {self.names}"
        if self.kind == "prefer":
            return Proposal(kind="add_preference", text=self.names[0], quote=quote)
        if self.kind == "drop":
            return Proposal(kind="remove_preference", old=self.names[0], quote=quote)
        return Proposal(kind="replace_preference", old=self.names[0], text=self.names[1], quote=quote)


@dataclass(frozen=True)
class Model:
    """What a memory has to hold: preferences in their order, and the texts of items by id.

    Without a light tier an item is held as long as one of its pairs with the preferences is relevant.
    """

    preferences: tuple[str, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)
    light: bool = True

    def entries(self, text: str) -> dict[str, str]:
        """The instructions of a text by preference."""
        return {p: instruction(text, p) for p in self.preferences if p.split()[2] in text and wanted(text, p)}

    @property
    def content(self) -> dict[str, Any]:
        """As `content_of` has it."""
        items = {key: [text, self.entries(text)] for key, text in self.texts.items()}
        return {"preferences": list(self.preferences), "items": items}

    def after(self, operation: Operation) -> Model:
        """What it has to hold after an operation."""
        preferences, texts = list(self.preferences), dict(self.texts)
        if operation.kind == "add":
            texts |= operation.items
        elif operation.kind == "prefer":
            preferences += operation.names
        elif operation.kind == "drop":
            preferences.remove(operation.names[0])
        elif operation.kind == "replace":
            old, new = operation.names
            preferences[preferences.index(old)] = new
        elif operation.kind == "forget":
            texts = {key: text for key, text in texts.items() if key not in operation.names}
        made = replace(self, preferences=tuple(preferences), texts=texts)
        return replace(made, texts={key: text for key, text in texts.items() if self.light or made.entries(text)})

    def halfway(self, operation: Operation) -> Model:
        """What it may hold in the midst of an operation: what the coarse filter leaves out of a batch goes first."""
        topics = [preference.split()[2] for preference in self.preferences]
        far = [(key, text) for key, text in operation.items if not any(topic in text for topic in topics)]
        return self.after(replace(operation, items=tuple(far))) if operation.kind == "add" else self


def operations(seed: int, model: Model) -> Iterator[Operation]:
    """What is done to a memory that holds something; no end."""
    chance = random.Random(seed)
    while True:
        operation = _operation(chance, model)
        yield operation
        model = model.after(operation)


def _operation(chance: random.Random, model: Model) -> Operation:
    kinds = ["add"] * 5 + ["compact"] + ["forget"] * (len(model.texts) > 3)
    kinds += ["prefer"] * (len(model.preferences) < 6) + ["drop"] * (len(model.preferences) > 3) + ["replace"]
    kind = chance.choice(kinds)
    if kind == "add":
        ids = chance.sample(range(_IDS), _BATCH)
        return Operation(kind, tuple((f"item-{number}", _text(chance, model, f"item-{number}")) for number in ids))
    if kind == "forget":
        return Operation(kind, names=tuple(chance.sample(sorted(model.texts), 3)))
    proposed = chance.random() < 0.5
    new = f"I like {chance.choice(TOPICS)} number {chance.randrange(10**6)}" + AGREED * proposed
    if kind == "prefer":
        return Operation(kind, names=(new,), proposed=proposed)
    if kind == "compact":
        return Operation(kind)
    old = chance.choice(model.preferences)
    return Operation(kind, names=(old,) if kind == "drop" else (old, new), proposed=proposed)


def _text(chance: random.Random, model: Model, item_id: str) -> str:
    topics = [preference.split()[2] for preference in model.preferences]
    if item_id not in model.texts:
        # A new version that the coarse filter leaves out is committed before the portion of what it lets pass.
        topics += TOPICS
    sentences = [
        " ".join(["The", *chance.choices(_WORDS, k=12), chance.choice(topics) if n == 0 else "thing"]) + "."
        for n in range(chance.choice([1, 2, 8, 30]))
    ]
    return " ".join([f"Note {chance.randrange(10**9)}.", *sentences])


# doing it, until killed


def opened(path: str | Path, preferences: Sequence[str] | None = None, **options: Any) -> EpicMemory:
    """A memory with the encoder and the verifier of the workers."""
    return EpicMemory.open(path, preferences, encoder=TopicEncoder(), **settled(verifier=Judge(), **options))


def work(
    path: str, seed: int, preferences: list[str], texts: dict[str, str], budget: int | None, reserve: int | None
) -> None:
    """Write into a memory that holds some preferences and texts, without end; say what is begun, and what is done."""
    try:
        _work(path, seed, Model(tuple(preferences), texts, light=reserve != 0), budget=budget, reserve=reserve)
    except BaseException:
        tell("error " + json.dumps(traceback.format_exc())[-3000:])


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _work(path: str, seed: int, model: Model, **options: Any) -> None:

    # A batch of a stream is one change, however slow the machine.
    portions._MOMENT = 3600.0
    intake._BATCH = _BATCH
    memory = opened(path, model.preferences, **options)
    tell("opened")
    coming = operations(seed, model)
    current = next(coming)

    def stream() -> Iterator[Item]:
        nonlocal current
        while current.kind == "add":
            for item_id, text in current.items:
                yield Item(id=item_id, text=text)
            # Asked for more: the batch before is committed.
            tell("done")
            current = next(coming)
            tell(f"begin {current.kind}")

    tell(f"begin {current.kind}")
    while True:
        if current.kind == "add":
            memory.add(stream())
            continue
        if current.proposed:
            memory.proposals.add([current.proposal], again=True)
            memory.proposals.accept(current.proposal)
        elif current.kind == "prefer":
            memory.preferences.add(*current.names)
        elif current.kind == "drop":
            memory.preferences.remove(*current.names)
        elif current.kind == "replace":
            memory.preferences.replace(*current.names)
        elif current.kind == "forget":
            # As items: some of them are perhaps gone because of a budget, and an unknown id is an error.
            memory.forget(*(Item(id=name, text="whatever it says") for name in current.names))
        else:
            memory.file.compact()
        tell("done")
        current = next(coming)
        tell(f"begin {current.kind}")


# what is left


@dataclass(frozen=True, kw_only=True)
class Kill:
    """One kill.

    Attributes:
        during: What was under way: "open" or the kind of an operation.
        acknowledged: How many operations were.
        journal: Whether it left a journal: a change was being written.
        failure: What was wrong then, or nothing.
    """

    seed: int
    during: str
    acknowledged: int
    journal: bool
    failure: str


def killed(
    workers: Workers, path: Path, *, seed: int, kills: int, budget: int | None = None, reserve: int | None = None
) -> Iterator[Kill]:
    """Kill workers on one file, one after the other, and look at what each left."""
    chance = random.Random(seed)
    preferences = ("I like tea number 1", "I like trains number 2", "I like chess number 3")
    model = Model(preferences, light=reserve != 0)
    for number in range(kills):
        begun = chance.choice([0, *range(1, 25)])
        given = (str(path), seed * 1000 + number, model.preferences, model.texts, budget, reserve)
        delay = chance.uniform(0.0, 0.012 if begun else 0.03)
        # It says that it has opened the file, then of each operation that it has begun, and that it is done.
        told = workers.run(*given, killed_after=delay, lines=2 * begun)
        started = [line.split()[1] for line in told if line.startswith("begin")]
        acknowledged = told.count("done")
        journal = Path(f"{path}-journal").exists()
        coming = operations(given[1], model)
        for _ in range(acknowledged):
            model = model.after(next(coming))
        under_way = next(coming) if len(started) > acknowledged else Operation("compact")
        failure = next((line for line in told if line.startswith("error")), "")
        if not failure and (path.exists() or "opened" in told):
            try:
                model = checked_within(path, model, under_way, budget) if budget else checked(path, model, under_way)
            except Exception:
                failure = traceback.format_exc()
        yield Kill(
            seed=given[1],
            during=started[-1] if len(started) > acknowledged else "open",
            acknowledged=acknowledged,
            journal=journal,
            failure=failure,
        )
        if failure:
            return


def exported(memory: EpicMemory, folder: Path) -> list[dict[str, Any]]:
    """The lines of an export, which is removed again."""
    target = folder / f"{memory.file.path.name if memory.file.path else 'ram'}.jsonl"
    memory.file.export(target, overwrite=True)
    lines = target.read_text(encoding="utf-8").splitlines()
    target.unlink()
    return [json.loads(line) for line in lines]


def content_of(memory: EpicMemory, folder: Path) -> dict[str, Any]:
    """What a memory holds, as it exports it: preferences; item id to text, and to instructions by preference."""
    lines = exported(memory, folder)
    names = {line["id"]: line["text"] for line in lines if line["kind"] == "preference"}
    items = {
        line["id"]: [line["text"], {names[entry["preference"]]: entry["instruction"] for entry in line["entries"]}]
        for line in lines
        if line["kind"] == "item"
    }
    return {"preferences": list(names.values()), "items": items}


def check_accepted(memory: EpicMemory) -> None:
    """Check that a preference from a proposal is in force exactly if the proposal is marked as accepted."""
    accepted = {proposal.text for proposal in memory.proposals.accepted() if proposal.text}
    assert accepted == {p.text for p in memory.preferences if p.text.endswith(AGREED)}


def checked(path: Path, acknowledged: Model, under_way: Operation) -> Model:
    """Check what a kill left: what was acknowledged, and what was under way whole or not at all; which of the two."""
    models = [acknowledged, acknowledged.halfway(under_way), acknowledged.after(under_way)]
    allowed = [model.content for model in models]
    before = _bytes(path)
    try:
        with opened(path, read_only=True) as looking:
            found = content_of(looking, path.parent)
        assert found in allowed, "read without being repaired, it holds something else"
    except StoreError:
        pass  # it has to be opened for writing once
    assert _bytes(path) == before, "opened for reading only, it was written"
    with opened(path) as memory:
        found = content_of(memory, path.parent)
        assert found in allowed, (acknowledged, under_way)
        assert memory.file.verify() > 0
        assert [p.text for p in memory.preferences] == found["preferences"]
        check_accepted(memory)
    _assert_one_file(path)
    with opened(path) as memory:
        hits = memory.search(" ".join(TOPICS), k=2 * _IDS, options=SearchOptions(stance_policy="any"))
        assert {hit.item.id: hit.item.text for hit in hits} == {key: text for key, (text, _) in found["items"].items()}
    _assert_one_file(path)
    return models[allowed.index(found)]


def checked_within(path: Path, acknowledged: Model, under_way: Operation, budget: int) -> Model:
    """As `checked`, for a memory with a byte budget: some may have been evicted, and changes are made in pieces."""
    following = acknowledged.after(under_way)
    assert sum(len(octets) for octets in _bytes(path).values()) <= budget, "the budget was exceeded"
    with opened(path) as memory:
        assert memory.file.verify() > 0
        found = content_of(memory, path.parent)
        items = (line for line in exported(memory, path.parent) if line["kind"] == "item")
        versions = {line["id"]: bytes.fromhex(line["version"]) for line in items}
        assert memory.stats().budget == budget
    _assert_one_file(path)
    assert path.stat().st_size <= budget
    # Of one that replaces another, the other goes last: killed in between, both are in force, and nothing is lost.
    both = {*acknowledged.preferences, *following.preferences}
    assert found["preferences"] in [list(acknowledged.preferences), list(following.preferences)] or (
        set(found["preferences"]) == both
    ), (found["preferences"], acknowledged.preferences, following.preferences)
    texts: dict[str, str] = {}
    for item_id, (text, entries) in found["items"].items():
        known = {model.texts[item_id] for model in (acknowledged, following) if item_id in model.texts}
        right = [
            each for each in known if versions[item_id] == item_digest(item_id, each, dumped_metadata({}, item_id))
        ]
        assert right, f"{item_id} was never added like that, or was forgotten"
        texts[item_id] = right[0]
        assert text == right[0]
        pairs = acknowledged.entries(right[0]) | following.entries(right[0])
        assert (entries or acknowledged.light) and entries.items() <= pairs.items()
    return replace(acknowledged, preferences=tuple(found["preferences"]), texts=texts)


def _bytes(path: Path) -> dict[str, bytes]:
    files = [path, *(Path(f"{path}{suffix}") for suffix in SIDE_FILES)]
    return {file.name: file.read_bytes() for file in files if file.exists()}


def _assert_one_file(path: Path) -> None:
    assert not [suffix for suffix in SIDE_FILES if Path(f"{path}{suffix}").exists()], "a side file is left"


# a process that forks workers

_FORKING = """
import json, os, sys
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            work(*json.loads(line))
        finally:
            os._exit(0)
    print("pid", child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


class Workers:
    """A process that has imported what its workers need, and forks one for each run.

    Args:
        script: Code that defines `work`, which may print lines, flushed.
    """

    def __init__(self, script: str) -> None:
        self._script = script

    def __enter__(self) -> Workers:
        command = [sys.executable, "-c", self._script + _FORKING]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def run(self, *given: object, killed_after: float | None = None, lines: int = 1) -> list[str]:
        """Have a worker work, and kill it so many seconds after it has printed some lines; what it printed."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()
        said, pid = [], 0
        while (line := self._process.stdout.readline().strip()) != "ended":
            assert self._process.poll() is None
            if line.startswith("pid "):
                pid = int(line.removeprefix("pid "))
            else:
                said.append(line)
            if killed_after is not None and pid and len(said) >= lines:
                time.sleep(killed_after)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                killed_after = None
        return said

    def __exit__(self, *raised: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


def killers() -> Workers:
    """Workers that write into a memory, to be killed."""
    return Workers(
        f"import sys; sys.path.insert(0, {str(Path(__file__).resolve().parent)!r})\nfrom crashing import work"
    )
