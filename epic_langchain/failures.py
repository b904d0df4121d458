"""Exceptions that only LangChain's models raise."""

from __future__ import annotations

from langchain_core.exceptions import OutputParserException

from epic_core.lm import failures


def refused(error: Exception) -> bool:
    """Tell whether a request was refused or its answer unreadable, so that asking in another way may succeed."""
    return isinstance(error, OutputParserException) or failures.refused(error)
