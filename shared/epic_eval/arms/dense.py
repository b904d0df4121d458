"""Dense arms: passages by their embeddings, whole or in codes, all or a selection, by the question or another query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epic_eval.arms.base import BaseArm, BuildCost, Passage, Retrieved, Vectors, with_total, write_documents
from epic_memory import Item
from epic_memory.encoders import Encoder, embed

Rows: TypeAlias = NDArray[np.int64]
Select: TypeAlias = Callable[[Vectors], Rows]
"""Rows that are kept, by the passages' embeddings."""
Queries: TypeAlias = Callable[[str, Sequence[str], Encoder], Sequence[str]]
"""Texts that are embedded for a question of a user with these preferences; their mean is searched for."""

_CANDIDATES = 100


class Dense(BaseArm):
    """Passages by the embeddings of their texts.

    Args:
        name: As tables show it.
        encoder: Encodes passages and questions.
        index: "flat" (float32, exact), "rabitq" (FAISS, one bit a component) or "bpr", a stand-in for the binary codes
            of BPR: the signs after a random rotation, the nearest hundred by Hamming distance, then the float query
            against the codes.
        select: Keeps a part of the passages; without it, all.
        queries: Makes the texts to embed; without it, the question.
        seed: Of the rotation.
    """

    def __init__(
        self,
        name: str,
        encoder: Encoder,
        *,
        index: Literal["flat", "rabitq", "bpr"] = "flat",
        select: Select | None = None,
        queries: Queries | None = None,
        seed: int = 0,
    ) -> None:
        self.name = name
        self.encoder = encoder
        self.index = index
        self.select = select
        self.queries = queries
        self.seed = seed
        self.preferences: tuple[str, ...] = ()

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Choose passages, and build and save the index."""
        vectors = embed(self.encoder, [item.text for item in corpus])
        started = self.clock()
        self.prefer(preferences)
        if self.select is not None:
            rows = self.select(vectors)
            corpus, vectors = [corpus[int(row)] for row in rows], vectors[rows]
        self.corpus = corpus
        parts = {"index": self._save(vectors, folder)}
        taken = self.clock() - started
        self._bytes = with_total(documents=write_documents(folder, corpus), **parts)
        return BuildCost(seconds={"index": taken}, held=len(corpus))

    def _save(self, vectors: Vectors, folder: Path) -> int:
        import faiss

        dimension = vectors.shape[1]
        path = folder / "index.faiss"
        self._rotation: Vectors | None = None
        self._index: Any
        if self.index == "bpr":
            normal = np.random.default_rng(self.seed).standard_normal((dimension, dimension))
            self._rotation = np.linalg.qr(normal)[0].astype(np.float32)
            self._index = faiss.IndexBinaryFlat(8 * (-(-dimension // 8)))
            self._codes = np.packbits(vectors @ self._rotation > 0.0, axis=1)
            self._index.add(self._codes)
            faiss.write_index_binary(self._index, str(path))
            return path.stat().st_size
        if self.index == "rabitq":
            self._index = faiss.IndexRaBitQ(dimension, faiss.METRIC_INNER_PRODUCT)
            self._index.qb = 0
            self._index.train(vectors)
        else:
            self._index = faiss.IndexFlatIP(dimension)
        self._index.add(vectors)
        faiss.write_index(self._index, str(path))
        return path.stat().st_size

    def prefer(self, preferences: Sequence[str]) -> None:
        """Take the preferences that the queries are made with."""
        self.preferences = tuple(preferences)

    def retrieve(self, question: str, k: int) -> Retrieved:
        """Return the passages nearest to the query."""
        started = self.clock()
        query = self._query(question)[None, :]
        encoded = self.clock()
        rows = self._search(query, min(k, len(self.corpus)))
        found = [self.corpus[int(row)] for row in rows if row >= 0]
        return Retrieved(
            passages=tuple(Passage(item.id, item.text) for item in found),
            encoding=encoded - started,
            search=self.clock() - encoded,
        )

    def _query(self, question: str) -> Vectors:
        """Return the vector to search for, shape `(d,)`."""
        texts = [question] if self.queries is None else list(self.queries(question, self.preferences, self.encoder))
        mean: Vectors = embed(self.encoder, texts).mean(axis=0)
        return mean

    def _search(self, query: Vectors, k: int) -> Any:
        if self._rotation is None:
            return self._index.search(query, k)[1][0]
        rotated = query @ self._rotation
        near = self._index.search(np.packbits(rotated > 0.0, axis=1), min(max(k, _CANDIDATES), len(self.corpus)))[1][0]
        signs = np.unpackbits(self._codes[near], axis=1)[:, : rotated.shape[1]] * 2.0 - 1.0
        return near[np.argsort(-(signs @ rotated[0]), kind="stable")][:k]

    def bytes(self) -> dict[str, int]:
        """Return the bytes of texts and index."""
        return self._bytes


def cluster(vectors: Vectors, count: int, seed: int) -> Rows:
    """Cluster unit vectors by k-means; return the cluster of each vector, shape `(n,)`."""
    import faiss

    means = faiss.Kmeans(
        vectors.shape[1], count, seed=seed, niter=10, spherical=True, min_points_per_centroid=1, verbose=False
    )
    means.train(vectors)
    clusters: Rows = means.index.search(vectors, 1)[1][:, 0].astype(np.int64)
    return clusters


def remembered(share: float, seed: int, days: float = 30.0) -> Select:
    """Return a selection that forgets as MemoryBank does, by Ebbinghaus' curve.

    A stand-in without its summaries: passages come evenly over some days, each one recalls the nearest earlier one,
    and what that curve has forgotten most is gone at the end.

    Args:
        share: The part of the passages that is kept.
        seed: Of the order in which they come.
        days: The time over which they come.
    """

    def select(vectors: Vectors) -> Rows:
        size = len(vectors)
        order = np.random.default_rng(seed).permutation(size)
        when = np.empty(size)
        when[order] = np.linspace(0.0, days * 86_400.0, size)
        uses, used = np.zeros(size, dtype=np.int64), np.full(size, np.nan)
        for start in range(0, size, 1024):
            near = vectors[start : start + 1024] @ vectors.T
            near[when[None, :] >= when[start : start + 1024, None]] = -2.0
            recalled = near.argmax(axis=1)
            known = near.max(axis=1) > -2.0
            np.add.at(uses, recalled[known], 1)
            np.fmax.at(used, recalled[known], when[start : start + 1024][known])
        by_time = np.argsort(when, kind="stable")
        # The retention e^(-t/S), by its exponent: t in days since the last use, S = 1 + uses.
        exponent = (np.fmax(used, when) / 86_400.0 - days) / (1 + uses)
        leaving = np.argsort(exponent[by_time], kind="stable")
        return np.sort(by_time[leaving[size - max(1, round(share * size)) :]]).astype(np.int64)

    return select


def nearest_appended(question: str, preferences: Sequence[str], encoder: Encoder) -> list[str]:
    """Return the question with the nearest preference behind it: a stand-in for Pref-QR without a model."""
    if not preferences:
        return [question]
    vectors = embed(encoder, [question, *preferences])
    return [f"{question} {preferences[int((vectors[1:] @ vectors[0]).argmax())]}"]
