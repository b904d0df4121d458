"""Compression: how much of what was found stays, and how often what a question needs is still there.

The 133 two-hop questions of our own with short answers (`shared/tools/written/two_hop.jsonl`), over the sample corpus:
of the ten nearest items, without preferences, the share of characters that stays, and, where the answer's words stood
in them, how often they still do. Against it: the first items whole, up to the same number of characters.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from bench_two_hop import corpus
from epic_memory import EpicMemory, SearchOptions, Settings
from epic_memory.runtime.effects import run
from epic_plugins.compression import compressed
from fitting import written


def has(texts: list[str], answer: str) -> bool:
    return any(answer.casefold() in " ".join(text.split()).casefold() for text in texts)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("-k", type=int, default=10)
    options = made.parse_args()
    with EpicMemory(settings=Settings(coarse=False, fine=False)) as memory:
        memory.add(corpus())
        rows, seconds = [], []
        for asked in written("two_hop.jsonl"):
            texts = [
                hit.item.text
                for hit in memory.search(asked["question"], options.k, options=SearchOptions(min_score=None))
            ]
            if not has(texts, asked["answer"]):
                continue
            started = time.perf_counter()
            short = [each.text for each in run(compressed(memory, asked["question"], texts))]
            seconds.append(time.perf_counter() - started)
            size = sum(map(len, short))
            whole = [text for number, text in enumerate(texts) if sum(map(len, texts[: number + 1])) <= size]
            rows.append((size / sum(map(len, texts)), has(short, asked["answer"]), has(whole, asked["answer"])))
        share, still, first = np.mean(np.array(rows, dtype=float), axis=0)
        print(f"{len(rows)} questions whose answer is among {options.k} items: {share:.2f} of the characters stay,")
        print(f"    the answer in {still:.2f}; in the first items whole, of the same size, {first:.2f};", end=" ")
        print(f"{1000 * np.median(seconds):.1f} ms")


if __name__ == "__main__":
    main()
