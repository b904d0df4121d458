"""What the benchmarks share: the data folder, the records in it, medians of repeated runs, and how sure a mean is."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from epic_memory import SearchOptions, Settings
from epic_memory.encoders import Encoder, embed, encoder_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "shared" / "tools"))

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
        help="one to measure with (repeatable): static, the default, minilm, sentence-transformers/FOLDER",
    )


def encoders(options: argparse.Namespace) -> list[Encoder]:
    """The encoders that the options name."""
    return [encoder_of(name) for name in options.encoder or ["static"]]


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The records of a file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


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


def median_seconds(action: Callable[[], object], runs: int) -> float:
    """The median time of a call, after one that does not count."""
    action()
    taken = []
    for _ in range(runs):
        started = time.perf_counter()
        action()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def paired_seconds(first: Callable[[], object], second: Callable[[], object], runs: int) -> tuple[float, float, float]:
    """Medians of two calls run in turn, and the median of their ratios first / second."""
    first(), second()
    pairs = []
    for _ in range(runs):
        started = time.perf_counter()
        first()
        middle = time.perf_counter()
        second()
        pairs.append((middle - started, time.perf_counter() - middle))
    ratio = statistics.median(a / b for a, b in pairs)
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), ratio


def interval(differences: np.ndarray) -> tuple[float, float]:
    """The 95 % bootstrap interval of a mean."""
    drawn_rows = np.random.default_rng(0).integers(len(differences), size=(RESAMPLES, len(differences)))
    low, high = np.percentile(differences[drawn_rows].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length one."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def panels(count: int) -> tuple[Any, Any]:
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
    return plt.subplots(1, count, figsize=(3.4 * count, 3.2), layout="constrained", squeeze=False)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure as SVG; the same figures give the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    print(f"wrote {path}")


def searching(**given: Any) -> dict[str, Any]:
    """Return the arguments of a search, given one by one: those that `SearchOptions` has become one."""
    return _folded(SearchOptions, "options", given)


def settled(**given: Any) -> dict[str, Any]:
    """Return the arguments of a memory, given one by one: those that `Settings` has become one."""
    return _folded(Settings, "settings", given)


def _folded(kind: Any, name: str, given: dict[str, Any]) -> dict[str, Any]:
    own = {each.name: given.pop(each.name) for each in fields(kind) if each.name in given}
    return {**given, name: kind(**own)} if own else given
