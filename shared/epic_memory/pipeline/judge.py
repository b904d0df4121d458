"""Judging: stages 1 and 2 by themselves, without taking the items into the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from epic_memory.encoders.base import Embed
from epic_memory.errors import NoPreferencesError
from epic_memory.pipeline.coarse_filter import expanded_phrases
from epic_memory.pipeline.commit import WriteBatch
from epic_memory.pipeline.ingest import coarse_stage
from epic_memory.pipeline.session import Session
from epic_memory.pipeline.verify import VerdictBatches, count_undecided, forget_gone, remember
from epic_memory.runtime.effects import Clock, Effects
from epic_memory.runtime.telemetry import Progress
from epic_memory.types import BuildReport, Candidate, Decision, FloatArray, Item, Verdict
from epic_memory.types.verdicts import Judged

JUDGED_AT_ONCE = 64
"""Number of items that are judged before the first of them is handed out."""


def judge_batch(
    session: Session, items: Sequence[Item], report: BuildReport, clock: Clock, progress: Progress
) -> Effects[list[Judged]]:
    """Decide about each of some items, in their order. Verdicts of models are remembered.

    Raises:
        NoPreferencesError: if there are no preferences to judge by.
        ReadOnlyError: if a model is to be asked and what it says cannot be remembered.
    """
    if session.settings.fine and session.base.cached:
        session.store.check_writable()
    with session.lock, session.store.reading():
        encoder, space = session.encoder, session.space()
        preferences, vectors = list(space.preferences), space.vectors
    if not preferences:
        raise NoPreferencesError("There are no preferences to judge by. Give some: preferences=['...'].")
    # Ids of their own: two items may have one in common.
    plain = [replace(item, id=f"judged {number}") for number, item in enumerate(items)]
    report.seen += len(items)
    embeddings: FloatArray = yield Embed(encoder, [item.content for item in plain], "embedding")
    expanded = yield from expanded_phrases(session, encoder, preferences)
    candidates, _ = coarse_stage(session, plain, embeddings, preferences, vectors, expanded)
    report.passed += len(candidates)
    progress.begin(len(items), len(items), done=len(items) - len(candidates))
    judged: dict[str, Judged] = {}

    verdicts = VerdictBatches(session, candidates, report)
    while (batch := (yield from verdicts.next_batch())) is not None:
        remember(session, WriteBatch(encoder=encoder, version=verdicts.verifier.name, verdicts=list(batch.new)))
        for candidate, verdict in batch.decided:
            judged[candidate.item.id] = _aligned(candidate, verdict)
        if session.store.writable:
            forget_gone(session, preferences)
        progress.advance(len(batch.decided))
    below = Verdict(decision=Decision.DISCARD, rationale=f"below tau {session.tau:.3f}")
    found = [
        replace(judged.get(one.id) or Judged(item=item, verdict=below), item=item)
        for one, item in zip(plain, items, strict=True)
    ]
    for one in found:
        if one.kept:
            report.kept += 1
            # Without either stage nothing says what an item is for: it has one entry all the same.
            report.entries += len(one.verdict.alignments) or 1
        elif one.verdict.decision is Decision.UNDECIDED:
            count_undecided(report, one.item, one.verdict)
        elif one.verdict is not below:
            report.discarded += 1
    return found


def _aligned(candidate: Candidate, verdict: Verdict) -> Judged:
    place = {preference.id: number for number, preference in enumerate(candidate.preferences)}
    alignments = verdict.completed()
    # Of equally sure ones the most similar comes first, as among the candidate's preferences.
    alignments.sort(key=lambda one: (1.0 if one.confidence is None else -one.confidence, place[one.preference_id]))
    places = [place[one.preference_id] for one in alignments]
    return Judged(
        item=candidate.item,
        verdict=replace(verdict, alignments=tuple(alignments)),
        preferences=tuple(candidate.preferences[number] for number in places),
        similarities=tuple(candidate.similarities[number] for number in places),
    )
