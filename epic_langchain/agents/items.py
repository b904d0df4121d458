"""Items of a LangGraph store as records of a collection: their ids, values and filters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from langgraph.store.base import MatchCondition, SearchItem, SearchOp

from epic_memory.collection import Record
from epic_memory.errors import InvalidInputError

Namespace: TypeAlias = tuple[str, ...]

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, operand: bool(value == operand),
    "$ne": lambda value, operand: bool(value != operand),
    "$gt": lambda value, operand: float(value) > float(operand),
    "$gte": lambda value, operand: float(value) >= float(operand),
    "$lt": lambda value, operand: float(value) < float(operand),
    "$lte": lambda value, operand: float(value) <= float(operand),
}


def id_of(namespace: Sequence[str], key: str) -> str:
    """Return the id of an item's record."""
    return json.dumps([*namespace, key])


def place_of(record_id: str) -> tuple[Namespace, str]:
    """Return the namespace and the key of an item; raise a ValueError if it is no item's id."""
    labels = json.loads(record_id)
    if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{record_id!r} is no item's id")
    return tuple(labels[:-1]), labels[-1]


def item_of(record: Record, score: float | None = None) -> SearchItem:
    """Return a new copy of the item of a record; raise a ValueError if no store wrote it so."""
    namespace, key = place_of(record.id)
    value = json.loads(record.text)
    if not isinstance(value, dict):
        raise ValueError(f"the item {record.id!r} has no value")
    created, updated = (moment_of(record, name) for name in ("created_at", "updated_at"))
    return SearchItem(namespace, key, value, created, updated, score)


def moment_of(record: Record, name: str) -> datetime:
    """Return a time in a record's metadata; raise a ValueError if there is none."""
    text = record.metadata.get(name)
    moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"the item {record.id!r} does not say when it was written")
    return moment


# filters


def check_filter(condition: Any) -> None:
    """Refuse unknown operators in a filter, or in a part of one."""
    if isinstance(condition, (list, tuple)):
        for part in condition:
            check_filter(part)
    elif isinstance(condition, Mapping) and _has_operators(condition):
        for name in condition:
            if name not in _OPERATORS:
                raise InvalidInputError(f"A filter knows {', '.join(_OPERATORS)}; not {name!r}.")
    elif isinstance(condition, Mapping):
        check_filter(list(condition.values()))


def passes(value: Mapping[str, Any], op: SearchOp) -> bool:
    """Tell whether the value of an item satisfies the filter of a search."""
    return all(_satisfies(value.get(key), condition) for key, condition in (op.filter or {}).items())


def matches(namespace: Namespace, condition: MatchCondition) -> bool:
    """Tell whether a namespace begins or ends with a path, in which "*" matches any label."""
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise InvalidInputError(f"Namespaces are matched by 'prefix' or 'suffix', not {condition.match_type!r}.")
    start = 0 if condition.match_type == "prefix" else len(namespace) - len(path)
    return len(path) <= len(namespace) and all(
        wanted in ("*", label) for label, wanted in zip(namespace[start:], path, strict=False)
    )


def _has_operators(condition: Mapping[Any, Any]) -> bool:
    return any(str(name).startswith("$") for name in condition)


def _satisfies(value: Any, condition: Any) -> bool:
    """Tell whether a value satisfies a filter: by equality, part by part, or by operators."""
    if isinstance(condition, Mapping):
        if _has_operators(condition):
            return all(_holds(value, name, operand) for name, operand in condition.items())
        return isinstance(value, Mapping) and all(_satisfies(value.get(name), part) for name, part in condition.items())
    if isinstance(condition, (list, tuple)):
        return isinstance(value, list) and len(value) == len(condition) and all(map(_satisfies, value, condition))
    return bool(value == condition)


def _holds(value: Any, name: str, operand: Any) -> bool:
    try:
        return _OPERATORS[name](value, operand)
    except (TypeError, ValueError):
        return False
