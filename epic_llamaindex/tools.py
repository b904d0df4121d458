"""Tools for an agent of LlamaIndex, with which its model searches and changes a memory."""

from __future__ import annotations

from pathlib import Path

from llama_index.core.tools import FunctionTool, ToolMetadata

from epic_llamaindex.models import memory_of
from epic_memory import EpicMemory
from epic_plugins.tools import memory_tools


def epic_tools(memory: EpicMemory | str | Path, *, allowed: bool = False) -> list[FunctionTool]:
    """Make the tools search_memory, remember, forget and list_preferences for an agent.

        agent = FunctionAgent(tools=epic_tools(memory), llm=llm)

    Answers are JSON. An error is an answer too, which says what to do: no tool ends the agent's run.

    Args:
        memory: The user's memory, or the name of its file, which has to exist.
        allowed: Whether the model may change the memory by itself. If not, a change of preferences and facts is an open
            proposal (`memory.proposals`), whose quote is what the model wrote and whose source is "agent"; and
            nothing else can be forgotten.
    """
    return [
        FunctionTool(
            tool.__call__,
            ToolMetadata(name=tool.name, description=tool.description, fn_schema=tool.arguments),
        )
        for tool in memory_tools(memory_of(memory), allowed=allowed)
    ]
