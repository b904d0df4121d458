"""Questions about long conversations: how many of the turns that answer them are found, without a language model.

Each turn of LoCoMo's conversations is an item; a question's evidence are the ids of turns. Printed are the shares of it
among the first five and ten hits, of all questions and by category (1 several facts, 2 time, 3 inference, 4 one fact),
and the words in ten hits. Questions of category 5 have no answer: printed is how many of them find anything. The last
row gives the messages to `add_conversation` as they are, in its windows of several turns.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from common import encoders, parse, parser, with_encoders
from epic_learn import add_conversation
from epic_memory import EpicMemory, Item, Settings
from epic_memory.encoders import Encoder, embed

CATEGORIES = (1, 2, 3, 4)
UNANSWERED = 5
K = 10
LONGEST = 120
Search = Callable[[str], Sequence[str]]
"""Returns the texts that are found."""


class BM25:
    """The textbook's BM25 (k1 = 1.5, b = 0.75) over lower-case words."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(words(text)) for text in texts]
        lengths = np.array([count.total() for count in counts], dtype=np.float64)
        having = Counter(word for count in counts for word in count)
        self.size = len(texts)
        self.weights: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for word, number in having.items():
            rows = np.array([row for row, count in enumerate(counts) if word in count])
            often = np.array([counts[row][word] for row in rows], dtype=np.float64)
            idf = math.log1p((len(texts) - number + 0.5) / (number + 0.5))
            norm = 1.5 * (0.25 + 0.75 * lengths[rows] / lengths.mean())
            self.weights[word] = rows, (idf * 2.5 * often / (often + norm)).astype(np.float32)

    def scores(self, query: str) -> np.ndarray:
        scores = np.zeros(self.size, dtype=np.float32)
        for word in words(query):
            if word in self.weights:
                rows, weights = self.weights[word]
                scores[rows] += weights
        return scores


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def items_of(conversation: dict[str, Any]) -> list[Item]:
    """Return the turns as items: D2:7 is turn 7 of the source D2."""
    items = []
    for turn in conversation["turns"]:
        source, number = turn["id"].split(":")
        said = {"speaker": turn["speaker"], "time": turn["time"], "source": source, "turn": int(number)}
        items.append(Item(id=turn["id"], text=" ".join(f"{turn['speaker']}: {turn['text']}".split()), metadata=said))
    return items


def held(items: Sequence[Item], encoder: Encoder) -> EpicMemory:
    """Return a memory that holds every item, if only by its text."""
    memory = EpicMemory(["I like good answers."], encoder=encoder, settings=Settings(reserve="64 MB"))
    memory.add(items)
    counts = memory.stats().counts
    assert counts["items"] + counts["light"] == len(items)
    return memory


def heard(conversation: dict[str, Any], encoder: Encoder) -> EpicMemory:
    """Return a memory that was given the messages of a conversation."""
    memory = EpicMemory(["I like good answers."], encoder=encoder, settings=Settings(reserve="64 MB"))
    messages = [
        {"role": turn["speaker"], "content": turn["text"], "time": turn["time"]} for turn in conversation["turns"]
    ]
    report = add_conversation(memory, messages)
    assert not report.unusable, report.unusable
    return memory


def searches(conversation: dict[str, Any], items: Sequence[Item], measured: Sequence[Encoder]) -> dict[str, Search]:
    """Return each way's search."""
    texts = [item.text for item in items]
    bm25 = BM25(texts)
    ways: dict[str, Search] = {}

    def best(*several: np.ndarray) -> list[str]:
        ranks = [np.argsort(np.argsort(-scores, kind="stable")) for scores in several]
        return [texts[row] for row in np.argsort(-sum(1.0 / (61 + rank) for rank in ranks), kind="stable")[:K]]

    def dense(encoder: Encoder, vectors: np.ndarray, question: str) -> np.ndarray:
        return vectors @ embed(encoder, [question])[0]

    for encoder in measured:
        nearness = partial(dense, encoder, embed(encoder, texts))
        ways[f"{encoder.name} dense"] = lambda q, nearness=nearness: best(nearness(q))
        ways[f"{encoder.name} + BM25"] = lambda q, nearness=nearness: best(nearness(q), bm25.scores(q))
        for name, memory in (("memory", held(items, encoder)), ("windows", heard(conversation, encoder))):
            ways[f"{encoder.name}, {name}"] = lambda q, memory=memory: [hit.item.text for hit in memory.search(q, K)]
    return ways


class Tally:
    """What a way found."""

    def __init__(self) -> None:
        self.shares: list[tuple[int, float, float]] = []
        self.silent = self.unanswered = 0
        self.words: list[int] = []

    def count(self, search: Search, question: dict[str, Any], evidence: Sequence[str]) -> None:
        """Count a question whose evidence are lines of texts."""
        found = search(question["question"])
        if question["category"] == UNANSWERED:
            self.unanswered += 1
            self.silent += not found
        elif evidence:
            self.words.append(sum(len(text.split()) for text in found))
            shares = (np.mean([any(line in text for text in found[:k]) for line in evidence]) for k in (5, K))
            self.shares.append((question["category"], *shares))

    def print(self, name: str) -> None:
        parts = [self.shares, *([one for one in self.shares if one[0] == number] for number in CATEGORIES)]
        means = [np.mean([one[1:] for one in part], axis=0) for part in parts]
        cells = "  ".join(f"{five:.2f} {ten:.2f}" for five, ten in means)
        found = f"{self.unanswered - self.silent}/{self.unanswered}"
        print(f"{name:40}{cells}  {found:>8}  {np.mean(self.words):5.0f}")


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    with_encoders(made)
    options = parse(made)
    measured = encoders(options)
    whole: dict[str, Tally] = {}
    for conversation in json.loads((options.data / "locomo_conversations.json").read_text(encoding="utf-8")):
        items = items_of(conversation)
        # A long turn is cut: what counts is its beginning.
        line_of = {item.id: " ".join(item.text.split())[:LONGEST] for item in items}
        for name, search in searches(conversation, items, measured).items():
            tally = whole.setdefault(name, Tally())
            for question in conversation["questions"]:
                evidence = [line_of[turn] for turn in set(question["evidence"]) if turn in line_of]
                tally.count(search, question, evidence)
    print(f"{'evidence in the first 5, 10':40}all        several    time       inference  one fact   no answer  words")
    for name, tally in whole.items():
        tally.print(name)


if __name__ == "__main__":
    main()
