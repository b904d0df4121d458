"""A verifier that needs no language model: a ranking by similarity features, not a judgement."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Iterator, Sequence

import numpy as np

from epic_core.aspects import AspectVectors, embed_aspects
from epic_core.chunking import sentences
from epic_core.encoders.base import Encoder, embed
from epic_core.errors import InvalidInputError
from epic_core.threads import in_thread
from epic_core.types import Alignment, Candidate, Decision, FloatArray, Preference, Stance, Verdict

_BLOCK = 256
# Relevance is the mean of three cosines; the confidence is a logistic function of it, 0.5 at the middle.
_MIDDLE = 0.36
_STEEPNESS = 12.0
_MARGIN = 0.05
_QUOTED_WORDS = 30
_QUOTED_CHARACTERS = 240
_HEADING_WORDS = 4
# Both sides of a preference this close together, or this close to each other, count as present.
_MIXED_MARGIN = 0.08
_WORD = re.compile(r"\w{4,}")
_ABSENT = (
    r"\b(?:no|not|without|never|free (?:of|from)|isn['’]t|aren['’]t|zero|instead of|rather than|avoid\w*|leaves? out)\b"
)


class EmbeddedVerifier:
    """Relevance from similarities, an extractive instruction, and a first guess at the stance.

    It ranks: a chunk whose sentences lie near a preference, or near what the preference likes or avoids,
    gets a high confidence. It does not understand: it keeps a film called "The Bees" for someone who avoids
    honey if the words are near enough. A language model judges better; this runs anywhere.

    Args:
        encoder: Encodes sentences, preferences and aspects.
        threshold: Confidence in [0, 1] from which a pair is kept.

    Raises:
        InvalidInputError: for a threshold outside [0, 1].
    """

    def __init__(self, encoder: Encoder, *, threshold: float = 0.5) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise InvalidInputError(f"threshold must be between 0 and 1, not {threshold!r}.")
        self.encoder = encoder
        self.threshold = threshold
        # What it decides is remembered by its name.
        self.name = "embedded-v1" if threshold == 0.5 else f"embedded-v1/{threshold:g}"
        self._sides: dict[str, AspectVectors] = {}

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
        self._learn({p.id: p for c in candidates for p in c.preferences})
        pieces = [sentences(candidate.item.text) for candidate in candidates]
        # The embedding of a single sentence is the item's, which is known.
        vectors = embed(self.encoder, [sentence for piece in pieces if len(piece) > 1 for sentence in piece])
        verdicts, start = [], 0
        for candidate, piece in zip(candidates, pieces, strict=True):
            if len(piece) > 1:
                near = vectors[start : start + len(piece)]
                start += len(piece)
            else:
                near = candidate.embedding[None, :]
            verdicts.append(self._verdict(candidate, piece, near))
        return verdicts

    def _learn(self, preferences: dict[str, Preference]) -> None:
        new = [preference for key, preference in preferences.items() if key not in self._sides]
        found = embed_aspects(self.encoder, [preference.text for preference in new])
        self._sides.update(zip((preference.id for preference in new), found, strict=True))

    def _verdict(self, candidate: Candidate, piece: list[str], vectors: FloatArray) -> Verdict:
        judged = []
        near = vectors @ candidate.preference_embeddings.T
        for column, (preference, similarity) in enumerate(
            zip(candidate.preferences, candidate.similarities, strict=True)
        ):
            pair = _Pair(self._sides[preference.id], similarity, near[:, column], piece, vectors)
            confidence = 1.0 / (1.0 + math.exp(-_STEEPNESS * (pair.relevance - _MIDDLE)))
            judged.append((confidence, preference, pair))
        judged.sort(key=lambda entry: -entry[0])
        # Preferences about the same things all lie near: only those near the nearest are meant.
        nearest = judged[0][2].relevance
        kept = [entry for entry in judged if entry[0] >= self.threshold and entry[2].relevance >= nearest - _MARGIN]
        confidence, _, pair = judged[0]
        rationale = pair.rationale
        if not kept:
            return Verdict(decision=Decision.DISCARD, rationale=rationale, confidence=1.0 - confidence)
        alignments = tuple(
            Alignment(
                preference_id=preference.id,
                instruction=pair.instruction(),
                stance=pair.stance,
                confidence=confidence,
                rationale=pair.rationale,
            )
            for confidence, preference, pair in kept
        )
        return Verdict(decision=Decision.KEEP, rationale=rationale, alignments=alignments, confidence=confidence)


class _Pair:
    """An item under one preference: its relevance, its most relevant sentence, its stance."""

    def __init__(
        self, sides: AspectVectors, similarity: float, to_preference: FloatArray, piece: list[str], vectors: FloatArray
    ) -> None:
        self.sides = sides
        self.similarity = similarity
        likes = vectors @ sides.liked.T if len(sides.liked) else np.full((len(piece), 1), -1.0, dtype=np.float32)
        avoids = vectors @ sides.avoided.T if len(sides.avoided) else np.full((len(piece), 1), -1.0, dtype=np.float32)
        near = np.maximum(to_preference, np.maximum(likes.max(axis=1), avoids.max(axis=1)))
        # A question or a heading says what a text is about, not what it says.
        says = np.array([_says_something(sentence) for sentence in piece])
        row = int(np.where(says | ~says.any(), near, -2.0).argmax())
        self.sentence = piece[row]
        self.closest = float(near[row])
        self.likes = float(likes.max())
        self.avoids = float(avoids.max())
        self._avoided_sentence = piece[int(avoids.max(axis=1).argmax())]
        # The item as a whole, its nearest sentence, and the sentence nearest to what is liked or avoided.
        self.relevance = (similarity + float(to_preference.max()) + max(self.likes, self.avoids)) / 3.0

    @property
    def rationale(self) -> str:
        return f"cosine {self.similarity:.2f} with the preference, {self.closest:.2f} in its nearest sentence"

    @property
    def stance(self) -> Stance:
        liked, avoided = len(self.sides.liked) > 0, len(self.sides.avoided) > 0
        if not avoided or (liked and self.likes > self.avoids + _MIXED_MARGIN):
            return Stance.SUPPORTS
        if any(_rules_out(self._avoided_sentence, phrase) for phrase in self.sides.aspects.avoided):
            return Stance.SUPPORTS
        if liked and self.avoids <= self.likes + _MIXED_MARGIN:
            return Stance.MIXED
        return Stance.CONFLICTS

    def instruction(self) -> str:
        """Points at the most relevant sentence, and says whether to look for it or to steer clear of it."""
        liked = "; ".join(self.sides.aspects.liked)
        avoided = "; ".join(self.sides.aspects.avoided)
        quote = _cut(self.sentence)
        if self.stance is Stance.CONFLICTS:
            return f'Steer clear of this, the user avoids {avoided}: "{quote}"'
        if self.stance is Stance.MIXED:
            return f'Take what suits {liked}, steer clear of {avoided}: "{quote}"'
        suits = f"the user wants {liked}" if liked else f"it suits a user who avoids {avoided}"
        return f'Look for this, {suits}: "{quote}"'


def _rules_out(sentence: str, avoided: str) -> bool:
    """Whether a sentence says that something avoided is not there: "without a casino", "gluten-free"."""
    stems = [re.escape(word[:-1] if word.endswith("s") else word) for word in _WORD.findall(avoided.lower())]
    if not stems:
        return False
    stem = f"(?:{'|'.join(stems)})"
    return bool(re.search(rf"{_ABSENT}\W+(?:\w+\W+){{0,2}}{stem}|\b{stem}\w*[- ]free\b|\bnon-{stem}", sentence, re.I))


def _says_something(sentence: str) -> bool:
    return not sentence.endswith("?") and len(sentence.split()) > _HEADING_WORDS


def _cut(sentence: str) -> str:
    words = sentence.split()
    cut = " ".join(words[:_QUOTED_WORDS])[:_QUOTED_CHARACTERS]
    return cut if cut == " ".join(words) else cut + " ..."
