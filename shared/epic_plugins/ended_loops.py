"""Connections of event loops that have ended, which the clients of frameworks keep until they are used."""

from __future__ import annotations

from collections.abc import Iterator

MOST_ENDED = 100
"""Most connections of ended event loops that a client is assumed to keep."""

_ENDED = "Event loop is closed"
_MOST_CAUSES = 5


def of_ended_loop(error: Exception) -> bool:
    """Tell whether a connection failed because its event loop has ended; clients keep such connections until then."""
    return any(isinstance(cause, RuntimeError) and str(cause) == _ENDED for cause in causes(error))


def causes(error: Exception) -> Iterator[Exception]:
    """Yield an error and the errors that it was raised from."""
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if not isinstance(cause, Exception):
            return
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
