"""Demo with a bundled user, her saved notes and clippings, and the memory made of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from importlib.resources import files

from epic_core.cli.sources import Sources, read_preferences
from epic_core.memory import EpicMemory
from epic_core.text.chunking import WordChunker
from epic_core.types import Preference
from epic_core.types.preferences import Expansion

_DATA = files("epic_core") / "data"
_SHOWN = 2


def demo_preferences() -> list[Preference]:
    """Return the bundled preferences, each with an expansion as a language model would write it once."""
    expansions = (_DATA / "expansions.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Preference(text=preference.text, expansion=Expansion.from_json(json.loads(line)))
        for preference, line in zip(read_preferences(str(_DATA / "preferences.txt")), expansions, strict=True)
    ]


def run_demo(path: str | None = None) -> Iterator[str]:
    """Build a memory from the bundled corpus, ask the bundled questions, and yield the lines to print.

    Args:
        path: The file for the memory; default: only in RAM.
    """
    preferences = demo_preferences()
    questions = str((_DATA / "questions.txt").read_text(encoding="utf-8")).splitlines()
    yield f"Maya has {len(preferences)} preferences, expanded once by a language model:"
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

        kept = next((hit for question in questions for hit in memory.search(question, k=1) if hit.entries), None)
        if kept is not None:
            yield f"\nWhy was {kept.item.id} kept?"
            yield str(memory.explain(kept.item.id))
            yield "\nWhat a model is given:"
            yield memory.context(questions[0], k=1)
        yield "\nSizes"
        yield str(memory.stats())
        median = sorted(seconds)[len(seconds) // 2]
        yield f"\n{len(questions)} questions, median {median * 1000:.2f} ms each, query embedding included."
