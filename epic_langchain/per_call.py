"""Options that one call brings with it, so that one deployed chain serves many users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig, ensure_config


def per_call(config: RunnableConfig | None, kwargs: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Keyword arguments of a call, filled up from `config["configurable"]`, of which other keys are other people's.

    Raises:
        TypeError: for arguments that are not known.
    """
    configurable = ensure_config(config).get("configurable") or {}
    given = {name: configurable[name] for name in names if configurable.get(name) is not None}
    return {**given, **{name: value for name, value in known_only(kwargs, names).items() if value is not None}}


def known_only(kwargs: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Keyword arguments of a call, all of which are known.

    Raises:
        TypeError: naming what can be given, if there are others.
    """
    unknown = [name for name in kwargs if name not in names]
    if unknown:
        raise TypeError(f"A call takes {', '.join(f'{name}=' for name in names)} here; not {unknown[0]!r}.")
    return dict(kwargs)
