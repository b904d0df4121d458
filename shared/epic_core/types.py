"""The words of EPIC as types: items, preferences, verdicts, memory entries, hits and reports.

The types are framework-free, and all but the two results, `Hits` and `BuildReport`, are frozen.
Scores and similarities are cosines as Python floats,
higher is better.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epic_core.aspects import Aspects, Expansion
from epic_core.errors import InvalidInputError
from epic_core.text.language import ADVICE, listed

FloatArray: TypeAlias = NDArray[np.float32]
"""A float32 array; embeddings are `(n, d)` or `(d,)`."""

_NAMESPACE = uuid.UUID("6f3f7a52-8d0e-5c66-9a3e-6570696331f0")


def stable_id(*parts: str) -> str:
    """A deterministic uuid5 for a sequence of strings."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(parts)))


class Stance(str, Enum):
    """How an item stands to a preference."""

    SUPPORTS = "supports"
    CONFLICTS = "conflicts"
    MIXED = "mixed"
    NEUTRAL = "neutral"

    def __str__(self) -> str:
        return self.value


class Decision(str, Enum):
    """What fine verification decides about an item. A failed model call is Undecided, never Discard."""

    KEEP = "Keep"
    DISCARD = "Discard"
    UNDECIDED = "Undecided"

    def __str__(self) -> str:
        return self.value


def checked_k(k: object, name: str = "k") -> int:
    """How many results are wanted; `name` is what the argument is called, for the error.

    Raises:
        InvalidInputError: for anything but a whole number of at least 1.
    """
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise InvalidInputError(f"{name} must be a whole number of at least 1, not {k!r}.")
    return int(k)


def checked_string(text: object, what: str) -> str:
    """The text, if it is a string that can be written as UTF-8, whatever it says.

    Raises:
        InvalidInputError: for anything else.
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} must be a string, not {type(text).__name__}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{what} is not valid Unicode ({error.reason}). Decode it anew.") from None
    return text


def checked_text(text: object, what: str) -> str:
    """The text, if it is text and not empty.

    Raises:
        InvalidInputError: for what is no string, is empty, or cannot be written as UTF-8.
    """
    text = checked_string(text, what)
    if not text.strip():
        raise InvalidInputError(f"{what} is empty. Leave it out, or give it some text.")
    if "\x00" in text:
        raise InvalidInputError(f"{what} contains a NUL character. Remove it, it is not text.")
    return text


@dataclass(frozen=True, kw_only=True)
class Item:
    """One chunk of text that may enter the memory.

    Attributes:
        text: The text, not empty.
        id: Unique within a namespace. Default: a uuid5 of the text, so the same text is the same item.
        metadata: Flat, JSON-compatible values; what filters test.

    Raises:
        InvalidInputError: for empty text, an empty id, or metadata that is no mapping of strings.
    """

    text: str
    id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        checked_text(self.text, "The text of an item")
        if self.id != "":
            checked_text(self.id, "The id of an item")
        if not isinstance(self.metadata, Mapping) or not all(isinstance(key, str) for key in self.metadata):
            raise InvalidInputError("The metadata of an item must be a mapping with string keys.")
        object.__setattr__(self, "id", self.id or stable_id("item", self.text))
        object.__setattr__(self, "metadata", dict(self.metadata))

    @classmethod
    def of(cls, value: str | Item) -> Item:
        """The item itself, or one made of a text."""
        if isinstance(value, Item):
            return value
        return cls(text=checked_text(value, "An item"))


def moment(seconds: float) -> datetime:
    """A point in time, in UTC, by its Unix seconds."""
    return datetime.fromtimestamp(seconds, timezone.utc)


def checked_moment(value: object) -> datetime:
    """A point in time with its zone, given as one or as ISO 8601 text.

    Raises:
        InvalidInputError: for anything else.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            raise InvalidInputError(f"{value!r} is no date. Write it like 2027-03-31T12:00:00+01:00.") from None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidInputError(
            f"expires_at must be a datetime with a time zone, or text like 2027-03-31T12:00:00+01:00; not {value!r}."
        )
    try:
        return moment(value.timestamp())
    except (OverflowError, ValueError, OSError):
        raise InvalidInputError(f"expires_at {value!r} is out of range.") from None


def checked_aspects(value: object) -> Aspects:
    """Aspects, given as such or as `Aspects.as_json` has them.

    Raises:
        InvalidInputError: for anything else, or phrases that cannot be stored.
    """
    aspects = value if isinstance(value, Aspects) else Aspects.from_json(value)
    for phrase in (*aspects.liked, *aspects.avoided):
        checked_text(phrase, "A phrase of aspects")
    if aspects.scope:
        checked_text(aspects.scope, "The scope of aspects")
    return aspects


def checked_expansion(value: object) -> Expansion:
    """The expansion, given as such or as `Expansion.as_json` has it.

    Raises:
        InvalidInputError: for anything else, or phrases that cannot be stored.
    """
    expansion = value if isinstance(value, Expansion) else Expansion.from_json(value)
    for phrase in (*expansion.questions, *expansion.follows, *expansion.breaks):
        checked_text(phrase, "A phrase of an expansion")
    return expansion


@dataclass(frozen=True, kw_only=True)
class Preference:
    """One stated preference, such as "I avoid hotels with on-site casinos."

    Attributes:
        text: The statement, not empty; surrounding white space is removed.
        id: A uuid5 of the text, blind to case and to the amount of white space.
        expires_at: When it stops to count, a datetime with its zone or ISO 8601 text; None for never. From then on it
            neither steers nor matches, its entries are not found, and the next change of the memory removes it.
        aspects: What it likes and avoids, `Aspects` or their JSON; None: read from the words. They are no part of the
            id.
        expansion: What it means in practice, an `Expansion` or its JSON; None: borrowed from the bundled library, or
            written by a model where there is one. No part of the id either.

    Raises:
        InvalidInputError: for an empty text, an `expires_at` without a zone, or aspects or an expansion that are none.
    """

    text: str
    id: str = ""
    expires_at: datetime | None = None
    aspects: Aspects | None = None
    expansion: Expansion | None = None

    def __post_init__(self) -> None:
        if self.aspects is not None:
            aspects = checked_aspects(self.aspects)
            # That nobody has read it is no reading.
            object.__setattr__(self, "aspects", aspects if aspects.understood else None)
        if self.expansion is not None:
            object.__setattr__(self, "expansion", checked_expansion(self.expansion))
        if self.expires_at is not None:
            object.__setattr__(self, "expires_at", checked_moment(self.expires_at))
        text = checked_text(self.text, "A preference").strip()
        if self.id != "":
            checked_text(self.id, "The id of a preference")
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "id", self.id or stable_id("preference", self._plain()))

    def __str__(self) -> str:
        return self.text

    def _plain(self) -> str:
        return " ".join(self.text.split()).casefold()

    @property
    def expired(self) -> bool:
        """Whether it does not count any more."""
        return self.expires_at is not None and self.expires_at.timestamp() <= time.time()

    def means(self, other: Preference) -> bool:
        """Whether another states the same, but for case and white space."""
        return self._plain() == other._plain()

    def as_json(self) -> Any:
        """Its text, where that says it all; else text, id, the time when it expires, aspects and expansion if any."""
        return self.text if self == Preference(text=self.text) else self.as_object()

    def as_object(self) -> dict[str, Any]:
        """As `as_json`, with all that is stated: what the constructor takes."""
        ends = None if self.expires_at is None else self.expires_at.isoformat()
        stated: dict[str, Any] = {"text": self.text, "id": self.id, "expires_at": ends}
        if self.aspects is not None:
            stated["aspects"] = self.aspects.as_json()
        if self.expansion is not None:
            stated["expansion"] = self.expansion.as_json()
        return stated

    @classmethod
    def of(cls, value: str | Preference) -> Preference:
        """The preference itself, or one made of a text."""
        return value if isinstance(value, Preference) else cls(text=value)


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """What fine verification says of an item under one preference (section 3.2 of the paper).

    Attributes:
        preference_id: The preference.
        instruction: i_x(p), how and when to use the item under the preference.
        stance: Whether the item supports the preference, conflicts with it, both, or neither.
        confidence: In [0, 1], or None where the verifier has none.
        rationale: Why, under this preference; empty where the verdict's says it all.
    """

    preference_id: str
    instruction: str
    stance: Stance = Stance.NEUTRAL
    confidence: float | None = None
    rationale: str = ""


@dataclass(kw_only=True)
class Usage:
    """What a language model was used for something.

    Attributes:
        calls: Requests sent, those that failed included.
        retries: Requests sent because an earlier one failed, or could not be understood.
        prompt_tokens, completion_tokens: As the server counts them.
        seconds: Spent in calls; of calls at the same time, all.
    """

    calls: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def add(self, other: Usage) -> None:
        """Count another usage in."""
        self.calls += other.calls
        self.retries += other.retries
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.seconds += other.seconds


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The Decision Module's answer for one item.

    Attributes:
        decision: Keep, Discard or Undecided.
        rationale: Why; for Undecided, what failed.
        alignments: P'_rel(x), one for each preference the item is kept for; empty unless Keep.
        confidence: Of the decision, in [0, 1], or None.
        answer: Of an Undecided verdict, what the model said that could not be understood.
        usage: What it took of a language model.
    """

    decision: Decision
    rationale: str = ""
    alignments: tuple[Alignment, ...] = ()
    confidence: float | None = None
    answer: str = ""
    usage: Usage | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An item that passed the coarse filter, with P_rel(x): what a verifier is given.

    Attributes:
        item: The item x.
        embedding: E(x), shape `(d,)`.
        preferences: P_rel(x), most similar first.
        similarities: Sim(E(x), E(p)) for each of them, in [-1, 1].
        preference_embeddings: E(p) for each of them, shape `(len(preferences), d)`.
    """

    item: Item
    embedding: FloatArray
    preferences: tuple[Preference, ...]
    similarities: tuple[float, ...]
    preference_embeddings: FloatArray


@dataclass(frozen=True, kw_only=True)
class MemoryEntry:
    """One element (x, i_x(p), p) of the memory M (Eq. 6), without the item's text.

    Attributes:
        namespace: Whose memory it is in.
        item_id: The item x.
        preference_id: The preference p; None where fine verification and coarse filter were both off.
        instruction: i_x(p); empty where fine verification was off.
        stance, rationale, confidence: From the verdict.
        similarity: Sim(E(x), E(p)), in [-1, 1].
        rewrite: x^, where the item was rewritten for its preferences; else empty.
        added: When it was written, in Unix seconds.
        score: In a search, the cosine of the steered query and this entry's embedding; else None.
    """

    namespace: str
    item_id: str
    preference_id: str | None
    preference: str
    instruction: str
    stance: Stance
    rationale: str
    confidence: float | None
    similarity: float
    rewrite: str = ""
    added: float = field(default=0.0, compare=False)
    score: float | None = None

    @property
    def id(self) -> str:
        """A uuid5, distinct for each (namespace, item, preference)."""
        return stable_id("entry", self.namespace, self.item_id, self.preference_id or "")


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One item found, with the entries that matched.

    Attributes:
        item: The item.
        score: What hits are ordered by, on the scale of a cosine, in [-1, 1], higher is better: how near the topic is,
            what the text says for and against the preferences that matter, and its stances. Hits of a fallback come
            first, with scores of their own: compare scores within one tier.
        entries: The item's matching entries, best first; empty for hits of a fallback.
        tier: "memory", "light" (held by its text only) or "fallback".
    """

    item: Item
    score: float
    entries: tuple[MemoryEntry, ...] = ()
    tier: str = "memory"

    @property
    def text(self) -> str:
        """What a model is given: the rewritten text where there is one, else the item's own."""
        return next((entry.rewrite for entry in self.entries if entry.rewrite), self.item.text)

    @property
    def instructions(self) -> list[str]:
        """The instructions of the matching entries, best first."""
        return [entry.instruction for entry in self.entries if entry.instruction]

    @property
    def preferences(self) -> list[str]:
        """The texts of the preferences the item was kept for, in the order of the entries."""
        return [entry.preference for entry in self.entries if entry.preference]

    @property
    def stances(self) -> list[Stance]:
        """The stances, in the order of the entries."""
        return [entry.stance for entry in self.entries]


class Hits(list[Hit]):
    """A list of hits that also knows how it came about.

    Attributes:
        vector: What was searched for, shape `(d,)`.
        query: E(q), shape `(d,)`: `vector` where nothing steered.
        vectors: Of the entry that was found, for each hit; none where a fallback was asked.
        timings: Seconds by part, as the paper's Table 9: "embedding", "steering", "index".
        steered_by: The preferences that steered the query, as (preference text, similarity, weight).
        matters: The preferences by how much they matter to the query, heaviest first, each with the chance that it
            does, in [0, 1]; whether or not a hit carries them.
        fallback: Whether a fallback was asked.
        relevant: Whether anything held is relevant to the query.
    """

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        *,
        vector: FloatArray | None = None,
        query: FloatArray | None = None,
        vectors: Sequence[FloatArray] = (),
        timings: Mapping[str, float] | None = None,
        steered_by: Sequence[tuple[str, float, float]] = (),
        matters: Sequence[tuple[Preference, float]] = (),
        fallback: bool = False,
        relevant: bool = True,
    ) -> None:
        super().__init__(hits)
        self.vector = vector
        self.query = vector if query is None else query
        self.vectors = list(vectors)
        self.timings = dict(timings or {})
        self.steered_by = list(steered_by)
        self.matters = list(matters)
        self.fallback = fallback
        self.relevant = relevant


@dataclass(kw_only=True)
class BuildReport:
    """What one `add` did. Counts are items unless they say otherwise.

    Attributes:
        seen: Items taken in: those held already, those known, those the coarse filter left out, and `passed`.
        waiting: Of the duplicates, those that wait in the retry queue.
        duplicates: Already held with the same text, or twice in this call.
        known: Discarded or evicted before, as the ledger says, and not looked at again.
        passed: Passed the coarse filter. passed = kept + discarded + undecided.
        kept, discarded, undecided: By fine verification.
        entries: Memory entries written; one item can have several.
        light: Of those that the coarse filter left out or verification discarded, those that the light tier holds.
        no_room: Those for which it had no room, or that had to leave it.
        evicted: Entries that had to go, or did not fit, because of the byte budget.
        shortened: Items of which less text is kept, because of the byte budget.
        read: Preferences of which a language model has read what they like and avoid.
        expanded: Preferences of which it has written what they mean in practice.
        timings: Seconds by part, as the paper's Table 3.
        usage: What it took of a language model: calls, retries, tokens, seconds.
        cached: Of the pairs of item and preference to be verified, those answered from the verdict cache.
        warnings: What looks wrong, in words.
        failures: Why items are undecided: item id to reason, the first hundred.
        answers: What a model said that could not be understood: item id to answer, of the same hundred.
        unread: The preferences that a model was to read or to expand and did not, so that the parser's aspects or an
            expansion of the bundled library hold for now: text to reason.
        foreign: Items in languages that the encoder does not know, by ISO code, of those looked at: at most 200 of a
            batch.
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
    no_room: int = 0
    evicted: int = 0
    shortened: int = 0
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
    foreign: dict[str, int] = field(default_factory=dict)

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
        """All parts together."""
        return sum(self.timings.values())

    def _lines(self) -> Iterator[str]:
        tau = "off" if self.tau is None else f"tau {self.tau:.3f}"
        before = [f"{self.duplicates} already held"] if self.duplicates else []
        before += [f"{self.known} not kept before"] if self.known else []
        yield f"seen            {self.seen:>8}" + (f"   ({', '.join(before)})" if before else "")
        yield f"coarse filter   {self.passed:>8} passed   {self.share_passed:7.2%}   ({tau})"
        yield f"verification    {self.kept:>8} kept     {self.share_kept:7.2%}   ({self.entries} entries)"
        if self.undecided:
            yield f"undecided       {self.undecided:>8}   no verdict yet"
        if self.light or self.no_room:
            yield f"light tier      {self.light:>8} held by their text" + (
                f"   ({self.no_room} had no room)" if self.no_room else ""
            )
        if self.evicted or self.shortened:
            yield f"budget          {self.evicted:>8} entries evicted, {self.shortened} texts shortened"
        if self.read or self.unread:
            yield f"aspects         {self.read:>8} preferences read, {len(self.unread)} not"
        if self.expanded:
            yield f"expansions      {self.expanded:>8} written"
        if self.foreign:
            yield (
                f"foreign         {sum(self.foreign.values()):>8} or more in a language that the encoder does not know"
                f" ({listed(self.foreign.items())}): use {ADVICE}"
            )
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
        for warning in self.warnings:
            yield f"warning: {warning}"
        for reason, count in Counter(self.failures.values()).most_common(3):
            yield f"undecided ({count}): {reason}"
        for reason, count in Counter(self.unread.values()).most_common(3):
            yield f"not read ({count}): {reason}"

    def __str__(self) -> str:
        return "\n".join(self._lines())
