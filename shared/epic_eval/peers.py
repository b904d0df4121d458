"""Peers: other stores for texts, each in a process of its own, with the same texts and the same encoder.

`python -m epic_eval.peers NAME FILE FOLDER` measures one and prints a line of JSON; `measure_all` runs it for all.
"""

from __future__ import annotations

import importlib
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from epic_eval.datasets import read_passages
from epic_eval.journal import read_lines
from epic_eval.report import Part, Table, Text
from epic_eval.stores import OURS, PEERS, K, encode


def measure(name: str, texts: Path, folder: Path) -> dict[str, Any]:
    """Measure one peer in this process, which should be a fresh one.

    Returns:
        Seconds of start and add; median milliseconds of a search, the query's encoding included; bytes on
        disk; the process's peak of RAM in bytes; share of questions whose evidence was found; calls of a language
        model while adding, and characters it was sent.
    """
    known = PEERS[name]
    content = json.loads(texts.read_text(encoding="utf-8"))
    # The encoder is the same for all: it is there before the clock starts.
    encode(["warm"])
    before = peak()
    importlib.import_module(known.module)
    imported = time.perf_counter()
    peer = known.make(folder)
    begun = time.perf_counter()
    peer.add(content["texts"])
    added = time.perf_counter()
    lm = getattr(peer, "llm", None)
    calls, characters = (lm.calls, lm.characters) if lm is not None else (0, 0)
    taken, found = [], []
    for query, evidence in content["queries"]:
        start = time.perf_counter()
        hits = peer.search(query)
        taken.append(time.perf_counter() - start)
        if evidence:
            found.append(any(text in hit for text in evidence for hit in hits))
    peer.close()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "start": begun - imported,
        "add": added - begun,
        "search": 1000 * statistics.median(taken),
        "bytes": size,
        "ram": peak() - before,
        "found": sum(found) / len(found) if found else None,
        "calls": calls,
        "characters": characters,
    }


def peak() -> float:
    """Return the most bytes of RAM that this process had; nan on Windows, which does not say."""
    try:
        import resource
    except ImportError:
        return math.nan
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def texts_of(data: Path, count: int) -> dict[str, Any]:
    """Return texts and queries: the turns of one conversation with questions about it, and passages around them.

    Args:
        data: The folder of docs/data.md; without conversations in it, the queries are the titles of passages.
        count: How many texts.
    """
    texts: list[str] = []
    queries: list[tuple[str, list[str]]] = []
    path = data / "locomo_conversations.json"
    if path.exists():
        conversation = json.loads(path.read_text(encoding="utf-8"))[0]
        turns = {turn["id"]: f"{turn['speaker']}: {turn['text']}" for turn in conversation["turns"]}
        texts += turns.values()
        for question in conversation["questions"]:
            evidence = [turns[turn] for turn in question["evidence"] if turn in turns]
            if evidence and question["category"] != 5:
                queries.append((question["question"], evidence))
    from epic_memory.text.chunking import WordChunker

    short = WordChunker(max_words=30)
    for file in [*sorted(data.glob("*passages.jsonl")), *sorted(data.glob("*answers.jsonl"))]:
        texts += [piece for _, chunk in read_passages(file) for piece in short.chunks(chunk)]
        queries += [] if path.exists() else [(record["title"], []) for record in read_lines(file)[:50]]
    return {"texts": list(dict.fromkeys(texts))[:count], "queries": queries[:100]}


def measure_all(
    data: Path,
    folder: Path,
    sizes: Sequence[int],
    *,
    names: Sequence[str],
    seconds: float,
    say: Callable[[str], object],
) -> dict[tuple[str, int], dict[str, Any] | str]:
    """Measure peers, each in a process of its own; what is not installed or fails is a reason in place of figures.

    Args:
        data: The data folder.
        folder: For their files, which are removed.
        sizes: Numbers of texts.
        names: Of `PEERS`.
        seconds: How long each may take.
        say: Is told how far it is.
    """
    import shutil

    folder.mkdir(parents=True, exist_ok=True)
    made: dict[tuple[str, int], dict[str, Any] | str] = {}
    path = next(iter(sorted((data / "personas").glob("*.json"))))
    blocks = json.loads(path.read_text(encoding="utf-8"))[0]["preference_blocks"]
    (folder / "preferences.txt").write_text("\n".join(block["preference"] for block in blocks), encoding="utf-8")
    for size in sizes:
        texts = folder / f"texts_{size}.json"
        texts.write_text(json.dumps(texts_of(data, size)), encoding="utf-8")
        for name in names:
            try:
                version(PEERS[name].package)
            except PackageNotFoundError:
                made[name, size] = "not installed"
                continue
            store = folder / "store"
            shutil.rmtree(store, ignore_errors=True)
            store.mkdir()
            command = [sys.executable, "-m", "epic_eval.peers", name, str(texts), str(store)]
            try:
                taken = min(_import_seconds(PEERS[name].module) for _ in range(3))
                done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
                lines = done.stdout.strip().splitlines()
                failed = (done.stderr.strip().splitlines() or ["no output"])[-1]
                good = done.returncode == 0 and lines
                made[name, size] = {**json.loads(lines[-1]), "import": taken} if good else f"failed: {failed}"
            except subprocess.TimeoutExpired:
                made[name, size] = f"more than {seconds:.0f} s"
            shutil.rmtree(store, ignore_errors=True)
            say(f"{name}, {size} texts: {made[name, size]}")
    return made


def _import_seconds(module: str) -> float:
    """Return how long a process that has imported nothing else takes to import a module."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def peers_report(made: dict[tuple[str, int], dict[str, Any] | str]) -> list[Part]:
    """Build a table for each size, with ratios to our file as a store of everything."""
    parts: list[Part] = [
        Text(
            "The same texts and the same encoder (static, 256 dimensions) for all, each in a process of its own. In"
            f" brackets: times the figure of {OURS!r}, in the same run; below 1 is better than ours. RAM is the peak"
            " above what the process had with the encoder loaded; import is that of a fresh process, the best of three."
            f" found: of LoCoMo's questions about one conversation, those whose evidence is among {K} texts. Model"
            " calls: while adding, with prompt tokens, a quarter of the characters; the scripted model answers at once"
            " and keeps every text, so a real one's time comes on top."
        )
    ]
    columns = (("add", "s"), ("search", "ms"), ("bytes", "MiB"), ("ram", "MiB"), ("import", "s"), ("start", "s"))
    for size in dict.fromkeys(size for _, size in made):
        ours, rows = made.get((OURS, size)), []
        for name in dict.fromkeys(name for name, _ in made):
            found = made[name, size]
            known = PEERS[name]
            if isinstance(found, str):
                rows.append((name, "-", found, *["-"] * (len(columns) + 1)))
                continue
            cells = []
            for key, unit in columns:
                value = found[key] / 2**20 if unit == "MiB" else found[key]
                base = ours[key] if isinstance(ours, dict) else 0
                ratio = f" ({found[key] / base:.2f})" if base else ""
                kept = key != "bytes" or found[key] > 0
                cells.append(f"{value:.2f}{ratio}" if kept else "none kept")
            share = "-" if found["found"] is None else f"{found['found']:.2f}"
            asked = f"{found['calls']:,} ({found['characters'] / 4e6:.2f} million)"
            rows.append((name, version(known.package), share, *cells, asked if found["calls"] else "0"))
        header = ("", "version", "found", *(f"{key} {unit}" for key, unit in columns), "model calls (tokens)")
        parts.append(Table(f"{size:,} texts", header, tuple(rows)))
    return parts


def main() -> None:
    """Measure the peer of the command line."""
    name, texts, folder = sys.argv[1:]
    sys.stdout.write(json.dumps(measure(name, Path(texts), Path(folder))) + "\n")


if __name__ == "__main__":
    main()
