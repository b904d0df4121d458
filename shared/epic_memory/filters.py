"""Filters: conditions over an item's metadata, applied inside the search."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from epic_memory.errors import InvalidInputError

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
_OPERATORS = ("eq", "ne", *_COMPARE, "in", "nin", "contains", "icontains", "exists", "empty", "and", "or", "not")


@dataclass(frozen=True)
class Filter:
    """A condition over metadata; build it with the class methods and join it with `&`, `|` and `~`.

        Filter.eq("lang", "en") & (Filter.ge("year", 2020) | ~Filter.exists("year"))

    A missing key fails every comparison, also `ne` and `nin`, because there is no value to compare; only `empty`
    matches it. `~Filter.eq(...)` therefore also matches items without the key. Values whose types cannot be compared (a
    number and a string) never match. If the metadata's value is a list, `eq` and `in` match if one of its elements
    does.

    Attributes:
        op: One of eq, ne, gt, ge, lt, le, in, nin, contains, icontains, exists, empty, and, or, not.
        key: The metadata key, for the operators that test one.
        value: The value to compare with; a tuple for `in` and `nin`.
        parts: The joined filters, for `and`, `or` and `not`.

    Raises:
        InvalidInputError: for an unknown operator, or a key, value or parts that do not fit the operator.
    """

    op: str
    key: str = ""
    value: Any = None
    parts: tuple[Filter, ...] = ()

    def __post_init__(self) -> None:
        if self.op not in _OPERATORS:
            raise InvalidInputError(f"A filter knows {', '.join(_OPERATORS)}; not {self.op!r}.")
        if self.op in ("and", "or", "not"):
            parts = self.parts if isinstance(self.parts, tuple) else ()
            whole = bool(parts) and all(isinstance(part, Filter) for part in parts)
            if not whole or (self.op == "not" and len(parts) > 1):
                wanted = "one filter" if self.op == "not" else "filters"
                raise InvalidInputError(f"The filter {self.op!r} needs {wanted}.")
        elif not isinstance(self.key, str) or not self.key:
            raise InvalidInputError(f"The filter {self.op!r} needs the name of a metadata key.")
        if self.op in ("in", "nin"):
            if isinstance(self.value, (str, bytes)) or not isinstance(self.value, Iterable):
                raise InvalidInputError(f"The filter {self.op!r} takes several values, not {self.value!r}.")
            object.__setattr__(self, "value", tuple(self.value))
        if self.op == "icontains" and not isinstance(self.value, str):
            raise InvalidInputError(f"The filter 'icontains' takes a text, not {self.value!r}.")

    @classmethod
    def eq(cls, key: str, value: Any) -> Filter:
        """Return a filter for values equal to `value`."""
        return cls("eq", key, value)

    @classmethod
    def ne(cls, key: str, value: Any) -> Filter:
        """Return a filter for items that have the key with a value other than `value`."""
        return cls("ne", key, value)

    @classmethod
    def gt(cls, key: str, value: Any) -> Filter:
        """Return a filter for values greater than `value`."""
        return cls("gt", key, value)

    @classmethod
    def ge(cls, key: str, value: Any) -> Filter:
        """Return a filter for values greater than or equal to `value`."""
        return cls("ge", key, value)

    @classmethod
    def lt(cls, key: str, value: Any) -> Filter:
        """Return a filter for values less than `value`."""
        return cls("lt", key, value)

    @classmethod
    def le(cls, key: str, value: Any) -> Filter:
        """Return a filter for values less than or equal to `value`."""
        return cls("le", key, value)

    @classmethod
    def between(cls, key: str, low: Any, high: Any) -> Filter:
        """Return a filter for `low <= value <= high`."""
        return cls.ge(key, low) & cls.le(key, high)

    @classmethod
    def in_(cls, key: str, values: Any) -> Filter:
        """Return a filter for values that equal one of `values`."""
        return cls("in", key, values)

    @classmethod
    def not_in(cls, key: str, values: Any) -> Filter:
        """Return a filter for items that have the key with a value that equals none of `values`."""
        return cls("nin", key, values)

    @classmethod
    def contains(cls, key: str, value: Any) -> Filter:
        """Return a filter for lists with the element `value`, and for texts with the substring `value`."""
        return cls("contains", key, value)

    @classmethod
    def icontains(cls, key: str, text: str) -> Filter:
        """Return a filter like `contains` that ignores upper and lower case."""
        return cls("icontains", key, text)

    @classmethod
    def exists(cls, key: str) -> Filter:
        """Return a filter for items that have the key."""
        return cls("exists", key)

    @classmethod
    def empty(cls, key: str) -> Filter:
        """Return a filter for items without the key, or whose value is None, an empty text or an empty list."""
        return cls("empty", key)

    def __and__(self, other: Filter) -> Filter:
        return Filter("and", parts=(self, other))

    def __or__(self, other: Filter) -> Filter:
        return Filter("or", parts=(self, other))

    def __bool__(self) -> bool:
        raise InvalidInputError(
            "A filter is neither true nor false: join filters with &, | and ~, not with and, or, not."
        )

    def __invert__(self) -> Filter:
        return Filter("not", parts=(self,))

    def renamed(self, name: Callable[[str], str]) -> Filter:
        """Return this condition with each key replaced by `name(key)`."""
        if self.parts:
            return Filter(self.op, parts=tuple(part.renamed(name) for part in self.parts))
        return Filter(self.op, name(self.key), self.value)

    def identity(self) -> Hashable:
        """Return a hashable key under which this filter's results can be cached, or None if its value cannot be hashed.

        The filter itself will not do as a key: it would equal one with 1 in place of True.
        """
        parts = tuple(part.identity() for part in self.parts)
        made = (self.op, self.key, _identity(self.value), parts)
        try:
            hash(made)
        except TypeError:
            return None
        return None if None in parts else made

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Tell whether the metadata satisfies the condition."""
        if self.op == "and":
            return all(part.matches(metadata) for part in self.parts)
        if self.op == "or":
            return any(part.matches(metadata) for part in self.parts)
        if self.op == "not":
            return not self.parts[0].matches(metadata)
        if self.op == "empty":
            value = metadata.get(self.key)
            return value is None or (isinstance(value, (str, list, tuple)) and not value)
        if self.key not in metadata:
            return False
        value = metadata[self.key]
        if self.op == "exists":
            return True
        if self.op in ("eq", "ne"):
            return _equal(value, self.value) is (self.op == "eq")
        if self.op in ("in", "nin"):
            return any(_equal(value, wanted) for wanted in self.value) is (self.op == "in")
        if self.op in ("contains", "icontains"):
            return _contains(value, self.value, folded=self.op == "icontains")
        return _compares(self.op, value, self.value)


def _identity(value: Any) -> Any:
    """Return a value with its type, and the elements of a list or tuple with theirs."""
    if isinstance(value, (list, tuple)):
        return type(value), tuple(_identity(one) for one in value)
    return type(value), value


def _same(a: Any, b: Any) -> bool:
    # True == 1 in Python, but not in a user's metadata.
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _equal(value: Any, wanted: Any) -> bool:
    if isinstance(value, (list, tuple)) and not isinstance(wanted, (list, tuple)):
        return any(_same(element, wanted) for element in value)
    return _same(value, wanted)


def _contains(value: Any, part: Any, *, folded: bool) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_same(_folded(element), _folded(part)) if folded else _same(element, part) for element in value)
    if not isinstance(value, str) or not isinstance(part, str):
        return False
    return part.casefold() in value.casefold() if folded else part in value


def _folded(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def _compares(op: str, value: Any, bound: Any) -> bool:
    if isinstance(value, bool) or isinstance(bound, bool):
        return False
    try:
        return bool(_COMPARE[op](value, bound))
    except TypeError:
        return False


def checked_filter(filter: Filter | None) -> Filter | None:
    """Check a filter.

    Raises:
        InvalidInputError: for anything else.
    """
    if filter is not None and not isinstance(filter, Filter):
        kind = type(filter).__name__
        raise InvalidInputError(
            f'filter must be an epic_memory.Filter, not {kind}. Write one such as Filter.ge("stars", 4).'
        )
    return filter
