"""What changes or describes a memory as a whole: its preferences, its encoder, its sizes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from epic_core import build
from epic_core.coarse import coarse_filter
from epic_core.encoders.base import Encoder
from epic_core.errors import DuplicatePreferenceError, UnknownItemError
from epic_core.reports import Explanation, Stats
from epic_core.steps import Clock, Encode, Steps
from epic_core.store import Store
from epic_core.types import BuildReport, Candidate, FloatArray, Item, Preference
from epic_core.writing import Outcome, check_same_encoder

if TYPE_CHECKING:
    from epic_core.memory import EpicMemory


def add_preference(memory: EpicMemory, preference: Preference, report: BuildReport, clock: Clock) -> Steps[None]:
    """Add a preference, and match the held items with it."""
    yield from _introduce(memory, preference, None, report, clock)


def replace_preference(
    memory: EpicMemory, old: str | Preference, preference: Preference, report: BuildReport, clock: Clock
) -> Steps[None]:
    """Put a preference in another's place, and match the held items with it."""
    with memory._lock:
        space = memory._space()
        replacing = space.preferences[space.find(old)]
    if replacing.id != preference.id:
        yield from _introduce(memory, preference, replacing, report, clock)


def remove_preference(memory: EpicMemory, preference: str | Preference) -> None:
    """Remove a preference, its entries, and the items nothing else holds."""
    with memory._lock:
        space = memory._space()
        found = space.preferences[space.find(preference)]
        memory._spaces.pop(memory.namespace)
        with memory._store.transaction():
            memory._store.remove_preference(memory.namespace, found.id)
        memory._store.give_back()


def _introduce(
    memory: EpicMemory, preference: Preference, replacing: Preference | None, report: BuildReport, clock: Clock
) -> Steps[None]:
    with memory._lock:
        if preference.id in {held.id for held in memory._space().preferences}:
            raise DuplicatePreferenceError(f"The preference {preference.text!r} is held already.")
        encoder, items = memory.encoder, list(memory._store.items(memory.namespace))
    vectors: FloatArray = yield Encode(encoder, [preference.text], "embedding")
    embeddings: FloatArray = yield Encode(encoder, [item.text for item in items], "embedding")
    started = time.perf_counter()
    candidates = _matching(memory, items, embeddings, preference, vectors)
    started = clock.add("coarse filter", started)
    report.seen, report.passed = len(items), len(candidates)
    outcome = Outcome(encoder=encoder)
    size = int(getattr(memory.verifier, "block", build.VERIFY_BLOCK))
    for start in range(0, len(candidates), size):
        part = yield from build.outcome_of(memory, encoder, candidates[start : start + size], report)
        outcome.kept += part.kept
        outcome.undecided += part.undecided
    started = time.perf_counter()
    with memory._lock:
        check_same_encoder(memory, outcome)
        _write(memory, preference, vectors[0], replacing, outcome, report)
    clock.add("index", started)


def _matching(
    memory: EpicMemory, items: list[Item], embeddings: FloatArray, preference: Preference, vectors: FloatArray
) -> list[Candidate]:
    if not items or not (memory.coarse or memory.fine):
        return []
    tau = memory.tau if memory.coarse else -1.0
    rows = coarse_filter(embeddings, vectors, tau).passed
    return [build.candidate_of(items[row], embeddings[row], [0], [preference], vectors) for row in rows]


def _write(
    memory: EpicMemory,
    preference: Preference,
    vector: FloatArray,
    replacing: Preference | None,
    outcome: Outcome,
    report: BuildReport,
) -> None:
    store, namespace = memory._store, memory.namespace
    memory._spaces.pop(namespace, None)
    with store.transaction():
        # The new entries first: an item that only the old preference held may be held by the new one.
        store.add_preference(namespace, preference, vector)
        for item, entries in outcome.kept:
            row = store.item_row(namespace, item.id)
            if row is None:  # gone while it was being verified
                continue
            store.promote(row)
            report.kept += 1
            for entry in entries:
                store.add_entry(namespace, row, entry)
                report.entries += 1
        for item, reason, ids in outcome.undecided:
            store.put_pending(namespace, item, reason, ids)
        if replacing is not None:
            store.move_preference(namespace, preference.id, store.remove_preference(namespace, replacing.id))
    if replacing is not None:
        store.give_back()


def reencode(memory: EpicMemory, encoder: Encoder) -> Steps[None]:
    """Embed everything anew, in one transaction."""
    while True:
        with memory._lock:
            texts = memory._store.embedded_texts()
        vectors: list[FloatArray] = []
        for table in texts:
            vectors += [(yield Encode(encoder, list(table.values()), "embedding"))]
        with memory._lock, memory._store.transaction():
            if memory._store.embedded_texts() != texts:
                continue  # something was written meanwhile
            memory._spaces.clear()
            tables = [dict(zip(table, rows, strict=True)) for table, rows in zip(texts, vectors, strict=True)]
            memory._store.replace_vectors(*tables)
            memory._store.set_meta(encoder=described(encoder))
            for namespace in memory._store.namespaces():
                memory._store.set_meta(**{f"tau/{namespace}": None})
            _adopt(memory, encoder)
            return


def described(encoder: Encoder) -> dict[str, Any]:
    """What a file remembers of its encoder."""
    return {"name": encoder.name, "dimension": encoder.dimension, "fingerprint": encoder.fingerprint}


def _adopt(memory: EpicMemory, encoder: Encoder) -> None:
    from epic_core.verification import EmbeddedVerifier

    if type(memory.verifier) is EmbeddedVerifier and memory.verifier.encoder is memory.encoder:
        memory.verifier = EmbeddedVerifier(encoder, threshold=memory.verifier.threshold)
    memory.encoder = encoder
    memory._tau = None


def explain(store: Store, namespace: str, item_id: str) -> Explanation:
    """Why an item is held."""
    row = store.item_row(namespace, item_id)
    if row is None:
        for item, reason, _ in store.pending(namespace):
            if item.id == item_id:
                return Explanation(item=item, entries=(), note=f"Undecided, in the retry queue: {reason}")
        raise UnknownItemError(f"No item with the id {item_id!r} is held. It was never added, or it was not kept.")
    item = store.items_at([row])[row]
    entries = tuple(store.entries_of(row))
    note = "" if entries else "In the second tier: near a preference, but below tau. Not verified."
    return Explanation(item=item, entries=entries, note=note)


def stats(memory: EpicMemory) -> Stats:
    """Counts and sizes."""
    return Stats(
        counts=memory._store.counts(memory.namespace),
        bytes=memory._store.sizes(),
        encoder=memory.encoder.name,
        verifier=memory.verifier.name,
        tau=memory.tau,
    )
