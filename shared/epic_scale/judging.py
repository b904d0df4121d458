"""Judging of chunks for many people: the coarse filter for all of them, then the verifier, chunk by chunk and user."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from epic_memory import Candidate, Decision, Item, Settings, Verdict
from epic_memory.encoders import Encoder, encoder_of
from epic_memory.encoders.base import embed
from epic_memory.errors import EpicError
from epic_memory.pipeline.coarse_filter import candidate_of
from epic_memory.types import FloatArray
from epic_memory.verification.base import base_verifier, checked_verdict
from epic_memory.verification.embedded import verifier_of
from epic_scale.coarse import CoarseFilter
from epic_scale.people import People, model_of


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Verdict on a chunk for one user under one preference; without a user, for all of them.

    Attributes:
        user: The user's id; None if the chunk concerns nobody, or could not be judged for anybody.
        preference: The preference's text: one it is kept for, or else the nearest.
        keep: Whether it is kept.
        stance, instruction, confidence, rationale: As in an entry of a memory.
        score: Sim(E(x), E(p)).
        error: Why it could not be judged; empty if it was.
    """

    user: str | None = None
    preference: str | None = None
    keep: bool = False
    stance: str | None = None
    instruction: str | None = None
    confidence: float | None = None
    score: float | None = None
    rationale: str = ""
    error: str = ""


_OTHERS = {"keep": bool, "confidence": float, "score": float}
KINDS: dict[str, type] = {name: _OTHERS.get(name, str) for name in Judgement.__dataclass_fields__}
"""The columns of judgements, with the type of each."""


def columns() -> list[tuple[str, Any]]:
    """Return the columns of judgements as Arrow has them."""
    import pyarrow as pa

    types = {str: pa.string(), bool: pa.bool_(), float: pa.float64()}
    return [(name, types[kind]) for name, kind in KINDS.items()]


@dataclass
class Judge:
    """A judge of chunks for some people.

    Args:
        people: The people.
        encoder, llm, settings: As for `EpicMemory`.

    Attributes:
        seconds: Spent on embedding, filtering and verifying so far.
        embeddings: E(x) of the chunks that were judged last, shape `(n, d)`.
    """

    people: People
    encoder: Encoder | str | None = None
    llm: Any = None
    settings: Settings = Settings()
    seconds: dict[str, float] = field(default_factory=lambda: {"encode": 0.0, "filter": 0.0, "verify": 0.0})

    embeddings: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._encoder = encoder_of(self.encoder)
        how = self.settings
        self._verifier = base_verifier(verifier_of(how.verifier, self._encoder, model_of(self.llm), how.language))
        self._coarse = CoarseFilter(self.people)

    def judge(self, items: Sequence[Item]) -> list[list[Judgement]]:
        """Judge chunks; return for each what it is to the users, or one judgement that names nobody. Never raises."""
        try:
            with self._timed("encode"):
                self.embeddings = embed(self._encoder, [item.content for item in items])
            with self._timed("filter"):
                found = list(self._candidates(items, self.embeddings))
        except Exception as error:
            return [[Judgement(error=_told(error))] for _ in items]
        with self._timed("verify"):
            judgements: list[list[Judgement]] = [[] for _ in items]
            verdicts = self._verdicts([candidate for _, _, candidate in found])
            for (row, users, candidate), verdict in zip(found, verdicts, strict=True):
                for user in users:
                    judgements[row] += self._judgements(self.people.users[user], candidate, verdict)
            return [each or [Judgement()] for each in judgements]

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - started

    def _candidates(self, items: Sequence[Item], embeddings: FloatArray) -> Iterator[tuple[int, list[int], Candidate]]:
        """Yield what passes: the chunk's row, the places of the users to whom it is the same, the candidate."""
        people = self.people
        wanted: dict[tuple[int, int], list[int]] = {}
        rows, passing = self._coarse.pairs([item.content for item in items], embeddings)
        for row, place in zip(rows.tolist(), passing.tolist(), strict=True):
            for user in people.holders[place]:
                wanted.setdefault((row, user), []).append(place)
        alike: dict[tuple[tuple[int, ...], int], list[int]] = {}
        for (row, user), places in wanted.items():
            alike.setdefault((tuple(sorted(places, key=people.held[user].index)), row), []).append(user)
        # What has the same preferences lies together: it is measured together.
        for (some, row), users in sorted(alike.items()):
            yield row, users, candidate_of(items[row], embeddings[row], some, people.preferences, people.vectors)

    def _verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Return a verdict on each candidate; a failure is one that is Undecided."""
        verdicts: dict[int, Verdict] = {}
        failure = "the verifier gave no verdict"
        try:
            for place, verdict in self._verifier.stream(candidates):
                verdicts[place] = checked_verdict(candidates[place], verdict)
        except Exception as error:
            failure = _told(error)
        undecided = Verdict(decision=Decision.UNDECIDED, rationale=failure)
        return [verdicts.get(place, undecided) for place in range(len(candidates))]

    def _judgements(self, user: str, candidate: Candidate, verdict: Verdict) -> Iterator[Judgement]:
        near = dict(zip((one.id for one in candidate.preferences), candidate.similarities, strict=True))
        texts = {one.id: one.text for one in candidate.preferences}
        if verdict.decision is Decision.KEEP:
            for one in verdict.completed():
                yield Judgement(
                    user=user,
                    preference=texts[one.preference_id],
                    keep=True,
                    stance=one.stance.value,
                    instruction=one.instruction,
                    confidence=one.confidence,
                    score=near[one.preference_id],
                    rationale=one.rationale,
                )
            return
        error = verdict.rationale or "undecided" if verdict.decision is Decision.UNDECIDED else ""
        nearest = candidate.preferences[0]
        yield Judgement(
            user=user,
            preference=nearest.text,
            score=candidate.similarities[0],
            confidence=verdict.confidence,
            rationale="" if error else verdict.rationale,
            error=error,
        )


def items_of(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[int, Item], dict[int, str]]:
    """Return the chunks in rows by their places, and for rows that are none the reason.

    A chunk has a `text`, and an `id` and `metadata` if the row has them.
    """
    items, broken = dict[int, Item](), dict[int, str]()
    for place, row in enumerate(rows):
        try:
            metadata = {key: value for key, value in (row.get("metadata") or {}).items() if value is not None}
            items[place] = Item(text=row.get("text"), id=str(row.get("id") or ""), metadata=metadata)  # type: ignore[arg-type]
        except Exception as error:
            broken[place] = str(error)
    return items, broken


def judged_rows(judge: Judge, rows: Sequence[Mapping[str, Any]]) -> list[list[Judgement]]:
    """Return the judgements of each row; of one that is no chunk, one with an error."""
    items, broken = items_of(rows)
    found = dict(zip(items, judge.judge(list(items.values())), strict=True))
    return [found[place] if place in found else [Judgement(error=broken[place])] for place in range(len(rows))]


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, EpicError) else f"{type(error).__name__}: {error}"
