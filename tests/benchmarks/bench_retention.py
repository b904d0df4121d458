"""What survives a budget: a tenth of what the coarse filter and the embedded verifier keep, under each policy.

The labels' preferences, ten to a user, as in PrefWiki; for each user a stream of the labelled chunks that the
embedded verifier keeps, among other passages and answers that it keeps for the same preferences, in random order.
While it runs, questions about the preferences are asked, and what is found counts as used. Shown, over several
orders: the share of the entries that the labels call relevant that is still held at the end, the share of the
preferences with such entries that still have one, and the share of the labelled but irrelevant entries still held. The
other passages have no labels: some of them are relevant too, so that not even a perfect policy would hold everything.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import parse, parser, personas, read_jsonl
from epic_core.coarse import coarse_filter
from epic_core.encoders import StaticEncoder
from epic_core.retention import (
    ByValue,
    Ebbinghaus,
    Fifo,
    Held,
    Random,
    RetentionPolicy,
    UsageFifo,
    choose,
)
from epic_core.sources import Sources
from epic_core.types import Candidate, Item, Preference, Stance
from epic_core.verification.embedded import EmbeddedVerifier

DAY = 86_400.0
DAYS = 90.0
FOUND = 5
STANCES = {stance: position for position, stance in enumerate(Stance)}


@dataclass
class Stream:
    """All entries of one user, in no order, and the questions asked meanwhile.

    Attributes:
        held: The entries, as if all were held.
        relevant: Whether the labels call the entry relevant, shape `(n,)`.
        labelled: Whether the labels say anything about it, shape `(n,)`.
        questions: Steered queries, unit vectors, shape `(q, d)`.
    """

    held: Held
    relevant: np.ndarray
    labelled: np.ndarray
    questions: np.ndarray


class Streams:
    """Makes the streams of users from the data.

    Args:
        data: The data folder.
        others: How many unlabelled chunks each user's stream is drawn from.
        threshold: The embedded verifier's.
    """

    def __init__(self, data: Path, others: int, threshold: float) -> None:
        self.encoder = StaticEncoder()
        self.verifier = EmbeddedVerifier(self.encoder, threshold=threshold)
        self.truth: dict[tuple[str, str], bool] = {}
        judged: set[str] = set()
        for record in read_jsonl(data / "verification_labels.jsonl"):
            judged.add(record["source"].split("#")[0])
            aligned = {alignment["preference"] for alignment in record["alignments"]}
            for number, preference in enumerate(record["preferences"]):
                self.truth[record["chunk"], preference] = number in aligned
        self.asked = _questions(data)
        # The labels' chunks were cut in another way: their documents are left out as a whole.
        everything = Sources([data / "wiki_passages.jsonl", data / "assistant_answers.jsonl"])
        pool = list(dict.fromkeys(item.text for item in everything if item.id.split("#")[0] not in judged))
        generator = np.random.default_rng(0)
        self.others = [pool[row] for row in generator.permutation(len(pool))[:others]]
        self.embedded = self.encoder.encode(self.others)
        # Those of one chunk stay together, as far as ten to a user allows.
        self.preferences = list(dict.fromkeys(preference for _, preference in self.truth))

    def all(self, each: int = 10) -> list[Stream]:
        """One stream for every `each` preferences."""
        return [self._stream(self.preferences[start : start + each]) for start in range(0, len(self.preferences), each)]

    def _stream(self, texts: Sequence[str]) -> Stream:
        preferences = [Preference(text=text) for text in texts]
        vectors = self.encoder.encode(texts)
        known = [(chunk, texts.index(text)) for chunk, text in self.truth if text in texts]
        chunks = self.encoder.encode([chunk for chunk, _ in known])
        candidates = [
            _candidate(chunk, embedding, [preferences[row]], vectors[[row]])
            for (chunk, row), embedding in zip(known, chunks, strict=True)
        ]
        matches = coarse_filter(self.embedded, vectors, self.encoder.tau)
        for item in matches.passed:
            rows = matches.preferences[matches.items == item]
            candidates.append(
                _candidate(self.others[item], self.embedded[item], [preferences[row] for row in rows], vectors[rows])
            )
        columns: dict[str, list[Any]] = {name: [] for name in ("items", "preferences", "stances")}
        columns |= {name: [] for name in ("confidence", "similarity")}
        instructions, truths = [], []
        place = {preference.id: row for row, preference in enumerate(preferences)}
        for number, (candidate, verdict) in enumerate(zip(candidates, self.verifier.verify(candidates), strict=True)):
            similarities = dict(zip((p.id for p in candidate.preferences), candidate.similarities, strict=True))
            for alignment in verdict.alignments:
                row = place[alignment.preference_id]
                truths.append(self.truth.get((candidate.item.text, texts[row])))
                instructions.append(alignment.instruction)
                columns["items"].append(number)
                columns["preferences"].append(row)
                columns["stances"].append(STANCES[alignment.stance])
                columns["confidence"].append(alignment.confidence)
                columns["similarity"].append(similarities[alignment.preference_id])
        asked = [(question, row) for row, text in enumerate(texts) for question in self.asked[text]]
        queries = self.encoder.encode([question for question, _ in asked]) + vectors[[row for _, row in asked]]
        count = len(instructions)
        held = Held(
            rows=np.arange(count),
            items=np.array(columns["items"], dtype=np.int64),
            preferences=np.array(columns["preferences"], dtype=np.int64),
            stances=np.array(columns["stances"], dtype=np.int8),
            confidence=np.array(columns["confidence"], dtype=np.float32),
            similarity=np.array(columns["similarity"], dtype=np.float32),
            uses=np.zeros(count, dtype=np.int64),
            used=np.full(count, np.nan),
            added=np.zeros(count),
            vectors=self.encoder.encode(instructions),
        )
        return Stream(
            held=held,
            relevant=np.array([truth is True for truth in truths]),
            labelled=np.array([truth is not None for truth in truths]),
            questions=queries / np.linalg.norm(queries, axis=1, keepdims=True),
        )


def simulate(stream: Stream, policy: RetentionPolicy, *, capacity: int, floor: int, questions: int, seed: int) -> Any:
    """Run one stream in one random order through a capacity; the positions held at the end."""
    generator = np.random.default_rng(seed)
    count = len(stream.held)
    order = generator.permutation(count)
    arrived = np.argsort(order)
    now = np.linspace(0.0, DAYS * DAY, count)
    asked_at = set(np.linspace(capacity // 2, count - 1, questions).astype(int).tolist())
    asked = iter(generator.integers(len(stream.questions), size=questions + 1).tolist())
    uses, used, added = np.zeros(count, dtype=np.int64), np.full(count, np.nan), np.zeros(count)
    ones = np.ones(count, dtype=np.int64)
    held = np.empty(0, dtype=np.int64)
    for place in range(count):
        if len(held) >= capacity:
            columns = _columns(stream.held, held, arrived, uses, used, added)
            needed = max(1, round(policy.share * capacity))
            gone = choose(policy.order(columns, now[place]), columns, ones[: len(held)], needed, floor)
            held = np.delete(held, gone)
        held = np.append(held, order[place])
        added[order[place]] = now[place]
        if place in asked_at:
            scores = stream.held.vectors[held] @ stream.questions[next(asked)]
            found = held[np.argsort(-scores)[:FOUND]]
            uses[found] += 1
            used[found] = now[place]
    return held


def survival(streams: Sequence[Stream], policy: RetentionPolicy, options: Any, seed: int) -> tuple[float, float, float]:
    """Shares, over all users, in one order: relevant entries held, preferences served, other labelled entries held."""
    counts = np.zeros((3, 2))
    for number, stream in enumerate(streams):
        capacity = max(1, round(options.capacity * len(stream.held)))
        held = simulate(
            stream,
            policy,
            capacity=capacity,
            floor=options.floor,
            questions=options.questions,
            seed=1000 * seed + number,
        )
        there = np.zeros(len(stream.held), dtype=bool)
        there[held] = True
        wanted, kept = stream.held.preferences[stream.relevant], stream.held.preferences[stream.relevant & there]
        other = stream.labelled & ~stream.relevant
        counts += [
            (len(kept), len(wanted)),
            (len(np.unique(kept)), len(np.unique(wanted))),
            ((other & there).sum(), other.sum()),
        ]
    shares = counts[:, 0] / counts[:, 1]
    return float(shares[0]), float(shares[1]), float(shares[2])


def auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """How often a positive scores higher than another one, ties counted half."""
    above = scores[positive][:, None] - scores[~positive][None, :]
    return float((above > 0).mean() + 0.5 * (above == 0).mean())


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--orders", type=int, default=5)
    made.add_argument("--others", type=int, default=2000, help="unlabelled chunks that each stream is drawn from")
    made.add_argument("--threshold", type=float, default=0.5, help="confidence from which the verifier keeps")
    made.add_argument("--capacity", type=float, default=0.1, help="share of a user's entries that fits")
    made.add_argument("--floor", type=int, default=0, help="entries that each preference keeps")
    made.add_argument("--questions", type=int, default=100, help="asked of each user while the stream runs")
    options = parse(made)
    streams = Streams(options.data, options.others, options.threshold).all()
    labelled = [
        np.concatenate([_column(s, name)[s.labelled] for s in streams]) for name in ("confidence", "similarity")
    ]
    relevant = np.concatenate([s.relevant[s.labelled] for s in streams])
    print(
        f"{len(streams)} users, {sum(len(s.held) for s in streams)} entries, {len(relevant)} of them labelled,"
        f" {relevant.sum()} relevant; {options.capacity:.0%} fit"
    )
    both = labelled[0] + 0.5 * labelled[1]
    print(
        f"AUC on the labelled: confidence {auc(labelled[0], relevant):.3f},"
        f" similarity {auc(labelled[1], relevant):.3f}, confidence + 0.5 similarity {auc(both, relevant):.3f}"
    )
    _table(streams, options, [Random(), Fifo(), UsageFifo(), Ebbinghaus(), *_values()])


def _values() -> Iterable[ByValue]:
    yield ByValue()
    for without in ("similarity", "use", "freshness", "redundancy"):
        yield ByValue(name=f"by-value, no {without}", **{without: 0.0})


def _table(streams: Sequence[Stream], options: Any, policies: Iterable[RetentionPolicy]) -> None:
    print(
        f"{'policy':24} {'relevant held':>20} {'to random':>10} {'preferences served':>22} {'others held':>12} seconds"
    )
    base = None
    for policy in policies:
        started = time.perf_counter()
        runs = np.array([survival(streams, policy, options, seed) for seed in range(options.orders)])
        mean, deviation = runs.mean(axis=0), runs.std(axis=0)
        base = mean[0] if base is None else base
        print(
            f"{policy.name:24} {mean[0]:10.1%} +- {deviation[0]:6.1%} {mean[0] / base:10.2f}"
            f" {mean[1]:12.1%} +- {deviation[1]:6.1%} {mean[2]:12.1%} {time.perf_counter() - started:7.1f}"
        )


def _questions(data: Path) -> dict[str, list[str]]:
    asked: dict[str, list[str]] = {}
    for name in ("PrefWiki", "PrefRQ", "PrefELI5", "PrefEval"):
        for persona in personas(data, name):
            for preference, questions in persona:
                asked.setdefault(preference, []).extend(questions)
    for record in read_jsonl(data / "prefeval_mcq.jsonl"):
        asked.setdefault(record["preference"], []).append(record["question"])
    return {preference: list(dict.fromkeys(questions)) for preference, questions in asked.items()}


def _candidate(text: str, embedding: Any, preferences: Sequence[Preference], vectors: Any) -> Candidate:
    return Candidate(
        item=Item(text=text),
        embedding=embedding,
        preferences=tuple(preferences),
        similarities=tuple((vectors @ embedding).tolist()),
        preference_embeddings=vectors,
    )


def _columns(everything: Held, held: Any, arrived: Any, uses: Any, used: Any, added: Any) -> Held:
    return Held(
        rows=arrived[held],
        items=everything.items[held],
        preferences=everything.preferences[held],
        stances=everything.stances[held],
        confidence=everything.confidence[held],
        similarity=everything.similarity[held],
        uses=uses[held],
        used=used[held],
        added=added[held],
        vectors=everything.vectors[held],
    )


def _column(stream: Stream, name: str) -> Any:
    return getattr(stream.held, name)


if __name__ == "__main__":
    main()
