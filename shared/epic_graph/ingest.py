"""Construction of the graph: a memory's passages are added with the entities and facts that an extractor finds."""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from epic_graph.extraction.base import LONGEST_NAME, Extraction, Extractor, Fact, Unextracted, entity_key
from epic_graph.loaded import LoadedGraph
from epic_graph.reports import GraphReport
from epic_graph.tables import MOST_ENTITIES, GraphTables, PassageRow
from epic_memory.errors import BudgetError
from epic_memory.pipeline.eviction import make_room
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Clock, Effects
from epic_memory.runtime.streaming import AnswerStream, NextBatch, streamed
from epic_memory.runtime.telemetry import Progress
from epic_memory.storage.store import Store
from epic_memory.storage.tables.entries import verifier_number
from epic_memory.types import BuildReport, Item, Usage
from epic_memory.types.validation import writable

_BLOCK = 256
_LONGEST_REASON = 500
# Estimated growth of the file in bytes: by a passage, and by an entity.
_GROWTH = 2_000
_ROW = 120


@dataclass(frozen=True, kw_only=True)
class Work:
    """The inputs and outputs of a construction.

    Attributes:
        hold: Returns the graph in the file's current state; the caller holds the lock.
        clock: Times the work done here, without the effects.
    """

    session: Session
    hold: Callable[[], LoadedGraph]
    extractor: Extractor
    report: GraphReport
    clock: Clock


class Answered(NamedTuple):
    """An extractor's answer for an item, with the names of its entities by their keys."""

    item: Item
    answer: Extraction | Unextracted
    names: dict[str, str]


Found: TypeAlias = Mapping[int, Answered]
"""Answers by the rows of their items."""


def grow(work: Work, rows: Sequence[int], progress: Progress) -> Effects[None]:
    """Add passages, given by their items' rows; each batch is committed once it is extracted.

    A passage for which the extractor fails is recorded with the reason; it is found by its text alone until extraction
    is tried again.

    Raises:
        VerifierError: if the extractor yields anything but answers.
    """
    session, report = work.session, work.report
    progress.expect(len(rows))
    for start in range(0, len(rows), _BLOCK):
        with session.lock, session.store.reading():
            items = session.store.items.at(rows[start : start + _BLOCK])
        numbers, waiting = list(items), set(items)
        stream = extractions_by(work.extractor, [item.text for item in items.values()])
        while True:
            batch = yield NextBatch(stream, "extraction")
            answers = {numbers[place]: answer for place, answer in batch.answers}
            if batch.last and batch.failure:
                answers |= dict.fromkeys(waiting - answers.keys(), Unextracted(batch.failure))
            waiting -= answers.keys()
            for answer in answers.values():
                report.usage.add(answer.usage)
            found = {row: Answered(items[row], answer, _named(answer)) for row, answer in answers.items()}
            _fitted(work, found)
            progress.advance(len(answers))
            if batch.last:
                break


def _fitted(work: Work, found: Found) -> None:
    """Commit answers; under a byte budget passage by passage, after making room for each."""
    session, report = work.session, work.report
    if session.budget is None:
        _write(work, found)
        return
    for row, one in found.items():
        evicted = BuildReport()
        room = False
        try:
            needed = _GROWTH + _ROW * len(one.names)
            if isinstance(one.answer, Extraction):
                needed += sum(4 + len(fact.relation.encode()) for fact in one.answer.facts)
            if needed <= session.budget.largest_item and make_room(session, needed, evicted):
                _write(work, {row: one})
                room = True
        except BudgetError:
            pass
        report.no_room += not room
        report.evicted += evicted.evicted


def _write(work: Work, found: Found) -> None:
    """Commit answers."""
    session, report, started = work.session, work.report, time.perf_counter()
    tables = GraphTables(session.store)
    with session.lock, session.store.transaction():
        held, alive = work.hold(), _alive(session.store, found)
        names: dict[str, str] = {}
        for one in alive.values():
            for key, name in one.names.items():
                if key not in held.row_of:
                    names.setdefault(key, name)
        rows = {key: tables.add_entity(held.namespace, name, key) for key, name in names.items()}
        row_of = ChainMap(rows, held.row_of)
        name_of = ChainMap({rows[key]: name for key, name in names.items()}, held.name_of)
        passages = [_passage(row, one, work.extractor, row_of, name_of) for row, one in alive.items()]
        tables.put_passages(passages)
    work.clock.add("writing", started)
    report.entities += len(names)
    report.passages += len(passages)
    for passage in passages:
        report.facts += len(passage.facts)
        report.without_entities += not passage.entities and passage.failure is None
        if passage.failure is not None:
            report.failed += 1
            report.note(found[passage.item].item.id, passage.failure, found[passage.item].answer)


def _alive(store: Store, found: Found) -> Found:
    """Return the answers without those for passages that have gone meanwhile."""
    items = store.items.at(list(found))
    return {row: one for row, one in found.items() if row in items and items[row].text == one.item.text}


def _named(answer: Extraction | Unextracted) -> dict[str, str]:
    """Return key to name of a passage's entities, its facts' included: at most `MOST_ENTITIES`, each with a letter."""
    if isinstance(answer, Unextracted):
        return {}
    named: dict[str, str] = {}
    for name in (*answer.entities, *(end for fact in answer.facts for end in (fact.subject, fact.object))):
        cleaned = " ".join(writable(name).split())
        key = entity_key(cleaned) if len(cleaned) <= LONGEST_NAME else ""
        if key and len(named) < MOST_ENTITIES:
            named.setdefault(key, cleaned)
    return named


def _passage(
    row: int, one: Answered, extractor: Extractor, row_of: Mapping[str, int], name_of: Mapping[int, str]
) -> PassageRow:
    number = verifier_number(extractor.name)
    if isinstance(one.answer, Unextracted):
        reason = writable(one.answer.reason)[:_LONGEST_REASON] or "no reason given"
        return PassageRow(item=row, extractor=number, failure=reason)
    place = {key: number for number, key in enumerate(one.names)}
    facts, relations = [], []
    for fact in one.answer.facts:
        ends = entity_key(writable(fact.subject)), entity_key(writable(fact.object))
        if ends[0] != ends[1] and ends[0] in place and ends[1] in place:
            facts.append((place[ends[0]], place[ends[1]]))
            relations.append(writable(fact.relation))
    return PassageRow(
        item=row,
        extractor=number,
        entities=[row_of[key] for key in one.names],
        facts=facts,
        relations=relations,
        otherwise=[row_of[key] for key, name in one.names.items() if name_of[row_of[key]] != name],
    )


def extractions_by(extractor: Extractor, texts: Sequence[str]) -> AnswerStream[Extraction | Unextracted]:
    """Return the answers of an extractor to texts, checked for their types."""

    def sound(answer: Extraction | Unextracted) -> bool:
        if isinstance(answer, Unextracted):
            said = [answer.reason, answer.answer]
        elif isinstance(answer.entities, (tuple, list)) and isinstance(answer.facts, (tuple, list)):
            if not all(isinstance(fact, Fact) for fact in answer.facts):
                return False
            said = [*answer.entities, *(part for f in answer.facts for part in (f.subject, f.relation, f.object))]
        else:
            return False
        return isinstance(answer.usage, Usage) and all(isinstance(text, str) for text in said)

    name = f"extractor {extractor.name!r}"
    return streamed(extractor, texts, (Extraction, Unextracted), name, sound=sound)
