"""Pickles and copies of components: a pickle is made of a component's arguments, copies share what stays open."""

from __future__ import annotations

import copy
import pickle
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import Self

from epic_memory.errors import NotCopiedError
from epic_memory.lm.failures import said
from epic_memory.memory import EpicMemory

T = TypeVar("T")


class Copied:
    """Base of components that are pickled by their arguments, and whose deep copies share memories and models."""

    @abstractmethod
    def _arguments(self) -> Mapping[str, Any]:
        """Return the constructor's arguments; a memory's file in place of a memory that was opened by name."""

    def _shared(self) -> tuple[object, ...]:
        """Return the objects that a deep copy shares; raise a NotCopiedError if there can be no deep copy."""
        return ()

    def __reduce__(self) -> Any:
        return remade(type(self), self._arguments())

    def __copy__(self) -> Self:
        return made_of(self, vars(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return made_of(self, copy.deepcopy(vars(self), sharing(memo, *self._shared())))


class CopiedAdapter(Copied):
    """The same for adapters of a framework's model: a copy asks the same model."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(**self._arguments())


class CopiedModel(Copied):
    """The same for components that are models of pydantic."""

    __copy__ = BaseModel.__copy__

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        made: Self = BaseModel.__deepcopy__(cast(Any, self), sharing(memo, *self._shared()))
        return made

    def _fields(self) -> dict[str, Any]:
        """Return the fields that were given."""
        given: set[str] = self.model_fields_set  # type: ignore[attr-defined]
        return {name: getattr(self, name) for name in given}

    def _arguments(self) -> dict[str, Any]:
        return {name: value for name, value in self._fields().items() if name != "callback_manager"}


class OverMemory(CopiedModel, BaseModel):
    """Base of components that work by an open memory, which copies share; models of pydantic."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: EpicMemory = Field(exclude=True, repr=False)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex stores the component."""
        return cls.__name__

    def _shared(self) -> tuple[object, ...]:
        return (self.memory,)


def remade(kind: type, arguments: Mapping[str, Any]) -> tuple[Any, tuple[()]]:
    """Return what a pickle holds of a component: its class and its arguments.

    Raises:
        NotCopiedError: if an argument cannot be pickled.
    """
    for name, value in arguments.items():
        try:
            pickle.dumps(value)
        except Exception as error:
            raise NotCopiedError(
                f"The {name} of this {kind.__name__} cannot be sent to another process ({said(error)}). An open memory,"
                " store or model stays where it is; what is made with the name of a file can be pickled."
            ) from None
    return partial(kind, **arguments), ()


def made_of(component: T, attributes: Mapping[str, Any]) -> T:
    """Return a component of the same class that has these attributes."""
    made = object.__new__(type(component))
    vars(made).update(attributes)
    return made


def sharing(memo: dict[int, Any] | None, *objects: object) -> dict[int, Any]:
    """Return the memo of a deep copy that takes some objects as they are."""
    memo = {} if memo is None else memo
    memo.update((id(one), one) for one in objects)
    return memo


def lasting(given: T) -> T | Path:
    """Return the name of a file so that it holds in any folder; any other object as it is."""
    return Path(given).absolute() if isinstance(given, (str, Path)) else given


def checked_file(path: Path | None, component: object) -> Path:
    """Return the absolute path of a component's file; raise a NotCopiedError if it is over RAM."""
    if path is None:
        raise NotCopiedError(
            f"This {type(component).__name__} is over RAM, which can be neither pickled nor copied. Use the object"
            " itself; or a file, which copies share."
        )
    return path.absolute()
