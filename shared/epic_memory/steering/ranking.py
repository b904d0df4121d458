"""Ranking of texts by verdicts: what suits a preference comes before what conflicts with it, however near that is.

A text that was judged to conflict with a preference stands below every text that answers the query, too, and does not
conflict: below those that suit the same preference, and below those whose topic is at least the share

    least(p) = 1 - yields firmness(p)

of its own. A firm preference, such as an allergy (firmness 1), is followed whatever there is instead; for a mild one a
text that fits the query much better than all others stays where it is. A text that suits a preference gains by how much
that matters to the query. None of this applies to a question that no preference decides, such as "How much did I pay
for the beer?": then a stance changes nothing.

Every surface ranks by these functions: a memory, a collection and the stores over it, retrievers over other stores,
postprocessors.

Names in formulas that are not explained are fields of `StanceWeights`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_memory.preferences.parser import aspects_of
from epic_memory.types import FloatArray, Preference, Stance, penalties
from epic_memory.types.verdicts import Stances
from epic_memory.types.weights import StageWeights

_STANCES = {stance.value: stance for stance in Stance}
# Distance in score between a text and the one that it yields to.
_STEP = 1e-3


@dataclass(frozen=True, kw_only=True)
class StanceWeights(StageWeights):
    """Numbers of the ranking by verdicts."""

    yields: float  # with firmness 1, the share of topic that another text may have less and still stand before it
    supports: float  # gain of a text that suits a preference which matters fully
    near_the_best: float  # how far from the best topic of those that do not conflict nothing is left of this gain
    fits: float  # gain of the topic of such a text, for the threshold of relevance alone
    rather: float  # weight from which a preference rather matters than not
    least_weight: float  # of one that the query does not show to matter: the text does, as it is about the topic
    voters: int  # how many of the nearest texts say which preferences matter
    nearer_votes: float  # how much more the nearest of them count


def stances_in(metadata: Mapping[str, Any]) -> Stances:
    """Return the stances of a document that was verified before it was stored, as its metadata have them.

    `epic_alignments` (JSON, a list of objects with `preference` and `stance`) holds the stance to each preference;
    without it, `epic_stance` is the stance to `epic_preference`, or to no preference in particular if that is missing.
    Of several stances to one preference the worst counts; unreadable values are ignored.
    """
    alignments = metadata.get("epic_alignments")
    if isinstance(alignments, str):
        try:
            alignments = json.loads(alignments)
        except (ValueError, RecursionError):
            alignments = None
    if not isinstance(alignments, list):
        alignments = [{"preference": metadata.get("epic_preference"), "stance": metadata.get("epic_stance")}]
    stances: dict[str | None, Stance] = {}
    for alignment in alignments:
        stance = _STANCES.get(str(alignment.get("stance"))) if isinstance(alignment, Mapping) else None
        if stance is not None:
            preference = alignment.get("preference")
            key = None if preference is None else str(preference)
            stances[key] = max(stance, stances.get(key, Stance.SUPPORTS), key=penalties().__getitem__)
    return stances


def votes(stances: Sequence[Stances], topics: FloatArray, preferences: Sequence[Preference]) -> FloatArray | None:
    """Return for each preference the share of what answers a query that was judged to follow or break it, in [0, 1].

    A text that answers a question and was judged under a preference says that the preference matters to the question.

    Args:
        stances: Of each text that was found.
        topics: Their nearness to the topic of the query, shape `(n,)`; the nearest ones count most.
        preferences: The user's.

    Returns:
        The shares, shape `(m,)`; None if none of the texts was judged.
    """
    numbers = StanceWeights.shipped()
    nearest = np.argsort(-topics, kind="stable")[: numbers.voters]
    weights = np.exp((topics[nearest] - topics[nearest].max(initial=-1.0)) * numbers.nearer_votes)
    weights /= weights.sum() or 1.0
    place = {one.text: number for number, one in enumerate(preferences)}
    shares = np.zeros(len(preferences), dtype=np.float32)
    for row, weight in zip(nearest.tolist(), weights.tolist(), strict=True):
        for preference, stance in stances[row].items():
            if preference in place and stance is not Stance.NEUTRAL:
                shares[place[preference]] += weight
    return shares if shares.any() else None


@dataclass(frozen=True)
class Verdicts:
    """The stances of n texts to the preferences of a search.

    Attributes:
        stances: For each stance, which text has it to which preference, shape `(n, m + 1)`; the last column is for no
            preference in particular.
        judged: Which text was verified for any of the preferences, shape `(n,)`.
        preferences: The m preferences.
        weights: How much each matters to the query, in [0, 1], shape `(m + 1,)`.
        decide: Whether stances change the order: they do not where the question asks for what stands in a note.
    """

    stances: dict[Stance, NDArray[np.bool_]]
    judged: NDArray[np.bool_]
    preferences: Sequence[Preference]
    weights: FloatArray
    decide: bool

    @classmethod
    def of(
        cls,
        texts: Sequence[Stances],
        preferences: Sequence[Preference],
        weights: Mapping[str, float],
        decide: bool = True,
        *,
        only: Iterable[int] | None = None,
    ) -> Verdicts:
        """Return the stances of texts to preferences.

        Args:
            texts: The stances of each text.
            preferences: The user's.
            weights: How much each preference that steers matters to the query, by its id, in [0, 1].
            decide: Whether stances change the order.
            only: Positions of the preferences that count in this search; None for all.
        """
        place: dict[str | None, int] = {one.text: number for number, one in enumerate(preferences)}
        place[None] = last = len(preferences)
        stances = {stance: np.zeros((len(texts), last + 1), dtype=bool) for stance in Stance}
        judged = np.zeros(len(texts), dtype=bool)
        for row, of in enumerate(texts):
            for one, stance in of.items():
                if one in place:
                    judged[row] = stances[stance][row, place[one]] = True
        if only is not None:
            for found in stances.values():
                found[:, np.setdiff1d(np.arange(last), list(only))] = False
        return cls(
            stances=stances,
            judged=judged,
            preferences=preferences,
            weights=np.array([*(weights.get(one.id, 0.0) for one in preferences), 0.0], dtype=np.float32),
            decide=decide,
        )

    def only(self, keep: NDArray[np.bool_]) -> Verdicts:
        """Return the verdicts on some of the texts."""
        stances = {stance: of_all[keep] for stance, of_all in self.stances.items()}
        return replace(self, stances=stances, judged=self.judged[keep])

    def bounds(self, preference: int) -> tuple[FloatArray, FloatArray]:
        """Return between which values the evidence in each text for a preference can lie, each shape `(n,)`.

        What was read of a text is worth more than what its words suggest: a text that suits a preference says nothing
        against it, and one that was verified for others only says nothing about it.
        """
        silent = self.judged & ~np.any([of_all[:, preference] for of_all in self.stances.values()], axis=0)
        lowest = np.where(self.stances[Stance.SUPPORTS][:, preference] | silent, 0.0, -1.0).astype(np.float32)
        highest = np.where(self.stances[Stance.CONFLICTS][:, preference] | silent, 0.0, 1.0).astype(np.float32)
        return lowest, highest

    def fits(self, relevant: NDArray[np.bool_]) -> FloatArray:
        """Return what a text's topic gains for the threshold of relevance by the preferences it suits, shape `(n,)`.

        Only preferences count that rather matter to the query than not: by the query, or as a text conflicts with them
        that is relevant to it.

        Args:
            relevant: Which texts are relevant by their topic alone, shape `(n,)`.
        """
        weights, conflicts = StanceWeights.shipped(), self.stances[Stance.CONFLICTS]
        surely = np.where(self.weights >= weights.rather, self.weights, np.float32(0.0))
        if self.decide:
            surely = np.maximum(surely, conflicts[relevant].any(axis=0))
        gained = np.float32(weights.fits) * (self.stances[Stance.SUPPORTS] @ surely)
        return np.where(conflicts.any(axis=1), 0.0, gained).astype(np.float32)

    def ranked(self, scores: FloatArray, topics: FloatArray) -> FloatArray:
        """Return the scores with what the stances change, shape `(n,)`.

        Args:
            scores: Of the texts, shape `(n,)`.
            topics: Their nearness to the topic of the query, shape `(n,)`.
        """
        weights = StanceWeights.shipped()
        if not len(scores) or not self.decide:
            return scores
        best = topics[~self.stances[Stance.CONFLICTS].any(axis=1)].max(initial=-1.0)
        near = np.clip(1.0 - (best - topics) / np.float32(weights.near_the_best), 0.0, 1.0)
        gained = np.float32(weights.supports) * near * (self.stances[Stance.SUPPORTS] @ self.weights)
        felt = np.maximum(self.weights, np.float32(weights.least_weight))
        lost = sum(np.float32(part) * (self.stances[stance] @ felt) for stance, part in penalties().items() if part)
        return self.yielding((scores + gained - lost).astype(np.float32), topics)

    def yielding(self, scores: FloatArray, topics: FloatArray) -> FloatArray:
        """Return the scores with each text that conflicts below those that it yields to, shape `(n,)`.

        Those that yield to the same text keep their order. The arguments are those of `ranked`.
        """
        against = self.stances[Stance.CONFLICTS].any(axis=1)
        if not against.any() or against.all():
            return scores
        rows, others = np.flatnonzero(against), np.flatnonzero(~against)
        conflicts = self.stances[Stance.CONFLICTS][rows]
        firmness = np.array([*(aspects_of(one).firmness for one in self.preferences), 0.5], dtype=np.float32)
        least = 1.0 - StanceWeights.shipped().yields * np.where(conflicts, firmness, 0.0).max(axis=1)
        instead = (conflicts.astype(np.float32) @ self.stances[Stance.SUPPORTS][others].T.astype(np.float32)) > 0
        instead |= topics[others] >= least[:, None] * topics[rows][:, None]
        lowest = np.where(instead, scores[others], np.inf).min(axis=1)
        order = np.argsort(np.argsort(-scores[rows], kind="stable"), kind="stable") + 1
        yielded: FloatArray = scores.copy()
        yielded[rows] = np.where(scores[rows] >= lowest, lowest - np.float32(_STEP) * order, scores[rows])
        return yielded
