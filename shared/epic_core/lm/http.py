"""Helpers for models over HTTP: checks of limits, messages that can be sent, and settings of clients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from ipaddress import ip_address
from numbers import Real
from typing import TYPE_CHECKING, Any

from epic_core.errors import InvalidInputError
from epic_core.lm.base import Message

if TYPE_CHECKING:
    import ssl


_MOST_PARTS = 65536


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS context that httpx would make anew for each client, at a cost of some 50 ms."""
    import httpx

    return httpx.create_ssl_context()


def client_settings(*, timeout: float, concurrency: int, host: str) -> dict[str, Any]:
    """Return the settings with which clients are made.

    By default httpx allows at most 100 calls at once and sends requests to this machine through a proxy that the
    environment names, and Ollama's client follows redirects to another server.
    """
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=concurrency)
    return {
        "timeout": timeout,
        "limits": limits,
        "verify": tls_context(),
        "trust_env": not is_this_machine(host),
        "follow_redirects": False,
    }


def is_this_machine(host: str) -> bool:
    """Tell whether a host is a name or an address of this machine itself."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def sendable(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return messages as dicts, as both protocols have them; lone surrogates, which UTF-8 cannot hold, are replaced."""
    return [{"role": each.role, "content": each.content.encode("utf-8", "replace").decode()} for each in messages]


def most_parts(max_tokens: Any) -> int:
    """Return how many parts with text a streamed answer of `max_tokens` tokens can have, with room to spare."""
    return 2 * max_tokens + 256 if isinstance(max_tokens, int) and max_tokens > 0 else _MOST_PARTS


def count(given: Any) -> int:
    """Return a number of tokens as a server counts them, or 0 for a value that is not a possible count."""
    return int(given) if isinstance(given, (int, float)) and 0 < given < 2**53 else 0


def checked_limits(*, timeout: float, context: int | None) -> None:
    """Raise an error for invalid limits.

    Raises:
        InvalidInputError: for a timeout that is not positive and finite, or a context of less than 256 tokens.
    """
    if not isinstance(timeout, Real) or isinstance(timeout, bool) or not 0.0 < timeout < float("inf"):
        raise InvalidInputError(f"timeout must be a number of seconds above 0, not {timeout!r}.")
    if context is not None and (not isinstance(context, int) or isinstance(context, bool) or context < 256):
        raise InvalidInputError(f"context must be a whole number of tokens, at least 256, not {context!r}.")
