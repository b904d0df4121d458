"""Edits: a bounded history of the facts that were added, replaced and ended, by which they are taken back."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from epic_memory.errors import decoding
from epic_memory.storage.codecs import deflated, inflated
from epic_memory.storage.memory_schema import EDITS
from epic_memory.storage.sqlite.database import Repository
from epic_memory.types import Item
from epic_memory.types.edits import Edit

KEPT = 100
"""Most edits of a namespace that are kept; the oldest go."""


class Edits(Repository):
    """Repository of the edits of a memory's facts."""

    table = "edits"

    def put(self, namespace: str, edit: Edit) -> int:
        """Record an edit, and return its number. Call it inside a transaction."""
        row = self.db.insert(
            EDITS,
            namespace=namespace,
            kind=edit.kind,
            item=edit.item.id,
            old=None if edit.old is None else edit.old.id,
            at=edit.at,
            texts=deflated(json.dumps([item and _object(item) for item in _items(edit)])),
            reason=edit.reason,
            expires=_end(edit),
        )
        self.keep(KEPT, "row DESC", "namespace = ?", namespace)
        return row

    def all(self, namespace: str) -> list[Edit]:
        """Return the edits of a namespace, newest first, less those of what has expired."""
        now = time.time()
        return [edit for edit, end in self._all(namespace) if end is None or end > now]

    def _all(self, namespace: str) -> list[tuple[Edit, float | None]]:
        rows = self.db.rows(EDITS, "WHERE namespace = ? ORDER BY row DESC", namespace)
        with decoding(self.db.path):
            return [(_edit(row), row["expires"]) for row in rows]

    def texts_of(self, namespace: str, ids: Sequence[str]) -> dict[str, str]:
        """Return id to text, for those of the ids that an edit names, expired or not."""
        wanted = set(ids)
        found = (item for edit, _ in self._all(namespace) for item in _items(edit) if item is not None)
        return {item.id: item.text for item in found if item.id in wanted}

    def drop_oldest(self, namespace: str, missing: int) -> int:
        """Remove the oldest edits, about as many as take so many bytes; return how many. For use in a transaction."""
        size = "length(CAST(texts AS BLOB)) + length(item) + length(reason) + 80"
        found = self.db.read(f"SELECT row, {size} FROM edits WHERE namespace = ? ORDER BY row", (namespace,))
        before = accumulate((octets for _, octets in found), initial=0)
        going = [row for (row, _), freed in zip(found, before, strict=False) if freed < missing]
        self.delete_rows(going)
        return len(going)

    def forget(self, namespace: str, ids: Sequence[str]) -> None:
        """Remove the edits that led to one of the items, and those it was part of. Call it inside a transaction."""
        going, seen = list(ids), set(ids)
        while going:
            one = going.pop()
            olds = self.db.read("SELECT old FROM edits WHERE namespace = ? AND item = ?", (namespace, one))
            self.delete("namespace = ?1 AND (item = ?2 OR old = ?2)", namespace, one)
            # What it replaced, replaced something else before.
            earlier = {old for (old,) in olds if old is not None} - seen
            seen |= earlier
            going += earlier


def _items(edit: Edit) -> list[Item | None]:
    return [edit.item, edit.old, edit.displaced]


def _end(edit: Edit) -> float | None:
    """Return when the first of an edit's items expires, in Unix seconds; None for never."""
    end = min(item.ends for item in _items(edit) if item is not None)
    return None if end == math.inf else end


def _object(item: Item) -> dict[str, Any]:
    ends = None if item.expires_at is None else item.expires_at.isoformat()
    return {"text": item.text, "id": item.id, "metadata": dict(item.metadata), "expires_at": ends}


def _edit(row: sqlite3.Row) -> Edit:
    new, old, displaced = json.loads(inflated(row["texts"]))
    return Edit(
        kind=row["kind"],
        item=Item(**new, fact=True),
        old=None if old is None else Item(**old, fact=True),
        reason=row["reason"],
        displaced=None if displaced is None else Item(**displaced),
        id=int(row["row"]),
        at=float(row["at"]),
    )
