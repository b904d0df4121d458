"""Graph tables in a memory's file: entities, and the facts that each passage states about them.

A passage is a held item. Its row has the rows of its entities, its facts as pairs of places among these, and their
relations; or the reason why extraction failed. An entity counts the passages that name it, and is removed with the last
of them. Its name is the spelling of the first of them; it also counts the passages with this spelling, and with the
last of these its name becomes its key.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_memory.errors import decoding
from epic_memory.storage.additions import Addition
from epic_memory.storage.codecs import deflated, inflated
from epic_memory.storage.sqlite.tables import tables_in

_STATEMENTS = """CREATE TABLE entities (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, name TEXT, key TEXT,
 passages INTEGER, spelt INTEGER, crc INTEGER
);
CREATE TABLE passages (
 item INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE, extractor INTEGER, entities BLOB,
 facts BLOB, relations, failure TEXT, crc INTEGER
);
"""
ENTITIES, PASSAGES = (tables_in(_STATEMENTS)[name] for name in ("entities", "passages"))
OTHERWISE = np.uint32(2**31)
"""Number added to the row of an entity that a passage spells differently."""

MOST_ENTITIES = 2**16
"""Most entities of one passage: a place among them has two bytes."""


@dataclass(frozen=True, kw_only=True)
class PassageRow:
    """The extraction of a passage, to be written.

    Attributes:
        item: Its item's row.
        extractor: The number of the extractor.
        entities: Entity rows, each once.
        facts: Pairs of places among the entities.
        relations: One for each fact; an empty text if it has none.
        otherwise: Those of the entities that the passage spells differently from their names.
        failure: Why there is nothing else, if the extractor failed.
    """

    item: int
    extractor: int
    entities: Sequence[int] = ()
    facts: Sequence[tuple[int, int]] = ()
    relations: Sequence[str] = ()
    otherwise: Collection[int] = ()
    failure: str | None = None


class GraphMarks(NamedTuple):
    """Numbers of entities and of passages in a file, and the sum of the passages' checksums."""

    entities: int = 0
    passages: int = 0
    said: int = 0

    def plus(self, other: GraphMarks) -> GraphMarks:
        """Return the sums of both."""
        return GraphMarks(*map(sum, zip(self, other, strict=True)))


class GraphTables(Addition):
    """Repository of the graph of a memory."""

    statements, table, part, is_searched = _STATEMENTS, "entities", "graph", True

    @property
    def begun(self) -> bool:
        """True if the file has a graph, according to its description."""
        return bool(self.db.meta_of("graph"))

    def begin(self) -> None:
        """Mark in the description that the file has a graph, unless it is marked; needs a writable file."""
        if not self.begun:
            with self.db.transaction():
                self.db.set_meta(graph=True)

    # writing

    def add_entity(self, namespace: str, name: str, key: str) -> int:
        """Write an entity that no passage names yet, with its normalised name as the key, and return its row."""
        stored = stored_key(name, key)
        return self.db.insert(ENTITIES, namespace=namespace, name=name, key=stored, passages=0, spelt=0)

    def put_passages(self, passages: Sequence[PassageRow]) -> None:
        """Write the extractions of passages, in place of earlier ones."""
        left = self.named([passage.item for passage in passages])
        said: Counter[int] = Counter()
        for passage in passages:
            relations = json.dumps(list(passage.relations), ensure_ascii=False, separators=(",", ":"))
            spelt = np.array(passage.entities, dtype="<u4")
            spelt[np.isin(spelt, list(passage.otherwise))] += OTHERWISE
            said.update(spelt.tolist())
            self.db.insert(
                PASSAGES,
                item=passage.item,
                extractor=passage.extractor,
                entities=spelt.tobytes(),
                facts=np.array(passage.facts, dtype="<u2").tobytes(),
                relations=deflated(relations) if any(passage.relations) else None,
                failure=passage.failure,
            )
        said.subtract(left)
        self.count_named(said)

    # what leaves

    def leave(self, items: Sequence[int]) -> None:
        """Remove passages, with the entities that no other passage names, and the spellings that no other has."""
        if items:
            left = self.named(items)
            self.db.connection.executemany("DELETE FROM passages WHERE item = ?", [(item,) for item in items])
            self.count_named({entity: -count for entity, count in left.items()})

    def named(self, items: Sequence[int]) -> Counter[int]:
        """Return how many of the passages name each entity, separately for its own and for other spellings."""
        said: Counter[int] = Counter()
        for (entities,) in self.db.read("SELECT entities FROM passages WHERE item IN", among=items):
            with decoding(self.db.path):
                said.update(np.frombuffer(entities, dtype="<u4").tolist())
        return said

    def count_named(self, changes: Mapping[int, int]) -> None:
        """Update the entities' counts of passages; remove the entities that no passage names any more."""
        gone, named, spelt = [], Counter[int](), Counter[int]()
        for entity, change in changes.items():
            row = entity % int(OTHERWISE)
            named[row] += change
            spelt[row] += change if row == entity else 0
        changed = [row for row in named if named[row] or spelt[row]]
        with decoding(self.db.path):
            for held in map(dict, self.db.rows(ENTITIES, "WHERE row IN", among=changed)):
                held["passages"] += named[held["row"]]
                held["spelt"] += spelt[held["row"]]
                if held["passages"] <= 0:
                    gone.append(int(held["row"]))
                    continue
                if held["spelt"] <= 0:
                    held["name"] = entity_key_of(held["name"], held["key"])
                    held["key"] = stored_key(held["name"], held["name"])
                self.db.insert_changed(ENTITIES, held["row"], held)
        self.delete_rows(gone)

    # reading

    def outside(self, namespace: str, after: int = 0) -> list[int]:
        """Return the rows of held items after some row that are not in the graph, without those of the light tier."""
        inside = "AND NOT EXISTS (SELECT 1 FROM passages WHERE item = items.row)"
        found = self.db.read(
            f"SELECT row FROM items WHERE row > ? AND namespace = ?"
            f" AND EXISTS (SELECT 1 FROM entries e WHERE e.item = items.row) {inside} ORDER BY row",
            (after, namespace),
        )
        return [int(row) for (row,) in found]

    def failed_passages(self, namespace: str) -> list[tuple[int, str, str]]:
        """Return item row, item id and reason of the passages whose extraction failed, oldest first."""
        return self.db.read(
            "SELECT p.item, i.id, p.failure FROM passages p JOIN items i ON i.row = p.item"
            " WHERE i.namespace = ? AND p.failure IS NOT NULL ORDER BY p.item",
            (namespace,),
        )

    def extracted_by_others(self, namespace: str, extractor: int) -> list[int]:
        """Return the item rows of the passages that another extractor than this one processed."""
        found = self.db.read(
            "SELECT p.item FROM passages p JOIN items i ON i.row = p.item WHERE i.namespace = ? AND p.extractor != ?",
            (namespace, extractor),
        )
        return [int(row) for (row,) in found]

    def passage_crcs(self, namespace: str, after: int = 0) -> dict[int, int]:
        """Return item row to checksum, for the passages of items after some row."""
        mine = "JOIN items i ON i.row = p.item WHERE i.namespace = ? AND p.item > ?"
        return dict(self.db.read(f"SELECT p.item, p.crc FROM passages p {mine} ORDER BY p.item", (namespace, after)))

    def mentions_and_facts(self, items: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the entities and the facts of passages, by item and in the passages' order.

        Returns:
            Rows of item and entity, shape `(m, 2)`; rows of item, entity and entity, shape `(f, 3)`.
        """
        found = sorted(self.db.rows(PASSAGES, "WHERE item IN", among=items), key=itemgetter("item"))
        rows = np.array([row["item"] for row in found], dtype=np.int64)
        with decoding(self.db.path):
            starts, spelt = _joined([row["entities"] for row in found], np.dtype("<u4"))
            fact_starts, places = _joined([row["facts"] for row in found], np.dtype(("<u2", 2)))
            entities, sizes, facts = (spelt % OTHERWISE).astype(np.int64), np.diff(starts), np.diff(fact_starts)
            if (places >= np.repeat(sizes, facts)[:, None]).any():
                raise ValueError("a fact of an entity that is not its passage's")
            ends = entities[places + np.repeat(starts[:-1], facts)[:, None]]
        mentions = np.stack([np.repeat(rows, sizes), entities], axis=1)
        return mentions, np.column_stack([np.repeat(rows, facts), ends])

    def relations(self, item: int) -> list[tuple[int, str, int]]:
        """Return the facts of a passage: entity row, relation, entity row."""
        _, facts = self.mentions_and_facts([item])
        stored = self.db.scalar("SELECT relations FROM passages WHERE item = ?", (item,))
        with decoding(self.db.path):
            words = [""] * len(facts) if stored is None else json.loads(inflated(stored))
            return [(one, str(word), other) for (_, one, other), word in zip(facts.tolist(), words, strict=True)]

    def entities(self, namespace: str, after: int = 0) -> dict[int, tuple[str, str]]:
        """Return entity row to name and key, for entities after some row, oldest first."""
        found = self.db.rows(ENTITIES, "WHERE namespace = ? AND row > ? ORDER BY row", namespace, after)
        with decoding(self.db.path):
            return {row["row"]: (row["name"], entity_key_of(row["name"], row["key"])) for row in found}

    def marks(self) -> GraphMarks:
        """Return the numbers that show whether a graph has changed."""
        sums = {name: (rows, total) for name, rows, total in self.db.read("SELECT name, rows, total FROM sums")}
        return GraphMarks(sums.get("entities", (0, 0))[0], *sums.get("passages", (0, 0)))

    def newest(self) -> tuple[int, int]:
        """Return the highest rows of an item with a passage and of an entity, in any namespace; 0 without any."""
        item, entity = self.db.scalar("SELECT max(item) FROM passages"), self.db.scalar("SELECT max(row) FROM entities")
        return int(item or 0), int(entity or 0)

    def added_since(self, item: int, entity: int) -> GraphMarks:
        """Return the marks of the passages and entities after some rows."""
        entities = self.db.scalar("SELECT count(*) FROM entities WHERE row > ?", (entity,))
        passages = self.db.read("SELECT count(*), coalesce(sum(crc), 0) FROM passages WHERE item > ?", (item,))[0]
        return GraphMarks(entities, *passages)

    def counts(self, namespace: str) -> dict[str, int]:
        """Return the numbers of entities, of passages in the graph, and of those whose extraction failed."""
        one = (namespace,)
        of_items = "SELECT {} FROM passages p JOIN items i ON i.row = p.item WHERE i.namespace = ?"
        return {
            "entities": self.count(namespace),
            "passages": int(self.db.scalar(of_items.format("count(*)"), one)),
            "failed": int(self.db.scalar(of_items.format("count(p.failure)"), one)),
        }


def _joined(blobs: Sequence[bytes], kind: np.dtype[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return where each blob starts, and the content of all of them in one array; a cut one is a ValueError."""
    counts, rest = np.divmod(np.array([len(blob) for blob in blobs], dtype=np.int64), kind.itemsize)
    if rest.any():
        raise ValueError("a blob is cut")
    return np.concatenate([[0], np.cumsum(counts)]), np.frombuffer(b"".join(blobs), dtype=kind)


def stored_key(name: str, key: str) -> str | None:
    """Return the column `key` of an entity: NULL for a key that its name gives."""
    return None if key == name.casefold() else key


def entity_key_of(name: str, stored: str | None) -> str:
    """Return the key of an entity, by its name and its column `key`."""
    return name.casefold() if stored is None else stored


ADDITIONS = (GraphTables,)
