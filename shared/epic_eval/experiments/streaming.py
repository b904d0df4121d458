"""Stream and drift (the paper's Figures 4 and 6): passages in batches under preferences that come and go."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from epic_eval.arms import BY_MODEL
from epic_eval.arms.base import CorpusEncoder, build_cost
from epic_eval.arms.dense import Dense
from epic_eval.arms.epic import PAPER, PAPER_SEARCH, verified
from epic_eval.asking import JournalledLM, ModelCost
from epic_eval.datasets import Data, Persona, Question
from epic_eval.experiments.retrieval import Say
from epic_eval.experiments.scores import MIB
from epic_eval.metrics import case_for, estimate
from epic_eval.report import Part, Table, plot_lines
from epic_memory import EpicMemory, Item, SearchOptions, Settings
from epic_memory.encoders import Encoder

BATCHES = 10
ACTIVE, LEAST, MOST = 5, 3, 8
CHANGE = 0.5
_DEPTH = 100


@dataclass
class Point:
    """Measurements after a batch: items so far, MiB, (persona, followed), seconds and calls of the update, by store."""

    seen: int
    size: dict[str, list[float]] = field(default_factory=dict)
    followed: dict[str, list[tuple[object, float]]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    calls: dict[str, ModelCost] = field(default_factory=dict)
    late: list[float] = field(default_factory=list)


def drift(preferences: Sequence[str], batches: int, seed: int) -> list[list[str]]:
    """Return the preferences that are active in each batch: five at first, then one comes or goes now and then."""
    chance = random.Random(seed)
    active = chance.sample(list(preferences), min(ACTIVE, len(preferences)))
    trace = [list(active)]
    for _ in range(1, batches):
        if chance.random() < CHANGE:
            others = [preference for preference in preferences if preference not in active]
            adding = others and (len(active) <= LEAST or (len(active) < MOST and chance.random() < 0.5))
            if adding:
                active.append(chance.choice(others))
            elif len(active) > 1:
                active.remove(chance.choice(active))
        trace.append(list(active))
    return trace


def stream(data: Data, encoder: Encoder, folder: Path, seed: int, lm: JournalledLM | None, say: Say) -> list[Part]:
    """Take the corpus in, in batches, and ask after each the questions whose preference is active.

    With a model there are two more stores, which it verifies: the paper's and ours.

    Returns:
        A table over items, and the plots of bytes and of following.
    """
    dataset = data.datasets[0]
    fast: Any = CorpusEncoder(encoder, [item.text for item in data.corpus])
    ends = np.linspace(0, len(data.corpus), BATCHES + 1).astype(int).tolist()[1:]
    points = [Point(end) for end in ends]
    for persona in dataset.personas:
        started = time.perf_counter()
        _one(data, persona, fast, points, seed, lm)
        say(f"stream: persona {persona.index}, {time.perf_counter() - started:.0f} s")
    stores = list(points[0].size)
    rows = []
    for point in points:
        cells = []
        for store in stores:
            found = estimate(point.followed.get(store, ()))
            share = "-" if found is None else f"{found.mean:.2f}"
            cells += [share, f"{np.mean(point.size[store]):.3f}", f"{np.mean(point.seconds[store]):.2f}"]
        late = f"{np.mean(point.late):.2f}" if point.late else "-"
        rows.append((f"{point.seen}", *cells, late))
    header = ("items", *(cell for store in stores for cell in (f"{store}: choice", "MB", "s")), "too early")
    notes = (
        f"{dataset.name}, {len(dataset.personas)} personas, seed {seed}; {ACTIVE} preferences at first, {LEAST} to"
        f" {MOST}, one comes or goes with probability {CHANGE} before a batch. Only questions are asked whose"
        " preference is active and whose options have all come; s: the update by the batch.",
        "too early: share of the asked questions whose following option came before its preference was active.",
        *(_calls(store, points) for store in stores if store.endswith(BY_MODEL)),
    )
    bytes_of = {s: [(float(p.seen), float(np.mean(p.size[s]))) for p in points] for s in stores}
    follow = {s: [(float(p.seen), f.mean) for p in points if (f := estimate(p.followed.get(s, ())))] for s in stores}
    return [
        Table("Stream under changing preferences", header, tuple(rows), notes),
        plot_lines(bytes_of, folder / "stream_bytes.svg", xlabel="items", ylabel="MiB", title="bytes over the stream"),
        plot_lines(
            follow, folder / "stream_choice.svg", xlabel="items", ylabel="choice", title="choice over the stream"
        ),
    ]


def _calls(store: str, points: Sequence[Point]) -> str:
    cost = ModelCost()
    for point in points:
        cost.add(point.calls[store])
    return f"{store}: {cost.asked} calls asked, {cost.replayed} replayed, {cost.seconds:.3f} s when they were asked."


def _one(
    data: Data, persona: Persona, encoder: Any, points: Sequence[Point], seed: int, lm: JournalledLM | None
) -> None:
    trace = drift(persona.preferences, len(points), seed + persona.index)
    came: dict[str, int] = {}
    since: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        stores: dict[str, tuple[Settings, SearchOptions]] = {
            "EPIC": (Settings(), SearchOptions()),
            "EPIC 0.27 MiB": (Settings(budget=round(0.27 * MIB)), SearchOptions()),
            "the paper's": (replace(PAPER, steering="paper"), PAPER_SEARCH),
        }
        if lm is not None:
            by_model = {store: stores[store] for store in ("EPIC", "the paper's")}
            stores |= {store + BY_MODEL: (verified(given, lm), how) for store, (given, how) in by_model.items()}
        memories = {
            store: EpicMemory.open(root / f"{number}.epic", trace[0], encoder=encoder, settings=settings)
            for number, (store, (settings, _)) in enumerate(stores.items())
        }
        clock = time.perf_counter if lm is None else lm.clock
        dense = Dense("everything, dense", encoder)
        start = 0
        for batch, (point, active) in enumerate(zip(points, trace, strict=True)):
            items = data.corpus[start : point.seen]
            start = point.seen
            came |= dict.fromkeys((item.id for item in items), batch)
            since |= {preference: batch for preference in active if preference not in trace[max(0, batch - 1)]}
            for store, memory in memories.items():
                began = clock()
                for preference in set(memory.preferences.aspects()) - set(active):
                    memory.preferences.remove(preference)
                for preference in [each for each in active if each not in memory.preferences.aspects()]:
                    memory.preferences.add(preference)
                build_cost(memory.add(items), 0.0, 0)
                cost = ModelCost() if lm is None else lm.take_cost()
                point.calls.setdefault(store, ModelCost()).add(cost)
                _note(point, store, memory.stats().bytes["total"], clock() - began + cost.seconds)
            began = time.perf_counter()
            (root / "dense").mkdir(exist_ok=True)
            dense.build(data.corpus[: point.seen], active, root / "dense")
            _note(point, dense.name, dense.bytes()["total"], time.perf_counter() - began)
            for question in persona.questions:
                options_of = _options(data, question)
                if question.preference not in active or not options_of or not all(o in came for o in options_of):
                    continue
                point.late.append(float(came[options_of[0]] < since.get(question.preference, 0)))
                for store, memory in memories.items():
                    order = [hit.item.id for hit in memory.search(question.text, _DEPTH, options=stores[store][1])]
                    _followed(point, store, persona, order, options_of)
                order = [passage.id for passage in dense.retrieve(question.text, _DEPTH).passages]
                _followed(point, dense.name, persona, order, options_of)
        for memory in memories.values():
            memory.close()


def _options(data: Data, question: Question) -> list[str]:
    case = case_for(data.cases, question)
    return [] if case is None else [Item(text=option).id for option in case.options]


def _note(point: Point, store: str, size: int, seconds: float) -> None:
    point.size.setdefault(store, []).append(size / MIB)
    point.seconds.setdefault(store, []).append(seconds)


def _followed(point: Point, store: str, persona: Persona, order: Sequence[str], options: Sequence[str]) -> None:
    place = {item: number for number, item in enumerate(order)}
    follows, *breaks = (place.get(option, len(order) + 1) for option in options)
    point.followed.setdefault(store, []).append((persona.index, float(follows < min(breaks))))
