"""A reranker that learns: choices by topic, and one simulated user's feedback.

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

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from common import interval, panels, save_figure, script_options
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


def folds(made: list[tuple[str, Example, np.ndarray]], lists: int) -> tuple[float, np.ndarray]:
    """Train on eight topics and run on two, five times; the lists seen, and the reward of each choice."""
    topics = sorted({topic for topic, _, _ in made})
    reward, seen = [], []
    for fold in range(5):
        held = set(topics[fold::5])
        train = [first_lists(example, lists) for topic, example, _ in made if topic not in held]
        seen.append(lists * len(train))
        reranker = LearnedReranker().train(train, TrainingSettings(epochs=30))
        for topic, example, value in made:
            if topic in held:
                reward.append(worth(np.array([reranker.rank(example.features, K).order]), value)[0])
    return float(np.mean(seen)), np.array(reward)


def choices(curve: bool = False) -> tuple[Curve, float]:
    """Print the figures of the choices; return the reward by lists seen, if asked for, and that of retrieval."""
    cases = written("choices.jsonl")
    made = []
    for number, case in enumerate(cases):
        others = [other for other in cases if other["topic"] == case["topic"] and other is not case]
        if (found := example_of(case, others, number)) is not None:
            made.append((case["topic"], *found))
    topics = sorted({topic for topic, _, _ in made})
    in_order = [value for fold in range(5) for topic, _, value in made if topic in topics[fold::5]]
    before = np.array([worth(np.arange(K)[None], value)[0] for value in in_order])
    points: Curve = []
    for lists in SEEN if curve else (LISTS,):
        seen, reward = folds(made, lists)
        low, high = interval(reward - before)
        points.append((seen, reward.mean(), before.mean() + low, before.mean() + high))
    print(f"{len(before)} choices, five folds by topic: reward of five hits, retrieval {before.mean():+.3f}")
    print(f"    trained {reward.mean():+.3f}, gain {(reward - before).mean():+.3f} [{low:+.3f}, {high:+.3f}]")
    if curve:
        print("    reward by lists seen: " + ", ".join(f"{at:.0f}: {mean:+.3f}" for at, mean, _, _ in points))
    return points, float(before.mean())


def first_lists(example: Example, count: int) -> Example:
    return replace(example, lists=example.lists[:count], rewards=example.rewards[:count], drawn=example.drawn[:count])


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
    options = script_options(__doc__, events=200, plot=str)
    learnt, used = choices(bool(options.plot)), feedback(options.events)
    if options.plot:
        draw(learnt, used, Path(options.plot))


if __name__ == "__main__":
    main()
