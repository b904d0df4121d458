"""Dense search ranked again by tags, by a published rule on ranks; with a model, for its summary of the question."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epic_eval.arms.base import BuildCost, Retrieved
from epic_eval.arms.dense import Dense
from epic_eval.arms.writing import Writer
from epic_graph import PhraseTagger
from epic_memory import Item
from epic_memory.encoders import Encoder, embed

CANDIDATES, LEAST, MOST = 20, 18, 5
"""Of so many nearest, those whose rank from behind and matching tags reach the least are shown, at most so many."""
_ALIKE = 0.75
_SUMMARY = (
    "You prepare questions for a search engine. Write two lines: first, a summary of what this user asks, and of what"
    " they are probably after; second, its topics and names, with commas between. Answer with the two lines alone."
)


class Tagged(Dense):
    """Dense search, ranked again by how many tags of the question a passage has.

    Args:
        name: As tables show it.
        encoder: Encodes passages, questions and tags.
        writer: Summarises the question, which is searched for by that, and tags it. Without it the question is
            searched for, and its tags are its names and noun phrases, as a passage's are.
    """

    def __init__(self, name: str, encoder: Encoder, writer: Writer | None = None) -> None:
        super().__init__(name, encoder)
        self.writer = writer

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Build the index, and tag the passages."""
        cost = super().build(corpus, preferences, folder)
        started = self.clock()
        self._tags = {item.id: tags for item, tags in zip(corpus, tags_of([i.text for i in corpus]), strict=True)}
        path = folder / "tags.json"
        path.write_text(json.dumps(list(self._tags.values())), encoding="utf-8")
        size = path.stat().st_size
        self._bytes = {**self._bytes, "tags": size, "total": self._bytes["total"] + size}
        cost.seconds["tags"] = self.clock() - started
        return cost

    def retrieve(self, question: str, k: int) -> Retrieved:
        """Return the passages that the rule leaves, best first."""
        started = self.clock()
        lines = [] if self.writer is None else self.writer.write(_SUMMARY, [question])[0].splitlines()
        text = lines[0] if lines else question
        (tags,) = tags_of([question]) if len(lines) < 2 else [[tag.strip() for tag in lines[1].split(",")]]
        before = self.clock() - started
        found = super().retrieve(text, CANDIDATES)
        started = self.clock()
        alike = matches(self.encoder, tags, [self._tags[passage.id] for passage in found.passages])
        passages = tuple(found.passages[place] for place in ranked(alike)[:k])
        return replace(found, passages=passages, search=found.search + before + self.clock() - started)


def tags_of(texts: Sequence[str]) -> list[list[str]]:
    """Return the names and noun phrases of each text."""
    return [[*tags["topics"], *tags["entities"]] if tags else [] for tags in PhraseTagger().tag(texts)]


def matches(encoder: Encoder, query: Sequence[str], items: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Return for each item how many tags of a query have one like them."""
    tags = list(dict.fromkeys(tag for tag in [*query, *(tag for item in items for tag in item)] if tag.strip()))
    vectors = dict(zip(tags, embed(encoder, tags), strict=True)) if tags else {}
    asked = [vectors[tag] for tag in query if tag in vectors]
    known = [[vectors[tag] for tag in item if tag in vectors] for item in items]
    return np.array([sum(max((one @ own for own in of), default=-1.0) > _ALIKE for one in asked) for of in known])


def ranked(alike: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of the candidates that are shown, best first: each match is worth one rank."""
    ranks = CANDIDATES - np.arange(len(alike)) + alike
    order = np.argsort(-ranks, kind="stable")
    return order[ranks[order] >= LEAST][:MOST]
