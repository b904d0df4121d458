"""Conversion of LlamaIndex's metadata filters into conditions of the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from epic_memory import Filter
from epic_memory.errors import InvalidInputError

SOURCE = "epic_ref_doc_id"
"""The metadata key in which an item or a record stores the id of its node's source document."""
SOURCE_NAMES = ("doc_id", "document_id", "ref_doc_id")
"""The names that LlamaIndex's filters use for the id of a node's source document."""

_COMPARISONS: dict[FilterOperator, Callable[[str, Any], Filter]] = {
    FilterOperator.GT: Filter.gt,
    FilterOperator.GTE: Filter.ge,
    FilterOperator.LT: Filter.lt,
    FilterOperator.LTE: Filter.le,
}
_TEXTS: dict[FilterOperator, Callable[[str, str], Filter]] = {
    FilterOperator.TEXT_MATCH: Filter.contains,
    FilterOperator.TEXT_MATCH_INSENSITIVE: Filter.icontains,
}
_LISTS = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)


def filter_of(given: MetadataFilters | Filter | None) -> Filter | None:
    """Convert LlamaIndex's filters to a filter of the core; None if they restrict nothing.

    They work as in LlamaIndex's SimpleVectorStore: a node without the key, or with None as its value, matches `!=`,
    `nin` and `is_empty`, and nothing else; `NOT` matches if none of its filters does. Differences:
    - Values that cannot be compared (a number with a text) do not match; there is no TypeError.
    - Where the metadata has a list, `==` and `in` match if one of its elements does, `!=` and `nin` if none does,
      and a text match if one of its texts is the whole text.
    - Booleans are not greater or smaller than anything; 1 and 0 equal True and False, which a MetadataFilter cannot
      hold.
    - `in`, `nin`, `any` and `all` take lists, not texts.
    - Filters may be nested.
    The keys `doc_id`, `document_id` and `ref_doc_id` all mean the source document of a node, also in a filter of the
    core, which is otherwise unchanged.

    Raises:
        InvalidInputError: for a filter without a value, or with one that its operator cannot take; or for another type.
    """
    if not isinstance(given, (MetadataFilters, Filter)) and given is not None:
        raise InvalidInputError(
            f"filters must be MetadataFilters or an epic_memory.Filter, not {type(given).__name__}:"
            " MetadataFilters(filters=[MetadataFilter(key=..., value=...)])."
        )
    if not isinstance(given, MetadataFilters):
        return None if given is None else given.renamed(_key)
    return _joined(given) if given.filters else None


def _joined(given: MetadataFilters) -> Filter:
    if not given.filters:
        raise InvalidInputError("Among the filters, there are MetadataFilters without any filter: leave them out.")
    parts = tuple(_joined(part) if isinstance(part, MetadataFilters) else _test(part) for part in given.filters)
    if given.condition is FilterCondition.NOT:
        return ~(parts[0] if len(parts) == 1 else Filter("or", parts=parts))
    return (
        parts[0] if len(parts) == 1 else Filter("or" if given.condition is FilterCondition.OR else "and", parts=parts)
    )


def _key(key: str) -> str:
    return SOURCE if key in SOURCE_NAMES else key


def _test(given: MetadataFilter) -> Filter:
    value, op = given.value, given.operator
    key = _key(given.key)
    if op is FilterOperator.IS_EMPTY:
        return Filter.empty(key)
    if value is None:
        raise InvalidInputError(
            f"The filter {op.value!r} on {key!r} has no value. For nodes without one, use 'is_empty'."
        )
    if op in _LISTS:
        if not isinstance(value, list):
            raise InvalidInputError(f"The filter {op.value!r} on {key!r} takes a list, not {value!r}.")
        wanted = [one for each in value for one in _meant(each)]
        if op is FilterOperator.IN:
            return Filter.in_(key, wanted)
        if op is FilterOperator.NIN:
            return ~Filter.in_(key, wanted)
        parts = tuple(_contains(key, each) for each in value)
        if op is FilterOperator.ANY:
            return Filter("or", parts=parts) if parts else Filter.in_(key, ())
        return Filter("and", parts=(~Filter.eq(key, None), Filter.exists(key), *parts))
    if op in _TEXTS:
        if not isinstance(value, str):
            raise InvalidInputError(f"The filter {op.value!r} on {key!r} takes a text, not {value!r}.")
        return _TEXTS[op](key, value)
    if op in _COMPARISONS:
        return _COMPARISONS[op](key, value)
    if op is FilterOperator.CONTAINS:
        return _contains(key, value)
    equal = Filter.eq(key, value) if isinstance(value, list) else Filter.in_(key, _meant(value))
    return ~equal if op is FilterOperator.NE else equal


def _contains(key: str, value: Any) -> Filter:
    parts = tuple(Filter.contains(key, one) for one in _meant(value))
    return parts[0] if len(parts) == 1 else Filter("or", parts=parts)


def _meant(value: Any) -> tuple[Any, ...]:
    """Return a value, and the boolean that it has to match as well if it is 0 or 1."""
    return (value, bool(value)) if not isinstance(value, (str, list)) and value in (0, 1) else (value,)
