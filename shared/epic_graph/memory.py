"""GraphMemory: an embedded graph RAG over the items of a memory."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from pathlib import Path
from typing import Any

from epic_graph.extraction.base import Extractor, PhraseExtractor, checked_extractor, entity_key
from epic_graph.ingest import Work, grow
from epic_graph.loaded import LoadedGraph
from epic_graph.reports import GraphReport
from epic_graph.search import GraphHits, Reader, search
from epic_graph.tables import GraphTables
from epic_memory.context import ALLOWANCE, context_of
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError, UnknownEntityError
from epic_memory.filters import Filter
from epic_memory.memory import EpicMemory
from epic_memory.pipeline.search import checked_search
from epic_memory.pipeline.session import Session
from epic_memory.runtime.batching import Items
from epic_memory.runtime.effects import Clock, Effects, arun, run
from epic_memory.runtime.telemetry import Progress
from epic_memory.settings import Settings, checked_settings
from epic_memory.storage.store import Store
from epic_memory.storage.tables.entries import verifier_number
from epic_memory.types import BuildReport, Item, Preference, checked_text
from epic_memory.types.search_options import SearchOptions


class GraphMemory:
    """Graph RAG in one file: passages, entities and facts, kept and searched by one user's preferences.

        graph = GraphMemory.open("me.epic", preferences=["I follow a strict vegan diet."])
        graph.add(["Oscar turns forty on Friday ...", "Oscar cannot eat nuts ..."])
        for hit in graph.search("What can I bake for the man who turns forty?"):
            print(hit.score, hit.item.text)

    A memory decides what is kept, and for which preferences: `graph.memory` is a full `EpicMemory`.
    `Settings(coarse=False)`, `fine=False` and `steering="off"` switch its three stages off one by one; without the
    first two everything is kept, and no preferences are needed. The graph is in the same file, and follows all changes
    to the memory's items.

    Args:
        preferences: The user's preferences.
        memory: An existing memory, instead of `preferences`, `encoder`, `llm` and `settings`.
        extractor: Finds entities and facts in passages: by default a `PhraseExtractor`, which needs no model; or an
            `LMExtractor`.
        encoder, llm, settings: As for `EpicMemory`.

    Raises:
        InvalidInputError: if an argument is invalid.
        ReadOnlyError: if the memory has no graph yet and cannot be written.
    """

    def __init__(
        self,
        preferences: Iterable[str | Preference] = (),
        *,
        memory: EpicMemory | None = None,
        extractor: Extractor | None = None,
        encoder: Encoder | str | None = None,
        llm: Any = None,
        settings: Settings | None = None,
    ) -> None:
        self.extractor = PhraseExtractor() if extractor is None else checked_extractor(extractor)
        if isinstance(preferences, EpicMemory):
            raise InvalidInputError("A graph over a memory that you have is GraphMemory(memory=...).")
        if memory is None:
            memory = EpicMemory(preferences, encoder=encoder, llm=llm, settings=checked_settings(settings))
        elif not isinstance(memory, EpicMemory):
            raise InvalidInputError(f"memory must be an EpicMemory, not a {type(memory).__name__}.")
        elif preferences != () or not (encoder is llm is settings is None):
            raise InvalidInputError(
                "With memory=, preferences, encoder, llm and settings are the memory's own: give them to it."
            )
        self.memory = memory
        self._reader = Reader(memory.encoder)
        self._loaded: LoadedGraph | None = None
        # The last row that was offered to the graph: `add` skips those before it that did not fit, `update` does not.
        self._offered = 0
        if self._store.writable:
            self._tables.begin()

    @classmethod
    def open(
        cls,
        path: str | Path,
        preferences: Iterable[str | Preference] | None = None,
        *,
        extractor: Extractor | None = None,
        encoder: Encoder | str | None = None,
        llm: Any = None,
        settings: Settings | None = None,
        sync: bool = False,
    ) -> GraphMemory:
        """Open the graph memory in a file, or make it. Use it in a `with`, or `close()` it.

        A memory's file without a graph gets one: `update()` adds the items that it holds.

        Args:
            extractor: As for `GraphMemory`; the others as for `EpicMemory.open`.

        Raises:
            EpicError: as `EpicMemory.open`.
        """
        # First, so that an invalid argument leaves no file behind.
        extractor = None if extractor is None else checked_extractor(extractor)
        memory = EpicMemory.open(path, preferences, encoder=encoder, llm=llm, settings=settings, sync=sync)
        try:
            return cls(memory=memory, extractor=extractor)
        except BaseException:
            memory.close()
            raise

    # building

    def add(self, items: Items, *, progress: bool = False) -> GraphReport:
        """Offer items: coarse filter, fine verification, index; the kept items are added to the graph.

        The memory and the graph are committed batch by batch; after an interruption in between, `update` completes the
        graph.

        Args:
            items: As for `EpicMemory.add`.
            progress: Show a progress bar.

        Raises:
            EpicError: as `EpicMemory.add`.
        """
        report, clock = _begun()
        with Progress(shown=progress) as bar:
            report.memory = self.memory.add(
                items, progress=lambda _: run(self._growing(report, clock, bar, after=self._offered), clock)
            )
        return report

    async def aadd(self, items: Items | AsyncIterable[str | Item], *, progress: bool = False) -> GraphReport:
        """Do the same as `add` without blocking the event loop; also takes an asynchronous iterable."""
        report, clock = _begun()
        with Progress(shown=progress) as bar:
            report.memory = await self.memory.aadd(
                items, progress=lambda _: arun(self._growing(report, clock, bar, after=self._offered), clock)
            )
        return report

    def update(self, *, progress: bool = False) -> GraphReport:
        """Add the items that the memory holds and the graph does not, such as items added to the memory itself."""
        return self._grown(progress=progress)

    async def aupdate(self, *, progress: bool = False) -> GraphReport:
        """Do the same as `update` without blocking the event loop."""
        return await self._agrown(progress=progress)

    def retry(self, *, progress: bool = False) -> GraphReport:
        """Verify undecided items again, as `EpicMemory.retry` does, and extract again where the extractor failed."""
        return self._grown(self.memory.retry(progress=progress), failed=True, progress=progress)

    async def aretry(self, *, progress: bool = False) -> GraphReport:
        """Do the same as `retry` without blocking the event loop."""
        return await self._agrown(await self.memory.aretry(progress=progress), failed=True, progress=progress)

    def reextract(self, *, progress: bool = False) -> GraphReport:
        """Extract passages of other extractors again: after a change of `extractor`."""
        return self._grown(others=True, progress=progress)

    async def areextract(self, *, progress: bool = False) -> GraphReport:
        """Do the same as `reextract` without blocking the event loop."""
        return await self._agrown(others=True, progress=progress)

    def _grown(
        self, memory: BuildReport | None = None, *, progress: bool, failed: bool = False, others: bool = False
    ) -> GraphReport:
        report, clock = _begun(memory)
        with Progress(shown=progress) as bar:
            run(self._growing(report, clock, bar, failed=failed, others=others), clock)
        return report

    async def _agrown(
        self, memory: BuildReport | None = None, *, progress: bool, failed: bool = False, others: bool = False
    ) -> GraphReport:
        report, clock = _begun(memory)
        with Progress(shown=progress) as bar:
            await arun(self._growing(report, clock, bar, failed=failed, others=others), clock)
        return report

    def _growing(
        self,
        report: GraphReport,
        clock: Clock,
        bar: Progress,
        *,
        failed: bool = False,
        others: bool = False,
        after: int = 0,
    ) -> Effects[None]:
        """Add passages after some row that are outside the graph, failed ones, and those of other extractors."""
        self._store.check_writable()
        namespace, graph = self.memory.namespace, self._tables
        graph.begin()
        with self._session.lock, self._store.reading():
            rows = set(graph.outside(namespace, after))
            if failed:
                rows.update(row for row, *_ in graph.failed_passages(namespace))
            if others:
                rows.update(graph.extracted_by_others(namespace, verifier_number(self.extractor.name)))
        work = Work(
            session=self._session,
            hold=self._graph,
            extractor=self.extractor,
            report=report,
            clock=clock,
        )
        yield from grow(work, sorted(rows), bar)
        self._offered = max(rows | {self._offered})

    # retrieving

    def search(
        self,
        query: str,
        k: int = 5,
        *,
        filter: Filter | None = None,
        options: SearchOptions = SearchOptions(),
    ) -> GraphHits:
        """Return the k passages that a walk from the query visits most, under the user's preferences.

        Args:
            query, k, filter: As for `EpicMemory.search`.
            options: Likewise. A query that names an entity always counts as relevant, whatever `min_score` is; a
                `chooser` such as `Adaptive(policy=GraphSelection.shipped())` of `epic_rerank` chooses by the walk's
                scores.

        Returns:
            Hits, best first. A score is the passage's share of the walk, with 1 for the most visited passage, times a
            factor for its stance. In signed mode, unless the stance policy is "any", each of the first 20 gains 0.35
            times its `QuerySteering.score_texts` score less the lowest of the 20. If the query names no entity of the
            graph, hits and scores are those of `EpicMemory.search`.

        Raises:
            InvalidInputError: as `EpicMemory.search`.
            UnknownPreferenceError: for a preference that the memory does not have.
        """
        clock = Clock()
        return run(self._searching(query, k, filter, options, clock), clock)

    async def asearch(
        self,
        query: str,
        k: int = 5,
        *,
        filter: Filter | None = None,
        options: SearchOptions = SearchOptions(),
    ) -> GraphHits:
        """Do the same as `search` without blocking the event loop."""
        clock = Clock()
        return await arun(self._searching(query, k, filter, options, clock), clock)

    def context(
        self,
        query: str,
        k: int = 5,
        *,
        filter: Filter | None = None,
        options: SearchOptions = SearchOptions(),
        allowance: int = ALLOWANCE,
    ) -> str:
        """Return the context for a model, as `EpicMemory.context` does, from this graph's `search`."""
        return context_of(self.search(query, k, filter=filter, options=options), options, allowance)

    async def acontext(
        self,
        query: str,
        k: int = 5,
        *,
        filter: Filter | None = None,
        options: SearchOptions = SearchOptions(),
        allowance: int = ALLOWANCE,
    ) -> str:
        """Do the same as `context` without blocking the event loop."""
        return context_of(await self.asearch(query, k, filter=filter, options=options), options, allowance)

    def _searching(
        self, query: str, k: int, filter: Filter | None, options: SearchOptions, clock: Clock
    ) -> Effects[GraphHits]:
        asked = checked_search(self._session, query, k, filter=filter, options=options)
        if self._reader.encoder is not self._session.encoder:
            self._reader = Reader(self._session.encoder)
        return search(self._session, self._looked, self._reader, asked, clock)

    # inspection

    def entities(self, item_id: str | None = None) -> list[str]:
        """Return the names of all entities, or of those in one item, in the order they were added.

        Raises:
            InvalidInputError: for an id that is not a string.
        """
        with self._session.lock, self._store.reading():
            held, row = self._looked(), None if item_id is None else self._passage(item_id)
            if held is None or (item_id is not None and row is None):
                return []
            rows = held.name_of if row is None else self._tables.mentions_and_facts([row])[0][:, 1].tolist()
            return [held.name_of[one] for one in rows]

    def facts(self, item_id: str) -> list[tuple[str, str, str]]:
        """Return the facts in an item: subject, relation, object.

        A relation is empty if the item only names both entities together.
        """
        with self._session.lock, self._store.reading():
            held, row = self._looked(), self._passage(item_id)
            if held is None or row is None:
                return []
            named = self._tables.relations(row)
            return [(held.name_of[one], relation, held.name_of[other]) for one, relation, other in named]

    def neighbours(self, entity: str) -> list[tuple[str, int]]:
        """Return the entities that share a fact with an entity, each with how many passages have such a fact.

        Those of the most passages come first.

        Raises:
            UnknownEntityError: if the graph has no entity of that name.
        """
        key = entity_key(checked_text(entity, "The entity"))
        with self._session.lock, self._store.reading():
            held = self._looked()
            if held is None or key not in held.row_of:
                raise UnknownEntityError(f"The graph has no entity {entity!r}. graph.entities() lists those it has.")
            found = held.network.neighbours(held.row_of[key])
            pairs = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
            return [(held.name_of[other], count) for other, count in pairs]

    def failures(self) -> dict[str, str]:
        """Return item id to reason for all passages the extractor failed for; `retry` extracts them again."""
        with self._session.lock, self._store.reading():
            return {item_id: reason for _, item_id, reason in self._tables.failed_passages(self.memory.namespace)}

    def counts(self) -> dict[str, int]:
        """Count "passages", "entities", "edges", "failed" and "outside" (held, but not in the graph yet)."""
        with self._session.lock, self._store.reading():
            held = self._looked()
            made = self._tables.counts(self.memory.namespace)
            outside = len(self._tables.outside(self.memory.namespace))
            return {**made, "edges": 0 if held is None else held.network.edges, "outside": outside}

    # other methods

    @property
    def _session(self) -> Session:
        return self.memory._session

    @property
    def _store(self) -> Store:
        return self.memory._session.store

    @property
    def _tables(self) -> GraphTables:
        return GraphTables(self._store)

    def _passage(self, item_id: object) -> int | None:
        return self._store.items.row(self.memory.namespace, checked_text(item_id, "The item's id"))

    def _looked(self) -> LoadedGraph | None:
        """Return the graph in the file's current state; None if the file has none. The caller holds the lock."""
        return self._graph() if self._tables.begun else None

    def _graph(self) -> LoadedGraph:
        self._session.space()  # notices if another process has changed the memory
        if self._loaded is None:
            self._loaded = LoadedGraph(self._store, self.memory.namespace)
        self._loaded.refresh()
        return self._loaded

    def __len__(self) -> int:
        return len(self.memory)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<GraphMemory of {self.memory!r}, {self.extractor.name}>"

    def close(self) -> None:
        """Close the memory and its file; closing twice is fine."""
        self._loaded = None
        self.memory.close()

    def __enter__(self) -> GraphMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _begun(memory: BuildReport | None = None) -> tuple[GraphReport, Clock]:
    clock = Clock()
    return GraphReport(memory=memory or BuildReport(), timings=clock.parts), clock
