"""The whole path on a small board: one core and 512 MB for building, searching, a byte budget, and importing a chat.

    python tests/benchmarks/bench_board.py [DATA] [--chunks 10000] [--megabytes 512] [--conversations 1000]

Each part is a process of its own on one core, whose libraries run one thread. Its private memory is limited
(RLIMIT_DATA: what it writes, without the pages of libraries, which the system can drop); a part that needs more fails.
Its peak RSS counts these pages, too, and must stay below the same limit. The corpus is passages and answers, then
options of PrefEval, then turns of LoCoMo; the questions are the persona's own. Joules are those of the whole package,
if the machine tells.

Last comes what a question's time is spent on, as shares of the whole, beside the shares of the paper's Table 9: another
machine than its boards can be compared by shares only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import chain, islice
from pathlib import Path
from typing import Any

ROUNDS = 5
BUDGET = 1_000_000
JOULES = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def confine(megabytes: int) -> None:
    """Confine a process to one core, and to so many MB of private memory."""
    import resource

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))


def part_of(given: argparse.Namespace) -> dict[str, Any]:
    """Run a part; return the number of its units, their CPU seconds, and what is told besides."""
    from common import personas, read_jsonl, sources
    from epic_memory import EpicMemory, Settings

    folder, persona = Path(given.folder), personas(given.data, "PrefWiki")[0]
    preferences = [preference for preference, _ in persona]
    options = (option for case in read_jsonl(given.data / "prefeval_mcq.jsonl") for option in case["options"])
    talks = json.loads((given.data / "locomo_conversations.json").read_text(encoding="utf-8"))
    turns = (f"{turn['speaker']}: {turn['text']}" for talk in talks for turn in talk["turns"])
    corpus = islice(chain(sources(given.data), options, turns), given.chunks)
    told: dict[str, Any] = {}
    began = time.process_time()
    if given.part in ("build", "budget"):
        settings = Settings(budget=BUDGET) if given.part == "budget" else None
        with EpicMemory.open(folder / f"{given.part}.epic", preferences, settings=settings) as memory:
            report = memory.add(corpus)
        units = report.seen
        told["file"] = (folder / f"{given.part}.epic").stat().st_size
    elif given.part == "search":
        questions = [question for _, asked in persona for question in asked]
        with EpicMemory.open(folder / "build.epic") as memory:
            memory.search(questions[0])  # what is read once
            began, shares = time.process_time(), Counter[str]()
            for question in questions * ROUNDS:
                shares.update(memory.search(question).timings)
        units, whole = len(questions) * ROUNDS, sum(shares.values())
        told["shares"] = {part: seconds / whole for part, seconds in shares.items()}
    else:
        from bench_import import export
        from epic_apps import import_from

        export(folder / "chatgpt.zip", given.conversations)
        began = time.process_time()
        with EpicMemory.open(folder / "import.epic") as memory:
            units = import_from(memory, folder / "chatgpt.zip").conversations
    return {"units": units, "cpu": time.process_time() - began, **told}


def joules() -> float | None:
    """Return the joules that the processor has counted, None if it does not tell."""
    try:
        return int(JOULES.read_text(encoding="ascii")) / 1e6
    except (OSError, ValueError):
        return None


def run(part: str, given: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Run a part in a process of its own; what it tells, its peak RSS in MB, and its joules."""
    names = [f"--{name}={getattr(given, name)}" for name in ("chunks", "megabytes", "conversations")]
    command = [sys.executable, __file__, str(given.data), *names, f"--part={part}", f"--folder={folder}"]
    before = joules()
    done = subprocess.run(command, env={**os.environ, **ONE_THREAD}, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{part} failed in {given.megabytes} MB:\n{done.stderr[-2000:]}")
    after = joules()
    return json.loads(done.stdout) | {"joules": None if before is None or after is None else after - before}


def main() -> None:
    from common import script_options

    given = script_options(__doc__, data=True, chunks=10_000, megabytes=512, conversations=1_000, part=str, folder=str)
    if given.part:
        import resource

        confine(given.megabytes)
        told = part_of(given)
        print(json.dumps(told | {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
        return
    print(
        f"{'':8}{'units':>8}{'CPU s':>9}{'CPU ms a unit':>15}{'peak RSS, MB':>14}{'joules a unit':>15}{'file, MB':>10}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for part in ("build", "search", "budget", "import"):
            found = run(part, given, folder)
            each = "not readable" if found["joules"] is None else f"{found['joules'] / found['units']:.4f}"
            line = f"{part:8}{found['units']:8,}{found['cpu']:9.1f}{1000 * found['cpu'] / found['units']:15.2f}"
            size = f"{found['file'] / 1e6:10.2f}" if "file" in found else ""
            print(f"{line}{found['peak']:14.0f}{each:>15}{size}", flush=True)
            if found["peak"] > given.megabytes:
                sys.exit(f"{part} had more than {given.megabytes} MB")
            if part == "search":
                shares = found["shares"]
    paper_shares(shares)


def paper_shares(ours: dict[str, float]) -> None:
    """Print the share of each part of a question, here and on the paper's boards."""
    from epic_eval.papers import paper_figures

    paper = paper_figures()["table9"]
    print("\n" + "".join(f"{name:>18}" for name in ("", "here", *paper["columns"])))
    for part in ("embedding", "steering", "index"):
        theirs = [a / b for a, b in zip(paper["rows"][f"query: {part}"], paper["rows"]["query: total"], strict=True)]
        print(f"{part:>18}" + "".join(f"{100 * share:17.1f}%" for share in (ours[part], *theirs)))


if __name__ == "__main__":
    main()
