"""Selection that stops: how well the hits taken are those that a question needs, against the first k.

294 questions of our own over the sample corpus, labelled with the notes that each needs: 133 need two
(`shared/tools/written/two_hop.jsonl`), 109 one and 52 three (`selection.jsonl`; written for this by hand, by somebody
who knew what is measured). Everything is kept and nothing steers. The questions of even number, in each set, fit a
policy and its threshold; those of odd number are only run. F1 is of the set taken against the notes needed, averaged
over questions.

Against it: the first k with the same mean number of hits (a mixture of two k). `--plot FILE` draws how many hits are
taken by how many are needed, `--fit` writes the weights of `epic_rerank.selection`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench_two_hop import corpus
from common import interval, panels, save_figure, script_options
from epic_graph.memory import GraphMemory
from epic_memory import SearchOptions, Settings
from epic_memory.encoders import default_encoder
from epic_memory.types import Hits
from epic_rerank import selection
from epic_rerank.selection import NAMES, Policy, Walk
from fitting import logistic, write_weights, written

MOST = 10
PARTS = ("mean", "scale", "weights")


class Asked(NamedTuple):
    text: str
    needed: frozenset[str]
    hits: Hits
    odd: bool


def questions(search: Callable[..., Hits]) -> list[Asked]:
    made = []
    for name in ("two_hop", "selection"):
        for number, one in enumerate(written(f"{name}.jsonl")):
            hits = search(one["question"], k=MOST, options=SearchOptions(min_score=None))
            made.append(Asked(one["question"], frozenset(one["passages"]), hits, bool(number % 2)))
    return made


def f1(asked: Asked, places: Sequence[int]) -> float:
    right = sum(asked.hits[place].item.id in asked.needed for place in places)
    return 2.0 * right / (len(places) + len(asked.needed))


def walked(asked: Asked, decide: Callable[[int, np.ndarray], bool]) -> list[int]:
    walk = Walk(asked.text, asked.hits, asked.hits.vectors)
    for place in range(len(asked.hits)):
        if decide(place, walk.features(place)):
            walk.take(place)
    return walk.taken


def chance(policy: Policy, features: np.ndarray) -> float:
    z = policy.bias + (features - np.array(policy.mean)) / np.array(policy.scale) @ np.array(policy.weights)
    return 1.0 / (1.0 + np.exp(-z))


def select(policy: Policy, asked: Asked) -> list[int]:
    return walked(asked, lambda place, x: place == 0 or chance(policy, x) > policy.threshold)


def fitted(train: Sequence[Asked]) -> Policy:
    """Logistic regression on the steps of the walk that takes what is needed, and the threshold of the best F1."""
    rows, labels = [], []
    for asked in train:

        def teach(place: int, x: np.ndarray, asked: Asked = asked) -> bool:
            needed = asked.hits[place].item.id in asked.needed
            if place:
                rows.append(x)
                labels.append(needed)
            return needed or place == 0

        walked(asked, teach)
    x, y = np.array(rows), np.array(labels, dtype=float)
    mean, scale = x.mean(axis=0), x.std(axis=0)
    weights, bias = logistic((x - mean) / scale, y, np.ones(len(y)), ridge=1.0)
    return best_threshold(Policy(mean=mean, scale=scale, weights=weights, bias=bias, threshold=0.5), train)


def best_threshold(policy: Policy, train: Sequence[Asked]) -> Policy:
    tried = [replace(policy, threshold=float(at)) for at in np.arange(0.1, 0.75, 0.025)]
    return max(tried, key=lambda one: np.mean([f1(asked, select(one, asked)) for asked in train]))


def first(asked: Asked, k: int) -> float:
    return f1(asked, range(min(k, len(asked.hits))))


def top_k(test: Sequence[Asked], size: float) -> np.ndarray:
    """F1 of each question for the mixture of two k whose mean is a size."""
    low, share = int(size), size - int(size)
    return np.array([(1 - share) * first(asked, low) + share * first(asked, low + 1) for asked in test])


def report(name: str, test: Sequence[Asked], taken: Sequence[Sequence[int]]) -> np.ndarray:
    scores = np.array([f1(asked, places) for asked, places in zip(test, taken, strict=True)])
    sizes = np.array([len(places) for places in taken])
    even_size = top_k(test, float(sizes.mean()))
    low, high = interval(scores - even_size)
    needed = np.array([len(asked.needed) for asked in test])
    pairs = zip(test, taken, strict=True)
    every = np.array([asked.needed <= {asked.hits[place].item.id for place in places} for asked, places in pairs])
    by_type = "  ".join(
        f"{n}: {sizes[of].mean():.2f} hits, F1 {scores[of].mean():.3f}, all needed {every[of].mean():.2f}"
        for n in (1, 2, 3)
        for of in [needed == n]
    )
    difference = (scores - even_size).mean()
    print(
        f"    {name:22} {sizes.mean():5.2f} hits  F1 {scores.mean():.3f}   first k of that size {even_size.mean():.3f}"
        f"  {difference:+.3f} [{low:+.3f}, {high:+.3f}]   needed {by_type}",
        flush=True,
    )
    return scores


def measure(name: str, search: Callable[..., Hits], shipped: Policy) -> tuple[Policy, list[float], float]:
    every = questions(search)
    train, test = [one for one in every if not one.odd], [one for one in every if one.odd]
    print(f"{name}: {len(train)} questions to fit, {len(test)} unseen")
    best_k = max(range(1, MOST + 1), key=lambda k: np.mean([first(asked, k) for asked in train]))
    report(f"first {best_k} (best k)", test, [range(best_k) for _ in test])
    policy = fitted(train)
    regression = report("logistic regression", test, [select(policy, asked) for asked in test])
    taken = [selection.taken(a.text, a.hits, a.hits.vectors, shipped) for a in test]
    report("as shipped", test, taken)
    needed = [len(asked.needed) for asked in test]
    sizes = [float(np.mean([len(t) for t, n in zip(taken, needed, strict=True) if n == k])) for k in (1, 2, 3)]
    return policy, sizes, float(regression.mean())


def draw(sizes: dict[str, list[float]], path: Path) -> None:
    figure, ((axes,),) = panels(1)
    for number, (name, taken) in enumerate(sizes.items()):
        axes.bar(np.arange(1, 4) + 0.3 * number - 0.15, taken, 0.28, label=name, color=("#0b6e4f", "#d1495b")[number])
    axes.plot([1, 2, 3], [1, 2, 3], "k.", markersize=9, label="needed")
    axes.set(xlabel="notes that the question needs", ylabel="hits taken, mean", xticks=[1, 2, 3], ylim=(0, 3.6))
    axes.legend(frameon=False, loc="upper left")
    save_figure(figure, path)


def main() -> None:
    options = script_options(__doc__, fit=False, plot=str)
    graph = GraphMemory(encoder=default_encoder(), settings=Settings(coarse=False, fine=False))
    graph.add(corpus())
    sizes: dict[str, list[float]] = {}
    for name, search, shipped in (
        ("MEMORY", graph.memory.search, selection.MemorySelection),
        ("GRAPH", graph.search, selection.GraphSelection),
    ):
        policy, sizes[name], f_score = measure(name, search, shipped.shipped())
        if options.fit:
            parts = {part: [round(float(value), 4) for value in getattr(policy, part)] for part in PARTS}
            write_weights(
                shipped,
                "tests/benchmarks/bench_selection.py",
                parts | {"bias": round(policy.bias, 4), "threshold": round(policy.threshold, 3)},
                on="the questions of even number of written/selection.jsonl",
                judged={"F1 on the questions of odd number": round(f_score, 3)},
            )
            print(dict(zip(NAMES, np.round(policy.weights, 2).tolist(), strict=True)), flush=True)
    if options.plot:
        draw({"EpicMemory": sizes["MEMORY"], "GraphMemory": sizes["GRAPH"]}, Path(options.plot))
    graph.close()


if __name__ == "__main__":
    main()
