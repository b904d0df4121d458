"""Tables of proposals, open, accepted or rejected, and of edits: a bounded history by which facts are taken back."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, get_args

from epic_learn.marks import MarkTable
from epic_learn.types import Edit, Proposal, ProposalState, plain
from epic_memory.errors import decoding
from epic_memory.storage.additions import Addition
from epic_memory.storage.codecs import deflated, inflated
from epic_memory.storage.sqlite.tables import tables_in
from epic_memory.types import Item
from epic_memory.types.digests import digest
from epic_memory.types.validation import moment, one_of

KEPT = 100
"""Most edits of a namespace that are kept; the oldest go."""

_PROPOSALS = """CREATE TABLE proposals (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, id TEXT NOT NULL, said BLOB NOT NULL,
 state TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, old TEXT NOT NULL, quote TEXT NOT NULL,
 sentence TEXT NOT NULL, speaker TEXT NOT NULL, said_at REAL, conversation TEXT NOT NULL, turn INTEGER,
 confidence REAL NOT NULL, source TEXT NOT NULL, ends TEXT NOT NULL, expires REAL, at INTEGER NOT NULL, crc INTEGER,
 UNIQUE (namespace, id)
);
"""
PROPOSALS = tables_in(_PROPOSALS)["proposals"]
_EDITS = """CREATE TABLE edits (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, kind TEXT NOT NULL, item TEXT NOT NULL, old TEXT,
 at REAL NOT NULL, reason TEXT NOT NULL, expires REAL, crc INTEGER, text_crc INTEGER, texts NOT NULL
);
"""
EDITS = tables_in(_EDITS)["edits"]

_DIGEST = 8
_WORDS = ("text", "old", "quote", "sentence", "speaker", "conversation", "ends")
BARE = {**dict.fromkeys(_WORDS, ""), "expires": None, "said_at": None}
_EXPORTED = tuple(name for name in PROPOSALS.checked if name not in ("namespace", "said"))


class ProposalTable(Addition):
    """Repository of the proposals of a memory."""

    statements, table, part, small, is_listed = _PROPOSALS, "proposals", "preferences", True, True

    def put(self, namespace: str, proposal: Proposal, state: ProposalState) -> None:
        """Write a proposal, in place of the one with its id; of a rejected one nothing but digests is kept."""
        self.remove(namespace, proposal.id)
        if state == "rejected":
            self._unsay(namespace, [proposal.quote])
        columns: dict[str, Any] = {name: getattr(proposal, name) for name in ("id", "kind", "turn", "source", *_WORDS)}
        for name, when in (("expires", proposal.expires_at), ("said_at", proposal.said_at)):
            columns[name] = None if when is None else when.timestamp()
        columns |= {"confidence": float(proposal.confidence), "said": _said(proposal), "at": int(time.time())}
        bare = BARE if state == "rejected" else {}
        self.db.insert(PROPOSALS, **{**columns, **bare, "namespace": namespace, "state": state})

    def remove(self, namespace: str, proposal_id: str) -> None:
        """Remove a proposal, whatever its state."""
        self.delete_ids(namespace, [proposal_id])

    def of(self, namespace: str, state: ProposalState) -> list[Proposal]:
        """Return the proposals in a state, open or accepted, whose time is not over, oldest first."""
        rows = self.db.rows(PROPOSALS, "WHERE namespace = ? AND state = ? ORDER BY row", namespace, state)
        with decoding(self.db.path):
            made = [_proposal(row) for row in rows]
        return [each for each in made if not each.over]

    def drop_expired(self, namespace: str) -> None:
        """Remove the open proposals whose time is over; of accepted ones keep the digests."""
        mine = "WHERE namespace = ? AND state = 'accepted' AND expires <= ?"
        self._withdraw(self.db.rows(PROPOSALS, mine, namespace, time.time()))
        super().drop_expired(namespace)

    def find(self, namespace: str, proposal_id: str) -> Proposal | None:
        """Return the open proposal with an id, or None."""
        return next((each for each in self.of(namespace, "open") if each.id == proposal_id), None)

    def decided(self, namespace: str) -> frozenset[str | bytes]:
        """Return the ids of the proposals that were accepted or rejected, and the digests of what was said."""
        rows = self.db.rows(PROPOSALS, "WHERE namespace = ? AND state != 'open'", namespace)
        return frozenset(key for row in rows for key in (row["id"], row["said"]))

    def exported(self, namespace: str) -> list[dict[str, Any]]:
        """Return the proposals whose time is not over as JSON objects, oldest first; `import_` takes them."""
        mine = "WHERE namespace = ? AND (expires IS NULL OR expires > ?) ORDER BY row"
        rows = self.db.rows(PROPOSALS, mine, namespace, time.time())
        return [{name: row[name] for name in _EXPORTED} | {"said": row["said"].hex()} for row in rows]

    def import_(self, namespace: str, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write what `exported` gave and `checked_line` checked."""
        for line in lines:
            self.db.insert(PROPOSALS, **{**line, "namespace": namespace, "said": bytes.fromhex(line["said"])})

    def withdraw(self, namespace: str, texts: Iterable[str]) -> None:
        """Keep only digests of the accepted proposals of what is not held any more, so that none is made again.

        Those that are open and would change it go.
        """
        gone = {plain(text) for text in texts}
        accepted = self.db.rows(PROPOSALS, "WHERE namespace = ? AND state = 'accepted'", namespace)
        self._withdraw([row for row in accepted if gone & {plain(row["text"]), plain(row["old"])}])
        self.forget(namespace, (), gone)

    def expire(self, namespace: str, items: Sequence[Item]) -> None:
        """Keep only digests of what led to facts whose time is over, as `withdraw` does."""
        self.withdraw(namespace, [item.text for item in items if item.fact])

    def _unsay(self, namespace: str, quotes: Iterable[str]) -> None:
        """Drop the sentences of other proposals that hold words of which nothing is to stay."""
        gone = [quote for quote in quotes if quote]
        for row in self.db.rows(PROPOSALS, "WHERE namespace = ? AND sentence != ''", namespace):
            if any(quote in row["sentence"] for quote in gone):
                self.db.insert_changed(PROPOSALS, row["row"], {**dict(row), "sentence": ""})

    def _withdraw(self, rows: Sequence[sqlite3.Row]) -> None:
        for row in rows:
            self.db.insert_changed(PROPOSALS, row["row"], {**dict(row), **BARE, "state": "rejected"})
            self._unsay(row["namespace"], [row["quote"]])

    def forget(self, namespace: str, ids: Sequence[str], texts: Iterable[str]) -> None:
        """Remove the proposals that name one of these preferences or facts."""
        forgotten = {plain(text) for text in texts}
        rows = self.db.rows(PROPOSALS, "WHERE namespace = ? AND state != 'rejected'", namespace)
        gone = [row for row in rows if {plain(row["text"]), plain(row["old"])} & forgotten]
        self.delete_rows(row["row"] for row in gone)
        self._unsay(namespace, [row["quote"] for row in gone])


class EditTable(Addition):
    """Repository of the edits of a memory's facts."""

    statements, table, part, small = _EDITS, "edits", "documents", True

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

    def expire(self, namespace: str, items: Sequence[Item]) -> None:
        """Remove the edits that led to items whose time is over, and those they were part of."""
        self.forget(namespace, [item.id for item in items])

    def forget(self, namespace: str, ids: Sequence[str], texts: Iterable[str] = ()) -> None:
        """Remove the edits that led to one of the items, and those it was part of."""
        going, seen = list(ids), set(ids)
        while going:
            one = going.pop()
            olds = self.db.read("SELECT old FROM edits WHERE namespace = ? AND item = ?", (namespace, one))
            self.delete("namespace = ?1 AND (item = ?2 OR old = ?2)", namespace, one)
            # What it replaced, replaced something else before.
            earlier = {old for (old,) in olds if old is not None} - seen
            seen |= earlier
            going += earlier


def checked_line(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of an exported proposal.

    Raises:
        ValueError: for a line that is none; KeyError or TypeError for one that lacks something.
    """
    columns = {name: line[name] for name in (*_EXPORTED, "said")}
    state, said = one_of("state", columns["state"], get_args(ProposalState)), bytes.fromhex(columns["said"])
    bare = state == "rejected"
    if bare and any(columns[name] for name in BARE):
        raise ValueError("of a rejected proposal nothing is kept but digests")
    # What was rejected has no words; all else of it has to be as in any other.
    _proposal({**columns, "text": "x", "old": "x", "quote": "x"} if bare else columns)
    at = columns["at"]
    if len(said) != _DIGEST or not isinstance(columns["id"], str) or not isinstance(at, int) or not 0 <= at < 2**53:
        raise ValueError("the proposal is none")
    return columns


def _said(proposal: Proposal) -> bytes:
    # What is added may later look like a change of what it was accepted as.
    kind = proposal.kind.replace("replace_", "add_").replace("update_", "add_")
    return digest(kind, plain(proposal.quote), size=_DIGEST)


def was_decided(proposal: Proposal, decided: frozenset[str | bytes]) -> bool:
    """Tell whether a proposal was accepted or rejected before, or another one drawn from the same words was."""
    return proposal.id in decided or _said(proposal) in decided


def _proposal(row: sqlite3.Row | Mapping[str, Any]) -> Proposal:
    return Proposal(
        **{name: row[name] for name in ("kind", "turn", "confidence", "source", *_WORDS)},
        said_at=None if row["said_at"] is None else moment(row["said_at"]),
        expires_at=None if row["expires"] is None else moment(row["expires"]),
    )


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


ADDITIONS = (EditTable, ProposalTable, MarkTable)
