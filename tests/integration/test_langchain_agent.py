"""An agent of LangChain with a memory: turns, tools, threads, users, streams and traces."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import nullcontext
from typing import Any

import pytest

from helpers import settled

pytest.importorskip("langchain", reason="needs the extra agents")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from chat_models import ScriptedChat, called
from epic_langchain.agents import EpicMemoryMiddleware
from epic_memory import EpicMemory, Item
from epic_memory.errors import InvalidInputError
from helpers import HashEncoder, KeepAll
from langchain_runs import Runs

VEGAN, CASINO = "I follow a strict vegan diet.", "I avoid hotels with casinos."
ITEMS = [
    Item(text="The Vdara is one of the quiet hotels without casinos in Las Vegas.", metadata={"year": 2024}),
    Item(text="A lentil stew for a strict vegan diet.", metadata={"year": 2022}),
    Item(text="The hotels of the strip have casinos.", metadata={"year": 2019}),
]
QUESTION = "I will spend a week in Las Vegas. Which hotels there have no casinos?"
ANSWER = "Take the Vdara, of the hotels without casinos."


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"Sunny in {city}."


@pytest.fixture
def memory() -> EpicMemory:
    memory = EpicMemory([VEGAN, CASINO])
    assert memory.add(ITEMS).kept == len(ITEMS)
    return memory


def tool_loop() -> ScriptedChat:
    return ScriptedChat(answers=[called("weather", city="Las Vegas"), ANSWER])


def ask(*questions: str) -> dict[str, Any]:
    return {"messages": [("user", question) for question in questions]}


def thread(name: str, **options: Any) -> Any:
    return {"configurable": {"thread_id": name, **{f"epic_{key}": value for key, value in options.items()}}}


async def answered(agent: Any, asynchronous: bool, *args: Any, **kwargs: Any) -> dict[str, Any]:
    result: dict[str, Any] = await agent.ainvoke(*args, **kwargs) if asynchronous else agent.invoke(*args, **kwargs)
    return result


both_ways = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


@both_ways
async def test_an_agent_with_tools_and_a_memory(memory: EpicMemory, asynchronous: bool) -> None:
    model, middleware, trace = tool_loop(), EpicMemoryMiddleware(memory, k=2), Runs()
    agent = create_agent(model, [weather], middleware=[middleware], system_prompt="Be brief.")
    hits = memory.search(QUESTION, 2)
    messages: list[BaseMessage] = [HumanMessage("Hi", id="h"), AIMessage("Hello", id="a"), HumanMessage(QUESTION)]
    copies = [message.model_copy(deep=True) for message in messages]
    result = await answered(agent, asynchronous, {"messages": messages}, {"callbacks": [trace]})

    # The caller's messages and the state stay as they are.
    assert messages[:2] == copies[:2] == result["messages"][:2] and messages[2].content == QUESTION
    assert [message.type for message in result["messages"]] == ["human", "ai", "human", "ai", "tool", "ai"]
    assert set(result) == {"messages"} and result["messages"][-1].text == ANSWER
    assert len(model.systems) == 2 and model.systems[0] == model.systems[1]
    for told in model.told:
        assert told.startswith("Be brief.\n\n")
        assert all(hit.text in told for hit in hits) and VEGAN in told
    if asynchronous and sys.version_info < (3, 11):
        assert trace.of_kind("retriever") == []
    else:
        # Once for the turn, though the model was called twice.
        (run,) = trace.of_kind("retriever")
        assert (run.given, trace.above(run)[0].name) == (QUESTION, "model")
        assert [document.id for document in run.found] == [hit.item.id for hit in hits]
        assert [document.metadata["epic_score"] for document in run.found] == pytest.approx([hit.score for hit in hits])
    # The memory holds the turn, and finds it in the next.
    assert middleware.report is not None and middleware.report.kept == 1
    assert len(memory) == len(ITEMS) + 1
    await answered(agent, asynchronous, ask("Remind me of the hotels without casinos."))
    assert f"user: {QUESTION}\n" in model.told[2]
    assert ANSWER not in model.told[2] and "Sunny" not in "".join(model.told)


# many users


def users() -> dict[str, EpicMemory]:
    memories = {}
    for user in ("anna", "bob", "cleo"):
        options: Any = {"encoder": HashEncoder(), "verifier": KeepAll(), "tau": 0.05}
        memories[user] = EpicMemory([f"I like {user} hotels."], **settled(**options))
        memories[user].add(f"The hotels that {user} likes are secret.")
    return memories


def by_user(messages: list[BaseMessage]) -> str:
    return f"Hotels for {messages[-1].text.split()[-1]}"


@both_ways
async def test_one_agent_serves_many_users_at_a_time(asynchronous: bool) -> None:
    memories = users()
    model = ScriptedChat(answers=by_user)
    middleware = [EpicMemoryMiddleware(memories.__getitem__, k=50)]
    agent = create_agent(model, middleware=middleware, checkpointer=InMemorySaver())
    names = [*memories] * 4
    inputs = [ask(f"Turn {turn}: hotels for {user}") for turn, user in enumerate(names)]
    if asynchronous:
        results = await asyncio.gather(
            *(
                agent.ainvoke(question, thread(f"{user}{turn}"), context={"namespace": user})
                for turn, (question, user) in enumerate(zip(inputs, names, strict=True))
            )
        )
    else:
        configs = [thread(f"{user}{turn}", namespace=user) for turn, user in enumerate(names)]
        results = agent.batch(inputs, configs, max_concurrency=4)
    assert [result["messages"][-1].text for result in results] == [f"Hotels for {user}" for user in names]
    assert len(model.seen) == len(names)
    for messages, system in zip(model.seen, model.told, strict=True):
        user = messages[-1].text.split()[-1]
        assert f"The hotels that {user} likes" in system and f"P1. I like {user} hotels." in system
        assert not [other for other in memories if other != user and other in system]
    for user, memory in memories.items():
        texts = [hit.item.text for hit in memory.search("hotels", 50)]
        assert len(texts) == len(memory) == 5
        assert not [text for text in texts for other in memories if other != user and other in text]


def turns(memory: EpicMemory) -> list[str]:
    """What users said, of all that is held."""
    return sorted(hit.item.text for hit in memory.search("hotels", 50) if hit.item.text.startswith("user: "))


ANNAS = "Hotels near the clinic where anna is treated?"
APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})
REVIEWED: Any = HumanInTheLoopMiddleware(interrupt_on={"weather": True})
no_interrupts = sys.version_info < (3, 11)  # LangGraph does not interrupt asynchronous nodes there


@both_ways
@pytest.mark.parametrize("user", ["bob", "anna"])
@pytest.mark.parametrize("again", [None, {"messages": []}, APPROVE], ids=["failed", "failed, no words", "waited"])
async def test_a_turn_that_another_user_ends_is_not_theirs(asynchronous: bool, again: Any, user: str) -> None:
    if again is APPROVE and asynchronous and no_interrupts:
        pytest.skip("LangGraph does not interrupt asynchronous nodes there")
    memories, left = users(), [called("weather", city="Rome"), "Hotels by the sea."]

    def answer(messages: list[BaseMessage]) -> Any:
        said = left.pop(0)
        if again is not APPROVE and len(left) == 1:
            raise ConnectionError("down")
        return said

    agent = create_agent(
        ScriptedChat(answers=answer),
        [weather],
        middleware=[EpicMemoryMiddleware(memories.__getitem__), REVIEWED],
        checkpointer=InMemorySaver(),
    )
    with nullcontext() if again is APPROVE else pytest.raises(ConnectionError):
        await answered(agent, asynchronous, ask(ANNAS), thread("one"), context={"namespace": "anna"})
    result = await answered(agent, asynchronous, again, thread("one"), context={"namespace": user})
    assert result["messages"][-1].text == "Hotels by the sea."
    assert turns(memories["bob"]) == []
    assert turns(memories["anna"]) == ([f"user: {ANNAS}"] if user == "anna" else [])


@both_ways
async def test_what_is_kept_in_the_state_is_no_text(memory: EpicMemory, asynchronous: bool) -> None:
    model, middleware = ScriptedChat(answers=[ANSWER]), [EpicMemoryMiddleware(memory)]
    agent = create_agent(model, middleware=middleware, checkpointer=InMemorySaver())
    result = await answered(agent, asynchronous, ask(QUESTION), thread("one"), context={"namespace": "default"})
    kept = agent.get_state(thread("one")).values
    assert set(kept) == {"messages", "epic_turn"}
    assert kept["epic_turn"]["asked"] == result["messages"][0].id and "default" not in str(kept["epic_turn"])


@both_ways
async def test_two_memories_in_one_agent(memory: EpicMemory, asynchronous: bool) -> None:
    class Work(EpicMemoryMiddleware):
        """LangChain tells middlewares apart by the names of their classes."""

    work = EpicMemory(["I prefer hotels near the office."])
    work.add("Hotels near the office: the Plaza.")
    model = ScriptedChat(answers=[ANSWER])
    stack = [EpicMemoryMiddleware(memory, k=1), Work(work, k=1, remember=False)]
    with pytest.raises(AssertionError, match="duplicate"):
        create_agent(model, middleware=[EpicMemoryMiddleware(memory), EpicMemoryMiddleware(work)])
    await answered(create_agent(model, middleware=stack), asynchronous, ask(QUESTION))
    assert "Vdara" in model.told[0] and "the Plaza" in model.told[0]
    # The preferences of both have names of their own, and both were asked what the user asked.
    assert [f"P{number}. " in model.systems[0] for number in (1, 2, 3, 4)] == [True, True, True, False]
    assert model.told[0].count(QUESTION) == 1 and model.told[0].endswith(QUESTION)
    assert (len(memory), len(work)) == (len(ITEMS) + 1, 1)


@pytest.mark.skipif(sys.version_info >= (3, 11), reason="the config is there")
async def test_options_that_could_not_be_read_are_refused(memory: EpicMemory) -> None:
    agent = create_agent(tool_loop(), [weather], middleware=[EpicMemoryMiddleware(memory)])
    with pytest.raises(InvalidInputError, match="context"):
        await agent.ainvoke(ask(QUESTION), thread("one", namespace="anna"))


# beside other middleware, and later


async def test_a_memory_is_not_opened_on_the_event_loop() -> None:
    memories, threads = users(), set()

    def opened(namespace: str) -> EpicMemory:
        threads.add(threading.get_ident())
        return memories[namespace]

    agent = create_agent(ScriptedChat(answers=["Hotels."]), middleware=[EpicMemoryMiddleware(opened)])
    await agent.ainvoke(ask("Which hotels?"), context={"namespace": "anna"})
    assert threads and threading.get_ident() not in threads
