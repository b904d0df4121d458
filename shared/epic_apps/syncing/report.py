"""Report of a sync."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_MORE_ROOM = 'what helps: epic sync FILE --reserve "10 MB" (and a larger budget, if it has one)'


@dataclass(kw_only=True)
class SyncReport:
    """Report of a sync: what it changed, by the names of the files.

    Attributes:
        added, changed, deleted: Files.
        renamed: Old and new names of files with the same content.
        unchanged: How many files are as they were.
        kept, light: Items that were kept for a preference, and for their text only.
        kept_out: What was not taken in because it is never kept: reason to count.
        no_room: Files with texts that found no room in the memory; the next sync offers them again.
        proposed: Edits of an exported preferences.md, which wait for the user's decision.
        skipped: What holds no text, or is left out, such as links that lead out of the folder.
        failures: What should have been readable and was not; the memory holds of it what it held.
        seconds: How long it took.
    """

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0
    kept: int = 0
    light: int = 0
    kept_out: Counter[str] = field(default_factory=Counter)
    no_room: list[str] = field(default_factory=list)
    proposed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_empty(self) -> bool:
        """True if nothing changed."""
        return not (self.added or self.changed or self.renamed or self.deleted)

    def __str__(self) -> str:
        counts = {name: len(getattr(self, name)) for name in ("added", "changed", "renamed", "deleted")}
        told = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing changed"
        out = "".join(f"\nnever kept: {count} {reason}" for reason, count in self.kept_out.items())
        held = f"; {self.kept} items kept, {self.light} kept for their text" if self.kept or self.light else ""
        if self.no_room:
            out += f"\nno room: texts of {len(self.no_room)} files are not in the memory; {_MORE_ROOM}"
        return f"{told}, {self.unchanged} as before{held} ({self.seconds:.2f} s){out}"
