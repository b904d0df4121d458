"""Re-ranking: what some other search has found, judged by the user's preferences, and put into their order.

Each text goes through stages 1 and 2 as on its way into a memory, and is ranked as a memory ranks its own:

    cos(q~, E(x)) - penalty(stance of x),

q~ being the query as the preferences steer it towards raw texts (`steering`). Of several stances the worst counts; what
is for none of the preferences, or not known, counts as neutral. Guidance that a text carries already, under one of the
preferences, is taken as it is: what a language model wrote when the text was stored is worth more than a second
opinion, and costs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Literal, TypeAlias, get_args

from epic_core.context import MATTERING, format_hit
from epic_core.encoders.base import Encoder, aembed, aembed_query, embed, embed_query
from epic_core.encoders.cache import TextVectors
from epic_core.errors import InvalidInputError, LMError, LMUnavailableError, NoPreferencesError
from epic_core.integrations.metadata import REWRITE, as_metadata, guidance_of
from epic_core.lm.base import LanguageModel
from epic_core.lm.retries import Patience
from epic_core.memory import EpicMemory
from epic_core.runtime.batching import storable
from epic_core.runtime.threads import in_thread
from epic_core.steering.cache import Steerings
from epic_core.types import BuildReport, Decision, FloatArray, Hit, Item, MemoryEntry, Preference, Stance
from epic_core.types.modes import Mode, checked_mode
from epic_core.types.verdicts import PENALTY, Judged
from epic_core.verification.lm import LMVerifier

Keep: TypeAlias = Literal["all", "relevant", "supports"]
"""What comes out: everything; what is for one of the preferences; of that, what does not stand against one, in part or
whole."""

CONTENT = "epic_content"
"""The metadata key of a text as it was before guidance was written into it."""
GUIDANCE = frozenset(
    {
        *(f"epic_{name}" for name in ("instruction", "preference", "stance", "rationale", "confidence", "similarity")),
        "epic_alignments",
        REWRITE,
    }
)
"""The metadata keys of guidance; the others that begin with `epic_` say how a text was found."""

_AGAINST = frozenset({Stance.MIXED, Stance.CONFLICTS})
# The first of several may stand below the preferences that matter.
_NUMBERED = re.compile(rf"(?:{re.escape(MATTERING)}\n(?:- .*\n)+\n)?Document \d+:\n")
# Seconds for which a model that is down is not asked again, and those for which a server may have itself waited for.
_REST = 30.0
_LONGEST_PAUSE = 1.0


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A text in its new place.

    Attributes:
        place: Which one it was, counted from 0.
        text: The text, without characters that no memory takes.
        decision: Keep, Discard or Undecided; None for what has no text, which cannot be judged.
        guidance: What is known of it under each preference, the strongest first, as `as_metadata` takes it.
        rewrite: What a verifier that rewrites made of the text; else empty.
        score: What it was ranked by, a cosine less a penalty; None where none was, for example without a query.
    """

    place: int
    text: str
    decision: Decision | None = None
    guidance: tuple[Mapping[str, Any], ...] = ()
    rewrite: str = ""
    score: float | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """The guidance as flat metadata; empty without any."""
        said = as_metadata(self.guidance) if self.guidance else {}
        return {**said, REWRITE: self.rewrite} if said and self.rewrite else said

    @property
    def stance(self) -> Stance:
        """The worst of its stances; neutral if none is known."""
        return max((_stance(facts) for facts in self.guidance), key=PENALTY.__getitem__, default=Stance.NEUTRAL)

    @property
    def similarity(self) -> float:
        """That to the preference it is nearest to, of those it was kept for; -1 without any."""
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
        return Hit(item=Item(text=self.rewrite or self.text), score=self.score or 0.0, entries=tuple(entries))


class Reranker:
    """Puts texts into the order of a user's preferences. Safe to use from several threads.

    Args:
        memory: Its preferences, encoder and verifier judge. Nothing but a model's verdicts is written into it.
        mode: How the query is steered: "signed", "paper" or "off".
        keep: What comes out: "all", "relevant" or "supports". What could not be judged always does.
        rerank: Whether texts change places.

    Raises:
        InvalidInputError: for a mode or a choice that there is not.
    """

    def __init__(self, memory: EpicMemory, *, mode: Mode = "signed", keep: Keep = "all", rerank: bool = True) -> None:
        self.memory = memory
        self.mode = checked_mode(mode)
        self.keep = checked_keep(keep)
        self.rerank = rerank
        self._known: tuple[Encoder, Steerings] | None = None

    def rank(
        self,
        query: str | None,
        texts: Sequence[tuple[str, Mapping[str, Any]]],
        *,
        top_n: int | None = None,
        report: BuildReport | None = None,
    ) -> list[Ranked]:
        """The texts, best first; what has no text comes last, in the order given.

        Args:
            query: Without one, stances decide, then the similarity to the preferences, then the order given.
            texts: Each with its metadata.
            top_n: How many come out at most; default: all.
            report: Is filled in.

        Raises:
            NoPreferencesError: if the memory has none, or all have expired.
            ReadOnlyError: if a model is to be asked, and what it says cannot be remembered.
            EncoderError: if the encoder fails.
        """
        preferences = self._preferences()
        work = _Work(self, query, texts, preferences)
        if work.to_judge:
            work.take(list(self.memory.judge(work.to_judge, report=report)))
        if not work.to_embed:
            return work.finished(top_n)
        steerings = self._steerings()
        steering = steerings.of(preferences, self.mode)
        steered = steering.steer_vector(embed_query(steerings.encoder, work.query))
        return work.finished(top_n, embed(steerings.encoder, work.to_embed) @ steered.vector)

    async def arank(
        self,
        query: str | None,
        texts: Sequence[tuple[str, Mapping[str, Any]]],
        *,
        top_n: int | None = None,
        report: BuildReport | None = None,
    ) -> list[Ranked]:
        """As `rank`, without blocking the event loop."""
        preferences = await in_thread(self._preferences)
        work = _Work(self, query, texts, preferences)
        if work.to_judge:
            work.take([judged async for judged in self.memory.ajudge(work.to_judge, report=report)])
        if not work.to_embed:
            return work.finished(top_n)
        steerings = self._steerings()
        steering = await steerings.aof(preferences, self.mode)
        steered = steering.steer_vector(await aembed_query(steerings.encoder, work.query))
        return work.finished(top_n, await aembed(steerings.encoder, work.to_embed) @ steered.vector)

    def _preferences(self) -> tuple[Preference, ...]:
        live = tuple(self.memory.preferences)
        if not live:
            raise NoPreferencesError("There are no preferences to rank by. Give some: preferences=['...'].")
        return live

    def _steerings(self) -> Steerings:
        """Those of the encoder in force: a memory can be embedded anew."""
        encoder, known = self.memory.encoder, self._known
        if known is None or known[0] is not encoder:
            remembering = encoder if isinstance(encoder, RememberingEncoder) else RememberingEncoder(encoder)
            known = self._known = (encoder, Steerings(remembering))
        return known[1]


class _Work:
    """One re-ranking: what is to be judged, what is to be embedded, and what comes of it."""

    def __init__(
        self,
        ranker: Reranker,
        query: str | None,
        texts: Sequence[tuple[str, Mapping[str, Any]]],
        preferences: Sequence[Preference],
    ) -> None:
        self.query = storable(query or "").strip()
        self._ranker = ranker
        self._found: list[Ranked] = []
        self._blank: list[Ranked] = []
        names = {preference.text for preference in preferences}
        for place, (given, metadata) in enumerate(texts):
            text = storable(given)
            if not text.strip():
                self._blank.append(Ranked(place=place, text=text))
                continue
            self._found.append(carried(place, text, metadata, names) or Ranked(place=place, text=text))
        # Each text once: an index may hold it twice.
        self.to_judge = list(dict.fromkeys(one.text for one in self._found if one.decision is None))

    def take(self, judged: Sequence[Judged]) -> None:
        """What was decided about the texts to judge."""
        said = {one.item.text: one for one in judged}
        for number, one in enumerate(self._found):
            if one.decision is None:
                known = said[one.text]
                guidance = tuple(guidance_of(known)) if known.kept else ()
                decided = replace(one, decision=known.verdict.decision, guidance=guidance, rewrite=known.rewrite)
                self._found[number] = decided

    @property
    def to_embed(self) -> list[str]:
        """The texts of what is left, where a query ranks them."""
        return [one.text for one in self._left()] if self._ranker.rerank and self.query else []

    def _left(self) -> list[Ranked]:
        return [one for one in self._found if self._keeps(one)]

    def _keeps(self, one: Ranked) -> bool:
        keep = self._ranker.keep
        if keep == "all" or one.decision is Decision.UNDECIDED:
            return True
        return one.decision is Decision.KEEP and (keep == "relevant" or one.stance not in _AGAINST)

    def finished(self, top_n: int | None, cosines: FloatArray | None = None) -> list[Ranked]:
        left = self._left()
        if not self._ranker.rerank:
            left = sorted([*left, *self._blank], key=lambda one: one.place)
            return left[:top_n]
        if cosines is None:
            # In the order given where nothing else decides: sorting is stable.
            left.sort(key=lambda one: (PENALTY[one.stance], -one.similarity))
        else:
            scores = [float(cosine) - PENALTY[one.stance] for cosine, one in zip(cosines, left, strict=True)]
            left = [replace(one, score=score) for one, score in zip(left, scores, strict=True)]
            left.sort(key=lambda one: one.score or 0.0, reverse=True)
        return [*left, *self._blank][:top_n]


class _Waiting(Patience):
    """The patience of somebody who waits for an answer."""

    _since = 0.0

    def begin(self) -> None:
        if self.down is None or monotonic() - self._since >= _REST:
            super().begin()

    def gave_up(self, error: LMError) -> None:
        super().gave_up(error)
        self._since = monotonic()

    def pause(self, attempt: int, error: LMError) -> float | None:
        if isinstance(error, LMUnavailableError) and error.timed_out:
            return None
        pause = super().pause(attempt, error)
        return None if pause is None or pause > _LONGEST_PAUSE else pause


def waited_for(lm: LanguageModel) -> LMVerifier:
    """A verifier for when somebody waits: a call that fails is tried again once, a timeout never; and once the model is
    down, what it would be asked is undecided at once for half a minute."""
    verifier = LMVerifier(lm)
    verifier._asker.patience = _Waiting(retries=1, backoff=0.0)
    return verifier


class RememberingEncoder:
    """An encoder that embeds a text once, as long as it is among the last that were used.

    Args:
        encoder: Any.
        size: How many texts are remembered.
    """

    def __init__(self, encoder: Encoder, *, size: int = 4096) -> None:
        self.encoder = encoder
        self._texts = TextVectors(encoder, size=size)

    @property
    def name(self) -> str:
        """The encoder's."""
        return self.encoder.name

    @property
    def dimension(self) -> int:
        """The encoder's."""
        return self.encoder.dimension

    @property
    def fingerprint(self) -> str:
        """The encoder's."""
        return self.encoder.fingerprint

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Unit vectors, shape `(len(texts), dimension)`."""
        return self._texts.of(texts) if texts else embed(self.encoder, texts)

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """As `encode`, without blocking the event loop."""
        return await self._texts.aof(texts) if texts else await aembed(self.encoder, texts)

    def __getattr__(self, name: str) -> Any:
        # What an encoder may have more: tau, floor, encode_query.
        if name == "encoder":
            raise AttributeError(name)
        return getattr(self.encoder, name)


def carried(place: int, text: str, metadata: Mapping[str, Any], preferences: Collection[str]) -> Ranked | None:
    """A text whose metadata have guidance under some preferences; None without any, or if it cannot be read."""
    try:
        told = json.loads(metadata.get("epic_alignments") or "[]")
        guidance = tuple(_facts(facts) for facts in told if facts["preference"] in preferences)
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
        return None
    rewrite = metadata.get(REWRITE)
    known = storable(rewrite).strip() if isinstance(rewrite, str) else ""
    return (
        Ranked(place=place, text=text, decision=Decision.KEEP, guidance=guidance, rewrite=known) if guidance else None
    )


def content_of(text: str, metadata: Mapping[str, Any]) -> str:
    """A text without the guidance that was written into it, if its metadata says under `CONTENT` what it was before.

    Whatever else has been done to the text in the meantime stands.
    """
    before = metadata.get(CONTENT)
    if isinstance(before, str) and _NUMBERED.match(text):
        for told in (before, metadata.get(REWRITE)):
            if isinstance(told, str) and told.strip() and text.endswith(_section(told)):
                return before
    return text


def _section(text: str) -> str:
    """What `format_hit` makes of a text, without its number and guidance."""
    told = format_hit(1, Hit(item=Item(text=storable(text)), score=0.0))
    return told[told.index("\n") :]


def _facts(told: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an alignment as they were told, if they are what they have to be."""
    facts = {**told, "similarity": float(told.get("similarity") or 0.0), "stance": str(Stance(told["stance"]))}
    if not isinstance(told["instruction"], str):
        raise TypeError("an instruction is no text")
    return facts


def _stance(facts: Mapping[str, Any]) -> Stance:
    return Stance(facts["stance"])


def checked_keep(keep: str) -> Keep:
    """What comes out of a re-ranking.

    Raises:
        InvalidInputError: if there is no such choice.
    """
    for known in get_args(Keep):
        if keep == known:
            return known  # type: ignore[no-any-return]
    raise InvalidInputError(f"keep must be one of {', '.join(get_args(Keep))}; not {keep!r}.")
