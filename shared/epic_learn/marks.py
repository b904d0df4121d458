"""Marks of what was forgotten, so that a merge with a copy of the file does not bring it back.

A mark is six salted bytes in the table of the ledger. Marks are only ever added, so that files are merged by uniting
them: the second mark of a thing says that it was added again, the third that it was forgotten again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from epic_memory.storage.additions import Addition
from epic_memory.storage.memory_schema import LEDGER
from epic_memory.types.digests import DIGEST_BYTES, digest

# Of each kind and salt: a block of some marks in a row of the table.
_MOST, _IN_A_ROW = 4096, 256
_SALT = "salt"


class MarkTable(Addition):
    """Repository of marks: of "item ID", "preference ID", "version ID" of an item, and of what came in whose place."""

    statements, table = "", "ledger"

    def marks(self, namespace: str, kind: str = "gone") -> dict[str, list[bytes]]:
        """Return the marks by their salt, oldest first: the file's own, and those of files that were merged into it.

        Of the kind "from": the mark of a preference, and that of the first of those in whose place it came.
        """
        start, width = f"{namespace}\x1f{kind} ", 12 if kind == "from" else 6
        found: dict[str, list[bytes]] = {}
        for row in self.db.rows(LEDGER, "WHERE substr(namespace, 1, ?) = ? ORDER BY row", len(start), start):
            block, marks = row["digests"], found.setdefault(row["namespace"][len(start) :], [])
            marks += [block[place : place + width] for place in range(0, len(block), width)]
        return found

    def unite(self, namespace: str, salt: str, marks: Iterable[bytes], kind: str = "gone") -> None:
        """Add marks; beyond the most that are kept, the oldest leave."""
        known = self.marks(namespace, kind).get(salt, [])
        if new := sorted(set(marks) - set(known)):
            name, kept = f"{namespace}\x1f{kind} {salt}", [*known, *new][-_MOST:]
            self.delete("namespace = ?", name)
            for start in range(0, len(kept), _IN_A_ROW):
                self.db.insert(LEDGER, namespace=name, digests=b"".join(kept[start : start + _IN_A_ROW]))

    def start(self) -> None:
        """Make the salt, so that all copies of the file have the same."""
        self.salt()

    def salt(self) -> str:
        """Return the salt of the file and its copies, made if there is none."""
        found = self.db.meta_of(_SALT)
        if not isinstance(found, str):
            self.db.set_meta(**{_SALT: (found := secrets.token_hex(8))})
        return found

    def mark(self, namespace: str, keys: Sequence[str], *, gone: bool | None) -> None:
        """Mark things as forgotten; as added again if they were; or for None once more, whatever they are."""
        known = self.marks(namespace)
        for salt, marks in ({self.salt(): [], **known} if gone is not False else known).items():
            there = set(marks)
            levels = [(key, level_of(there, salt, key)) for key in dict.fromkeys(keys)]
            self.unite(namespace, salt, [mark_of(salt, key, level + 1) for key, level in levels if level % 2 != gone])

    def follow(self, namespace: str, old: str, new: str) -> None:
        """Mark a preference as forgotten for another, so that two that came in place of one are noticed."""
        self.mark(namespace, [f"preference {new}"], gone=False)
        for salt, marks in {self.salt(): [], **self.marks(namespace)}.items():
            first, mark = line_mark(set(marks), salt, old), line_mark(set(marks), salt, new)
            origins = {one[:6]: one[6:] for one in self.marks(namespace, "from").get(salt, [])}
            self.unite(namespace, salt, [mark + origins.get(first, first)], "from")
        self.mark(namespace, [f"preference {old}"], gone=True)


def mark_of(salt: str, key: str, level: int) -> bytes:
    """Return the mark of something that was forgotten, for the first time or once more, or is there again."""
    return digest(salt, key, str(level), size=DIGEST_BYTES)


def level_of(marks: AbstractSet[bytes], salt: str, key: str) -> int:
    """Return how many marks something has: it is forgotten if the number is odd."""
    level = 0
    while mark_of(salt, key, level + 1) in marks:
        level += 1
    return level


def line_mark(marks: AbstractSet[bytes], salt: str, preference_id: str) -> bytes:
    """Return the mark of a preference as it is held now, which has another one when it is added again."""
    return mark_of(salt, f"from {preference_id}", level_of(marks, salt, f"preference {preference_id}"))
