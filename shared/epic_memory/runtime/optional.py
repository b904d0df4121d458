"""Parts of the distribution that the core offers, but does without: they are found by name when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from epic_memory.errors import MissingPackageError

PACKAGES = ("epic_graph", "epic_learn", "epic_plugins", "epic_rerank")
"""Packages that can add tables to a memory's file."""


def optional(module: str, name: str) -> Any:
    """Return what another package of the distribution defines; a missing one is a `MissingPackageError`."""
    package = module.partition(".")[0]
    try:
        import_module(package)  # whole, before a part: threads that begin with different parts wait for each other
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingPackageError(package) from None
