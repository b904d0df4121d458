"""Table of what feedback taught: the reranker of a namespace, and the last feedback it learnt from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from epic_memory.errors import decoding
from epic_memory.storage.additions import Addition
from epic_memory.storage.codecs import deflated, inflated
from epic_memory.storage.sqlite.tables import tables_in

_STATEMENTS = """CREATE TABLE learnt (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, kind TEXT NOT NULL, value NOT NULL, crc INTEGER
);
"""
LEARNT = tables_in(_STATEMENTS)["learnt"]
EVENTS = 64
"""Most feedback of a namespace that is kept; the oldest goes."""


class Learnt(Addition):
    """Repository of the reranker of each namespace, and of feedback: numbers only, no text."""

    statements, table, part, is_listed = _STATEMENTS, "learnt", "preferences", True

    def reranker(self, namespace: str) -> Mapping[str, Any] | None:
        """Return the reranker of a namespace as JSON, or None."""
        found = self._of(namespace, "reranker")
        return found[-1] if found else None

    def version(self, namespace: str) -> int | None:
        """Return a number that changes with the reranker of a namespace; None if there is none."""
        rows = self.db.read("SELECT max(row) FROM learnt WHERE namespace = ? AND kind = 'reranker'", (namespace,))
        return None if rows[0][0] is None else int(rows[0][0])

    def events(self, namespace: str) -> list[Mapping[str, Any]]:
        """Return the last feedback of a namespace, oldest first."""
        return self._of(namespace, "feedback")

    def put(self, namespace: str, reranker: Mapping[str, Any], event: Mapping[str, Any] | None = None) -> None:
        """Write a reranker in place of the one there is, and a feedback. Call it inside a transaction."""
        self.delete("namespace = ? AND kind = 'reranker'", namespace)
        self._insert(namespace, "reranker", reranker)
        if event is not None:
            self._insert(namespace, "feedback", event)
            self.keep(EVENTS, "row DESC", "namespace = ? AND kind = 'feedback'", namespace)

    def clear(self, namespace: str) -> bool:
        """Remove all that was learnt; return whether there was anything. Call it inside a transaction."""
        return self.delete("namespace = ?", namespace) > 0

    def reencode(self, namespace: str) -> None:
        """Remove all that was learnt: its features were another encoder's."""
        self.clear(namespace)

    def _of(self, namespace: str, kind: str) -> list[Any]:
        # All rows are read, so that one whose namespace or kind was changed is noticed by its checksum.
        rows = [
            row for row in self.db.rows(LEARNT, "ORDER BY row") if (row["namespace"], row["kind"]) == (namespace, kind)
        ]
        with decoding(self.db.path):
            return [json.loads(inflated(row["value"])) for row in rows]

    def _insert(self, namespace: str, kind: str, value: Mapping[str, Any]) -> None:
        self.db.insert(LEARNT, namespace=namespace, kind=kind, value=deflated(json.dumps(value, separators=(",", ":"))))


ADDITIONS = (Learnt,)
