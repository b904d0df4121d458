"""The table of undecided items, which wait to be verified again."""

from __future__ import annotations

import json
from collections.abc import Sequence

from epic_core.rows import decoding, dumped_metadata
from epic_core.types import Item
from epic_core.verdict_cache import VerdictTables


class RetryQueue(VerdictTables):
    """The retry queue of a memory."""

    def put_pending(self, namespace: str, item: Item, reason: str, preferences: Sequence[str]) -> None:
        """Put an undecided item into the retry queue, with the ids of the preferences to verify it under."""
        waiting = self._scalar("SELECT preferences FROM pending WHERE namespace = ? AND id = ?", (namespace, item.id))
        preferences = list(dict.fromkeys([*json.loads(waiting or "[]"), *preferences]))
        self._db.execute(
            "INSERT OR REPLACE INTO pending (namespace, id, text, metadata, reason, preferences)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                namespace,
                item.id,
                item.text,
                dumped_metadata(item.metadata, item.id),
                reason,
                json.dumps(preferences),
            ),
        )

    def drop_pending(self, namespace: str, item_id: str) -> None:
        """Take an item out of the retry queue."""
        self._db.execute("DELETE FROM pending WHERE namespace = ? AND id = ?", (namespace, item_id))

    def pending(self, namespace: str) -> list[tuple[Item, str, list[str]]]:
        """The retry queue, oldest first: item, reason, ids of its preferences."""
        rows = self._read(
            "SELECT id, text, metadata, reason, preferences FROM pending WHERE namespace = ? ORDER BY row", (namespace,)
        )
        with decoding(self.path):
            return [(Item(id=i, text=t, metadata=json.loads(m)), r, json.loads(p)) for i, t, m, r, p in rows]

    def pending_count(self, namespace: str) -> int:
        """How many items wait in the retry queue."""
        return int(self._scalar("SELECT count(*) FROM pending WHERE namespace = ?", (namespace,)))

    def stop_waiting_for(self, namespace: str, preference_id: str) -> None:
        """Take a preference out of the retry queue, with what a model said of it."""
        sql = "SELECT row, preferences FROM pending WHERE namespace = ? AND instr(preferences, ?)"
        for row, waiting in self._read(sql, (namespace, json.dumps(preference_id))):
            left = json.dumps([other for other in json.loads(waiting) if other != preference_id])
            reason = "it is to be verified under the preferences that are held now"
            self._db.execute("UPDATE pending SET preferences = ?, reason = ? WHERE row = ?", (left, reason, row))
