"""The encoder minilm beside static: bytes, speed on one and two cores, and Spearman on SemEval STS.

    python tests/benchmarks/bench_minilm.py DATA [--original MINILM]

The times are medians, in turns, so that both encoders see the same machine: of one question, and of 256 Wikipedia
passages at a time. On a machine that others use, a second of the processor's time says more than one of the clock. With
--original the STS figures of the float model, and the cosines to it. Needs the extra minilm.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from common import parse, parser, read_jsonl
from epic_memory.encoders import Encoder, MiniLMEncoder, SentenceTransformerEncoder, StaticEncoder, embed
from epic_memory.encoders.static import BUNDLED
from static_texts import read_passages, read_sts

PASSAGES, QUESTIONS, ROUNDS = 256, 100, 5

Pair = tuple[str, float, str, str]
"""A set, the human score, and two sentences."""


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def spearman(encoder: Encoder, rows: Sequence[Pair]) -> dict[str, float]:
    """Return Spearman's correlation of cosine and human score for each set."""
    sentences = sorted({sentence for _, _, *pair in rows for sentence in pair})
    place = {sentence: number for number, sentence in enumerate(sentences)}
    vectors = embed(encoder, sentences)
    by_set: dict[str, tuple[list[float], list[float]]] = {}
    for name, score, one, other in rows:
        cosines, scores = by_set.setdefault(name, ([], []))
        cosines.append(float(vectors[place[one]] @ vectors[place[other]]))
        scores.append(score)
    return {name: float(spearmanr(*pair)[0]) for name, pair in by_set.items()}


def print_speed(several: dict[str, Encoder], passages: Sequence[str], questions: Sequence[str]) -> None:
    speeds: dict[str, list[float]] = {name: [] for name in several}
    used: dict[str, list[float]] = {name: [] for name in several}
    queries: dict[str, list[float]] = {name: [] for name in several}
    for encoder in several.values():
        encoder.encode([*passages[:32], *questions[:8]])
    for number in range(ROUNDS):
        some = passages[number * PASSAGES : (number + 1) * PASSAGES]
        for name, encoder in several.items():
            started, before = time.perf_counter(), time.process_time()
            encoder.encode(some)
            speeds[name].append(len(some) / (time.perf_counter() - started))
            used[name].append(len(some) / (time.process_time() - before))
    for question in questions[:QUESTIONS]:
        for name, encoder in several.items():
            started = time.perf_counter()
            encoder.encode([question])
            queries[name].append(time.perf_counter() - started)
    print(f"{'':28}{'passages a second':>20}{'best':>10}{'a CPU second':>14}{'a question':>14}{'best':>12}")
    for name in several:
        taken = queries[name]
        print(
            f"{name:28}{statistics.median(speeds[name]):>20.0f}{max(speeds[name]):>10.0f}{statistics.median(used[name]):>14.0f}"
            f"{statistics.median(taken) * 1e3:>11.2f} ms{min(taken) * 1e3:>9.2f} ms",
            flush=True,
        )


def some_of(rows: Sequence[Pair], count: int | None) -> list[Pair]:
    """Return the first pairs of each set."""
    of_set: dict[str, list[Pair]] = {}
    for row in rows:
        of_set.setdefault(row[0], []).append(row)
    return [row for several in of_set.values() for row in several[:count]]


def print_sts(compared: dict[str, Encoder], rows: Sequence[Pair]) -> None:
    means = {name: statistics.mean(spearman(encoder, rows).values()) for name, encoder in compared.items()}
    for name, mean in means.items():
        share = f", {mean / means['original']:.1%} of the original's" if "original" in means else ""
        print(f"{name}: mean Spearman over the STS sets, {len(rows)} pairs, {mean:.4f}{share}", flush=True)


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--original", help="folder of all-MiniLM-L6-v2, run by sentence-transformers")
    made.add_argument("--pairs", type=int, help="only so many pairs of each STS set (default: all)")
    made.add_argument("--only", choices=("speed", "sts"), help="half of it")
    options = parse(made)
    static = StaticEncoder()
    minilm = {threads: MiniLMEncoder(threads=threads) for threads in (1, 2)}
    spec = find_spec("epic_minilm")
    assert spec is not None and spec.origin is not None
    print(f"bytes: static {bytes_of(BUNDLED)}, minilm {bytes_of(Path(spec.origin).parent)}")
    passages = [f"{title}. {text}" for title, text in read_passages(options.data)]
    questions = [case["question"] for case in read_jsonl(options.data / "prefeval_mcq.jsonl")]
    if options.only != "sts":
        words = statistics.mean(len(text.split()) for text in passages[: PASSAGES * ROUNDS])
        print(f"passages of {words:.0f} words on average", flush=True)
        named: dict[str, Encoder] = {"static": static}
        named |= {f"minilm, {threads} thread(s)": encoder for threads, encoder in minilm.items()}
        print_speed(named, passages, questions)
    if options.only != "speed":
        compared: dict[str, Encoder] = {"static": static, "minilm": minilm[2]}
        if options.original:
            compared["original"] = SentenceTransformerEncoder(options.original)
        print_sts(compared, some_of(read_sts(options.data), options.pairs))
        if options.original:
            texts = [*passages[:PASSAGES], *questions]
            cosines = (embed(minilm[2], texts) * embed(compared["original"], texts)).sum(axis=1)
            print(f"minilm: cosine to the original, mean {cosines.mean():.4f}, least {np.min(cosines):.4f}")


if __name__ == "__main__":
    main()
