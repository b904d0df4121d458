"""Search among facts: how surely each answers a query, and which are held back for later ones."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from epic_learn.facts.matching import answer_scores, answering, held_back
from epic_memory.pipeline.candidates import CandidateWeights, Shelf
from epic_memory.types import FloatArray
from epic_memory.types.items import questions_of


def rank_facts(
    shelf: Shelf,
    query: str,
    looked_at: NDArray[np.intp] | None,
    topics: FloatArray,
    allowed: AbstractSet[int] | None,
) -> dict[int, list[int]]:
    """Add to the topics how surely facts answer a query, and hold back those that later ones may have replaced.

    Returns:
        Row of a fact to the rows of those that are held back for it. It takes over the best of their topics.
    """
    facts = sorted(shelf.facts)
    said = dict(zip(facts, shelf.texts.contents(facts), strict=True))
    places = shelf.texts.places(facts)
    if looked_at is not None:
        places = np.searchsorted(looked_at, places)
    place_of = dict(zip(facts, places.tolist(), strict=True))
    # A fact answers what the questions answer that it is said to answer.
    asked = [
        (place, text)
        for place, (row, metadata) in enumerate(zip(facts, shelf.texts.metadata(facts), strict=True))
        for text in (said[row], *questions_of(metadata))
    ]
    scores = np.full(len(facts), -np.inf, dtype=np.float32)
    np.maximum.at(scores, [place for place, _ in asked], answer_scores(query, [text for _, text in asked]))
    topics[places] += np.float32(CandidateWeights.shipped().asked) * answering(scores)
    keep = [place for place, row in enumerate(facts) if allowed is None or row in allowed]
    shown = [facts[place] for place in keep]
    replaced = held_back(query, [said[row] for row in shown], scores[keep])
    earlier: dict[int, list[int]] = {}
    for old, new in sorted(replaced.items()):
        before, after = place_of[shown[old]], place_of[shown[new]]
        topics[after] = max(topics[after], topics[before])
        topics[before] = -1.0
        earlier.setdefault(shown[new], []).extend([*earlier.pop(shown[old], []), shown[old]])
    return earlier
