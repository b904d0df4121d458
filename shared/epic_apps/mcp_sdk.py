"""The SDK of the Model Context Protocol, in both of its major versions: packages that use it need one or the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequest,
    ElicitResult,
    ServerRequest,
    ToolAnnotations,
)
from pydantic import ValidationError
from starlette.applications import Starlette

if TYPE_CHECKING or find_spec("mcp.server.mcpserver"):
    from mcp import MCPError as RefusedError
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ResourceError, ToolError
else:  # version 1
    from mcp import McpError as RefusedError
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp.exceptions import ResourceError, ToolError

from epic_memory import __version__
from epic_plugins.tools import wrong_arguments

__all__ = ["CALLER", "RefusedError", "ResourceError", "Server", "ToolError"]

_IS_FIRST = MCPServer.__name__ == "FastMCP"
_request_of: Any = ServerRequest  # a class in version 1


class Caller:
    """A client that has called a tool, and whose user may be asked a question (elicitation)."""

    def __init__(self, context: Any) -> None:
        self._session = context.session
        self._request: str | None = context.request_id

    @property
    def asks_its_user(self) -> bool:
        """True if the client puts questions to its user over this connection."""
        offered: bool = self._session.check_client_capability(ClientCapabilities(elicitation=ElicitationCapability()))
        return offered and getattr(self._session, "can_send_request", True)

    async def ask_user(self, message: str) -> str:
        """Return what the user does about a message: "accept", "decline", or "cancel" for no decision.

        Raises:
            RefusedError: if the client refuses, or cannot be asked over this connection.
        """
        params = {"message": message, "requestedSchema": {"type": "object", "properties": {}}}
        asked: Any = ElicitRequest.model_validate({"method": "elicitation/create", "params": params})
        answer: ElicitResult = await self._session.send_request(
            _request_of(asked) if _IS_FIRST else asked,
            ElicitResult,
            metadata=ServerMessageMetadata(related_request_id=self._request),
        )
        return answer.action


CALLER: ContextVar[Caller | None] = ContextVar("epic_apps_caller", default=None)
"""The client whose call is being served here."""


class Server(MCPServer[Any]):
    """A server whose tools explain wrong arguments, and their own errors, in our words."""

    def __init__(self, name: str, *, title: str, instructions: str) -> None:
        more: Any = {} if _IS_FIRST else {"title": title, "version": __version__}
        # Below this level, the SDK logs what clients send.
        super().__init__(name, instructions=instructions, log_level="WARNING", **more)
        if _IS_FIRST:
            below: Any = self
            below._mcp_server.version = __version__

    def add(self, tool: Callable[..., Any], *, reads: bool = False, destroys: bool = False) -> None:
        """Add a tool with what a client may tell its user about it."""
        hints = {"readOnlyHint": True} if reads else {"destructiveHint": destroys}
        self.add_tool(tool, annotations=ToolAnnotations.model_validate({**hints, "openWorldHint": False}))

    async def call_tool(self, name: str, arguments: dict[str, Any], *context: Any, **more: Any) -> Any:
        """Call a tool by its name.

        Raises:
            ToolError: with what is wrong, for a model to read.
        """
        token = CALLER.set(self._caller(context))
        try:
            return await super().call_tool(name, arguments, *context, **more)
        except ToolError as error:
            # The SDK wraps what a tool raises, and what pydantic says of its arguments.
            if isinstance(error.__cause__, ValidationError):
                tool: Any = next(tool for tool in await self.list_tools() if tool.name == name)
                schema = tool.inputSchema if _IS_FIRST else tool.input_schema
                raise ToolError(wrong_arguments(error.__cause__, name, schema["properties"])) from None
            if isinstance(error.__cause__, ToolError):
                raise error.__cause__ from None
            raise
        finally:
            CALLER.reset(token)

    def _caller(self, context: Sequence[Any]) -> Caller | None:
        """Return the client that calls; None for a program in this process."""
        first: Any = self
        given = first.get_context() if _IS_FIRST else next(iter(context), None)
        try:
            return None if given is None else Caller(given)
        except ValueError:
            return None

    def http(self, path: str, *, host: str, security: TransportSecuritySettings) -> Starlette:
        """Return the ASGI application of streamable HTTP."""
        if not _IS_FIRST:
            return self.streamable_http_app(streamable_http_path=path, host=host, transport_security=security)
        settings: Any = self.settings
        settings.streamable_http_path, settings.transport_security = path, security
        return self.streamable_http_app()
