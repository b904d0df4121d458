"""Chains of LangChain in which documents are filtered and retrieved: results, runs, events, batches, users."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from epic_memory import Settings

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from chat_models import ScriptedChat
from epic_langchain import EpicDocumentTransformer, EpicRetriever
from epic_langchain.models import RUN_NAME, LangChainLM
from epic_memory import EpicMemory, Item, Stance
from epic_memory.errors import InvalidInputError, MemoryClosedError
from epic_memory.verification import LMVerifier
from helpers import HashEncoder, method
from langchain_runs import Runs
from scripted import TRAIN, WINE, answer_to, documents, read_prompt

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with casinos."]
QUESTION = "Where should I stay, are there hotels with casinos?"
ANN = "ann"
ITEMS = [
    Item(id="stew", text="A vegan stew for a strict vegan diet."),
    Item(id="casino", text="The hotels of the strip have casinos."),
    Item(id="quiet", text="Quiet hotels without casinos in the old town."),
]

Call = Callable[..., Awaitable[Any]]


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Call:
    """Invokes a chain, or calls another method of it, with or without blocking the event loop."""

    async def called(chain: Runnable[Any, Any], given: Any, config: Any = None, way: str = "invoke", **o: Any) -> Any:
        made = method(chain, way, twin=request.param == "async")(given, config, **o)
        return await made if request.param == "async" else made

    return called


# models


def verifying(messages: list[BaseMessage]) -> str:
    """Keeps a text under each preference, but not under one whose last word it denies."""
    roles = {"human": "user", "ai": "assistant"}
    asked = read_prompt([{"role": roles.get(m.type, m.type), "content": m.text} for m in messages])
    return answer_to(
        asked, lambda chunk, preference: None if f"no{preference.split()[-1]}" in chunk else Stance.SUPPORTS
    )


def failing_at(text: str) -> Callable[[list[BaseMessage]], str]:
    """As `verifying`, but for a text about which the server fails."""

    def answer(messages: list[BaseMessage]) -> str:
        if text in messages[-1].text:
            raise ConnectionError("no route to the model")
        return verifying(messages)

    return answer


def filtering(concurrency: int = 1, answer: Any = verifying, **options: Any) -> EpicDocumentTransformer:
    """A transformer whose chat model is asked several times at once."""
    lm = LangChainLM(ScriptedChat(answers=answer), concurrency=concurrency)
    return EpicDocumentTransformer(
        **{
            "preferences": [WINE, TRAIN],
            "embeddings": HashEncoder(),
            "llm": LMVerifier(lm, retries=0, backoff=0.0, batch_size=4),
            **options,
        }
    )


def docs(count: int = 2) -> list[Document]:
    return [Document(item.text, id=item.id, metadata=dict(item.metadata)) for item in documents(count)]


def ids(found: list[Document]) -> list[str | None]:
    return [document.id for document in found]


@pytest.fixture
def runs() -> Runs:
    return Runs()


# the filter's runs


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_the_filter_is_a_run_and_calls_of_the_model_are_in_it(concurrency: int, runs: Runs, call: Call) -> None:
    given = docs()
    config = {"callbacks": [runs], "tags": ["mine"], "metadata": {"user": ANN}}
    found = await call(filtering(concurrency), given, config)
    run = runs.one("EpicDocumentTransformer")
    assert run.parent is None and run.error is None
    assert run.given == given and run.found == found
    models = runs.of_kind("model")
    assert len(models) == 2
    for model in models:
        *_, called, top = [model, *runs.above(model)]
        assert top is run and called.name == RUN_NAME
        assert "mine" in model.tags and model.metadata["user"] == ANN
        assert model.found.generations[0][0].text.startswith("{")


async def test_called_from_a_function_it_is_a_child_of_that(runs: Runs, call: Call) -> None:
    keep = filtering(3)

    def step(given: list[Document], config: RunnableConfig) -> list[Document]:
        return list(keep.transform_documents(given, config=config))

    async def astep(given: list[Document], config: RunnableConfig) -> list[Document]:
        return list(await keep.atransform_documents(given, config=config))

    found = await call(RunnableLambda(step, afunc=astep, name="step"), docs(), {"callbacks": [runs]})
    assert found == filtering().invoke(docs())
    assert [above.name for above in runs.above(runs.one("EpicDocumentTransformer"))] == ["step"]
    assert all(runs.one("step") in runs.above(model) for model in runs.of_kind("model"))


async def test_a_lazy_run_reports_to_whom_it_is_told_to(runs: Runs) -> None:
    async def arriving() -> AsyncIterator[Document]:
        for document in docs():
            yield document

    elsewhere, other = Runs(), Runs()
    coming = filtering(3).lazy_transform(iter(docs()), {"callbacks": [runs]})
    next(coming)
    # Between two documents the caller's own calls are the caller's.
    ScriptedChat(answers=["Hello."]).invoke("Hello?", {"callbacks": [elsewhere]})
    assert len(list(coming)) == 5 and len(elsewhere.all) == 1
    asynchronous = filtering(3).alazy_transform(arriving(), {"callbacks": [other]})
    assert len([document async for document in asynchronous]) == 6
    for heard in (runs, other):
        assert len(heard.of_kind("model")) == 2
        assert {run.name for run in heard.all.values() if not run.parent} == {RUN_NAME}


async def test_each_of_several_runs_has_its_own_calls(call: Call) -> None:
    keep = filtering(3)
    given = [[Document(f"red wine {n} {m}", id=f"{n} {m}") for m in range(4)] for n in range(5)]
    heard = [Runs() for _ in given]
    configs = [{"callbacks": [runs], "run_name": f"filter {n}", "max_concurrency": 3} for n, runs in enumerate(heard)]
    assert [ids(found) for found in await call(keep, given, configs, "batch")] == [ids(one) for one in given]
    for n, runs in enumerate(heard):
        top = runs.one(f"filter {n}")
        asked = [model.given[0][-1].text for model in runs.of_kind("model")]
        assert len(asked) == 1 and all(f"red wine {n} " in text for text in asked)
        assert all(runs.above(model)[-1] is top for model in runs.of_kind("model"))


async def test_what_goes_wrong_is_reported(runs: Runs, call: Call) -> None:
    with pytest.raises(InvalidInputError, match="Document 1"):
        await call(filtering(), [Document("a\0b")], {"callbacks": [runs]})
    run = runs.one("EpicDocumentTransformer")
    assert isinstance(run.error, InvalidInputError) and run.found is None


async def test_a_model_that_raises_is_heard_of_and_the_rest_goes_on(runs: Runs, call: Call) -> None:
    keep = filtering(3, failing_at("nowine 1"))
    found = await call(keep, docs(), {"callbacks": [runs]})
    assert ids(found) == ["item 0", "item 2", "item 3", "item 5", "item 7"]
    assert ids(keep.undecided) == ["item 6", "item 8"]
    assert all("no route to the model" in reason for reason in keep.report.failures.values())
    failed = [run for run in runs.of_kind("model") if run.error is not None]
    # Those asked about together with one on which the model fails are asked about by themselves.
    assert len(failed) == 3 and runs.one("EpicDocumentTransformer").error is None
    assert all("no route" in str(run.error) for run in failed)


# the retriever's runs


async def test_a_retrieval_is_a_run_with_documents_and_scores(runs: Runs, call: Call) -> None:
    memory = EpicMemory(PREFERENCES, settings=Settings(tau=0.0))
    memory.add(ITEMS)
    retriever = EpicRetriever(memory=memory, k=2, tags=["epic"], metadata={"store": "me"})
    config = {"callbacks": [runs], "run_name": "recall", "tags": ["call"], "metadata": {"user": ANN}}
    found = await call(retriever, QUESTION, config)
    run = runs.one("recall")
    assert (run.kind, run.given, run.parent) == ("retriever", QUESTION, None)
    assert run.found == found and [type(document.metadata["epic_score"]) for document in run.found] == [float, float]
    assert run.tags == {"epic", "call"}
    assert {"store": "me", "user": ANN, "ls_retriever_name": "epic", "ls_vector_store_provider": "epic"}.items() <= (
        run.metadata.items()
    )


async def test_a_failed_retrieval_is_reported(runs: Runs, call: Call) -> None:
    memory = EpicMemory(PREFERENCES)
    retriever = EpicRetriever(memory=memory)
    memory.close()
    with pytest.raises(MemoryClosedError, match="This memory is closed"):
        await call(retriever, QUESTION, {"callbacks": [runs]})
    assert isinstance(runs.one("EpicRetriever").error, MemoryClosedError)
    with pytest.raises(TypeError, match="not 'top_k'"):
        await call(retriever, QUESTION, {"callbacks": [runs], "run_name": "second"}, top_k=3)
    with pytest.raises(InvalidInputError, match="k must be"):
        await call(retriever, QUESTION, {"callbacks": [runs], "run_name": "third", "configurable": {"epic_k": 0}})
    assert isinstance(runs.one("third").error, InvalidInputError)
