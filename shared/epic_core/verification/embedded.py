"""A verifier that needs no language model: what can be measured of a chunk under a preference, weighed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from epic_core.aspect_parser import aspects_of
from epic_core.aspects import Aspects
from epic_core.chunking import sentences
from epic_core.encoders.base import Encoder, embed
from epic_core.encoders.static import BUNDLED_NAME
from epic_core.errors import InvalidInputError
from epic_core.evidence import BY_WORDS, Sides, by_words, sides_of
from epic_core.threads import in_thread
from epic_core.types import Alignment, Candidate, Decision, FloatArray, Preference, Stance, Verdict
from epic_core.verification.pairs import (
    MEASURES,
    STANCE_MEASURES,
    Chunk,
    Rarity,
    Wanted,
    measured,
    stance_measured,
)
from epic_core.words import Words, words_of

DEFAULT_THRESHOLD = 0.2
_BLOCK = 256
# Of so many preferences it is kept what is looked for.
_KEPT = 4096
_QUOTED_WORDS = 30
_QUOTED_CHARACTERS = 240
_HEADING_WORDS = 4
# As good as every word.
_WHOLE = 0.99
_TOLD = [MEASURES.index(name) for name in ("preference", "phrase", "words")]
_AVOIDED_SAID = [MEASURES.index(name) for name in ("avoided_said", "avoided_denied")]


_Key: TypeAlias = tuple[str, Aspects]


class Weights(NamedTuple):
    """Two linear functions, and how rare words are.

    Attributes:
        relevance: Weights of `MEASURES`; the log-odds that a pair is kept are these times the measures, plus the bias.
        stance: Those of `STANCE_MEASURES`; the log-odds that a kept pair supports its preference rather than conflicts.
        relevance_bias, stance_bias: What is added.
        rarity: Of words.
    """

    relevance: FloatArray
    relevance_bias: float
    stance: FloatArray
    stance_bias: float
    rarity: Rarity


class EmbeddedVerifier:
    """Relevance and stance from similarities, shared words and a lexicon; an extractive instruction.

    Its confidence in an alignment is the chance that a careful reader would keep the item under that preference, as
    measured on judged pairs (`docs/quality.md`); a pair is kept from `threshold` on. A language model judges better;
    this runs anywhere. `shared/tools/make_verifier.py` fitted it.

    Args:
        encoder: Encodes preferences, their aspects, and the sentences of what is kept. The weights are those of the
            bundled encoder, or for any other one those of all-MiniLM-L6-v2.
        threshold: Confidence in [0, 1] from which a pair is kept.

    Raises:
        InvalidInputError: for a threshold outside [0, 1].
    """

    def __init__(self, encoder: Encoder, *, threshold: float = DEFAULT_THRESHOLD) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise InvalidInputError(f"threshold must be between 0 and 1, not {threshold!r}.")
        self.encoder = encoder
        self.threshold = threshold
        # What it decides is remembered by its name.
        self.name = "embedded-v3" if threshold == DEFAULT_THRESHOLD else f"embedded-v3/{threshold!r}"
        self._weights = shipped_weights("static" if encoder.name == BUNDLED_NAME else "other")
        self._known: dict[_Key, Wanted] = {}

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        """One verdict for each candidate, in order."""
        for start in range(0, len(candidates), _BLOCK):
            yield from self._block(candidates[start : start + _BLOCK])

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        """As `verify`, in a worker thread."""
        for start in range(0, len(candidates), _BLOCK):
            for verdict in await in_thread(self._block, candidates[start : start + _BLOCK]):
                yield verdict

    def _block(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        wanted = self._wanted_by([preference for one in candidates for preference in one.preferences])
        beginnings = frozenset().union(*(one.beginnings for one in wanted.values()))
        judged = [self._judged(candidate, wanted, beginnings) for candidate in candidates]
        # Only what is kept is looked at sentence by sentence; the embedding of a single one is the item's.
        pieces = [sentences(one.candidate.item.text) if one.kept else [] for one in judged]
        vectors = embed(self.encoder, [sentence for piece in pieces if len(piece) > 1 for sentence in piece])
        verdicts, start = [], 0
        for one, piece in zip(judged, pieces, strict=True):
            near = one.candidate.embedding[None, :]
            if len(piece) > 1:
                near = vectors[start : start + len(piece)]
                start += len(piece)
            said = [words_of(sentence, beginnings=beginnings) for sentence in piece] if len(piece) > 1 else []
            verdicts.append(self._verdict(one, piece, said, near))
        return verdicts

    def _wanted_by(self, preferences: Iterable[Preference]) -> dict[_Key, Wanted]:
        """What is looked for under some preferences, by their text and aspects."""
        asked = {(one.text, aspects_of(one)): one for one in preferences}
        # Of its own: another thread may forget what it knows.
        known = self._known
        found = {key: known[key] for key in asked if key in known}
        new = [key for key in asked if key not in found]
        for key, sides in zip(new, sides_of(self.encoder, [asked[key] for key in new]), strict=True):
            found[key] = Wanted.of(key[0], sides, self._weights.rarity)
        if new:
            self._known = found if len(known) > _KEPT else known | found
        return found

    def _judged(self, candidate: Candidate, known: Mapping[_Key, Wanted], beginnings: frozenset[str]) -> _Judged:
        chunk = Chunk(candidate.item.text, candidate.embedding, beginnings)
        wanted = [known[preference.text, aspects_of(preference)] for preference in candidate.preferences]
        found = np.array(
            [measured(one, chunk, vector) for one, vector in zip(wanted, candidate.preference_embeddings, strict=True)],
            dtype=np.float32,
        )
        odds = found @ self._weights.relevance + self._weights.relevance_bias
        confidences: list[float] = (1.0 / (1.0 + np.exp(-odds.astype(np.float64)))).tolist()
        order = sorted(range(len(wanted)), key=lambda place: -confidences[place])
        kept = [place for place in order if confidences[place] >= self.threshold]
        return _Judged(candidate, wanted, found, confidences, order[0], kept)

    def _verdict(self, judged: _Judged, pieces: Sequence[str], said: Sequence[Words], vectors: FloatArray) -> Verdict:
        confidences, candidate = judged.confidences, judged.candidate
        rationale = _rationale(judged.measures[judged.best])
        if not judged.kept:
            confidence = 1.0 - confidences[judged.best]
            return Verdict(decision=Decision.DISCARD, rationale=rationale, confidence=confidence)
        alignments = []
        for place in judged.kept:
            wanted, measures = judged.wanted[place], judged.measures[place]
            supporting = stance_measured(wanted, measures.tolist(), vectors) @ self._weights.stance
            stance = _stance(wanted, measures, float(supporting) + self._weights.stance_bias)
            sentence = _telling(wanted, stance, pieces, said, vectors, candidate.preference_embeddings[place])
            alignments.append(
                Alignment(
                    preference_id=candidate.preferences[place].id,
                    instruction=instruction_of(wanted.sides.aspects, stance, sentence),
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


class _Judged(NamedTuple):
    """An item under its preferences: a row of measures and a confidence for each; the likeliest, and those kept."""

    candidate: Candidate
    wanted: list[Wanted]
    measures: FloatArray
    confidences: list[float]
    best: int
    kept: list[int]


def _stance(wanted: Wanted, measures: FloatArray, odds: float) -> Stance:
    if odds < 0.0:
        return Stance.CONFLICTS
    said, denied = measures[_AVOIDED_SAID].tolist()
    # All that an avoided phrase says is there, beside something that is wanted, or denied elsewhere.
    both = said >= _WHOLE and (bool(wanted.sides.aspects.liked) or denied >= _WHOLE)
    return Stance.MIXED if both else Stance.SUPPORTS


def _telling(
    wanted: Wanted,
    stance: Stance,
    pieces: Sequence[str],
    said: Sequence[Words],
    vectors: FloatArray,
    preference: FloatArray,
) -> str:
    """The sentence to look at."""
    near = np.maximum(vectors @ preference, (vectors @ wanted.sides.vectors.T).max(axis=1))
    if said:
        near = near + np.array([_speaks(wanted.sides, wanted.among(words), stance) for words in said])
    # A question or a heading says what a text is about, not what it says.
    says = np.array([_says_something(piece) for piece in pieces])
    return pieces[int(np.where(says | ~says.any(), near, -2.0).argmax())]


def instruction_of(aspects: Aspects, stance: Stance, sentence: str) -> str:
    """Points at a sentence, and says whether to look for it or to steer clear of it."""
    liked, avoided = "; ".join(aspects.liked), "; ".join(aspects.avoided)
    quote = _cut(sentence)
    if stance is Stance.CONFLICTS:
        reason = f"the user avoids {avoided}" if avoided else f"the user wants {liked} instead"
        return f'Steer clear of this, {reason}: "{quote}"'
    suits = f"the user wants {liked}" if liked else f"it suits a user who avoids {avoided}"
    if stance is Stance.MIXED:
        told = f"the user avoids {avoided}" if avoided else suits
        return f'Take only what suits, {told}: "{quote}"'
    return f'Look for this, {suits}: "{quote}"'


def _speaks(sides: Sides, words: Words, stance: Stance) -> float:
    """How much a sentence says, by its words, of what makes the stance, in [0, 1]; of both sides where it is mixed."""
    if not words.plain and not words.negated:
        return 0.0
    said = dict(zip(BY_WORDS, by_words(sides, words), strict=True))
    wanted = max(said["liked_said"], said["avoided_denied"], said["liked_kinds_said"], said["avoided_instead_said"])
    unwanted = max(said["avoided_said"], said["liked_denied"], said["avoided_kinds_said"], said["liked_instead_said"])
    return min(1.0, wanted if stance is Stance.SUPPORTS else unwanted)


@lru_cache(maxsize=1)
def _shipped() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((files("epic_core") / "data" / "verifier.json").read_text(encoding="utf-8"))
    return found


@lru_cache(maxsize=2)
def shipped_weights(name: str) -> Weights:
    """The weights in the package: "static" for the bundled encoder, "other" for any other."""
    shipped = _shipped()
    relevance, stance = (shipped[f"{name}_{what}"] for what in ("relevance", "stance"))
    return Weights(
        relevance=_array(relevance["weights"], MEASURES),
        relevance_bias=float(relevance["bias"]),
        stance=_array(stance["weights"], STANCE_MEASURES),
        stance_bias=float(stance["bias"]),
        rarity=Rarity(shipped["counts"], shipped["texts"]),
    )


def _array(weights: Mapping[str, float], measures: Sequence[str]) -> FloatArray:
    return np.array([weights.get(measure, 0.0) for measure in measures], dtype=np.float32)


def _rationale(measures: FloatArray) -> str:
    preference, phrase, words = measures[_TOLD].tolist()
    return f"cosine {preference:.2f} with the preference, {phrase:.2f} with a phrase of it; {words:.0%} of its words"


def _says_something(sentence: str) -> bool:
    return not sentence.endswith("?") and len(sentence.split()) > _HEADING_WORDS


def _cut(sentence: str) -> str:
    words = sentence.split()
    cut = " ".join(words[:_QUOTED_WORDS])[:_QUOTED_CHARACTERS]
    return cut if cut == " ".join(words) else cut + " ..."
