"""Tools for an agent of LangChain, with which its model searches and changes a memory."""

from __future__ import annotations

from pathlib import Path

from langchain_core.tools import BaseTool, StructuredTool

from epic_core import EpicMemory
from epic_core.integrations.tools import memory_tools
from epic_langchain.models import memory_of


def epic_tools(memory: EpicMemory | str | Path, *, allowed: bool = False) -> list[BaseTool]:
    """Make the tools search_memory, remember, forget and list_preferences for an agent.

        agent = create_agent(model, tools=epic_tools(memory))

    Answers are JSON. An error is an answer too, which says what to do: no tool ends the agent's run.

    Args:
        memory: The user's memory, or the name of its file, which has to exist.
        allowed: Whether the model may change the memory by itself. If not, a change of preferences and facts is an open
            proposal (`memory.proposals()`), whose quote is what the model wrote and whose source is "agent"; and
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
        for tool in memory_tools(memory_of(memory), allowed=allowed)
    ]
