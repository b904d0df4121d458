"""Modules that are imported when they are first used: of other packages, which may be missing, and of one's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
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


def imported_later(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` of a package that imports a name when it is first used, and its `__dir__`.

    Args:
        package: The name of the package, which lists its names in `__all__`.
        modules: The module of the package that defines it, by each name.
    """

    def attribute(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return attribute, lambda: sorted(sys.modules[package].__all__)
