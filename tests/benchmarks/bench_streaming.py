"""A stream of items under changing preferences: bytes on disk, and whether what is found first follows the preferences.

As the paper's streaming experiment (its Figures 4 and 6), on other data. For each persona all passages and answers, cut
into chunks and in random order, come in batches; five of the ten preferences are active at first, and before many a
batch one is added or removed at random. Mixed into the stream are chunks and texts of which it is known whether they
follow a preference. Documents from which labelled chunks were cut are left out otherwise. The personas are made of the
preferences of PrefWiki that have labels and a multiple-choice case too, ten to a persona, so that there is something to
judge by.

Three stores take the stream in:

- EPIC, as it comes: one file, static encoder, embedded verifier, signed steering;
- the same with a byte budget;
- everything: a plain dense retriever over all items seen, no preferences, with the same encoder. Its bytes are those of
  the published way of storing an index: a FAISS IndexFlatIP file, the same float32 vectors as .npy, and JSONL with id
  and text. They are computed, exactly, from what these files consist of.

Bytes of EPIC are those on disk after the batch, side files included, while the memory is open.

Following is measured after each batch in two ways, always under the preferences that are active then. In both, what is
looked at is the best hit among items that are judged, because of nearly all other passages nobody knows whether they
follow a preference (rankings with what is not judged taken out, as is usual where judgements are incomplete).

- labels: the questions of the active preferences and their texts are asked, where the stream has brought a chunk
  labelled under that preference. The best hit among the labelled chunks seen so far, for preferences that are active,
  counts 1 if the label says that it supports one of them, 1/2 if mixed, 0 if it conflicts with one, if it is neutral or
  was labelled Discard under all of them.
- choices: for an active preference with a multiple-choice case the case's question is asked, as soon as its four
  options have come by; the four are items of the stream, one after the other. The best hit among the four counts 1 if
  it is the one that follows the preference; chance is 1/4.

A store that holds none of what is judged gives no answer. Shown is the share of all questions, so that no answer counts
0, and the share of the answered ones. EPIC has not kept what came before its preference was added: the stream has gone
by. That costs it answers, and is part of what is measured. A question is asked again after each batch, so the answers
are not independent: how many different questions there are is shown too.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from common import panels, parse, parser, personas, read_jsonl, save_figure, sources
from epic_memory import EpicMemory, Filter, Settings
from epic_memory.encoders import Encoder, default_encoder
from epic_memory.types import Item

ACTIVE = 5
LEAST, MOST = 3, 8
FEWEST = 10
WORTH = {"supports": 1.0, "mixed": 0.5, "neutral": 0.0, "conflicts": 0.0}
STORES = ("EPIC", "EPIC with budget", "everything")


@dataclass
class Judged:
    """What is known of the texts that are mixed into the stream.

    Attributes:
        labels: Preference to labelled chunk's number to stance; "" for Discard.
        chunks: The labelled chunks.
        cases: The multiple-choice cases.
        documents: The documents that labelled chunks were cut from.
    """

    labels: dict[str, dict[int, str]]
    chunks: list[str]
    cases: list[dict[str, Any]]
    documents: set[str]

    @classmethod
    def read(cls, data: Path) -> Judged:
        """From the data folder."""
        labels: dict[str, dict[int, str]] = {}
        numbers: dict[str, int] = {}
        documents = set()
        for record in read_jsonl(data / "verification_labels.jsonl"):
            number = numbers.setdefault(record["chunk"], len(numbers))
            documents.add(record["source"].split("#")[0])
            stances = {alignment["preference"]: alignment["stance"] for alignment in record["alignments"]}
            for position, preference in enumerate(record["preferences"]):
                labels.setdefault(preference, {})[number] = stances.get(position, "")
        return cls(labels, list(numbers), read_jsonl(data / "prefeval_mcq.jsonl"), documents)


@dataclass
class Question:
    """One question, and which items of the stream it is judged by.

    Attributes:
        preference: It is asked while this one is active.
        text: What is asked.
        case: Number of the multiple-choice case; None for a question about labelled chunks.
    """

    preference: str
    text: str
    case: int | None = None


def chosen_personas(data: Path, judged: Judged) -> list[list[tuple[str, list[str]]]]:
    """The personas made of preferences that have labels and choices."""
    asked: dict[str, list[str]] = {}
    for known in ("PrefWiki", "PrefEval"):
        for preference, questions in (pair for persona in personas(data, known) for pair in persona):
            asked.setdefault(preference, []).extend(questions)
    cases = {case["preference"] for case in judged.cases}
    both = [preference for preference in judged.labels if preference in cases and preference in asked]
    pairs = [(preference, list(dict.fromkeys(asked[preference]))) for preference in both]
    return [pairs[start : start + 10] for start in range(0, len(pairs) - 9, 10)]


@dataclass
class Stream:
    """One persona's stream.

    Attributes:
        preferences: Ten texts.
        items: In the order in which they come.
        questions: All that may be asked.
        changes: Before which batch which preference, by number, is added or removed.
        first: Numbers of the preferences active at first.
    """

    preferences: list[str]
    items: list[Item]
    questions: list[Question]
    changes: dict[int, int]
    first: list[int]


def stream_of(
    persona: Sequence[tuple[str, list[str]]], haystack: Sequence[Item], judged: Judged, batches: int, seed: int
) -> Stream:
    """A persona's stream, the same for the same seed."""
    generator = np.random.default_rng(seed)
    preferences = [preference for preference, _ in persona]
    mixed = sorted({number for preference in preferences for number in judged.labels.get(preference, ())})
    come = [[item] for item in haystack]
    come += [[Item(id=f"label-{n}", text=judged.chunks[n], metadata={"label": n})] for n in mixed]
    questions = []
    for preference, asked in persona:
        if preference in judged.labels:
            questions += [Question(preference, text) for text in (preference, *asked)]
        for number, case in enumerate(judged.cases):
            if case["preference"] == preference:
                questions.append(Question(preference, case["question"], number))
                come.append(_options(case, number))
    items = [item for place in generator.permutation(len(come)) for item in come[place]]
    first = sorted(generator.permutation(len(preferences))[:ACTIVE].tolist())
    changes, active = {}, set(first)
    for batch in range(1, batches):
        if generator.random() < 0.5:
            continue
        adding = len(active) <= LEAST or (len(active) < MOST and generator.random() < 0.5)
        others = sorted(set(range(len(preferences))) - active)
        changes[batch] = int(generator.choice(others if adding else sorted(active)))
        active ^= {changes[batch]}
    return Stream(preferences, items, questions, changes, first)


def _options(case: dict[str, Any], number: int) -> list[Item]:
    return [
        Item(id=f"case-{number}-{place}", text=text, metadata={"case": number, "option": place})
        for place, text in enumerate(case["options"])
    ]


class Dense:
    """All items seen, as a plain dense retriever ranks them."""

    def __init__(self, encoder: Encoder) -> None:
        import faiss

        self.encoder = encoder
        # What the files hold besides their vectors.
        self.header = len(faiss.serialize_index(faiss.IndexFlatIP(encoder.dimension)))
        self.lines = 0
        self.count = 0
        self.items: list[Item] = []
        self.vectors = np.empty((0, encoder.dimension), dtype=np.float32)

    def add(self, items: Sequence[Item], judged: Sequence[bool]) -> None:
        """Take items in; only those that are judged are searched."""
        self.count += len(items)
        self.lines += sum(len(json.dumps({"id": item.id, "text": item.text})) + 1 for item in items)
        chosen = [item for item, known in zip(items, judged, strict=True) if known]
        if chosen:
            self.items += chosen
            self.vectors = np.concatenate([self.vectors, self.encoder.encode([item.text for item in chosen])])

    def bytes(self) -> int:
        """Of the three files, exactly."""
        npy = io.BytesIO()
        np.lib.format.write_array_header_1_0(npy, {"descr": "<f4", "fortran_order": False, "shape": (self.count, 1)})
        vectors = 4 * self.encoder.dimension * self.count
        return self.header + vectors + len(npy.getvalue()) + vectors + self.lines

    def best(self, question: str, key: str, numbers: Sequence[int]) -> Item | None:
        """The nearest of the judged items seen whose metadata has one of the numbers."""
        allowed = set(numbers)
        rows = [row for row, item in enumerate(self.items) if item.metadata.get(key) in allowed]
        if not rows:
            return None
        return self.items[rows[int((self.vectors[rows] @ self.encoder.encode([question])[0]).argmax())]]


@dataclass
class Tally:
    """Answers of one store to one kind of question.

    Attributes:
        asked, answered: How many questions.
        good: What the answers count together.
        different: The questions, each once.
    """

    asked: int = 0
    answered: int = 0
    good: float = 0.0
    different: set[str] = field(default_factory=set)

    def count(self, question: str, worth: float | None) -> None:
        """Count one question; None for no answer."""
        self.asked += 1
        self.different.add(question)
        if worth is not None:
            self.answered += 1
            self.good += worth

    def add(self, other: Tally) -> None:
        """Count another tally in."""
        self.asked += other.asked
        self.answered += other.answered
        self.good += other.good
        self.different |= other.different

    @property
    def of_asked(self) -> float:
        """Share of all questions."""
        return self.good / self.asked if self.asked else float("nan")

    @property
    def of_answered(self) -> float:
        """Share of the questions that were answered."""
        return self.good / self.answered if self.answered else float("nan")


KINDS = ("labels", "choices")
Tallies = dict[tuple[str, str], Tally]


@dataclass
class Point:
    """What was measured after one batch.

    Attributes:
        seen: Items so far.
        active: Preferences.
        entries: Entries of EPIC without and with a budget.
        bytes: Of each store.
        tallies: Of each kind of question and each way of answering it.
    """

    seen: int
    active: int
    entries: tuple[int, int] = (0, 0)
    bytes: dict[str, int] = field(default_factory=dict)
    tallies: Tallies = field(default_factory=dict)


def worth(judged: Judged, item: Item | None, question: Question, active: Sequence[str]) -> float | None:
    """What a best hit counts; None where there is none."""
    if item is None:
        return None
    if question.case is not None:
        return float(item.metadata["option"] == 0)
    number = item.metadata["label"]
    stances = [judged.labels[p][number] for p in active if number in judged.labels.get(p, ())]
    if "conflicts" in stances:
        return 0.0
    return max((WORTH.get(stance, 0.0) for stance in stances), default=0.0)


def measured(
    judged: Judged,
    stream: Stream,
    active: Sequence[str],
    seen: set[str],
    stores: dict[str, Any],
    point: Point,
) -> None:
    """Ask all questions that can be asked now."""
    labelled = sorted({n for preference in active for n in judged.labels.get(preference, ()) if f"label-{n}" in seen})
    for question in stream.questions:
        if question.preference not in active:
            continue
        if question.case is not None:
            if not all(f"case-{question.case}-{place}" in seen for place in range(4)):
                continue
            kind, key, numbers = "choices", "case", [question.case]
        else:
            if not any(f"label-{n}" in seen for n in judged.labels[question.preference]):
                continue
            kind, key, numbers = "labels", "label", labelled
        found: dict[str, Item | None] = {"everything": stores["everything"].best(question.text, key, numbers)}
        for name in STORES[:2]:
            memory: EpicMemory = stores[name]
            hits = memory.search(question.text, k=1, filter=Filter.in_(key, numbers))
            found[name] = hits[0].item if hits else None
        if found["EPIC"] is not None:
            # The same questions as EPIC's answered ones, so that their shares can be compared.
            found["everything, where EPIC answers"] = found["everything"]
        for name, item in found.items():
            point.tallies.setdefault((kind, name), Tally()).count(question.text, worth(judged, item, question, active))


def run(stream: Stream, judged: Judged, encoder: Encoder, options: Any, folder: Path) -> list[Point]:
    """Take one stream in, and measure after each batch."""
    active = [stream.preferences[number] for number in stream.first]
    stores: dict[str, Any] = {
        "EPIC": EpicMemory.open(folder / "epic.epic", active, encoder=encoder),
        "EPIC with budget": EpicMemory.open(
            folder / "budget.epic", active, encoder=encoder, settings=Settings(budget=options.budget)
        ),
        "everything": Dense(encoder),
    }
    points, seen, start = [], set(), 0
    for batch, end in enumerate(np.linspace(0, len(stream.items), options.batches + 1).astype(int).tolist()[1:]):
        if batch in stream.changes:
            preference = stream.preferences[stream.changes[batch]]
            for name in STORES[:2]:
                change = stores[name].remove_preference if preference in active else stores[name].add_preference
                change(preference)
            active = [p for p in active if p != preference] if preference in active else [*active, preference]
        items = stream.items[start:end]
        start = end
        stores["everything"].add(items, [bool({"label", "case"} & item.metadata.keys()) for item in items])
        for name in STORES[:2]:
            stores[name].add(items)
        seen |= {item.id for item in items}
        point = Point(seen=end, active=len(active))
        point.bytes = {name: stores[name].stats().bytes["total"] for name in STORES[:2]}
        point.bytes["everything"] = stores["everything"].bytes()
        point.entries = tuple(stores[name].stats().counts["entries"] for name in STORES[:2])
        measured(judged, stream, active, seen, stores, point)
        points.append(point)
    for name in STORES[:2]:
        stores[name].close()
    return points


def table(runs: Sequence[Sequence[Point]], budget: str) -> None:
    """Means over the personas, batch by batch, and everything together."""
    print(
        f"\n{'items':>6} {'active':>6} {'entries':>8} {'EPIC':>9} {'budget':>9} {'everything':>11}   following: labels"
        f" {'EPIC':>6} {'budget':>6} {'every':>6}   choices {'EPIC':>6} {'budget':>6} {'every':>6}"
    )
    for points in zip(*runs, strict=True):
        mean = {name: np.mean([point.bytes[name] for point in points]) / 1e6 for name in STORES}
        shares = [together(points, kind, name).of_asked for kind in KINDS for name in STORES]
        print(
            f"{np.mean([p.seen for p in points]):6.0f} {np.mean([p.active for p in points]):6.1f}"
            f" {np.mean([p.entries[0] for p in points]):8.0f}"
            f" {mean['EPIC']:6.3f} MB {mean['EPIC with budget']:6.3f} MB {mean['everything']:8.3f} MB"
            f" {'':20} {shares[0]:6.2f} {shares[1]:6.2f} {shares[2]:6.2f}"
            f" {'':9} {shares[3]:6.2f} {shares[4]:6.2f} {shares[5]:6.2f}"
        )
    every = [point for points in runs for point in points]
    last = [points[-1] for points in runs]
    whole = np.mean([p.bytes["everything"] for p in last])
    print(f"\nbytes at the end, mean of {len(runs)} personas; everything: {whole / 1e6:.2f} MB")
    for name in STORES[:2]:
        octets = [p.bytes[name] for p in last]
        highest = max(point.bytes[name] for point in every)
        print(
            f"  {name:18} {np.mean(octets) / 1e6:6.3f} MB, 1/{whole / np.mean(octets):.0f} of everything;"
            f" the most ever {highest} bytes{f' (budget {budget})' if 'budget' in name else ''}"
        )
    print("\nfollowing, over all batches")
    print(
        f"  {'':42} {'asked':>6} {'(different)':>11} {'answered':>9} {'of asked':>9} {'of answered':>12}"
        f" {'to everything':>14}"
    )
    for kind in KINDS:
        base = together(every, kind, "everything")
        for name in sorted({name for known_kind, name in every[-1].tallies if known_kind == kind}):
            tally = together(every, kind, name)
            print(
                f"  {kind + ': ' + name:42} {tally.asked:6} {len(tally.different):11} {tally.answered:9}"
                f" {tally.of_asked:9.3f} {tally.of_answered:12.3f} {tally.of_asked / base.of_asked:14.2f}"
            )


def together(points: Iterable[Point], kind: str, name: str) -> Tally:
    """One tally over several points."""
    whole = Tally()
    for point in points:
        whole.add(point.tallies.get((kind, name), Tally()))
    return whole


def plots(runs: Sequence[Sequence[Point]], folder: Path, budget: str) -> None:
    """Draw two figures."""
    looks = {
        "EPIC": ("#0b6e4f", "-", "EPIC"),
        "EPIC with budget": ("#d1495b", "--", f"EPIC, budget {budget}"),
        "everything": ("#6c757d", ":", "everything, dense"),
    }
    columns = list(zip(*runs, strict=True))
    seen = [float(np.mean([point.seen for point in points])) for points in columns]
    figure, ((axes,),) = panels(1, figsize=(6.4, 3.6))
    for name, (colour, style, label) in looks.items():
        octets = np.array([[point.bytes[name] / 1e6 for point in points] for points in columns])
        axes.plot(seen, octets.mean(axis=1), style, color=colour, label=label, linewidth=2)
        axes.fill_between(seen, octets.min(axis=1), octets.max(axis=1), color=colour, alpha=0.15, linewidth=0)
    axes.set(ylim=0, xlabel="items seen", ylabel="MB on disk")
    axes.legend(frameon=False)
    save_figure(figure, folder / "streaming_bytes.svg")

    figure, (both,) = panels(2, figsize=(6.4, 3.4), sharey=True)
    for axes, kind in zip(both, KINDS, strict=True):
        for name, (colour, style, label) in looks.items():
            tallies = [together(points, kind, name) for points in columns]
            # The share of a handful of questions says nothing.
            shares = [tally.of_asked if tally.asked >= FEWEST else float("nan") for tally in tallies]
            axes.plot(seen, shares, style, color=colour, label=label, linewidth=2)
        axes.set(xlabel="items seen", title={"labels": "labelled chunks", "choices": "one of four options"}[kind])
    both[0].set(ylabel="best hit follows the preferences", ylim=(0.0, 1.0))
    both[0].legend(frameon=False)
    save_figure(figure, folder / "streaming_following.svg")


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--personas", type=int, default=9)
    made.add_argument("--batches", type=int, default=20)
    made.add_argument("--budget", default="1 MB")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--out", type=Path, help="folder for the figures, which need matplotlib; none: no figures")
    options = parse(made)
    started = time.perf_counter()
    judged, encoder = Judged.read(options.data), default_encoder()
    haystack = [item for item in sources(options.data) if item.id.split("#")[0] not in judged.documents]
    runs = []
    for number, persona in enumerate(chosen_personas(options.data, judged)[: options.personas]):
        stream = stream_of(persona, haystack, judged, options.batches, 1000 * options.seed + number)
        with tempfile.TemporaryDirectory() as folder:
            runs.append(run(stream, judged, encoder, options, Path(folder)))
        print(
            f"persona {number}: {len(stream.items)} items, {len(stream.questions)} questions,"
            f" {len(stream.changes)} changes of preferences, {time.perf_counter() - started:.0f} s",
            flush=True,
        )
    table(runs, options.budget)
    if options.out:
        plots(runs, options.out, options.budget)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
