"""The checks for encoders and verifiers of one's own: the bundled ones pass, and each fault is found."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from epic_memory.encoders import StaticEncoder
from epic_memory.errors import EncoderError, VerifierError
from epic_memory.testing import check_encoder, check_verifier
from epic_memory.types import Alignment, Candidate, Decision, FloatArray, Verdict
from epic_memory.verification import EmbeddedVerifier, Verifier
from helpers import KeepAll


@pytest.mark.parametrize("verifier", [EmbeddedVerifier(StaticEncoder()), KeepAll()])
def test_verifiers_that_ship_or_that_the_tests_use_pass(verifier: Verifier) -> None:
    check_verifier(verifier)


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
            several = [len(candidate.preferences) > 1 for candidate in candidates]
            verdicts = [replace(v, alignments=(other,)) if two else v for v, two in zip(verdicts, several, strict=True)]
        if self.fault == "alone" and len(candidates) == 1:
            verdicts = [Verdict(decision=Decision.DISCARD)]
        yield from verdicts

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        for verdict in self.verify(candidates):
            yield Verdict(decision=Decision.DISCARD) if self.fault == "async" else verdict


@pytest.mark.parametrize(
    ("check", "faulty", "fault", "what"),
    [
        (check_encoder, Wrong, "long", "unit vectors"),
        (check_encoder, Wrong, "alike", "the same embedding"),
        (check_encoder, Wrong, "order", "alone than among others|order"),
        (check_encoder, Wrong, "alone", "alone than among others"),
        (check_encoder, Wrong, "async", "aencode and encode"),
        (check_encoder, Wrong, "short", "shape"),
        (check_verifier, Faulty, "fewer", "verdicts"),
        (check_verifier, Faulty, "eager", "no candidates"),
        (check_verifier, Faulty, "alone", "otherwise alone"),
        (check_verifier, Faulty, "async", "averify"),
        (check_verifier, Faulty, "unknown", "not asked about"),
    ],
)
def test_a_fault_is_found(check: Any, faulty: Any, fault: str, what: str) -> None:
    own = {"short": EncoderError, "unknown": VerifierError}
    with pytest.raises(own.get(fault, AssertionError), match=what):
        check(faulty(fault))
