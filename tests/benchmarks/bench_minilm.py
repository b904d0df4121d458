"""The encoder minilm beside static: bytes, and speed on one and two cores.

The times are medians, in turns, so that both encoders see the same machine: of one question, and of 256 Wikipedia
passages at a time. On a machine that others use, a second of the processor's time says more than one of the clock.
Needs the extra minilm.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from common import passages, read_jsonl, script_options
from epic_memory.encoders import Encoder, MiniLMEncoder, StaticEncoder
from epic_memory.encoders.static import BUNDLED

PASSAGES, QUESTIONS, ROUNDS = 256, 100, 5


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


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


def main() -> None:
    options = script_options(__doc__, data=True, only=("speed",))
    spec = find_spec("epic_minilm")
    assert spec is not None and spec.origin is not None
    if not options.only:
        print(f"bytes: static {bytes_of(BUNDLED)}, minilm {bytes_of(Path(spec.origin).parent)}")
    texts = passages(options.data)
    questions = [case["question"] for case in read_jsonl(options.data / "prefeval_mcq.jsonl")]
    words = statistics.mean(len(text.split()) for text in texts[: PASSAGES * ROUNDS])
    print(f"passages of {words:.0f} words on average", flush=True)
    named: dict[str, Encoder] = {"static": StaticEncoder()}
    named |= {f"minilm, {threads} thread(s)": MiniLMEncoder(threads=threads) for threads in (1, 2)}
    print_speed(named, texts, questions)


if __name__ == "__main__":
    main()
