"""Seen items that a memory does not hold: a bounded ledger of digests, and a sample of records with reasons.

The ledger keeps six bytes of each item that was discarded or evicted, so that reading the same stream again costs
nothing. An item is verified again if it has left the ledger, or comes with other preferences or another verifier.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from epic_memory.errors import decoding
from epic_memory.storage.memory_schema import LEDGER, NOT_KEPT
from epic_memory.storage.mentions import Mentions
from epic_memory.storage.sqlite.database import Database, Repository
from epic_memory.storage.tables.verdicts import Verdicts
from epic_memory.types.digests import DIGEST_BYTES as _WIDTH
from epic_memory.types.reports import NotKept

_IN_A_ROW = 256
_EXCERPT = 80
# By default the ledger may take a share of the file, and so may each kind of record.
_SHARE = 0.015
_LEDGER_SHARE = 0.05
_LEDGER_LESS = 600
_LEAST = 150
_RECORD = 250
_LEAST_RECORDS = 4
EVICTED = "budget"

Digests = NDArray[np.uint64]


def numbers(digests: Iterable[bytes]) -> Digests:
    """Return digests as whole numbers, in their order."""
    octets = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, _WIDTH)
    padded = np.zeros((len(octets), 8), dtype=np.uint8)
    padded[:, :_WIDTH] = octets
    return padded.view("<u8")[:, 0].astype(np.uint64)


class Seen(Repository):
    """Repository of the items that were seen and are not held.

    Attributes:
        kept: Most items of a namespace in the ledger; 0 keeps none, None a share of the file.
        records_kept: Most discarded items in the sample, and most evicted ones on record; None for a share of the file.
        most, records_most: Upper bounds for both.
    """

    table = "ledger"
    kept: int | None = None
    most: int = 2**31
    records_kept: int | None = None
    records_most: int = 2**31

    def __init__(self, db: Database, verdicts: Verdicts) -> None:
        super().__init__(db)
        self.verdicts = verdicts

    def digests(self, namespace: str) -> Digests:
        """Return the digests of the items that were seen and are not held, ascending."""
        blocks = [row["digests"] for row in self.db.rows(LEDGER, "WHERE namespace = ?", namespace)]
        with decoding(self.db.path):
            return np.sort(numbers(blocks))

    def add(self, namespace: str, digests: Sequence[bytes]) -> int:
        """Add seen items to the ledger, and return how many older ones left it."""
        if not digests or self.kept == 0:
            return 0
        last = self.db.read(
            "SELECT row, digests FROM ledger WHERE namespace = ? ORDER BY row DESC LIMIT 1", (namespace,)
        )
        row, known = last[0] if last and len(last[0][1]) < _IN_A_ROW * _WIDTH else (None, b"")
        noted = known + b"".join(digests)
        for start in range(0, len(noted), _IN_A_ROW * _WIDTH):
            block = noted[start : start + _IN_A_ROW * _WIDTH]
            if start == 0 and row is not None:
                self.db.update(LEDGER, row, digests=block)
            else:
                self.db.insert(LEDGER, namespace=namespace, digests=block)
        excess = self.count(namespace) - self._ledger_room()
        return self.drop(namespace, excess) if excess > 0 else 0

    def _ledger_room(self) -> int:
        if self.kept is not None:
            return min(self.kept, self.most)
        if self.db.page_limit:
            return self.most
        # A small memory keeps a small ledger.
        return min(max(_LEAST, int(_LEDGER_SHARE * self.db.used_bytes() / _WIDTH) - _LEDGER_LESS), self.most)

    def records_room(self) -> int:
        """Return how many records of each kind are kept."""
        wanted = self.records_kept
        if wanted is None:
            wanted = max(_LEAST_RECORDS, int(_SHARE / 2 * self.db.used_bytes() / _RECORD))
        return min(wanted, self.records_most)

    def drop(self, namespace: str, excess: int) -> int:
        """Drop the `excess` oldest items of the ledger; return how many left."""
        dropped = 0
        sql = "SELECT row, digests FROM ledger WHERE namespace = ? ORDER BY row"
        for row, digests in self.db.read(sql, (namespace,)):
            going = min(excess - dropped, len(digests) // _WIDTH)
            if going == len(digests) // _WIDTH:
                self.delete_rows([row])
            else:
                self.db.update(LEDGER, row, digests=digests[going * _WIDTH :])
            dropped += going
            if dropped >= excess:
                break
        return dropped

    def remove(self, namespace: str, digests: Iterable[bytes]) -> None:
        """Remove items from the ledger."""
        gone = set(digests)
        if not gone:
            return
        for row, block in self.db.read("SELECT row, digests FROM ledger WHERE namespace = ?", (namespace,)):
            parts = [block[start : start + _WIDTH] for start in range(0, len(block), _WIDTH)]
            if gone.isdisjoint(parts):
                continue
            left = b"".join(part for part in parts if part not in gone)
            if left:
                self.db.update(LEDGER, row, digests=left)
            else:
                self.delete_rows([row])

    def clear(self, namespace: str) -> None:
        """Clear the ledger, so that its items are judged again."""
        self.delete("namespace = ?", namespace)

    def count(self, namespace: str) -> int:
        """Return how many items the ledger knows."""
        octets = self.db.scalar(
            "SELECT coalesce(sum(length(digests)), 0) FROM ledger WHERE namespace = ?", (namespace,)
        )
        return int(octets) // _WIDTH

    # the sample

    def put_records(
        self, namespace: str, records: Sequence[tuple[bytes, NotKept]], preferences: Mapping[str, int]
    ) -> None:
        """Record a uniform sample of the discarded items, and the last of the evicted ones.

        Args:
            namespace: The namespace of the items.
            records: Each with its digest: the smallest digests make the sample.
            preferences: Preference texts to preference rows.
        """
        limit = self.records_room() if records else 0
        if not limit:
            return
        sql = "SELECT digest FROM not_kept WHERE namespace = ? AND stage != ?"
        sampled = {digest for (digest,) in self.db.read(sql, (namespace, EVICTED))}
        new = {digest: record for digest, record in records if record.stage != EVICTED and digest not in sampled}
        with decoding(self.db.path):
            smallest = sorted(sampled | new.keys())[:limit]
        taken = [(digest, new[digest]) for digest in smallest if digest in new]
        evicted = [each for each in records if each[1].stage == EVICTED][-limit:]
        for digest, record in (*taken, *evicted):
            self.db.insert(
                NOT_KEPT,
                namespace=namespace,
                id=record.item_id,
                digest=digest,
                stage=record.stage,
                reason=record.reason,
                preference=preferences.get(record.preference),
                similarity=record.similarity,
                at=int(record.at or time.time()),
                text=record.text[:_EXCERPT],
            )
        self._trim(namespace, limit)

    def _trim(self, namespace: str, limit: int) -> None:
        for condition, order in (("stage != ?", "digest"), ("stage = ?", "row DESC")):
            self.keep(limit, order, f"namespace = ? AND {condition}", namespace, EVICTED, table="not_kept")

    def records(self, namespace: str) -> list[NotKept]:
        """Return the records, newest first."""
        texts = dict(self.db.read("SELECT row, text FROM preferences WHERE namespace = ?", (namespace,)))
        with decoding(self.db.path):
            return [
                NotKept(
                    item_id=row["id"],
                    text=row["text"],
                    stage=row["stage"],
                    reason=row["reason"],
                    preference=texts.get(row["preference"], ""),
                    similarity=row["similarity"],
                    at=float(row["at"]),
                )
                for row in self.db.rows(NOT_KEPT, "WHERE namespace = ? ORDER BY row DESC", namespace)
            ]

    def recorded(self, namespace: str, ids: Sequence[str]) -> dict[str, list[bytes]]:
        """Return item id to the digests of its versions that are on record."""
        found: dict[str, list[bytes]] = {}
        sql = "SELECT id, digest FROM not_kept WHERE namespace = ? AND id IN"
        for item_id, digest in self.db.read(sql, (namespace,), among=ids):
            found.setdefault(item_id, []).append(digest)
        return found

    def trim(self, namespace: str, verdicts: int) -> None:
        """Reduce cached verdicts, ledger and records to their bounds."""
        excess = self.verdicts.total() - verdicts
        if excess > 0:
            self.verdicts.drop(excess)
        excess = self.count(namespace) - self._ledger_room()
        if excess > 0:
            self.drop(namespace, excess)
        self._trim(namespace, self.records_room())

    def forget_records(self, namespace: str, **which: str | int) -> None:
        """Drop the records of an item, by its `id`, or those with a `preference`, by its row."""
        for column, value in which.items():
            self.delete(f"namespace = ? AND {column} = ?", namespace, value, table="not_kept")

    def forget_mentions(self, namespace: str, mentions: Mentions) -> None:
        """Remove sentences that mention a removed preference from reasons."""
        for row in self.db.rows(NOT_KEPT, "WHERE namespace = ?", namespace):
            left = mentions.without(row["reason"], row["text"])
            if left != row["reason"]:
                reason = left or "fine verification found it irrelevant"
                self.db.update(NOT_KEPT, row["row"], reason=reason)
