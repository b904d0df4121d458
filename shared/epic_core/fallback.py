"""Where a query goes that matches no preference: the second tier, or whatever the user brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

from epic_core.coarse import checked_tau
from epic_core.errors import InvalidInputError
from epic_core.types import Hit, Item

FallbackCall: TypeAlias = Callable[[str, int], Iterable[Any]]


@dataclass(frozen=True, kw_only=True)
class SecondTier:
    """Keep items between a lower and the upper tau too, as text only, and search them as a fallback.

    They are not verified and have no instructions.

    Attributes:
        tau: The lower threshold, a cosine in [-1, 1]; below it an item is discarded.

    Raises:
        InvalidInputError: for a tau outside [-1, 1].
    """

    tau: float

    def __post_init__(self) -> None:
        checked_tau(self.tau, "The second tier's tau")


def checked_fallback(fallback: object) -> Any:
    """The fallback: None, a SecondTier, a callable `(query, k)`, or an object with `search(query, k)`.

    Raises:
        InvalidInputError: for anything else.
    """
    if fallback is None or isinstance(fallback, SecondTier) or callable(fallback):
        return fallback
    if callable(getattr(fallback, "search", None)):
        return fallback
    raise InvalidInputError(
        "A fallback must be a SecondTier, a callable (query, k) or have a method search(query, k);"
        f" {type(fallback).__name__} is none of these."
    )


def hits_of(found: object, k: int) -> list[Hit]:
    """What a fallback returned, as hits: Hits, Items, texts, or pairs of one of these and a score.

    Raises:
        InvalidInputError: if it returned anything else.
    """
    if not isinstance(found, Iterable) or isinstance(found, (str, bytes)):
        raise InvalidInputError(f"The fallback returned {type(found).__name__}, not a list of texts, Items or Hits.")
    hits = []
    for result in found:
        value, score = result if isinstance(result, tuple) and len(result) == 2 else (result, 0.0)
        if isinstance(value, Hit):
            hits.append(Hit(item=value.item, score=float(value.score), entries=value.entries, tier="fallback"))
        elif isinstance(value, (Item, str)) and isinstance(score, Real):
            hits.append(Hit(item=Item.of(value), score=float(score), tier="fallback"))
        else:
            raise InvalidInputError(f"The fallback returned a {type(value).__name__} among its results.")
        if len(hits) == k:
            break
    return hits
