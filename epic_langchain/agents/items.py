"""Items of a LangGraph store as records of a collection: their ids, values, filters, and times to live."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from numbers import Real
from typing import Any, TypeAlias, TypeGuard

from langgraph.store.base import Item, MatchCondition, SearchItem, SearchOp

from epic_memory.collection import Record
from epic_memory.errors import InvalidInputError

Namespace: TypeAlias = tuple[str, ...]

# A record of its own, so that a read that renews it embeds nothing. An item's id begins with "[".
_TTL = "ttl:"
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


def is_item(record_id: str) -> bool:
    """Tell whether a record's id is that of an item, and not of its lifetime."""
    return not record_id.startswith(_TTL)


def place_of(record_id: str) -> tuple[Namespace, str]:
    """Return the namespace and the key of an item; raise a ValueError if it is no item's id."""
    labels = json.loads(record_id)
    if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{record_id!r} is no item's id")
    return tuple(labels[:-1]), labels[-1]


def item_of(record: Record) -> Item:
    """Return the item of a record; raise a ValueError if no store wrote it so."""
    namespace, key = place_of(record.id)
    value = value_of(record)
    created, updated = (moment_of(record, name) for name in ("created_at", "updated_at"))
    return Item(value=value, key=key, namespace=namespace, created_at=created, updated_at=updated)


def value_of(record: Record) -> dict[str, Any]:
    """Return a new copy of the value of an item; raise a ValueError if there is none."""
    value = json.loads(record.text)
    if not isinstance(value, dict):
        raise ValueError(f"the item {record.id!r} has no value")
    return value


def moment_of(record: Record, name: str) -> datetime:
    """Return a time in a record's metadata; raise a ValueError if there is none."""
    text = record.metadata.get(name)
    moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"the item {record.id!r} does not say when it was written")
    return moment


def scored(item: Item, score: float | None = None) -> SearchItem:
    """Return an item as a search returns it."""
    return SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)


# times to live


@dataclass(frozen=True)
class Lifetime:
    """Minutes that an item lives after it was last used, and the time when its life is over."""

    minutes: float
    ends: datetime

    @classmethod
    def from_now(cls, minutes: float, now: datetime) -> Lifetime:
        """Return the lifetime of an item that is used now."""
        return cls(minutes, now + timedelta(minutes=minutes))


def lifetime_id(record_id: str) -> str:
    """Return the id of the record that holds an item's lifetime."""
    return _TTL + record_id


def item_id(record_id: str) -> str:
    """Return the id of the item whose lifetime a record holds."""
    return record_id.removeprefix(_TTL)


def lifetime_record(record_id: str, lifetime: Lifetime | None) -> Record:
    """Return the record of an item's lifetime; None stands for an item that lives until it is deleted."""
    told = {} if lifetime is None else {"minutes": lifetime.minutes, "ends": lifetime.ends.isoformat()}
    return Record(id=lifetime_id(record_id), text="", metadata=told, keys=())


def lifetime_of(record: Record) -> tuple[str, Lifetime] | None:
    """Return the id of an item and its lifetime, None if it has none; raise a ValueError if no store wrote it so."""
    if not record.metadata:
        return None
    minutes = record.metadata.get("minutes")
    if not is_lifetime(minutes):
        raise ValueError(f"{record.id!r} has no time to live")
    return item_id(record.id), Lifetime(minutes, moment_of(record, "ends"))


def is_lifetime(minutes: Any) -> TypeGuard[float]:
    """Tell whether a value is a time to live: more than 0 minutes, and at most some 5,700 years."""
    return isinstance(minutes, Real) and not isinstance(minutes, bool) and 0 < float(minutes) <= 3e9


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
