"""Ranking by tags: what a memory finds, ordered by the tags that it shares with the query, to be measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_memory import EpicMemory, Hit, SearchOptions
from epic_memory.encoders import Encoder, embed
from epic_memory.text.tagging import KINDS, PREFIX, Tagger, tag_metadata
from epic_memory.types import FloatArray

PAPER_SEARCH = SearchOptions(steering="off", stance_policy="any", min_score=None)
"""Options of the search behind the published rule: by cosine alone, whatever it is."""


@dataclass(frozen=True, kw_only=True)
class TagRanking:
    """Ranking by tags, in a search of `fetched` items.

    Attributes:
        paper: The published rule: ranks by cosine, from `fetched` down, each gaining one for each tag of the query that
            it has; at most `most` are shown, of those that reach `least`. Else `share` is added to a score for all.
        fetched: How many items are found before they are ranked.
        alike: The cosine above which two tags are one.
        least, most: Of the published rule.
        share: What an item gains that has all tags of the query.
    """

    paper: bool = False
    fetched: int = 20
    alike: float = 0.75
    least: int = 18
    most: int = 5
    share: float = 0.05

    def search(
        self,
        memory: EpicMemory,
        tagger: Tagger,
        encoder: Encoder,
        query: str,
        k: int,
        options: SearchOptions = SearchOptions(),
    ) -> list[Hit]:
        """Search a memory whose items have tags, and return the k best hits with their scores by tags.

        Args:
            memory: Its items have the tags of the tagger as metadata.
            tagger: Gives tags to the query.
            encoder: Encodes tags.
            query: Not empty.
            k: At least 1.
            options: Of `EpicMemory.search`; the published rule has its own.
        """
        hits = memory.search(query, self.fetched, options=PAPER_SEARCH if self.paper else options)
        (tags,) = tagger.tag([query])
        of_query = _compared(tag_metadata(tags or {}))
        matches = self._matches(encoder, of_query, [_compared(hit.item.metadata) for hit in hits])
        scores = np.array([hit.score for hit in hits], dtype=np.float32)
        if self.paper:
            order, scores = self.paper_order(matches)
        else:
            scores += np.float32(self.share / max(len(of_query), 1)) * matches
            order = np.argsort(-scores, kind="stable")
        return [replace(hits[place], score=float(scores[place])) for place in order[:k].tolist()]

    def paper_order(self, matches: NDArray[np.int64]) -> tuple[NDArray[np.int64], FloatArray]:
        """Return the places of the items that the published rule shows, best first, and the score of each item.

        The first of the items found has a rank score of `fetched`, the next one less, and each matching tag adds one.
        Scores are shares of twice `fetched`, to be in [0, 1].
        """
        ranks = self.fetched - np.arange(len(matches)) + matches
        order = np.argsort(-ranks, kind="stable")
        shown: NDArray[np.int64] = order[ranks[order] >= self.least][: self.most]
        return shown, np.minimum(ranks / (2.0 * self.fetched), 1.0).astype(np.float32)

    def _matches(self, encoder: Encoder, query: Sequence[str], items: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """Return for each item how many tags of a query have one like them, shape `(n,)`."""
        tags = list(dict.fromkeys([*query, *(tag for item in items for tag in item)]))
        if not tags:
            return np.zeros(len(items), dtype=np.int64)
        vectors = dict(zip(tags, embed(encoder, tags), strict=True))
        counts = [
            sum(max((vectors[tag] @ vectors[own] for own in item), default=-1.0) > self.alike for tag in query)
            for item in items
        ]
        return np.array(counts, dtype=np.int64)


def _compared(metadata: Mapping[str, Any]) -> list[str]:
    """Return the topics and entities among an item's tags."""
    given = (metadata.get(f"{PREFIX}{kind}") for kind in KINDS[:2])
    return [tag for tags in given if isinstance(tags, list) for tag in tags if isinstance(tag, str) and tag.strip()]
