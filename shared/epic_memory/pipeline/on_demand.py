"""Verification on demand: what a question finds, and nobody has judged under the preferences that matter to it.

The first texts that a question finds are judged in one call, in a thread of their own, and what was judged is kept for
good: this answer uses it if it comes in time, later ones do in any case. A pair of a text and a preference is asked
about once, until its verdict is there or the model has failed; and only if it passes the coarse filter, as what does
not pass seldom matters. Where the memory was built without the model, "neutral" is no verdict: the embedded verifier
says so where it does not know.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

import numpy as np

from epic_memory.encoders.base import Encoder, default_tau, taus_for_recall
from epic_memory.errors import EpicError, InvalidInputError, StoreError
from epic_memory.pipeline.aspects import reread_preferences
from epic_memory.pipeline.coarse_filter import Expanded, candidate_of, coarse_filter, expanded_phrases
from epic_memory.pipeline.commit import WriteBatch, written
from epic_memory.pipeline.session import Session
from epic_memory.pipeline.verify import VerdictBatches, batch_of
from epic_memory.runtime.background import WaitFor
from epic_memory.runtime.effects import Clock, Effects, StoppedError, run
from epic_memory.storage.namespace import Namespace
from epic_memory.storage.tables.entries import verifier_number
from epic_memory.types import BuildReport, Candidate, Decision, Preference
from epic_memory.types.weights import StageWeights
from epic_memory.verification.base import EMBEDDED

FOUND = 8
"""Most texts of a question's results that are judged."""
_MOST_WAITING = 4
_MOST_REMEMBERED = 50_000
# How long verdicts wait for another process that writes.
_PAUSES, _PAUSE = 240, 0.25
# Who kept something without a verdict: nobody (0), and the verifier without a model.
_UNSURE = frozenset({0, verifier_number(EMBEDDED)})
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)")

Unjudged: TypeAlias = Sequence[tuple[int, Sequence[Preference]]]
"""Rows of items, each with the preferences under which nobody has judged it."""


@dataclass(frozen=True, kw_only=True)
class OnDemandWeights(StageWeights):
    """Preferences under which what a question finds is judged."""

    preferences: int  # how many at most, heaviest first
    least_chance: float  # least chance that such a preference matters to the question


def checked_on_demand(on_demand: object) -> float | None:
    """Return how many seconds an answer waits for verdicts; 0 in the background, None for none.

    Raises:
        InvalidInputError: for anything but "off", "background", or a time such as "300 ms" or a number of seconds.
    """
    if on_demand in ("off", "background"):
        return None if on_demand == "off" else 0.0
    seconds = math.inf
    if isinstance(on_demand, str) and (match := _SECONDS.fullmatch(on_demand.strip())):
        seconds = float(match[1]) / (1000.0 if match[2] == "ms" else 1.0)
    elif isinstance(on_demand, Real) and not isinstance(on_demand, bool):
        seconds = float(on_demand)
    # Longer than this no thread can wait.
    if 0.0 <= seconds <= threading.TIMEOUT_MAX:
        return seconds
    raise InvalidInputError(f'on_demand must be "off", "background" or a time such as "300 ms", not {on_demand!r}.')


def unjudged(
    session: Session, space: Namespace, rows: Sequence[int], matters: Sequence[tuple[Preference, float]]
) -> Unjudged:
    """Return which of the texts found were not judged under the preferences that matter most. Call it under the lock.

    None is, where there is no model, or its verdicts cannot be kept.

    Args:
        session: The memory's.
        space: The namespace that was searched.
        rows: Item rows, best first.
        matters: The preferences, heaviest first, each with the chance that it matters.
    """
    store = session.store
    if not (session.settings.fine and session.base.cached and store.writable and store.verdicts.kept > 0):
        return ()
    weights = OnDemandWeights.shipped()
    heavy = [preference for preference, chance in matters[: weights.preferences] if chance >= weights.least_chance]
    pairs: list[tuple[int, list[Preference]]] = []
    for row in rows[:FOUND] if heavy else ():
        if row in space.facts or space.texts.place(row) < 0:
            continue
        entries = [entry for entry in space.rows_of.get(row, ()) if space.neutral_by.get(entry) not in _UNSURE]
        judged = {space.text_of.get(space.preference_of[entry]) for entry in entries}
        open_ = [one for one in heavy if one.text not in judged and (row, one.id) not in session.asked_on_demand]
        if open_:
            pairs.append((row, open_))
    return pairs


def judged_in_time(session: Session, encoder: Encoder, pairs: Unjudged) -> Effects[bool]:
    """Have pairs judged, wait for the verdicts as long as an answer may, and tell whether they are there."""
    preferences = list({one.id: one for _, several in pairs for one in several}.values())
    expanded = yield from expanded_phrases(session, encoder, preferences)
    with session.lock:
        # A model that hangs is not to be waited for by ever more jobs.
        if session.on_demand is None or session.background.waiting >= _MOST_WAITING:
            return False
        candidates, asked = _candidates(session, encoder, pairs, preferences, expanded)
    if not candidates:
        return False
    job: Future[None] = session.background.submit(lambda stopped: _judge(session, encoder, candidates, asked, stopped))
    if session.on_demand == 0.0:
        return False
    return bool((yield WaitFor(job, session.on_demand)))


def _candidates(
    session: Session, encoder: Encoder, pairs: Unjudged, preferences: Sequence[Preference], expanded: Sequence[Expanded]
) -> tuple[list[Candidate], set[tuple[int, str]]]:
    """Return as candidates the pairs that pass the coarse filter, and whose verdict is not known yet.

    With them come the rows and preferences that count as asked about from now on.
    """
    space = session.space()
    column = {preference.id: number for number, preference in enumerate(space.preferences)}
    known = [number for number, one in enumerate(preferences) if one.id in column]
    pairs = [(row, several) for row, several in pairs if row in space.texts]
    if encoder is not session.encoder or not known or not pairs:
        return [], set()
    live = [preferences[number] for number in known]
    # The encoder's own thresholds: what a user's tau has left out is judged where a question finds it.
    recall = session.settings.coarse_recall
    expanding, other = (recall and taus_for_recall(encoder, recall)) or (default_tau(encoder), default_tau(encoder))
    # By E(x) as it is stored.
    embeddings = space.texts.vectors[space.texts.places([row for row, _ in pairs])]
    passes = coarse_filter(
        embeddings,
        space.vectors[[column[one.id] for one in live]],
        np.array([other if one.expansion is None else expanding for one in live], dtype=np.float32),
        expanded=[expanded[number] for number in known] if expanded else None,
    )
    items = session.store.items.at([row for row, _ in pairs])
    made: list[Candidate] = []
    asked = set[tuple[int, str]]()
    for (row, several), near, embedding in zip(pairs, passes, embeddings, strict=True):
        passing = {live[number].id for number in np.flatnonzero(near).tolist()}
        if row in items and (left := [one.id for one in several if one.id in passing]):
            columns = [column[key] for key in left]
            made.append(candidate_of(items[row], embedding, columns, space.preferences, space.vectors))
            asked.update((row, key) for key in left)
    if len(session.asked_on_demand) > _MOST_REMEMBERED:
        session.asked_on_demand.clear()  # the cache of verdicts knows them, too
    session.asked_on_demand |= asked
    return list(session.store.verdicts.recall(session.namespace, session.verifier.name, made).asked), asked


def _judge(
    session: Session,
    encoder: Encoder,
    candidates: Sequence[Candidate],
    asked: set[tuple[int, str]],
    stopped: threading.Event,
) -> None:
    """Judge candidates and write the verdicts; what the model fails to judge is asked about again another time."""
    report, clock = BuildReport(), Clock()
    failed = True
    try:
        with suppress(EpicError, StoppedError):
            run(_judging(session, encoder, candidates, report, clock, stopped), clock, stopped=stopped)
            failed = report.undecided > 0
        if not failed:
            session.background.submit(lambda stopped: _read_preferences(session, stopped))
        session.share_model_usage()
    finally:
        if failed:
            with session.lock:
                session.asked_on_demand -= asked


def _judging(
    session: Session,
    encoder: Encoder,
    candidates: Sequence[Candidate],
    report: BuildReport,
    clock: Clock,
    stopped: threading.Event,
) -> Effects[None]:
    _wait_for_file(session, stopped)
    verdicts = VerdictBatches(session, candidates, report)
    while (batch := (yield from verdicts.next_batch())) is not None:
        report.undecided += sum(verdict.decision is Decision.UNDECIDED for _, verdict in batch.decided)
        part = yield from batch_of(session, encoder, verdicts.verifier, batch, BuildReport(), retried=True)
        # What is held stays, whatever was decided: only entries are added.
        added = WriteBatch(encoder=encoder, kept=part.kept, version=part.version, retried=True, queued=True)
        added.verdicts, added.asked = part.verdicts, part.asked
        _wait_for_file(session, stopped)
        written(session, added, BuildReport(), clock)


def _read_preferences(session: Session, stopped: threading.Event) -> None:
    """Have the model that answers read the preferences that wait for one: no answer waits for this."""
    if session.store.preferences.unread(session.namespace):
        _wait_for_file(session, stopped)
        run(reread_preferences(session, BuildReport()), Clock(), stopped=stopped)
        session.share_model_usage()


def _wait_for_file(session: Session, stopped: threading.Event) -> None:
    """Wait until no other process writes the file, outside the lock: searches go on."""
    for _ in range(_PAUSES):
        with suppress(StoreError), session.lock, session.store.transaction(wait=False):
            return
        if stopped.wait(_PAUSE):
            return
