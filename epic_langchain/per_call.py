"""Options that one call brings with it, so that one deployed chain serves many users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.runnables.utils import ConfigurableFieldSpec

_DESCRIBED = {
    "k": ("k", int, "How many documents."),
    "filter": ("Filter", Any, "Which documents, by their metadata."),
    "namespace": ("Namespace", str, "Whose memory."),
    "preferences": ("Preferences", list[str], "The user's preferences."),
    "mode": ("Mode", str, 'How queries are steered: "signed", "paper" or "off".'),
}


def per_call(config: RunnableConfig | None, kwargs: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Keyword arguments of a call, filled up from `config["configurable"]`, of which other keys are other people's."""
    configurable = ensure_config(config).get("configurable") or {}
    given = {name: configurable[name] for name in names if configurable.get(name) is not None}
    return {**given, **kwargs}


def specs(names: Sequence[str]) -> list[ConfigurableFieldSpec]:
    """What `configurable` may hold, for whoever serves a chain or draws a form for it."""
    return [
        ConfigurableFieldSpec(
            id=name,
            annotation=_DESCRIBED[name][1],
            name=_DESCRIBED[name][0],
            description=_DESCRIBED[name][2],
            default=None,
            is_shared=True,
        )
        for name in names
    ]
