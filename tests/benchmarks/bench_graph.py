"""The shape of the paper's Table 14: a graph alone, and with coarse filter, fine verification and steering before it.

The corpus is the Wikipedia passages and, as passages among them, the options of all cases of PrefEval's multiple
choice: of each case's four the first follows its preference, the others break it. The cases' preferences are dealt out
at random, ten to a persona, and each case is asked under the persona that has its preference. Everything is embedded:
the encoder, the verifier, and the extractor, which needs no language model. An EpicMemory without a graph is shown
beside, in the same files.

"own first": the share of cases whose following option comes before their breaking ones (that none of the four is held
is a failure; chance is 0.25). The passages are shuffled, so that a tie is a matter of chance. "kept" and the bytes of
the graph are as `EpicMemory.stats` says, the file's bytes after closing. "index" is opening, filtering, verifying,
extracting and writing, by the clock and in processor time; a query is for five passages, the median over cases with
all arms in turn. Graph alone knows no preferences: it is built once.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import interval, passages, read_jsonl, script_options, seconds_of, settled
from epic_graph.memory import GraphMemory
from epic_memory import SearchOptions

TEN, K = 10, 5
NOTHING: dict[str, Any] = {"coarse": False, "fine": False}
# The arms: in which file, by the graph or not, and the steering.
ARMS = {
    "graph alone": ("alone", True, "off"),
    "+CFS": ("CF", True, "signed"),
    "no graph": ("alone", False, "off"),
    "no graph, CFS": ("CF", False, "signed"),
}


class Case(NamedTuple):
    preference: str
    question: str
    options: list[str]


class Size(NamedTuple):
    """What became of the corpus in one file."""

    kept: float
    file_bytes: float
    graph_bytes: float
    seconds: float
    processor: float


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


def ask(graphs: dict[str, GraphMemory], case: Case) -> Iterator[tuple[str, bool, float]]:
    """Ask in each arm; yield its name, whether the own following option is first, and the seconds of a query."""
    for name, (file, by_graph, steering) in ARMS.items():
        graph, options = graphs[file], SearchOptions(steering=steering)
        search = graph.search if by_graph else graph.memory.search
        every = [hit.item.text for hit in search(case.question, k=max(1, len(graph)), options=options)]
        own = [text for text in every if text in case.options]
        seconds = seconds_of(lambda search=search, o=options: search(case.question, k=K, options=o))
        yield name, own[:1] == case.options[:1], seconds


def main() -> None:
    options = script_options(__doc__, data=True, personas=6, seed=0)
    records = read_jsonl(options.data / "prefeval_mcq.jsonl")
    cases = [Case(record["preference"], record["question"], record["options"]) for record in records]
    personas = list(dealt(cases, options.seed))[: options.personas or None]
    texts = list(dict.fromkeys([*passages(options.data), *(option for case in cases for option in case.options)]))
    random.Random(0).shuffle(texts)
    asked = sum(len(own) for _, own in personas)
    print(f"{len(texts)} passages, {len(personas)} personas of {TEN} preferences, {asked} cases", flush=True)
    first: dict[str, list[float]] = {name: [] for name in ARMS}
    taken: dict[str, list[float]] = {name: [] for name in ARMS}
    with tempfile.TemporaryDirectory() as folder:
        alone, path = Path(folder, "alone.epic"), Path(folder, "persona.epic")
        sizes = {"alone": [build(alone, texts, (), **NOTHING)], "CF": []}
        for number, (persona, own) in enumerate(personas, 1):
            sizes["CF"].append(build(path, texts, persona))
            with GraphMemory.open(alone, **settled(**NOTHING)) as one, GraphMemory.open(path) as other:
                for case in own:
                    for name, right, seconds in ask({"alone": one, "CF": other}, case):
                        first[name].append(right)
                        taken[name].append(seconds)
            path.unlink()
            print(f"persona {number} of {len(personas)}", file=sys.stderr, flush=True)
    print(f"\n{'':24} kept       bytes     graph  index s  (cpu)  query ms   own first")
    for name, (file, _, _) in ARMS.items():
        size = Size(*np.mean(sizes[file], axis=0))
        line = f"{name:22} {size.kept:7.2%} {size.file_bytes:11,.0f}{size.graph_bytes:12,.0f} {size.seconds:7.1f}"
        line += f" {size.processor:7.1f}{1000 * np.median(taken[name]):9.2f}"
        print(f"{line}   {np.mean(first[name]):7.3f}")
    gain = np.array(first["+CFS"]) - np.array(first["graph alone"])
    print("own first, +CFS beyond graph alone: {:+.3f} [{:+.3f}, {:+.3f}]".format(gain.mean(), *interval(gain)))


if __name__ == "__main__":
    main()
