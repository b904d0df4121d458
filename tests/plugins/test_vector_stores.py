"""Steered search of a store that is not ours: what it is asked, and how what it answers is ranked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import Preference, QuerySteering
from epic_memory.encoders import Encoder, default_encoder
from epic_memory.errors import EncoderError, InvalidInputError
from epic_memory.runtime.effects import Call, arun, run
from epic_memory.types import Stance
from epic_plugins.vector_stores import OVERFETCH, Found, SteeredSearch, Target
from helpers import HashEncoder

CASINO, QUIET, BANK = (
    "A hotel with a casino, slot machines and poker.",
    "A quiet hotel with a garden.",
    "A bank in the old town.",
)
AVOIDS = "I avoid hotels with casinos."
LIKES = "I love quiet hotels with a garden."
QUERY = "Which hotel should I book?"
MODES = ["paper", "signed", "off"]

Document = tuple[str, dict[str, Any]]
words = st.sampled_from(["hotel", "casino", "quiet", "garden", "bank", "poker", "train", "wine"])
texts_of_words = st.lists(words, min_size=1).map(" ".join)


class Store:
    """Documents, nearest first by cosine; remembers what it was asked. It gives more than asked for, if `every`."""

    def __init__(self, documents: Sequence[Document], encoder: Encoder, *, every: bool = False) -> None:
        self.documents = list(documents)
        self.vectors = encoder.encode([text for text, _ in documents]) if documents else None
        if isinstance(encoder, HashEncoder):
            encoder.texts.clear()
            encoder.sync_threads.clear()
        self.asked: list[tuple[list[float], int | None]] = []
        self.every = every

    def fetch(self, vector: list[float], count: int | None) -> list[Document]:
        self.asked.append((vector, count))
        if self.vectors is None:
            return []
        order = np.argsort(-(self.vectors @ np.array(vector, dtype=np.float32)), kind="stable")
        return [self.documents[row] for row in order[: None if self.every else count]]

    async def afetch(self, vector: list[float], count: int | None) -> list[Document]:
        return self.fetch(vector, count)

    def call(self, vector: list[float], count: int | None) -> Call:
        return Call(self.fetch, self.afetch, vector, count)


def target_of(encoder: Encoder, preferences: Any, mode: Any = "signed", embedding: Any = None) -> Target:
    embedding = encoder.encode([QUERY])[0] if embedding is None else embedding
    return run(SteeredSearch(encoder).target(embedding, preferences, mode))


def found_by(
    search: SteeredSearch, store: Store, preferences: Sequence[str], mode: Any = "signed", k: int | None = 3
) -> Found[Document]:
    target = run(search.target(search.encoder.encode([QUERY])[0].tolist(), preferences, mode))
    return run(search.find(target, k, store.call, lambda document: document))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("told", [{}, {"epic_stance": "supports"}, {"epic_stance": "conflicts"}], ids=str)
def test_more_are_fetched_only_where_they_are_ranked(mode: str, told: dict[str, str]) -> None:
    encoder = HashEncoder()
    ranked = mode == "signed" and bool(told)
    for every in (False, True):
        store = Store([(CASINO, told), (QUIET, {}), (BANK, {})] * 3, encoder, every=every)
        found = found_by(SteeredSearch(encoder), store, [AVOIDS], mode, k=6)
        asked = [6, 6 * OVERFETCH] if ranked else [6]
        assert [count for _, count in store.asked] == (asked if not every else asked[:2])
        assert len(found) == 6 and all((score is not None) == ranked for _, score in found)


@pytest.mark.parametrize("mode", ["paper", "signed"])
def test_it_is_searched_with_what_query_steering_gives_as_long_as_the_embedding(mode: Any) -> None:
    encoder = default_encoder()
    query = encoder.encode([QUERY])[0]
    steered = QuerySteering(encoder, [AVOIDS, LIKES], mode).steer_vector(query)
    for length in (0.01, 1.0, 7.5):
        target = target_of(encoder, [AVOIDS, LIKES], mode, (length * query).tolist())
        np.testing.assert_allclose(target.vector, length * steered.vector, rtol=1e-4, atol=1e-6)
        assert target.steered_by == tuple(one.preference.text for one in steered.preferences)


def test_what_is_far_from_the_query_or_has_expired_does_not_steer() -> None:
    encoder = default_encoder()
    now = datetime.now(timezone.utc)
    past, future = (Preference(text=AVOIDS, expires_at=now + timedelta(hours=hours)) for hours in (-1, 1))
    assert target_of(encoder, [past, LIKES]).steered_by == (LIKES,)
    assert target_of(encoder, [future, "I collect stamps."]).steered_by == (AVOIDS,)
    embedding = encoder.encode([QUERY])[0].tolist()
    for preferences, mode in (([past], "signed"), (["I collect stamps."], "signed"), ([LIKES], "off")):
        target = target_of(encoder, preferences, mode, embedding)
        assert (target.vector, target.steered_by) == (embedding, ())


@given(
    stored=st.lists(texts_of_words, max_size=12),
    preferences=st.lists(texts_of_words, max_size=3, unique_by=lambda text: " ".join(text.split())),
    k=st.integers(1, 6),
    mode=st.sampled_from(MODES),
    data=st.data(),
)
async def test_the_k_best_of_what_was_fetched_in_the_order_of_their_scores(
    stored: list[str], preferences: list[str], k: int, mode: Any, data: st.DataObject
) -> None:
    encoder = HashEncoder(64)
    stances = [data.draw(st.sampled_from([*Stance, None])) for _ in stored]
    documents: list[Document] = [
        (text, {"n": n} if stance is None else {"n": n, "epic_stance": str(stance)})
        for n, (text, stance) in enumerate(zip(stored, stances, strict=True))
    ]
    before = json.dumps(documents)
    store = Store(documents, encoder)
    found = found_by(SteeredSearch(encoder), store, preferences, mode, k)
    vector, count = store.asked[-1]

    other = SteeredSearch(encoder)
    query = encoder.encode([QUERY])[0].tolist()
    encoder.sync_threads.clear()
    target = await arun(other.target(query, preferences, mode))
    assert await arun(other.find(target, k, store.call, lambda document: document)) == found
    assert not encoder.sync_threads, "encoded on the event loop"

    assert json.dumps(documents) == before
    assert len(found) == min(k, len(stored)) == len({document[1]["n"] for document, _ in found})
    fetched = Store(documents, encoder).fetch(vector, count)
    if all(score is None for _, score in found):
        assert count == k
        assert [document for document, _ in found] == fetched
        return
    scores = [score for _, score in found]
    assert all(type(one) is float for one in scores)
    assert scores == sorted(scores, reverse=True)
    # What conflicts stands below whatever is as near to the query and does not.
    q = encoder.vector(QUERY)
    place = {document[1]["n"]: place for place, (document, _) in enumerate(found)}
    for text, metadata in fetched:
        for another, others in fetched:
            against = metadata.get("epic_stance") == "conflicts" != others.get("epic_stance")
            if against and encoder.vector(another) @ q >= encoder.vector(text) @ q > 0:
                assert place.get(others["n"], k) <= place.get(metadata["n"], k)


def test_of_equal_texts_what_supports_comes_first_and_what_conflicts_last() -> None:
    encoder = HashEncoder()
    stances = ("conflicts", "mixed", "neutral", "supports")
    documents: list[Document] = [("hotel", {"epic_stance": stance, "epic_preference": AVOIDS}) for stance in stances]
    # A stance to another user's preference does not count.
    documents.append(("hotel", {"epic_stance": "conflicts", "epic_preference": "I only stay in hostels."}))
    found = found_by(SteeredSearch(encoder), Store(documents, encoder), [AVOIDS], k=None)
    order = [documents.index(document) for document, _ in found]
    assert order[0] == 3 and order[-2:] == [1, 0] and {*order[1:3]} == {2, 4}


def test_a_text_is_encoded_once_whoever_asks() -> None:
    encoder = HashEncoder()
    store, search = Store([(CASINO, {"epic_stance": "conflicts"}), (QUIET, {})], encoder), SteeredSearch(encoder)
    for preferences in ([AVOIDS], [LIKES], [AVOIDS, LIKES]):
        for _ in range(2):
            found_by(search, store, preferences)
    assert encoder.texts[CASINO] == encoder.texts[QUIET] == 1


@pytest.mark.parametrize(
    ("preferences", "mode", "what"),
    [([3], "signed", "must be a string"), (["a", "A"], "signed", "twice"), (7, "signed", "several texts")]
    + [(preferences, "sideways", "paper, signed, off") for preferences in (["a"], [])],
)
def test_preferences_and_modes_that_cannot_be_are_errors(preferences: Any, mode: Any, what: str) -> None:
    with pytest.raises(InvalidInputError, match=what):
        target_of(HashEncoder(), preferences, mode)


@pytest.mark.parametrize(
    "embedding",
    [[0.0] * 1024, [float("nan")] * 1024, [float("inf")] * 1024, [[1.0] * 1024] * 2, []],
    ids=["zero", "nan", "infinity", "two", "empty"],
)
def test_an_embedding_that_is_none_is_an_error(embedding: Any) -> None:
    with pytest.raises(EncoderError, match="embedding of the query"):
        target_of(HashEncoder(), [AVOIDS], "signed", embedding)
