"""EPIC for agents: a middleware and tools for `create_agent`, and a store for LangGraph (extra `agents`)."""

from epic_memory.errors import MissingExtraError

try:
    import langchain  # noqa: F401
    import langgraph.graph  # noqa: F401
except ImportError as error:
    raise MissingExtraError("langchain", "agents") from error

from epic_langchain.agents.middleware import EpicMemoryMiddleware
from epic_langchain.agents.store import EpicStore
from epic_langchain.agents.tools import epic_tools

__all__ = ["EpicMemoryMiddleware", "EpicStore", "epic_tools"]
