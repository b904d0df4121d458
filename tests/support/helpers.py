"""Fakes at the seams: encoders, verifiers and fallbacks whose behaviour is known."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import fields
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from epic_memory import EpicMemory, Preference, SearchOptions, Settings
from epic_memory.text.translations import translations
from epic_memory.types import Alignment, Candidate, Decision, FloatArray, Stance, Verdict


class HashEncoder:
    """One axis for each word: texts are as similar as the words they share, unrelated texts have cosine 0."""

    def __init__(self, dimension: int = 1024, *, name: str = "hash", fingerprint: str = "v1") -> None:
        self.name = name
        self.dimension = dimension
        self.fingerprint = fingerprint
        self.tau = 0.3
        self.floor = 0.2
        # Its cosines say how many words texts share: phrases in other words mean nothing to it.
        self.borrow = False
        # Nothing is below its floor of relevance: what is searched for is what is tested.
        self.relevant = -1.0
        self.calls = 0
        self.texts: Counter[str] = Counter()
        self.sync_threads: set[int] = set()
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> FloatArray:
        with self._lock:
            self.sync_threads.add(threading.get_ident())
        return self._encode(texts)

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        await asyncio.sleep(0)
        return self._encode(texts)

    def _encode(self, texts: Sequence[str]) -> FloatArray:
        with self._lock:
            self.calls += 1
            self.texts.update(texts)
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> FloatArray:
        vector = np.zeros(self.dimension, dtype=np.float32)
        for word in re.findall(r"\w+", text.lower()) or [text]:
            vector[zlib.crc32(f"{self.fingerprint}{word}".encode()) % self.dimension] += 1.0
        return vector / np.linalg.norm(vector)


class AlteredEncoder(HashEncoder):
    """Returns what `alter` makes of right embeddings, for texts that contain `when`."""

    def __init__(self, alter: Callable[[FloatArray], object], when: str = "") -> None:
        super().__init__()
        self.alter = alter
        self.when = when

    def _encode(self, texts: Sequence[str]) -> FloatArray:
        vectors = super()._encode(texts)
        return self.alter(vectors) if any(self.when in text for text in texts) else vectors  # type: ignore[return-value]


BROKEN = {
    "nan": lambda vectors: np.full_like(vectors, np.nan),
    "infinity": lambda vectors: np.full_like(vectors, np.inf),
    "zero": np.zeros_like,
    "too few rows": lambda vectors: vectors[:-1],
    "wrong dimension": lambda vectors: vectors[:, :-1],
    "flat": lambda vectors: vectors.ravel(),
    "no numbers": lambda vectors: [["a"] * vectors.shape[1] for _ in vectors],
}


def method(component: Any, name: str, *, twin: bool = False) -> Any:
    """Returns a method, such as "preferences.add" of a memory, or its asynchronous twin."""
    *groups, last = name.split(".")
    for group in groups:
        component = getattr(component, group)
    if twin:
        last = f"_a{last[1:]}" if last.startswith("_") else f"a{last}"
    return getattr(component, last)


def searching(**given: Any) -> dict[str, Any]:
    """Arguments of a search, given one by one: those that `SearchOptions` has become one."""
    return _folded(SearchOptions, "options", given)


def settled(**given: Any) -> dict[str, Any]:
    """Arguments of a memory, given one by one: those that `Settings` has become one."""
    return _folded(Settings, "settings", given)


def memory_of(*preferences: str | Preference, **options: Any) -> EpicMemory:
    """A memory in RAM, by default of red wine, that keeps whatever passes."""
    options = {"encoder": HashEncoder(), "verifier": KeepAll(), **options}
    return EpicMemory(preferences or ("red wine",), **settled(**options))


def memory_at(path: str | Path, *preferences: str | Preference, **options: Any) -> EpicMemory:
    """A memory in a file, made with the preferences given where there is none; it keeps whatever passes."""
    options = {"encoder": HashEncoder(), "verifier": KeepAll(), **options}
    return EpicMemory.open(path, preferences or None, **settled(**options))


def imported(export: Path, path: Path, **options: Any) -> EpicMemory:
    """A memory in a file, made from an export."""
    return EpicMemory.restore(export, path, **settled(**{"encoder": HashEncoder(), "verifier": KeepAll(), **options}))


def _folded(kind: Any, name: str, given: dict[str, Any]) -> dict[str, Any]:
    own = {each.name: given.pop(each.name) for each in fields(kind) if each.name in given}
    return {**given, name: kind(**own)} if own else given


async def both(component: Any, name: str, *arguments: Any, **options: Any) -> Any:
    """Return or raise what a method does, which its asynchronous twin has to do as well."""
    outcomes: list[Any] = []
    for call in (method(component, name), method(component, name, twin=True)):
        try:
            made = call(*arguments, **options)
            outcomes.append(await made if isinstance(made, Awaitable) else made)
        except Exception as error:
            outcomes.append(error)
    one, other = outcomes
    if isinstance(one, Exception) or isinstance(other, Exception):
        assert (type(one), str(one)) == (type(other), str(other))
        raise one
    assert one == other
    return one


def together(*actions: Callable[[], object], seconds: float = 120.0) -> None:
    """Do things at the same time, each in a thread; raise what the first of them raised. None may hang."""
    failures: list[BaseException] = []

    def done(action: Callable[[], object]) -> None:
        try:
            action()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=done, args=(action,), daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads), "one of them does not come back"


class Clock:
    """The time as it is told, which can be set; it begins in 2027."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_800_000_000.0
        monkeypatch.setattr(time, "time", lambda: self.now)

    def pass_by(self, days: float) -> None:
        self.now += days * 86_400

    def ends(self, days: float) -> datetime:
        """The time in so many days."""
        return datetime.fromtimestamp(self.now + days * 86_400, timezone.utc)


def keep(candidate: Candidate, stance: Stance = Stance.SUPPORTS) -> Verdict:
    """Keep a candidate for all of its preferences."""
    alignments = tuple(
        Alignment(
            preference_id=preference.id,
            instruction=f"Think of {preference.text}: {candidate.item.text}",
            stance=stance,
            confidence=0.9,
        )
        for preference in candidate.preferences
    )
    return Verdict(decision=Decision.KEEP, rationale="near", alignments=alignments, confidence=0.9)


class FakeVerifier:
    """Yields what `verdicts` yields; remembers the (item text, preference texts) it was asked about."""

    name = "fake"

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def verdicts(self, candidates: Sequence[Candidate]) -> Iterator[object]:
        raise NotImplementedError

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        self.asked += [(c.item.text, tuple(p.text for p in c.preferences)) for c in candidates]
        yield from self.verdicts(candidates)  # type: ignore[misc]

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        for verdict in self.verify(candidates):
            await asyncio.sleep(0)
            yield verdict


class KeepAll(FakeVerifier):
    """Keeps everything; `stances` maps a word to the stance of the items that contain it."""

    def __init__(self, stances: dict[str, Stance] | None = None) -> None:
        super().__init__()
        self.stances = stances or {}

    def verdicts(self, candidates: Sequence[Candidate]) -> Iterator[object]:
        for candidate in candidates:
            found = [stance for word, stance in self.stances.items() if word in candidate.item.text]
            yield keep(candidate, found[0] if found else Stance.SUPPORTS)


class Raising(FakeVerifier):
    """Keeps `after` candidates of each call, then raises, `times` times; later it keeps everything."""

    def __init__(self, error: BaseException, *, after: int = 0, times: int = 1, block: int | None = None) -> None:
        super().__init__()
        self.error = error
        self.after = after
        self.times = times
        if block is not None:
            self.block = block

    def verdicts(self, candidates: Sequence[Candidate]) -> Iterator[object]:
        for number, candidate in enumerate(candidates):
            if number == self.after and self.times:
                self.times -= 1
                raise self.error
            yield keep(candidate)


class TooMany(FakeVerifier):
    """Yields one verdict more than it was asked for."""

    def verdicts(self, candidates: Sequence[Candidate]) -> Iterator[object]:
        yield from map(keep, candidates)
        yield keep(candidates[0])


class TooFew(FakeVerifier):
    """Leaves out the last verdict."""

    def verdicts(self, candidates: Sequence[Candidate]) -> Iterator[object]:
        yield from map(keep, candidates[:-1])


class Answering(FakeVerifier):
    """Yields what a function says of each candidate."""

    def __init__(self, answer: Callable[[Candidate], object]) -> None:
        super().__init__()
        self.answer = answer

    def verdicts(self, candidates: Sequence[Candidate]) -> Iterator[object]:
        yield from map(self.answer, candidates)


DiscardAll = partial(Answering, lambda _: Verdict(decision=Decision.DISCARD, rationale="far"))
UndecidedAll = partial(Answering, lambda _: Verdict(decision=Decision.UNDECIDED, rationale="no answer"))


def _kept(*alignments: Alignment) -> Verdict:
    return Verdict(decision=Decision.KEEP, alignments=alignments)


CONTRACT_BREAKERS: dict[str, Callable[[], FakeVerifier]] = {
    "too many verdicts": TooMany,
    "no verdict objects": lambda: Answering(lambda _: "Keep"),
    "unknown preference": lambda: Answering(lambda _: _kept(Alignment(preference_id="nobody", instruction="Use it."))),
    "keeps for no preference": lambda: Answering(lambda _: _kept()),
    "empty instruction": lambda: Answering(
        lambda c: _kept(Alignment(preference_id=c.preferences[0].id, instruction="  "))
    ),
}


not_locked = pytest.mark.parametrize("locking", ["plain"], indirect=True, scope="module")
"""Mark of a test that is not run with locked files: it has none, reads the bytes of one, or goes by its pages."""

if os.environ.get("EPIC_TESTS_LOCKED"):
    import locked  # noqa: F401 - a worker of a test whose files are locked


def check_places(package: str, language: str) -> None:
    """Each message of a package's translations has the same places as in English."""
    found = translations(language, package)
    assert found.keys() == translations("de", package).keys()
    for english, own in found.items():
        assert own.strip() and own != english
        assert re.findall('"?{}"?', own) == re.findall('"?{}"?', english), own
        # What follows is joined to it.
        assert own.endswith(" ") == english.endswith(" ")


Call: TypeAlias = Callable[..., Awaitable[Any]]


def calling(how: str) -> Call:
    """Calls a method of anything by its name: "sync", or "async" by its asynchronous twin."""

    async def called(component: Any, name: str, *arguments: Any, **options: Any) -> Any:
        made = method(component, name, twin=how == "async")(*arguments, **options)
        return await made if how == "async" else made

    return called


class WordModel(Answering):
    """Like a language model, whose verdicts are cached. By its words a text is discarded, undecided or kept.

    Attributes:
        who: Stands in all that it writes.
        decides: Whether it keeps what says "wait", on which it cannot decide otherwise.
    """

    name = "model"
    cached = True

    def __init__(self, who: str = "somebody") -> None:
        super().__init__(self._decided)
        self.who = who
        self.decides = False

    def _decided(self, candidate: Candidate) -> Verdict:
        text, said = candidate.item.text, f"{self.who} says of {candidate.item.id}"
        if "drop" in text:
            return Verdict(decision=Decision.DISCARD, rationale=said, confidence=0.7)
        if "wait" in text and not self.decides:
            return Verdict(decision=Decision.UNDECIDED, rationale=said)
        alignments = tuple(
            Alignment(
                preference_id=preference.id,
                instruction=f"{said}: think of {preference.text}, {text}",
                stance=list(Stance)[(len(text) + place) % len(Stance)],
                confidence=None if "unsure" in text else round(0.5 + 0.01 * (len(text) % 40), 2),
                rationale=f"{said}, because of {preference.text}",
            )
            for place, preference in enumerate(candidate.preferences)
        )
        return Verdict(decision=Decision.KEEP, rationale="near", alignments=alignments, confidence=0.9)
