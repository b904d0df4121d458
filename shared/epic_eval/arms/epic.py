"""EPIC's arms: an `EpicMemory` with its stages on or off, as in the paper or as it comes, and a `GraphMemory`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from epic_eval.arms.base import BaseArm, BuildCost, Passage, Retrieved, build_cost
from epic_graph import GraphMemory
from epic_memory import EpicMemory, Hit, Item, SearchOptions, Settings
from epic_memory.context import those_that_matter
from epic_memory.encoders import Encoder, embed
from epic_memory.lm import LanguageModel

PAPER = Settings(reserve=0, expansions="off", aspects="parser", coarse_recall=None)
"""Settings of a memory that holds nothing but what was kept, and knows of a preference nothing but its text."""
PAPER_SEARCH = replace(SearchOptions.paper(), steering=None)
"""The paper's search, steered as the memory is."""


class Epic(BaseArm):
    """A memory of the product.

    Args:
        name: As tables show it.
        encoder: Encodes everything.
        kind: "memory", or "graph" for a `GraphMemory`.
        personal: False for a memory that filters by no preferences; it is built once, and a persona's preferences are
            added to it before questions are asked, if `steers`.
        steers: Whether preferences steer the questions.
        opens: Whether a context opens with the preferences that matter to the question.
        settings: Of the memory.
        search: Of each search.
    """

    def __init__(
        self,
        name: str,
        encoder: Encoder,
        *,
        kind: Literal["memory", "graph"] = "memory",
        personal: bool = True,
        steers: bool = True,
        opens: bool = False,
        settings: Settings = PAPER,
        search: SearchOptions = PAPER_SEARCH,
    ) -> None:
        self.name = name
        self.encoder = encoder
        self.kind = kind
        self.personal = personal
        self.steers = steers
        self.opens = opens
        self.settings = settings
        self.search = replace(search, keys="both") if kind == "graph" else search

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Offer the corpus to a new memory in the folder."""
        make: Any = GraphMemory if self.kind == "graph" else EpicMemory
        started = self.clock()
        self._memory: Any = make.open(
            folder / "memory.epic",
            list(preferences) if self.personal else (),
            encoder=self.encoder,
            settings=self.settings,
        )
        self._told: tuple[str, ...] = tuple(preferences) if self.personal else ()
        made = self._memory.add(corpus)
        report = made.memory if self.kind == "graph" else made
        cost = build_cost(report, self.clock() - started, self._epic.stats().counts["items"])
        if not self.personal and self.steers:
            self.prefer(preferences)
        return cost

    @property
    def _epic(self) -> EpicMemory:
        memory: EpicMemory = self._memory.memory if self.kind == "graph" else self._memory
        return memory

    def prefer(self, preferences: Sequence[str]) -> None:
        """Exchange the preferences of a memory that was built without any."""
        if not self.personal and self.steers:
            self.update((), preferences)

    def update(self, items: Sequence[Item], preferences: Sequence[str]) -> None:
        """Exchange the preferences, and offer further items."""
        for preference in [one for one in self._told if one not in preferences]:
            self._epic.preferences.remove(preference)
        for preference in [one for one in preferences if one not in self._told]:
            self._epic.preferences.add(preference)
        self._told = tuple(preferences)
        if items:
            build_cost(self._memory.add(items), 0.0, 0)

    def retrieve(self, question: str, k: int) -> Retrieved:
        """Search; the query's encoding is timed apart, and then again as a part of the search."""
        started = self.clock()
        embed(self.encoder, [question])
        encoding = self.clock() - started
        started = self.clock()
        hits = self._memory.search(question, k, options=self.search)
        taken = self.clock() - started
        opening = those_that_matter(hits.matters) if self.opens else []
        return Retrieved(
            passages=tuple(Passage(hit.item.id, hit.text, _guidance(hit)) for hit in hits),
            opening=tuple(preference.text for preference in opening),
            encoding=encoding,
            search=max(0.0, taken - hits.timings.get("embedding", 0.0)),
            steering=hits.timings.get("steering", 0.0),
        )

    def bytes(self) -> dict[str, int]:
        """Return the bytes of the file by part."""
        return dict(self._epic.stats().bytes)

    def close(self) -> None:
        """Close the file."""
        self._memory.close()


def _guidance(hit: Hit) -> tuple[str, ...]:
    return tuple(" ".join(entry.instruction.split()) for entry in hit.entries if entry.instruction)


def verified(settings: Settings, lm: LanguageModel) -> Settings:
    """Return settings of a memory that a model verifies for; it is asked about nothing while questions are."""
    from epic_memory.verification import LMVerifier

    return replace(settings, verifier=LMVerifier(lm), on_demand="off")
