"""What the benchmarks share: the data folder and its records, replayed models, times, intervals, and figures."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epic_apps.cli.sources import Sources
from epic_memory.encoders import Encoder, embed, encoder_of
from epic_memory.lm import Completion, Message
from epic_memory.lm.base import Schema
from epic_memory.types import Candidate, Verdict
from epic_memory.verification.base import BaseVerifier

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "shared" / "tools"), str(ROOT / "tests" / "support")]

from helpers import searching, settled  # noqa: E402  # for the benchmarks

__all__ = ["searching", "settled"]

RESAMPLES = 10_000


def script_options(doc: str | None, *, data: bool = False, encoders: bool = False, **named: Any) -> argparse.Namespace:
    """The options of a script, whose docstring is its help.

    Args:
        doc: The docstring.
        data: Whether it takes the data folder, as an argument or from EPIC_DATA; there is no default.
        encoders: Whether it takes the encoders to measure with.
        named: Options by name with their defaults: False is a switch, a list takes several values, a tuple has what
            there is to choose from, a type (or a list of one) stands for no default, and ... has to be given.
    """
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if data:
        made.add_argument("data", nargs="?", type=Path, default=os.environ.get("EPIC_DATA"), help="or EPIC_DATA")
    if encoders:
        made.add_argument("--encoder", action="append", help="static, the default, minilm, multilingual (repeatable)")
    for name, default in named.items():
        given: dict[str, Any] = {"type": type(default), "default": default}
        if default is False:
            given = {"action": "store_true"}
        elif default is ...:
            given = {"required": True}
        elif isinstance(default, tuple):
            given = {"choices": default}
        elif isinstance(default, list):
            of_type = isinstance(default[0], type)
            given = {"nargs": "*", "type": default[0] if of_type else type(default[0])}
            given["default"] = [] if of_type else default
        elif isinstance(default, type):
            given = {"type": default}
        made.add_argument(f"--{name.replace('_', '-')}", **given)
    options = made.parse_args()
    if data and not options.data:
        made.error("give the data folder as an argument, or in EPIC_DATA (docs/data.md says where the data is from)")
    return options


class Known:
    """An encoder that encodes each text once; all else is the encoder's that it asks."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._vectors: dict[str, np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        new = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        if new:
            self._vectors.update(zip(new, embed(self._encoder, new), strict=True))
        return np.stack([self._vectors[text] for text in texts])

    async def aencode(self, texts: Sequence[str]) -> np.ndarray:
        return self.encode(texts)


def encoders(options: argparse.Namespace) -> list[Encoder]:
    """The encoders that the options name."""
    return [encoder_of(name) for name in options.encoder or ["static"]]


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The records of a file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def passages(data: Path) -> list[str]:
    """The Wikipedia passages, each after its title."""
    return [f"{record['title']}. {record['text']}" for record in read_jsonl(data / "wiki_passages.jsonl")]


def sources(data: Path) -> Sources:
    """The passages and the assistant's answers, cut into chunks as the command line cuts them."""
    return Sources([data / "wiki_passages.jsonl", data / "assistant_answers.jsonl"])


def personas(data: Path, name: str) -> list[list[tuple[str, list[str]]]]:
    """For each persona of a set, its preferences with their questions."""
    records = json.loads((data / "personas" / f"{name}.json").read_text(encoding="utf-8"))
    return [
        [
            (block["preference"], [query["question"] for query in block["queries"]])
            for block in record["preference_blocks"]
        ]
        for record in records
    ]


class Replayed:
    """A language model that answers with what was recorded, and counts the calls; subclasses say with what."""

    name = "replayed"
    concurrency = 1
    context = None

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, prompt: str, schema: Schema | None) -> dict[str, Any]:
        """The answer to a prompt."""
        raise NotImplementedError

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        self.calls += 1
        return Completion(text=json.dumps(self.answer(messages[-1].content, schema)))

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        return self.complete(messages, schema=schema, max_tokens=max_tokens)


def preferences_in(data: Path) -> list[str]:
    """The preferences of all personas, each once, sorted."""
    names = [file.stem for file in (data / "personas").glob("*.json")]
    return sorted({preference for name in names for persona in personas(data, name) for preference, _ in persona})


def passage_texts(data: Path) -> list[str]:
    """The Wikipedia passages, without titles."""
    return [row["text"] for row in read_jsonl(data / "wiki_passages.jsonl")]


def print_load() -> None:
    """Print how much else the machine does."""
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def peak_ram() -> float:
    """The most bytes of RAM that this process had."""
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def clock_and_cpu(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds that a call takes, by the clock and of the processor."""
    clock, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - clock, time.process_time() - cpu


def print_percentiles(name: str, spent: Sequence[tuple[float, float]]) -> None:
    """Print percentiles of seconds by the clock and of the processor, in ms."""
    (clock, cpu), (clock_99, cpu_99) = np.percentile(np.array(spent) * 1e3, (50, 99), axis=0)
    print(
        f"{name:28}{len(spent):6} p50 {clock:6.1f}  p99 {clock_99:6.1f} ms;"
        f" processor p50 {cpu:6.1f}  p99 {cpu_99:6.1f} ms"
    )


class Judging(BaseVerifier):
    """A verifier that judges each candidate by itself; subclasses say how."""

    def verdict(self, candidate: Candidate) -> Verdict:
        """The verdict on a candidate."""
        raise NotImplementedError

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        yield from map(self.verdict, candidates)

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        for verdict in self.verify(candidates):
            yield verdict


def seconds_of(action: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def medians(runs: int, **actions: Callable[[str], object]) -> dict[str, float]:
    """Median milliseconds of actions on a query, in turns: whatever else goes on touches all of them alike."""
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(runs + 20):
        for name, action in actions.items():
            seconds = seconds_of(lambda action=action, n=number: action(f"What about number {n}, is it for me?"))
            if number >= 20:
                taken[name].append(seconds)
    return {name: 1000 * statistics.median(seconds) for name, seconds in taken.items()}


def interval(differences: np.ndarray) -> tuple[float, float]:
    """The 95 % bootstrap interval of a mean."""
    drawn_rows = np.random.default_rng(0).integers(len(differences), size=(RESAMPLES, len(differences)))
    low, high = np.percentile(differences[drawn_rows].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length one."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def panels(count: int, figsize: tuple[float, float] | None = None, **options: Any) -> tuple[Any, Any]:
    """A figure with some panels side by side, and the array of them; needs matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams.update(
        {
            "svg.hashsalt": "epic-memory",
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    size = figsize or (3.4 * count, 3.2)
    return plt.subplots(1, count, figsize=size, layout="constrained", squeeze=False, **options)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure as SVG; the same figures give the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    print(f"wrote {path}")
