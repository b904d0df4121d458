"""Checks for those who write an encoder or a verifier of their own: what a memory relies on, in one call each.

    from epic_memory.testing import check_encoder, check_verifier

    def test_my_encoder():
        check_encoder(MyEncoder())

    def test_my_verifier():
        check_verifier(MyVerifier())

Call them from a function that is not `async`: the asynchronous twins are run in an event loop of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from epic_memory.encoders import Encoder, StaticEncoder
from epic_memory.encoders.base import aembed, aembed_query, embed, embed_query
from epic_memory.types import Candidate, Decision, FloatArray, Item, Preference, Verdict
from epic_memory.verification import Verifier
from epic_memory.verification.base import checked_verdict

TEXTS = (
    "A quiet hotel by the river, without a casino.",
    "tea",
    "Ein Käse aus Rohmilch, drei Jahre gereift 🧀",
    "素食主义者的晚餐",
    "line one\nline two\twith a tab and a bell \x07 in it",
    "a long text about trains " * 400,
)
"""Texts as they come: plain, short, in other scripts, with control characters, longer than a model's window."""

_PREFERENCES = ("I avoid hotels with on-site casinos.", "I follow a strict vegan diet.")
_TOLERANCE = 1e-3


def check_encoder(encoder: Encoder, texts: Sequence[str] = TEXTS) -> None:
    """Check that an encoder does what a memory relies on.

    Its embeddings are finite unit vectors of its `dimension`, one for each text, in order; a text has the same one
    alone, among others, in another thread and asynchronously; `encode_query` and `aencode_query` agree where it has
    them.

    Args:
        encoder: The encoder.
        texts: What is encoded: at least two that differ, none of them empty.

    Raises:
        AssertionError: that says what is wrong.
        EncoderError: for what is no embedding.
    """
    assert isinstance(encoder, Encoder), f"{type(encoder).__name__} lacks a member of the protocol Encoder"
    assert encoder.name, "name must not be empty"
    assert encoder.fingerprint, "fingerprint must not be empty"
    assert isinstance(encoder.dimension, int) and encoder.dimension > 0, "dimension must be a whole number above 0"
    together = embed(encoder, texts)
    raw = np.asarray(encoder.encode(texts))
    assert np.allclose(np.linalg.norm(raw, axis=1), 1.0, atol=_TOLERANCE), "encode must return unit vectors"
    assert not _equal(together[:1], together[1:2]), f"{texts[0]!r} and {texts[1]!r} have the same embedding"
    for text, vector in zip(texts, together, strict=True):
        assert _equal(embed(encoder, [text])[0], vector), f"{text[:40]!r} has another embedding alone than among others"
    assert _equal(embed(encoder, texts[::-1]), together[::-1]), "embeddings do not follow the order of the texts"
    with ThreadPoolExecutor(max_workers=2) as threads:
        for vectors in threads.map(lambda _: embed(encoder, texts), range(2)):
            assert _equal(vectors, together), "another thread gets other embeddings"
    assert _equal(asyncio.run(aembed(encoder, texts)), together), "aencode and encode do not agree"
    queries = np.stack([embed_query(encoder, text) for text in texts])
    for text, vector in zip(texts, queries, strict=True):
        assert _equal(asyncio.run(aembed_query(encoder, text)), vector), "aencode_query and encode_query do not agree"


def check_verifier(
    verifier: Verifier, candidates: Iterable[Candidate] | None = None, *, deterministic: bool = True
) -> None:
    """Check that a verifier does what a memory relies on.

    It yields one valid verdict for each candidate, in order, synchronously and asynchronously; nothing for no
    candidate; and an iterator that is given up ends without an error.

    Args:
        verifier: The verifier.
        candidates: What is judged. Default: candidates of one preference and of two, encoded by the static encoder.
        deterministic: Whether it decides alike when it is asked twice; False for a model that draws its answers.

    Raises:
        AssertionError: that says what is wrong.
        VerifierError: for what is no valid verdict.
    """
    assert isinstance(verifier, Verifier), f"{type(verifier).__name__} lacks a member of the protocol Verifier"
    assert verifier.name, "name must not be empty"
    given = _candidates() if candidates is None else list(candidates)
    verdicts = _checked(given, list(verifier.verify(given)))

    async def collected() -> list[Verdict]:
        return [verdict async for verdict in verifier.averify(given)]

    later = _checked(given, asyncio.run(collected()))
    for candidate, first, second in zip(given, verdicts, later, strict=True):
        if deterministic:
            assert _decided(first) == _decided(second), f"verify and averify decide otherwise: {candidate.item.text!r}"
        one = _checked([candidate], list(verifier.verify([candidate])))[0]
        if deterministic:
            assert _decided(one) == _decided(first), f"{candidate.item.text!r} is judged otherwise alone"
    assert list(verifier.verify([])) == [], "no candidates must have no verdicts"
    begun = iter(verifier.verify(given))
    next(begun)
    if close := getattr(begun, "close", None):
        close()


def _candidates() -> list[Candidate]:
    """Return each text as a candidate under the first preference, then under both."""
    encoder, asked = StaticEncoder(), [Preference(text=text) for text in _PREFERENCES]
    vectors, directions = embed(encoder, TEXTS), embed(encoder, _PREFERENCES)
    made = []
    for count in (1, len(asked)):
        for place, (text, vector) in enumerate(zip(TEXTS, vectors, strict=True)):
            near = directions[:count] @ vector
            order = np.argsort(-near)
            made.append(
                Candidate(
                    item=Item(id=f"{count}-{place}", text=text),
                    embedding=vector,
                    preferences=tuple(asked[each] for each in order),
                    similarities=tuple(float(near[each]) for each in order),
                    preference_embeddings=directions[order],
                )
            )
    return made


def _checked(candidates: Sequence[Candidate], verdicts: Sequence[Verdict]) -> list[Verdict]:
    assert len(verdicts) == len(candidates), f"{len(candidates)} candidates have {len(verdicts)} verdicts"
    return [checked_verdict(candidate, verdict) for candidate, verdict in zip(candidates, verdicts, strict=True)]


def _decided(verdict: Verdict) -> tuple[Decision, list[tuple[str, object]]]:
    return verdict.decision, [(alignment.preference_id, alignment.stance) for alignment in verdict.alignments]


def _equal(first: FloatArray, second: FloatArray) -> bool:
    return bool(np.allclose(first, second, atol=_TOLERANCE))
