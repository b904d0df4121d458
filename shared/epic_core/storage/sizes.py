"""Sizes of the parts of a memory in its file, in bytes, as in the paper's Table 6."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from epic_core.errors import StoreError
from epic_core.storage.store import Store

# For each table, the part that the bytes of each column belong to.
_PARTS: dict[str, dict[str, str]] = {
    "items": {
        "documents": "id namespace digest metadata text rewrite rewritten_for",
        "index": "embedding",
    },
    "entries": {"index": "vector", "instructions": "instruction rationale stance"},
    "preferences": {"preferences": "namespace id text aspects vector"},
    "edits": {"documents": "namespace item old reason texts"},
    "proposals": {"preferences": "namespace id said state kind text old quote source"},
    "learnt": {"preferences": "namespace kind value"},
    "pending": {"documents": "namespace id text metadata reason preferences"},
    "verdicts": {"verdicts": "chunk preference version stance instruction rationale"},
    "rewrites": {"verdicts": "chunk preferences version text"},
    "ledger": {"ledger": "namespace digests"},
    "not_kept": {"ledger": "namespace id digest stage reason preference text"},
    "uses": {"instructions": ""},
    "entities": {"graph": "namespace name key near vector"},
    "passages": {"graph": "item entities facts relations failure"},
}
PARTS = ("documents", "index", "instructions", "preferences", "verdicts", "ledger", "graph", "rest")


def sizes(store: Store) -> dict[str, int]:
    """Return the bytes of the whole file by part, and "total", which is its size on disk.

    A table's pages, including those of its SQL indexes, are assigned to the parts in proportion to the bytes of their
    columns. "rest" belongs to no part: the description, the schema, free pages.

    Raises:
        DamagedError: if a row is not as it was written; its bytes could count to another part.
    """
    count, _, page = store.pages()
    made = dict.fromkeys(PARTS, 0)
    with store.reading():
        store.check_rows()
        pages = _pages(store)
        for table, columns in _PARTS.items():
            shares = _shares(store, table, columns)
            whole = sum(shares.values())
            if not whole:
                continue
            octets = pages.get(table, 0) * page
            for part, share in shares.items():
                made[part] += octets * share // whole
    total = max(count * page, store.file_bytes())
    made["rest"] = total - sum(made.values())
    return {**made, "total": total}


def _shares(store: Store, table: str, columns: Mapping[str, str]) -> dict[str, int]:
    """Return the bytes of a table's columns by part."""
    sums = {
        part: " + ".join(f"coalesce(sum(length(CAST({name} AS BLOB))), 0)" for name in names.split()) or "count(*)"
        for part, names in columns.items()
    }
    row = store.read(f"SELECT {', '.join(sums.values())} FROM {table}")[0]
    return dict(zip(sums, map(int, row), strict=True))


def _pages(store: Store) -> dict[str, int]:
    """Return the pages of each table with its indexes."""
    owner = dict(store.read("SELECT name, tbl_name FROM main.sqlite_master WHERE type IN ('table', 'index')"))
    try:
        found = store.read("SELECT name, count(*) FROM dbstat GROUP BY name")
    except StoreError:
        # This SQLite has no `dbstat`: estimate by bytes, as if all pages were equally full.
        return _estimated(store)
    pages: dict[str, int] = {}
    for name, count in found:
        table = owner.get(name, name)
        pages[table] = pages.get(table, 0) + int(count)
    return pages


def _estimated(store: Store) -> dict[str, int]:
    count, free, _ = store.pages()
    octets = {table: sum(_shares(store, table, columns).values()) for table, columns in _PARTS.items()}
    whole = sum(chain(octets.values(), [1]))
    return {table: (count - free) * size // whole for table, size in octets.items()}
