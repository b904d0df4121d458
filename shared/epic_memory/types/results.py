"""Results of a search: memory entries, hits, and the list of hits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from epic_memory.types.arrays import FloatArray
from epic_memory.types.items import Item
from epic_memory.types.preferences import Preference
from epic_memory.types.validation import stable_id
from epic_memory.types.verdicts import Stance


@dataclass(frozen=True, kw_only=True)
class MemoryEntry:
    """One element (x, i_x(p), p) of the memory M (Eq. 6), without the item's text.

    Attributes:
        namespace: The namespace that holds it.
        item_id: The item x.
        preference_id: The preference p; None if fine verification and coarse filter were both off.
        preference: The text of p.
        instruction: i_x(p); empty if fine verification was off.
        stance, rationale, confidence: From the verdict.
        similarity: Sim(E(x), E(p)), in [-1, 1].
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
    added: float = field(default=0.0, compare=False)
    score: float | None = None

    @property
    def id(self) -> str:
        """A uuid5, distinct for each (namespace, item, preference)."""
        return stable_id("entry", self.namespace, self.item_id, self.preference_id or "")


@dataclass(frozen=True, kw_only=True, eq=False)
class Outline:
    """Contents of a memory without the texts, for lists, maps and measurements.

    Attributes:
        items: Ids of the n held items of both tiers and of the facts, oldest first.
        facts: Which of them are facts, shape `(n,)`.
        vectors: E(x) of each, shape `(n, d)`; zeros where none is kept.
        preferences: Ids of the m preferences, in the user's order.
        preference_vectors: E(p) of each, shape `(m, d)`.
        entries: For each of e entries, oldest first, the positions of its item and its preference, shape `(e, 2)`; -1
            for no preference.
        stances: Of each entry.
        added: When each entry was written, in Unix seconds, shape `(e,)`.
    """

    items: list[str]
    facts: NDArray[np.bool_] = field(repr=False)
    vectors: FloatArray = field(repr=False)
    preferences: list[str]
    preference_vectors: FloatArray = field(repr=False)
    entries: NDArray[np.int64] = field(repr=False)
    stances: list[Stance] = field(repr=False)
    added: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One item of a search result, with the entries that matched.

    Attributes:
        item: The item.
        score: The value by which hits are ordered, on the scale of a cosine, in [-1, 1], higher is better: the nearness
            of the topic, the evidence in the text for and against the preferences that matter, and the item's stances.
            Hits of a fallback come first, with scores of their own: compare scores only within one tier.
        entries: The item's matching entries, best first; empty for hits of a fallback.
        tier: "memory", "light" (kept for its text only), "waiting" (the same, and not yet judged: no model answered),
            "fact" (a fact of the user) or "fallback".
        earlier: Older facts that this one may replace, oldest first; they are not listed as hits.
    """

    item: Item
    score: float
    entries: tuple[MemoryEntry, ...] = ()
    tier: str = "memory"
    earlier: tuple[Item, ...] = ()

    @property
    def text(self) -> str:
        """The item's text."""
        return self.item.text

    @property
    def content(self) -> str:
        """The text to give to a model, with the item's title if it has one."""
        return self.item.content

    @property
    def instructions(self) -> list[str]:
        """The instructions of the matching entries, best first."""
        return [entry.instruction for entry in self.entries if entry.instruction]

    @property
    def preferences(self) -> list[str]:
        """The texts of the preferences that the item was kept for, in the order of the entries."""
        return [entry.preference for entry in self.entries if entry.preference]

    @property
    def stances(self) -> list[Stance]:
        """The stances, in the order of the entries."""
        return [entry.stance for entry in self.entries]


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Order and features of a list that was chosen; `epic_rerank.learn` needs it.

    Attributes:
        features: Of all candidates in the order of retrieval, shape `(n, f)`; without columns if none was reranked.
        order: The chosen candidates by number, best first.
        probabilities: Of each chosen one, the probability of coming first, in [0, 1].
    """

    features: NDArray[np.float64] = field(repr=False)
    order: list[int]
    probabilities: list[float]

    def chosen(self, *parts: Sequence[Any]) -> Iterator[list[Any]]:
        """Yield each part, which has one value for each candidate, with those of the chosen ones in order."""
        for part in parts:
            yield [part[place] for place in self.order]


@runtime_checkable
class Chooser(Protocol):
    """Protocol of what orders the results of a search, and chooses which are returned.

    Attributes:
        encoder: The fingerprint of the encoder that it was trained with; "" for any.
        candidates: How many results it wants to choose from, if there are more than k; 0 for the k of the search.
    """

    @property
    def encoder(self) -> str:
        """The fingerprint."""
        ...

    @property
    def candidates(self) -> int:
        """Number of results that it chooses from."""
        ...

    def choose(
        self,
        query: str,
        vector: FloatArray | None,
        hits: Sequence[Hit],
        vectors: Sequence[FloatArray],
        k: int,
        matters: Sequence[tuple[Preference, float]],
    ) -> Ranking:
        """Choose at most k hits.

        Args:
            query: Its words; empty for a search by vector.
            vector: E(q), shape `(d,)`; None if the query has none.
            hits: The candidates, best first.
            vectors: Their embeddings, each shape `(d,)`; empty if they have none.
            k: At least 1.
            matters: The preferences with the chance that each matters to the query.
        """
        ...


class Hits(list[Hit]):
    """A list of hits with details of the search that produced it.

    Attributes:
        vector: The vector that was searched for, shape `(d,)`.
        query: E(q), shape `(d,)`; equal to `vector` if no preference steered.
        vectors: For each hit, the embedding of the entry that was found; empty if a fallback was asked.
        timings: Seconds by part, as the paper's Table 9: "embedding", "steering", "index".
        steered_by: The preferences that steered the query, as (preference text, similarity, weight).
        matters: The preferences by how much they matter to the query, heaviest first, each with the chance in [0, 1]
            that it does, even if no hit was kept for them.
        fallback: Whether a fallback was asked.
        relevant: Whether the memory holds anything that is relevant to the query.
        facts: The facts of the user that are relevant to the query, best first, at most three; they may be hits, too.
        ranking: How a chooser chose them; None without, or where a fallback was asked.
        language: In which a context is to be written; None for that of most preferences.
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
        facts: Iterable[Hit] = (),
        ranking: Ranking | None = None,
        language: str | None = None,
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
        self.facts = list(facts)
        self.ranking = ranking
        self.language = language
