"""Embedded verifier, which needs no language model: weighted measures of a chunk under a preference."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from epic_memory.encoders.base import Encoder, embed
from epic_memory.encoders.static import BUNDLED_NAME
from epic_memory.errors import InvalidInputError
from epic_memory.preferences.evidence import embed_aspects
from epic_memory.preferences.foreign import language_for
from epic_memory.preferences.library import borrowed
from epic_memory.preferences.parser import aspects_of
from epic_memory.runtime.effects import in_thread
from epic_memory.text.chunking import sentences
from epic_memory.types import Alignment, Candidate, Decision, FloatArray, Preference, Stance, Verdict
from epic_memory.types.preferences import Aspects, Expansion
from epic_memory.verification.base import EMBEDDED, BaseVerifier, Verifier
from epic_memory.verification.features import (
    MEASURES,
    STANCE_MEASURES,
    SURE_MEASURES,
    Chunk,
    Rarity,
    Wanted,
    measured,
    stance_measured,
    sure_measured,
)
from epic_memory.verification.wording import worded_instruction

if TYPE_CHECKING:
    from epic_memory.lm.base import LanguageModel

DEFAULT_THRESHOLD = 0.2
_BLOCK = 256
# Most preferences whose phrases and embeddings are cached.
_KEPT = 4096
# Every word, up to rounding.
_WHOLE = 0.99
_NAMES_ONLY = MEASURES.index("names_only")
_TOLD = [MEASURES.index(name) for name in ("preference", "phrase", "words")]
_SAID = [MEASURES.index(name) for name in ("liked_said", "avoided_said", "avoided_denied")]


_Key: TypeAlias = tuple[str, Aspects, Expansion | None]


class Linear(NamedTuple):
    """A linear function of measures, whose value is in log-odds."""

    weights: FloatArray
    bias: float

    def __call__(self, measures: FloatArray | list[float]) -> Any:
        """Return the log-odds for measures of shape `(f,)`, or for each row of `(n, f)`."""
        return measures @ self.weights + self.bias


class Sure(NamedTuple):
    """Fitted chance that the likelier stance is right, by `SURE_MEASURES`, and the least chance to give a stance."""

    linear: Linear
    least: float


class Weights(NamedTuple):
    """Fitted weights for an encoder.

    Attributes:
        relevance: Of `MEASURES`: whether a pair is kept.
        stance: Of `STANCE_MEASURES`: whether a kept pair supports its preference rather than conflicts with it.
        sure: Of a longer text, and of a note.
        rarity: The rarity of words.
    """

    relevance: Linear
    stance: Linear
    sure: tuple[Sure, Sure]
    rarity: Rarity


class EmbeddedVerifier(BaseVerifier):
    """A verifier by similarities, shared words and a lexicon, with an extractive instruction.

    Its confidence in an alignment estimates, cautiously, the chance that a careful reader would keep the item under
    that preference (docs/quality.md); a pair is kept from `threshold` on. A language model judges better;
    this verifier runs anywhere. `shared/tools/make_verifier.py` fitted it.

    A stance is given if it is likely enough to be right; otherwise it is neutral, and the instruction says to check.

    For a preference that could not be read, because it is in another language than English, similarity decides what is
    kept, and the stance is neutral: it is unknown what a text says for or against the preference.

    Args:
        encoder: Encodes preferences, their aspects, and the sentences of kept items. The weights are those for the
            bundled encoder, or for any other one those for all-MiniLM-L6-v2.
        threshold: Confidence in [0, 1] from which a pair is kept.
        language: Of the instructions; default: that of the preference.

    Raises:
        InvalidInputError: for a threshold outside [0, 1].
    """

    threshold: float
    language: str | None

    def __init__(self, encoder: Encoder, *, threshold: float = DEFAULT_THRESHOLD, language: str | None = None) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise InvalidInputError(f"threshold must be between 0 and 1, not {threshold!r}.")
        self.encoder = encoder
        self.threshold = threshold
        self.language = language
        # Verdicts are stored with this name, so it contains the threshold.
        self.name = EMBEDDED if threshold == DEFAULT_THRESHOLD else f"{EMBEDDED}/{threshold!r}"
        self._looks_beside = encoder.name == BUNDLED_NAME  # others take a while for each text
        self._weights = shipped_weights("static" if self._looks_beside else "other")
        self._known: dict[_Key, Wanted] = {}

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        """Yield one verdict for each candidate, in order."""
        shared = self._shared(candidates)
        for start in range(0, len(candidates), _BLOCK):
            yield from self._block(candidates[start : start + _BLOCK], shared)

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        """Yield verdicts as `verify` does, computed in a worker thread."""
        shared = await in_thread(self._shared, candidates)
        for start in range(0, len(candidates), _BLOCK):
            for verdict in await in_thread(self._block, candidates[start : start + _BLOCK], shared):
                yield verdict

    def _shared(self, candidates: Sequence[Candidate]) -> _Shared:
        wanted = self._wanted_by([preference for one in candidates for preference in one.preferences])
        return _Shared(wanted, frozenset().union(*(one.beginnings for one in wanted.values())), {})

    def _block(self, candidates: Sequence[Candidate], shared: _Shared) -> list[Verdict]:
        wanted, beginnings, known = shared
        if len(known) > _KEPT:
            known.clear()
        for one in candidates:
            if one.item.content not in known:
                known[one.item.content] = Chunk(one.item.content, one.embedding, beginnings)
        chunks = [known[one.item.content] for one in candidates]
        measures = self._measured(candidates, chunks, wanted)
        judged = [self._judged(*one, wanted) for one in zip(candidates, chunks, measures, strict=True)]
        # Only kept items are examined sentence by sentence; the embedding of a single sentence is the item's.
        pieces = [sentences(one.chunk.text) if one.kept else [] for one in judged]
        several = [piece for piece in pieces if len(piece) > 1]
        # Of notes, the preferences that each is kept for.
        looked = [
            [one.wanted[place] for place in one.kept] if self._looks_beside and one.chunk.note else [] for one in judged
        ]
        rests = [wanted.rest_of(one.chunk) for one, each in zip(judged, looked, strict=True) for wanted in each]
        vectors = iter(embed(self.encoder, [*(sentence for piece in several for sentence in piece), *rests]))
        said = [
            [Chunk(sentence, next(vectors) if len(piece) > 1 else one.chunk.vector, beginnings) for sentence in piece]
            for one, piece in zip(judged, pieces, strict=True)
        ]
        beside = [
            [wanted.beside(next(vectors)) for wanted in each] or [0.0] * len(one.kept)
            for one, each in zip(judged, looked, strict=True)
        ]
        return [self._verdict(*one) for one in zip(judged, said, beside, strict=True)]

    def _wanted_by(self, preferences: Iterable[Preference]) -> dict[_Key, Wanted]:
        """Return the phrases and embeddings of preferences, by their text, aspects and expansion."""
        asked = {_key(one): one for one in preferences}
        # A local reference, because another thread may replace the cache.
        known = self._known
        found = {key: known[key] for key in asked if key in known}
        new = [key for key in asked if key not in found]
        if not new:
            return found
        whole = _expanded([asked[key] for key in new])
        for key, one, sides in zip(new, whole, embed_aspects(self.encoder, whole, borrow=False), strict=True):
            found[key] = Wanted.of(key[0], sides, self._weights.rarity, one.expansion)
        self._known = found if len(known) > _KEPT else known | found
        return found

    @staticmethod
    def _measured(
        candidates: Sequence[Candidate], chunks: Sequence[Chunk], wanted: Mapping[_Key, Wanted]
    ) -> list[FloatArray]:
        """Return for each candidate the `MEASURES` under each of its preferences, shape `(m, len(MEASURES))`."""
        measures = [np.empty((len(one.preferences), len(MEASURES)), dtype=np.float32) for one in candidates]
        pairs: dict[_Key, list[tuple[int, int]]] = {}
        for row, candidate in enumerate(candidates):
            for place, preference in enumerate(candidate.preferences):
                pairs.setdefault(_key(preference), []).append((row, place))
        for key, places in pairs.items():
            vectors = [candidates[row].preference_embeddings[place] for row, place in places]
            found = measured(wanted[key], [chunks[row] for row, _ in places], vectors)
            for (row, place), of_pair in zip(places, found, strict=True):
                measures[row][place] = of_pair
        return measures

    def _judged(
        self, candidate: Candidate, chunk: Chunk, measures: FloatArray, known: Mapping[_Key, Wanted]
    ) -> _Judged:
        wanted = [known[_key(preference)] for preference in candidate.preferences]
        odds = self._weights.relevance(measures)
        chances: list[float] = (1.0 / (1.0 + np.exp(-odds.astype(np.float64)))).tolist()
        # What the user or a model has named is never too unlikely.
        confidences = [
            chance if one.broken.isdisjoint(chunk.words.plain) else max(chance, self.threshold)
            for one, chance in zip(wanted, chances, strict=True)
        ]
        order = np.argsort([-confidence for confidence in confidences], kind="stable").tolist()
        kept = [place for place in order if confidences[place] >= self.threshold]
        return _Judged(candidate, chunk, wanted, measures, odds.tolist(), confidences, order[0], kept)

    def _verdict(self, judged: _Judged, said: Sequence[Chunk], beside: Sequence[float]) -> Verdict:
        confidences, candidate = judged.confidences, judged.candidate
        rationale = _rationale(judged.measures[judged.best])
        if not judged.kept:
            confidence = 1.0 - confidences[judged.best]
            return Verdict(decision=Decision.DISCARD, rationale=rationale, confidence=confidence)
        alignments = []
        for place, near in zip(judged.kept, beside, strict=True):
            wanted, measures, preference = judged.wanted[place], judged.measures[place], candidate.preferences[place]
            stance = Stance.NEUTRAL
            if aspects_of(preference).understood:
                stance = self._stance(wanted, judged.chunk, judged.odds[place], measures, near)
            sentence = self._deciding(wanted, stance, said, candidate.preference_embeddings[place])
            language = self.language or language_for([preference])
            alignments.append(
                Alignment(
                    preference_id=preference.id,
                    instruction=worded_instruction(stance, sentence, preference.text, language),
                    stance=stance,
                    confidence=confidences[place],
                    rationale=_rationale(measures),
                )
            )
        return Verdict(
            decision=Decision.KEEP,
            rationale=rationale,
            alignments=tuple(alignments),
            confidence=confidences[judged.best],
        )

    def _stance(self, wanted: Wanted, chunk: Chunk, kept: float, measures: FloatArray, beside: float) -> Stance:
        plain, odds = measures.tolist(), float(self._weights.stance(stance_measured(measures)))
        if odds >= 0.0 and _is_mixed(wanted, measures):
            return Stance.MIXED
        if odds < 0.0 and not wanted.broken.isdisjoint(chunk.words.plain):
            return Stance.CONFLICTS
        # An article on a film with such a title names what the preference is about, too.
        if not chunk.note and plain[_NAMES_ONLY] >= _WHOLE:
            return Stance.NEUTRAL
        linear, least = self._weights.sure[chunk.note]
        sure = float(linear(sure_measured(kept, odds, plain, beside)))
        if 1.0 / (1.0 + math.exp(-sure)) < least:
            return Stance.NEUTRAL
        return Stance.CONFLICTS if odds < 0.0 else Stance.SUPPORTS

    def _deciding(self, wanted: Wanted, stance: Stance, said: Sequence[Chunk], preference: FloatArray) -> str:
        """Return the sentence that decides: by which the verifier would say so if it stood alone."""
        if len(said) == 1:
            return said[0].text
        measures = measured(wanted, said, [preference] * len(said))
        counts = 1.0 / (1.0 + np.exp(-self._weights.relevance(measures)))
        if stance in (Stance.SUPPORTS, Stance.CONFLICTS):
            side = 1.0 if stance is Stance.SUPPORTS else -1.0
            counts *= side * self._weights.stance(stance_measured(measures))
        says = np.array([wanted.is_more(sentence.text) for sentence in said])
        return said[int(np.where(says | ~says.any(), counts, -np.inf).argmax())].text


def verifier_of(
    verifier: Verifier | str | None, encoder: Encoder, lm: LanguageModel | None = None, language: str | None = None
) -> Verifier:
    """Return a verifier unchanged, and an `LMVerifier` for a name as `lm_of` takes it.

    None is an `LMVerifier` with `lm` if there is a model, else the embedded verifier, for instructions in a language.

    Raises:
        InvalidInputError: for an unknown name, or one that needs a server's address.
    """
    if verifier is not None and not isinstance(verifier, str):
        return verifier
    asked = lm if verifier is None else verifier
    if asked is None:
        return EmbeddedVerifier(encoder, language=language)
    from epic_memory.lm.by_name import lm_of
    from epic_memory.verification.lm import LMVerifier

    return LMVerifier(lm_of(asked), language=language)


class _Shared(NamedTuple):
    """Phrases of the preferences that are asked for, the stems with which their runs begin, and chunks by their text.

    One text may be a candidate for many people.
    """

    wanted: dict[_Key, Wanted]
    beginnings: frozenset[str]
    chunks: dict[str, Chunk]


class _Judged(NamedTuple):
    """An item under its preferences: measures, odds and confidence for each, the likeliest place, and the kept ones."""

    candidate: Candidate
    chunk: Chunk
    wanted: list[Wanted]
    measures: FloatArray
    odds: list[float]
    confidences: list[float]
    best: int
    kept: list[int]


def _key(preference: Preference) -> _Key:
    return preference.text, aspects_of(preference), preference.expansion


def _expanded(preferences: Sequence[Preference]) -> list[Preference]:
    """Return the preferences, with borrowed expansions for those without one; unread ones become one liked phrase."""
    lent = borrowed([one for one in preferences if one.expansion is None and aspects_of(one).understood])
    more = iter(lent)
    found = []
    for one in preferences:
        aspects = aspects_of(one)
        if not aspects.understood:
            # An unread preference is looked for as a whole.
            found.append(replace(one, aspects=Aspects(liked=(one.text,), firmness=aspects.firmness, source="parser")))
        elif one.expansion is None and (expansion := next(more)) is not None:
            found.append(replace(one, expansion=expansion))
        else:
            found.append(one)
    return found


def _is_mixed(wanted: Wanted, measures: FloatArray) -> bool:
    """Tell whether an avoided phrase is fully present, next to a liked phrase or to a denial of it elsewhere."""
    liked, stated, denied = measures[_SAID].tolist()
    return stated >= _WHOLE and (denied >= _WHOLE or bool(wanted.sides.aspects.liked and liked >= _WHOLE / 4))


@lru_cache(maxsize=2)
def shipped_weights(name: str) -> Weights:
    """Return the weights in the package: "static" for the bundled encoder, "other" for any other."""
    shipped: Mapping[str, Any] = json.loads(
        (files("epic_memory") / "data" / "verifier.json").read_text(encoding="utf-8")
    )

    def linear(what: str, measures: Sequence[str]) -> Linear:
        weights = shipped[f"{name}_{what}"]["weights"]
        values = [weights.get(measure, 0.0) for measure in measures]
        return Linear(np.array(values, dtype=np.float32), float(shipped[f"{name}_{what}"]["bias"]))

    long, note = (
        Sure(linear(what, SURE_MEASURES), float(shipped[f"{name}_{what}"]["least"]))
        for what in ("sure", "sure_of_note")
    )
    return Weights(
        relevance=linear("relevance", MEASURES),
        stance=linear("stance", STANCE_MEASURES),
        sure=(long, note),
        rarity=Rarity(shipped["counts"], shipped["texts"]),
    )


def _rationale(measures: FloatArray) -> str:
    preference, phrase, words = measures[_TOLD].tolist()
    return f"cosine {preference:.2f} with the preference, {phrase:.2f} with a phrase of it; {words:.0%} of its words"
