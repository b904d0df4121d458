"""The SDK of the Model Context Protocol, in both of its major versions: packages that use it need one or the other."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import ValidationError
from starlette.applications import Starlette

if TYPE_CHECKING or find_spec("mcp.server.mcpserver"):
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ResourceError, ToolError
else:  # version 1
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp.exceptions import ResourceError, ToolError

from epic_core import __version__
from epic_core.integrations.tools import wrong_arguments

__all__ = ["ResourceError", "Server", "ToolError"]

_IS_FIRST = MCPServer.__name__ == "FastMCP"


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

    def http(self, path: str, *, host: str, security: TransportSecuritySettings) -> Starlette:
        """Return the ASGI application of streamable HTTP."""
        if not _IS_FIRST:
            return self.streamable_http_app(streamable_http_path=path, host=host, transport_security=security)
        settings: Any = self.settings
        settings.streamable_http_path, settings.transport_security = path, security
        return self.streamable_http_app()
