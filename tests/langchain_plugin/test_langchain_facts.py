"""Facts of the user in LangChain: what an agent is told, and what it remembers."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain", reason="needs the extra agents")

from langchain.agents import create_agent

from chat_models import ScriptedChat
from epic_langchain.agents import EpicMemoryMiddleware
from epic_memory import EpicMemory

ALLERGY = "I'm allergic to peanuts and shellfish when I eat out."
QUERY = "Where can I eat tonight near Porto?"


@pytest.fixture
def memory() -> EpicMemory:
    made = EpicMemory(["I love restaurants in Porto."])
    names = ("Rosa", "Casa", "Tasca", "Lapa", "Mira", "Foz", "Sol")
    made.add(
        f"Where can I eat near Porto tonight {w}? A restaurant for lunch and dinner is {w} in Porto." for w in names
    )
    made.facts.add(ALLERGY)
    return made


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_agent_is_told_what_is_known_once(memory: EpicMemory, asynchronous: bool) -> None:
    memory.facts.add("I never eat near the station of Porto.")
    model = ScriptedChat(answers=["Rosa."])
    agent = create_agent(model=model, middleware=[EpicMemoryMiddleware(memory, k=2)])
    given = {"messages": [("user", QUERY)]}
    await agent.ainvoke(given) if asynchronous else agent.invoke(given)
    told = model.told[0]
    assert f"- [fact] {ALLERGY}" in told and told.count("\n- [fact] ") == 2 and told.count("\n- ") > 2


def test_an_agent_remembers_statements_and_no_plain_questions() -> None:
    memory = EpicMemory(["I love hotels by the sea."])
    agent = create_agent(
        model=ScriptedChat(answers=["Yes."] * 3), middleware=[EpicMemoryMiddleware(memory, remember="user")]
    )
    for said in ("Which hotels are by the sea?", "I love the hotels by the sea in Faro.", "Is it? And which hotel?"):
        agent.invoke({"messages": [("user", said)]})
    assert all("Faro" in item.text for item in memory.items()) and len(memory.items()) <= 1
