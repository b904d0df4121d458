"""One user's graph loaded into RAM: the network, and the names and embeddings of its entities."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from epic_graph.entity_linking import Names
from epic_graph.pagerank import Network
from epic_graph.tables import GraphMarks, GraphTables
from epic_memory.encoders.base import Encoder
from epic_memory.errors import DamagedError
from epic_memory.storage.store import Store


class LoadedGraph:
    """One namespace's graph, loaded into RAM.

    Attributes:
        network: Passages by item row, entities by entity row.
        names: The names of its entities.
    """

    def __init__(self, store: Store, namespace: str, encoder: Encoder) -> None:
        self.encoder = encoder
        self.namespace = namespace
        self._store = store
        self._tables = GraphTables(store)
        self._begin()

    def _begin(self) -> None:
        self.network = Network()
        self.names = Names(self.encoder.dimension)
        self._crc_of: dict[int, int] = {}
        self._marks = GraphMarks()
        self._newest = (0, 0)

    def refresh(self) -> None:
        """Load the file's current state. Call it inside a transaction or `Store.reading`.

        Raises:
            DamagedError: if the file's data cannot be a graph.
        """
        marks = self._tables.marks()
        if marks != self._marks:
            try:
                self._read_anew(marks)
            except BaseException:
                # So that the next read starts from scratch.
                self._begin()
                raise

    def _read_anew(self, marks: GraphMarks) -> None:
        tables, namespace = self._tables, self.namespace
        newest = tables.newest()
        new = tables.passage_crcs(namespace, after=self._newest[0])
        called = tables.entities_called(namespace, after=self._newest[1])
        items: Collection[int] = ()
        entities: Collection[int] = ()
        if self._marks.plus(tables.added_since(*self._newest)) != marks:
            # There are not only additions.
            items, entities = self._crc_of.keys(), self.names.name_of.keys()
            new, called = tables.passage_crcs(namespace), tables.entities_called(namespace)
        changed = {item: crc for item, crc in new.items() if self._crc_of.get(item) != crc}
        gone = {item for item in items if item in self._crc_of and self._crc_of[item] != new.get(item)}
        missing = [row for row in called if row not in self.names.name_of]
        self._take(changed, gone, missing, {row for row in entities if row in self.names.name_of and row not in called})
        self.names.name_of.update(called)
        self._marks, self._newest = marks, newest

    def _take(self, changed: dict[int, int], gone: set[int], entities: Sequence[int], gone_entities: set[int]) -> None:
        self.names.remove(gone_entities)
        found = self._tables.entity_rows(entities, self.encoder.dimension)
        if len(set(found.keys)) < len(found.keys) or not self.names.row_of.keys().isdisjoint(found.keys):
            raise DamagedError(self._store.path, "two of its entities have one key")
        self.names.add(found.rows, found.names, found.keys, found.vectors)
        self.network.remove(gone)
        if any(self.network.mentions(gone_entities)):
            raise DamagedError(self._store.path, "a passage names an entity that is not there")
        self.network.drop_entities(gone_entities)
        # Without synonyms that have gone since.
        known = np.isin(found.pairs[:, 1], self.names.rows) & (found.cosines > 0.0)
        self.network.link(found.pairs[known], found.cosines[known])
        mentions, facts = self._tables.mentions_and_facts(list(changed))
        if not np.isin(mentions[:, 1], self.names.rows).all():
            raise DamagedError(self._store.path, "a passage names an entity that is not there")
        self.network.add(np.array(list(changed), dtype=np.int64), mentions, facts)
        for item in gone:
            del self._crc_of[item]
        self._crc_of.update(changed)
