"""What only LangChain's models raise."""

from __future__ import annotations

from langchain_core.exceptions import OutputParserException

from epic_core.lm import failures


def refused(error: Exception) -> bool:
    """Whether a request was refused, or no answer could be read, so that another way to ask may do."""
    return isinstance(error, OutputParserException) or failures.refused(error)
