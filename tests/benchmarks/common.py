"""What the benchmarks share: the data folder and its records, replayed models, times, intervals, and figures."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epic_apps.cli.sources import Sources
from epic_memory.encoders import Encoder, embed, encoder_of
from epic_memory.lm import Completion, Message
from epic_memory.lm.base import Schema

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "shared" / "tools"), str(ROOT / "tests" / "support")]

from helpers import searching, settled  # noqa: E402  # for the benchmarks

__all__ = ["searching", "settled"]

RESAMPLES = 10_000


def parser(description: str) -> argparse.ArgumentParser:
    """A parser that takes the data folder as an argument or from EPIC_DATA; there is no default."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("data", nargs="?", default=os.environ.get("EPIC_DATA"), help="the data folder, or EPIC_DATA")
    return made


def parse(made: argparse.ArgumentParser) -> argparse.Namespace:
    """The options; says what is missing if no data folder is given."""
    options = made.parse_args()
    if not options.data:
        made.error("give the data folder as an argument, or in EPIC_DATA (docs/data.md says where the data is from)")
    options.data = Path(options.data)
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


def with_encoders(made: argparse.ArgumentParser) -> None:
    """Add the option that names the encoders to measure with."""
    made.add_argument(
        "--encoder",
        action="append",
        help="one to measure with (repeatable): static, the default, minilm, multilingual, ...",
    )


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


def spearman(encode: Callable[[list[str]], np.ndarray], rows: Sequence[tuple[str, float, str, str]]) -> float:
    """The mean over STS sets of Spearman's correlation of cosine and human score."""
    return statistics.mean(spearman_by_set(encode, rows).values())


def spearman_by_set(
    encode: Callable[[list[str]], np.ndarray], rows: Sequence[tuple[str, float, str, str]]
) -> dict[str, float]:
    """Set to Spearman's correlation, of rows of a set, a score and two sentences."""
    sentences = sorted({sentence for _, _, *pair in rows for sentence in pair})
    place = {sentence: number for number, sentence in enumerate(sentences)}
    vectors = encode(sentences)
    by_set: dict[str, tuple[list[float], list[float]]] = {}
    for name, score, one, other in rows:
        cosines, scores = by_set.setdefault(name, ([], []))
        cosines.append(float(vectors[place[one]] @ vectors[place[other]]))
        scores.append(score)
    return {name: float(np.corrcoef(*map(_ranks, pair))[0, 1]) for name, pair in by_set.items()}


def _ranks(values: Sequence[float]) -> np.ndarray:
    """The rank of each value, of equals their mean."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


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
