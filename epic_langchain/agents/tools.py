"""Tools for an agent of LangChain, with which its model searches and changes a memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.runtime import get_runtime

from epic_langchain.agents.options import MemoryOf, called_namespace, chosen_memory
from epic_langchain.models import memory_of
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError
from epic_plugins.tools import memory_tools


def epic_tools(memory: EpicMemory | str | Path | MemoryOf, *, allowed: bool = False) -> list[BaseTool]:
    """Make the tools search_memory, remember, forget and list_preferences for an agent.

        agent = create_agent(model, tools=epic_tools(memory))

    Answers are JSON. An error is an answer too, which says what to do: no tool ends the agent's run.

    Args:
        memory: The user's memory, or the name of its file, which has to exist; or, to serve many users, a function from
            a namespace to the user's memory, such as a dictionary's `__getitem__`, which is called for each call of a
            tool, from several threads. The namespace is read from the runtime context (`context={"namespace": ...}`) or
            else from `config={"configurable": {"epic_namespace": ...}}`, never from what the model writes; a run
            without one, or with one that has no memory, ends with `InvalidInputError`; so does a run over one memory
            for another namespace than its own.
        allowed: Whether the model may change the memory by itself. If not, a change of preferences and facts is an open
            proposal (`memory.proposals`), whose quote is what the model wrote and whose source is "agent"; and
            nothing else can be forgotten.
    """
    return [
        StructuredTool.from_function(
            tool.__call__,
            name=tool.name,
            description=tool.description,
            args_schema=tool.arguments,
            handle_validation_error=tool.explain,
        )
        for tool in memory_tools(
            partial(_memory_of_call, memory if callable(memory) else memory_of(memory)), allowed=allowed
        )
    ]


def _memory_of_call(memory: EpicMemory | MemoryOf) -> EpicMemory:
    """Return the memory of the user for whom the running call of a tool is."""
    try:
        # There is none where a tool is called outside a graph.
        runtime = get_runtime()
    except RuntimeError:  # not in a run at all
        runtime = None
    namespace = called_namespace(getattr(runtime, "context", None))
    if not isinstance(memory, EpicMemory):
        return chosen_memory(memory, namespace)
    if namespace not in (None, memory.namespace):
        raise InvalidInputError(
            f"These tools are over a memory of the namespace {memory.namespace!r}, and this run is for {namespace!r}."
            " Give epic_tools a function from a namespace to a memory."
        )
    return memory
