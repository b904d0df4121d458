"""Copies and pickles of components: what is open is shared by copies and has no pickle; the rest is made anew."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel
from typing_extensions import Self

from epic_memory.errors import NotCopiedError


class Open:
    """Base of components over a memory or file that is open: copies share it, and there is no pickle."""

    def __copy__(self) -> Self:
        if isinstance(self, BaseModel):
            return BaseModel.__copy__(self)
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        return made

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return copy.copy(self)

    def __reduce__(self) -> Any:
        raise NotCopiedError(
            f"This {type(self).__name__} is open, and cannot be sent to another process. Make one there, of the same"
            " file."
        )


class Adapter:
    """Base of adapters of a framework's model: made anew in another process, and copies ask the same model."""

    @abstractmethod
    def _arguments(self) -> Mapping[str, Any]:
        """Return the constructor's arguments."""

    def __reduce__(self) -> Any:
        return partial(type(self), **self._arguments()), ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(**self._arguments())
