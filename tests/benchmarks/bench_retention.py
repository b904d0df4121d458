"""What survives a budget: a tenth of what the coarse filter and the embedded verifier keep, under each policy.

The labels' preferences, ten to a user, as in PrefWiki; for each user a stream of the labelled chunks that the
embedded verifier keeps, among other passages and answers that it keeps for the same preferences, in random order.
Shown, over several orders: the share of the entries that the labels call relevant that is still held at the end, the
share of the preferences with such entries that still have one, and the share of the labelled but irrelevant entries
still held. The other passages have no labels: some of them are relevant too, so that not even a perfect policy would
hold everything.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import parse, parser, read_jsonl, sources
from epic_memory.encoders import StaticEncoder
from epic_memory.pipeline.coarse_filter import coarse_filter
from epic_memory.retention import ByValue, Held, Positions, RetentionPolicy, choose
from epic_memory.types import Candidate, Item, Preference, Stance
from epic_memory.verification.embedded import DEFAULT_THRESHOLD, EmbeddedVerifier

DAY = 86_400.0
DAYS = 90.0
STANCES = {stance: position for position, stance in enumerate(Stance)}


@dataclass(frozen=True)
class Fifo:
    """A policy by which the oldest entry leaves first."""

    name: str = "fifo"
    share: float = 0.1

    def order(self, held: Held, now: float) -> Positions:
        return np.arange(len(held), dtype=np.intp)


@dataclass(frozen=True)
class Random:
    """A policy with a random order, the same for the same entries."""

    name: str = "random"
    share: float = 0.1

    def order(self, held: Held, now: float) -> Positions:
        return _generator(held).permutation(len(held)).astype(np.intp)


def _generator(held: Held) -> np.random.Generator:
    # The entries are part of the seed, because a constant one would spare the same positions each time.
    return np.random.default_rng([0, len(held), int(held.rows[-1]) if len(held) else 0])


@dataclass
class Stream:
    """All entries of one user, in no order.

    Attributes:
        held: The entries, as if all were held.
        relevant: Whether the labels call the entry relevant, shape `(n,)`.
        labelled: Whether the labels say anything about it, shape `(n,)`.
    """

    held: Held
    relevant: np.ndarray
    labelled: np.ndarray


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
        # The labels' chunks were cut in another way: their documents are left out as a whole.
        pool = list(dict.fromkeys(item.text for item in sources(data) if item.id.split("#")[0] not in judged))
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
        passing = coarse_filter(self.embedded, vectors, self.encoder.tau)
        for item in np.flatnonzero(passing.any(axis=1)).tolist():
            rows = np.flatnonzero(passing[item]).tolist()
            candidates.append(
                _candidate(self.others[item], self.embedded[item], [preferences[row] for row in rows], vectors[rows])
            )
        columns: dict[str, list[Any]] = {name: [] for name in ("items", "preferences", "stances")}
        columns |= {name: [] for name in ("confidence", "similarity")}
        truths = []
        place = {preference.id: row for row, preference in enumerate(preferences)}
        for number, (candidate, verdict) in enumerate(zip(candidates, self.verifier.verify(candidates), strict=True)):
            similarities = dict(zip((p.id for p in candidate.preferences), candidate.similarities, strict=True))
            for alignment in verdict.alignments:
                row = place[alignment.preference_id]
                truths.append(self.truth.get((candidate.item.text, texts[row])))
                columns["items"].append(number)
                columns["preferences"].append(row)
                columns["stances"].append(STANCES[alignment.stance])
                columns["confidence"].append(alignment.confidence)
                columns["similarity"].append(similarities[alignment.preference_id])
        count = len(truths)
        held = Held(
            rows=np.arange(count),
            items=np.array(columns["items"], dtype=np.int64),
            preferences=np.array(columns["preferences"], dtype=np.int64),
            stances=np.array(columns["stances"], dtype=np.int8),
            confidence=np.array(columns["confidence"], dtype=np.float32),
            similarity=np.array(columns["similarity"], dtype=np.float32),
            added=np.zeros(count),
        )
        return Stream(
            held=held,
            relevant=np.array([truth is True for truth in truths], dtype=bool),
            labelled=np.array([truth is not None for truth in truths], dtype=bool),
        )


def simulate(stream: Stream, policy: RetentionPolicy, *, capacity: int, floor: int, seed: int) -> Any:
    """Run one stream in one random order through a capacity; the positions held at the end."""
    count = len(stream.held)
    order = np.random.default_rng(seed).permutation(count)
    arrived = np.argsort(order)
    now = np.linspace(0.0, DAYS * DAY, count)
    added = np.zeros(count)
    ones = np.ones(count, dtype=np.int64)
    held = np.empty(0, dtype=np.int64)
    for place in range(count):
        if len(held) >= capacity:
            columns = _columns(stream.held, held, arrived, added)
            needed = max(1, round(policy.share * capacity))
            gone = choose(policy.order(columns, now[place]), columns, ones[: len(held)], needed, floor)
            held = np.delete(held, gone)
        held = np.append(held, order[place])
        added[order[place]] = now[place]
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
    made.add_argument("--threshold", type=float, default=DEFAULT_THRESHOLD, help="confidence that the verifier keeps")
    made.add_argument("--capacity", type=float, default=0.1, help="share of a user's entries that fits")
    made.add_argument("--floor", type=int, default=0, help="entries that each preference keeps")
    options = parse(made)
    every = Streams(options.data, options.others, options.threshold)
    streams = every.all()
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
    _table(streams, options, [Random(), Fifo(), ByValue(name="confidence", similarity=0.0), ByValue()])


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


def _candidate(text: str, embedding: Any, preferences: Sequence[Preference], vectors: Any) -> Candidate:
    return Candidate(
        item=Item(text=text),
        embedding=embedding,
        preferences=tuple(preferences),
        similarities=tuple((vectors @ embedding).tolist()),
        preference_embeddings=vectors,
    )


def _columns(everything: Held, held: Any, arrived: Any, added: Any) -> Held:
    return Held(
        rows=arrived[held],
        items=everything.items[held],
        preferences=everything.preferences[held],
        stances=everything.stances[held],
        confidence=everything.confidence[held],
        similarity=everything.similarity[held],
        added=added[held],
    )


def _column(stream: Stream, name: str) -> Any:
    return getattr(stream.held, name)


if __name__ == "__main__":
    main()
