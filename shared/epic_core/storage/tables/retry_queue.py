"""Retry queue: the table of undecided items, which wait to be verified again."""

from __future__ import annotations

import json
from collections.abc import Sequence

from epic_core.errors import decoding
from epic_core.storage.memory_schema import PENDING
from epic_core.storage.row_codec import deflated, inflated
from epic_core.storage.tables.repository import Repository
from epic_core.types import Item
from epic_core.types.metadata import dumped_metadata

_COLUMNS = ", ".join(PENDING.checked)


class RetryQueue(Repository):
    """Repository of the retry queue of a memory."""

    def put(self, namespace: str, item: Item, reason: str, preferences: Sequence[str]) -> None:
        """Add an undecided item to the retry queue, with the ids of the preferences to verify it under."""
        waiting = self._pending("namespace = ? AND id = ?", namespace, item.id)
        known = waiting[0][2] if waiting else []
        self.db.insert(
            PENDING,
            namespace=namespace,
            id=item.id,
            text=deflated(item.text),
            metadata=dumped_metadata(item.metadata, item.id, ordered=True),
            reason=reason,
            preferences=json.dumps(list(dict.fromkeys([*known, *preferences]))),
        )

    def drop(self, namespace: str, item_id: str) -> None:
        """Remove an item from the retry queue."""
        self.db.connection.execute("DELETE FROM pending WHERE namespace = ? AND id = ?", (namespace, item_id))

    def waiting(self, namespace: str) -> list[tuple[Item, str, list[str]]]:
        """Return the retry queue, oldest first: item, reason, ids of its preferences."""
        return self._pending("namespace = ? ORDER BY row", namespace)

    def _pending(self, where: str, *values: str) -> list[tuple[Item, str, list[str]]]:
        waiting = []
        with decoding(self.path):
            for crc, *columns in self.db.read(f"SELECT crc, {_COLUMNS} FROM pending WHERE {where}", values):
                PENDING.verify(self.path, crc, *columns)
                _, item_id, text, metadata, reason, preferences = columns
                item = Item(id=item_id, text=inflated(text), metadata=json.loads(metadata))
                waiting.append((item, str(reason), list(json.loads(preferences))))
        return waiting

    def count(self, namespace: str) -> int:
        """Return how many items wait in the retry queue."""
        return int(self.db.scalar("SELECT count(*) FROM pending WHERE namespace = ?", (namespace,)))

    def stop_waiting_for(self, namespace: str, preference_id: str) -> None:
        """Remove a preference from the retry queue, and replace the reasons, which may name it."""
        sql = "SELECT row, preferences FROM pending WHERE namespace = ? AND instr(preferences, ?)"
        for row, waiting in self.db.read(sql, (namespace, json.dumps(preference_id))):
            left = json.dumps([other for other in json.loads(waiting) if other != preference_id])
            self.db.update(
                PENDING,
                row,
                preferences=left,
                reason="it is to be verified under the preferences that are held now",
            )
