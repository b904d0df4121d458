"""Learned order of texts that any retriever found: what both plugins' rerankers share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from epic_memory.encoders.base import embed, embed_query
from epic_memory.memory import EpicMemory
from epic_memory.runtime.batching import storable
from epic_memory.types import Hit, Item, checked_k
from epic_rerank import LearnedReranker, reranker_of

PROBABILITY = "epic_rank_probability"
"""The key of metadata for a result's probability of coming first."""


def ranked_texts(
    memory: EpicMemory,
    reranker: LearnedReranker | None,
    query: str,
    texts: Sequence[str],
    scores: Sequence[float | None],
    k: int,
) -> list[tuple[int, float]]:
    """Return the places of the k best texts in order, each with its probability of coming first.

    Without a query the order stays; texts without words come last. The cosine with the query takes the place of a
    score of retrieval that is None.
    """
    checked_k(k)
    reranker = reranker_of(memory) if reranker is None else reranker
    query, texts = storable(query), [storable(text) for text in texts]
    told = [place for place, text in enumerate(texts) if text.strip()]
    silent = [(place, 0.0) for place in range(len(texts)) if not texts[place].strip()]
    if not told or not query.strip() or not reranker.is_trained:
        count = len(texts)
        return [(place, 1.0 / count) for place in range(count)][:k]
    vector, vectors = embed_query(memory.encoder, query), embed(memory.encoder, [texts[place] for place in told])
    cosines = vectors @ vector
    known = [scores[place] for place in told]
    hits = [
        Hit(
            item=Item(text=texts[place]),
            score=float(cosine) if score is None or not math.isfinite(score) else score,
        )
        for place, score, cosine in zip(told, known, cosines.tolist(), strict=True)
    ]
    ranking = reranker.choose(query, vector, hits, list(vectors), len(hits))
    ranked = [(told[place], chance) for place, chance in zip(ranking.order, ranking.probabilities, strict=True)]
    return (ranked + silent)[:k]
