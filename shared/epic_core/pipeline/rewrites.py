"""Rewritten texts x^ = Rewriter(x, P'_rel(x), rationale): made, kept, and renewed when an item's preferences change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from epic_core.encoders.base import Embed, Encoder
from epic_core.errors import BudgetError
from epic_core.pipeline.session import Session
from epic_core.runtime.effects import Effects
from epic_core.runtime.streaming import AnswerStream, Batch, NextBatch, streamed
from epic_core.storage.store import Store
from epic_core.types import BuildReport, Candidate, FloatArray, Item, Preference, Verdict
from epic_core.types.validation import writable
from epic_core.verification.base import Rewriter, Rewriting, Rewritten, base_verifier


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """x^, the preferences it was made for, and the name of the rewriter."""

    text: str
    preferences: tuple[Preference, ...]
    version: str


def rewriting_of(session: Session, candidate: Candidate, verdict: Verdict, without: str | None) -> Rewriting:
    """Return an item with all preferences it will be held under: the present ones, and those of a verdict."""
    item = candidate.item
    with session.lock:
        known = {preference.id: preference for preference in session.space().preferences}
        held = held_for(session, item) - {without}
    known |= {preference.id: preference for preference in candidate.preferences}
    wanted = held | {alignment.preference_id for alignment in verdict.alignments}
    preferences = tuple(preference for key, preference in known.items() if key in wanted)
    return Rewriting(item=item, preferences=preferences, rationale=verdict.rationale)


def held_for(session: Session, item: Item) -> set[str | None]:
    """Return the ids of the preferences that an item is held for, in this version."""
    known = session.store.items.known(session.namespace, [item.id]).get(item.id)
    row = session.store.items.row(session.namespace, item.id)
    same = known is not None and known.is_version(item)
    return set(session.store.entries.preferences_of(row)) if same and row is not None else set()


def rewritings_of(
    session: Session, rewriter: Rewriter, rewritings: Sequence[Rewriting], report: BuildReport
) -> Effects[tuple[dict[int, Rewrite], dict[int, tuple[str, str]]]]:
    """Return rewritten texts by position; and by position why others failed, with the model's answer.

    Texts are remembered as they come: after an interruption they are not asked for again.
    """
    first = _first_alike(rewritings)
    done, asked = _recalled(session, rewriter, {place: rewritings[place] for place in set(first)})
    failed: dict[int, tuple[str, str]] = {}
    stream = rewritten_by(rewriter, [rewritings[place] for place in asked])
    waiting = set(asked)
    while waiting:
        batch: Batch[Rewritten] = yield NextBatch(stream)
        made: list[int] = []
        for position, rewritten in batch.answers:
            place = asked[position]
            waiting.discard(place)
            report.usage.add(rewritten.usage)
            if rewritten.text.strip():
                preferences = rewritings[place].preferences
                done[place] = Rewrite(text=writable(rewritten.text), preferences=preferences, version=rewriter.name)
                made.append(place)
            else:
                failed[place] = (f"It could not be rewritten. {rewritten.failure}", rewritten.answer)
        if made:
            with suppress(BudgetError), session.lock, session.store.transaction():
                for place in made:
                    remember_rewrite(session.store, session.namespace, rewritings[place].item, done[place])
        if batch.last:
            failed |= dict.fromkeys(waiting, (f"It could not be rewritten. {batch.failure}", ""))
            waiting.clear()
    for place, same in enumerate(first):
        if same in failed:
            failed[place] = failed[same]
        elif same in done:
            done[place] = replace(done[same], preferences=rewritings[place].preferences)
    return dict(sorted(done.items())), failed


def _recalled(
    session: Session, rewriter: Rewriter, rewritings: Mapping[int, Rewriting]
) -> tuple[dict[int, Rewrite], list[int]]:
    """Return the rewritings in the cache, and the positions of those that the model has to be asked for."""
    done: dict[int, Rewrite] = {}
    asked: list[int] = []
    for place, rewriting in sorted(rewritings.items()):
        texts = [preference.text for preference in rewriting.preferences]
        with session.lock:
            known = session.store.verdicts.recall_rewrite(
                session.namespace, rewriter.name, rewriting.item.content, texts
            )
        if known is None:
            asked.append(place)
        else:
            done[place] = Rewrite(text=known, preferences=rewriting.preferences, version=rewriter.name)
    return done, asked


def _first_alike(rewritings: Sequence[Rewriting]) -> list[int]:
    """Return for each rewriting the position of the first with the same text and preferences."""
    first: dict[tuple[str, ...], int] = {}
    return [
        first.setdefault((each.item.content, *(preference.text for preference in each.preferences)), place)
        for place, each in enumerate(rewritings)
    ]


def renew_rewrites(session: Session, encoder: Encoder, report: BuildReport) -> Effects[None]:
    """Rewrite the items whose preferences are not those they were rewritten for. What fails keeps its text."""
    rewriter = base_verifier(session.verifier).rewriter
    with session.lock:
        rows = session.store.entries.stale_rewrites(session.namespace)
        items = session.store.items.at(rows)
    if rewriter is None:
        yield from _take_back(session, encoder, items, report)
        return
    with session.lock:
        known = {preference.id: preference for preference in session.space().preferences}
        rewritings = [_renewing(session, items[row], row, known) for row in rows]
    done, failed = yield from rewritings_of(session, rewriter, rewritings, report)
    texts = list(dict.fromkeys(rewrite.text for rewrite in done.values()))
    vectors: FloatArray = yield Embed(encoder, texts, "embedding instructions")
    vector_of = dict(zip(texts, vectors, strict=True))
    places = list(done)
    if places:
        with session.changing(encoder):
            for place in places:
                rewrite = done[place]
                item = rewritings[place].item
                if session.store.items.row(session.namespace, item.id) == rows[place]:
                    put_rewrite(session.store, session.namespace, item, rows[place], rewrite, vector_of[rewrite.text])
    if failed:
        report.warnings.append(
            f"{len(failed)} items still have the text that was rewritten for other preferences: memory.retry() tries"
            f" again. {next(iter(failed.values()))[0]}"
        )


def _take_back(session: Session, encoder: Encoder, items: Mapping[int, Item], report: BuildReport) -> Effects[None]:
    """Restore the items' own texts, which were rewritten for other preferences: there is no rewriter to renew them."""
    if not items:
        return
    vectors: FloatArray = yield Embed(encoder, [item.content for item in items.values()], "embedding instructions")
    with session.changing(encoder):
        for (row, item), vector in zip(items.items(), vectors, strict=True):
            if session.store.items.row(session.namespace, item.id) == row:
                session.store.entries.take_back_rewrite(row, vector)
    report.warnings.append(
        f"{len(items)} items were rewritten for other preferences than they have now. Without a verifier that rewrites,"
        " they show their own text."
    )


def _renewing(session: Session, item: Item, row: int, known: Mapping[str, Preference]) -> Rewriting:
    entries = session.store.entries.of_item(session.namespace, row)
    # Without those that have expired in the meantime.
    held = [entry.preference_id or "" for entry in entries]
    preferences = tuple(known[key] for key in held if key in known)
    return Rewriting(item=item, preferences=preferences, rationale=entries[0].rationale if entries else "")


def put_rewrite(store: Store, namespace: str, item: Item, row: int, rewrite: Rewrite, vector: FloatArray) -> None:
    """Write a rewritten text; all entries of the item are found by it. Call it inside a transaction."""
    store.entries.set_rewrite(row, rewrite.text, [preference.id for preference in rewrite.preferences], vector)
    remember_rewrite(store, namespace, item, rewrite)


def remember_rewrite(store: Store, namespace: str, item: Item, rewrite: Rewrite) -> None:
    """Keep a rewritten text in the cache. Call it inside a transaction."""
    texts = [preference.text for preference in rewrite.preferences]
    store.verdicts.remember_rewrite(namespace, rewrite.version, item.content, texts, rewrite.text)


def rewritten_by(rewriter: Rewriter, rewritings: Sequence[Rewriting]) -> AnswerStream[Rewritten]:
    """Return the stream of a rewriter's texts for rewritings, all in one batch."""
    return streamed(rewriter, rewritings, Rewritten, f"rewriter {rewriter.name!r}")
