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
from epic_plugins.vector_stores import Found, SteeredSearch, Target
from helpers import HashEncoder

CASINO, QUIET, BANK = (
    "A hotel with a casino, slot machines and poker.",
    "A quiet hotel with a garden.",
    "A bank in the old town.",
)
AVOIDS = "I avoid hotels with casinos."
LIKES = "I love quiet hotels with a garden."
QUERY = "Which hotel should I book?"

Document = tuple[str, dict[str, Any]]
words = st.sampled_from(["hotel", "casino", "quiet", "garden", "bank", "poker", "train", "wine"])
texts_of_words = st.lists(words, min_size=1).map(" ".join)


class Store:
    """Documents, nearest first by cosine; remembers what it was asked."""

    def __init__(self, documents: Sequence[Document], encoder: Encoder) -> None:
        self.documents = list(documents)
        self.vectors = encoder.encode([text for text, _ in documents]) if documents else None
        if isinstance(encoder, HashEncoder):
            encoder.texts.clear()
            encoder.sync_threads.clear()
        self.asked: list[tuple[list[float], int]] = []

    def fetch(self, vector: list[float], count: int) -> list[Document]:
        self.asked.append((vector, count))
        if self.vectors is None:
            return []
        order = np.argsort(-(self.vectors @ np.array(vector, dtype=np.float32)), kind="stable")[:count]
        return [self.documents[row] for row in order]

    async def afetch(self, vector: list[float], count: int) -> list[Document]:
        return self.fetch(vector, count)

    def call(self, vector: list[float], count: int) -> Call:
        return Call(self.fetch, self.afetch, vector, count)


def read(document: Document) -> Document:
    return document


def search_of(encoder: HashEncoder | None = None, **options: Any) -> SteeredSearch:
    return SteeredSearch(encoder or HashEncoder(), **{"floor": 0.1, **options})


def target_of(search: SteeredSearch, *given: Any) -> Target:
    return run(search.target(*given))


def found_for(search: SteeredSearch, target: Target, k: int, store: Store) -> list[Found[Document]]:
    return run(search.find(target, k, store.call, read))


def found_by(
    search: SteeredSearch, store: Store, preferences: Sequence[str | Preference], mode: Any = "signed", k: int = 3
) -> list[Found[Document]]:
    embedding = search.encoder.encode([QUERY])[0].tolist()
    return found_for(search, target_of(search, embedding, preferences, mode), k, store)


def texts(found: Sequence[Found[Document]]) -> list[str]:
    return [one.document[0] for one in found]


# what is asked


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
@pytest.mark.parametrize("overfetch", [1, 2, 4])
def test_more_are_fetched_only_where_they_are_ranked(mode: str, overfetch: int) -> None:
    encoder = HashEncoder()
    for told in ({}, {"epic_stance": "supports"}, {"epic_stance": "conflicts"}):
        store = Store([(CASINO, told), (QUIET, {}), (BANK, {})] * 3, encoder)
        search = search_of(encoder, overfetch=overfetch)
        found = found_by(search, store, [AVOIDS], mode, k=6)
        ranked = mode == "signed" and overfetch > 1 and "epic_stance" in told
        assert [count for _, count in store.asked] == ([6, 6 * overfetch] if ranked else [6])
        assert all((one.score is not None) == ranked for one in found)
        assert len(found) == 6


def test_a_query_matches_from_the_floor_on_and_below_it_the_embedding_itself_is_searched_with() -> None:
    encoder = HashEncoder()
    encoder.floor = 0.9
    for mode in ("paper", "signed", "off"):
        far = target_of(SteeredSearch(encoder), encoder.vector("red wine"), ["blue sky"], mode)
        near = target_of(SteeredSearch(encoder), encoder.vector("blue sky"), ["blue sky"], mode)
        assert (far.matched, near.matched) == (mode == "off", True)
        assert bool(far.steered_by) == (mode == "paper")  # where everything steers, unless a floor is given
        embedding = encoder.vector(QUERY).tolist()
        below = target_of(search_of(encoder, floor=0.99), embedding, [AVOIDS], mode)
        assert (below.vector, below.steered_by) == (embedding, ())


@pytest.mark.parametrize("mode", ["paper", "signed"])
def test_it_is_searched_with_what_query_steering_gives_as_long_as_the_embedding(mode: Any) -> None:
    encoder = default_encoder()
    query = encoder.encode([QUERY])[0]
    steered = QuerySteering(encoder, [AVOIDS, LIKES], mode).steer_vector(query)
    for length in (0.01, 1.0, 7.5):
        target = target_of(SteeredSearch(encoder), (length * query).tolist(), [AVOIDS, LIKES], mode)
        np.testing.assert_allclose(target.vector, length * steered.vector, rtol=1e-4, atol=1e-6)
        assert target.steered_by == tuple(one.preference.text for one in steered.preferences)


def test_an_expired_preference_does_not_steer() -> None:
    encoder = HashEncoder()
    now = datetime.now(timezone.utc)
    past, future = (Preference(text=AVOIDS, expires_at=now + timedelta(hours=hours)) for hours in (-1, 1))
    search = search_of(encoder)
    assert not target_of(search, encoder.vector(QUERY), [past], "signed").matched
    assert target_of(search, encoder.vector(QUERY), [past, LIKES], "signed").steered_by == (LIKES,)
    assert target_of(search, encoder.vector(QUERY), [future], "signed").steered_by == (AVOIDS,)


# how it is ranked


@given(
    stored=st.lists(texts_of_words, max_size=12),
    preferences=st.lists(texts_of_words, max_size=3, unique_by=lambda text: " ".join(text.split())),
    k=st.integers(1, 6),
    overfetch=st.integers(1, 4),
    mode=st.sampled_from(["paper", "signed", "off"]),
    data=st.data(),
)
def test_the_k_best_of_what_was_fetched_in_the_order_of_their_scores(
    stored: list[str], preferences: list[str], k: int, overfetch: int, mode: str, data: st.DataObject
) -> None:
    encoder = HashEncoder(64)
    stances = [data.draw(st.sampled_from([*Stance, None])) for _ in stored]
    documents: list[Document] = [
        (text, {"n": n} if stance is None else {"n": n, "epic_stance": str(stance)})
        for n, (text, stance) in enumerate(zip(stored, stances, strict=True))
    ]
    before = json.dumps(documents)
    store = Store(documents, encoder)
    search = search_of(encoder, overfetch=overfetch)
    found = found_by(search, store, preferences, mode, k)

    assert json.dumps(documents) == before
    assert len(found) == min(k, len(stored))
    assert len({one.document[1]["n"] for one in found}) == len(found)
    vector, count = store.asked[-1]
    fetched = Store(documents, encoder).fetch(vector, count)
    if all(one.score is None for one in found):
        assert count == k
        assert [one.document for one in found] == fetched
        return
    scores = [one.score for one in found]
    assert all(type(one) is float for one in scores)
    assert scores == sorted(scores, reverse=True)
    # What conflicts stands below whatever is as near to the query and does not.
    q = encoder.vector(QUERY)
    place = {one.document[1]["n"]: place for place, one in enumerate(found)}
    for text, metadata in fetched:
        for other, others in fetched:
            against = metadata.get("epic_stance") == "conflicts" != others.get("epic_stance")
            if against and encoder.vector(other) @ q >= encoder.vector(text) @ q > 0:
                assert place.get(others["n"], k) <= place.get(metadata["n"], k)


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
async def test_afind_gives_what_find_gives(mode: Any) -> None:
    encoder = default_encoder()
    store = Store([(CASINO, {"epic_stance": "conflicts"}), (QUIET, {}), (BANK, {})], encoder)
    one, other = SteeredSearch(encoder), SteeredSearch(encoder)
    query = encoder.encode([QUERY])[0].tolist()
    target = target_of(one, query, [AVOIDS, LIKES], mode)
    atarget = await arun(other.target(query, [AVOIDS, LIKES], mode))
    assert target == atarget
    ranked = [None if one.query is None else one.query.vector.tolist() for one in (target, atarget)]
    assert ranked[0] == ranked[1]
    assert found_for(one, target, 2, store) == await arun(other.find(atarget, 2, store.call, read))
    # Nothing is encoded on the event loop.
    hashed = HashEncoder()
    store, search = Store([(CASINO, {"epic_stance": "conflicts"}), (QUIET, {})], hashed), search_of(hashed)
    target = await arun(search.target(hashed.vector(QUERY), [AVOIDS], mode))
    await arun(search.find(target, 2, store.call, read))
    assert not hashed.sync_threads


def test_a_store_that_returns_more_than_asked_for_is_cut() -> None:
    encoder = HashEncoder()
    store = Store([("hotel", {})] * 9, encoder)
    for mode in ("off", "signed"):
        search = search_of(encoder)
        target = target_of(search, encoder.vector(QUERY), [AVOIDS], mode)  # type: ignore[arg-type]
        assert len(run(search.find(target, 2, lambda vector, count: store.call(vector, 9), read))) == 2


# stances and texts


def test_of_equal_texts_what_supports_comes_first_and_what_conflicts_last() -> None:
    encoder = HashEncoder()
    stances = ("conflicts", "mixed", "neutral", "supports")
    documents: list[Document] = [("hotel", {"epic_stance": stance, "epic_preference": AVOIDS}) for stance in stances]
    # A stance to another user's preference does not count.
    documents.append(("hotel", {"epic_stance": "conflicts", "epic_preference": "I only stay in hostels."}))
    found = found_by(search_of(encoder), Store(documents, encoder), [AVOIDS], k=5)
    order = [documents.index(one.document) for one in found]
    assert order[0] == 3 and order[-2:] == [1, 0] and {*order[1:3]} == {2, 4}
    scores = [one.score or 0.0 for one in found]
    assert scores == sorted(scores, reverse=True)


def test_a_text_is_encoded_once_whoever_asks() -> None:
    encoder = HashEncoder()
    store, search = Store([(CASINO, {"epic_stance": "conflicts"}), (QUIET, {})], encoder), search_of(encoder)
    for preferences in ([AVOIDS], [LIKES], [AVOIDS, LIKES]):
        for _ in range(2):
            found_by(search, store, preferences)
    assert encoder.texts[CASINO] == encoder.texts[QUIET] == 1


# what cannot be


@pytest.mark.parametrize("options", [{"floor": 1.5}, {"floor": float("nan")}, {"overfetch": 0}, {"overfetch": 1.5}])
def test_options_that_cannot_be_are_errors(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        SteeredSearch(HashEncoder(), **options)


@pytest.mark.parametrize(
    ("preferences", "mode", "what"),
    [([3], "signed", "must be a string"), (["a", "A"], "signed", "twice"), (7, "signed", "several texts")]
    + [(preferences, "sideways", "paper, signed, off") for preferences in (["a"], [])],
)
def test_preferences_and_modes_that_cannot_be_are_errors(preferences: Any, mode: Any, what: str) -> None:
    with pytest.raises(InvalidInputError, match=what):
        target_of(search_of(), HashEncoder().vector(QUERY), preferences, mode)


@pytest.mark.parametrize(
    "embedding",
    [[0.0] * 1024, [float("nan")] * 1024, [float("inf")] * 1024, [[1.0] * 1024] * 2, []],
    ids=["zero", "nan", "infinity", "two", "empty"],
)
def test_an_embedding_that_is_none_is_an_error(embedding: Any) -> None:
    with pytest.raises(EncoderError, match="embedding of the query"):
        target_of(search_of(), embedding, [AVOIDS], "signed")
