"""What a memory knows of what it does not hold: a bounded ledger of what it has seen, and a sample with reasons.

The ledger keeps eight bytes of each item that was discarded or evicted, so that reading the same stream again costs
nothing. An item that has left the ledger, or that came with other preferences or another verifier, is verified again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from epic_core.reports import NotKept
from epic_core.retry_queue import RetryQueue
from epic_core.schema import LEDGER, NOT_KEPT

_WIDTH = 8
_IN_A_ROW = 256
_EXCERPT = 160
EVICTED = "budget"

Digests = NDArray[np.uint64]


def numbers(digests: Iterable[bytes]) -> Digests:
    """Digests as whole numbers, in their order."""
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


class Ledger(RetryQueue):
    """The tables of what is not held.

    Attributes:
        ledger_kept: How many items of a namespace the ledger knows at most; 0 keeps none.
        not_kept_kept: How many discarded items are kept as a sample, and how many evicted ones on record.
        ledger_dropped: How many have left the ledger because there were more.
    """

    ledger_kept: int = 0
    not_kept_kept: int = 0
    ledger_dropped: int = 0

    def seen(self, namespace: str) -> Digests:
        """The digests of what was seen and is not held, ascending."""
        digests = []
        for crc, *columns in self.read("SELECT crc, namespace, digests FROM ledger WHERE namespace = ?", (namespace,)):
            LEDGER.verify(self.path, crc, *columns)
            digests.append(columns[1])
        return np.sort(numbers(digests))

    def see(self, namespace: str, digests: Sequence[bytes]) -> None:
        """Note items that were seen and are not held. Call it inside a transaction."""
        if not digests or not self.ledger_kept:
            return
        last = self.read("SELECT row, digests FROM ledger WHERE namespace = ? ORDER BY row DESC LIMIT 1", (namespace,))
        row, known = last[0] if last and len(last[0][1]) < _IN_A_ROW * _WIDTH else (None, b"")
        noted = known + b"".join(digests)
        for start in range(0, len(noted), _IN_A_ROW * _WIDTH):
            block = noted[start : start + _IN_A_ROW * _WIDTH]
            if start == 0 and row is not None:
                self.update(LEDGER, row, digests=block)
            else:
                self.insert(LEDGER, namespace=namespace, digests=block)
        excess = self.seen_count(namespace) - self.ledger_kept
        if excess > 0:
            self.ledger_dropped += self.drop_seen(namespace, excess)

    def drop_seen(self, namespace: str, excess: int) -> int:
        """Drop the oldest of the ledger, at least so many; how many went. Call it inside a transaction."""
        dropped, rows = 0, []
        sizes = "SELECT row, length(digests) FROM ledger WHERE namespace = ? ORDER BY row LIMIT ?"
        for row, size in self.read(sizes, (namespace, excess // _IN_A_ROW + 2)):
            if dropped >= excess:
                break
            rows.append((row,))
            dropped += size // _WIDTH
        self._db.executemany("DELETE FROM ledger WHERE row = ?", rows)
        return dropped

    def unsee(self, namespace: str, digests: Iterable[bytes]) -> None:
        """Take items out of the ledger. Call it inside a transaction."""
        gone = set(digests)
        if not gone:
            return
        for row, block in self.read("SELECT row, digests FROM ledger WHERE namespace = ?", (namespace,)):
            parts = [block[start : start + _WIDTH] for start in range(0, len(block), _WIDTH)]
            if gone.isdisjoint(parts):
                continue
            left = b"".join(part for part in parts if part not in gone)
            if left:
                self.update(LEDGER, row, digests=left)
            else:
                self._db.execute("DELETE FROM ledger WHERE row = ?", (row,))

    def clear_ledger(self, namespace: str) -> None:
        """Forget what was seen: it has to be looked at anew. Call it inside a transaction."""
        self._db.execute("DELETE FROM ledger WHERE namespace = ?", (namespace,))

    def seen_count(self, namespace: str) -> int:
        """How many items the ledger knows."""
        octets = self.scalar("SELECT coalesce(sum(length(digests)), 0) FROM ledger WHERE namespace = ?", (namespace,))
        return int(octets) // _WIDTH

    # the sample

    def put_not_kept(self, namespace: str, records: Sequence[tuple[bytes, NotKept]]) -> None:
        """Keep some of what was discarded, a uniform sample, and the last of what was evicted.

        Call it inside a transaction.

        Args:
            namespace: Whose.
            records: Each with its digest: the smallest digests make the sample.
        """
        if not records or not self.not_kept_kept:
            return
        limit = self.not_kept_kept
        sampled = self.read(
            "SELECT digest FROM not_kept WHERE namespace = ? AND stage != ? ORDER BY digest", (namespace, EVICTED)
        )
        highest = sampled[-1][0] if len(sampled) >= limit else None
        known = {digest for (digest,) in sampled}
        discarded = sorted(
            (each for each in records if each[1].stage != EVICTED and each[0] not in known), key=lambda each: each[0]
        )
        taken = [each for each in discarded[:limit] if highest is None or each[0] < highest]
        evicted = [each for each in records if each[1].stage == EVICTED][-limit:]
        for digest, record in (*taken, *evicted):
            self.insert(
                NOT_KEPT,
                namespace=namespace,
                id=record.item_id,
                digest=digest,
                stage=record.stage,
                reason=record.reason,
                preference=record.preference,
                similarity=record.similarity,
                at=int(record.at or time.time()),
                text=record.text[:_EXCERPT],
            )
        self._trim(namespace, limit)

    def _trim(self, namespace: str, limit: int) -> None:
        for condition, order in (("stage != ?", "digest"), ("stage = ?", "row DESC")):
            self._db.execute(
                f"DELETE FROM not_kept WHERE row IN (SELECT row FROM not_kept WHERE namespace = ? AND {condition}"
                f" ORDER BY {order} LIMIT -1 OFFSET ?)",
                (namespace, EVICTED, limit),
            )

    def not_kept(self, namespace: str) -> list[NotKept]:
        """What is on record, the newest first."""
        records = []
        columns = ", ".join(NOT_KEPT.checked)
        for crc, *row in self.read(
            f"SELECT crc, {columns} FROM not_kept WHERE namespace = ? ORDER BY row DESC", (namespace,)
        ):
            NOT_KEPT.verify(self.path, crc, *row)
            _, item_id, _, stage, reason, preference, similarity, at, text = row
            records.append(
                NotKept(
                    item_id=item_id,
                    text=text,
                    stage=stage,
                    reason=reason,
                    preference=preference,
                    similarity=similarity,
                    at=float(at),
                )
            )
        return records

    def recorded(self, namespace: str, ids: Sequence[str]) -> dict[str, list[bytes]]:
        """Item id to the digests of its versions that are on record."""
        found: dict[str, list[bytes]] = {}
        for item_id, digest in self.among(
            "SELECT id, digest FROM not_kept WHERE namespace = ? AND id IN", ids, namespace
        ):
            found.setdefault(item_id, []).append(digest)
        return found

    def forget_not_kept(self, namespace: str, *, item_id: str | None = None, preference: str | None = None) -> None:
        """Drop records of an item, or of what was decided under a preference. Call it inside a transaction."""
        for column, value in (("id", item_id), ("preference", preference)):
            if value is not None:
                self._db.execute(f"DELETE FROM not_kept WHERE namespace = ? AND {column} = ?", (namespace, value))
