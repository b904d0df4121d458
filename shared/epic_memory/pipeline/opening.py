"""Opening of a memory: what is written for a new one, and how a file and the arguments are brought together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from epic_memory.encoders.base import Embed, Encoder, described, embed
from epic_memory.errors import BudgetError, PreferencesMismatchError, StoreError
from epic_memory.pipeline.aspects import mark_unread, read_preferences
from epic_memory.pipeline.eviction import make_room, weigh
from epic_memory.pipeline.preferences import add_preference, remove_preference, replace_preference
from epic_memory.pipeline.session import Session
from epic_memory.preferences.foreign import warn_of_unread
from epic_memory.retention import DEFAULT_RESERVE, Budget, budget_in
from epic_memory.runtime.effects import Clock, Effects, run
from epic_memory.runtime.telemetry import Progress
from epic_memory.storage.sizes import sizes
from epic_memory.storage.sqlite.tables import Table
from epic_memory.types import BuildReport, FloatArray, Preference
from epic_memory.verification import EmbeddedVerifier

# An entry, its item and a preference, with what SQLite needs besides.
_ROOM_FOR_AN_ENTRY = 10_000


def found_namespace(session: Session, preferences: Sequence[Preference]) -> bool:
    """Write the first rows of a new memory or namespace; return False if another process was faster."""
    read = run(read_preferences(session, preferences, session.opened), Clock())
    vectors = embed(session.encoder, [preference.text for preference in preferences])
    warn_of_unread(session.opened, [preference for preference, _ in read], session.encoder)
    with session.lock, session.store.transaction():
        if session.namespace in session.store.namespaces():
            return False
        if session.store.meta_of("encoder") is None:
            session.store.set_meta(encoder=described(session.encoder))
        for addition in session.store.additions:
            addition.start()
        session.check_encoder()
        for (preference, unread), vector in zip(read, vectors, strict=True):
            session.store.preferences.add(session.namespace, preference, vector, unread=unread)
        session.store.set_meta(**_settings(session))
    session.mark_stale()
    return True


def take_up(session: Session, given: list[Preference] | None, *, sync: bool, reencode: bool) -> None:
    """Bring a memory and the file it was opened on together.

    Raises:
        EncoderMismatchError: if the file was made with another encoder, and `reencode` is off.
        PreferencesMismatchError: if it holds other preferences, and `sync` is off.
    """
    meta = session.store.meta()
    if "encoder" not in meta:
        if found_namespace(session, given or []):
            return
        meta = session.store.meta()
    if reencode and session.other_encoder():
        asked = session.own_tau
        run(reencode_memory(session, session.encoder), Clock())
        session.own_tau = asked
        meta = session.store.meta()
    session.check_encoder()
    store = session.store
    made_by = meta.get(f"verifier/{session.namespace}")
    session.verified_by = made_by if isinstance(made_by, str) else None
    if store.verdicts.kept == 0 and store.writable and store.namespaces() == [session.namespace]:
        store.verdicts.forget_all()
    tau = meta.get(f"tau/{session.namespace}")
    if tau is not None and (not isinstance(tau, (int, float)) or not -1.0 <= tau <= 1.0):
        raise StoreError(f"{store.path} is damaged: its tau is {tau!r}, no cosine.")
    if session.own_tau is None and tau is not None:
        session.own_tau = float(tau)
    shrink(session)
    settings = _settings(session)
    if store.writable and any(meta.get(key) != value for key, value in settings.items()):
        with store.transaction():
            store.set_meta(**settings)
    # From the table: what is indexed is loaded with the first search.
    live = [preference for preference in store.preferences.at(session.namespace).values() if not preference.expired]
    warn_of_unread(session.opened, live, session.encoder)
    mark_unread(session, live)
    if given is None:
        return
    now = time.time()
    given = [p for p in given if p.expires_at is None or p.expires_at.timestamp() > now]
    if session.namespace in store.namespaces() or not found_namespace(session, given):
        _reconcile(session, given, sync=sync)


def set_budget(session: Session, octets: int | None, reserve: int | None = None) -> None:
    """Set the budget and the reserve given, or those that the file remembers; a budget of 0 lifts it."""
    known = session.store.meta_of("reserve")
    if known is not None and (not isinstance(known, int) or known < 0):
        raise StoreError(f"{session.store.path} is damaged: its reserve is {known!r}, no number of bytes.")
    session.reserve = reserve if reserve is not None else DEFAULT_RESERVE if known is None else known
    budget = budget_in(session.store.meta()) if octets is None else Budget(octets) if octets else None
    if budget is not None:
        least = _ROOM_FOR_AN_ENTRY + session.store.used_bytes()
        if budget.total < least and not session.store.holds_anything():
            raise BudgetError(f"A budget of {budget.total} bytes has no room for an entry. It takes {least} at least.")
    session.limit(budget)


def shrink(session: Session) -> None:
    """Bring a file that is larger than the budget within it; for that time it may be larger still.

    Raises:
        BudgetError: if what would have to go is not all of the own namespace's.
    """
    budget, store = session.budget, session.store
    if budget is None or not store.writable:
        return
    count, _, page = store.pages()
    if count <= budget.pages(page):
        return
    store.limit_pages(0)
    parts = sizes(store)
    with session.lock, store.reading():
        light = store.items.light_sizes(store.items.light_rows(session.namespace))
        mine = int(weigh(session)[1].sum()) + sum(light.values())
        share = mine / max(mine, store.items.raw_bytes())
    content = parts["documents"] + parts["index"] + parts["instructions"] + parts["graph"]
    least = store.used_bytes() - int(share * content) - parts["verdicts"] - parts["ledger"]
    if least <= budget.pages(page) * page:
        with session.lock, store.transaction():
            store.seen.trim(session.namespace, store.verdicts.kept)
            session.mark_stale()
        # Written anew first: what the gaps take need not be evicted.
        store.compact()
        make_room(session, 0, BuildReport())
        store.compact()
    session.limit(budget)
    if store.file_bytes() > budget.total:
        raise BudgetError(
            f"{store.path} takes {store.file_bytes()} bytes, and cannot be brought within the budget of {budget.total}"
            f" by what the namespace {session.namespace!r} may let go. Raise the budget."
        )


def _settings(session: Session) -> dict[str, Any]:
    """Return the settings of a namespace's filters, as the file remembers them."""
    tau = {} if session.own_tau is None else {f"tau/{session.namespace}": session.own_tau}
    return {"budget": session.budget and session.budget.total, "reserve": session.reserve, **tau}


def _reconcile(session: Session, given: list[Preference], *, sync: bool) -> None:
    held = {preference.id: preference for preference in session.space().preferences}
    wanted = {preference.id: preference for preference in given}
    missing = [preference for key, preference in held.items() if key not in wanted]
    added = [preference for key, preference in wanted.items() if key not in held]
    if not sync and (missing or added):
        lines = [f"  only in the file: {p}" for p in missing] + [f"  only given: {p}" for p in added]
        raise PreferencesMismatchError(
            f"{session.store.path} holds other preferences than those given:\n" + "\n".join(lines) + "\n"
            "Leave preferences out to use the file's, or open it with sync=True (`epic build --sync`) to change them."
        )
    for preference in added:
        run(add_preference(session, preference, session.opened, Clock(), Progress()), Clock())
    for preference in wanted.values() if sync else ():
        known = held.get(preference.id)
        if known is not None and not _as_stated(known, preference):
            steps = replace_preference(session, known, preference, session.opened, Clock(), Progress())
            run(steps, Clock())
    for preference in missing:
        run(remove_preference(session, preference, session.opened, Clock(), Progress()), Clock())
    if not sync or [preference.id for preference in session.space().preferences] == list(wanted):
        return
    with session.lock, session.store.transaction():
        session.mark_stale()
        for position, preference in enumerate(given):
            session.store.preferences.move(session.namespace, preference.id, position)


def _as_stated(held: Preference, given: Preference) -> bool:
    """Tell whether a held preference is the one given; without aspects or expansion it leaves those that are held."""
    same = (held.text, held.expires_at) == (given.text, given.expires_at)
    return same and given.aspects in (None, held.aspects) and given.expansion in (None, held.expansion)


def reencode_memory(session: Session, encoder: Encoder) -> Effects[None]:
    """Embed everything anew, in one transaction."""
    store = session.store
    while True:
        with session.lock:
            texts = store.embedded_texts()
        vectors: dict[Table, dict[int, FloatArray]] = {}
        for table, of in texts.items():
            embedded: FloatArray = yield Embed(encoder, list(of.values()), "embedding")
            vectors[table] = dict(zip(of, embedded, strict=True))
        with session.lock:
            with store.transaction():
                if store.embedded_texts() != texts:
                    continue  # something was written meanwhile
                store.replace_vectors(vectors)
                store.set_meta(encoder=described(encoder))
                for namespace in store.namespaces():
                    store.set_meta(**{f"tau/{namespace}": None})
                    for addition in store.additions:
                        addition.reencode(namespace)
            # Only now, until it is committed the file is the old encoder's; and before anybody else writes.
            _adopt(session, encoder)
            return


def _adopt(session: Session, encoder: Encoder) -> None:
    was = session.verifier
    if type(was) is EmbeddedVerifier and was.encoder is session.encoder:
        session.verifier = EmbeddedVerifier(encoder, threshold=was.threshold, language=was.language)
    session.spaces.clear()
    session.expanded.clear()
    session.encoder, session.own_tau = encoder, None
