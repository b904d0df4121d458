"""What survives a budget: a tenth of what the coarse filter and the embedded verifier keep, by each order.

The labels' preferences, ten to a user, as in PrefWiki; for each user a stream of the labelled chunks that the
embedded verifier keeps, among other passages and answers that it keeps for the same preferences, in random order.
Shown, over several orders: the share of the entries that the labels call relevant that is still held at the end. The
other passages have no labels: some of them are relevant too, so that not even a perfect order would hold everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from common import read_jsonl, script_options, sources
from epic_memory.encoders import StaticEncoder
from epic_memory.pipeline.coarse_filter import coarse_filter
from epic_memory.retention import AT_A_TIME, Held, Positions, choose, least_valuable_first
from epic_memory.types import Candidate, Item, Preference
from epic_memory.verification.embedded import EmbeddedVerifier

EACH = 10


def oldest_first(held: Held) -> Positions:
    """Return the order in which the oldest entry leaves first."""
    return np.arange(len(held), dtype=np.intp)


def in_random_order(held: Held) -> Positions:
    """Return a random order, the same for the same entries."""
    # The entries are part of the seed, because a constant one would spare the same positions each time.
    seed = [0, len(held), int(held.rows[-1]) if len(held) else 0]
    return np.random.default_rng(seed).permutation(len(held)).astype(np.intp)


ORDERS = {
    "random": in_random_order,
    "fifo": oldest_first,
    "by-value": least_valuable_first,
}

Stream = tuple[Held, np.ndarray]
"""All entries of one user, in no order, and whether the labels call each relevant."""


def streams(data: Any, others: int) -> Iterator[Stream]:
    """Yield the stream of each user, of whom each has ten preferences."""
    encoder = StaticEncoder()
    truth: dict[tuple[str, str], bool] = {}
    judged: set[str] = set()
    for record in read_jsonl(data / "verification_labels.jsonl"):
        judged.add(record["source"].split("#")[0])
        aligned = {alignment["preference"] for alignment in record["alignments"]}
        for number, preference in enumerate(record["preferences"]):
            truth[record["chunk"], preference] = number in aligned
    # The labels' chunks were cut in another way: their documents are left out as a whole.
    pool = list(dict.fromkeys(item.text for item in sources(data) if item.id.split("#")[0] not in judged))
    more = [pool[row] for row in np.random.default_rng(0).permutation(len(pool))[:others]]
    # Those of one chunk stay together, as far as ten to a user allows.
    preferences = list(dict.fromkeys(preference for _, preference in truth))
    for start in range(0, len(preferences), EACH):
        yield stream(encoder, preferences[start : start + EACH], truth, more)


def stream(encoder: StaticEncoder, texts: list[str], truth: dict[tuple[str, str], bool], more: Sequence[str]) -> Stream:
    preferences, vectors = [Preference(text=text) for text in texts], encoder.encode(texts)
    known = [(chunk, [texts.index(text)]) for chunk, text in truth if text in texts]
    passing = coarse_filter(encoder.encode(more), vectors, encoder.tau)
    known += [(more[n], np.flatnonzero(passing[n]).tolist()) for n in np.flatnonzero(passing.any(axis=1)).tolist()]
    candidates = [
        Candidate(
            item=Item(text=chunk),
            embedding=embedding,
            preferences=tuple(preferences[row] for row in rows),
            similarities=tuple((vectors[rows] @ embedding).tolist()),
            preference_embeddings=vectors[rows],
        )
        for (chunk, rows), embedding in zip(known, encoder.encode([chunk for chunk, _ in known]), strict=True)
    ]
    entries, relevant = [], []
    place = {preference.id: row for row, preference in enumerate(preferences)}
    verdicts = EmbeddedVerifier(encoder).verify(candidates)
    for number, (candidate, verdict) in enumerate(zip(candidates, verdicts, strict=True)):
        similarities = dict(zip((p.id for p in candidate.preferences), candidate.similarities, strict=True))
        for one in verdict.alignments:
            row, similarity = place[one.preference_id], similarities[one.preference_id]
            entries.append((number, row, one.confidence, similarity))
            relevant.append(truth.get((candidate.item.text, texts[row]), False))
    items, owners, confidence, similarity = np.array(entries, dtype=float).reshape(-1, 4).T
    held = Held(
        rows=np.arange(len(entries)),
        items=items.astype(np.int64),
        preferences=owners.astype(np.int64),
        confidence=confidence.astype(np.float32),
        similarity=similarity.astype(np.float32),
    )
    return held, np.array(relevant, dtype=bool)


def survivors(
    everything: Held, order_of: Callable[[Held], Positions], *, capacity: int, floor: int, seed: int
) -> np.ndarray:
    """Run one stream in one random order through a capacity; the positions held at the end."""
    count = len(everything)
    order = np.random.default_rng(seed).permutation(count)
    columns = {one.name: getattr(everything, one.name) for one in fields(Held)}
    columns |= {"rows": np.argsort(order)}
    held = np.empty(0, dtype=np.int64)
    for place in range(count):
        if len(held) >= capacity:
            there = Held(**{name: column[held] for name, column in columns.items()})
            needed, ones = max(1, round(AT_A_TIME * capacity)), np.ones(len(held), dtype=np.int64)
            held = np.delete(held, choose(order_of(there), there, ones, needed, floor))
        held = np.append(held, order[place])
    return held


def main() -> None:
    options = script_options(__doc__, data=True, orders=5, others=2_000, capacity=0.1, floor=0)
    users = list(streams(options.data, options.others))
    total = sum(int(relevant.sum()) for _, relevant in users)
    print(f"{len(users)} users, {sum(len(held) for held, _ in users)} entries, {total} relevant", end="; ")
    print(f"{options.capacity:.0%} fit\n{'order':24} {'relevant held':>20} {'to random':>10}")
    base = 0.0
    for name, order_of in ORDERS.items():
        shares = []
        for order in range(options.orders):
            kept = 0
            for number, (held, relevant) in enumerate(users):
                capacity, seed = max(1, round(options.capacity * len(held))), 1000 * order + number
                there = survivors(held, order_of, capacity=capacity, floor=options.floor, seed=seed)
                kept += int(relevant[there].sum())
            shares.append(kept / total)
        base = base or float(np.mean(shares))
        print(f"{name:24} {np.mean(shares):10.1%} +- {np.std(shares):6.1%} {np.mean(shares) / base:10.2f}")


if __name__ == "__main__":
    main()
