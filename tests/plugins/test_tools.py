"""Tools of an agent of either framework: what they do to the memory, what they say, what a small model may write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("langchain", reason="needs the extra agents")
pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from llama_index.core.agent.workflow import ReActAgent

import epic_llamaindex
from chat_models import ScriptedChat, called
from epic_langchain import epic_tools
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError
from llamaindex_models import ScriptedLLM
from tool_arguments import WRONG_QUERIES

CASINO, CODE = "I avoid hotels with casinos.", "The door code is 4471."


@pytest.fixture
def memory() -> EpicMemory:
    memory = EpicMemory([CASINO])
    memory.add(["The Golden Ace is a hotel with a casino.", "The Bellmore is a quiet hotel without a casino."])
    memory.facts.add(CODE)
    return memory


def of_langchain(memory: Any, name: str, given: Any = None, **options: Any) -> dict[str, Any]:
    (tool,) = [tool for tool in epic_tools(memory, **options) if tool.name == name]
    return dict(json.loads(tool.invoke({} if given is None else given)))


def of_llamaindex(memory: Any, name: str, given: Any = None, **options: Any) -> dict[str, Any]:
    (tool,) = [tool for tool in epic_llamaindex.epic_tools(memory, **options) if tool.metadata.get_name() == name]
    output = tool.call(**given) if isinstance(given, dict) else tool.call(*([] if given is None else [given]))
    return dict(json.loads(output.content))


Used = Callable[..., dict[str, Any]]


@pytest.fixture(params=[of_langchain, of_llamaindex])
def used(request: pytest.FixtureRequest) -> Used:
    """Uses a tool, and reads its answer."""
    return request.param  # type: ignore[no-any-return]


def test_a_search_says_id_text_score_and_guidance(used: Used, memory: EpicMemory) -> None:
    results = used(memory, "search_memory", {"query": "Which hotel should I book?", "limit": 2})["results"]
    assert [set(result) for result in results] == [{"id", "text", "score", "guidance"}] * 2
    assert results[0]["text"].startswith("The Bellmore")
    assert "Steer clear" in results[1]["guidance"]
    assert memory.get([results[0]["id"]])[0].text == results[0]["text"]
    assert used(memory, "search_memory", {"query": "What is the door code?"})["results"][0]["text"] == CODE


@pytest.mark.parametrize(
    ("limit", "count"), [(1, 1), ("1", 1), (1.9, 1), (0, 1), (-3, 1), (None, 2), ("many", 2), (1e400, 2), (10**9, 2)]
)
def test_whatever_is_written_for_a_limit_there_are_results(
    used: Used, memory: EpicMemory, limit: Any, count: int
) -> None:
    results = used(memory, "search_memory", {"query": "Which hotel should I book?", "limit": limit})["results"]
    assert len(results) == count


@pytest.mark.parametrize(("given", "wrong"), WRONG_QUERIES)
def test_wrong_arguments_are_explained(used: Used, memory: EpicMemory, given: Any, wrong: str) -> None:
    error = used(memory, "search_memory", given)["error"]
    assert error == f"query {wrong}. Call search_memory again with query, limit."


def test_finding_nothing_and_errors_of_the_memory_are_answers(used: Used, memory: EpicMemory) -> None:
    answer = used(memory, "search_memory", {"query": "trams in Vienna"})
    assert answer["results"] == [] and answer["note"]
    memory.close()
    for name, given in (("search_memory", "hotel"), ("remember", "x"), ("forget", CASINO), ("list_preferences", None)):
        assert "closed" in used(memory, name, given)["error"]


@pytest.mark.parametrize(
    ("given", "kind", "text", "old"),
    [
        ({"text": "I love jazz.", "kind": "preference"}, "add_preference", "I love jazz.", ""),
        ({"text": "I love jazz.", "kind": "Preferences"}, "add_preference", "I love jazz.", ""),
        ({"text": "We live in Porto."}, "add_fact", "We live in Porto.", ""),
        ({"text": 4471, "kind": None, "replaces": None}, "add_fact", "4471", ""),
        ({"text": "It is 9902.", "replaces": CODE.upper()}, "update_fact", "It is 9902.", CODE),
        (
            {"text": "I like casinos.", "kind": "fact", "replaces": CASINO},
            "replace_preference",
            "I like casinos.",
            CASINO,
        ),
    ],
)
def test_to_remember_is_to_propose(used: Used, memory: EpicMemory, given: Any, kind: str, text: str, old: str) -> None:
    before = memory.file.revision
    answer = used(memory, "remember", given)
    (proposal,) = memory.proposals
    assert (answer["status"], answer["id"], memory.file.revision) == ("proposed", proposal.id, before)
    assert (proposal.kind, proposal.text, proposal.old, proposal.source) == (kind, text, old, "agent")
    assert used(memory, "list_preferences")["waiting"] == [str(proposal)]
    memory.proposals.reject(proposal)
    for allowed in (False, True):
        assert used(memory, "remember", given, allowed=allowed)["status"] == "declined"
    assert memory.proposals == [] and memory.file.revision == before


def test_where_it_is_allowed_it_is_remembered_at_once(used: Used, memory: EpicMemory) -> None:
    for given in (
        {"text": "I love jazz.", "kind": "preference"},
        {"text": "The door code is 9902.", "replaces": memory.facts[0].id},
    ):
        answer = used(memory, "remember", given, allowed=True)
        assert answer["status"] == "remembered" and answer["note"].startswith("It is in force")
        assert answer["id"] in [each.id for each in (*memory.preferences, *memory.facts)]
    assert [each.text for each in memory.preferences] == [CASINO, "I love jazz."]
    assert [each.text for each in memory.facts] == ["The door code is 9902."]
    assert memory.proposals == []


def test_what_is_known_is_not_remembered_again_and_what_is_replaced_is_held(used: Used, memory: EpicMemory) -> None:
    assert used(memory, "remember", {"text": CASINO.upper(), "kind": "preference"})["status"] == "known"
    assert used(memory, "remember", CODE)["status"] == "known"
    assert "'the moon'" in used(memory, "remember", {"text": "Cheese.", "replaces": "the moon"})["error"]
    # Nor what is in force in other words, nor a secret.
    memory.preferences.add("I'm allergic to peanuts")
    given = {"text": "The user is allergic to peanuts.", "kind": "fact"}
    assert used(memory, "remember", given)["status"] == "known"
    for allowed in (False, True):
        secret = {"text": "The user's wifi password is marble-otter-77.", "kind": "fact"}
        assert "password" in used(memory, "remember", secret, allowed=allowed)["error"]
    assert memory.proposals == []


def test_to_forget_is_to_propose_an_end(used: Used, memory: EpicMemory) -> None:
    fact, item = memory.facts[0], next(item for item in memory.items() if not item.fact)
    for each in (memory.preferences[0].id, fact.id):
        assert used(memory, "forget", {"id": each})["status"] == "proposed"
    assert [proposal.kind for proposal in memory.proposals] == ["remove_preference", "end_fact"]
    assert "only the user" in used(memory, "forget", item.id)["error"]
    assert "Nothing with the id 'x'" in used(memory, "forget", "x")["error"]
    assert len(memory.items()) == 3


def test_where_it_is_allowed_it_is_forgotten_at_once(used: Used, memory: EpicMemory) -> None:
    fact, item = memory.facts[0], next(item for item in memory.items() if not item.fact)
    for each in (item.id, CODE, memory.preferences[0].id):
        assert used(memory, "forget", each, allowed=True) == {"status": "forgotten"}
    assert memory.preferences == [] and memory.get([fact.id, item.id]) == []
    assert "Nothing" in used(memory, "forget", item.id, allowed=True)["error"]


@pytest.mark.parametrize("plugin", ["lc", "li"])
def test_models_see_plain_schemas(plugin: str, memory: EpicMemory) -> None:
    schemas = {tool.name: convert_to_openai_tool(tool)["function"]["parameters"] for tool in epic_tools(memory)}
    if plugin == "li":
        tools = [tool.metadata for tool in epic_llamaindex.epic_tools(memory)]
        schemas = {tool.get_name(): tool.get_parameters_dict() for tool in tools}
    assert list(schemas) == ["search_memory", "remember", "forget", "list_preferences"]
    assert {name: schema.get("required", []) for name, schema in schemas.items()} == {
        "search_memory": ["query"],
        "remember": ["text"],
        "forget": ["id"],
        "list_preferences": [],
    }
    assert "$ref" not in json.dumps(schemas)
    assert "user is asked" in epic_tools(memory)[1].description
    assert "user is asked" not in epic_tools(memory, allowed=True)[1].description


def test_a_file_is_opened_by_its_name_and_preferences_are_listed(used: Used, path: Path) -> None:
    with EpicMemory.open(path, [CASINO]) as memory:
        (preference,) = memory.preferences
    listed = {"preferences": [{"id": preference.id, "text": CASINO}], "waiting": []}
    assert used(path, "list_preferences") == listed


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_an_agent_uses_them_and_survives_what_it_does_wrong(memory: EpicMemory, asynchronous: bool) -> None:
    calls = [
        called("search_memory", limit="two"),
        called("search_memory", query="Which hotel?", limit="2"),
        called("remember", text="I love jazz.", kind="preference"),
        called("forget", id="no such thing"),
        called("list_preferences", all=True),
    ]
    agent = create_agent(ScriptedChat(answers=[*calls, "Done."]), tools=epic_tools(memory))
    given: Any = {"messages": [("user", "I love jazz. Which hotel?")]}
    state = await agent.ainvoke(given) if asynchronous else agent.invoke(given)
    answers = [json.loads(message.text) for message in state["messages"] if isinstance(message, ToolMessage)]
    assert [next(iter(answer)) for answer in answers] == ["error", "results", "status", "error", "preferences"]
    assert state["messages"][-1].text == "Done."
    assert [proposal.text for proposal in memory.proposals] == ["I love jazz."]


async def test_an_agent_of_llamaindex_uses_them_and_survives_what_it_does_wrong(memory: EpicMemory) -> None:
    steps = [
        'Thought: I look it up.\nAction: search_memory\nAction Input: {"limit": "two"}',
        'Thought: I keep it.\nAction: remember\nAction Input: {"text": "We live in Porto."}',
        "Thought: I see.\nAction: list_preferences\nAction Input: {}",
        "Thought: I can answer.\nAnswer: Done.",
    ]
    llm = ScriptedLLM(answers=steps)
    agent = ReActAgent(llm=llm, tools=epic_llamaindex.epic_tools(memory), streaming=False)
    assert str(await agent.run("We live in Porto.")) == "Done."
    assert "Call search_memory again with query, limit." in llm.prompts[1]
    assert '"status": "proposed"' in llm.prompts[2] and CASINO in llm.prompts[3]
    assert [proposal.text for proposal in memory.proposals] == ["We live in Porto."]


# many users


@pytest.fixture
def memories(memory: EpicMemory) -> dict[str, EpicMemory]:
    return {"anna": memory, "ben": EpicMemory(["I love jazz."])}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", ["configurable", "mapping", "object"])
async def test_the_run_says_whose_memory_is_used(memories: dict[str, EpicMemory], way: str, asynchronous: bool) -> None:
    tools = epic_tools(memories.__getitem__, allowed=True)
    for user in ("ben", "anna", "ben"):
        model = ScriptedChat(
            answers=[
                called("list_preferences", namespace="anna"),
                called("remember", text=f"My name is {user}.", namespace="anna"),
                "Done.",
            ]
        )
        agent: Any = create_agent(model, tools=tools, context_schema=None if way == "configurable" else dict)
        where: dict[str, Any] = {"context": {"namespace": user}}
        if way == "configurable":
            where = {"config": {"configurable": {"epic_namespace": user}}}
        if way == "object":
            where = {"context": SimpleNamespace(namespace=user)}
        given = {"messages": [("user", "What do I like?")]}
        state = await agent.ainvoke(given, **where) if asynchronous else agent.invoke(given, **where)
        listed, told = (json.loads(each.text) for each in state["messages"] if isinstance(each, ToolMessage))
        assert [each["text"] for each in listed["preferences"]] == [CASINO if user == "anna" else "I love jazz."]
        assert told["status"] in ("remembered", "known")
    assert [fact.text for fact in memories["ben"].facts] == ["My name is ben."]
    assert {fact.text for fact in memories["anna"].facts} == {CODE, "My name is anna."}


def test_a_tool_that_is_called_by_itself_takes_the_user_from_its_config(memories: dict[str, EpicMemory]) -> None:
    listed = epic_tools(memories.__getitem__)[3]
    answer = json.loads(listed.invoke({}, {"configurable": {"epic_namespace": "ben"}}))
    assert [each["text"] for each in answer["preferences"]] == ["I love jazz."]
    search: Any = epic_tools(memories["anna"])[0]
    assert CODE in search.func(query="What is the door code?")  # outside of a run


def test_a_call_for_nobody_or_a_stranger_is_the_programs_mistake(memories: dict[str, EpicMemory]) -> None:
    search = epic_tools(memories.__getitem__)[0]
    with pytest.raises(InvalidInputError, match="whose turn"):
        search.invoke({"query": "hotel"})
    with pytest.raises(InvalidInputError, match="no memory for the namespace 'eve'"):
        search.invoke({"query": "hotel"}, {"configurable": {"epic_namespace": "eve"}})
    agent = create_agent(ScriptedChat(answers=[called("search_memory", query="hotel")]), tools=[search])
    with pytest.raises(InvalidInputError, match="whose turn"):
        agent.invoke({"messages": [("user", "Which hotel?")]})


def test_one_memory_is_never_used_for_another_user(memory: EpicMemory) -> None:
    search = epic_tools(memory)[0]
    asked = {"query": "What is the door code?"}
    with pytest.raises(InvalidInputError, match=r"of the namespace 'default'.* for 'ben'"):
        search.invoke(asked, {"configurable": {"epic_namespace": "ben"}})
    with pytest.raises(InvalidInputError, match="no 'epic_user'"):
        search.invoke(asked, {"configurable": {"epic_user": "ben"}})
    model = ScriptedChat(answers=[*2 * [called("search_memory", **asked)], "Done."])
    agent: Any = create_agent(model, tools=[search], context_schema=dict)
    with pytest.raises(InvalidInputError, match="for 'ben'"):
        agent.invoke({"messages": [("user", "?")]}, context={"namespace": "ben"})
    # What else a program has in its context is its own affair.
    state = agent.invoke({"messages": [("user", "?")]}, context={"namespace": "default", "k": "K", "filter": "F"})
    assert CODE in state["messages"][2].text
