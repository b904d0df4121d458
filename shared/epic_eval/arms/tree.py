"""Tree of clusters with summaries, searched as one list: RAPTOR, with a model or with extracts in its place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from epic_eval.arms.base import BuildCost
from epic_eval.arms.dense import Dense, cluster
from epic_eval.arms.writing import Writer, summaries
from epic_eval.journal import key_of
from epic_memory import Item
from epic_memory.encoders import Encoder, embed
from epic_memory.text.chunking import sentences

_MEMBERS = 10
_LEVELS = 2
_SENTENCES = 3


class Tree(Dense):
    """Passages, and summaries of clusters of about ten of them, two levels high.

    Args:
        name: As tables show it.
        encoder: Encodes passages, summaries and questions.
        writer: Writes the summaries; without it, they are the three sentences nearest to the cluster's centre.
        seed: Of the clustering.
    """

    def __init__(self, name: str, encoder: Encoder, *, writer: Writer | None = None, seed: int = 0) -> None:
        super().__init__(name, encoder, seed=seed)
        self.writer = writer

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Cluster, summarise, and index passages and summaries together."""
        started = self.clock()
        nodes, level = list(corpus), list(corpus)
        for _ in range(_LEVELS):
            if len(level) <= _MEMBERS:
                break
            vectors = embed(self.encoder, [item.text for item in level])
            clusters = cluster(vectors, len(level) // _MEMBERS, self.seed)
            members = [np.flatnonzero(clusters == number) for number in np.unique(clusters)]
            groups = [[level[row].text for row in rows] for rows in members]
            texts = summaries(self.writer, groups) if self.writer is not None else list(map(self._extract, groups))
            level = [Item(text=text, id=f"summary-{key_of(text)}") for text in dict.fromkeys(texts) if text.strip()]
            nodes += level
        taken = self.clock() - started
        cost = super().build(nodes, preferences, folder)
        cost.seconds["tree"] = taken
        cost.held = len(corpus)
        return cost

    def _extract(self, texts: Sequence[str]) -> str:
        every = [sentence for text in texts for sentence in sentences(text)]
        vectors = embed(self.encoder, every)
        nearest = np.argsort(-(vectors @ vectors.mean(axis=0)), kind="stable")[:_SENTENCES]
        return " ".join(every[row] for row in sorted(nearest))
