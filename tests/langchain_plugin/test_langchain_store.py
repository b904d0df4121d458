"""The LangGraph store: as LangGraph's own in RAM, in a file too, and steered by preferences."""

from __future__ import annotations

import asyncio
import copy
import tempfile
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="needs the extra agents")

from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from epic_langchain import EpicEmbeddings
from epic_langchain.agents import EpicStore
from epic_memory import Preference
from epic_memory.errors import DamagedError, InvalidInputError, MemoryClosedError, StoreError
from epic_memory.storage.sqlite.database import Database
from epic_plugins.collection import Collection, Key, Record
from helpers import HashEncoder, both

ENCODER = HashEncoder(256)
USERS, NOTES = ("users",), ("users", "anna")


@pytest.fixture
def store() -> EpicStore:
    return EpicStore(embedding=ENCODER, fields=["text"])


def keys(items: Sequence[Any]) -> list[str]:
    return [item.key for item in items]


# LangGraph's own store is the model: the same operations, the same results

NAMESPACES = [("a",), ("b",), ("a", "b"), ("a", "b", "c"), ("b", "a")]
WORDS = ["red", "green", "blue", "tea"]
namespaces = st.sampled_from(NAMESPACES)
prefixes = st.sampled_from([*NAMESPACES, (), ("c",)])
items = st.sampled_from(["k1", "k2", "k3"])
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
values = st.fixed_dictionaries(
    {
        "text": texts,
        "n": st.integers(-2, 3) | st.floats(-2, 3, width=16),
        "tags": st.lists(st.sampled_from(WORDS), max_size=2, unique=True),
        "deep": st.fixed_dictionaries({"n": st.integers(0, 2), "on": st.booleans()}),
    },
    optional={"more": st.none() | texts},
)
indices = st.sampled_from([None, False, ["text"], ["tags[*]"], ["deep.n", "text"], ["nothing"]])
numbers = st.integers(-1, 2)
operators = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
filters = st.none() | st.one_of(
    st.fixed_dictionaries({"n": numbers}),
    st.builds(lambda name, n: {"n": {name: n}}, operators, numbers),
    st.builds(lambda name, n: {"deep": {"n": {name: n}, "on": True}}, operators, numbers),
    st.fixed_dictionaries({"text": st.fixed_dictionaries({"$ne": texts}), "n": st.just({"$gt": -1, "$lt": 3})}),
    st.fixed_dictionaries({"tags": st.lists(st.sampled_from(WORDS), max_size=2)}),
    st.fixed_dictionaries({"more": st.none() | texts}),
)
paths = st.sampled_from([("a",), ("b",), ("*",), ("a", "b"), ("*", "b"), ("a", "*"), ("a", "b", "c", "d")])
conditions = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), paths)
few = st.integers(0, 4)
operations = st.one_of(
    st.builds(PutOp, namespaces, items, st.none() | values, indices, st.none()),
    st.builds(GetOp, namespaces, items),
    st.builds(SearchOp, prefixes, filters, few, few, st.none() | texts | st.just("")),
    st.builds(
        ListNamespacesOp,
        st.none() | st.lists(conditions, max_size=2).map(tuple),
        st.none() | st.integers(1, 3),
        few,
        few,
    ),
)
puts = st.builds(PutOp, namespaces, items, values, indices, st.none())
scripts = st.builds(
    lambda first, then: [first, *then],
    st.lists(puts, min_size=4, max_size=10),
    st.lists(st.lists(operations, min_size=1, max_size=4), max_size=8),
)


class Reference:
    """InMemoryStore, less three of its habits.

    It keeps the embeddings of what an item said before, lists namespaces that hold nothing, and starts again with the
    items that are not embedded on each page. (And it fails on an item that says the same twice.)
    """

    def __init__(self) -> None:
        self.store = InMemoryStore(index={"dims": 256, "embed": EpicEmbeddings(ENCODER), "fields": ["text"]})
        self.born: dict[tuple[Any, str], int] = {}
        self.births = 0

    def batch(self, ops: list[Op]) -> list[Any]:
        results = [self._read(op) for op in ops]
        for (namespace, key), op in {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}.items():
            self.store.batch([PutOp(namespace, key, None)])
            if op.value is None:
                self.born.pop((namespace, key), None)
            else:
                self.store.batch([op])
                self.births += 1
                self.born.setdefault((namespace, key), self.births)
        return results

    def _read(self, op: Op) -> Any:
        for namespace in [namespace for namespace, held in self.store._data.items() if not held]:
            del self.store._data[namespace]
        if isinstance(op, PutOp):
            return None
        if not isinstance(op, SearchOp):
            return self.store.batch([op])[0]
        found: Any = self.store.batch([op._replace(limit=1000, offset=0)])[0]
        plain = [item for item in found if item.score is None]
        plain.sort(key=lambda item: self.born[item.namespace, item.key])
        return [item for item in found if item.score is not None] + plain


def check_search(op: SearchOp, got: list[SearchItem], full: list[SearchItem]) -> None:
    expected = full[op.offset : op.offset + op.limit]
    assert all(isinstance(item, SearchItem) for item in got)
    known = {(item.namespace, item.key): item for item in full}
    assert len(got) == len(expected) == len({(item.namespace, item.key) for item in got})
    for mine, theirs in zip(got, expected, strict=True):
        same = known[mine.namespace, mine.key]
        assert mine.value == same.value
        if theirs.score is None:
            assert mine.score is None
            assert (mine.namespace, mine.key) == (theirs.namespace, theirs.key)
        else:
            # Equal scores come in any order.
            assert type(mine.score) is float
            assert mine.score == pytest.approx(theirs.score, abs=0.01)
            assert mine.score == pytest.approx(same.score, abs=0.01)


def check(ops: list[Op], got: list[Any], expected: list[Any]) -> None:
    assert len(got) == len(ops)
    for op, mine, theirs in zip(ops, got, expected, strict=True):
        if isinstance(op, SearchOp):
            check_search(op, mine, theirs)
        elif isinstance(op, GetOp) and theirs is not None:
            assert (mine.namespace, mine.key, mine.value) == (theirs.namespace, theirs.key, theirs.value)
            assert mine.created_at <= mine.updated_at
        else:
            assert mine == theirs


@given(script=scripts)
def test_the_same_as_langgraphs_own_in_ram_and_async_and_in_a_file(script: list[list[Op]]) -> None:
    options: Any = {"embedding": ENCODER, "fields": ["text"]}
    store, reference = EpicStore(**options), Reference()
    with tempfile.TemporaryDirectory() as folder:
        for ops in script:
            expected = reference.batch(ops)
            check(ops, asyncio.run(store.abatch(ops)), expected)
            with EpicStore(Path(folder) / "a.store", **options) as opened:
                check(ops, opened.batch(ops), expected)


# one by one


def test_what_is_read_is_a_copy_and_values_are_any_json(store: EpicStore) -> None:
    value: Any = {"text": "naïve ☕ \x00 \n", "": None, "deep": {"b": [1, 2.5, True, {}], "a": "x"}, "big": 2**70}
    right = copy.deepcopy(value)
    store.put(NOTES, "a", value)
    value["deep"]["b"].append(2)
    item: Any = store.get(NOTES, "a")
    assert item.value == right and list(item.value["deep"]) == ["b", "a"]
    item.value["text"] = "changed"
    store.search(NOTES)[0].value["deep"]["b"].append(3)
    again = store.get(NOTES, "a")
    assert again is not None and again.value == right


@pytest.mark.parametrize("key", ["x", "", 'a"]', "a\x00b", "ü.☕", "\ud800", "['a', 'b']"])
def test_any_key(store: EpicStore, key: str) -> None:
    store.put(("a", 'b"]', "☕"), key, {"text": "red"})
    store.put(("a", 'b"]'), "☕", {"text": "red"})
    item = store.get(("a", 'b"]', "☕"), key)
    assert item is not None and (item.namespace, item.key) == (("a", 'b"]', "☕"), key)
    assert len(store.search(("a",))) == 2


def test_items_of_one_moment_keep_their_order(store: EpicStore, monkeypatch: pytest.MonkeyPatch) -> None:
    class Standing(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime(2026, 1, 1, tzinfo=timezone.utc)

    monkeypatch.setattr("epic_langchain.agents.store.datetime", Standing)
    for key in "cab":
        store.put(NOTES, key, {"text": "red"})
    store.put(NOTES, "c", {"text": "blue"})
    assert keys(store.search(NOTES)) == ["c", "a", "b"]


def test_fields_are_embedded_each_by_itself() -> None:
    store = EpicStore(embedding=ENCODER, fields=["title", "facts[*].text"])
    store.put(NOTES, "a", {"title": "red", "facts": [{"text": "green"}, {"text": "blue tea"}], "other": "yellow"})
    for query, score in (("red", 1.0), ("green", 1.0), ("blue tea", 1.0), ("yellow", 0.0)):
        (item,) = store.search(NOTES, query=query)
        assert item.score == pytest.approx(score, abs=0.01)
    store.put(NOTES, "a", {"title": "red", "other": "yellow"}, index=["other"])
    (item,) = store.search(NOTES, query="yellow")
    assert item.score == pytest.approx(1.0, abs=0.01)
    assert store.search(NOTES, query="red")[0].score == pytest.approx(0.0, abs=0.01)
    store.put(NOTES, "a", {"title": "red"}, index=False)
    assert store.search(NOTES, query="red")[0].score is None


def test_a_filter_leaves_out_what_it_cannot_compare(store: EpicStore) -> None:
    for key, value in {"number": 3, "digits": "4", "text": "many", "none": None, "list": [5]}.items():
        store.put(NOTES, key, {"text": "red", "n": value})
    store.put(NOTES, "missing", {"text": "red"})
    assert keys(store.search(NOTES, filter={"n": {"$gt": 2}})) == ["number", "digits"]
    assert keys(store.search(NOTES, query="red", filter={"n": {"$lte": 3}})) == ["number"]
    assert keys(store.search(NOTES, filter={"n": {"$ne": 3}})) == ["digits", "text", "none", "list", "missing"]
    assert keys(store.search(NOTES, filter={"n": None})) == ["none", "missing"]
    assert keys(store.search(NOTES, filter={"n": [{"$gte": 5}]})) == ["list"]
    assert keys(store.search(NOTES, filter={"$n": 3})) == []
    assert keys(store.search(NOTES, filter={"n": []})) == []


# what goes wrong


CIRCLE: dict[str, Any] = {}
CIRCLE["a"] = CIRCLE


@pytest.mark.parametrize(
    "value",
    [
        *({"a": wrong} for wrong in ({1, 2}, float("nan"), b"x", "\ud800")),
        {1: "a"},
        "text",
        "",
        [("a", 1)],
        CIRCLE,
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_json_is_refused(store: EpicStore, value: Any) -> None:
    with pytest.raises(InvalidInputError):
        store.batch([PutOp(NOTES, "good", {"text": "red"}), PutOp(NOTES, "bad", value)])
    assert store.search(()) == []


WRONG: list[Any] = [
    SearchOp(USERS, limit=-1),
    SearchOp(USERS, offset=-1, query="x"),
    SearchOp(USERS, filter={"n": {"$in": [1]}}),
    SearchOp(USERS, filter={"deep": {"n": {"$gt": 1, "x": 2}}}),
    SearchOp(USERS, filter={"tags": [{"$like": "x"}]}),
    SearchOp(USERS, filter=[("n", 1)]),  # type: ignore[arg-type]
    ListNamespacesOp(limit=-1),
    ListNamespacesOp(match_conditions=(MatchCondition("middle", ("a",)),)),  # type: ignore[arg-type]
    *(PutOp(NOTES, "a", {}, index=index) for index in ("text", [1], True, iter(["text"]))),  # type: ignore[arg-type]
    PutOp("users", "a", {}),  # type: ignore[arg-type]
    GetOp("users", "a"),  # type: ignore[arg-type]
    SearchOp("users"),  # type: ignore[arg-type]
    SearchOp("users", query="red"),  # type: ignore[arg-type]
    "put",
]


@pytest.mark.parametrize("op", WRONG, ids=range(len(WRONG)))
async def test_operations_that_cannot_be(store: EpicStore, op: Any) -> None:
    store.put(NOTES, "held", {"text": "red", "deep": {"n": 1}})
    with pytest.raises(InvalidInputError):
        await both(store, "batch", [op])
    assert keys(store.search(())) == ["held"]


def test_namespaces_and_arguments_that_cannot_be(store: EpicStore, tmp_path: Path) -> None:
    for namespace in ((), ("",), ("a.b",), ("langgraph", "x"), (1,)):
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "a", {"text": "red"})  # type: ignore[arg-type]
    for options in (
        *({"fields": wrong} for wrong in ("text", [""], [3], iter(["text"]))),
        {"embedding": "openai:text-embedding-3-small"},
        {"steering": "left"},
        *({"preferences": wrong} for wrong in (3, [""])),
    ):
        with pytest.raises(InvalidInputError):
            EpicStore(**options)  # type: ignore[arg-type]
    (tmp_path / "text.txt").write_text("Some text that is no database at all.")
    with pytest.raises(StoreError):
        EpicStore(tmp_path / "text.txt")


# what a search reads


@pytest.mark.parametrize("query", [None, "red"])
def test_a_search_reads_no_items_of_other_prefixes(query: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    store = EpicStore(embedding=ENCODER, fields=["text"])
    for user in range(30):
        store.batch([PutOp(("users", f"user {user}"), str(n), {"text": "red"}) for n in range(4)])
    rows: list[Any] = []
    read = Database.rows

    def counting(self: Database, *arguments: Any, **options: Any) -> Any:
        found = list(read(self, *arguments, **options))
        rows.extend(found)
        return found

    assert len(store.search(("users",), limit=200)) == 120
    monkeypatch.setattr(Database, "rows", counting)
    for user in range(30):
        rows.clear()
        assert sorted(keys(store.search(("users", f"user {user}"), query=query, limit=4))) == ["0", "1", "2", "3"]
        assert len(rows) <= 4


def test_what_one_store_writes_another_on_the_file_lists_in_the_order_of_age(tmp_path: Path) -> None:
    path = tmp_path / "a.store"
    with EpicStore(path, embedding=ENCODER) as one, EpicStore(path, embedding=ENCODER) as other:
        for number, store in enumerate((one, other, one) * 2):
            store.put(("users", f"user {number // 3}"), str(number), {"text": "red", "n": number // 3})
            assert len(other.search((), limit=50)) == len(one.search((), limit=50)) == number + 1
        other.put(("users", "user 1"), "4", {"text": "blue", "n": 2})
        one.delete(("users", "user 0"), "0")
        other.batch([PutOp(("users", "user 0"), key, None) for key in "12"])
        for store in (one, other):
            assert keys(store.search((), limit=50)) == ["3", "4", "5"]
            assert keys(store.search((), filter={"n": 1})) == ["3", "5"] and keys(
                store.search((), filter={"n": 2})
            ) == ["4"]
            assert store.list_namespaces() == [("users", "user 1")]


def test_a_prefix_is_made_of_whole_labels(store: EpicStore) -> None:
    store.put(("users", "ann"), "a", {"text": "red"})
    store.put(("users", "anna"), "a", {"text": "red"})
    store.put(("users", 'ann", "a'), "x", {"text": "red"})
    for query in (None, "red"):
        assert [item.namespace for item in store.search(("users", "ann"), query=query)] == [("users", "ann")]
    assert len(store.search(("users",))) == 3


# the file


def test_a_store_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "agent.store"
    with EpicStore(path, embedding=ENCODER, fields=["text"]) as store:
        store.put(NOTES, "a", {"text": "green tea"})
        store.put(USERS, "b", {"text": "red wine"}, index=False)
        before = [item.dict() for item in store.search((), query="tea")]
        store.backup(tmp_path / "copy.store")
        assert store.path == path and str(path) in repr(store) and store.verify() > 0
    with pytest.raises(MemoryClosedError):
        store.get(NOTES, "a")
    for name in ("agent.store", "copy.store"):
        with EpicStore(tmp_path / name, embedding=ENCODER) as store:
            assert [item.dict() for item in store.search((), query="tea")] == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["agent.store", "copy.store"]


GOOD = {
    "id": '["users", "anna", "a"]',
    "text": '{"text": "red"}',
    "created_at": "2026-01-01T00:00:00.000000+00:00",
    "updated_at": "2026-01-01T00:00:00.000000+00:00",
}


@pytest.mark.parametrize(
    ("name", "value", "calls"),
    [
        *(("id", value, ["list"]) for value in ("{}", '["users", "anna", 3]')),
        *(("text", value, ["get"]) for value in ("[]", "no JSON")),
        *(("created_at", value, ["get", "put"]) for value in (None, "2026-01-01T00:00:00.000000")),
        ("updated_at", "yesterday", ["get"]),
    ],
)
def test_what_no_store_writes_is_damage(tmp_path: Path, name: str, value: Any, calls: list[str]) -> None:
    record: dict[str, Any] = {**GOOD, name: value}
    with Collection(ENCODER, tmp_path / "a.store", namespace="items") as collection:
        metadata = {name: record[name] for name in ("created_at", "updated_at")}
        collection.add([Record(id=record["id"], text=record["text"], metadata=metadata, keys=(Key(text="red"),))])
    with EpicStore(tmp_path / "a.store", embedding=ENCODER) as store:
        done: dict[str, Callable[[], Any]] = {
            "search": lambda: store.search(()),
            "found": lambda: store.search((), query="red"),
            "filtered": lambda: store.search((), query="blue", filter={"text": "red"}),
            "get": lambda: store.get(NOTES, "a"),
            "put": lambda: store.put(NOTES, "a", {"text": "blue"}),
            "list": store.list_namespaces,
        }
        for call in ("search", "found", "filtered", *calls):
            with pytest.raises(DamagedError):
                done[call]()


# preferences

OPTIONS = {
    "casino": "A hotel with a casino downstairs, open all night, with poker tables.",
    "quiet": "A quiet hotel in the old town, without a casino, close to the park.",
    "bread": "A recipe for rye bread.",
}
QUERY = "Which hotel should I book?"
AVOID, WANT = "I avoid hotels with casinos.", "I love casinos and poker, and book hotels with a casino."


def filled(store: EpicStore, *users: str) -> EpicStore:
    for user in users:
        for key, text in OPTIONS.items():
            store.put(("users", user), key, {"text": text})
    return store


@pytest.fixture(params=["search", "asearch"])
def search(request: pytest.FixtureRequest) -> Any:
    async def found(store: EpicStore, *arguments: Any, **options: Any) -> list[SearchItem]:
        called = getattr(store, request.param)(*arguments, **options)
        return called if request.param == "search" else await called

    return found


async def test_searches_follow_the_preferences(search: Callable[..., Any]) -> None:
    store = filled(EpicStore(preferences=[AVOID], fields=["text"]), "anna")
    found = await search(store, USERS, query=QUERY)
    assert keys(found)[0] == "quiet"
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    steered_to = filled(EpicStore(preferences=[Preference(text=WANT)], fields=["text"]), "anna")
    assert keys(await search(steered_to, USERS, query=QUERY))[0] == "casino"
    # Only searches by meaning are steered, and only if steering is on.
    assert keys(await search(store, USERS)) == list(OPTIONS)
    plain = filled(EpicStore(fields=["text"]), "anna")
    off = filled(EpicStore(preferences=[WANT], fields=["text"], steering="off"), "anna")
    assert [(item.key, item.score) for item in await search(off, USERS, query=QUERY)] == [
        (item.key, item.score) for item in await search(plain, USERS, query=QUERY)
    ]


async def test_each_user_has_preferences(search: Callable[..., Any], request: pytest.FixtureRequest) -> None:
    asked, threads = [], set()

    def preferences(prefix: tuple[str, ...]) -> list[str]:
        asked.append(prefix)
        threads.add(threading.get_ident())
        return {"anna": [AVOID], "bob": [WANT]}.get(prefix[-1], [])

    store = filled(EpicStore(preferences=preferences, fields=["text"]), "anna", "bob")
    assert keys(await search(store, ("users", "anna"), query=QUERY))[0] == "quiet"
    assert keys(await search(store, ("users", "bob"), query=QUERY))[0] == "casino"
    assert asked == [("users", "anna"), ("users", "bob")]
    # Never on the event loop.
    assert (threads == {threading.get_ident()}) is (request.node.callspec.params["search"] == "search")
