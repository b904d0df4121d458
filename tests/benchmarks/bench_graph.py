"""The shape of the paper's Table 14: a graph alone, and with coarse filter, fine verification and steering before it.

The corpus is the Wikipedia passages and, as passages among them, the options of all cases of PrefEval's multiple
choice: of each case's four the first follows its preference, the others break it. The cases' preferences are dealt out
at random, ten to a persona, and each case is asked under the persona that has its preference. Everything is embedded:
the encoder, the verifier, and the extractor, which needs no language model. An EpicMemory without a graph is shown
beside, in the same files.

"own first": the share of cases whose following option comes before their breaking ones ("none", that none of the four
is held, is a failure; chance is 0.25). "follows" and "breaks": how often the very first passage of all is the own
following option, or an own breaking one. The passages are shuffled, so that a tie is a matter of chance. "kept", the
file's bytes and those of the graph in it are as `EpicMemory.stats` says; the file's are after closing. "index" is
opening, filtering, verifying, extracting and writing, by the clock and in processor time; a query is for five passages,
the median over cases with all arms in turn. Graph alone knows no preferences: it is built once.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import interval, parse, parser, passages, read_jsonl, settled
from epic_graph.memory import GraphMemory
from epic_memory import SearchOptions
from epic_memory.types import Hits

TEN = 10
K = 5


class Case(NamedTuple):
    preference: str
    question: str
    options: list[str]


class Size(NamedTuple):
    """What became of the corpus in one file."""

    kept: float
    octets: float
    graph: float
    seconds: float
    processor: float


@dataclass
class Asked:
    """What an arm answered, in the order of the cases."""

    own_first: list[float] = field(default_factory=list)
    none: list[float] = field(default_factory=list)
    follows: list[float] = field(default_factory=list)
    breaks: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


class Arm(NamedTuple):
    """A way to search, and in which file it does."""

    name: str
    file: str
    graph: bool
    steering: str

    def search(self, graphs: dict[str, GraphMemory]) -> Callable[..., Hits]:
        graph = graphs[self.file]
        return partial(
            graph.search if self.graph else graph.memory.search, options=SearchOptions(steering=self.steering)
        )


ARMS = (
    Arm("graph alone", "alone", graph=True, steering="off"),
    Arm("+CFS", "CF", graph=True, steering="signed"),
    Arm("no graph", "alone", graph=False, steering="off"),
    Arm("no graph, CFS", "CF", graph=False, steering="signed"),
)


def corpus(data: Path, cases: Sequence[Case]) -> list[str]:
    texts = list(dict.fromkeys([*passages(data), *(option for case in cases for option in case.options)]))
    random.Random(0).shuffle(texts)
    return texts


def dealt(cases: Sequence[Case], seed: int) -> Iterator[tuple[list[str], list[Case]]]:
    """Personas with their cases; each preference is in one of them."""
    preferences = list(dict.fromkeys(case.preference for case in cases))
    random.Random(seed).shuffle(preferences)
    for start in range(0, len(preferences) - TEN + 1, TEN):
        persona = preferences[start : start + TEN]
        yield persona, [case for case in cases if case.preference in persona]


def build(path: Path, texts: Sequence[str], preferences: Sequence[str], **options: Any) -> Size:
    started, before = time.perf_counter(), time.process_time()
    with GraphMemory.open(path, preferences, **settled(**options)) as graph:
        graph.add(texts)
        share, held = len(graph) / len(texts), graph.memory.stats().bytes["graph"]
    taken, used = time.perf_counter() - started, time.process_time() - before
    return Size(share, path.stat().st_size, held, taken, used)


def ask(graphs: dict[str, GraphMemory], cases: Sequence[Case], told: dict[str, Asked]) -> None:
    """Ask all cases, each in all arms in turn."""
    for case in cases:
        for arm in ARMS:
            search, into = arm.search(graphs), told[arm.name]
            every = [hit.item.text for hit in search(case.question, k=max(1, len(graphs[arm.file])))]
            own = [text for text in every if text in case.options]
            started = time.perf_counter()
            hits = search(case.question, k=K)
            into.seconds.append(time.perf_counter() - started)
            top = hits[0].item.text if hits else None
            into.own_first.append(float(own[:1] == case.options[:1]))
            into.none.append(float(not own))
            into.follows.append(float(top == case.options[0]))
            into.breaks.append(float(top in case.options[1:]))


def measure(
    folder: Path, texts: Sequence[str], dealt_out: Sequence[tuple[list[str], list[Case]]]
) -> tuple[dict[str, list[Size]], dict[str, Asked]]:
    told = {arm.name: Asked() for arm in ARMS}
    nothing: dict[str, Any] = {"coarse": False, "fine": False}
    alone = folder / "alone.epic"
    sizes = {"alone": [build(alone, texts, (), **nothing)]}
    said(f"graph alone: {sizes['alone'][0].seconds:.0f} s")
    for number, (persona, cases) in enumerate(dealt_out, 1):
        started = time.perf_counter()
        path = folder / f"{number}.epic"
        sizes.setdefault("CF", []).append(build(path, texts, persona))
        with GraphMemory.open(alone, **settled(**nothing)) as one, GraphMemory.open(path) as other:
            ask({"alone": one, "CF": other}, cases, told)
        path.unlink()
        said(f"persona {number} of {len(dealt_out)}: {time.perf_counter() - started:.0f} s")
    return sizes, told


def said(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# Printing.


def print_arms(sizes: dict[str, list[Size]], told: dict[str, Asked]) -> None:
    print(f"\n{'':24} kept       bytes     graph  index s  (cpu)  query ms   own first  none   follows  breaks")
    for arm in ARMS:
        line = " " * 37
        if arm.file in sizes:
            # Steering is no part of a file.
            kept, octets, held, seconds, processor = np.mean(sizes[arm.file], axis=0)
            line = f"{kept:7.2%} {octets:11,.0f}{held:12,.0f} {seconds:7.1f} {processor:7.1f}"
        answers = told[arm.name]
        figures = [statistics.mean(getattr(answers, of)) for of in ("own_first", "none", "follows", "breaks")]
        milliseconds = 1000 * statistics.median(answers.seconds)
        print(f"{arm.name:22} {line:47} {milliseconds:9.2f}   " + "   ".join(f"{figure:7.3f}" for figure in figures))


def print_ratios(sizes: dict[str, list[Size]], told: dict[str, Asked]) -> None:
    """The figures of the first arm over those of the second; what follows by difference."""
    before, after = ARMS[:2]
    old, new = (np.mean(sizes[arm.file], axis=0) for arm in (before, after))
    # Of each case by itself: both were asked one after the other.
    queries = np.array(told[before.name].seconds) / np.array(told[after.name].seconds)
    gain = np.array(told[after.name].own_first) - np.array(told[before.name].own_first)
    print(
        f"{before.name} : {after.name}: bytes {old[1] / new[1]:.1f}, index s {old[3] / new[3]:.1f},"
        f" query {statistics.median(queries):.1f}; own first"
        + " {:+.3f} [{:+.3f}, {:+.3f}]".format(gain.mean(), *interval(gain))
    )


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--personas", type=int, default=6, help="how many; 0: all there are")
    made.add_argument("--seed", type=int, default=0, help="of the deal of preferences to personas")
    options = parse(made)
    records = read_jsonl(options.data / "prefeval_mcq.jsonl")
    cases = [Case(record["preference"], record["question"], record["options"]) for record in records]
    dealt_out = list(dealt(cases, options.seed))
    dealt_out = dealt_out[: options.personas or len(dealt_out)]
    texts = corpus(options.data, cases)
    asked = sum(len(own) for _, own in dealt_out)
    print(f"{len(texts)} passages, {len(dealt_out)} personas of {TEN} preferences, {asked} cases", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        sizes, told = measure(Path(folder), texts, dealt_out)
    print_arms(sizes, told)
    print_ratios(sizes, told)


if __name__ == "__main__":
    main()
