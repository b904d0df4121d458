"""The LangChain document transformer, in whichever way it is called; what both plugins do is in tests/plugins."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError

from epic_langchain import EpicDocumentTransformer
from epic_memory import Settings
from epic_memory.errors import InvalidInputError, LMError, NoPreferencesError
from epic_memory.pipeline.judge import JUDGED_AT_ONCE
from helpers import HashEncoder, settled
from scripted import TRAIN, WINE, Asked, Scripted, documents, verifier_of

Transform = Callable[..., Awaitable[list[Document]]]


def docs(count: int = 4) -> list[Document]:
    """Documents that are kept under one preference, discarded, kept under two, under one of two, and far from both."""
    return [Document(item.text, id=item.id, metadata=dict(item.metadata)) for item in documents(count)]


def transformer(lm: Scripted | None = None, **options: Any) -> EpicDocumentTransformer:
    """A transformer for two preferences, whose model decides by what is said in the text."""
    given = {"preferences": [WINE, TRAIN], "embeddings": HashEncoder(), "llm": verifier_of(lm or Scripted()), **options}
    return EpicDocumentTransformer(**settled(**given))


def ids(found: Sequence[Document]) -> list[str | None]:
    return [document.id for document in found]


# the ways to call it


async def _collected(made: Any) -> list[Any]:
    """Everything that a call returns, at once or one after the other."""
    if inspect.isawaitable(made):
        made = await made
    return [one async for one in made] if hasattr(made, "__aiter__") else list(made)


async def _stream_of(given: Any) -> AsyncIterator[Document]:
    for document in given:
        await asyncio.sleep(0)
        yield document


def _way(name: str, taken: Callable[[Any], Any] = lambda given: given) -> Transform:
    """One way to transform documents, and how it takes them."""

    async def transformed(keep: EpicDocumentTransformer, given: Any, **more: Any) -> list[Document]:
        if name.endswith("batch"):
            config = {"max_concurrency": 2, **more.pop("config", {})}
            first, second = await _collected(getattr(keep, name)([given, given], config, **more))
            assert first == second
            return list(first)
        found = await _collected(getattr(keep, name)(taken(given), **more))
        return [document for some in found for document in some] if name.endswith("stream") else found

    return transformed


NAMES = ["invoke", "transform_documents", "lazy_transform", "batch", "stream"]
ALL_WAYS: dict[str, Transform] = {
    **{name: _way(name) for plain in NAMES for name in (plain, f"a{plain}")},
    "lazy_transform of an iterator": _way("lazy_transform", iter),
    "alazy_transform of a stream": _way("alazy_transform", _stream_of),
}


@pytest.fixture(params=ALL_WAYS)
def anyhow(request: pytest.FixtureRequest) -> Transform:
    """Transforms documents in each of the ways there are."""
    return ALL_WAYS[request.param]


async def test_every_way_gives_the_same_over_many_batches(anyhow: Transform) -> None:
    keep, given = transformer(Scripted(concurrency=3)), docs(14)
    assert len(given) > JUDGED_AT_ONCE
    assert ids(await anyhow(keep, given)) == [f"item {5 * n + m}" for n in range(14) for m in (0, 2, 3)]
    assert (keep.report.seen, keep.report.kept, keep.report.discarded) == (70, 42, 14)


async def test_a_call_can_be_for_another_user(anyhow: Transform) -> None:
    keep, expected = transformer(), transformer(preferences=[TRAIN]).invoke(docs())
    in_config: Any = {"configurable": {"epic_preferences": [TRAIN], "epic_k": 3}}
    other: Any = {"configurable": {"epic_preferences": [WINE]}}
    for options in ({"preferences": [TRAIN]}, {"config": in_config}, {"preferences": [TRAIN], "config": other}):
        assert await anyhow(keep, docs(), **options) == expected
    assert await anyhow(keep, docs()) == transformer().invoke(docs())


async def test_every_way_refuses_what_cannot_be() -> None:
    for name, way in ALL_WAYS.items():
        with pytest.raises(TypeError, match="threshold"):
            await way(transformer(), docs(), threshold=3)
        with pytest.raises(InvalidInputError):
            await way(transformer(), docs(), preferences=[""])
        if " of " not in name:
            with pytest.raises(InvalidInputError, match="Give several Documents in a list"):
                await way(transformer(), "red wine")


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


async def test_what_blocks_is_not_read_on_the_event_loop() -> None:
    read: set[int] = set()

    def source() -> Iterator[Document]:
        for document in docs():
            read.add(threading.get_ident())
            yield document

    assert len([document async for document in transformer().alazy_transform(source())]) == 12
    assert threading.get_ident() not in read


# users and settings


async def test_users_at_the_same_time_do_not_mix() -> None:
    keep = transformer(Scripted(seconds=0.001))
    users = [[WINE], [TRAIN], [WINE, TRAIN], ["blue sky"]] * 3
    expected = [transformer(preferences=user).invoke(docs()) for user in users]
    configs: Any = [{"configurable": {"epic_preferences": user}, "max_concurrency": 6} for user in users]
    assert keep.batch([docs()] * len(users), configs) == expected
    assert await keep.abatch([docs()] * len(users), configs) == expected
    assert len({len(found) for found in expected}) > 1


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_preferences_may_come_with_the_call_only(way: str) -> None:
    transform, keep = ALL_WAYS[way], transformer(preferences=())
    for wanted in ([WINE], WINE):
        assert await transform(keep, docs(), preferences=wanted) == transformer(preferences=wanted).invoke(docs())
    for one, options in ((keep, {}), (transformer(), {"preferences": []})):
        with pytest.raises(NoPreferencesError, match=r"preferences=\["):
            await transform(one, docs(), **options)


def test_more_users_than_are_kept_prepared_are_served() -> None:
    lm = Scripted()
    keep = transformer(lm, preferences=())
    users = [[WINE, f"likes number {n}"] for n in range(33)]
    for user in [*users, users[-1], users[0]]:
        assert len(keep.invoke([Document("red wine 1")], preferences=user)) == 1
    # The last is still prepared, the first is not.
    assert lm.calls == 34


def test_a_user_who_comes_twice_at_once_is_prepared_once() -> None:
    class Slow(HashEncoder):
        def _encode(self, texts: Sequence[str]) -> Any:
            if WINE in texts:
                time.sleep(0.05)
            return super()._encode(texts)

    encoder = Slow()
    transformer(embeddings=encoder).batch([docs(1)] * 6, {"max_concurrency": 6})
    assert encoder.texts[WINE] == 1


def test_what_the_last_run_left_undecided_is_there_whatever_its_preferences(caplog: pytest.LogCaptureFixture) -> None:
    def stalls(asked: Asked) -> None:
        raise LMError("It stalled.")

    lm = Scripted(stalls)
    keep, stew, train = transformer(lm), Document("red wine 0", id="a"), Document("night train 0", id="b")
    with caplog.at_level(logging.WARNING, logger="epic_langchain"):
        assert keep.invoke([stew, train]) == [] and keep.undecided == [stew, train]
    assert "2 documents are undecided" in caplog.text and "It stalled" in caplog.text
    assert keep.invoke([stew], preferences=["red"]) == [] and keep.undecided == [stew]
    lm.hook = None
    assert len(keep.invoke(keep.undecided, preferences=["red"])) == 1
    assert keep.undecided == []


def test_settings_are_changed_in_a_copy_or_by_the_config() -> None:
    keep = transformer()
    for name, value in (("settings", Settings()), ("llm", "nonsense"), ("preferences", [])):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(keep, name, value)
    assert keep.model_copy(update={"settings": Settings(tau=1.0)}).invoke(docs()) == []
    with pytest.raises(ValidationError, match="settings"):
        keep.model_copy(update={"settings": 7.0})
    other = keep.configurable_fields(settings=ConfigurableField(id="how"))
    assert other.with_config(configurable={"how": Settings(tau=1.0)}).invoke(docs()) == []
    for_train: Any = {"configurable": {"epic_preferences": [TRAIN]}}
    assert other.invoke(docs(), for_train) == transformer(preferences=[TRAIN]).invoke(docs())
    assert keep.invoke(docs()) == transformer().invoke(docs())
