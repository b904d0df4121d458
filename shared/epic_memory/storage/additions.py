"""Tables that other packages add to a memory's file, and what these are told of that leaves the memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import ClassVar

from epic_memory.errors import MissingPackageError
from epic_memory.runtime.optional import PACKAGES, optional
from epic_memory.storage.memory_schema import STATEMENTS
from epic_memory.storage.sqlite.database import Repository
from epic_memory.storage.sqlite.tables import Schema, Table, tables_in
from epic_memory.types import Item


class Addition(Repository):
    """Repository of tables of another package; by default it does nothing when something leaves the memory.

    A package lists its own under the name `ADDITIONS` in its module `tables`. All methods are called in a transaction.

    Attributes:
        statements: The statements that make the tables.
        part: The part of the file that their bytes count to, of `sizes.PARTS`.
        small: Whether they are read completely on opening, as in `Schema`.
        is_searched: Whether a search depends on them.
        is_listed: Whether a namespace with rows only here counts as one that holds something.
    """

    statements: ClassVar[str]
    part: ClassVar[str] = "rest"
    small: ClassVar[bool] = False
    is_searched: ClassVar[bool] = False
    is_listed: ClassVar[bool] = False

    @property
    def tables(self) -> dict[str, Table]:
        """The tables, by their names."""
        return tables_in(self.statements)

    def start(self) -> None:
        """Write what a new file begins with."""

    def mark(self, namespace: str, keys: Sequence[str], *, gone: bool | None) -> None:
        """Note that what the keys name ("item ID", "preference ID") is forgotten, or there again; or None: replaced."""

    def follow(self, namespace: str, old: str, new: str) -> None:
        """Note that a preference came in the place of another, by their ids."""

    def leave(self, items: Sequence[int]) -> None:
        """Remove what belongs to items that are removed, by their rows."""

    def forget(self, namespace: str, ids: Sequence[str], texts: Sequence[str]) -> None:
        """Remove what names items that are forgotten, or preferences, by the ids of the items or the texts of both."""

    def expire(self, namespace: str, items: Sequence[Item]) -> None:
        """Remove what names items whose time is over."""

    def texts_of(self, namespace: str, ids: Sequence[str]) -> dict[str, str]:
        """Return id to text, for those of the ids whose texts are kept here."""
        return {}

    def drop_oldest(self, namespace: str, missing: int) -> int:
        """Remove the oldest rows, about as many as take so many bytes, where these may go; return how many."""
        return 0

    def reencode(self, namespace: str) -> None:
        """Remove what depends on the encoder, because the memory gets another one."""


@cache
def _by_package() -> dict[str, tuple[type[Addition], ...] | None]:
    """Return the additions of each package; None if it is not there."""
    found: dict[str, tuple[type[Addition], ...] | None] = dict.fromkeys(PACKAGES)
    for package in PACKAGES:
        with suppress(MissingPackageError):
            found[package] = tuple(optional(f"{package}.tables", "ADDITIONS"))
    return found


def additions() -> tuple[type[Addition], ...]:
    """Return the additions of the packages that are there."""
    return tuple(chain.from_iterable(filter(None, _by_package().values())))


@cache
def memory_schema(
    noun: str = "memory", made_by: str = "epic build, or EpicMemory.open(path, preferences=[...])"
) -> Schema:
    """Return the schema of a memory's file with all additions; messages call it by its noun."""
    added = [(each, name) for each in additions() for name in tables_in(each.statements)]
    return Schema(
        noun=noun,
        made_by=made_by,
        application_id=0x45504943,  # "EPIC"
        statements=STATEMENTS + "".join(each.statements for each in additions()),
        small=("meta", "preferences", "ledger", "not_kept", *(name for each, name in added if each.small)),
        missing=tuple(package for package, added_by in _by_package().items() if added_by is None),
    )
