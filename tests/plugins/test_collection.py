"""A collection: what it finds, what its file holds, what it refuses."""

from __future__ import annotations

import copy
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import EpicMemory, Filter, Settings
from epic_memory.errors import (
    AlreadyThereError,
    BudgetError,
    DamagedError,
    EncoderError,
    EncoderMismatchError,
    InvalidInputError,
    MemoryClosedError,
    ReadOnlyError,
    StoreError,
)
from epic_memory.storage.vector_index import EntryIndex
from epic_memory.types import FloatArray, Stance
from epic_plugins.collection import Collection, Key, Matches, Record, holds_memory
from helpers import BROKEN, AlteredEncoder, HashEncoder, both, together
from tables import table

DIMENSION = 256
WORDS = ("red", "wine", "night", "train", "green", "hills", "blue", "sky")


def encoder() -> HashEncoder:
    return HashEncoder(DIMENSION)


def record(number: int, text: str = "", **metadata: Any) -> Record:
    return Record(id=f"r{number}", text=text or f"{WORDS[number % 8]} {number}", metadata=metadata)


def shown(matches: Matches) -> list[tuple[Record, float]]:
    """Everything there is to a result, the vectors included."""
    return [(match.record, match.score, match.vector.tobytes()) for match in matches]  # type: ignore[misc]


def ids(matches: Sequence[Any]) -> list[str]:
    return [match.record.id for match in matches]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "me.vectors"


@pytest.fixture(params=["RAM", "file"])
def collection(request: pytest.FixtureRequest, path: Path) -> Iterator[Collection]:
    with Collection(encoder(), path if request.param == "file" else None) as made:
        yield made


def nearest(made: Collection, vector: Any, k: int = 4, where: Filter | None = None) -> Matches:
    return made.search(embedding=vector, k=k, where=where, steering="off")


# what it holds


def test_records_come_back_as_they_were_given(collection: Collection) -> None:
    given = [
        Record(id="1", text="Red wine.", metadata={"n": 1, "deep": {"list": [1, 2.5, None, True, "é"]}}),
        Record(id="ü\x00/2", text="NUL \x00, 🎈 and ' quotes"),
        Record(id=" ", text=""),
        Record(id="long", text="green hills " * 500, metadata={"long": "blue sky " * 500}),
    ]
    assert collection.add(given) == ["1", "ü\x00/2", " ", "long"]
    assert collection.get(["long", "none", "1", " ", "ü\x00/2"]) == [given[3], given[0], given[2], given[1]]
    assert collection.records() == given
    assert len(collection) == 4
    assert [r.id for r in collection.records(Filter.exists("n"))] == ["1"]
    assert [r.id for r in collection.records(lambda r: "NUL" in r.text)] == ["ü\x00/2"]


def test_a_known_id_takes_the_place_of_the_earlier_record(collection: Collection) -> None:
    collection.add([record(1, "red wine", old=1), record(2, "green hills")])
    # The last of one id in one call counts.
    assert collection.add([record(1), record(1, "blue sky", new=1)]) == ["r1", "r1"]
    assert len(collection) == 2
    assert collection.get(["r1"]) == [record(1, "blue sky", new=1)]
    assert collection.search("red wine", 1)[0].score < 0.5
    assert ids(collection.search("blue sky", 1)) == ["r1"]
    assert [r.id for r in collection.records()] == ["r2", "r1"]
    assert collection.search("red wine", 5, where=Filter.exists("old")) == []


def test_deleting(collection: Collection) -> None:
    collection.add([record(n) for n in range(4)])
    assert collection.delete(["r1", "none", "r1"]) == 1
    assert collection.delete([]) == 0
    assert [r.id for r in collection.records()] == ["r0", "r2", "r3"]
    assert "r1" not in ids(collection.search("wine 1", 9))
    assert collection.delete() == 3
    assert len(collection) == 0 and collection.records() == [] and collection.search("red", 3) == []
    assert collection.add([record(1)]) == ["r1"]
    assert ids(collection.search("wine", 3)) == ["r1"]


def test_an_empty_collection_finds_nothing(collection: Collection) -> None:
    assert collection.search("red") == [] == nearest(collection, [1.0] * DIMENSION) == collection.records()
    assert collection.get(["r1"]) == [] and collection.delete(["r1"]) == 0 and collection.delete() == 0
    assert collection.add([]) == [] and len(collection) == 0
    assert collection
    for vector in ([1.0], [1.0] * DIMENSION):
        found = collection.search(embedding=vector, preferences=["red"])
        assert found == [] and len(found.vector) == len(vector)


def test_each_text_is_encoded_once(collection: Collection) -> None:
    collection.add([record(n, "red wine") for n in range(5)] + [Record(id="k", text="-", keys=(Key(text="red wine"),))])
    assert collection.encoder.texts["red wine"] == 1  # type: ignore[attr-defined]


# what it finds


def test_a_record_is_found_by_its_text_and_in_the_papers_way_by_each_instruction_too(collection: Collection) -> None:
    keys = (Key(text="red wine", stance=Stance.SUPPORTS), Key(text="night train", stance=Stance.CONFLICTS))
    collection.add([Record(id="a", text="green hills", keys=keys), record(1, "blue sky")])
    for key in keys:
        # Steered towards the text that is searched for, the query stays as it is.
        paper: dict[str, Any] = {"preferences": [key.text], "steering": "paper"}
        first = collection.search(key.text, 1, **paper)[0]
        assert first.record.id == "a" and first.score == pytest.approx(1.0, abs=2e-3)
        assert np.allclose(first.vector, encoder().vector(key.text), atol=2e-3)
        assert collection.search(key.text, 2)[0].score == pytest.approx(0.0, abs=2e-3)
    by_text, other = collection.search("green hills", 2)
    assert by_text.record.id == "a" and by_text.score == pytest.approx(1.0, abs=2e-3)
    assert np.allclose(by_text.vector, encoder().vector("green hills"), atol=2e-3)
    assert other.score == pytest.approx(0.0, abs=2e-3)
    assert collection.get(["a"])[0].text == "green hills"
    # Replaced, it is found by its new keys and its text only.
    collection.add([Record(id="a", text="green hills", keys=keys[:1])])
    assert collection.search("night train", 2, **paper)[0].score == pytest.approx(0.0, abs=2e-3)


def test_a_record_is_found_by_its_keys_alone(collection: Collection) -> None:
    blank = Record(id="a", text=" ", keys=(Key(text="red wine", stance=Stance.SUPPORTS),))
    collection.add([blank, record(1, "hills"), Record(id="b", text="red wine", keys=())])
    for options in ({}, {"preferences": ["I avoid wine."]}, {"where": lambda r: True}):
        assert ids(collection.search("red wine", 9, **options)) == ["a", "r1"]  # type: ignore[arg-type]
    assert len(collection) == 3 and collection.get(["b"])[0].text == "red wine"
    assert collection.delete(["b"]) == 1


@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), min_size=1, max_size=8),
    st.integers(1, 9),
    st.sets(st.integers(0, 7)),
)
def test_k_distinct_records_by_their_best_keys(keys: list[list[str]], k: int, allowed: set[int]) -> None:
    made, query = Collection(encoder()), encoder().vector("red wine train")
    for n, texts in enumerate(keys):
        made.add([Record(id=f"{n}", text="-", metadata={"n": n}, keys=tuple(Key(text=text) for text in texts))])
    best = {f"{n}": max(float(encoder().vector(t) @ query) for t in texts) for n, texts in enumerate(keys)}
    for where in (None, Filter.in_("n", allowed), lambda r: r.metadata["n"] in allowed):
        right = sorted((v for n, v in best.items() if where is None or int(n) in allowed), reverse=True)[:k]
        for found in (made.search("red wine train", k, where=where), nearest(made, query, k, where=where)):
            assert len(set(ids(found))) == len(found) == len(right)
            assert [match.score for match in found] == pytest.approx(right, abs=2e-3)
            assert all(match.score == pytest.approx(best[match.record.id], abs=2e-3) for match in found)


def test_scores_are_cosines() -> None:
    # A sum of squares in float32 can be more than one.
    made = Collection(encoder())
    made.add([record(n, " ".join(random.Random(n).choices(WORDS, k=9))) for n in range(60)])
    for held in made.records():
        for found in (made.search(held.text, 60), nearest(made, made.search(held.text, 1)[0].vector, 60)):
            scores = [match.score for match in found]
            assert all(type(score) is float and -1.0 <= score <= 1.0 for score in scores)
            assert scores == sorted(scores, reverse=True)
            assert scores[0] == pytest.approx(1.0, abs=2e-3)


def test_a_vector_may_have_any_length_and_be_any_sequence(collection: Collection) -> None:
    collection.add([record(n) for n in range(8)])
    unit = encoder().vector("night 2")
    right = nearest(collection, unit, 3)
    assert ids(right)[0] == "r2"
    for vector in (unit.tolist(), tuple(unit), 7.5 * unit.astype(np.float64), 0.01 * unit):
        found = nearest(collection, vector, 3)
        assert ids(found) == ids(right)
        assert [m.score for m in found] == pytest.approx([m.score for m in right], abs=1e-6)
    assert [m.score for m in nearest(collection, -unit, 8)][-1] == pytest.approx(-1.0, abs=2e-3)


NO_VECTORS = {
    "short": [1.0],
    "long": [1.0] * (DIMENSION + 1),
    "NaN": [float("nan")] * DIMENSION,
    "infinite": [float("inf")] * DIMENSION,
    "two": [[1.0] * DIMENSION],
    "a number": 5,
    "an array of nothing": np.array(5.0),
    "a text": "red",
    "texts": ["red"] * DIMENSION,
    "empty": [],
}
OTHER_DIMENSIONS = ("short", "long", "empty")


@pytest.mark.parametrize("name", NO_VECTORS)
def test_what_is_no_vector_is_refused(collection: Collection, name: str) -> None:
    vector: Any = NO_VECTORS[name]
    if name in ("NaN", "two", "a number", "an array of nothing", "a text"):
        with pytest.raises(InvalidInputError, match="vector"):
            nearest(collection, vector)
    collection.add([record(1)])
    refused, said = (EncoderMismatchError, "embed_model") if name in OTHER_DIMENSIONS else (InvalidInputError, "vector")
    with pytest.raises(refused, match=said):
        nearest(collection, vector)
    if name not in OTHER_DIMENSIONS:
        with pytest.raises(InvalidInputError, match="An embedding must be a list of"):
            Key(vector=vector)
        return
    for one in (collection, Collection(encoder())):
        with pytest.raises(EncoderMismatchError, match=rf"{len(vector)} dimensions.*hash makes {DIMENSION}.*model"):
            one.add([record(2), embedded(1, vector)])
    assert collection.ids() == ["r1"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        *(({"k": k}, "k must be") for k in (0, -1, 1.5, "3", None, True)),
        *(({"query": query}, "query") for query in (None, 3, ["red"])),
        ({"steering": "on"}, "steering"),
        *(({"preferences": given}, "[Pp]reference") for given in (3, [""])),
    ],
)
async def test_bad_options_of_a_search_are_refused(collection: Collection, options: Any, match: str) -> None:
    collection.add([record(1)])
    with pytest.raises(InvalidInputError, match=match):
        await both(collection, "search", **{"query": "red", **options})


async def test_a_search_takes_no_option_that_it_does_not_know(collection: Collection) -> None:
    with pytest.raises(TypeError, match=r"takes embedding=, where=, ids=.*not 'id'"):
        await both(collection, "search", "red", id=["r1"])


async def test_sync_and_async_are_the_same_and_an_embedding_is_steered_as_its_text_is(collection: Collection) -> None:
    other, vector = Collection(encoder(), preferences=["red wine"]), encoder().vector("red night")
    given = [record(n, n=n) for n in range(8)]
    given += [Record(id="i", text="x", keys=(Key(text="red wine at night", stance=Stance.CONFLICTS),))]
    assert collection.add(given) == await other.aadd(given)
    collection.preferences = other.preferences
    assert collection.records() == other.records()
    calls: tuple[dict[str, Any], ...] = (
        {},
        {"where": Filter.ge("n", 3)},
        {"where": lambda r: r.id != "r2"},
        {"preferences": []},
        {"preferences": ["night train"], "steering": "paper"},
        {"preferences": ["I avoid red wine."]},
        {"preferences": ["I avoid red wine."], "where": Filter.ge("n", 3), "ids": ["r4", "r1", "r7"]},
        {"steering": "off"},
    )
    for options in calls:
        right = collection.search("red night", 9, **options)
        for found in (await collection.asearch("red night", 9, **options), other.search("red night", 9, **options)):
            assert shown(found) == shown(right)
            assert found.steered_by == right.steered_by and np.array_equal(found.vector, right.vector)
        found = collection.search("red night", k=9, embedding=vector, **options)
        assert ids(found) == ids(right) and found.steered_by == right.steered_by
        assert [m.score for m in found] == pytest.approx([m.score for m in right], abs=1e-6)
    steered = collection.search(k=9, embedding=vector, preferences=["night train"], steering="paper")
    assert shown(steered) != shown(collection.search("red night", 9))


def test_preferences_and_steering_of_a_call_win() -> None:
    given = [record(n, f"{WORDS[n]} {WORDS[(n + 1) % 8]}") for n in range(8)]
    plain, steered = Collection(encoder()), Collection(encoder(), preferences=["night train"], steering="paper")
    for one in (plain, steered):
        one.add(given)
    right = shown(plain.search("red night", 8))
    assert shown(steered.search("red night", 8)) != right
    assert steered.search("red night", 8).steered_by == ["night train"]
    for options in ({"preferences": []}, {"steering": "off"}):
        assert shown(steered.search("red night", 8, **options)) == right  # type: ignore[arg-type]
    assert shown(plain.search("red night", 8, preferences="night train", steering="paper")) == shown(
        steered.search("red night", 8)
    )
    found = [match.score for match in nearest(steered, encoder().vector("red night"), 8)]
    assert found == pytest.approx([match.score for match in plain.search("red night", 8)], abs=1e-6)


# embeddings that are there already


def units(count: int, seed: int = 1) -> FloatArray:
    made = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def embedded(number: int, vector: Any, stance: Stance | None = None, **metadata: Any) -> Record:
    return Record(id=f"e{number}", text="-", metadata=metadata, keys=(Key(vector=vector, stance=stance),))


@pytest.mark.parametrize("make", [list, tuple, lambda v: 9.0 * v, lambda v: v / 9, np.float64])
async def test_a_record_is_found_by_the_embedding_it_was_given(collection: Collection, make: Any) -> None:
    given = units(3)
    assert collection.add([embedded(n, make(given[n])) for n in range(2)]) == ["e0", "e1"]
    assert await collection.aadd([record(1), embedded(2, make(given[2]))]) == ["r1", "e2"]
    for n in range(3):
        found = collection.search(k=4, embedding=given[n])
        assert ids(found)[0] == f"e{n}" and found[0].score == pytest.approx(1.0, abs=2e-3)
        assert np.allclose(found[0].vector, given[n], atol=5e-3)
        for same in (await collection.asearch(k=4, embedding=given[n].tolist()), nearest(collection, given[n], 4)):
            assert shown(found) == shown(same)
    assert ids(collection.search("wine 1", 1)) == ["r1"]
    assert collection.encoder.texts == {"wine 1": 2}  # type: ignore[attr-defined]


def test_texts_and_embeddings_may_be_keys_of_one_record(path: Path) -> None:
    given = units(4)
    keys = [
        (Key(vector=given[0]), Key(text="red wine"), Key(vector=given[1], stance=Stance.CONFLICTS)),
        (Key(text="night train"), Key(vector=given[2])),
        (Key(text="red wine"),),
        (Key(vector=given[3]),),
    ]
    with Collection(encoder(), path) as made:
        made.add([Record(id=f"{n}", text="-", keys=several) for n, several in enumerate(keys)])
        for opened in (made, Collection(encoder(), path)):
            for vector, record_id in zip(given, ("0", "0", "1", "3"), strict=True):
                assert ids(nearest(opened, vector, 1)) == [record_id]
            assert sorted(ids(opened.search("red wine", 2))) == ["0", "2"]
            assert ids(opened.search("night train", 1)) == ["1"]
            opened.verify()


def test_an_embedding_of_zeros_is_like_nothing(path: Path) -> None:
    with Collection(encoder(), path) as made:
        made.add([embedded(1, [0.0] * DIMENSION), record(1)])
        for opened in (made, Collection(encoder(), path)):
            assert opened.search("hills", 2)[-1].score == pytest.approx(0.0, abs=2e-3)
            assert {"e1", "r1"} == set(ids(opened.search("wine", 2)))


# some ids, and what records say under a key


@given(st.sets(st.integers(0, 11)), st.sets(st.integers(0, 9)), st.integers(1, 12))
def test_only_some_ids_are_searched(chosen: set[int], allowed: set[int], k: int) -> None:
    made = Collection(encoder())
    made.add([record(n, n=n) for n in range(10)])
    right = sorted(f"r{n}" for n in chosen & allowed)
    for where in (Filter.in_("n", allowed), lambda r: r.metadata["n"] in allowed):
        found = made.search("red night", k, where=where, ids=[f"r{n}" for n in chosen])
        assert len(found) == min(k, len(right)) and set(ids(found)) <= set(right)
        assert sorted(r.id for r in made.records(where, ids=[f"r{n}" for n in chosen])) == right
        assert sorted(made.ids(where)) == sorted(f"r{n}" for n in allowed)
    everything = made.search("red night", 10, ids=(f"r{n}" for n in chosen))
    assert sorted(ids(everything)) == sorted(f"r{n}" for n in chosen if n < 10)
    assert made.records(ids=[]) == [] and made.search("red", ids=[]) == []


def test_records_with_a_value_under_a_key(collection: Collection, path: Path) -> None:
    collection.add([record(1, of="a"), record(2, of="b"), record(3), record(4, of=["a"]), record(5, of="a")])
    assert collection.having("of", {"a"}) == ["r1", "r5"]
    assert collection.having("of", {"a", "b"}) == ["r1", "r2", "r5"]
    assert collection.having("other", {"a"}) == collection.having("of", set()) == []
    collection.add([record(1, of="b"), record(6, of="a"), record(5)])
    assert collection.having("of", {"a"}) == ["r6"] and collection.having("of", {"b"}) == ["r2", "r1"]
    collection.delete(["r2", "r6"])
    assert collection.having("of", {"a", "b"}) == ["r1"]
    if collection.path is not None:
        with Collection(encoder(), path) as other:
            other.add([record(7, of="a")])
        assert collection.having("of", {"a"}) == ["r7"]
    collection.delete()
    assert collection.having("of", {"a", "b"}) == []


# what cannot be held

ENDLESS: dict[str, Any] = {}
ENDLESS["self"] = ENDLESS
NO_JSON = {
    "a set": {1, 2},
    "what holds itself": ENDLESS,
    "NaN": float("nan"),
    "keys of two kinds": {1: "a", "b": 2},
    "half a character": "\ud800",
}


@pytest.mark.parametrize("value", NO_JSON.values(), ids=NO_JSON.keys())
async def test_metadata_that_is_not_json_is_refused_and_nothing_is_stored(collection: Collection, value: Any) -> None:
    collection.add([record(9)])
    given = [record(1), record(2, deep={"in": [value]}), record(3)]
    with pytest.raises(InvalidInputError, match="document 'r2' is not JSON"):
        await both(collection, "add", given)
    assert [r.id for r in collection.records()] == ["r9"]
    assert ids(collection.search("wine", 5)) == ["r9"]


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        *table(__file__, "what_is_no_record_is_refused"),
        ({"text": b"red"}, "text of a document must be a string"),
        ({"metadata": {1: 2}}, "mapping with string keys"),
    ],
)
def test_what_is_no_record_is_refused(wrong: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        Record(**{"id": "r", "text": "x", **wrong})


@pytest.mark.parametrize("alter", BROKEN.values(), ids=BROKEN.keys())
async def test_an_encoder_that_fails_stores_nothing(path: Path, alter: Callable[[FloatArray], object]) -> None:
    with Collection(AlteredEncoder(alter, when="bad"), path) as made:
        made.add([record(9)])
        with pytest.raises(EncoderError):
            await both(made, "add", [record(1), record(2, "bad"), record(9, "other")])
        with pytest.raises(EncoderError):
            made.search("bad")
        assert made.records() == [record(9)] and ids(made.search("wine", 5)) == ["r9"]
    with Collection(HashEncoder(), path) as again:
        assert again.records() == [record(9)]


def test_what_was_committed_is_found_though_the_call_failed(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.add([record(1), record(2)])
    with monkeypatch.context() as patch:
        patch.setattr(EntryIndex, "add", lambda *_: (_ for _ in ()).throw(MemoryError()))
        with pytest.raises(MemoryError):
            collection.add([record(1, "green hills"), record(3, "blue sky")])
    assert [(r.id, r.text) for r in collection.records()][1:] == [("r1", "green hills"), ("r3", "blue sky")]
    assert ids(collection.search("green hills", 1)) == ["r1"] and ids(collection.search("blue sky", 1)) == ["r3"]
    assert ids(collection.search("night 2", 1)) == ["r2"] and len(collection.search("wine", 9)) == 3


def test_records_are_not_changed_and_not_shared(collection: Collection) -> None:
    metadata = {"tags": ["a"], "deep": {"x": 1}}
    given = [Record(id="r", text="red", metadata=metadata)]
    before = copy.deepcopy(given)
    collection.add(given)
    assert given == before and given[0].metadata is metadata
    metadata["tags"].append("b")  # type: ignore[attr-defined]
    one, other = collection.get(["r"])[0], collection.search("red")[0].record
    one.metadata["tags"].append("c")
    other.metadata["deep"]["x"] = 2
    assert collection.get(["r"]) == before == collection.records() == [collection.search("red")[0].record]
    vector = 3.0 * units(1)[0]
    unchanged = vector.copy()
    collection.add([embedded(1, vector)])
    assert np.array_equal(vector, unchanged)
    vector[:] = 0.0
    assert nearest(collection, unchanged, 1)[0].score == pytest.approx(1.0, abs=2e-3)


# the file


def filled(path: Path | None, count: int = 12) -> Collection:
    made = Collection(encoder(), path)
    made.add([record(n, n=n % 3) for n in range(count)])
    keys = (Key(text="red wine", stance=Stance.SUPPORTS), Key(text="green night", stance=Stance.MIXED))
    made.add([Record(id="i", text="Long. " * 100, metadata={"n": 1}, keys=keys), Record(id="u", text="-", keys=())])
    made.delete(["r3"])
    made.add([record(5, "train 5 anew", n=9)])
    return made


def everything(made: Collection) -> Any:
    queries = ("red wine", "green hills 4", "train 5", "night")
    return (
        [(r.id, r.text, r.metadata) for r in made.records()],
        [shown(made.search(query, k)) for query in queries for k in (1, 3, 50)],
        [shown(made.search(query, 3, where=Filter.eq("n", 1))) for query in queries],
        [shown(made.search(query, 50, preferences=["red train"], steering="signed")) for query in queries],
        len(made),
    )


def test_all_is_the_same_to_the_bit_after_reopening(path: Path) -> None:
    with filled(path) as made, filled(None) as in_ram:
        right = everything(made)
        assert everything(in_ram) == right
    for options in ({}, {"must_exist": True}, {"read_only": True}):
        with Collection(encoder(), path, **options) as again:  # type: ignore[arg-type]
            assert everything(again) == right
            assert again.verify() > 20
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_backup_is_the_same(path: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy.vectors"
    with filled(path) as made:
        made.backup(copied)
        with pytest.raises(AlreadyThereError):
            made.backup(copied)
        with pytest.raises(StoreError, match="itself"):
            made.backup(path, overwrite=True)
        made.add([record(50)])
    for source in (filled(None), Collection(encoder(), path)):
        source.backup(copied, overwrite=True)
        with Collection(encoder(), copied) as other:
            assert everything(other) == everything(source)
        source.close()


def test_what_is_deleted_has_gone_from_the_file(path: Path) -> None:
    with Collection(encoder(), path) as made:
        made.add([record(1, "the secret of the green hills", note="confidential"), record(2)])
        assert b"secret" in path.read_bytes()
        made.delete(["r1"])
        assert b"secret" not in path.read_bytes() and b"confidential" not in path.read_bytes()
        made.add([record(2, "a secret as well")])
        made.add([record(2, "nothing")])
    assert b"secret" not in path.read_bytes()


def test_a_file_is_small(path: Path) -> None:
    with Collection(encoder(), path) as made:
        made.add([record(n, f"{WORDS[n % 8]} {n} " * 5) for n in range(200)])
        # Vectors in ten bits, texts and ids, and what the pages leave empty.
        assert path.stat().st_size < 200 * (DIMENSION * 1.25 + 440)
        made.delete()
    assert path.stat().st_size < 32_000  # about what any empty file takes


def test_another_collection_on_the_file_sees_what_is_written(path: Path) -> None:
    with Collection(encoder(), path) as one, Collection(encoder(), path) as other:
        one.add([record(1, "red wine", n=1)])
        assert ids(other.search("red wine")) == ["r1"]
        other.add([record(2, "night train", n=1), record(1, "blue sky", n=2)])
        assert one.get(["r1"])[0].text == "blue sky"
        assert ids(one.search("night train", 1)) == ["r2"]
        assert [r.id for r in one.records(Filter.eq("n", 1))] == ["r2"]
        other.delete(["r2"])
        assert len(one) == 1 and one.search("night train", 5, where=Filter.eq("n", 1)) == []
        one.delete()
        assert other.search("red") == [] and len(other) == 0
        one.add([record(3)])
        assert everything(one) == everything(other)


def test_threads_add_delete_and_search_at_once(collection: Collection) -> None:
    start = threading.Barrier(6)

    def write(worker: int) -> None:
        start.wait()
        for turn in range(8):
            collection.add([record(100 * worker + turn, worker=worker), record(100 * worker + 50 + turn)])
            collection.delete([f"r{100 * worker + 50 + turn}"])

    def look() -> None:
        start.wait()
        for _ in range(25):
            found = collection.search("red", 5)
            assert all(match.record.text for match in found) and len(set(ids(found))) == len(found)
            found = collection.search("red", 5, where=Filter.eq("worker", 1))
            assert all(match.record.metadata["worker"] == 1 for match in found)

    together(*(partial(write, worker) for worker in range(4)), look, look)
    written = {f"r{100 * worker + turn}" for worker in range(4) for turn in range(8)}
    assert {r.id for r in collection.records()} == written
    assert len(collection.search("red", 99)) == 32
    collection.verify()


# other encoders


async def test_another_encoder_is_refused(path: Path) -> None:
    filled(path).close()
    before = path.read_bytes()
    with pytest.raises(EncoderMismatchError, match="made with the encoder hash, and is used with other"):
        Collection(HashEncoder(DIMENSION, name="other"), path)
    for other in (HashEncoder(2 * DIMENSION), HashEncoder(DIMENSION, fingerprint="v2")):
        with Collection(other, path) as made:
            for call in (("search", "red"), ("search", "night"), ("add", [record(1, "anew")]), ("add", [record(99)])):
                with pytest.raises(EncoderMismatchError):
                    await both(made, *call)
            with pytest.raises(EncoderMismatchError, match="embedding of 3 dimensions"):
                nearest(made, [1.0] * 3)
            assert made.get(["r1"]) == [record(1, n=1)]
    assert path.read_bytes() == before


def test_an_emptied_file_takes_another_encoder(path: Path) -> None:
    with filled(path) as made:
        made.delete()
    other = HashEncoder(32, name="other")
    with Collection(other, path) as made, Collection(encoder(), path) as first:
        assert made.search("red") == [] == nearest(made, other.vector("red"))
        made.add([record(1), record(2)])
        assert ids(nearest(made, other.vector("wine 1"), 1)) == ["r1"]
        for call in (lambda: first.search("red"), lambda: first.add([record(3)]), lambda: Collection(encoder(), path)):
            with pytest.raises(EncoderMismatchError):
                call()
        right = everything(made)
    with Collection(other, path) as made:
        assert everything(made) == right


# one file for memories and collections


def test_a_memory_and_collections_share_a_file_and_see_nothing_of_each_other(path: Path) -> None:
    with filled(path) as made, Collection(encoder(), path, namespace="other") as other:
        right = everything(made)
        assert len(other) == 0 and other.records() == [] and other.search("red wine") == []
        with EpicMemory.open(path, ["red wine"], encoder=encoder(), settings=Settings(tau=0.0)) as memory:
            memory.add(["red wine", "night train"])
            other.add([record(1, "blue sky")])
            assert everything(made) == right and memory.file.namespaces == ["default"]
            assert [hit.item.text for hit in memory.search("red wine", k=1)] == ["red wine"]
            assert memory.file.verify() > made.delete()
            assert [r.text for r in other.records()] == ["blue sky"]
    with EpicMemory.open(path, encoder=encoder()) as memory, Collection(encoder(), path, namespace="other") as other:
        assert [hit.item.text for hit in memory.search("red wine", k=1)] == ["red wine"]
        assert ids(other.search("blue sky", 3)) == ["r1"]
    with pytest.raises(StoreError, match="cannot be embedded anew"):
        EpicMemory.open(path, encoder=HashEncoder(64), settings=Settings(reencode=True))


def test_a_memory_keeps_its_encoder_and_its_budget(path: Path) -> None:
    with EpicMemory.open(path, ["red wine"], encoder=encoder(), settings=Settings(budget="60 KB")):
        pass
    assert holds_memory(path)
    with pytest.raises(EncoderMismatchError), Collection(HashEncoder(64), path) as made:
        made.add([record(1)])
    with Collection(encoder(), path) as made, pytest.raises(BudgetError):
        made.add([record(n) for n in range(1000)])
    assert path.stat().st_size <= 60_000


def test_what_is_damaged_while_it_is_open_is_noticed_each_time(path: Path) -> None:
    with filled(path) as made:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE keys SET vector = zeroblob(length(vector)) WHERE row = 1")
        for look in (
            lambda: made.search("red wine", 3),
            lambda: made.search("red wine", 3, where=Filter.eq("n", 1)),
            lambda: made.add([record(1)]),
            lambda: made.delete(["r1"]),
            lambda: made.get(["r1"]),
            made.verify,
        ):
            for _ in range(2):
                with pytest.raises(DamagedError):
                    look()


# places


@pytest.mark.parametrize("options", [{"steering": "on"}, *({"preferences": p} for p in ([""], 3, ["a", "A"]))])
def test_a_mode_that_is_none_makes_no_file(path: Path, options: Any) -> None:
    with pytest.raises(InvalidInputError):
        Collection(encoder(), path, **options)
    assert not path.exists()


async def test_a_file_opened_for_reading_is_never_written(path: Path) -> None:
    with filled(path) as made:
        right = everything(made)
    before = path.read_bytes()
    with Collection(encoder(), path, read_only=True) as made:
        for write in (lambda: made.delete(["r1"]), made.delete):
            with pytest.raises(ReadOnlyError, match="opened for reading only"):
                write()
        with pytest.raises(ReadOnlyError, match="opened for reading only"):
            await both(made, "add", [record(1)])
        assert everything(made) == right
    assert path.read_bytes() == before


async def test_a_closed_collection_says_so(collection: Collection) -> None:
    collection.add([record(1)])
    collection.close()
    collection.close()
    for call in (
        lambda: collection.delete(["r1"]),
        lambda: collection.get(["r1"]),
        lambda: nearest(collection, [1.0] * DIMENSION),
        collection.records,
        collection.verify,
        lambda: len(collection),
    ):
        with pytest.raises(MemoryClosedError, match="vector store is closed"):
            call()
    for name, given_ in (("add", [record(1)]), ("search", "red")):
        with pytest.raises(MemoryClosedError, match="vector store is closed"):
            await both(collection, name, given_)
    assert "closed" in repr(collection) and collection
