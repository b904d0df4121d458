"""Fine verification inside a memory: verdicts from the cache or the verifier, and what they mean (section 3.2)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from epic_memory.encoders.base import Embed, Encoder
from epic_memory.errors import BudgetError, EpicError
from epic_memory.pipeline.commit import KeptItem, WriteBatch, lasting_verdicts
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Effects
from epic_memory.runtime.streaming import AnswerStream, Batch, NextBatch
from epic_memory.storage.tables.entries import NewEntry, verifier_number
from epic_memory.storage.tables.items import version_of
from epic_memory.storage.tables.verdicts import Recalled
from epic_memory.types import Alignment, BuildReport, Candidate, Decision, FloatArray, Item, Preference, Verdict
from epic_memory.types.reports import NotKept
from epic_memory.verification.base import Verifier, checked_verdict

_KNOWN_AT_ONCE = 256
_FAILURES_SHOWN = 100
_ANSWER_KEPT = 500
_ANSWER_REPORTED = 4000

Decided: TypeAlias = Sequence[tuple[Candidate, Verdict]]
"""Candidates with their verdicts."""


class VerdictBatch(NamedTuple):
    """Some verdicts: all of them, and the new ones among them, which are to be remembered."""

    decided: Decided
    new: Decided


class VerdictBatches:
    """The verdicts on candidates, batch by batch: those of the cache first, then the verifier's as they come.

    Without fine verification each is kept under its preferences, without an instruction.

    Args:
        session: The memory's.
        candidates: Some may have the same text; each text is asked about once.
        report: Counts what was cached and what it took.
    """

    def __init__(self, session: Session, candidates: Sequence[Candidate], report: BuildReport) -> None:
        self.verifier = verifier = session.verifier
        self._report = report
        self._recalled: Recalled | None = None
        self._waiting = set[int]()
        if not session.settings.fine:
            kept = [[Alignment(preference_id=p.id, instruction="") for p in one.preferences] for one in candidates]
            verdicts = [Verdict(decision=Decision.KEEP, alignments=tuple(each)) for each in kept]
            self._known = list(zip(candidates, verdicts, strict=True))
            return
        remembers = session.base.cached
        caching = remembers and session.store.verdicts.kept > 0
        self._alike: dict[Hashable, list[Candidate]] = {}
        for candidate in candidates:
            self._alike.setdefault(_asked_as(candidate) if caching else id(candidate), []).append(candidate)
        chosen = [same[0] for same in self._alike.values()]
        if remembers and candidates and session.verified_by != verifier.name:
            with session.lock, session.store.transaction():
                session.store.set_meta(**{f"verifier/{session.namespace}": verifier.name})
            session.verified_by = verifier.name
        if caching:
            with session.lock:
                self._recalled = session.store.verdicts.recall(session.namespace, verifier.name, chosen)
            report.cached += self._recalled.pairs
        self._known = [] if self._recalled is None else list(self._recalled.known)
        self._asked = chosen if self._recalled is None else self._recalled.asked
        self._waiting.update(range(len(self._asked)))
        name, block = f"verifier {verifier.name!r}", session.base.block
        self._stream = AnswerStream(session.base, self._asked, check=checked_verdict, name=name, size=block)

    def next_batch(self) -> Effects[VerdictBatch | None]:
        """Return the next batch; None once every candidate has its verdict."""
        if self._known:
            known, self._known = self._known[:_KNOWN_AT_ONCE], self._known[_KNOWN_AT_ONCE:]
            return VerdictBatch(known if self._recalled is None else self._for_all(known), [])
        if not self._waiting:
            return None
        batch: Batch[Verdict] = yield NextBatch(self._stream)
        new: list[tuple[Candidate, Verdict]] = []
        for position, verdict in batch.answers:
            self._waiting.discard(position)
            new.append((self._asked[position], verdict))
            if verdict.usage is not None:
                self._report.usage.add(verdict.usage)
        if batch.last:
            failed = Verdict(decision=Decision.UNDECIDED, rationale=batch.failure or "no verdict")
            new += [(self._asked[position], failed) for position in sorted(self._waiting)]
            self._waiting.clear()
        if self._recalled is None:
            return VerdictBatch(new, [])
        return VerdictBatch(self._for_all([self._recalled.completed(*one) for one in new]), new)

    def _for_all(self, decided: Decided) -> Decided:
        """Give every candidate with the same text and preferences the same verdict."""
        return [(same, verdict) for candidate, verdict in decided for same in self._alike[_asked_as(candidate)]]


def _asked_as(candidate: Candidate) -> Hashable:
    """Return a key that is the same for candidates that are the same question."""
    return candidate.item.content, tuple(preference.id for preference in candidate.preferences)


def batch_of(
    session: Session,
    encoder: Encoder,
    verifier: Verifier,
    verdicts: VerdictBatch,
    report: BuildReport,
    *,
    retried: bool = False,
) -> Effects[WriteBatch]:
    """Turn verdicts into the rows to be written, with the embeddings of instructions.

    With `retried` the items were in the memory before.
    """
    asked = {preference.id: preference for candidate, _ in verdicts.new for preference in candidate.preferences}
    batch = WriteBatch(encoder=encoder, version=verifier.name, retried=retried)
    batch.verdicts, batch.asked = list(verdicts.new), list(asked.values())
    judged = verifier_number(verifier.name)
    keep: list[tuple[Candidate, Verdict]] = []
    for candidate, verdict in verdicts.decided:
        if verdict.decision is Decision.KEEP:
            keep.append((candidate, verdict))
        elif verdict.decision is Decision.DISCARD:
            batch.discarded.append(candidate.item)
            batch.rejected.append((candidate.item, candidate.embedding))
            record = NotKept(
                item_id=candidate.item.id,
                text=candidate.item.text,
                stage="verification",
                reason=verdict.rationale or "fine verification found it irrelevant",
                preference=candidate.preferences[0].text if candidate.preferences else "",
                similarity=candidate.similarities[0] if candidate.similarities else None,
            )
            batch.records.append((version_of(candidate.item), record))
            report.discarded += 1
        else:
            # What the model said waits with the item: `explain` shows it.
            answered = f" The model answered: {verdict.answer[:_ANSWER_KEPT]!r}" if verdict.answer else ""
            under = [preference.id for preference in candidate.preferences]
            batch.undecided.append((candidate.item, verdict.rationale + answered, under))
            batch.unjudged.append((candidate.item, candidate.embedding))
            count_undecided(report, candidate.item, verdict)

    instructions = (alignment.instruction for _, verdict in keep for alignment in verdict.alignments)
    texts = list(dict.fromkeys(filter(None, instructions)))
    try:
        vectors: FloatArray = yield Embed(encoder, texts, "embedding instructions")
    except GeneratorExit:
        # The encoder failed or was interrupted. What the model said is kept all the same, if anything can be.
        with suppress(EpicError):
            remember(session, batch)
        raise
    vector_of = dict(zip(texts, vectors, strict=True))
    for candidate, verdict in keep:
        similarity = {p.id: s for p, s in zip(candidate.preferences, candidate.similarities, strict=True)}
        entries = [
            NewEntry(
                preference_id=alignment.preference_id,
                instruction=alignment.instruction,
                stance=alignment.stance,
                rationale=alignment.rationale or verdict.rationale,
                confidence=verdict.confidence if alignment.confidence is None else alignment.confidence,
                similarity=similarity[alignment.preference_id],
                # What nobody verified is found by its text.
                vector=vector_of.get(alignment.instruction, candidate.embedding),
                verifier=judged if alignment.instruction else 0,
            )
            for alignment in verdict.alignments
        ] or [NewEntry(vector=candidate.embedding)]  # where neither stage says what an item is for
        batch.kept.append(KeptItem(item=candidate.item, entries=entries, vector=candidate.embedding))
    return batch


def remember(session: Session, batch: WriteBatch) -> None:
    """Commit the verdicts of a batch to the cache, before the batch itself."""
    if batch.verdicts:
        # What finds no room is asked for again.
        with suppress(BudgetError), session.lock, session.store.transaction():
            kept, verdicts = session.store.verdicts.kept, lasting_verdicts(session, batch)
            session.store.verdicts.remember(session.namespace, batch.version, verdicts[-kept:])
        batch.verdicts = []


def forget_gone(session: Session, asked: Sequence[Preference]) -> None:
    """Forget verdicts under preferences that were removed while the model was asked."""
    with session.lock:
        live = {preference.id for preference in session.space().preferences} if asked else set()
    for preference in asked:
        if preference.id not in live:
            with session.lock, session.store.transaction():
                session.store.verdicts.forget_preference(session.namespace, preference)


def count_undecided(report: BuildReport, item: Item, verdict: Verdict) -> None:
    """Count an undecided item in a report, with the reason."""
    report.undecided += 1
    if len(report.failures) < _FAILURES_SHOWN:
        report.failures[item.id] = verdict.rationale
        if verdict.answer:
            report.answers[item.id] = verdict.answer[:_ANSWER_REPORTED]
