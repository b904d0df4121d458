"""Re-ranking of another search's results, judged by the user's preferences.

Each text goes through stages 1 and 2 as on its way into a memory, and is ranked by its similarity to the query as the
preferences steer it towards raw texts, and by its stances as in a memory (`steering.ranking`): what conflicts stands
below what does not. A text that matches no preference, or is undecided, has no stance. Guidance that a text already
carries, under one of the preferences, is used as it is: what a language model wrote when the text was stored is worth
more than a second opinion, and costs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from epic_memory.context import MATTERING, format_hit, numbered_pattern
from epic_memory.encoders.base import Embed, Encoder, aembed, embed
from epic_memory.encoders.cache import TextVectors
from epic_memory.errors import NoPreferencesError
from epic_memory.memory import EpicMemory
from epic_memory.runtime.batching import storable
from epic_memory.runtime.effects import Effects
from epic_memory.steering.query_steering import QuerySteering, Steerings
from epic_memory.steering.question_kind import kind_of, recalls
from epic_memory.steering.ranking import Verdicts
from epic_memory.text.translations import LANGUAGES, translated
from epic_memory.types import BuildReport, Decision, FloatArray, Hit, Item, MemoryEntry, Stance
from epic_memory.types.verdicts import Judged, Stances, penalties
from epic_plugins.judging_memory import Judge
from epic_plugins.metadata import as_metadata, guidance_of

Keep: TypeAlias = Literal["all", "relevant", "supports"]
"""Choice of the texts to return: all; texts that match a preference; or, of these, texts without any conflict."""

CONTENT = "epic_content"
"""The metadata key of a text as it was before guidance was written into it."""
GUIDANCE = frozenset(
    {
        *(f"epic_{name}" for name in ("instruction", "preference", "stance", "rationale", "confidence", "similarity")),
        "epic_alignments",
    }
)
"""The metadata keys of guidance; other keys that begin with `epic_` describe how a text was found."""

_AGAINST = frozenset({Stance.MIXED, Stance.CONFLICTS})


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A text at a place among the given ones, with its verdict, guidance as `as_metadata` takes it, and score.

    An empty text cannot be judged and has no decision; without a query there are no scores.
    """

    place: int
    text: str
    decision: Decision | None = None
    guidance: tuple[Mapping[str, Any], ...] = ()
    score: float | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """The guidance as flat metadata; empty if there is none."""
        return as_metadata(self.guidance) if self.guidance else {}

    @property
    def stance(self) -> Stance:
        """The worst of its stances; neutral if there is no guidance."""
        return max((_stance(facts) for facts in self.guidance), key=penalties().__getitem__, default=Stance.NEUTRAL)

    @property
    def similarity(self) -> float:
        """The similarity to the nearest of the preferences it was kept for; -1 if there are none."""
        return max((facts["similarity"] for facts in self.guidance), default=-1.0)

    @property
    def hit(self) -> Hit:
        """The text with its guidance, as `context.format_hit` takes it."""
        entries = [
            MemoryEntry(
                namespace="",
                item_id="",
                preference_id=None,
                preference=facts["preference"],
                instruction=facts["instruction"],
                stance=_stance(facts),
                rationale="",
                confidence=None,
                similarity=facts["similarity"],
            )
            for facts in self.guidance
        ]
        return Hit(item=Item(text=self.text), score=self.score or 0.0, entries=tuple(entries))


class Reranker:
    """Ranker of texts by a user's preferences; texts that could not be judged are always kept. Safe for threads."""

    def __init__(self, memory: EpicMemory, *, keep: Keep = "all") -> None:
        self.memory = memory
        self.keep = keep
        self._known: tuple[Encoder, Steerings] | None = None

    def rank(
        self,
        query: str | None,
        texts: Sequence[tuple[str, Mapping[str, Any]]],
        report: BuildReport,
        *,
        top_n: int | None = None,
    ) -> Effects[list[Ranked]]:
        """Return at most `top_n` texts, best first; empty texts come last, in the order given.

        Without a query they are ranked by stance, then by similarity to the preferences, then by the order given.

        Raises:
            NoPreferencesError: if the memory has none, or all have expired.
            ReadOnlyError: if a model has to be asked, and its verdicts cannot be stored.
            EncoderError: if the encoder fails.
        """
        preferences = tuple(self.memory.preferences)
        if not preferences:
            raise NoPreferencesError("There are no preferences to rank by. Give some: preferences=['...'].")
        names = {preference.text for preference in preferences}
        found: list[Ranked] = []
        blank: list[Ranked] = []
        for place, (given, metadata) in enumerate(texts):
            text = storable(given)
            if text.strip():
                found.append(_carried(place, text, metadata, names) or Ranked(place=place, text=text))
            else:
                blank.append(Ranked(place=place, text=text))
        # Each text once: an index may hold it twice.
        to_judge = list(dict.fromkeys(one.text for one in found if one.decision is None))
        if to_judge:
            judged: list[Judged] = yield Judge(self.memory, to_judge, report)
            verdicts = {one.item.text: one for one in judged}
            found = [one if one.decision is not None else _decided(one, verdicts[one.text]) for one in found]
        query = storable(query or "").strip()
        if query and found:
            steerings = self._steerings()
            steering: QuerySteering = yield from steerings.steering(preferences, self.memory.settings.steering)
            asked: FloatArray = yield Embed(steerings.encoder, [query], "", query=True)
            vectors: FloatArray = yield Embed(steerings.encoder, [one.text for one in found], "")
            kind = kind_of(steerings.encoder, query, asked[0])
            steered = steering.steer_vector(asked[0], kind=kind)
            weights = {one.preference.id: steered.strength * one.weight for one in steered.preferences}
            stances: list[Stances] = [{facts["preference"]: _stance(facts) for facts in one.guidance} for one in found]
            judged_so = Verdicts.of(stances, preferences, weights, not recalls(kind))
            scores: list[float] = judged_so.ranked(vectors @ steered.vector, vectors @ asked[0]).tolist()
            found = [replace(one, score=score) for one, score in zip(found, scores, strict=True)]
            found.sort(key=lambda one: one.score or 0.0, reverse=True)
        else:
            # Sorting is stable: equal texts stay in the order given.
            found.sort(key=lambda one: (penalties()[one.stance], -one.similarity))
        # Last, as a score depends on what else was found.
        return [*filter(self._keeps, found), *blank][:top_n]

    def _keeps(self, one: Ranked) -> bool:
        if self.keep == "all" or one.decision is Decision.UNDECIDED:
            return True
        return one.decision is Decision.KEEP and (self.keep == "relevant" or one.stance not in _AGAINST)

    def _steerings(self) -> Steerings:
        """Return the steerings of the current encoder, which changes if the memory is embedded anew."""
        encoder, known = self.memory.encoder, self._known
        if known is None or known[0] is not encoder:
            remembering = encoder if isinstance(encoder, RememberingEncoder) else RememberingEncoder(encoder)
            known = self._known = (encoder, Steerings(remembering))
        return known[1]


def _decided(ranked: Ranked, judged: Judged) -> Ranked:
    guidance = tuple(guidance_of(judged)) if judged.kept else ()
    return replace(ranked, decision=judged.verdict.decision, guidance=guidance)


class RememberingEncoder:
    """An encoder that caches the vectors of the texts used last."""

    def __init__(self, encoder: Encoder, *, size: int = 4096) -> None:
        self.encoder = encoder
        self._texts = TextVectors(encoder, size=size)

    @property
    def name(self) -> str:
        """The encoder's name."""
        return self.encoder.name

    @property
    def dimension(self) -> int:
        """The encoder's dimension."""
        return self.encoder.dimension

    @property
    def fingerprint(self) -> str:
        """The encoder's fingerprint."""
        return self.encoder.fingerprint

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return unit vectors, shape `(len(texts), dimension)`."""
        return self._texts.of(texts) if texts else embed(self.encoder, texts)

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """Do the same as `encode` without blocking the event loop."""
        return await self._texts.aof(texts) if texts else await aembed(self.encoder, texts)

    def __getattr__(self, name: str) -> Any:
        # Pass on what an encoder may have besides: tau, floor, encode_query.
        if name == "encoder":
            raise AttributeError(name)
        return getattr(self.encoder, name)


def _carried(place: int, text: str, metadata: Mapping[str, Any], preferences: Collection[str]) -> Ranked | None:
    """Return a text with the guidance in its metadata under some preferences; None if there is none it can read."""
    try:
        told = json.loads(metadata.get("epic_alignments") or "[]")
        guidance = tuple(_facts(facts) for facts in told if facts["preference"] in preferences)
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
        return None
    return Ranked(place=place, text=text, decision=Decision.KEEP, guidance=guidance) if guidance else None


def content_of(text: str, metadata: Mapping[str, Any]) -> str:
    """Remove the guidance from a text, if its metadata holds the text without it under `CONTENT`.

    A text that was changed in any other way is returned as it is.
    """
    before = metadata.get(CONTENT)
    if not isinstance(before, str) or not before.strip():
        return text
    return before if any(_is_guided(text, before, language) for language in LANGUAGES) else text


def _is_guided(text: str, before: str, language: str) -> bool:
    """Tell whether a text is another as `format_hit` writes it, perhaps after the preferences that matter."""
    opening = rf"{re.escape(translated(MATTERING, language))}\n(?:- .*\n)+\n"
    if not re.match(rf"(?:{opening})?{numbered_pattern(language)}\n", text):
        return False
    told = format_hit(1, Hit(item=Item(text=storable(before)), score=0.0), language)
    return text.endswith(told[told.index("\n") :])


def _facts(told: Mapping[str, Any]) -> dict[str, Any]:
    """Check the facts of an alignment in metadata, and return them."""
    facts = {**told, "similarity": float(told.get("similarity") or 0.0), "stance": str(Stance(told["stance"]))}
    if not isinstance(told["instruction"], str):
        raise TypeError("an instruction is no text")
    return facts


def _stance(facts: Mapping[str, Any]) -> Stance:
    return Stance(facts["stance"])
