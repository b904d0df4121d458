"""Reports of what a call did, what a memory holds, and why an item is in it or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from epic_memory.text.language import ADVICE, listed
from epic_memory.types.items import Item
from epic_memory.types.results import MemoryEntry
from epic_memory.types.validation import moment
from epic_memory.types.verdicts import Usage

if TYPE_CHECKING:
    from epic_learn.types import Edit


@dataclass(frozen=True, kw_only=True)
class NotKept:
    """An item that is not in the memory, and why.

    Attributes:
        item_id: The item's id.
        text: The beginning of its text.
        stage: "coarse filter", "verification", "budget" (it was held, and evicted) or "expired".
        reason: The reason, in words.
        preference: The text of the nearest preference, or of the one that the item was held for.
        similarity: Sim(E(x), E(p)) with that preference, in [-1, 1], if known.
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
    """Counts of rows and bytes of a memory.

    Attributes:
        counts: Of the namespace: "items", "light", "entries", "preferences", "pending", and "seen" (the items that its
            ledger knows). Of the whole memory: "verdicts" (cached ones). Expired rows count until they are removed.
        bytes: Of the whole memory, as the paper's Table 6: "documents" (texts, ids, metadata), "index" (embeddings of
            entries), "instructions" (with stances and rationales), "preferences" (texts and embeddings), "verdicts"
            (the cache of a language model's decisions), "ledger" (items seen but not held, and the records of why),
            "graph" (entities, and what passages say of them), "rest" (the database's own structure),
            and "total", their sum.
        encoder, verifier: Names.
        tau: The coarse filter's threshold.
        verified_by: The verifier with the language model that decided last, if there was one.
        budget: Bytes that "total" never exceeds, or None.
        unread: Preferences that a language model is still to read or to expand.
        model_use: What a language model with a daily budget was asked today, in words; None if nothing.
        searched: Whether texts are searched exactly or by an approximate index, and how many vectors there are; None
            until they are in RAM.
    """

    counts: dict[str, int]
    bytes: dict[str, int]
    encoder: str
    verifier: str
    tau: float
    verified_by: str | None = None
    budget: int | None = None
    unread: int = 0
    model_use: str | None = None
    searched: str | None = None

    @property
    def waiting(self) -> str:
        """The items and preferences that wait for a language model, in words; empty if none do."""
        parts = ((self.counts["pending"], "items to be verified"), (self.unread, "preferences to be read"))
        return ", ".join(f"{count} {what}" for count, what in parts if count)

    def _lines(self) -> Iterator[str]:
        for name, count in self.counts.items():
            if count or name in ("items", "entries", "preferences"):
                yield f"{name.replace('_', ' '):14}{count:>10}"
        for name, size in self.bytes.items():
            yield f"{name:14}{size:>10} bytes  {size / 1e6:8.4f} MB"
        yield f"{'encoder':14}{self.encoder}"
        yield f"{'verifier':14}{self.verifier}"
        if self.verified_by not in (None, self.verifier):
            yield f"{'verified by':14}{self.verified_by}"
        yield f"{'tau':14}{self.tau:.3f}"
        if self.budget is not None:
            yield f"{'budget':14}{self.budget:>10} bytes  {self.budget / 1e6:8.4f} MB"
        if self.model_use is not None:
            yield f"{'model':14}{self.model_use}"
        if self.searched is not None:
            yield f"{'searched':14}{self.searched}"
        if self.waiting:
            yield f"{'waiting':14}{self.waiting}"

    def __str__(self) -> str:
        return "\n".join(self._lines())


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The reasons why an item is in the memory.

    Attributes:
        item: The item.
        entries: Its entries, each with similarity, instruction, stance, rationale and confidence.
        note: If the item has no entries: that it is in the light tier, or that it is undecided and why.
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
            yield f"instruction  {entry.instruction or '(none)'}"

    def __str__(self) -> str:
        return "\n".join(self._lines())


@dataclass(kw_only=True)
class BuildReport:
    """Counts, timings and failures of one `add`. Counts are items unless they say otherwise.

    Attributes:
        seen: Items taken in: `duplicates`, `known`, those that the coarse filter left out, and `passed`.
        waiting: Duplicates that wait in the retry queue.
        duplicates: Items already held with the same text, or given twice in this call.
        known: Items discarded or evicted before, according to the ledger, and skipped.
        passed: Items that passed the coarse filter. passed = kept + discarded + undecided.
        kept, discarded, undecided: Decisions of fine verification.
        entries: Memory entries written; one item can have several.
        light: Items that the coarse filter left out or verification discarded, and that the light tier holds.
        kept_out: Items about a topic that is never kept (`memory.never`).
        no_room: Such items for which the light tier had no room, or that had to leave it.
        facts: Facts of the user that were written; `edits` says what each did to those that were held.
        evicted: Entries that were removed, or did not fit, because of the byte budget.
        history: Edits of facts that cannot be undone any more, because of the byte budget.
        read: Preferences whose liked and avoided phrases a language model has read.
        expanded: Preferences whose expansion a language model has written.
        tau: The coarse filter's threshold; None if the filter was off.
        timings: Seconds by part, as the paper's Table 3.
        usage: Calls, retries, tokens and seconds of the language model.
        cached: Verdicts on pairs of item and preference that came from the verdict cache.
        warnings: Likely problems, in words.
        failures: Why items are undecided: item id to reason, the first hundred.
        answers: Answers of a model that could not be understood: item id to answer, of the same hundred.
        unread: Preferences that a model was to read or to expand and did not, so that the parser's aspects or an
            expansion of the bundled library hold for now: text to reason.
        unusable: Parts of a conversation that could not be used, such as tool calls: reason to count.
        foreign: Items in languages that the encoder does not know, by ISO code; at most 200 items of a batch are
            examined.
        edits: For each fact, what it did: inserted, replaced, a duplicate, or the end of another.
    """

    seen: int = 0
    duplicates: int = 0
    known: int = 0
    waiting: int = 0
    passed: int = 0
    kept: int = 0
    discarded: int = 0
    undecided: int = 0
    entries: int = 0
    light: int = 0
    kept_out: int = 0
    no_room: int = 0
    facts: int = 0
    evicted: int = 0
    history: int = 0
    read: int = 0
    expanded: int = 0
    tau: float | None = None
    timings: dict[str, float] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    cached: int = 0
    warnings: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    unusable: dict[str, int] = field(default_factory=dict)
    foreign: dict[str, int] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)

    @property
    def new(self) -> int:
        """Items that were neither duplicates nor known."""
        return self.seen - self.duplicates - self.known

    @property
    def share_passed(self) -> float:
        """Share of the new items that passed the coarse filter, in [0, 1]."""
        return self.passed / self.new if self.new else 0.0

    @property
    def share_kept(self) -> float:
        """Share of the new items that were kept, in [0, 1]."""
        return self.kept / self.new if self.new else 0.0

    @property
    def seconds(self) -> float:
        """Seconds of all parts together."""
        return sum(self.timings.values())

    def _lines(self) -> Iterator[str]:
        yield from self._decisions()
        yield from self._beside()
        yield from self._costs()
        for warning in self.warnings:
            yield f"warning: {warning}"
        for reason, count in Counter(self.failures.values()).most_common(3):
            yield f"undecided ({count}): {reason}"
        for reason, count in Counter(self.unread.values()).most_common(3):
            yield f"not read ({count}): {reason}"

    def _decisions(self) -> Iterator[str]:
        tau = "off" if self.tau is None else f"tau {self.tau:.3f}"
        before = [f"{self.duplicates} already held"] if self.duplicates else []
        before += [f"{self.known} not kept before"] if self.known else []
        yield f"seen            {self.seen:>8}" + (f"   ({', '.join(before)})" if before else "")
        yield f"coarse filter   {self.passed:>8} passed   {self.share_passed:7.2%}   ({tau})"
        yield f"verification    {self.kept:>8} kept     {self.share_kept:7.2%}   ({self.entries} entries)"
        if self.undecided:
            yield f"undecided       {self.undecided:>8}   no verdict yet"
        if self.light or self.no_room:
            yield f"light tier      {self.light:>8} kept for their text" + (
                f"   ({self.no_room} had no room)" if self.no_room else ""
            )
        if self.kept_out:
            yield f"never kept      {self.kept_out:>8}   about a topic that is ruled out"

    def _beside(self) -> Iterator[str]:
        if self.edits:
            counted = Counter(edit.kind for edit in self.edits)
            done = ", ".join(f"{count} {kind}" for kind, count in counted.items())
            yield f"facts           {self.facts:>8} written   ({done})"
        if self.evicted or self.history:
            yield f"budget          {self.evicted:>8} entries evicted, {self.history} edits of facts dropped"
        if self.read or self.unread:
            yield f"aspects         {self.read:>8} preferences read, {len(self.unread)} not"
        if self.expanded:
            yield f"expansions      {self.expanded:>8} written"
        if self.unusable:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.unusable.items()))
            yield f"not used        {sum(self.unusable.values()):>8}   ({reasons})"
        if self.foreign:
            yield (
                f"foreign         {sum(self.foreign.values()):>8} or more in a language that the encoder does not know"
                f" ({listed(self.foreign.items())}): use {ADVICE}"
            )

    def _costs(self) -> Iterator[str]:
        if self.usage.calls:
            tried = f" ({self.usage.retries} again)" if self.usage.retries else ""
            yield (
                f"language model  {self.usage.calls:>8} calls{tried}   {self.usage.prompt_tokens} +"
                f" {self.usage.completion_tokens} tokens   {self.usage.seconds:.1f} s in calls"
            )
        if self.cached:
            yield f"verdict cache   {self.cached:>8} verdicts"
        parts = ", ".join(f"{part} {seconds:.3f}" for part, seconds in self.timings.items())
        yield f"seconds         {self.seconds:>8.3f}   ({parts})"

    def __str__(self) -> str:
        return "\n".join(self._lines())
