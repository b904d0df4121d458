"""Bytes of one persona's state in one file, against what the published way writes for the same entries.

The published way: the instructions' embeddings as float32 in a FAISS IndexFlatIP file and once more in a .npy file, and
a JSONL file with document, instruction, preference and rationale of each entry. All three are really written, from the
same entries with the same encoder. Beside it a variant without the rationales, which the published code need not keep.
Our file holds these too, and ids, metadata, stances, the preferences, checksums, the SQL indexes and the ledger of what
was not kept. Then where our bytes are: `stats()` by part, against the pages that SQLite's `dbstat` counts.
"""

from __future__ import annotations

import json
import re
import sqlite3
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import parse, parser, personas
from epic_apps.cli.sources import Sources
from epic_memory import EpicMemory, Settings

GOAL = 0.5
# Parts of `stats()` that together are all the bytes of some tables.
TOGETHER = {
    ("documents", "index", "instructions"): ("items", "entries", "pending"),
    ("preferences",): ("preferences",),
    ("ledger",): ("ledger", "not_kept"),
}
# The personas of PrefEval have the same preferences as those of PrefWiki.
SETS = ("PrefWiki", "PrefRQ", "PrefELI5")


@dataclass
class Sizes:
    """Bytes of one state.

    Attributes:
        entries, items: How many.
        ours: The closed file.
        index, vectors, lines, bare: The published way's FAISS file, .npy file, JSONL with and without rationales.
        parts: `stats().bytes` before closing.
        tables: Table or index name to pages, bytes of content and bytes unused in them.
        page: Bytes of a page.
    """

    entries: int
    items: int
    ours: int
    index: int
    vectors: int
    lines: int
    bare: int
    parts: dict[str, int]
    tables: dict[str, tuple[int, int, int]]
    page: int

    @property
    def published(self) -> int:
        """Bytes of the published way, rationales included."""
        return self.index + self.vectors + self.lines

    @property
    def without_rationales(self) -> int:
        """The same without them."""
        return self.index + self.vectors + self.bare


def published_way(folder: Path, entries: list[dict[str, str]], vectors: np.ndarray) -> tuple[int, int, int, int]:
    """Write what the published way writes; the bytes of its files, and of the lines without rationales."""
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    faiss.write_index(index, str(folder / "index.faiss"))
    np.save(folder / "embeddings.npy", vectors)
    for name, left_out in (("kept.jsonl", ""), ("bare.jsonl", "rationale")):
        with (folder / name).open("w", encoding="utf-8") as lines:
            for entry in entries:
                lines.write(json.dumps({key: value for key, value in entry.items() if key != left_out}) + "\n")
    names = ("index.faiss", "embeddings.npy", "kept.jsonl", "bare.jsonl")
    index_bytes, vector_bytes, lines_bytes, bare_bytes = ((folder / name).stat().st_size for name in names)
    return index_bytes, vector_bytes, lines_bytes, bare_bytes


def entries_of(memory: EpicMemory) -> list[dict[str, str]]:
    """Document, instruction, preference and rationale of every entry held."""
    state = memory._session
    found = []
    for item in state.store.items.all(state.namespace):
        found += [
            {
                "document": item.text,
                "instruction": entry.instruction,
                "preference": entry.preference,
                "rationale": entry.rationale,
            }
            for entry in memory.explain(item.id).entries
        ]
    return found


def measured(folder: Path, preferences: list[str], items: Any, limit: int | None) -> Sizes:
    """Build one state, write it the published way too, and weigh both."""
    path = folder / "persona.epic"
    with EpicMemory.open(path, preferences, settings=Settings(reserve=0)) as memory:
        if limit is None:
            memory.add(items)
        else:
            held = 0
            for item in items:
                if held >= limit:
                    break
                held += memory.add(item).entries
        entries = entries_of(memory)
        stats = memory.stats()
        assert len(entries) == stats.counts["entries"], "the entries listed are not all that are held"
        vectors = memory.encoder.encode([entry["instruction"] for entry in entries])
    index, npy, lines, bare = published_way(folder, entries, vectors)
    made = Sizes(
        entries=len(entries),
        items=stats.counts["items"],
        ours=path.stat().st_size,
        index=index,
        vectors=npy,
        lines=lines,
        bare=bare,
        parts=stats.bytes,
        tables=_tables(path),
        page=_page(path),
    )
    path.unlink()
    return made


def _tables(path: Path) -> dict[str, tuple[int, int, int]]:
    """Pages, content and unused bytes of each table and index; empty where SQLite has no `dbstat`."""
    db = sqlite3.connect(path)
    try:
        found = db.execute("SELECT name, count(*), sum(payload), sum(unused) FROM dbstat GROUP BY name").fetchall()
    except sqlite3.OperationalError:
        return {}
    finally:
        db.close()
    return {str(name): (int(pages), int(payload), int(unused)) for name, pages, payload, unused in found}


def _page(path: Path) -> int:
    db = sqlite3.connect(path)
    try:
        return int(db.execute("PRAGMA page_size").fetchone()[0])
    finally:
        db.close()


def _owner(name: str) -> str:
    """The table of an index."""
    return re.sub(r"^sqlite_autoindex_(\w+)_\d+$", r"\1", name).replace("entries_preference", "entries")


def line(name: str, sizes: Sizes) -> str:
    """One row of the table."""
    ratio, bare = sizes.ours / sizes.published, sizes.ours / sizes.without_rationales
    said = "" if ratio <= GOAL else "  MORE THAN HALF"
    return (
        f"{name:14} {sizes.entries:6} {sizes.items:6} {sizes.ours:9} {sizes.index:9} {sizes.vectors:9} {sizes.lines:9}"
        f" {sizes.published:9} {ratio:6.3f} {bare:8.3f}{said}"
    )


def parts(sizes: Sizes) -> None:
    """Where our bytes are, and whether `stats()` says so."""
    total = sum(size for part, size in sizes.parts.items() if part != "total")
    print(f"  stats(): total {sizes.parts['total']}, its parts together {total}; the closed file {sizes.ours}")
    print(f"  difference to the file {abs(sizes.parts['total'] - sizes.ours) / sizes.ours:.2%} (at most 5 %)")
    for part, size in sizes.parts.items():
        if size and part != "total":
            print(f"    {part:14} {size:9}  {size / sizes.parts['total']:6.1%}  {size / sizes.entries:7.1f} an entry")
    if not sizes.tables:
        print("  this SQLite has no dbstat")
        return
    print(f"  dbstat, pages of {sizes.page} bytes:")
    for name, (pages, payload, unused) in sorted(sizes.tables.items(), key=lambda each: -each[1][0]):
        octets = pages * sizes.page
        print(f"    {name:32} {octets:9} bytes, content {payload:9}, unused {unused:8}, {octets / sizes.ours:6.1%}")
    for named, owners in TOGETHER.items():
        said = sum(sizes.parts[part] for part in named)
        there = sum(pages for name, (pages, _, _) in sizes.tables.items() if _owner(name) in owners) * sizes.page
        print(
            f"    stats() says {said} of {' + '.join(named)}, the closed file's pages {there}:"
            f" {abs(said - there) / sizes.ours:.2%} of the file apart (at most 5 %)"
        )
    counted = sum(pages for pages, _, _ in sizes.tables.values()) * sizes.page
    print(f"    together {counted}, {sizes.ours - counted} less than the file: its free pages and its map of pages")


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--personas", type=int, default=6, help="of each set for the small states; the large: the first")
    made.add_argument("--limit", type=int, default=50, help="entries of a small state")
    made.add_argument("--parts", action="store_true", help="where the bytes are, of every state and not of the first")
    options = parse(made)
    items = list(Sources([options.data / "wiki_passages.jsonl", options.data / "assistant_answers.jsonl"]))
    print(
        f"{'persona':14} {'entries':>6} {'items':>6} {'ours':>9} {'faiss':>9} {'npy':>9} {'jsonl':>9}"
        f" {'published':>9} {'ratio':>6} {'no rat.':>8}"
    )
    shown: list[tuple[str, Sizes]] = []
    with tempfile.TemporaryDirectory() as folder:
        for limit in (options.limit, None):
            ratios: list[tuple[float, float]] = []
            for name in SETS:
                chosen = personas(options.data, name)
                for number, persona in enumerate(chosen[: options.personas if limit else 1]):
                    preferences = list(dict.fromkeys(preference for preference, _ in persona))
                    sizes = measured(Path(folder), preferences, items, limit)
                    if limit and sizes.entries < limit:
                        continue  # it keeps fewer of everything there is
                    print(line(f"{name} {number}", sizes), flush=True)
                    ratios.append((sizes.ours / sizes.published, sizes.ours / sizes.without_rationales))
                    if options.parts or not ratios[1:]:
                        shown.append((f"{name} {number}, {sizes.entries} entries", sizes))
            for what, column in (("with", 0), ("without", 1)):
                found = [ratio[column] for ratio in ratios]
                print(
                    f"  ours to published {what} rationales: median {statistics.median(found):.3f}, {min(found):.3f} to"
                    f" {max(found):.3f} (at most {GOAL})"
                )
    for name, sizes in shown:
        print(f"\n{name}:")
        parts(sizes)


if __name__ == "__main__":
    main()
