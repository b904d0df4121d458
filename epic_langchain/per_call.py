"""Options given with one call, so that one deployed chain can serve many users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig, ensure_config


def per_call(config: RunnableConfig | None, kwargs: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the options of a call: its keyword arguments, then `config["configurable"]`, whose other keys are ignored.

    An option that is None counts as not given.

    Raises:
        TypeError: for unknown keyword arguments.
    """
    configurable = ensure_config(config).get("configurable") or {}
    given = {name: configurable[name] for name in names if configurable.get(name) is not None}
    return {**given, **{name: value for name, value in known_only(kwargs, names).items() if value is not None}}


def known_only(kwargs: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Check that all keyword arguments of a call are known, and return a copy.

    Raises:
        TypeError: for unknown ones, naming the options that can be given.
    """
    unknown = [name for name in kwargs if name not in names]
    if unknown:
        raise TypeError(f"A call takes {', '.join(f'{name}=' for name in names)} here; not {unknown[0]!r}.")
    return dict(kwargs)
