"""Tree of clusters with summaries, searched as one list: RAPTOR, with a model or with extracts in its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from epic_core import Item
from epic_core.encoders import Encoder, embed
from epic_core.lm import LanguageModel, Message
from epic_core.lm.answers import said_in
from epic_core.lm.prompting import section
from epic_core.text.chunking import sentences
from epic_eval.arms.base import BuildCost
from epic_eval.arms.dense import Dense, cluster
from epic_eval.journal import key_of

Summarise: TypeAlias = Callable[[Sequence[str]], str]

_MEMBERS = 10
_LEVELS = 2
_SENTENCES = 3
_TASK = "Summarise the texts in at most 80 words. Keep names, numbers and advice. Answer with the summary alone."


class Tree(Dense):
    """Passages, and summaries of clusters of about ten of them, two levels high.

    Args:
        name: As tables show it.
        encoder: Encodes passages, summaries and questions.
        summarise: Writes a summary; without it, it is the three sentences nearest to the cluster's centre.
        seed: Of the clustering.
    """

    def __init__(self, name: str, encoder: Encoder, *, summarise: Summarise | None = None, seed: int = 0) -> None:
        super().__init__(name, encoder, seed=seed)
        self.summarise = summarise or self._extract

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Cluster, summarise, and index passages and summaries together."""
        started = time.perf_counter()
        nodes, level = list(corpus), list(corpus)
        for _ in range(_LEVELS):
            if len(level) <= _MEMBERS:
                break
            vectors = embed(self.encoder, [item.text for item in level])
            clusters = cluster(vectors, len(level) // _MEMBERS, self.seed)[0]
            members = [np.flatnonzero(clusters == number) for number in np.unique(clusters)]
            texts = [self.summarise([level[row].text for row in rows]) for rows in members]
            level = [Item(text=text, id=f"summary-{key_of(text)}") for text in dict.fromkeys(texts) if text.strip()]
            nodes += level
        taken = time.perf_counter() - started
        cost = super().build(nodes, preferences, folder)
        cost.seconds["tree"] = taken
        cost.held = len(corpus)
        return cost

    def _extract(self, texts: Sequence[str]) -> str:
        every = [sentence for text in texts for sentence in sentences(text)]
        vectors = embed(self.encoder, every)
        nearest = np.argsort(-(vectors @ vectors.mean(axis=0)), kind="stable")[:_SENTENCES]
        return " ".join(every[row] for row in sorted(nearest))


def summaries_by(lm: LanguageModel) -> Summarise:
    """Return what has a model write the summaries."""

    def summarise(texts: Sequence[str]) -> str:
        asked = "\n".join(section(text, "text") for text in texts)
        return said_in(lm.complete([Message("system", _TASK), Message("user", asked)], max_tokens=200).text).strip()

    return summarise
