"""Preferences: the table of preferences, with their aspects and expansions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from epic_memory.errors import decoding
from epic_memory.storage.additions import Addition
from epic_memory.storage.codecs import packed, unpacked
from epic_memory.storage.memory_schema import PREFERENCES
from epic_memory.storage.sqlite.database import Database, Repository
from epic_memory.types import FloatArray, Preference, moment

# The column `aspects` holds JSON: the aspects' own keys, if a model or the user gave any, and these two keys. NULL
# stands for none of them, so that the parser reads the aspects.
_EXPANSION = "expansion"
# A model was asked for aspects or an expansion and failed, so it is asked again. Stored as an empty text if there is
# nothing else.
_UNREAD = "unread"
_ONLY_UNREAD = ""


class Preferences(Repository):
    """Repository of the preferences of a memory."""

    table = "preferences"

    def __init__(self, db: Database, additions: Sequence[Addition]) -> None:
        super().__init__(db)
        self.additions = additions

    def load(self, namespace: str, dimension: int) -> tuple[list[int], list[Preference], FloatArray]:
        """Return rows, preferences and their embeddings `(m, d)`, in the user's order."""
        found = self._stored(namespace)
        with decoding(self.db.path):
            vectors = unpacked([row["vector"] for row in found], dimension)
            return [int(row["row"]) for row in found], [_preference(row) for row in found], vectors

    def at(self, namespace: str) -> dict[int, Preference]:
        """Return row to preference, in the user's order."""
        with decoding(self.db.path):
            return {int(row["row"]): _preference(row) for row in self._stored(namespace)}

    def _stored(self, namespace: str) -> list[sqlite3.Row]:
        return self.db.rows(PREFERENCES, "WHERE namespace = ? ORDER BY position, row", namespace)

    def add(
        self,
        namespace: str,
        preference: Preference,
        vector: FloatArray,
        *,
        position: int | None = None,
        unread: bool = False,
    ) -> int:
        """Write a preference, last unless a position is given; return its row.

        `unread` means that a model still has to read its aspects, or to write its expansion.
        """
        if position is None:
            position = self.db.scalar(
                "SELECT coalesce(max(position), -1) + 1 FROM preferences WHERE namespace = ?", (namespace,)
            )
        for addition in self.additions:
            addition.mark(namespace, [f"preference {preference.id}"], gone=False)
        return self.db.insert(
            PREFERENCES,
            namespace=namespace,
            position=position,
            id=preference.id,
            text=preference.text,
            expires=_end(preference),
            aspects=_written(preference, unread=unread),
            vector=packed(vector.reshape(1, -1))[0],
        )

    def write(self, row: int, preference: Preference, vector: FloatArray) -> None:
        """Update a preference's text, embedding and time of expiry."""
        code = packed(vector.reshape(1, -1))[0]
        self.db.update(PREFERENCES, row, text=preference.text, expires=_end(preference), vector=code)

    def set_stated(self, namespace: str, preference: Preference, *, unread: bool) -> None:
        """Update a held preference's aspects and expansion, and whether a model still has to read it."""
        row = self.row(namespace, preference.id)
        if row is not None:
            self.db.update(PREFERENCES, row, aspects=_written(preference, unread=unread))

    def unread(self, namespace: str) -> set[str]:
        """Return the ids of the preferences that a model still has to read or to expand."""
        found = self.db.read(
            "SELECT id, aspects FROM preferences WHERE namespace = ? AND aspects IS NOT NULL", (namespace,)
        )
        with decoding(self.db.path):
            return {str(key) for key, written in found if _read(written)[1]}

    def move(self, namespace: str, preference_id: str, position: int) -> None:
        """Set a preference's place in the user's order."""
        row = self.row(namespace, preference_id)
        if row is not None:
            self.db.update(PREFERENCES, row, position=position)


def _preference(row: sqlite3.Row) -> Preference:
    expires_at = None if row["expires"] is None else moment(row["expires"])
    return Preference(id=row["id"], text=row["text"], expires_at=expires_at, **_read(row["aspects"])[0])


def _end(preference: Preference) -> float | None:
    return None if preference.expires_at is None else preference.expires_at.timestamp()


def _read(written: str | None) -> tuple[dict[str, Any], bool]:
    """Return what the column says: aspects and expansion as JSON, None if missing, and whether it is unread."""
    stored = json.loads(written) if written else {}
    expansion = stored.pop(_EXPANSION, None)
    unread = stored.pop(_UNREAD, False) or written == _ONLY_UNREAD
    return {"aspects": stored or None, "expansion": expansion}, bool(unread)


def _written(preference: Preference, *, unread: bool) -> str | None:
    stored: dict[str, Any] = {} if preference.aspects is None else preference.aspects.as_json()
    if preference.expansion is not None:
        stored[_EXPANSION] = preference.expansion.as_json()
    if not stored:
        return _ONLY_UNREAD if unread else None
    if unread:
        stored[_UNREAD] = True
    return json.dumps(stored, ensure_ascii=False, separators=(",", ":"))
