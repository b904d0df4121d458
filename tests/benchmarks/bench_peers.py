"""Peers: other stores for texts, each in a process of its own, with the same texts and the same encoder (extra: peers).

Printed and written as a report: a table for each number of texts, with ratios to our file as a store of everything.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import stores
from common import script_options
from epic_eval.datasets import read_passages
from epic_eval.journal import read_lines
from epic_eval.report import Part, Report, Table, Text, aligned
from epic_memory.text.chunking import WordChunker
from stores import OURS, PEERS, K


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
            command = [sys.executable, stores.__file__, name, str(texts), str(store)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
                lines = done.stdout.strip().splitlines()
                failed = (done.stderr.strip().splitlines() or ["no output"])[-1]
                good = done.returncode == 0 and lines
                made[name, size] = json.loads(lines[-1]) if good else f"failed: {failed}"
            except subprocess.TimeoutExpired:
                made[name, size] = f"more than {seconds:.0f} s"
            shutil.rmtree(store, ignore_errors=True)
            say(f"{name}, {size} texts: {made[name, size]}")
    return made


def peers_report(made: dict[tuple[str, int], dict[str, Any] | str]) -> list[Part]:
    """Build a table for each size, with ratios to our file as a store of everything."""
    parts: list[Part] = [
        Text(
            "The same texts and the same encoder (static, 256 dimensions) for all, each in a process of its own. In"
            f" brackets: times the figure of {OURS!r}, in the same run; below 1 is better than ours."
            f" found: of LoCoMo's questions about one conversation, those whose evidence is among {K} texts. Model"
            " calls: while adding, with prompt tokens, a quarter of the characters; the scripted model answers at once"
            " and keeps every text, so a real one's time comes on top."
        )
    ]
    columns = (("add", "s"), ("search", "ms"), ("bytes", "MiB"))
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
    options = script_options(__doc__, data=True, out="out", sizes=[1000, 10000], only=list(PEERS), seconds=600.0)
    work = Path(options.out) / "peers"
    found = measure_all(options.data, work, options.sizes, names=options.only, seconds=options.seconds, say=print)
    shutil.rmtree(work, ignore_errors=True)
    report = Report("Peers", peers_report(found))
    for part in report.parts:
        print(aligned(part) if isinstance(part, Table) else part.text)
    print(report.write(options.out, "peers"))


if __name__ == "__main__":
    main()
