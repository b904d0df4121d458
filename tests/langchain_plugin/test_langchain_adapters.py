"""LangChain's chat models as language models: what they are asked, what they answer, what goes wrong, who hears."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from operator import itemgetter
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import CallbackManager
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, PrivateAttr

from epic_langchain.models import RUN_NAME, LangChainLM, calling_with
from epic_memory import Item
from epic_memory.lm import Completion
from helpers import calling
from langchain_runs import Runs
from limited_models import KEEP, Call, Chat, LimitedChat
from scripted import ASKED, ITEMS, PASSED, Complete, memory_with, patient, script

SCHEMA = {
    "type": "object",
    "properties": {"decision": {"type": "string", "enum": ["Keep", "Discard"]}},
    "required": ["decision"],
    "additionalProperties": False,
}


class Formed(LimitedChat):
    """Is held to a schema by its server, as Ollama's models are."""

    _schemas: list[Any] = PrivateAttr(default_factory=list)

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, **kwargs: Any) -> Runnable[Any, Any]:
        assert include_raw and not kwargs
        self._schemas.append(schema)
        parsed = RunnablePassthrough.assign(
            parsed=itemgetter("raw") | JsonOutputParser(), parsing_error=lambda _: None
        ).with_fallbacks([RunnablePassthrough.assign(parsed=lambda _: None)], exception_key="parsing_error")
        return RunnableMap(raw=self.bind(format=schema)) | parsed


class Calling(LimitedChat):
    """Is held to a schema by a function that it calls, in langchain-core's own way."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _message(self, message: AIMessage, settings: dict[str, Any]) -> AIMessage:
        if "tools" not in settings or message.tool_calls or not message.text:
            return message
        name = settings["tools"][0]["function"]["name"]
        made = {"name": name, "args": json.loads(message.text), "id": "1"}
        return message.model_copy(update={"content": "", "tool_calls": [made]})


KINDS = {"plain": Chat, "limited": LimitedChat, "formed": Formed, "calling": Calling}


def scripted(call: Call) -> str:
    """Answers prompts as the script has it."""
    roles = {"human": "user", "system": "system", "ai": "assistant"}
    return script()([{"role": roles[message.type], "content": message.content} for message in call.messages])


# a schema


@pytest.mark.parametrize("kind", ["formed", "calling"])
async def test_a_schema_is_given_with_a_name_and_not_changed(kind: str, complete: Complete) -> None:
    model, asked = KINDS[kind](), json.loads(json.dumps(SCHEMA))
    assert (await complete(LangChainLM(model), schema=asked, max_tokens=50)).text == KEEP
    schema = model._calls[0].schema
    assert schema is not None and asked == SCHEMA
    assert {"title", "description"} & schema.keys() or re.fullmatch(r"[a-zA-Z0-9_-]+", schema["name"])
    given = schema.get("parameters", schema)
    assert {key: given[key] for key in SCHEMA} == SCHEMA
    await complete(LangChainLM(model))
    assert model._calls[-1].schema is None


@pytest.mark.parametrize(
    "error", [NotImplementedError(), ValueError("Unsupported"), TypeError("include_raw")], ids=repr
)
async def test_a_model_that_cannot_be_held_to_a_schema_is_asked_plainly(error: Exception, complete: Complete) -> None:
    class Cannot(Chat):
        _asked: list[Any] = PrivateAttr(default_factory=list)

        def with_structured_output(self, schema: Any, **options: Any) -> Any:
            self._asked.append(schema)
            raise error

    model = Cannot()
    lm = LangChainLM(model)
    other = {**SCHEMA, "required": []}
    assert (await complete(lm, schema=SCHEMA)).text == (await complete(lm, schema=other)).text == KEEP
    assert len(model._asked) == 1


async def test_a_models_own_structured_output_may_be_the_object_alone(complete: Complete) -> None:
    class Decided(BaseModel):
        decision: str

    class Own(Chat):
        given: Any

        def with_structured_output(self, schema: Any, **options: Any) -> Any:
            return RunnableLambda(lambda _: self.given)

    for given in (Decided(decision="Keep"), {"raw": None, "parsed": {"decision": "Keep"}}):
        text = json.loads((await complete(LangChainLM(Own(given=given)), schema=SCHEMA)).text)
        assert text.get("parsed", text)["decision"] == "Keep"


# what goes with an answer


SAYS_KEEP = [{"token": "Keep", "logprob": -0.5}, {"token": "!", "logprob": -0.1}]


def calls(*args: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "answer", "args": one, "id": str(n)} for n, one in enumerate(args)]}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (AIMessage([{"type": "thinking", "thinking": "Discard?"}, {"type": "text", "text": "Ke"}, "ep"]), "Keep"),
        (AIMessage("Keep!", **calls({"place": "Zürich"})), '{"place": "Zürich"}'),
        (AIMessage("", **calls({"n": 1}, {"n": 2})), '{"n": 1}\n{"n": 2}'),
        (AIMessage(KEEP, **calls({"decision": "Discard"})), KEEP),
        (AIMessage("", invalid_tool_calls=[{"name": "answer", "args": "{'n'", "id": "1", "error": None}]), "{'n'"),
    ],
    ids=["text only", "called", "called twice", "JSON comes first", "broken"],
)
async def test_an_answer_is_its_text_or_what_is_called(answer: AIMessage, text: str, complete: Complete) -> None:
    answer.response_metadata["logprobs"] = SAYS_KEEP
    completion = await complete(LangChainLM(Formed(answer=answer)), schema=SCHEMA)
    assert completion.text == text
    # They are those of the text, not of a function.
    assert (completion.tokens is not None) is (text in ("Keep", KEEP))


# the limit of an answer


async def test_an_answer_under_another_limit_is_not_that_of_the_cache(complete: Complete) -> None:
    class Stored(LimitedChat):
        @classmethod
        def is_lc_serializable(cls) -> bool:
            return True

    model = Stored(answer="x", cache=InMemoryCache())
    for limit, asked in ((300, 1), (300, 1), (600, 2), (None, 3)):
        await complete(LangChainLM(model), max_tokens=limit)
        assert len(model.limits) == asked


class LengthFinishReasonError(Exception):
    """Exception of OpenAI's client for an answer that was to follow a schema and was cut off."""

    def __init__(self, text: str, reasoning: int) -> None:
        super().__init__("Could not parse response content as the length limit was reached")
        details = type("Details", (), {"reasoning_tokens": reasoning})
        usage = type("Usage", (), {"prompt_tokens": 7, "completion_tokens": 300, "completion_tokens_details": details})
        choice = type("Choice", (), {"message": type("Said", (), {"content": text})})
        self.completion = type("Answer", (), {"usage": usage, "choices": [choice]})


async def test_an_answer_that_an_error_holds_is_an_answer(complete: Complete) -> None:
    lm = LangChainLM(Formed(answer=LengthFinishReasonError(KEEP[:-5], 0)))
    completion = await complete(lm, schema=SCHEMA, max_tokens=300)
    assert completion == Completion(text=KEEP[:-5], cut=True, prompt_tokens=7, completion_tokens=300)
    model = Formed(answer=lambda call: KEEP if call.limit is None else LengthFinishReasonError("", 300))
    assert (await complete(LangChainLM(model), schema=SCHEMA, max_tokens=300)).text == KEEP


# what a model refuses


async def test_an_answer_that_langchain_cannot_parse_is_a_refusal(complete: Complete) -> None:
    model = Formed(answer=lambda call: OutputParserException("No.") if call.schema else KEEP)
    lm = LangChainLM(model)
    for _ in range(2):
        assert (await complete(lm, schema=SCHEMA, max_tokens=300)).text == KEEP
    assert [call.schema is not None for call in model._calls] == [True, False, False]


@pytest.mark.parametrize("nothing", [None, {}, {"raw": None, "parsed": None}], ids=repr)
async def test_a_model_that_gives_nothing_is_not_asked_for_ever(nothing: object, complete: Complete) -> None:
    asked: list[Any] = []

    class Mute(Formed):
        def with_structured_output(self, schema: Any, **_: Any) -> Any:
            return RunnableLambda(lambda _: asked.append(schema) or nothing)

    assert "Keep" not in (await complete(LangChainLM(Mute(answer=KEEP)), schema=SCHEMA, max_tokens=300)).text
    assert len(asked) == 1


# callbacks


def below(runs: Runs, name: str, after: int = 0) -> list[str | None]:
    """The names of the runs right below one, in which models are called, after so many calls."""
    ways = [[*reversed(runs.above(model)), model] for model in runs.models[after:]]
    assert all(way[0] is runs.one(name) for way in ways)
    return [way[1].name for way in ways]


@pytest.mark.parametrize(
    ("kind", "way", "concurrency"), [("plain", "sync", 1), ("calling", "async", 4), ("formed", "thread", 4)]
)
async def test_calls_are_children_of_the_run_in_which_they_happen(kind: str, way: str, concurrency: int) -> None:
    runs = Runs()
    manager = CallbackManager.configure(inheritable_callbacks=[runs], inheritable_tags=["mine"])
    parent = manager.on_chain_start({}, {}, name="parent")
    memory = memory_with(patient(LangChainLM(KINDS[kind](answer=scripted), concurrency=concurrency), batch_size=1))
    with calling_with({"callbacks": parent.get_child(), "run_id": parent.run_id, "metadata": {"user": "ada"}}):
        await (asyncio.to_thread(memory.add, ITEMS) if way == "thread" else calling(way)(memory, "add", ITEMS))
    assert below(runs, "parent") == [RUN_NAME] * len(PASSED)
    assert all({"mine", "nostream"} <= run.tags for run in runs.models)
    seen = len(runs.models)
    await memory.aadd([Item(text="Vegan casinos beside night trains.")])
    assert len(runs.models) == seen
    # Inside a runnable it needs no more ado.
    memory = memory_with(patient(LangChainLM(Formed(answer=scripted), concurrency=concurrency), batch_size=1))
    RunnableLambda(memory.add).invoke(ITEMS, {"callbacks": [runs], "run_name": "step"})
    assert below(runs, "step", after=seen) == [RUN_NAME] * len(PASSED)


class Streaming(Chat):
    """Streams its answer word by word."""

    def _stream(self, messages: list[BaseMessage], *args: Any, **settings: Any) -> Iterator[ChatGenerationChunk]:
        for word in re.findall(r"\S+\s*", self._said(messages, settings).text):
            logprobs = {"content": [{"token": word, "logprob": -0.1}]}
            yield ChatGenerationChunk(
                message=AIMessageChunk(word, response_metadata={"logprobs": logprobs}),
            )

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **settings: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages, *args, **settings):
            await asyncio.sleep(0)
            yield chunk


async def test_what_a_verifier_says_is_not_streamed_to_a_user_of_langgraph() -> None:
    pytest.importorskip("langgraph", reason="needs the extra agents")
    from langgraph.graph import END, START, MessagesState, StateGraph

    def node(state: MessagesState) -> dict[str, Any]:
        LangChainLM(Streaming(answer="Keep what I say to myself")).complete(ASKED)
        return {"messages": [Streaming(answer="Hello to you").invoke("Hello")]}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    streamed = graph.compile().stream({"messages": []}, stream_mode="messages")
    assert "".join(str(chunk.text) for chunk, _ in streamed) == "Hello to you"
