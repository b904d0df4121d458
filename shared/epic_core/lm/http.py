"""What the models over HTTP share: limits that are checked, and one TLS context for all clients."""

from __future__ import annotations

import ssl
from functools import cache
from numbers import Real

from epic_core.errors import InvalidInputError


@cache
def tls_context() -> ssl.SSLContext:
    """The context httpx would make for each client anew, at a cost of some 50 ms."""
    import httpx

    return httpx.create_ssl_context()


def checked_limits(*, timeout: float, context: int | None) -> None:
    """Refuse limits that cannot be.

    Raises:
        InvalidInputError: for a timeout that is not positive, or a context of less than 256 tokens.
    """
    if not isinstance(timeout, Real) or isinstance(timeout, bool) or not 0.0 < timeout < float("inf"):
        raise InvalidInputError(f"timeout must be a number of seconds above 0, not {timeout!r}.")
    if context is not None and (not isinstance(context, int) or isinstance(context, bool) or context < 256):
        raise InvalidInputError(f"context must be a whole number of tokens, at least 256, not {context!r}.")
