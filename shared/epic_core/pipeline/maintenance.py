"""What changes or describes a memory as a whole: its preferences, its encoder, its sizes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from epic_core.encoders.base import Encoder
from epic_core.errors import (
    BudgetError,
    DuplicatePreferenceError,
    EpicError,
    InvalidInputError,
    RetryQueueFullError,
    UnknownItemError,
)
from epic_core.pipeline import aspects as aspects_kept
from epic_core.pipeline.coarse_filter import coarse_filter
from epic_core.pipeline.commit import Outcome
from epic_core.pipeline.commit_within_budget import settle, written
from epic_core.pipeline.eviction import drop_expired, take_away
from epic_core.pipeline.ingest import candidate_of, chunked, expanded_phrases
from epic_core.pipeline.rewrites import put_rewrite, renew_rewrites
from epic_core.pipeline.session import State, described
from epic_core.pipeline.verify import Decided, outcome_of, remember, unverified, verdicts_on_all
from epic_core.preferences.foreign import warn_of_unread
from epic_core.runtime.effects import Clock, Encode, Steps
from epic_core.runtime.progress import Progress
from epic_core.storage.namespace import Addition, Space
from epic_core.storage.sizes import sizes
from epic_core.storage.tables.items import version_of
from epic_core.storage.vector_codec import rounded
from epic_core.types import BuildReport, Candidate, FloatArray, Item, Preference
from epic_core.types.reports import Explanation, Stats
from epic_core.verification.base import Verifier


def add_preference(
    state: State, preference: Preference, report: BuildReport, clock: Clock, progress: Progress
) -> Steps[None]:
    """Add a preference, and match the held items with it."""
    yield from _introduce(state, preference, None, report, clock, progress)


def replace_preference(
    state: State, old: str | Preference, preference: Preference, report: BuildReport, clock: Clock, progress: Progress
) -> Steps[None]:
    """Put a preference in another's place, and match the held items with it."""
    with state.lock:
        space = state.space()
        replacing = space.preferences[space.find(old)]
    if replacing.id == preference.id and replacing.means(preference):
        # Another spelling, or another end: what is held for it stays, and what was said of it that it does not bring.
        encoder = state.encoder
        vectors: FloatArray = yield Encode(encoder, [preference.text], "embedding")
        with state.changing(encoder) as space:
            state.store.set_preference(state.namespace, preference, vectors[0])
            aspects_kept.restate(state, space, preference)
    else:
        yield from _introduce(state, preference, replacing, report, clock, progress)


def remove_preference(
    state: State, preference: str | Preference, report: BuildReport, clock: Clock, progress: Progress
) -> Steps[None]:
    """Remove a preference, its entries, and the items nothing else holds."""
    encoder = state.encoder
    drop_expired(state)
    with state.lock:
        space = state.space()
        found = space.preferences[space.find(preference)]
    take_away(state, found)
    state.store.give_back()
    yield from renew_rewrites(state, encoder, report)


def forget(state: State, items: Sequence[str | Item]) -> int:
    """Forget items, and that they were seen; how many of them were held, or waited.

    Raises:
        UnknownItemError: for an id of which nothing is known; nothing is forgotten then.
    """
    store, namespace = state.store, state.namespace
    drop_expired(state)
    with state.lock:
        everything = [part for item in items for part in _with_chunks(state, item)]
        held = _checked_known(state, everything)
        # Under a budget, one by one: the journal of each change has to fit.
        step = len(everything) if state.budget is None else 1
        for start in range(0, len(everything), max(1, step)):
            piece = everything[start : start + step]
            ids = list(dict.fromkeys(item.id if isinstance(item, Item) else item for item in piece))
            with state.changing(state.encoder) as space:
                addition = Addition(forgotten=True)
                _forget_traces(state, piece, ids)
                for item_id in ids:
                    row = store.item_row(namespace, item_id)
                    if row is not None:
                        addition.gone += space.rows_of.get(row, [])
                        addition.gone_items.append(row)
                store.remove_items(namespace, ids)
                addition.sums = store.sums()
            space.apply(addition)
    store.give_back()
    return held


def _with_chunks(state: State, item: str | Item) -> list[str | Item]:
    """An item, the chunks it is cut into, and those it is held in."""
    item_id = item.id if isinstance(item, Item) else item
    cut: list[str | Item] = list(chunked(state, [item])[0]) if isinstance(item, Item) else []
    chunks = [key for key in state.store.chunks_from(state.namespace, item_id, 0) if key != item_id]
    own = [] if chunks and item_id not in state.store.known(state.namespace, [item_id]) and not cut else [item]
    return [*own, *cut, *chunks]


def _checked_known(state: State, items: Sequence[str | Item]) -> int:
    ids = [item for item in items if isinstance(item, str)]
    known, recorded = state.store.known(state.namespace, ids), state.store.recorded(state.namespace, ids)
    for item_id in ids:
        if item_id not in known and item_id not in recorded:
            raise UnknownItemError(
                f"Nothing is known of an item with the id {item_id!r}. To forget that one was seen which was not kept,"
                " give the item itself (`memory.forget(Item(...))`)."
            )
    every = {item.id if isinstance(item, Item) else item for item in items}
    return len(state.store.known(state.namespace, sorted(every)))


def _forget_traces(state: State, items: Sequence[str | Item], ids: Sequence[str]) -> None:
    """Forget what models said of items, that they were seen, and why they were not kept."""
    store, namespace = state.store, state.namespace
    known, recorded = store.known(namespace, ids), store.recorded(namespace, ids)
    digests = {held.digest for held in known.values()}
    digests |= {digest for found in recorded.values() for digest in found}
    texts = [held.text for held in known.values()]
    for item in items:
        if isinstance(item, Item):
            digests.add(version_of(item))
            texts.append(item.text)
    store.forget_chunks(namespace, texts)
    store.unsee(namespace, digests)
    for item_id in ids:
        store.forget_not_kept(namespace, item_id=item_id)


def _introduce(
    state: State,
    preference: Preference,
    replacing: Preference | None,
    report: BuildReport,
    clock: Clock,
    progress: Progress,
) -> Steps[None]:
    _check_end(preference)
    drop_expired(state)
    with state.lock:
        _check_new(state.space(), preference, replacing)
        encoder, items = state.encoder, list(state.store.items(state.namespace))
    yield from aspects_kept.read_again(state, report)
    ((preference, unread),) = yield from aspects_kept.read(state, [preference], report)
    warn_of_unread(report, [preference], encoder)
    # As the file will give it back: later items are matched with that.
    vectors: FloatArray = rounded((yield Encode(encoder, [preference.text], "embedding")))
    embeddings: FloatArray = yield Encode(encoder, [item.text for item in items], "embedding")
    expanded = yield from expanded_phrases(state, encoder, [preference])
    started = time.perf_counter()
    candidates = _matching(state, items, embeddings, preference, vectors, expanded)
    started = clock.add("coarse filter", started)
    report.seen, report.passed = len(items), len(candidates)
    outcome = Outcome(encoder=encoder, unread=unread)

    def collect(verifier: Verifier, decided: Decided, new: Decided) -> Steps[None]:
        # The preference is written with all it holds, at once; what a model said on the way is kept all the same.
        without = None if replacing is None else replacing.id
        part = yield from outcome_of(state, encoder, verifier, decided, new, report, without=without)
        remember(state, part)
        outcome.kept += part.kept
        outcome.undecided += part.undecided
        outcome.rewrites |= part.rewrites
        progress.advance(len(decided))

    progress.expect(len(candidates))
    if state.fine:
        yield from verdicts_on_all(state, candidates, report, collect)
    else:
        outcome.kept += [(candidate.item, unverified(candidate)) for candidate in candidates]
    yield from _put_in_force(state, encoder, preference, vectors[0], replacing, outcome, report, clock)
    # Items that came while the others were being verified.
    seen = {item.id: item for item in items}
    with state.lock:
        late = [item for item in state.store.items(state.namespace) if seen.get(item.id) != item]
    embeddings = yield Encode(encoder, [item.text for item in late], "embedding")
    late_candidates = _matching(state, late, embeddings, preference, vectors, expanded)
    yield from settle(state, encoder, late_candidates, BuildReport(usage=report.usage), clock, Progress(), retried=True)
    yield from renew_rewrites(state, encoder, report)


def _put_in_force(
    state: State,
    encoder: Encoder,
    preference: Preference,
    vector: FloatArray,
    replacing: Preference | None,
    outcome: Outcome,
    report: BuildReport,
    clock: Clock,
) -> Steps[None]:
    """Write a preference with all that it holds, in place of another's: at once, or under a budget piece by piece.

    In pieces the old preference goes last. Whatever happens in between, nothing that is held is lost: until the end
    the old preference is in force too.
    """
    started = time.perf_counter()
    # Two of one id cannot stand side by side.
    at_once = state.budget is None or (replacing is not None and replacing.id == preference.id)
    with state.changing(encoder) as space:
        if at_once:
            _write(state, space, preference, vector, replacing, outcome, report)
        else:
            first = replace(outcome, kept=[], undecided=[])
            _write(state, space, preference, vector, None, first, report, coming=outcome)
            if replacing is not None:
                _place_after(state, space, replacing, preference)
    clock.add("index", started)
    if at_once:
        if replacing is not None:
            state.store.give_back()
        return
    outcome.retried = True
    try:
        yield from written(state, outcome, report, clock)
    except BaseException:
        # As if it had not been begun. After a kill, both are in force.
        with suppress(EpicError):
            take_away(state, preference)
        raise
    if replacing is not None:
        take_away(state, replacing)


def _place_after(state: State, space: Space, first: Preference, then: Preference) -> None:
    order = [held.id for held in space.preferences]
    position = space.find(first) + 1
    for place, held_id in enumerate([*order[:position], then.id, *order[position:]]):
        state.store.move_preference(state.namespace, held_id, place)


def _matching(
    state: State,
    items: list[Item],
    embeddings: FloatArray,
    preference: Preference,
    vectors: FloatArray,
    expanded: Sequence[FloatArray],
) -> list[Candidate]:
    if not items or not (state.coarse or state.fine):
        return []
    tau = state.tau if state.coarse else -1.0
    rows = coarse_filter(embeddings, vectors, tau, expanded=expanded).passed
    return [candidate_of(items[row], embeddings[row], [0], [preference], vectors) for row in rows]


def _write(
    state: State,
    space: Space,
    preference: Preference,
    vector: FloatArray,
    replacing: Preference | None,
    outcome: Outcome,
    report: BuildReport,
    *,
    coming: Outcome | None = None,
) -> None:
    """Write a preference and what it holds, and take out the one it replaces; `coming` is what is written later."""
    store, namespace = state.store, state.namespace
    _check_new(space, preference, replacing)
    row = None if replacing is None else space.preference_rows[space.find(replacing)]
    undecided = (coming or outcome).undecided
    if undecided and store.pending_count(namespace) + len(undecided) > state.retry_queue:
        raise RetryQueueFullError(
            f"{len(undecided)} held items are undecided under {preference.text!r}, and the retry queue takes"
            f" {state.retry_queue}. Nothing was changed. The last reason was: {undecided[-1][1][:300]} Mend it,"
            " and do it again: what was decided is remembered."
        )
    position, left = (None, []) if replacing is None or row is None else store.take_out(namespace, row, replacing.id)
    new = store.add_preference(namespace, preference, vector, position=position, unread=outcome.unread)
    # What was discarded was discarded under the others.
    store.clear_ledger(namespace)
    for item, entries in outcome.kept:
        known = store.known(namespace, [item.id]).get(item.id)
        row = store.item_row(namespace, item.id)
        if row is None or known is None or known.text != item.text:
            continue  # gone, or another text by now
        store.promote(row)
        report.kept += 1
        for entry in entries:
            store.add_entry(row, new, entry)
            report.entries += 1
        if item.id in outcome.rewrites:
            put_rewrite(store, namespace, item, row, outcome.rewrites[item.id], entries[0].vector)
    for item, reason, ids in outcome.undecided:
        store.put_pending(namespace, item, reason, ids)
    # Last: an item that only the old preference held may be held by the new one.
    store.drop_orphans(left, keep_texts=state.reserve > 0)


def _check_end(preference: Preference) -> None:
    if preference.expires_at is not None and preference.expires_at.timestamp() <= time.time():
        raise InvalidInputError(f"The preference {preference.text!r} has expired already.")


def _check_new(space: Space, preference: Preference, replacing: Preference | None) -> None:
    held = {each.id for each in space.preferences} - {None if replacing is None else replacing.id}
    if preference.id in held:
        raise DuplicatePreferenceError(f"The preference {preference.text!r} is held already.")


def reencode(state: State, encoder: Encoder) -> Steps[None]:
    """Embed everything anew, in one transaction.

    Raises:
        BudgetError: if the budget leaves no room for the journal of that.
    """
    if state.budget is not None and 2 * state.store.file_bytes() > state.budget.total:
        raise BudgetError(
            f"To embed everything anew, the file needs twice its {state.store.file_bytes()} bytes for a moment, and the"
            f" budget is {state.budget.total}. Raise it for that."
        )
    while True:
        with state.lock:
            texts = state.store.embedded_texts()
        vectors: list[FloatArray] = []
        for table in texts:
            vectors += [(yield Encode(encoder, list(table.values()), "embedding"))]
        with state.lock:
            if not _embedded_anew(state, encoder, texts, vectors):
                continue  # something was written meanwhile
            # Only now, until it is committed the file is the old encoder's; and before anybody else writes.
            _adopt(state, encoder)
            return


def _embedded_anew(
    state: State, encoder: Encoder, texts: tuple[dict[int, str], ...], vectors: list[FloatArray]
) -> bool:
    """Write the embeddings of all texts, if they are still those that the file holds; whether they are."""
    with state.store.transaction():
        if state.store.embedded_texts() != texts:
            return False
        state.store.replace_vectors(
            *(dict(zip(table, rows, strict=True)) for table, rows in zip(texts, vectors, strict=True))
        )
        state.store.set_meta(encoder=described(encoder))
        for namespace in state.store.namespaces():
            state.store.set_meta(**{f"tau/{namespace}": None})
    return True


def _adopt(state: State, encoder: Encoder) -> None:
    from epic_core.verification import EmbeddedVerifier

    if type(state.verifier) is EmbeddedVerifier and state.verifier.encoder is state.encoder:
        state.verifier = EmbeddedVerifier(encoder, threshold=state.verifier.threshold)
    state.spaces.clear()
    state.expanded.clear()
    state.encoder = encoder
    state.own_tau = None


def explain(state: State, item_id: str) -> Explanation:
    """Why an item is held."""
    store, namespace = state.store, state.namespace
    row = store.item_row(namespace, item_id)
    waits = next(((item, reason) for item, reason, _ in store.pending(namespace) if item.id == item_id), None)
    waiting = "" if waits is None else f"Undecided, in the retry queue: {waits[1]}"
    if row is None:
        if waits is not None:
            return Explanation(item=waits[0], entries=(), note=waiting)
        for record in store.not_kept(namespace):
            if record.item_id == item_id:
                item = Item(id=item_id, text=record.text)
                return Explanation(item=item, entries=(), note=f"Not held. {record.why}.")
        raise UnknownItemError(
            f"No item with the id {item_id!r} is held: it was never added, or it was not kept, and is not in the sample"
            " of those whose reason is on record."
        )
    item = store.items_at([row])[row]
    entries = tuple(store.entries_of(namespace, row))
    note = waiting if entries else waiting or _why_light(state, item_id)
    return Explanation(item=item, entries=entries, note=note)


def _why_light(state: State, item_id: str) -> str:
    """Say why an item is in the light tier, as far as that is on record."""
    why = next((record.why for record in state.store.not_kept(state.namespace) if record.item_id == item_id), "")
    return "In the light tier, held by its text only" + (f": {why}." if why else ".")


def stats(state: State) -> Stats:
    """Counts and sizes."""
    return Stats(
        counts=state.store.counts(state.namespace),
        bytes=sizes(state.store),
        encoder=state.encoder.name,
        verifier=state.verifier.name,
        tau=state.tau,
        verified_by=state.verified_by,
        budget=None if state.budget is None else state.budget.total,
    )
