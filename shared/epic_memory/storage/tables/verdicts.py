"""Verdict cache: the tables of models' answers, and the verdicts that they provide.

A verdict is stored for each pair of a chunk and a preference, by hashes of both, under the name of the verifier, which
includes its model and a hash of its prompt. A Discard is stored without its rationale. Rows of forgotten items and
preferences are removed here too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from epic_memory.storage.memory_schema import VERDICTS
from epic_memory.storage.mentions import Mentions
from epic_memory.storage.sqlite.database import Repository
from epic_memory.types import Alignment, Candidate, Decision, Preference, Stance, Verdict
from epic_memory.types.digests import digest
from epic_memory.types.verdicts import combined

_FREED = 0.1


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """Cached verdicts of candidates, and the candidates that remain to be judged.

    Attributes:
        known: Candidates with complete verdicts.
        asked: Candidates with the preferences for which no verdict is cached.
        partly: Item id to the cached verdict under its other preferences.
        whole: Item id to the candidate with all its preferences.
        pairs: How many pairs were cached.
    """

    known: list[tuple[Candidate, Verdict]]
    asked: list[Candidate]
    partly: dict[str, Verdict]
    whole: dict[str, Candidate]
    pairs: int

    def completed(self, candidate: Candidate, verdict: Verdict) -> tuple[Candidate, Verdict]:
        """Return a judged candidate and its verdict, combined with the verdict cached before."""
        earlier = self.partly.get(candidate.item.id)
        if earlier is None:
            return candidate, verdict
        whole = self.whole[candidate.item.id]
        if verdict.decision is Decision.UNDECIDED:
            return whole, verdict
        return whole, replace(combined([earlier, verdict]), usage=verdict.usage)


class Verdicts(Repository):
    """Repository of the cached answers of models.

    Attributes:
        kept: Most verdicts in the cache; 0 keeps none.
        dropped: How many were dropped because there were more.
    """

    table = "verdicts"
    kept: int = 0
    dropped: int = 0

    def recall(self, namespace: str, version: str, candidates: Sequence[Candidate]) -> Recalled:
        """Return the cached verdicts of candidates under a verifier's name."""
        keys = {candidate.item.id: digest(namespace, candidate.item.content) for candidate in candidates}
        chunks = list(dict.fromkeys(keys.values())) if self.kept else []
        rows = self.db.rows(VERDICTS, "WHERE version = ? AND chunk IN", digest(version, size=8), among=chunks)
        found = {(row["chunk"], row["preference"]): row for row in rows}
        recalled = Recalled(known=[], asked=[], partly={}, whole={}, pairs=len(found))
        if not found:
            recalled.asked.extend(candidates)
            return recalled
        hashes = {p.id: digest(namespace, p.text) for candidate in candidates for p in candidate.preferences}
        pairs = 0
        for candidate in candidates:
            cached = [found.get((keys[candidate.item.id], hashes[p.id])) for p in candidate.preferences]
            known = [(p, row) for p, row in zip(candidate.preferences, cached, strict=True) if row is not None]
            pairs += len(known)
            if not known:
                recalled.asked.append(candidate)
            elif len(known) == len(cached):
                recalled.known.append((candidate, _verdict(known)))
            else:
                recalled.asked.append(_under(candidate, [place for place, row in enumerate(cached) if row is None]))
                recalled.partly[candidate.item.id], recalled.whole[candidate.item.id] = _verdict(known), candidate
        return replace(recalled, pairs=pairs)

    def remember(self, namespace: str, version: str, verdicts: Iterable[tuple[Candidate, Verdict]]) -> None:
        """Store verdicts, pair by pair."""
        if not self.kept:
            return
        short = digest(version, size=8)
        rows: list[dict[str, Any]] = []
        newest = int(self.db.scalar("SELECT max(written) FROM verdicts") or 0)
        for candidate, verdict in verdicts:
            if verdict.decision is Decision.UNDECIDED:
                continue
            chunk = digest(namespace, candidate.item.content)
            kept = {alignment.preference_id: alignment for alignment in verdict.alignments}
            for preference in candidate.preferences:
                alignment = kept.get(preference.id)
                sure = verdict.confidence if alignment is None or alignment.confidence is None else alignment.confidence
                rows.append(
                    {
                        "chunk": chunk,
                        "preference": digest(namespace, preference.text),
                        "version": short,
                        "written": newest + len(rows) + 1,
                        "kept": int(alignment is not None),
                        "stance": alignment and str(alignment.stance),
                        "instruction": alignment and alignment.instruction,
                        "rationale": alignment and (alignment.rationale or verdict.rationale),
                        "confidence": sure,
                    }
                )
        self.db.insert_all(VERDICTS, rows)
        excess = self.total() - self.kept
        if excess > 0:
            # A tenth at once.
            self.drop(excess + int(_FREED * self.kept))

    def forget_chunks(self, namespace: str, texts: Iterable[str]) -> None:
        """Drop the answers about texts that are no longer held."""
        keys = [(digest(namespace, text),) for text in texts]
        self.db.connection.executemany("DELETE FROM verdicts WHERE chunk = ?", keys)

    def forget_preference(self, namespace: str, preference: Preference) -> None:
        """Drop the answers under a preference."""
        key = digest(namespace, preference.text)
        self.delete("preference = ?", key)

    def forget_mentions(self, namespace: str, mentions: Mentions, staying: Iterable[str], items: Iterable[str]) -> None:
        """Drop the answers that mention a removed preference.

        Args:
            namespace: The namespace of the preferences and items.
            mentions: The words of the removed preference.
            staying: The texts of the other preferences.
            items: The texts of the items that are held.
        """
        hashes = [digest(namespace, text) for text in staying]
        sql = "SELECT chunk, preference, version, instruction, rationale FROM verdicts WHERE kept AND preference IN"
        found = [row for row in self.db.read(sql, among=hashes) if mentions.inside("", *row[3:])]
        texts = {digest(namespace, text): text for text in items} if found else {}
        gone = [row[:3] for row in found if row[0] in texts and mentions.inside(texts[row[0]], *row[3:])]
        if self.db.path is not None:
            # Of a text that is not held it is unknown which words are its own. In RAM nothing is left behind.
            gone += [row[:3] for row in found if row[0] not in texts]
        sql = "DELETE FROM verdicts WHERE chunk = ? AND preference = ? AND version = ?"
        self.db.connection.executemany(sql, gone)

    def drop(self, excess: int) -> None:
        """Drop the oldest answers, about `excess` of them."""
        oldest = self.db.read("SELECT written FROM verdicts ORDER BY written LIMIT 1 OFFSET ?", (excess,))
        before = oldest[0][0] if oldest else 2**62
        self.dropped += self.delete("written < ?", before)

    def forget_all(self) -> None:
        """Drop all answers; a file without any is not written."""
        if held := self.total():
            with self.db.transaction():
                self.drop(held)
            self.db.give_back()

    def total(self) -> int:
        """Return how many verdicts are cached, in the whole file."""
        return int(self.db.scalar("SELECT rows FROM sums WHERE name = 'verdicts'"))


def _under(candidate: Candidate, places: Sequence[int]) -> Candidate:
    return replace(
        candidate,
        preferences=tuple(candidate.preferences[place] for place in places),
        similarities=tuple(candidate.similarities[place] for place in places),
        preference_embeddings=candidate.preference_embeddings[list(places)],
    )


def _verdict(pairs: Sequence[tuple[Preference, sqlite3.Row]]) -> Verdict:
    alignments = tuple(
        Alignment(
            preference_id=preference.id,
            instruction=str(row["instruction"] or ""),
            stance=Stance(row["stance"]),
            confidence=row["confidence"],
            rationale=str(row["rationale"] or ""),
        )
        for preference, row in pairs
        if row["kept"]
    )
    known = [row["confidence"] for _, row in pairs if row["confidence"] is not None]
    if not alignments:
        return Verdict(decision=Decision.DISCARD, confidence=min(known, default=None))
    return Verdict(
        decision=Decision.KEEP,
        rationale=next((each.rationale for each in alignments if each.rationale), ""),
        alignments=alignments,
        confidence=max((each.confidence for each in alignments if each.confidence is not None), default=None),
    )
