"""Failures of models and their servers: the `LMError`s that they stand for, and what messages say of them."""

from __future__ import annotations

from epic_memory.errors import LMError, LMSetupError, LMUnavailableError

_MOST_SAID = 300

_FOR_NOW = (408, 409, 425, 429)


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
