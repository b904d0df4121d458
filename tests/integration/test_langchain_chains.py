"""Chains of LangChain in which documents are filtered and retrieved: results, runs, events, batches, users."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from epic_memory import Settings

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable

from chat_models import ScriptedChat
from epic_langchain import EpicDocumentTransformer, EpicRetriever
from epic_langchain.models import RUN_NAME, LangChainLM
from epic_memory import EpicMemory, Item, Stance
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
