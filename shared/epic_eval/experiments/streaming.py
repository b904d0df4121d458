"""Stream and drift (the paper's Figures 4 and 6): passages in batches under preferences that come and go."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from epic_eval.arms import BY_MODEL, arm_of
from epic_eval.arms.base import CorpusEncoder
from epic_eval.arms.epic import Epic
from epic_eval.asking import JournalledLM, ModelCost
from epic_eval.datasets import Data, Persona
from epic_eval.experiments.retrieval import DEPTH, K, Say, record_of
from epic_eval.experiments.scores import MIB
from epic_eval.journal import Record
from epic_eval.metrics import case_for, estimate, proxies
from epic_eval.report import Part, Table, Text, plot_lines
from epic_memory import Item
from epic_memory.encoders import Encoder

BATCHES = 10
ACTIVE, LEAST, MOST = 5, 3, 8
CHANGE = 0.5
STORES = ("EPIC ours", "EPIC ours budget=0.27", "EPIC", "dense")
Judging = Callable[[Sequence[Record]], tuple[Sequence[float | None], Sequence[str]]]
"""Accuracy of what a model answers from each record, None if it failed, and notes."""


@dataclass
class Point:
    """Measurements after a batch, of each store and measure: (persona, value) for each persona or question."""

    seen: int
    values: dict[tuple[str, str], list[tuple[object, float]]] = field(default_factory=dict)
    calls: dict[str, ModelCost] = field(default_factory=dict)
    asked: list[tuple[str, int, Record]] = field(default_factory=list)

    def add(self, store: str, measure: str, persona: int, value: float) -> None:
        """Add a value."""
        self.values.setdefault((store, measure), []).append((persona, value))

    def mean(self, store: str, measure: str) -> float | None:
        """Return the mean over personas; None if nothing is known."""
        found = estimate(self.values.get((store, measure), ()))
        return None if found is None else found.mean


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


def stream(
    data: Data,
    encoder: Encoder,
    folder: Path,
    seed: int,
    lm: JournalledLM | None,
    say: Say,
    judging: Judging | None = None,
) -> list[Part]:
    """Take the corpus in, in batches, and ask after each the questions whose preference is active.

    With a model there are two more stores, which it verifies: the paper's and ours.

    Returns:
        A table over items, and the plots of bytes, of following, and of accuracy if it is judged.
    """
    dataset = data.datasets[0]
    fast: Any = CorpusEncoder(encoder, [item.text for item in data.corpus])
    ends = np.linspace(0, len(data.corpus), BATCHES + 1).astype(int).tolist()[1:]
    points = [Point(end) for end in ends]
    stores = [*STORES, *(store + BY_MODEL for store in ("EPIC ours", "EPIC") if lm is not None)]
    for persona in dataset.personas:
        started = time.perf_counter()
        _one(data, persona, fast, points, stores, seed, lm)
        say(f"stream: persona {persona.index}, {time.perf_counter() - started:.0f} s")
    judged: Sequence[str] = ()
    if judging is not None:
        shares, judged = judging([record for point in points for _, _, record in point.asked])
        asked = [(point, store, index) for point in points for store, index, _ in point.asked]
        for (point, store, index), share in zip(asked, shares, strict=True):
            if share is not None:
                point.add(store, "accuracy", index, share)
    shown = {"accuracy": ".1f", "choice": ".2f", "MB": ".3f", "s": ".2f"}
    measures = [measure for measure in shown if measure != "accuracy" or judging is not None]
    rows = []
    for point in points:
        cells = [" / ".join(_shown(point.mean(s, measure), shown[measure]) for measure in measures) for s in stores]
        rows.append((f"{point.seen}", *cells, _shown(point.mean("", "too early"), ".2f")))
    header = ("items", *(f"{store}: {' / '.join(measures)}" for store in stores), "too early")
    notes = (
        f"{dataset.name}, {len(dataset.personas)} personas, seed {seed}; {ACTIVE} preferences at first, {LEAST} to"
        f" {MOST}, one comes or goes with probability {CHANGE} before a batch. Only questions are asked whose"
        " preference is active, for choice those whose options have all come; s: the update by the batch.",
        "too early: share of the asked questions whose following option came before its preference was active.",
        *(_calls(store, points) for store in stores if store.endswith(BY_MODEL)),
    )
    parts: list[Part] = [Table("Stream under changing preferences", header, tuple(rows), notes)]
    for measure, label in (("MB", "MiB"), ("choice", "choice"), ("accuracy", "accuracy, %")):
        if measure in measures:
            of = {s: [(float(p.seen), v) for p in points if (v := p.mean(s, measure)) is not None] for s in stores}
            path = folder / f"stream_{'bytes' if measure == 'MB' else measure}.svg"
            parts.append(plot_lines(of, path, xlabel="items", ylabel=label, title=f"{label} over the stream"))
    return [*parts, *map(Text, judged)]


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


def _calls(store: str, points: Sequence[Point]) -> str:
    cost = ModelCost()
    for point in points:
        cost.add(point.calls[store])
    return f"{store}: {cost.asked} calls asked, {cost.replayed} replayed, {cost.seconds:.3f} s when they were asked."


def _one(
    data: Data,
    persona: Persona,
    encoder: Any,
    points: Sequence[Point],
    stores: Sequence[str],
    seed: int,
    lm: JournalledLM | None,
) -> None:
    trace = drift(persona.preferences, len(points), seed + persona.index)
    came: dict[str, int] = {}
    since: dict[str, int] = {}
    arms = {store: arm_of(store, encoder, seed=seed, lm=lm) for store in stores}
    clock = time.perf_counter if lm is None else lm.clock
    start = 0
    with tempfile.TemporaryDirectory() as root:
        for batch, (point, active) in enumerate(zip(points, trace, strict=True)):
            items = data.corpus[start : point.seen]
            start = point.seen
            came |= dict.fromkeys((item.id for item in items), batch)
            since |= {preference: batch for preference in active if preference not in trace[max(0, batch - 1)]}
            for store, arm in arms.items():
                began = clock()
                if batch and isinstance(arm, Epic):
                    arm.update(items, active)
                else:
                    (Path(root) / store).mkdir(exist_ok=True)
                    arm.build(data.corpus[: point.seen], active, Path(root) / store)
                cost = ModelCost() if lm is None else lm.take_cost()
                point.calls.setdefault(store, ModelCost()).add(cost)
                point.add(store, "s", persona.index, clock() - began + cost.seconds)
                point.add(store, "MB", persona.index, arm.bytes()["total"] / MIB)
            for question in (question for question in persona.questions if question.preference in active):
                case = case_for(data.cases, question)
                options = [] if case is None else [Item(text=option).id for option in case.options]
                known = bool(options) and all(option in came for option in options)
                if known:
                    early = came[options[0]] < since.get(question.preference, 0)
                    point.add("", "too early", persona.index, float(early))
                for store, arm in arms.items():
                    record = record_of(question, active, arm.retrieve(question.text, K))
                    point.asked.append((store, persona.index, record))
                    if known:
                        order = [passage.id for passage in arm.retrieve(question.text, DEPTH).passages]
                        passages, opening = record["passages"], record["opening"]
                        found = proxies(data, question, passages=passages, opening=opening, order=order)
                        point.add(store, "choice", persona.index, found["choice"])
        for arm in arms.values():
            arm.close()
