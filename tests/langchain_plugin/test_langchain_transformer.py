"""The LangChain document transformer: which documents come out, with what, and in whichever way it is called."""

from __future__ import annotations

import asyncio
import copy
import inspect
import itertools
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError

from epic_langchain import EpicDocumentTransformer
from epic_memory import Settings
from epic_memory.errors import InvalidInputError, LMError, NoPreferencesError
from epic_memory.pipeline.judge import JUDGED_AT_ONCE
from helpers import HashEncoder, settled
from scripted import (
    TRAIN,
    WINE,
    Asked,
    Scripted,
    documents,
    memory_of,
    verifier_of,
)

Transform = Callable[..., Awaitable[list[Document]]]
RED, LATE = "I like red wine.", "I avoid the night train."


def docs(count: int = 4) -> list[Document]:
    """Documents that are kept under one preference, discarded, kept under two, under one of two, and far from both."""
    return [Document(item.text, id=item.id, metadata=dict(item.metadata)) for item in documents(count)]


def transformer(lm: Scripted | None = None, **options: Any) -> EpicDocumentTransformer:
    """A transformer for two preferences, whose model decides by what is said in the text."""
    lm = Scripted() if lm is None else lm
    return EpicDocumentTransformer(
        **settled(**{"preferences": [WINE, TRAIN], "embeddings": HashEncoder(), "llm": verifier_of(lm), **options})
    )


def ids(found: Sequence[Document]) -> list[str | None]:
    return [document.id for document in found]


def alignments(document: Document) -> list[dict[str, Any]]:
    return json.loads(document.metadata["epic_alignments"])


# the ways to call it


async def _collected(made: Any) -> list[Document]:
    """Everything that a call returns, at once or one after the other."""
    if inspect.isawaitable(made):
        made = await made
    return [one async for one in made] if hasattr(made, "__aiter__") else list(made)


async def _twice(made: Any) -> list[Document]:
    """What a batch of the same documents twice gives for each."""
    first, second = await _collected(made)
    assert first == second
    return first


async def _parts(made: Any) -> list[Document]:
    return [document for some in await _collected(made) for document in some]


async def _stream_of(given: Any) -> AsyncIterator[Document]:
    for document in given:
        await asyncio.sleep(0)
        yield document


def _two_at_once(options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "config": {"max_concurrency": 2, **options.get("config", {})}}


ALL_WAYS: dict[str, Transform] = {
    "invoke": lambda keep, given, **more: _collected(keep.invoke(given, **more)),
    "ainvoke": lambda keep, given, **more: _collected(keep.ainvoke(given, **more)),
    "transform_documents": lambda keep, given, **more: _collected(keep.transform_documents(given, **more)),
    "atransform_documents": lambda keep, given, **more: _collected(keep.atransform_documents(given, **more)),
    "lazy_transform": lambda keep, given, **more: _collected(keep.lazy_transform(given, **more)),
    "lazy_transform of an iterator": lambda keep, given, **more: _collected(keep.lazy_transform(iter(given), **more)),
    "alazy_transform": lambda keep, given, **more: _collected(keep.alazy_transform(given, **more)),
    "alazy_transform of a stream": lambda keep, given, **more: _collected(
        keep.alazy_transform(_stream_of(given), **more)
    ),
    "batch": lambda keep, given, **more: _twice(keep.batch([given, given], **_two_at_once(more))),
    "abatch": lambda keep, given, **more: _twice(keep.abatch([given, given], **_two_at_once(more))),
    "stream": lambda keep, given, **more: _parts(keep.stream(given, **more)),
    "astream": lambda keep, given, **more: _parts(keep.astream(given, **more)),
}


@pytest.fixture(params=ALL_WAYS)
def anyhow(request: pytest.FixtureRequest) -> Transform:
    """Transforms documents in each of the ways there are."""
    return ALL_WAYS[request.param]


@pytest.fixture(params=["invoke", "ainvoke"])
def transform(request: pytest.FixtureRequest) -> Transform:
    """Transforms documents with or without blocking the event loop."""
    return ALL_WAYS[request.param]


async def test_every_way_gives_the_same_over_many_batches(anyhow: Transform) -> None:
    keep = transformer(Scripted(concurrency=3))
    given = docs(14)
    assert len(given) > JUDGED_AT_ONCE
    found = await anyhow(keep, given)
    assert [one.page_content for one in found] == [one.page_content for one in given if _fits(one.page_content)]
    assert (keep.report.seen, keep.report.kept, keep.report.discarded) == (70, 42, 14)


def _fits(text: str) -> bool:
    """Whether a text is kept for a preference."""
    return any(preference in text and f"no{preference.split()[-1]}" not in text for preference in (WINE, TRAIN))


WORDS = ["wine", "red", "train", "night", "sea", "nowine", "notrain", "vegan", "hotel", "casino"]
TEXT = st.lists(st.sampled_from(WORDS), min_size=0, max_size=6).map(" ".join)
DOCUMENTS = st.lists(st.tuples(TEXT, st.sampled_from([None, "a", "b", "c"])), max_size=10).map(
    lambda given: [Document(text, id=known, metadata={"n": n}) for n, (text, known) in enumerate(given)]
)


@settings(max_examples=20, deadline=None)
@given(given=DOCUMENTS, model=st.booleans())
def test_what_comes_out_came_in(given: list[Document], model: bool) -> None:
    preferences = [WINE, TRAIN, "I avoid hotels with casinos."]
    keep = EpicDocumentTransformer(preferences=preferences, **({"llm": verifier_of(Scripted())} if model else {}))
    before = copy.deepcopy(given)
    found = keep.invoke(given)
    assert given == before
    own = [{key: value for key, value in one.metadata.items() if not key.startswith("epic_")} for one in found]
    numbers = [one["n"] for one in own]
    assert numbers == sorted(set(numbers))
    for document, metadata in zip(found, own, strict=True):
        origin = given[metadata["n"]]
        assert (document.page_content, metadata) == (origin.page_content, origin.metadata)
        assert {type(value) for value in document.metadata.values()} <= {str, int, float}
        assert document.metadata["epic_preference"] in preferences
        known = alignments(document)
        assert known == sorted(known, key=lambda one: (one["confidence"] or 0.0, one["similarity"]), reverse=True)
    assert keep.invoke(found) == found
    assert asyncio.run(keep.ainvoke(given)) == found
    # A document is the same, whatever comes with it.
    assert [one for document in given for one in keep.invoke([document])] == found


# what comes out


async def test_kept_documents_stay_as_they_are(transform: Transform) -> None:
    nested = {"authors": ["Ann"], "when": date(2020, 1, 1), "n": 1, "Epic": "own", "nothing": None}
    given = [Document("red wine", id="a", metadata=nested), Document("blue sky", id="b"), Document("red wine, too")]
    before = copy.deepcopy(given)
    first, second = await transform(transformer(), given)
    assert given == before
    assert (first.id, first.page_content) == ("a", "red wine")
    assert (second.id, second.page_content) == (None, "red wine, too")
    assert {key: value for key, value in first.metadata.items() if not key.startswith("epic_")} == nested
    first.metadata["authors"].append("Bob")
    assert given == before


async def test_the_flat_ones_are_those_of_the_strongest_alignment(transform: Transform) -> None:
    (found,) = await transform(transformer(), [Document("night train and more, night train and red wine")])
    strongest, other = alignments(found)
    assert (strongest["preference"], other["preference"]) == (TRAIN, WINE)
    assert strongest["similarity"] > other["similarity"]
    assert {name: found.metadata.get(f"epic_{name}") for name in strongest} == strongest


# lazily


def test_an_endless_iterator_is_transformed_as_it_comes() -> None:
    taken: list[int] = []

    def source() -> Iterator[Document]:
        for number in itertools.count():
            taken.append(number)
            yield Document(f"red wine {number}", id=str(number))

    keep = transformer()
    coming = keep.lazy_transform(source())
    assert taken == []
    assert ids(list(itertools.islice(coming, 3))) == ["0", "1", "2"]
    assert len(taken) <= JUDGED_AT_ONCE
    coming.close()  # type: ignore[attr-defined]
    assert keep.report.seen == len(taken) == keep.report.kept


async def test_nothing_blocks_the_event_loop() -> None:
    encoder, lm = HashEncoder(), Scripted(concurrency=3, seconds=0.001)
    keep = transformer(lm, embeddings=encoder)
    here = threading.get_ident()
    read: set[int] = set()

    def source() -> Iterator[Document]:
        for document in docs():
            read.add(threading.get_ident())
            yield document

    assert len([document async for document in keep.alazy_transform(source())]) == 12
    await keep.ainvoke(docs())
    assert here not in encoder.sync_threads | read and lm.most_at_once == 3


def test_no_run_takes_the_undecided_documents_of_another_away(caplog: pytest.LogCaptureFixture) -> None:
    lm = Scripted(stalls_at(0))
    keep, stew, train = transformer(lm), Document("red wine 0", id="a"), Document("night train 0", id="b")
    with caplog.at_level(logging.WARNING, logger="epic_langchain"):
        assert keep.batch([[stew], [train]]) == [[], []]
    assert sorted(ids(keep.undecided)) == ["a", "b"]
    assert "1 documents are undecided" in caplog.text and "It stalled" in caplog.text
    assert keep.invoke([stew], preferences=[WINE]) == []
    assert keep.undecided_for([WINE]) == [stew] and len(keep.undecided) == 2
    lm.hook = None
    assert ids(keep.invoke([train])) == ["b"]
    assert keep.undecided == [stew]
    assert len(keep.invoke(keep.undecided)) == 1
    assert keep.undecided == [] and keep.undecided_for([WINE]) == [stew]


def test_settings_are_changed_in_a_copy_or_not_at_all() -> None:
    keep = transformer()
    for name, value in (("settings", Settings()), ("llm", "nonsense"), ("preferences", [])):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(keep, name, value)
    assert keep.model_copy(update={"settings": Settings(tau=1.0)}).invoke(docs()) == []
    with pytest.raises(ValidationError, match="settings"):
        keep.model_copy(update={"settings": 7.0})
    assert keep.invoke(docs()) == transformer().invoke(docs())


# preferences of a call


async def test_a_call_can_be_for_another_user(anyhow: Transform) -> None:
    keep = transformer()
    expected = transformer(preferences=[TRAIN]).invoke(docs())
    assert await anyhow(keep, docs(), preferences=[TRAIN]) == expected
    assert await anyhow(keep, docs(), config={"configurable": {"epic_preferences": [TRAIN], "epic_k": 3}}) == expected
    assert (
        await anyhow(keep, docs(), preferences=[TRAIN], config={"configurable": {"epic_preferences": [WINE]}})
        == expected
    )
    assert await anyhow(keep, docs()) == transformer().invoke(docs())


async def test_users_at_the_same_time_do_not_mix() -> None:
    keep = transformer(Scripted(seconds=0.001))
    users = [[WINE], [TRAIN], [WINE, TRAIN], ["blue sky"]] * 3
    expected = [transformer(preferences=user).invoke(docs()) for user in users]
    configs: Any = [{"configurable": {"epic_preferences": user}, "max_concurrency": 6} for user in users]
    assert keep.batch([docs()] * len(users), configs) == expected
    assert await keep.abatch([docs()] * len(users), configs) == expected
    assert len({len(found) for found in expected}) > 1


async def test_preferences_may_come_with_the_call_only(transform: Transform) -> None:
    keep = transformer(preferences=())
    for wanted in ([WINE], WINE):
        assert await transform(keep, docs(), preferences=wanted) == transformer(preferences=wanted).invoke(docs())
    for one, options in ((keep, {}), (transformer(), {"preferences": []})):
        with pytest.raises(NoPreferencesError, match=r"preferences=\["):
            await transform(one, docs(), **options)


def test_more_users_than_are_kept_prepared_are_served() -> None:
    lm = Scripted()
    keep = transformer(lm, preferences=())
    given = [Document("red wine 1")]
    users = [[WINE, f"likes number {n}"] for n in range(40)]
    for user in [*users, users[-1], users[0]]:
        assert len(keep.invoke(given, preferences=user)) == 1
    # The last is still prepared, the first is not.
    assert lm.calls == 41


def test_a_user_who_comes_twice_at_once_is_prepared_once() -> None:
    class Slow(HashEncoder):
        def _encode(self, texts: Sequence[str]) -> Any:
            if WINE in texts:
                time.sleep(0.05)
            return super()._encode(texts)

    encoder = Slow()
    keep = transformer(embeddings=encoder)
    keep.batch([docs(1)] * 6, {"max_concurrency": 6})
    assert encoder.texts[WINE] == 1


# reports


def stalls_at(*numbers: int) -> Callable[[Asked], None]:
    """Fails for the documents of these numbers."""

    def hook(asked: Asked) -> None:
        if any(chunk.endswith(tuple(f" {number}" for number in numbers)) for chunk in asked.chunks):
            raise LMError("It stalled.")

    return hook


# a memory that judges


def test_fields_can_be_made_configurable() -> None:
    assert len(EpicDocumentTransformer(memory=memory_of(Scripted())).invoke(docs())) == 12
    other = transformer().configurable_fields(settings=ConfigurableField(id="how"))
    assert other.with_config(configurable={"how": Settings(tau=1.0)}).invoke(docs()) == []
    assert other.invoke(docs(), {"configurable": {"epic_preferences": [TRAIN]}}) == transformer(
        preferences=[TRAIN]
    ).invoke(docs())


# bad input


async def test_every_way_refuses_what_cannot_be() -> None:
    for name, way in ALL_WAYS.items():
        with pytest.raises(TypeError, match="threshold"):
            await way(transformer(), docs(), threshold=3)
        with pytest.raises(InvalidInputError):
            await way(transformer(), docs(), preferences=[""])
        if " of " not in name:
            with pytest.raises(InvalidInputError, match="Give several Documents in a list"):
                await way(transformer(), "red wine")
