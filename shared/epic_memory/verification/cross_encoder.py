"""Cross-encoder verification: by a model that reads a chunk and a preference together, but writes nothing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.base import Encoder, embed
from epic_memory.errors import InvalidInputError
from epic_memory.preferences.parser import aspects_of
from epic_memory.runtime.threads import in_thread
from epic_memory.text.chunking import WordChunker, count_words, sentences
from epic_memory.types import Alignment, Candidate, Decision, Stance, Verdict
from epic_memory.types.validation import checked_whole
from epic_memory.verification.base import BaseVerifier
from epic_memory.verification.embedded import EmbeddedVerifier
from epic_memory.verification.features import VerificationWeights
from epic_memory.verification.pair_model import PairModel, PairScorer
from epic_memory.verification.wording import worded_instruction

_HYPOTHESIS = "This involves {aspect}."
_REASON_CHARACTERS = 300

_Scores: TypeAlias = NDArray[np.float64]


class _Asked(NamedTuple):
    """A candidate as pairs of texts: for each preference its phrases, for each phrase the pieces of the chunk."""

    candidate: Candidate
    pieces: list[str]
    phrases: list[tuple[str, ...]]
    pairs: list[tuple[str, str]]

    def by_preference(self, rows: _Scores) -> list[_Scores]:
        """Return the rows of its pairs, for each preference in the shape `(phrases, pieces, labels)`."""
        shapes = [(len(phrases), len(self.pieces)) for phrases in self.phrases]
        ends = np.cumsum([phrases * pieces for phrases, pieces in shapes])[:-1]
        return [part.reshape(*shape, -1) for part, shape in zip(np.split(rows, ends), shapes, strict=True)]


class CrossEncoderVerifier(BaseVerifier):
    """A verifier with relevance from a cross-encoder; instructions, and mostly stances, from the embedded verifier.

    A model with one score for a pair (a reranker, a model of similarity) reads the preference and the chunk, in this
    order. Its score is the confidence: unchanged if the model's activation gives probabilities, through a sigmoid if it
    gives logits. A model with several labels is one of natural language inference and determines the stance too: the
    chunk is the premise, and each liked or avoided phrase makes a hypothesis. Entailed liked phrases and contradicted
    avoided phrases support the preference, the others conflict with it; the strongest of them is the confidence. A
    contradiction counts only if nothing is entailed and the embedded verifier would keep the pair, because these models
    also label as contradicted what a text does not mention at all.

    Every pair is judged by itself. A chunk of more than `max_words` words is read in pieces of whole sentences, and the
    best piece counts; the model cuts a sentence that is longer than its input.

    Args:
        model: A name or a folder for sentence-transformers, a `CrossEncoder`, or another object with `predict(pairs)`.
        encoder: Encodes sentences, preferences and aspects for the embedded verifier; need not be the memory's.
            Default: the embedded static encoder.
        threshold: Confidence in [0, 1] from which a pair is kept.
        batch: Pairs in one forward pass.
        max_words: Words of a chunk that are read at once; default: as many as fit into the model, 250 at most.
        logits: Whether the model gives logits; default: as its activation implies (`Identity` does). A model without an
            activation is taken to give probabilities.
        labels: The meanings of several scores, in order; default: as the model's `config.id2label` says.
        hypothesis: With several labels, the sentence to infer from the chunk; `{aspect}` stands for a liked or avoided
            phrase.
        name: Name of the model; default: the last part of its path. Give one for an object without weights or a
            `fingerprint` of its own: its verdicts are cached only then.
        device: As sentence-transformers takes it.

    Raises:
        MissingExtraError: if sentence-transformers is not installed and the model is a name or a folder.
        EncoderError: if the model cannot be loaded, or is not a cross-encoder.
        InvalidInputError: for invalid arguments, or labels without an entailment.
    """

    threshold: float

    def __init__(
        self,
        model: str | os.PathLike[str] | PairScorer,
        *,
        encoder: Encoder | None = None,
        threshold: float = 0.5,
        batch: int = 32,
        max_words: int | None = None,
        logits: bool | None = None,
        labels: Sequence[str] | None = None,
        hypothesis: str = _HYPOTHESIS,
        name: str | None = None,
        device: str | None = None,
    ) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise InvalidInputError(f"threshold must be between 0 and 1, not {threshold!r}.")
        checked_whole(batch, "batch", 1)
        if "{aspect}" not in hypothesis:
            raise InvalidInputError(f"hypothesis must say where the aspect goes: {_HYPOTHESIS!r}, not {hypothesis!r}.")
        if encoder is None:
            from epic_memory.encoders import default_encoder

            encoder = default_encoder()
        self.model = PairModel(model, device=device, batch=batch, logits=logits, labels=labels, name=name)
        self.encoder = encoder
        self.threshold = threshold
        self.hypothesis = hypothesis
        self._batch = batch
        self._chunker = WordChunker(max_words=self.model.words if max_words is None else max_words)
        # It writes the instructions of kept pairs; whether a pair is kept is decided here.
        self._embedded = EmbeddedVerifier(encoder, threshold=0.0)
        self._relevant = EmbeddedVerifier(encoder).threshold
        settings = (
            self.model.identity, self.model.labels, self.model.logits, threshold, self._chunker.max_words, hypothesis,
            self._embedded.name, encoder.name, encoder.fingerprint,
        )  # fmt: skip
        # Verdicts are cached under this name, so it contains every setting.
        self.name = f"cross-encoder:{self.model.name}:{hashlib.sha256(repr(settings).encode()).hexdigest()[:12]}"
        # With inference, the verdict depends on a preference's aspects, which can change while its words stay the same.
        self.cached = bool(self.model.identity) and not self.model.labels

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        """Yield one verdict for each candidate, in order."""
        for verdicts in self._blocks(candidates):
            yield from verdicts

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        """Yield verdicts as `verify` does, computed in a worker thread."""
        blocks = self._blocks(candidates)
        while (verdicts := await in_thread(next, blocks, None)) is not None:
            for verdict in verdicts:
                yield verdict

    def _blocks(self, candidates: Sequence[Candidate]) -> Iterator[list[Verdict]]:
        """Yield verdicts in blocks of as many candidates as fill a forward pass."""
        block: list[_Asked] = []
        pairs = 0
        for candidate in candidates:
            block.append(self._asked(candidate))
            pairs += len(block[-1].pairs)
            if pairs >= self._batch:
                yield self._verdicts(block)
                block, pairs = [], 0
        if block:
            yield self._verdicts(block)

    def _asked(self, candidate: Candidate) -> _Asked:
        text = candidate.item.content
        pieces = [text] if count_words(text) <= self._chunker.max_words else self._chunker.chunks(text)
        if self.model.labels:
            # A preference that could not be read is asked about as a whole.
            phrases = [
                (*(sides := aspects_of(preference)).liked, *sides.avoided) or (preference.text,)
                for preference in candidate.preferences
            ]
            pairs = [(piece, self._claim(phrase)) for each in phrases for phrase in each for piece in pieces]
        else:
            phrases = [(preference.text,) for preference in candidate.preferences]
            pairs = [(phrase, piece) for each in phrases for phrase in each for piece in pieces]
        return _Asked(candidate, pieces, phrases, pairs)

    def _claim(self, phrase: str) -> str:
        return self.hypothesis.replace("{aspect}", phrase)

    def _verdicts(self, block: list[_Asked]) -> list[Verdict]:
        try:
            rows = self.model.probabilities([pair for asked in block for pair in asked.pairs])
        except Exception as error:
            if len(block) > 1:
                # A candidate that cannot be scored must not make the others fail.
                return [verdict for asked in block for verdict in self._verdicts([asked])]
            return [self._failed(f"{type(error).__name__}: {error}")]
        ends = np.cumsum([len(asked.pairs) for asked in block])[:-1]
        return [self._verdict(asked, part) for asked, part in zip(block, np.split(rows, ends), strict=True)]

    def _failed(self, why: str) -> Verdict:
        rationale = f"The cross-encoder {self.model.name} failed: {why}"[:_REASON_CHARACTERS]
        return Verdict(decision=Decision.UNDECIDED, rationale=rationale)

    def _verdict(self, asked: _Asked, rows: _Scores) -> Verdict:
        if np.isnan(rows).any():
            return self._failed("it gave a score that is no finite number")
        judge = self._inferred if self.model.labels else self._related
        scores = asked.by_preference(rows)
        # Inference needs the embedded verifier's view of each pair; otherwise it only words kept pairs.
        wanted = [bool(self.model.labels) or float(each.max()) >= self.threshold for each in scores]
        worded = self._worded(asked.candidate, wanted)
        judged = [judge(asked, column, each, worded) for column, each in enumerate(scores)]
        judged.sort(key=lambda entry: -entry[0])
        confidence, best = judged[0]
        kept = tuple(alignment for sure, alignment in judged if sure >= self.threshold)
        if not kept:
            return Verdict(decision=Decision.DISCARD, rationale=best.rationale, confidence=1.0 - confidence)
        return Verdict(decision=Decision.KEEP, rationale=best.rationale, alignments=kept, confidence=confidence)

    def _related(
        self, asked: _Asked, column: int, scores: _Scores, said: dict[int, Alignment]
    ) -> tuple[float, Alignment]:
        """Return the confidence by one score, and the alignment with the embedded verifier's wording."""
        confidence = float(scores.max())
        rationale = f"{self.model.name} finds a relevance of {confidence:.2f}"
        if confidence < self.threshold:
            preference = asked.candidate.preferences[column]
            return confidence, Alignment(preference_id=preference.id, instruction="", rationale=rationale)
        worded = said[column]
        return confidence, replace(worded, confidence=confidence, rationale=f"{rationale}; {worded.rationale}")

    def _inferred(
        self, asked: _Asked, column: int, scores: _Scores, said: dict[int, Alignment]
    ) -> tuple[float, Alignment]:
        """Return the confidence, and the alignment with a stance from what the chunk entails and contradicts."""
        preference = asked.candidate.preferences[column]
        aspects = aspects_of(preference)
        worded = said[column]
        entailed = scores[:, :, self.model.entails].max(axis=1)
        contradicted = np.zeros_like(entailed)
        if self.model.contradicts is not None and (worded.confidence or 0.0) >= self._relevant:
            # A text that states one phrase does not thereby deny the preference's others, nor one piece what another
            # states.
            contradicted = np.minimum(scores[:, :, self.model.contradicts].max(axis=1), 1.0 - entailed.max())
        likes = len(aspects.liked)
        supporting = np.concatenate([entailed[:likes], contradicted[likes:]])
        conflicting = np.concatenate([contradicted[:likes], entailed[likes:]])
        strongest = np.maximum(supporting, conflicting)
        confidence, row = float(strongest.max()), int(strongest.argmax())
        phrase = asked.phrases[column][row]
        stance = worded.stance
        if aspects.understood:
            stance = _stance(float(supporting.max()), float(conflicting.max()), stance)
        verb = "entails" if entailed[row] >= contradicted[row] else "contradicts"
        instruction = worded.instruction
        if stance is not worded.stance:
            instruction = worded_instruction(aspects, stance, self._nearest(asked.candidate.item.content, phrase))
        return confidence, Alignment(
            preference_id=preference.id,
            instruction=instruction,
            stance=stance,
            confidence=confidence,
            rationale=f'{self.model.name}: it {verb} "{self._claim(phrase)}" with {confidence:.2f}',
        )

    def _worded(self, candidate: Candidate, wanted: Sequence[bool]) -> dict[int, Alignment]:
        """Return the embedded verifier's alignments of an item with the wanted preferences, by their places."""
        places = [place for place, chosen in enumerate(wanted) if chosen]
        if not places:
            return {}
        preferences = tuple(candidate.preferences[place] for place in places)
        # The candidate's embeddings may come from another encoder.
        vectors = embed(self.encoder, [candidate.item.content, *(preference.text for preference in preferences)])
        pairs = Candidate(
            item=candidate.item,
            embedding=vectors[0],
            preferences=preferences,
            similarities=tuple((vectors[1:] @ vectors[0]).tolist()),
            preference_embeddings=vectors[1:],
        )
        (verdict,) = self._embedded.verify([pairs])
        said = {alignment.preference_id: alignment for alignment in verdict.alignments}
        return {place: said[candidate.preferences[place].id] for place in places}

    def _nearest(self, text: str, phrase: str) -> str:
        said = sentences(text)
        vectors = embed(self.encoder, [phrase, *said])
        return said[int((vectors[1:] @ vectors[0]).argmax())]


def _stance(supporting: float, conflicting: float, guess: Stance) -> Stance:
    if min(supporting, conflicting) > VerificationWeights.shipped().spoken_of:
        return Stance.MIXED
    if supporting == conflicting:
        return guess
    return Stance.SUPPORTS if supporting > conflicting else Stance.CONFLICTS
