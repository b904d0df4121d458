"""The demo: a bundled user, her saved notes and clippings, and what a memory makes of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.resources import files

from epic_core.chunking import WordChunker
from epic_core.memory import EpicMemory
from epic_core.sources import Sources, read_preferences

_DATA = files("epic_core") / "data"
_SHOWN = 2


def run_demo(path: str | None = None) -> Iterator[str]:
    """Build a memory from the bundled corpus, ask the bundled questions; lines to print as they come.

    Args:
        path: Where to keep the memory; default: only in RAM.
    """
    preferences = read_preferences(str(_DATA / "preferences.txt"))
    questions = str((_DATA / "questions.txt").read_text(encoding="utf-8")).splitlines()
    yield f"Maya has {len(preferences)} preferences:"
    yield from (f"  {preference}" for preference in preferences)

    started = time.perf_counter()
    memory = EpicMemory(preferences) if path is None else EpicMemory.open(path, preferences)
    with memory:
        loaded = time.perf_counter()
        report = memory.add(Sources([str(_DATA / "corpus.jsonl")], chunker=WordChunker()))
        yield f"\nBuilding (encoder and preferences ready in {loaded - started:.2f} s)"
        yield str(report)

        seconds = []
        for question in questions:
            begun = time.perf_counter()
            hits = memory.search(question, k=_SHOWN)
            seconds.append(time.perf_counter() - begun)
            yield f"\n{question}"
            for hit in hits:
                yield f"  {hit.score:5.2f}  {hit.item.text[:96]}..."
                yield f"         {hit.stances[0]}: {hit.preferences[0]}" if hit.entries else f"         {hit.tier}"
            if not hits:
                yield "  nothing in memory"

        kept = memory.search(questions[0], k=1)
        if kept:
            yield f"\nWhy was {kept[0].item.id} kept?"
            yield str(memory.explain(kept[0].item.id))
            yield "\nWhat a model is given:"
            yield memory.context(questions[0], k=1)
        yield "\nSizes"
        yield str(memory.stats())
        median = sorted(seconds)[len(seconds) // 2]
        yield f"\n{len(questions)} questions, median {median * 1000:.2f} ms each, query embedding included."
