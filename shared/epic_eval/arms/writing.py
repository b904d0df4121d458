"""Arms in which a language model writes: rewritten questions (Pref-QR), PBR, summaries (RAPTOR, MemoryBank)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from epic_eval.arms.base import BuildCost, Retrieved, Vectors
from epic_eval.arms.dense import Dense, Queries, remembered
from epic_eval.journal import key_of
from epic_memory import Item
from epic_memory.encoders import Encoder, embed
from epic_memory.lm import Completion, LanguageModel, Message
from epic_memory.lm.answers import said_in
from epic_memory.lm.client import Complete, RetryPolicy, StructuredClient
from epic_memory.lm.prompting import numbered, section
from epic_memory.runtime.effects import Effects
from epic_memory.types import Usage

_REWRITE = (
    "You prepare questions for a search engine. Rewrite the user's question as one query that finds texts which suit"
    " this user. Use only those preferences that bear on the question. Answer with the query alone."
)
_PSEUDO = (
    "You prepare questions for a search engine. Write two lines: first, what this user might say about the subject, in"
    " their own words; second, what they would have in mind when they choose. Answer with the two lines alone."
)
_SUMMARY = "Summarise the texts in at most 80 words. Keep names, numbers and advice. Answer with the summary alone."
_PORTRAIT = (
    "These are summaries of what a user has seen and said, day by day. Describe the user in at most 80 words:"
    " character, interests, and how to answer them. Answer with the description alone."
)


class Writer:
    """A language model that writes short texts; failing calls are tried again.

    Args:
        lm: The model.
    """

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self._client = StructuredClient(lm, RetryPolicy())

    def write(self, task: str, materials: Sequence[str]) -> list[str]:
        """Return a text for each material, in order.

        Raises:
            LMError: if the model fails for good.
        """

        asked = [[Message("system", task), Message("user", material)] for material in materials]
        return [said_in(answer.text).strip() for answer in self.complete(asked, 200)]

    def complete(self, prompts: Sequence[Sequence[Message]], max_tokens: int) -> list[Completion]:
        """Return the model's answer to each prompt, in order."""

        def work(place: int) -> Effects[tuple[int, Completion]]:
            complete = Complete(lm=self.lm, messages=list(prompts[place]), max_tokens=max_tokens)
            return place, (yield from self._client.answer(complete, Usage()))

        answers = dict(self._client.stream(work, range(len(prompts))))
        return [answers[place] for place in range(len(prompts))]


def summaries(writer: Writer, groups: Sequence[Sequence[str]]) -> list[str]:
    """Return a summary of each group of texts."""
    return writer.write(_SUMMARY, ["\n".join(section(text, "text") for text in texts) for texts in groups])


def _asked(question: str, preferences: Sequence[str]) -> str:
    return f"The user's preferences:\n{numbered(preferences)}\n\nThe question:\n{section(question, 'question')}"


def rewritten(writer: Writer) -> Queries:
    """Return queries that a model rewrites with all preferences (Pref-QR)."""

    def queries(question: str, preferences: Sequence[str], encoder: Encoder) -> list[str]:
        return [writer.write(_REWRITE, [_asked(question, preferences)])[0] or question]

    return queries


class PBR(Dense):
    """Dense search for a question that is personalised before it is asked (PBR).

    The query is the mean of the question, a model's pseudo utterance and reasoning, and an anchor: the mean of the
    passages that a walk with restarts at those nearest to the three reaches, over a graph of nearest neighbours.

    Args:
        name: As tables show it.
        encoder: Encodes passages and questions.
        writer: Writes utterance and reasoning.
    """

    _NEIGHBOURS = 10
    _STARTS = 5
    _ANCHORS = 20
    _RESTART = 0.5
    _STEPS = 20

    def __init__(self, name: str, encoder: Encoder, writer: Writer) -> None:
        super().__init__(name, encoder)
        self.writer = writer

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Build the index, and the graph over it."""
        cost = super().build(corpus, preferences, folder)
        started = self.clock()
        self._vectors = embed(self.encoder, [item.text for item in corpus])
        near, rows = self._index.search(self._vectors, min(self._NEIGHBOURS + 1, len(corpus)))
        # The nearest one is the passage itself, or a copy.
        self._near = rows[:, 1:].astype(np.int32)
        weights = np.maximum(near[:, 1:], 0.0)
        self._weights = (weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)).astype(np.float32)
        np.savez(folder / "graph.npz", near=self._near, weights=self._weights)
        size = (folder / "graph.npz").stat().st_size
        self._bytes = {**self._bytes, "graph": size, "total": self._bytes["total"] + size}
        cost.seconds["graph"] = self.clock() - started
        return cost

    def _query(self, question: str) -> Vectors:
        lines = self.writer.write(_PSEUDO, [_asked(question, self.preferences)])[0].splitlines()
        texts = [question, *(line for line in lines if line.strip())][:3]
        vectors = embed(self.encoder, texts)
        starts = self._index.search(vectors, min(self._STARTS, len(self.corpus)))[1]
        restart = np.bincount(starts.ravel(), minlength=len(self.corpus)) / starts.size
        reached = restart
        for _ in range(self._STEPS):
            moved = np.bincount(
                self._near.ravel(), (reached[:, None] * self._weights).ravel(), minlength=len(self.corpus)
            )
            reached = self._RESTART * restart + (1.0 - self._RESTART) * moved
        anchors = np.argsort(-reached, kind="stable")[: self._ANCHORS]
        anchor = (reached[anchors, None] * self._vectors[anchors]).sum(axis=0) / reached[anchors].sum()
        mean: Vectors = np.vstack([vectors, anchor.astype(np.float32)]).mean(axis=0)
        return mean


class MemoryBank(Dense):
    """Dense search over what Ebbinghaus' curve leaves, a model's summaries of its days, and its portrait of the user.

    Args:
        name: As tables show it.
        encoder: Encodes passages, summaries and questions.
        writer: Writes summaries and portrait.
        seed: Of the order in which passages come.
    """

    _A_DAY = 20
    _DAYS = 30

    def __init__(self, name: str, encoder: Encoder, writer: Writer, seed: int) -> None:
        super().__init__(name, encoder)
        self.writer = writer
        self.seed = seed

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Forget, summarise each day, describe the user from the last days, and index what is left and summaries."""
        started = self.clock()
        vectors = embed(self.encoder, [item.text for item in corpus])
        kept = [corpus[int(row)] for row in remembered(0.5, self.seed)(vectors)]
        days = [[item.text for item in kept[start : start + self._A_DAY]] for start in range(0, len(kept), self._A_DAY)]
        texts = [text for text in dict.fromkeys(summaries(self.writer, days)) if text]
        recent = "\n".join(section(text, "summary") for text in texts[-self._DAYS :])
        self._portrait = self.writer.write(_PORTRAIT, [recent])[0]
        written = [Item(text=text, id=f"summary-{key_of(text)}") for text in texts]
        taken = self.clock() - started
        cost = super().build([*kept, *written], preferences, folder)
        cost.seconds["summaries"] = taken
        cost.held = len(kept)
        return cost

    def retrieve(self, question: str, k: int) -> Retrieved:
        """Return the nearest passages and summaries, behind the portrait."""
        return replace(super().retrieve(question, k), opening=(self._portrait,) if self._portrait else ())
