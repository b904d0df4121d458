"""Graph tables in a memory's file: entities, and the facts that each passage states about them.

A passage is a held item. Its row has the rows of its entities, its facts as pairs of places among these, and their
relations; or the reason why extraction failed. An entity counts the passages that name it, and is removed with the last
of them. Its name is the spelling of the first of them; it also counts the passages with this spelling, and with the
last of these its name becomes its key.

What fills the tables and reads them is `epic_graph`'s; a memory itself removes what has gone from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from epic_memory.errors import decoding
from epic_memory.storage.memory_schema import ENTITIES
from epic_memory.storage.sqlite.database import Repository

OTHERWISE = np.uint32(2**31)
"""Number added to the row of an entity that a passage spells differently."""


class Graph(Repository):
    """Repository of the graph of a memory, as far as a memory without one needs it."""

    table = "entities"

    def leave(self, items: Sequence[int]) -> None:
        """Remove passages, with the entities that no other passage names, and the spellings that no other has."""
        if items:
            left = self.named(items)
            self.db.connection.executemany("DELETE FROM passages WHERE item = ?", [(item,) for item in items])
            self.count_named({entity: -count for entity, count in left.items()})

    def named(self, items: Sequence[int]) -> Counter[int]:
        """Return how many of the passages name each entity, separately for its own and for other spellings."""
        said: Counter[int] = Counter()
        for (entities,) in self.db.among("SELECT entities FROM passages WHERE item IN", items):
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


def stored_key(name: str, key: str) -> str | None:
    """Return the column `key` of an entity: NULL for a key that its name gives."""
    return None if key == name.casefold() else key


def entity_key_of(name: str, stored: str | None) -> str:
    """Return the key of an entity, by its name and its column `key`."""
    return name.casefold() if stored is None else stored
