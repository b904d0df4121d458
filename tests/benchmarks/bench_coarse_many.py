"""Coarse filter of many people's preferences over many chunks, beside the bare product in the same blocks.

    python tests/benchmarks/bench_coarse_many.py ../shared/data --preferences 10000 --chunks 100000

Preferences beyond those of the data folder, and chunks beyond its passages, are the same vectors with noise. One
thread: so much Ray gives each actor, and a second one of the product's waits in a loop that counts as processor time.
"""

from __future__ import annotations

import os
import time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when NumPy is imported

import numpy as np

from common import passage_texts, peak_ram, preferences_in, script_options, unit
from epic_memory.encoders import embed, encoder_of
from epic_scale.coarse import _BLOCK, CoarseFilter
from epic_scale.people import People


def noisy(vectors: np.ndarray, count: int, seed: int) -> np.ndarray:
    """As many unit vectors as asked for, near those given."""
    chance = np.random.default_rng(seed)
    made = vectors[np.arange(count) % len(vectors)].copy()
    made[len(vectors) :] += chance.normal(0, 0.02, made[len(vectors) :].shape).astype(np.float32)
    return unit(made)


def main() -> None:
    options = script_options(__doc__, data=True, preferences=10_000, chunks=100_000)
    texts, encoder = preferences_in(options.data), encoder_of("static")
    found = People.of({"all": texts}, encoder)
    wanted = options.preferences
    people = People(
        users=[f"user {n}" for n in range(wanted // 10)],
        preferences=[found.preferences[n % len(texts)] for n in range(wanted)],
        held=[list(range(10 * n, 10 * n + 10)) for n in range(wanted // 10)],
        vectors=noisy(found.vectors, wanted, 1),
        taus=found.taus[np.arange(wanted) % len(texts)],
        expanded=[found.expanded[n % len(texts)] for n in range(wanted)],
        verifier=found.verifier,
    )
    chunks = noisy(embed(encoder, passage_texts(options.data)), options.chunks, 2)
    coarse = CoarseFilter(people)
    vectors = coarse.vectors
    size = _BLOCK // len(vectors)
    print(f"{len(chunks)} chunks x {wanted} preferences, {len(vectors)} vectors with phrases, blocks of {size} chunks")
    before = peak_ram()
    spent: dict[str, list[float]] = {"bare product": [], "filter": []}
    pairs = 0
    # In turns, as the load of the machine changes.
    for start in range(0, len(chunks), 10 * size):
        part = chunks[start : start + 10 * size]
        begun = time.process_time()
        for at in range(0, len(part), size):
            np.matmul(vectors, part[at : at + size].T)
        spent["bare product"].append(time.process_time() - begun)
        begun = time.process_time()
        pairs += sum(len(rows) for rows, _ in coarse.passing(part))
        spent["filter"].append(time.process_time() - begun)
    bare, whole = (sum(each) for each in spent.values())
    print(f"processor: bare product {bare:.1f} s, filter {whole:.1f} s: {whole / bare:.2f} times")
    print(f"pairs that may pass: {pairs / len(chunks) / wanted:.2%}")
    print(f"peak RAM {peak_ram() / 1e6:.0f} MB, of which {before / 1e6:.0f} MB are vectors and before")


if __name__ == "__main__":
    main()
