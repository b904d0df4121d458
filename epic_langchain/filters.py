"""Conversions of LangChain's filters into conditions of the core."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

from langchain_core.documents import Document

from epic_langchain.documents import document_of_record
from epic_memory import Filter
from epic_memory.collection import Condition, Record
from epic_memory.errors import InvalidInputError

MetadataFilter: TypeAlias = Filter | Mapping[str, Any]
DocumentFilter: TypeAlias = MetadataFilter | Callable[[Document], bool]

_TESTS: dict[str, Callable[[str, Any], Filter]] = {
    "$eq": Filter.eq,
    "$ne": Filter.ne,
    "$gt": Filter.gt,
    "$gte": Filter.ge,
    "$lt": Filter.lt,
    "$lte": Filter.le,
    "$in": Filter.in_,
    "$nin": Filter.not_in,
}
_KNOWN = ", ".join((*_TESTS, "$between", "$exists", "$and", "$or", "$not"))


def filter_of(given: MetadataFilter | None) -> Filter | None:
    """Return a filter over metadata, given as a `Filter` or a mapping: `{"year": {"$gte": 2020}, "lang": "en"}`.

    All keys of a mapping have to hold. A key that a document's metadata lacks fails every test except
    `{"$exists": False}` and a test that `$not` negates. An empty mapping is no filter.

    Raises:
        InvalidInputError: for unknown operators, or another type.
    """
    if given is None or isinstance(given, Filter):
        return given
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"A filter is a mapping, or an epic_memory.Filter; not {type(given).__name__}.")
    if not given:
        return None
    return _joined("and", [_clause(key, value) for key, value in given.items()])


def condition_of(given: DocumentFilter | None) -> Condition | None:
    """Return a condition: a filter as for `filter_of`, or a function of a Document."""
    if given is None or isinstance(given, (Filter, Mapping)):
        return filter_of(given)
    if not callable(given):
        raise InvalidInputError(
            f"A filter is a mapping, an epic_memory.Filter, or a function of a Document; not {type(given).__name__}."
        )
    if any(map(iscoroutinefunction, (given, type(given).__call__))):
        raise InvalidInputError("A filter that is a function cannot be an asynchronous one.")
    test = given

    def condition(record: Record) -> bool:
        return bool(test(document_of_record(record)))

    return condition


def _clause(key: object, value: Any) -> Filter:
    if not isinstance(key, str):
        raise InvalidInputError(f"A filter names metadata by strings, not by {key!r}.")
    if key in ("$and", "$or"):
        parts = [filter_of(part) for part in value] if isinstance(value, (list, tuple)) else []
        made = [part for part in parts if part is not None]
        if not made or len(made) != len(parts):
            raise InvalidInputError(f"{key} takes a list of filters, none of them empty; not {value!r}.")
        return _joined(key[1:], made)
    if key == "$not":
        inner = filter_of(value)
        if inner is None:
            raise InvalidInputError("$not takes a filter that is not empty.")
        return ~inner
    if key.startswith("$"):
        raise InvalidInputError(f"Filters know {_KNOWN}; not {key!r}.")
    if not isinstance(value, Mapping):
        return Filter.eq(key, value)
    if not value:
        raise InvalidInputError(f"The filter on {key!r} is empty: write a value, or {{'$exists': True}}.")
    return _joined("and", [_test(key, name, operand) for name, operand in value.items()])


def _joined(op: str, parts: list[Filter]) -> Filter:
    # The parts are siblings: nested in each other, a thousand of them would be too deep.
    return parts[0] if len(parts) == 1 else Filter(op, parts=tuple(parts))


def _test(key: str, name: object, operand: Any) -> Filter:
    if name == "$exists":
        if not isinstance(operand, bool):
            raise InvalidInputError(f"$exists takes True or False, not {operand!r}.")
        return Filter.exists(key) if operand else ~Filter.exists(key)
    if name == "$not":
        return ~_clause(key, operand)
    if name == "$between":
        if not isinstance(operand, (list, tuple)) or len(operand) != 2:
            raise InvalidInputError(f"$between takes two values, not {operand!r}.")
        return Filter.between(key, *operand)
    if name not in _TESTS:
        raise InvalidInputError(f"Filters know {_KNOWN}; not {name!r}.")
    return _TESTS[str(name)](key, operand)
