"""Failures of frameworks' models, translated into `LMError`s: every integration has exceptions of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from epic_memory.errors import EpicError, LMError, LMSetupError, LMUnavailableError

_MOST_SAID = 300
_MOST_CAUSES = 5

MOST_ENDED = 100
"""Most connections of ended event loops that a client is assumed to keep."""

_ENDED = "Event loop is closed"
_NO_SERVER = 0
_REFUSED = (400, 422, 501)
_FOR_NOW = (408, 409, 425, 429)
_FORM = re.compile(r"response_format|json_schema|grammar|tool_choice", re.I)

# Statuses for names of exceptions or of their base classes, if the exception carries none; the first match counts.
_NAMES = (
    (_NO_SERVER, r"ConnectTimeout\w*"),
    (408, r"\w*(?:Timeout|TimedOut|DeadlineExceeded)\w*"),
    (_NO_SERVER, r"ConnectError|\w*ConnectionError"),
    (429, r"\w*(?:RateLimit|TooManyRequests|ResourceExhausted|Throttl|Overloaded)\w*"),
    (503, r"TransportError|NetworkError|ModelAPIError|\w*(?:ServiceUnavailable|InternalServer)\w*"),
    (400, r"ModelInvalidRequestError|ContextOverflowError|BadRequest(?:Error)?|InvalidArgument"),
    (401, r"(?:Model)?(?:Authentication|PermissionDenied)(?:Error)?|Unauthenticated|Unauthorized\w*"),
    (404, r"(?:Model)?NotFound(?:Error)?"),
)


def explained(error: Exception, name: str) -> Exception:
    """Return the failure of the model `name` as an `LMError`, or the error itself if its meaning is unknown."""
    if isinstance(error, EpicError):
        return error
    for cause in _causes(error):
        found = _meaning(cause, name)
        if found is not None:
            return found
    return error


def refused(error: Exception) -> bool:
    """Tell whether a request was refused, so that a different one may succeed."""
    if isinstance(error, (NotImplementedError, TypeError)):
        return True
    # llama.cpp's server in Python answers with status 500 to an answer format that it does not know.
    return any(
        (status := _status(cause)) in _REFUSED or (status == 500 and _FORM.search(str(cause)))
        for cause in _causes(error)
    )


def of_ended_loop(error: Exception) -> bool:
    """Tell whether a connection failed because its event loop has ended; clients keep such connections until then."""
    return any(isinstance(cause, RuntimeError) and str(cause) == _ENDED for cause in _causes(error))


def too_slow(who: str, seconds: float) -> LMUnavailableError:
    """Return the error for a model or server, as a message names it, that took longer than it may."""
    return LMUnavailableError(
        f"{who} did not answer in time, within {seconds:g} s. Give it longer (timeout=, or --timeout on the command"
        " line), or take a smaller model.",
        timed_out=True,
    )


def of_status(who: str, status: int, told: str, *, unknown: str, wait: object = None) -> LMError:
    """Return the error that a server's status stands for.

    Args:
        who: The server, as a message names it.
        status: 300 or above.
        told: What the server says.
        unknown: The message for a model that it does not know.
        wait: Its header `Retry-After`.
    """
    what = f"({status}): {told}"
    if status < 400:
        return LMSetupError(f"{who} sends its callers elsewhere {what} Give its new address.")
    if status in (401, 403):
        return LMSetupError(f"{who} refuses this key or user {what} Give another api_key.")
    if status == 404:
        return LMSetupError(unknown)
    if status in _FOR_NOW or status >= 500:
        seconds = float(wait) if isinstance(wait, str) and wait.isdecimal() else None
        return LMUnavailableError(f"{who} failed {what}", timed_out=status == 408, retry_after=seconds)
    return LMError(f"{who} refused the request {what}")


def said(error: Exception) -> str:
    """Return an error's message, or the name of its type if it has none."""
    return str(error)[:_MOST_SAID] or type(error).__name__


def kind_of(value: object) -> str:
    """Return a description of a value's type, for messages: its content may be secret."""
    return f"the class {value.__name__}" if isinstance(value, type) else f"an object of type {type(value).__name__}"


def _meaning(error: Exception, name: str) -> LMError | None:
    status = _status(error)
    if status is None:
        return None
    if status == _NO_SERVER:
        return LMUnavailableError(
            f"No server answers for {name}. Start it, or make the model with its address. ({said(error)})"
        )
    unknown = (
        f"The server does not know the model of {name}. Check its name; with Ollama, pull it: ollama pull MODEL."
        f" ({said(error)})"
    )
    if status == 408:
        return LMUnavailableError(
            f"{name} did not answer in time. Give it longer (the model's own timeout), or take a smaller model."
            f" ({said(error)})",
            timed_out=True,
        )
    headers = getattr(getattr(error, "response", None), "headers", None)
    wait = headers.get("retry-after") if isinstance(headers, Mapping) else None
    return of_status(f"The server of {name}", status, said(error), unknown=unknown, wait=wait)


def _causes(error: Exception) -> Iterator[Exception]:
    """Yield an error and the errors that it was raised from."""
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if not isinstance(cause, Exception):
            return
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _status(error: Exception) -> int | None:
    """Return the HTTP status, from 400 to 599, that an error carries or that its name stands for, or None."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):  # the form of AWS's clients
        metadata = response.get("ResponseMetadata")
        carried = [metadata.get("HTTPStatusCode")] if isinstance(metadata, Mapping) else []
    else:
        carried = [getattr(error, "status_code", None), getattr(response, "status_code", None)]
    carried.append(getattr(error, "code", None))
    for value in carried:
        if isinstance(value, int) and 400 <= value < 600:
            return int(value)
    names = [kind.__name__ for kind in type(error).__mro__]
    return next((status for status, name in _NAMES if any(re.fullmatch(name, one) for one in names)), None)
