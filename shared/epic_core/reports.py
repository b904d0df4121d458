"""What a memory says about itself: sizes, and why an item is in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from epic_core.types import Item, MemoryEntry, moment


@dataclass(frozen=True, kw_only=True)
class NotKept:
    """Something that is not in the memory, and why.

    Attributes:
        item_id: The item's id.
        text: The beginning of its text.
        stage: "coarse filter", "verification", "budget" (it was held, and evicted) or "expired".
        reason: In words.
        preference: The nearest preference, or the one it was held for; its text.
        similarity: Sim(E(x), E(p)) with it, in [-1, 1], where it is known.
        at: When, in Unix seconds.
    """

    item_id: str
    text: str
    stage: str
    reason: str
    preference: str = ""
    similarity: float | None = None
    at: float = 0.0

    @property
    def why(self) -> str:
        """Stage, reason and nearest preference, in one sentence."""
        near = f" (similarity {self.similarity:.3f} with {self.preference!r})" if self.similarity is not None else ""
        return f"{self.stage}: {self.reason}{near}"

    def __str__(self) -> str:
        return f"{moment(self.at):%Y-%m-%d %H:%M}  {self.why}\n    {self.item_id}: {self.text}"


@dataclass(frozen=True, kw_only=True)
class Stats:
    """Counts and bytes.

    Attributes:
        counts: "items", "light", "entries", "preferences", "pending" of the namespace, "seen" (how many items its
            ledger knows); "verdicts" that are cached, of the whole memory. What has expired counts until it is removed.
        bytes: Of the whole memory, as the paper's Table 6: "documents" (texts, ids, metadata), "index"
            (embeddings of entries), "instructions" (with stances and rationales), "preferences" (texts
            and embeddings), "verdicts" (the cache of what a language model decided), "ledger" (what was seen and is not
            held, with the records of it), "graph" (entities, their embeddings, and what passages say of them), "rest"
            (the database's own structure), and "total", their sum.
        encoder, verifier: Names.
        tau: The coarse filter's threshold.
        verified_by: The verifier of the language model that decided last, if one did.
        budget: Bytes that "total" never exceeds, or None.
    """

    counts: dict[str, int]
    bytes: dict[str, int]
    encoder: str
    verifier: str
    tau: float
    verified_by: str | None = None
    budget: int | None = None

    def _lines(self) -> Iterator[str]:
        for name, count in self.counts.items():
            if count or name in ("items", "entries", "preferences"):
                yield f"{name.replace('_', ' '):14}{count:>10}"
        for name, size in self.bytes.items():
            yield f"{name:14}{size:>10} bytes  {size / 1e6:8.4f} MB"
        yield f"{'encoder':14}{self.encoder}"
        yield f"{'verifier':14}{self.verifier}"
        yield f"{'tau':14}{self.tau:.3f}"
        if self.budget is not None:
            yield f"{'budget':14}{self.budget:>10} bytes  {self.budget / 1e6:8.4f} MB"

    def __str__(self) -> str:
        return "\n".join(self._lines())


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why an item is in the memory.

    Attributes:
        item: The item.
        entries: Its entries, each with similarity, instruction, stance, rationale and confidence.
        note: Where the item has no entries: that it is in the light tier, or undecided and why.
    """

    item: Item
    entries: tuple[MemoryEntry, ...]
    note: str = ""

    def _lines(self) -> Iterator[str]:
        yield f"{self.item.id}: {self.item.text}"
        if self.item.metadata:
            yield f"metadata     {dict(self.item.metadata)}"
        if self.note:
            yield self.note
        for entry in self.entries:
            yield ""
            yield f"preference   {entry.preference or '(none)'}"
            yield f"similarity   {entry.similarity:.3f}"
            yield f"stance       {entry.stance}"
            yield f"confidence   {'unknown' if entry.confidence is None else format(entry.confidence, '.2f')}"
            yield f"rationale    {entry.rationale or '(fine verification was off)'}"
            if entry.rewrite:
                yield f"rewritten    {entry.rewrite}"
            else:
                yield f"instruction  {entry.instruction or '(none)'}"

    def __str__(self) -> str:
        return "\n".join(self._lines())
