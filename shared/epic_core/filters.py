"""The one filter type: conditions over an item's metadata, applied inside the search."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from epic_core.errors import InvalidInputError

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

    A missing key fails every comparison, `ne` and `nin` included: what is not there has no value to
    differ (`~Filter.eq(...)` also matches items without the key); only `empty` matches it. Values of
    types that do not compare (a number with a string) never match. Where the metadata's value is a list,
    `eq` and `in` match if one of its elements does.

    Attributes:
        op: One of eq, ne, gt, ge, lt, le, in, nin, contains, icontains, exists, empty, and, or, not.
        key: The metadata key, for the operators that test one.
        value: What it is compared with; for in and nin a tuple.
        parts: The joined filters, for and, or, not.

    Raises:
        InvalidInputError: for an operator or a shape that does not exist.
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
            if (
                not parts
                or not all(isinstance(part, Filter) for part in parts)
                or (self.op == "not" and len(parts) > 1)
            ):
                raise InvalidInputError(
                    f"The filter {self.op!r} needs {'one filter' if self.op == 'not' else 'filters'}."
                )
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
        """The value equals."""
        return cls("eq", key, value)

    @classmethod
    def ne(cls, key: str, value: Any) -> Filter:
        """The key is there and its value differs."""
        return cls("ne", key, value)

    @classmethod
    def gt(cls, key: str, value: Any) -> Filter:
        """The value is greater."""
        return cls("gt", key, value)

    @classmethod
    def ge(cls, key: str, value: Any) -> Filter:
        """The value is greater or equal."""
        return cls("ge", key, value)

    @classmethod
    def lt(cls, key: str, value: Any) -> Filter:
        """The value is less."""
        return cls("lt", key, value)

    @classmethod
    def le(cls, key: str, value: Any) -> Filter:
        """The value is less or equal."""
        return cls("le", key, value)

    @classmethod
    def between(cls, key: str, low: Any, high: Any) -> Filter:
        """low <= value <= high."""
        return cls.ge(key, low) & cls.le(key, high)

    @classmethod
    def in_(cls, key: str, values: Any) -> Filter:
        """The value is one of several."""
        return cls("in", key, values)

    @classmethod
    def not_in(cls, key: str, values: Any) -> Filter:
        """The key is there and its value is none of several."""
        return cls("nin", key, values)

    @classmethod
    def contains(cls, key: str, value: Any) -> Filter:
        """The value is a list with this element, or a text with this part."""
        return cls("contains", key, value)

    @classmethod
    def icontains(cls, key: str, text: str) -> Filter:
        """As `contains`, of a text, whether its letters are small or capital."""
        return cls("icontains", key, text)

    @classmethod
    def exists(cls, key: str) -> Filter:
        """The key is there."""
        return cls("exists", key)

    @classmethod
    def empty(cls, key: str) -> Filter:
        """The key is not there, or its value is None, an empty text or an empty list."""
        return cls("empty", key)

    def __and__(self, other: Filter) -> Filter:
        return Filter("and", parts=(self, other))

    def __or__(self, other: Filter) -> Filter:
        return Filter("or", parts=(self, other))

    def __invert__(self) -> Filter:
        return Filter("not", parts=(self,))

    def renamed(self, name: Callable[[str], str]) -> Filter:
        """This condition with each key under another name."""
        if self.parts:
            return Filter(self.op, parts=tuple(part.renamed(name) for part in self.parts))
        return Filter(self.op, name(self.key), self.value)

    def identity(self) -> Hashable:
        """Tells this condition from others where what it lets through is remembered; None where nothing can.

        Not the filter itself: for a dictionary, True and 1 are one key.
        """
        parts = tuple(part.identity() for part in self.parts)
        made = (self.op, self.key, _identity(self.value), parts)
        try:
            hash(made)
        except TypeError:
            return None
        return None if None in parts else made

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Whether metadata satisfies the condition."""
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
    """A value with its type, and those within it with theirs."""
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
