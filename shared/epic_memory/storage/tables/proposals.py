"""Proposals: the table of changes that a user's words called for, open, accepted or rejected."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from epic_memory.errors import decoding
from epic_memory.storage.memory_schema import PROPOSALS
from epic_memory.storage.sqlite.database import Repository
from epic_memory.types.digests import digest
from epic_memory.types.proposals import Proposal, ProposalState, plain
from epic_memory.types.validation import moment, one_of

_DIGEST = 8
_WORDS = ("text", "old", "quote", "sentence", "speaker", "conversation", "ends")
_BARE = {**dict.fromkeys(_WORDS, ""), "expires": None, "said_at": None}
_EXPORTED = tuple(name for name in PROPOSALS.checked if name not in ("namespace", "said"))


class Proposals(Repository):
    """Repository of the proposals of a memory."""

    table = "proposals"

    def put(self, namespace: str, proposal: Proposal, state: ProposalState) -> None:
        """Write a proposal, in place of the one with its id; of a rejected one nothing but digests is kept."""
        self.remove(namespace, proposal.id)
        if state == "rejected":
            self._unsay(namespace, [proposal.quote])
        columns: dict[str, Any] = {name: getattr(proposal, name) for name in ("id", "kind", "turn", "source", *_WORDS)}
        for name, when in (("expires", proposal.expires_at), ("said_at", proposal.said_at)):
            columns[name] = None if when is None else when.timestamp()
        columns |= {"confidence": float(proposal.confidence), "said": _said(proposal), "at": int(time.time())}
        bare = _BARE if state == "rejected" else {}
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
        self.forget(namespace, gone)

    def _unsay(self, namespace: str, quotes: Iterable[str]) -> None:
        """Drop the sentences of other proposals that hold words of which nothing is to stay."""
        gone = [quote for quote in quotes if quote]
        for row in self.db.rows(PROPOSALS, "WHERE namespace = ? AND sentence != ''", namespace):
            if any(quote in row["sentence"] for quote in gone):
                self.db.insert_changed(PROPOSALS, row["row"], {**dict(row), "sentence": ""})

    def _withdraw(self, rows: Sequence[sqlite3.Row]) -> None:
        for row in rows:
            self.db.insert_changed(PROPOSALS, row["row"], {**dict(row), **_BARE, "state": "rejected"})
            self._unsay(row["namespace"], [row["quote"]])

    def forget(self, namespace: str, texts: Iterable[str]) -> None:
        """Remove the proposals that name one of these preferences or facts."""
        forgotten = {plain(text) for text in texts}
        rows = self.db.rows(PROPOSALS, "WHERE namespace = ? AND state != 'rejected'", namespace)
        gone = [row for row in rows if {plain(row["text"]), plain(row["old"])} & forgotten]
        self.delete_rows(row["row"] for row in gone)
        self._unsay(namespace, [row["quote"] for row in gone])


def checked_line(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of an exported proposal.

    Raises:
        ValueError: for a line that is none; KeyError or TypeError for one that lacks something.
    """
    columns = {name: line[name] for name in (*_EXPORTED, "said")}
    state, said = one_of("state", columns["state"], get_args(ProposalState)), bytes.fromhex(columns["said"])
    bare = state == "rejected"
    if bare and any(columns[name] for name in _BARE):
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
