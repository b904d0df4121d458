"""The checks for encoders and verifiers of one's own: the bundled ones pass, and each fault is found."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from epic_memory.encoders import OllamaEncoder, StaticEncoder
from epic_memory.errors import EncoderError, VerifierError
from epic_memory.testing import candidates_of, check_encoder, check_verifier
from epic_memory.types import Alignment, Candidate, Decision, FloatArray, Verdict
from epic_memory.verification import EmbeddedVerifier
from helpers import HashEncoder, KeepAll
from lm_servers import LMServer
from scripted import forget_environment


def test_what_ships_and_what_the_tests_use_passes() -> None:
    check_encoder(StaticEncoder())
    check_encoder(HashEncoder())
    check_verifier(EmbeddedVerifier(StaticEncoder()))
    check_verifier(KeepAll())


def test_an_encoder_of_a_server_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_environment(monkeypatch)
    with LMServer(lambda request: "", embed=lambda text: 7 * HashEncoder(16).vector(text)) as server:
        check_encoder(OllamaEncoder("tiny", host=server.url))


class Overlap:
    """Stands for a cross-encoder: the score of two texts is positive if they share a long word."""

    def predict(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        shared = [
            set(re.findall(r"\w{5,}", first.lower())) & set(re.findall(r"\w+", second.lower()))
            for first, second in pairs
        ]
        return np.array([len(words) - 0.5 for words in shared], dtype=np.float32)


class Scored(EmbeddedVerifier):
    """The verifier that docs/verification.md shows."""

    model = Overlap()

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        for candidate, verdict in zip(candidates, super().verify(candidates), strict=True):
            scores = self.model.predict([(one.text, candidate.item.text) for one in candidate.preferences])
            near = {one.id for one, score in zip(candidate.preferences, scores, strict=True) if score > 0.0}
            kept = tuple(one for one in verdict.alignments if one.preference_id in near)
            yield Verdict(decision=Decision.KEEP if kept else Decision.DISCARD, alignments=kept)

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        for verdict in await asyncio.to_thread(list, self.verify(candidates)):
            yield verdict


def test_a_verifier_around_a_cross_encoder_passes() -> None:
    verifier = Scored(StaticEncoder(), threshold=0.0)
    check_verifier(verifier)
    verdicts = list(verifier.verify(candidates_of(StaticEncoder(), ["Two hotels by the river.", "tea"])))
    assert {verdict.decision for verdict in verdicts} == {Decision.KEEP, Decision.DISCARD}


class Wrong(StaticEncoder):
    """The static encoder with a fault."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault, self.calls = fault, 0

    def encode(self, texts: Sequence[str]) -> FloatArray:
        vectors = super().encode(texts)
        self.calls += 1
        if self.fault == "long":
            return vectors * 2.0
        if self.fault == "alike":
            vectors[:] = vectors[0]
        if self.fault == "order":
            return vectors[np.argsort(list(texts))]
        if self.fault == "alone" and len(texts) == 1:
            return np.roll(vectors, 1, axis=1)
        if self.fault == "short":
            return vectors[:, 1:]
        return vectors

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        vectors = super().encode(texts)
        return np.roll(vectors, 1, axis=1) if self.fault == "async" else self.encode(texts)


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ("long", "unit vectors"),
        ("alike", "the same embedding"),
        ("order", "alone than among others|order"),
        ("alone", "alone than among others"),
        ("async", "aencode and encode"),
    ],
)
def test_a_fault_of_an_encoder_is_found(fault: str, what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        check_encoder(Wrong(fault))


def test_a_wrong_shape_is_found() -> None:
    with pytest.raises(EncoderError, match="shape"):
        check_encoder(Wrong("short"))


@pytest.mark.parametrize("checked", [check_encoder, check_verifier])
def test_what_lacks_a_member_is_found(checked: Any) -> None:
    with pytest.raises(AssertionError, match="lacks a member"):
        checked(object())


class Faulty(KeepAll):
    """A verifier that keeps everything, with a fault."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        verdicts = list(super().verify(candidates))
        if self.fault == "fewer":
            verdicts = verdicts[1:]
        if self.fault == "eager":
            verdicts = verdicts or [Verdict(decision=Decision.DISCARD)]
        if self.fault == "unknown":
            other = Alignment(preference_id="nobody", instruction="Keep it.")
            verdicts = [replace(verdict, alignments=(other,)) for verdict in verdicts]
        if self.fault == "alone" and len(candidates) == 1:
            verdicts = [Verdict(decision=Decision.DISCARD)]
        yield from verdicts

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        for verdict in self.verify(candidates):
            yield Verdict(decision=Decision.DISCARD) if self.fault == "async" else verdict


@pytest.mark.parametrize(
    ("fault", "what"),
    [("fewer", "verdicts"), ("eager", "no candidates"), ("alone", "otherwise alone"), ("async", "averify")],
)
def test_a_fault_of_a_verifier_is_found(fault: str, what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        check_verifier(Faulty(fault))


def test_an_unknown_preference_is_found() -> None:
    with pytest.raises(VerifierError, match="not asked about"):
        check_verifier(Faulty("unknown"))
