"""Losses: at which stage a text that one misses was lost on its way into a memory, or out of it."""

from __future__ import annotations


def why_not() -> None:
    """Say it."""
