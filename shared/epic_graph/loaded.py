"""One user's graph loaded into RAM: the network, and the names of its entities."""

from __future__ import annotations

import numpy as np

from epic_graph.pagerank import Network
from epic_graph.tables import GraphMarks, GraphTables
from epic_memory.errors import DamagedError
from epic_memory.storage.store import Store


class LoadedGraph:
    """One namespace's graph, loaded into RAM.

    Attributes:
        network: Passages by item row, entities by entity row.
        row_of: Key of an entity to its row.
        name_of: Row of an entity to its name.
    """

    def __init__(self, store: Store, namespace: str) -> None:
        self.namespace = namespace
        self._path, self._tables = store.path, GraphTables(store)
        self._begin()

    def _begin(self) -> None:
        self.network = Network()
        self.row_of: dict[str, int] = {}
        self.name_of: dict[int, str] = {}
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
        tables, newest, known = self._tables, self._tables.newest(), self._newest
        has_only_grown = self._marks.plus(tables.added_since(*known)) == marks
        if not has_only_grown:
            known = (0, 0)
            self.row_of, self.name_of = {}, {}
        new, entities = tables.passage_crcs(self.namespace, known[0]), tables.entities(self.namespace, known[1])
        self.row_of.update((key, row) for row, (_, key) in entities.items())
        self.name_of.update((row, name) for row, (name, _) in entities.items())
        if len(self.row_of) < len(self.name_of):
            raise DamagedError(self._path, "two of its entities have one key")
        gone = set() if has_only_grown else {item for item, crc in self._crc_of.items() if new.get(item) != crc}
        changed = [item for item in new if item in gone or item not in self._crc_of]
        mentions, facts = tables.mentions_and_facts(changed)
        self.network.remove(gone)
        self.network.add(np.array(changed, dtype=np.int64), mentions, facts)
        if not np.isin(self.network.mentioned, list(self.name_of)).all():
            raise DamagedError(self._path, "a passage names an entity that is not there")
        self._crc_of = {**self._crc_of, **new} if has_only_grown else new
        self._marks, self._newest = marks, newest
