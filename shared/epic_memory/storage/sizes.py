"""Sizes of the parts of a memory in its file, in bytes, as in the paper's Table 6."""

from __future__ import annotations

from itertools import chain

from epic_memory.errors import StoreError
from epic_memory.storage.store import Store

# The part that a table's bytes belong to, unless an addition says it, and those of its columns that belong to another.
_PART_OF = {
    "items": "documents",
    "pending": "documents",
    "entries": "instructions",
    "preferences": "preferences",
    "verdicts": "verdicts",
    "ledger": "ledger",
    "not_kept": "ledger",
}
_APART = {("items", "embedding"): "index", ("entries", "vector"): "index"}
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
        for table in _parts(store):
            shares = _shares(store, table)
            whole = sum(shares.values())
            if not whole:
                continue
            octets = pages.get(table, 0) * page
            for part, share in shares.items():
                made[part] += octets * share // whole
    total = max(count * page, store.file_bytes())
    made["rest"] = total - sum(made.values())
    return {**made, "total": total}


def _parts(store: Store) -> dict[str, str]:
    return _PART_OF | {name: each.part for each in store.additions for name in each.tables if each.part != "rest"}


def _shares(store: Store, table: str) -> dict[str, int]:
    """Return the bytes of a table's texts and blobs by part; of one that has neither, the number of its rows."""
    columns = store.read("SELECT name FROM pragma_table_info(?) WHERE type IN ('TEXT', 'BLOB', '')", (table,))
    parts, sizes_of = _parts(store), dict[str, list[str]]()
    for (name,) in columns:
        part = _APART.get((table, name), parts[table])
        sizes_of.setdefault(part, []).append(f"coalesce(sum(length(CAST({name} AS BLOB))), 0)")
    sums = {part: " + ".join(each) for part, each in sizes_of.items()} or {parts[table]: "count(*)"}
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
    octets = {table: sum(_shares(store, table).values()) for table in _parts(store)}
    whole = sum(chain(octets.values(), [1]))
    return {table: (count - free) * size // whole for table, size in octets.items()}
