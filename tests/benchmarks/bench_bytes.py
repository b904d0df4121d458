"""Bytes of one persona's state in one file, against what the published way writes for the same entries.

The published way: the instructions' embeddings as float32 in a FAISS IndexFlatIP file and once more in a .npy file, and
a JSONL file with document, instruction, preference and rationale of each entry. All three are really written, from the
same entries with the same encoder. Our file holds these too, and ids, metadata, stances, the preferences, checksums,
the SQL indexes and the ledger of what was not kept.

First comes one persona over all passages and answers, as a memory with default settings has it: what is kept, in which
time, and how big the file is with the light tier.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import personas, script_options, sources
from epic_memory import EpicMemory, Settings

PARTS = ("instruction", "preference", "rationale")
# The personas of PrefEval have the same preferences as those of PrefWiki.
SETS = ("PrefWiki", "PrefRQ", "PrefELI5")


class Sizes(NamedTuple):
    """How much a state holds, and the bytes of our closed file and of the published way's three files."""

    entries: int
    items: int
    ours: int
    published: list[int]

    @property
    def ratio(self) -> float:
        return self.ours / sum(self.published)


def published_way(folder: Path, entries: list[dict[str, str]], vectors: np.ndarray) -> list[int]:
    """Write what the published way writes; the bytes of its files."""
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    files = [folder / name for name in ("index.faiss", "embeddings.npy", "kept.jsonl")]
    faiss.write_index(index, str(files[0]))
    np.save(files[1], vectors)
    files[2].write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return [file.stat().st_size for file in files]


def measured(folder: Path, preferences: list[str], items: Any, limit: int | None) -> Sizes:
    """Build one state, write it the published way too, and weigh both."""
    path = folder / "persona.epic"
    with EpicMemory.open(path, preferences, settings=Settings(reserve=0)) as memory:
        if limit is None:
            memory.add(items)
        else:
            coming, held = iter(items), 0
            while held < limit and (item := next(coming, None)) is not None:
                held += memory.add(item).entries
        kept = memory.items()
        entries = [
            {"document": item.text} | {part: str(getattr(entry, part)) for part in PARTS}
            for item in kept
            for entry in memory.explain(item.id).entries
        ]
        vectors = memory.encoder.encode([entry["instruction"] for entry in entries])
    made = Sizes(len(entries), len(kept), path.stat().st_size, published_way(folder, entries, vectors))
    path.unlink()
    return made


def print_persona(path: Path, preferences: list[str], items: Any) -> None:
    started = time.perf_counter()
    with EpicMemory.open(path, preferences) as memory:
        print(memory.add(items))
        print(f"whole run {time.perf_counter() - started:.2f} s")
        print(memory.stats())
    print(f"file after close: {path.stat().st_size} bytes\n")
    path.unlink()


def main() -> None:
    options = script_options(__doc__, data=True, personas=6, limit=50)
    items = list(sources(options.data))
    first = list(dict.fromkeys(preference for preference, _ in personas(options.data, SETS[0])[0]))
    columns = "".join(f" {name:>9}" for name in ("ours", "faiss", "npy", "jsonl", "published"))
    with tempfile.TemporaryDirectory() as folder:
        print_persona(Path(folder) / "persona.epic", first, items)
        print(f"{'persona':14} {'entries':>6} {'items':>6}{columns} {'ratio':>6}")
        for limit in (options.limit, None):
            ratios = []
            for name in SETS:
                for number, persona in enumerate(personas(options.data, name)[: options.personas if limit else 1]):
                    preferences = list(dict.fromkeys(preference for preference, _ in persona))
                    sizes = measured(Path(folder), preferences, items, limit)
                    if limit and sizes.entries < limit:
                        continue  # it keeps fewer of everything there is
                    files = "".join(f" {size:9}" for size in (sizes.ours, *sizes.published, sum(sizes.published)))
                    line = f"{f'{name} {number}':14} {sizes.entries:6} {sizes.items:6}{files} {sizes.ratio:6.3f}"
                    print(line, flush=True)
                    ratios.append(sizes.ratio)
            median = statistics.median(ratios)
            print(f"  ours to published: median {median:.3f}, {min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()
