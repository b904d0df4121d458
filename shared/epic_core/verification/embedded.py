"""A verifier that needs no language model: what can be measured of a chunk under a preference, weighed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from epic_core.aspect_parser import aspects_of
from epic_core.aspects import Aspects
from epic_core.chunking import sentences
from epic_core.encoders.base import Encoder, embed
from epic_core.errors import InvalidInputError
from epic_core.evidence import BY_WORDS, Sides, by_words, sides_of
from epic_core.threads import in_thread
from epic_core.types import Alignment, Candidate, Decision, FloatArray, Preference, Stance, Verdict
from epic_core.verification.pairs import MEASURES, Chunk, Rarity, Wanted, measured
from epic_core.words import words_of

DEFAULT_THRESHOLD = 0.2
_BLOCK = 256
# Of so many preferences it is kept what is looked for.
_KEPT = 4096
_BUNDLED = "epic-static-v1"
_QUOTED_WORDS = 30
_QUOTED_CHARACTERS = 240
_HEADING_WORDS = 4
# As good as every word.
_WHOLE = 0.99


class Weights(NamedTuple):
    """Two linear functions of `MEASURES`, and how rare words are.

    Attributes:
        relevance, stance: Weights of the measures, shape `(len(MEASURES),)`; the log-odds that a pair is kept, and that
            a kept one supports its preference rather than conflicts, are these times the measures, plus the bias.
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
        encoder: Encodes sentences, preferences and their aspects. The weights are those of the bundled encoder, or for
            any other one those of all-MiniLM-L6-v2.
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
        self.name = "embedded-v2" if threshold == DEFAULT_THRESHOLD else f"embedded-v2/{threshold!r}"
        self._weights = shipped_weights("static" if encoder.name == _BUNDLED else "other")
        self._wanted: dict[tuple[str, Aspects], Wanted] = {}

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
        self._learn([preference for one in candidates for preference in one.preferences])
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
            verdicts.append(self._verdict(candidate, Chunk(candidate.item.text, piece, candidate.embedding, near)))
        return verdicts

    def _learn(self, preferences: Iterable[Preference]) -> None:
        asked = {(one.text, aspects_of(one)): one for one in preferences}
        if len(self._wanted) > _KEPT:
            self._wanted = {key: known for key, known in self._wanted.items() if key in asked}
        new = [one for key, one in asked.items() if key not in self._wanted]
        for preference, sides in zip(new, sides_of(self.encoder, new), strict=True):
            wanted = Wanted.of(preference.text, sides, self._weights.rarity)
            self._wanted[preference.text, sides.aspects] = wanted

    def _verdict(self, candidate: Candidate, chunk: Chunk) -> Verdict:
        wanted = [self._wanted[preference.text, aspects_of(preference)] for preference in candidate.preferences]
        found = np.array(
            [measured(one, chunk, vector) for one, vector in zip(wanted, candidate.preference_embeddings, strict=True)],
            dtype=np.float32,
        )
        confidences = self._confidences(found)
        supporting = found @ self._weights.stance + self._weights.stance_bias
        order = sorted(range(len(wanted)), key=lambda place: -confidences[place])
        alignments = []
        for place in order:
            if confidences[place] >= self.threshold:
                pair = _Pair(
                    wanted[place],
                    chunk,
                    candidate.preference_embeddings[place],
                    found[place],
                    float(supporting[place]),
                )
                alignments.append(
                    Alignment(
                        preference_id=candidate.preferences[place].id,
                        instruction=pair.instruction(),
                        stance=pair.stance,
                        confidence=confidences[place],
                        rationale=_rationale(found[place]),
                    )
                )
        best = order[0]
        rationale = _rationale(found[best])
        if not alignments:
            return Verdict(decision=Decision.DISCARD, rationale=rationale, confidence=1.0 - confidences[best])
        return Verdict(
            decision=Decision.KEEP, rationale=rationale, alignments=tuple(alignments), confidence=confidences[best]
        )

    def _confidences(self, found: FloatArray) -> list[float]:
        """The chance that each of a candidate's pairs would be kept, from their measures, a row each."""
        odds = found @ self._weights.relevance + self._weights.relevance_bias
        confidences: list[float] = (1.0 / (1.0 + np.exp(-odds.astype(np.float64)))).tolist()
        return confidences


class _Pair:
    """A kept item under one preference: its stance, and the sentence to look at."""

    def __init__(self, wanted: Wanted, chunk: Chunk, preference: FloatArray, measures: FloatArray, odds: float) -> None:
        sides = wanted.sides
        self._aspects = sides.aspects
        said = dict(zip(MEASURES, measures.tolist(), strict=True))
        # All that an avoided phrase says is there, beside something that is wanted, or denied elsewhere.
        both = said["chunk_avoided_said"] >= _WHOLE and (
            bool(sides.aspects.liked) or said["chunk_avoided_denied"] >= _WHOLE
        )
        self.stance = Stance.CONFLICTS if odds < 0.0 else Stance.MIXED if both else Stance.SUPPORTS
        near = np.maximum(chunk.vectors @ preference, (chunk.vectors @ sides.vectors.T).max(axis=1))
        if len(chunk.sentences) > 1:
            near = near + np.array([_speaks(sides, sentence, self.stance) for sentence in chunk.sentences])
        # A question or a heading says what a text is about, not what it says.
        says = np.array([_says_something(sentence) for sentence in chunk.sentences])
        self._sentence = chunk.sentences[int(np.where(says | ~says.any(), near, -2.0).argmax())]

    def instruction(self) -> str:
        """What is said of the item under the preference."""
        return instruction_of(self._aspects, self.stance, self._sentence)


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


def _speaks(sides: Sides, sentence: str, stance: Stance) -> float:
    """How much a sentence says, by its words, of what makes the stance, in [0, 1]; of both sides where it is mixed."""
    said = dict(zip(BY_WORDS, by_words(sides, words_of(sentence)), strict=True))
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
        relevance=_by_measure(relevance["weights"]),
        relevance_bias=float(relevance["bias"]),
        stance=_by_measure(stance["weights"]),
        stance_bias=float(stance["bias"]),
        rarity=Rarity(shipped["counts"], shipped["texts"]),
    )


def _by_measure(weights: Mapping[str, float]) -> FloatArray:
    return np.array([weights.get(measure, 0.0) for measure in MEASURES], dtype=np.float32)


def _rationale(measures: FloatArray) -> str:
    said = dict(zip(MEASURES, measures.tolist(), strict=True))
    nearest = max(said["sentence"], said["sentence_phrase"])
    return (
        f"cosine {said['chunk']:.2f} with the preference, {nearest:.2f} in its nearest sentence;"
        f" {said['words']:.0%} of its words"
    )


def _says_something(sentence: str) -> bool:
    return not sentence.endswith("?") and len(sentence.split()) > _HEADING_WORDS


def _cut(sentence: str) -> str:
    words = sentence.split()
    cut = " ".join(words[:_QUOTED_WORDS])[:_QUOTED_CHARACTERS]
    return cut if cut == " ".join(words) else cut + " ..."
