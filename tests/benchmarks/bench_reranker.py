"""A reranker that learns: choices by topic, one simulated user's feedback, and what it costs.

Choices: 240 of our own (`shared/tools/written/choices.jsonl`), ten topics. For each, a memory of the options of its
topic (the question's own and nineteen others) under its preference; the candidates are the twenty that a search finds.
A list of five is worth 1 for the following option shown first (and less further down, by 1 / log2(rank + 1)), and -1
for each breaking one, by the same. Trained on eight topics, run on the other two, five times.

Feedback: a simulated user of a memory of 480 of these options, who asks, sees three hits and uses those of at most
eleven words, of which retrieval knows nothing. 200 such events are learnt, one by one, and the share of used hits among
three is measured on 60 other questions, before and after; the mean of three runs. `--plot FILE` draws how both are
learnt: the reward of the choices over the lists that were seen (2 to 24 of each question), and the share of used hits
over the events.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from common import interval, panels, save_figure, searching
from epic_memory import EpicMemory, Item, SearchOptions, Settings
from epic_rerank import Example, LearnedReranker, TrainingSettings, forget, learn, reranker_of
from epic_rerank.policy import log_probability, sample
from epic_rerank.reranker import CANDIDATES
from epic_rerank.training import prior
from fitting import written

LISTS, K = 24, 5
SEEN = (2, 4, 8, 16, LISTS)
Curve = list[tuple[float, float, float, float]]
"""Points of a curve: where, the mean, and its interval."""


def worth(lists: np.ndarray, value: np.ndarray) -> np.ndarray:
    return value[lists] @ (1.0 / np.log2(np.arange(lists.shape[1]) + 2.0))


def example_of(case: dict, others: list[dict], seed: int) -> tuple[Example, np.ndarray] | None:
    """The candidates of a case with lists tried, and the value of each candidate."""
    generator = np.random.default_rng(seed)
    beside = [option for other in others for option in other["options"]]
    chosen = generator.choice(len(beside), 19, replace=False)
    texts = list(dict.fromkeys([*case["options"], *(beside[place] for place in chosen)]))
    with EpicMemory([case["preference"]], settings=Settings(coarse=False)) as memory:
        memory.add([Item(id=str(number), text=text) for number, text in enumerate(texts)])
        hits = memory.search(
            case["question"], CANDIDATES, options=SearchOptions(chooser=LearnedReranker(), min_score=None)
        )
    values = {text: (1.0 if place == 0 else -1.0) for place, text in enumerate(case["options"])}
    value = np.array([values.get(hit.item.text, 0.0) for hit in hits])
    if hits.ranking is None or not value.any():
        return None
    n = len(hits)
    lists = sample(prior(n), K, LISTS, generator)
    features = hits.ranking.features
    made = Example(features=features, lists=lists, rewards=worth(lists, value), drawn=log_probability(prior(n), lists))
    return made, value


def choices(curve: bool = False) -> tuple[Curve, float]:
    """Print the figures of the choices; return the reward by lists seen, if asked for, and that of retrieval."""
    cases = written("choices.jsonl")
    topics = sorted({case["topic"] for case in cases})
    made = []
    for number, case in enumerate(cases):
        others = [other for other in cases if other["topic"] == case["topic"] and other is not case]
        if (found := example_of(case, others, number)) is not None:
            made.append((case["topic"], *found))
    gains, before, after = [], [], []
    blind = []
    for fold in range(5):
        held = set(topics[fold::5])
        train = [example for topic, example, _ in made if topic not in held]
        reranker = LearnedReranker().train(train, TrainingSettings(epochs=30))
        alone = LearnedReranker().train([one_by_one(example) for example in train], TrainingSettings(epochs=30))
        for topic, example, value in made:
            if topic in held:
                plain = worth(np.arange(K)[None], value)[0]
                learnt = worth(np.array([reranker.rank(example.features, K).order]), value)[0]
                without = worth(np.array([alone.rank(one_by_one(example).features, K).order]), value)[0]
                gains.append(learnt - plain)
                before.append(plain)
                after.append(learnt)
                blind.append(learnt - without)
    low, high = interval(np.array(gains))
    print(f"{len(gains)} choices, five folds by topic: reward of five hits, retrieval {np.mean(before):+.3f}")
    print(f"    trained {np.mean(after):+.3f}, gain {np.mean(gains):+.3f} [{low:+.3f}, {high:+.3f}]")
    low, high = interval(np.array(blind))
    print(
        f"    with the features of the set against without {np.mean(blind):+.3f} [{low:+.3f}, {high:+.3f}]", flush=True
    )
    points: Curve = []
    for lists in SEEN if curve else ():
        reward, seen = [], []
        for fold in range(5):
            held = set(topics[fold::5])
            train = [first_lists(example, lists) for topic, example, _ in made if topic not in held]
            seen.append(lists * len(train))
            reranker = LearnedReranker().train(train, TrainingSettings(epochs=30))
            for topic, example, value in made:
                if topic in held:
                    reward.append(worth(np.array([reranker.rank(example.features, K).order]), value)[0])
        low, high = interval(np.array(reward) - np.array(before))
        points.append((float(np.mean(seen)), float(np.mean(reward)), np.mean(before) + low, np.mean(before) + high))
    if curve:
        print(
            "    reward by lists seen: " + ", ".join(f"{at:.0f}: {mean:+.3f}" for at, mean, _, _ in points), flush=True
        )
    return points, float(np.mean(before))


def first_lists(example: Example, count: int) -> Example:
    return replace(example, lists=example.lists[:count], rewards=example.rewards[:count], drawn=example.drawn[:count])


def one_by_one(example: Example) -> Example:
    """The same without the features that compare candidates with each other."""
    from epic_rerank.features import NAMES

    features = example.features.copy()
    for name in ("nearest", "mean near", "repeats", "same preference", "behind best", "behind previous"):
        features[:, NAMES.index(name)] = 0.0
    return replace(example, features=features)


def uses(text: str) -> bool:
    """Whether the simulated user uses a text: a short one."""
    return len(text.split()) <= 11


def share_used(memory: EpicMemory, questions: list[str], reranker: bool) -> np.ndarray:
    options = SearchOptions(chooser=reranker_of(memory) if reranker else None, min_score=None)
    shown = [memory.search(question, 3, options=options) for question in questions]
    return np.array([np.mean([uses(hit.item.text) for hit in hits]) for hits in shown])


def one_user(memory: EpicMemory, asked: list[str], held: list[str], events: int) -> tuple[np.ndarray, list[float]]:
    """Learn of events; return the shares of used hits, shape (points, questions), and the seconds of each event."""
    forget(memory)
    shares, seconds = [share_used(memory, held, reranker=True)], []
    for number in range(events):
        options = SearchOptions(chooser=reranker_of(memory), min_score=None)
        hits = memory.search(asked[number % len(asked)], 3, options=options)
        started = time.perf_counter()
        learn(memory, hits, {hit.item.id: "used" for hit in hits if uses(hit.item.text)})
        seconds.append(time.perf_counter() - started)
        if (number + 1) % 25 == 0:
            shares.append(share_used(memory, held, reranker=True))
    return np.array(shares), seconds


def feedback(events: int) -> tuple[Curve, float]:
    """Print the figures of the feedback; return the share of used hits by events, and that of retrieval."""
    cases = written("choices.jsonl")
    questions = list(dict.fromkeys(case["question"] for case in cases))
    generator = np.random.default_rng(0)
    order = generator.permutation(len(questions))
    asked, held = [questions[place] for place in order[60:]], [questions[place] for place in order[:60]]
    with EpicMemory([case["preference"] for case in cases[::24]], settings=Settings(coarse=False)) as memory:
        memory.add(
            [Item(id=f"{n}", text=option) for n, option in enumerate(o for c in cases for o in c["options"][:2])]
        )
        plain = share_used(memory, held, reranker=False)
        shares, taken = one_user(memory, asked, held, events)
        curve = [point(25 * number, values) for number, values in enumerate(shares)]
        learnt = shares[-1]
        low, high = interval(learnt - plain)
        print(f"one simulated user, {events} events: share of used hits among three on {len(held)} other questions")
        print(f"    retrieval {plain.mean():.3f}, learnt {learnt.mean():.3f}", end=" ")
        print(f"{(learnt - plain).mean():+.3f} [{low:+.3f}, {high:+.3f}]; learning {1000 * np.median(taken):.0f} ms")
        print("    by events: " + ", ".join(f"{count:.0f}: {share:.3f}" for count, share, _, _ in curve), flush=True)
        size = len(json.dumps(reranker_of(memory).as_object()))
        ranking = memory.search(held[0], 3, options=SearchOptions(chooser=reranker_of(memory), min_score=None)).ranking
        reranker = reranker_of(memory)
        taken = []
        for _ in range(500):
            started = time.perf_counter()
            reranker.rank(ranking.features, 5)
            taken.append(time.perf_counter() - started)
        print(f"reranking {len(ranking.features)} candidates {1000 * np.median(taken):.3f} ms; the file {size:,} bytes")
        for options in ({}, {"chooser": reranker}):
            taken = []
            for question in held:
                memory.search(question, 3, **searching(min_score=None, **options))
                started = time.perf_counter()
                memory.search(question, 3, **searching(min_score=None, **options))
                taken.append(time.perf_counter() - started)
            print(f"a search{' with it' if options else ''} {1000 * np.median(taken):.2f} ms")
    return curve, float(plain.mean())


def point(at: float, values: np.ndarray) -> tuple[float, float, float, float]:
    return at, float(values.mean()), *interval(values)


def draw(learnt: tuple[Curve, float], used: tuple[Curve, float], path: Path) -> None:
    figure, ((left, right),) = panels(2)
    for axes, (curve, plain) in ((left, learnt), (right, used)):
        at, mean, low, high = zip(*curve, strict=True)
        axes.plot(at, mean, marker="o", color="#0b6e4f", linewidth=2, label="learnt")
        axes.fill_between(at, low, high, color="#0b6e4f", alpha=0.15, linewidth=0)
        axes.axhline(plain, color="#6c757d", linestyle="--", label="retrieval")
    left.set(xlabel="lists seen", ylabel="reward of five hits", title="choices, topics not seen")
    right.set(xlabel="feedback events", ylabel="share used of three", title="one simulated user", ylim=(0.5, 1.0))
    left.legend(frameon=False)
    save_figure(figure, path)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--only", choices=("choices", "feedback"), help="half of it")
    made.add_argument("--events", type=int, default=200, help="feedback events")
    made.add_argument("--plot", metavar="FILE", help="draw what is learnt, by lists and by events seen")
    options = made.parse_args()
    if options.plot and options.only:
        made.error("--plot needs both halves")
    learnt = choices(bool(options.plot)) if options.only != "feedback" else None
    used = feedback(options.events) if options.only != "choices" else None
    if options.plot and learnt and used:
        draw(learnt, used, Path(options.plot))


if __name__ == "__main__":
    main()
