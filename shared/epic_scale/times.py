"""Times that a caller gives: a number of seconds, or text like "5 min"."""

from __future__ import annotations

import math
import re

from epic_memory.errors import InvalidInputError

_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


def seconds_of(time: str | float, name: str) -> float:
    """Return a time in seconds; `name` is the argument's name, for the error.

    Raises:
        InvalidInputError: for anything but a number of seconds, not negative, or text like "300 ms", "5 min", "1 h".
    """
    seconds = math.nan
    if isinstance(time, str):
        match = re.fullmatch(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})\s*", time)
        seconds = float(match[1]) * _UNITS[match[2]] if match else math.nan
    elif isinstance(time, (int, float)) and not isinstance(time, bool):
        seconds = float(time)
    if not 0.0 <= seconds < math.inf:
        raise InvalidInputError(f'{name} must be a number of seconds or text like "5 min" or "300 ms", not {time!r}.')
    return seconds
