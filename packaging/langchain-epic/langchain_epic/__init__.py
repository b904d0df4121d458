"""EPIC for LangChain: what `epic_langchain` exports, under the name that integrations have."""

from __future__ import annotations

import epic_langchain
from epic_langchain import *  # noqa: F403

__all__ = epic_langchain.__all__


def __getattr__(name: str) -> object:
    # The names that need an extra are imported on first use.
    return getattr(epic_langchain, name)
