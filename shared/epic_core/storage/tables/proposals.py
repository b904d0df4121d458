"""Proposals: the table of changes that a user's words called for, open, accepted or rejected."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable

from epic_core.errors import decoding
from epic_core.storage.memory_schema import PROPOSALS
from epic_core.storage.sqlite.database import Repository
from epic_core.types.digests import digest
from epic_core.types.proposals import Proposal, ProposalState, plain
from epic_core.types.validation import moment

_DIGEST = 8


class Proposals(Repository):
    """Repository of the proposals of a memory."""

    def put(self, namespace: str, proposal: Proposal, state: ProposalState) -> None:
        """Write a proposal, in place of the one with its id; of a rejected one nothing but digests is kept."""
        self.remove(namespace, proposal.id)
        kept = None if state == "rejected" else proposal
        expires = kept.expires_at if kept else None
        self.db.insert(
            PROPOSALS,
            namespace=namespace,
            id=proposal.id,
            said=_said(proposal),
            state=state,
            kind=proposal.kind,
            text=kept.text if kept else "",
            old=kept.old if kept else "",
            quote=kept.quote if kept else "",
            turn=proposal.turn,
            confidence=float(proposal.confidence),
            source=proposal.source,
            expires=None if expires is None else expires.timestamp(),
            at=int(time.time()),
        )

    def remove(self, namespace: str, proposal_id: str) -> None:
        """Remove a proposal, whatever its state."""
        self.db.connection.execute("DELETE FROM proposals WHERE namespace = ? AND id = ?", (namespace, proposal_id))

    def of(self, namespace: str, state: ProposalState) -> list[Proposal]:
        """Return the proposals in a state, open or accepted, oldest first."""
        rows = self.db.rows(PROPOSALS, "WHERE namespace = ? AND state = ? ORDER BY row", namespace, state)
        with decoding(self.db.path):
            return [_proposal(row) for row in rows]

    def find(self, namespace: str, proposal_id: str) -> Proposal | None:
        """Return the open proposal with an id, or None."""
        return next((each for each in self.of(namespace, "open") if each.id == proposal_id), None)

    def decided(self, namespace: str) -> frozenset[str | bytes]:
        """Return the ids of the proposals that were accepted or rejected, and the digests of what was said."""
        rows = self.db.rows(PROPOSALS, "WHERE namespace = ? AND state != 'open'", namespace)
        return frozenset(key for row in rows for key in (row["id"], row["said"]))

    def forget(self, namespace: str, texts: Iterable[str]) -> None:
        """Remove the proposals that name one of these preferences or facts."""
        forgotten = {plain(text) for text in texts}
        rows = self.db.rows(PROPOSALS, "WHERE namespace = ? AND state != 'rejected'", namespace)
        gone = [(row["row"],) for row in rows if {plain(row["text"]), plain(row["old"])} & forgotten]
        self.db.connection.executemany("DELETE FROM proposals WHERE row = ?", gone)


def _said(proposal: Proposal) -> bytes:
    return digest(proposal.kind, plain(proposal.quote), size=_DIGEST)


def was_decided(proposal: Proposal, decided: frozenset[str | bytes]) -> bool:
    """Tell whether a proposal was accepted or rejected before, or another one drawn from the same words was."""
    return proposal.id in decided or _said(proposal) in decided


def _proposal(row: sqlite3.Row) -> Proposal:
    return Proposal(
        kind=row["kind"],
        text=row["text"],
        old=row["old"],
        quote=row["quote"],
        turn=row["turn"],
        confidence=row["confidence"],
        source=row["source"],
        expires_at=None if row["expires"] is None else moment(row["expires"]),
    )
