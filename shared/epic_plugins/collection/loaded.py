"""State of a collection in RAM: the rows of records, the vectors, and the results of filters."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epic_memory.errors import DamagedError
from epic_memory.filters import Filter
from epic_memory.pipeline.candidates import candidates, least_topic, ranked, verdicts_on
from epic_memory.preferences.foreign import is_foreign_to
from epic_memory.steering.query_steering import QuerySteering
from epic_memory.steering.question_kind import kind_of
from epic_memory.steering.ranking import stances_in, votes
from epic_memory.storage.texts import Texts
from epic_memory.storage.vector_index import EntryIndex, VectorTable
from epic_memory.types import FloatArray, Stance
from epic_memory.types.verdicts import Stances
from epic_plugins.tables import Record, Records

Condition: TypeAlias = Filter | Callable[[Record], bool]
"""A condition on records: a filter over their metadata, or any function of a record."""
Only: TypeAlias = tuple[Condition | None, Collection[str] | None]
"""A restriction of a search: a condition, and ids."""

_FILTERS_KEPT = 64


@dataclass(frozen=True, kw_only=True)
class Match:
    """A record that a search found.

    Attributes:
        record: The record, without its keys.
        score: The score that matches are ordered by, in [-1, 1], higher is better: a cosine, or in a search with
            preferences what a memory ranks by.
        vector: The vector of the key that was found, shape `(d,)`.
    """

    record: Record
    score: float
    vector: FloatArray = field(repr=False, compare=False)


class Matches(list[Match]):
    """A list of matches, best first.

    Attributes:
        vector: The vector that was searched for, shape `(d,)`.
        steered_by: The texts of the preferences that steered the query.
    """

    def __init__(self, matches: Iterable[Match], vector: FloatArray, steered_by: Sequence[str] = ()) -> None:
        super().__init__(matches)
        self.vector = vector
        self.steered_by = list(steered_by)


class LoadedCollection:
    """The state of a collection; a changed file needs a new one. The user has to hold a lock.

    A record is found by its text, or the embedding given for it, and by further texts, if it has any. Its instructions
    find it in the paper's way only; of one without a text they count as its texts.

    Args:
        records: The collection's tables, within one transaction.
        made: The encoder of the vectors, as the file remembers it; None if there has been none yet.

    Attributes:
        row_of: Id to row of every record, in the order they were written.
        made: The encoder given.
        texts: The embedding of the text of each record, by its row.
        index: The embeddings of instructions, by the rows of their keys.
        item_of: The row of the record, by the row of an instruction or of a further text.
        facts: None: a collection holds no facts of the user.

    Raises:
        DamagedError: for a file that is not as it was written.
    """

    facts: frozenset[int] = frozenset()

    def __init__(self, records: Records, made: dict[str, Any] | None) -> None:
        self._records = records
        self.row_of = records.ids()
        self.made = made
        self._begin(0 if made is None else _dimension(records.db.path, made))
        # For the filters used last, the rows of the records that satisfy them.
        self._filtered: dict[Hashable, tuple[Filter, dict[int, None]]] = {}
        # For each metadata key that `having` was asked for, row to text.
        self._said: dict[str, dict[int, str]] = {}
        if self.made is not None:
            self._enter(*records.keys(self.texts.dimension))

    def _begin(self, dimension: int) -> None:
        self.texts = Texts(dimension, self._records.at)
        self.index = EntryIndex(dimension)
        self._further = VectorTable(dimension)
        self.item_of: dict[int, int] = {}
        self._keys_of: dict[int, list[int]] = {}
        self._stances: dict[int, Stances] = {}

    @property
    def vectors(self) -> int:
        """Number of vectors."""
        return len(self.texts) + len(self.item_of)

    @property
    def dimension(self) -> int | None:
        """The dimension of the vectors; None without any."""
        return self.texts.dimension if self.vectors else None

    # committed changes

    def begin(self, made: dict[str, Any]) -> None:
        """Prepare for the first vectors of an encoder."""
        self.made = made
        self._begin(_dimension(self._records.db.path, made))

    def put(
        self,
        written: Mapping[str, int],
        said: Mapping[str, str],
        rows: Sequence[int],
        records: Sequence[int],
        stances: Sequence[Stance | None],
        vectors: FloatArray,
    ) -> None:
        """Enter records that were written.

        Args:
            written: Id to row of the records.
            said: Their metadata as JSON, by their ids.
            rows: The rows of their keys.
            records: For each key, the row of its record.
            stances: For each key, its stance; None for a text.
            vectors: The keys' vectors, shape `(n, d)`, as the file returns them.
        """
        self.drop(written)
        self.row_of.update(written)
        for record_id, row in written.items() if self._filtered or self._said else ():
            metadata = json.loads(said[record_id])
            for where, satisfying in self._filtered.values():
                if where.matches(metadata):
                    satisfying[row] = None
            for key, texts in self._said.items():
                if isinstance(metadata.get(key), str):
                    texts[row] = metadata[key]
        if rows:
            self._enter(rows, records, stances, vectors)

    def drop(self, ids: Iterable[str]) -> None:
        """Remove records that were deleted; unknown ids are ignored."""
        records = [self.row_of.pop(record_id) for record_id in list(ids) if record_id in self.row_of]
        for _, satisfying in self._filtered.values():
            for record in records:
                satisfying.pop(record, None)
        for texts in self._said.values():
            for record in records:
                texts.pop(record, None)
        gone = [row for record in records for row in self._keys_of.pop(record, ())]
        self.texts.remove(records)
        self.index.remove(gone)
        self._further.remove(gone)
        for row in gone:
            del self.item_of[row]
        for record in records:
            self._stances.pop(record, None)

    def _enter(
        self, rows: Sequence[int], records: Sequence[int], stances: Sequence[Stance | None], vectors: FloatArray
    ) -> None:
        places: dict[str, list[int]] = {"text": [], "further": [], "instruction": []}
        texted = {record for record, stance in zip(records, stances, strict=True) if stance is None}
        first: set[int] = set()
        for place, (record, stance) in enumerate(zip(records, stances, strict=True)):
            judged = stance is not None and record in texted
            kind = "instruction" if judged else "further" if record in first else "text"
            places[kind].append(place)
            if kind == "text":
                first.add(record)
            else:
                self.item_of[rows[place]] = record
                self._keys_of.setdefault(record, []).append(rows[place])
        self.texts.add([records[place] for place in places["text"]], vectors[places["text"]])
        self._further.add([rows[place] for place in places["further"]], vectors[places["further"]])
        self.index.add([rows[place] for place in places["instruction"]], vectors[places["instruction"]])

    # what a ranking reads

    def cosines(self, vector: FloatArray) -> FloatArray:
        """Return the cosine of each record's text, or the nearest of its further texts, with a unit vector."""
        cosines = self.texts.cosines(vector)
        if len(self._further):
            owners = self.texts.places([self.item_of[row] for row in self._further.rows.tolist()])
            np.maximum.at(cosines, owners, self._further.cosines(vector))
        return cosines

    def near(self, vector: FloatArray, k: int | None) -> tuple[NDArray[np.intp] | None, FloatArray]:
        """Return the places of the records' texts that may be the k nearest, None for all, with their cosines."""
        return (None, self.cosines(vector)) if len(self._further) else self.texts.near(vector, k)

    def stances(self, row: int) -> Stances:
        """Return the stances of a record, as its metadata have them."""
        if row not in self._stances:
            self._stances[row] = stances_in(self._records.at([row])[row].metadata)
        return self._stances[row]

    # searching

    def satisfying(self, where: Condition | None, ids: Iterable[str] | None) -> Iterable[int]:
        """Return the rows of the records that satisfy a condition, optionally among some ids."""
        rows = None if ids is None else {self.row_of[one] for one in ids if one in self.row_of}
        if where is None:
            return self.row_of.values() if rows is None else rows
        if isinstance(where, Filter):
            found = self._filtered_by(where)
            return found if rows is None else rows & found.keys()
        records = self._records.all() if rows is None else self._records.at(list(rows)).items()
        return [row for row, record in records if where(record)]

    def _filtered_by(self, where: Filter) -> dict[int, None]:
        """Return the rows of the records that satisfy a filter."""
        key = where.identity()
        if key in self._filtered:
            return self._filtered[key][1]
        found = dict.fromkeys(row for row, metadata in self._records.all_metadata() if where.matches(metadata))
        if len(self._filtered) >= _FILTERS_KEPT:
            self._filtered.clear()
        if key is not None:
            self._filtered[key] = where, found
        return found

    def having(self, key: str, values: Collection[str]) -> list[str]:
        """Return the ids of the records whose metadata has one of some texts under a key."""
        if key not in self._said:
            self._said[key] = {
                row: metadata[key]
                for row, metadata in self._records.all_metadata()
                if isinstance(metadata.get(key), str)
            }
        texts = self._said[key]
        return [record_id for record_id, row in self.row_of.items() if texts.get(row) in values]

    def nearest(self, vector: FloatArray, k: int, only: Only, *, instructed: bool = False) -> list[Match]:
        """Return the k records nearest to a vector by cosine.

        Args:
            vector: A unit vector, shape `(d,)`.
            k: At least one.
            only: Which records may be found.
            instructed: Whether records are found by their instructions, too.
        """
        if not self.vectors:
            return []
        records = self.allowed(only)
        rows, cosines = self.texts.rows, self.cosines(vector)
        if records is not None:
            keep = np.isin(rows, np.fromiter(records, dtype=np.int64, count=len(records)))
            rows, cosines = rows[keep], cosines[keep]
        best = {row: (cosine, -1) for row, cosine in _highest(rows, cosines, k)}
        of = self.item_of.items() if instructed else ()
        entries = np.array([row for row, record in of if records is None or record in records], dtype=np.int64)
        if len(entries):
            # Of k records each may be found by several instructions first.
            found, near = self.index.search(vector, len(entries), allowed=entries)
            for entry, cosine in zip(found.tolist(), near.tolist(), strict=True):
                if cosine > best.get(self.item_of[entry], (-np.inf, -1))[0]:
                    best[self.item_of[entry]] = cosine, entry
        order = sorted(best, key=lambda row: (-best[row][0], row))[:k]
        vectors = [self.texts.vector(row) if best[row][1] < 0 else self.index.vector(best[row][1]) for row in order]
        return self.matches(order, [best[row][0] for row in order], vectors)

    def steered(self, steerer: QuerySteering, query: str, vector: FloatArray, k: int, only: Only) -> Matches:
        """Find the k best records as a memory ranks them; in the paper's mode those nearest to q~ by any key."""
        if not self.vectors:
            return Matches([], vector)
        if steerer.mode != "signed":
            steered = steerer.steer_vector(vector)
            nearest = self.nearest(steered.vector, k, only, instructed=True)
            return Matches(nearest, steered.vector, [one.preference.text for one in steered.preferences])
        encoder, preferences = steerer.encoder, steerer.preferences
        foreign = is_foreign_to(encoder, query, preferences)
        kind = None if foreign else kind_of(encoder, query, vector)
        found = candidates(self, encoder, query, vector, k, items=self.allowed(only), foreign=foreign)
        if not found.rows:
            return Matches([], vector)
        near = found.only(found.topics >= least_topic(encoder, found.topics, len(self.texts), "auto", kind))
        judged = votes(near.stances, near.topics, preferences)
        chosen = steerer.choose(vector, candidates=near.vectors, kind=kind, votes=judged)
        scores = ranked(self, found, steerer, vector, chosen, verdicts_on(found, steerer, chosen, kind))
        order = np.lexsort((np.array(found.rows), -scores))[:k].tolist()
        rows = [found.rows[place] for place in order]
        matches = self.matches(rows, scores[order].tolist(), list(found.vectors[order]))
        moved = steerer.moved(vector, chosen, turns=True) if chosen.rows else vector
        return Matches(matches, moved, [preferences[row].text for row in chosen.rows])

    def matches(self, rows: Sequence[int], scores: Sequence[float], vectors: Sequence[FloatArray]) -> list[Match]:
        """Return records with their scores and the vectors they were found by."""
        records = self._records.at(rows)
        return [
            Match(record=records[row], score=min(1.0, max(-1.0, float(score))), vector=vector)
            for row, score, vector in zip(rows, scores, vectors, strict=True)
        ]

    def allowed(self, only: Only) -> frozenset[int] | None:
        """Return the rows of the records that a search may find; None for all."""
        return None if only == (None, None) else frozenset(self.satisfying(*only))


def _highest(rows: NDArray[np.int64], scores: FloatArray, k: int) -> list[tuple[int, float]]:
    """Return the k rows with the highest scores; of equal scores the earlier rows."""
    if len(rows) > k:
        best = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
        rows, scores = rows[best], scores[best]
    order = np.lexsort((rows, -scores))[:k]
    return list(zip(rows[order].tolist(), scores[order].tolist(), strict=True))


def _dimension(path: Path | None, made: object) -> int:
    """Return the dimension of a file's vectors from its description of the encoder."""
    if isinstance(made, dict) and {"name", "fingerprint"} <= made.keys() and isinstance(made.get("dimension"), int):
        return int(made["dimension"])
    raise DamagedError(path, "it does not say which encoder it was made with")
