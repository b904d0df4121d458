"""Serving of an MCP server over standard input and output, or over streamable HTTP with a token."""

from __future__ import annotations

import hmac

import anyio
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from epic_apps.local import HOST, listening_socket
from epic_apps.mcp_sdk import Server
from epic_memory.errors import InvalidInputError

PATH = "/mcp"
"""Path of the streamable HTTP endpoint."""


class _TokenRequired:
    """ASGI middleware that lets a request pass if it brings the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).get("authorization", "") if scope["type"] == "http" else None
        if given is None or hmac.compare_digest(given.encode(), self._expected):
            await self._app(scope, receive, send)
            return
        error = JSONResponse({"error": "This server needs its token: Authorization: Bearer TOKEN."}, status_code=401)
        error.headers["www-authenticate"] = "Bearer"
        await error(scope, receive, send)


def http_app(server: Server, *, port: int, token: str) -> Starlette:
    """Return the ASGI application of streamable HTTP: token, host and origin of every request are checked.

    Raises:
        InvalidInputError: for a token that can be guessed.
    """
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInputError("The token must have at least 16 printable ASCII characters and no space.")
    names = [f"{host}:{port}" for host in (HOST, "localhost")]
    security = TransportSecuritySettings(allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names])
    app = server.http(PATH, host=HOST, security=security)
    app.add_middleware(_TokenRequired, token=token)
    return app


def run_stdio(server: Server) -> None:
    """Serve over standard input and output, until the input ends.

    Raises:
        BrokenPipeError: if the client has gone before.
    """
    try:
        anyio.run(server.run_stdio_async)
    except Exception as error:
        # A task group wraps what ends one of its tasks.
        if all(isinstance(each, BrokenPipeError) for each in getattr(error, "exceptions", [error])):
            raise BrokenPipeError from None
        raise


def run_http(server: Server, *, port: int, token: str) -> None:
    """Serve streamable HTTP on 127.0.0.1, until it is interrupted.

    Raises:
        InvalidInputError: for a port that cannot be used, or a token that can be guessed.
    """
    app = http_app(server, port=port, token=token)
    with listening_socket(port) as listening:
        # No access log: nobody needs to know from it what was asked for, and when.
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([listening])
