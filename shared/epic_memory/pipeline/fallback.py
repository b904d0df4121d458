"""Fallbacks: where a query goes for which a memory holds nothing relevant."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

from epic_memory.errors import InvalidInputError
from epic_memory.runtime.effects import Effect, in_thread
from epic_memory.types import Hit, Item

FallbackCall: TypeAlias = Callable[[str, int], Iterable[Any]]


def checked_fallback(fallback: object) -> Any:
    """Check a fallback: None, a callable `(query, k)` or an object with `search`; else an `InvalidInputError`."""
    if isinstance(fallback, type):
        raise InvalidInputError(f"The fallback is the class {fallback.__name__}; give an object of it.")
    if fallback is None or callable(fallback) or _method(fallback) is not None:
        return fallback
    raise InvalidInputError(
        "A fallback must be a callable (query, k), or have a method search(query, k), invoke(query) or retrieve(query);"
        f" {type(fallback).__name__} is none of these."
    )


def _method(fallback: Any, prefix: str = "") -> FallbackCall | None:
    """Return the method to ask, `search` or one of a framework's retriever, as a callable `(query, k)`."""
    for name in ("search", "invoke", "retrieve"):
        method = getattr(fallback, prefix + name, None)
        if callable(method):
            return method if name == "search" else _without_k(method)
    return None


def _without_k(method: Callable[[str], Any]) -> FallbackCall:
    return lambda query, _: method(query)


@dataclass
class AskFallback(Effect):
    """The k results that a fallback finds best, as it returns them."""

    fallback: Any
    query: str
    k: int
    part: str = "fallback"

    def run(self, stopped: threading.Event | None) -> Any:
        """Ask it; an asynchronous one is an `InvalidInputError`."""
        answer = (_method(self.fallback) or self.fallback)(self.query, self.k)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise InvalidInputError("This fallback is asynchronous. Use asearch, or give a synchronous fallback.")
        return answer

    async def arun(self) -> Any:
        """Ask it: in its own asynchronous way, or in a worker thread."""
        own = _method(self.fallback, "a")
        if own is not None:
            answer = own(self.query, self.k)
        else:
            answer = await in_thread(_method(self.fallback) or self.fallback, self.query, self.k)
        return await answer if inspect.isawaitable(answer) else answer


def hits_of(found: object) -> list[Hit]:
    """Convert what a fallback returned to hits: Hits, Items, texts, or pairs of one of these and a score.

    Raises:
        InvalidInputError: if it returned anything else.
    """
    if not isinstance(found, Iterable) or isinstance(found, (str, bytes)):
        raise InvalidInputError(f"The fallback returned {type(found).__name__}, not a list of texts, Items or Hits.")
    hits = []
    for result in found:
        value, score = result if isinstance(result, tuple) and len(result) == 2 else _plain(result)
        if isinstance(value, Hit):
            hits.append(Hit(item=value.item, score=float(value.score), entries=value.entries, tier="fallback"))
        elif isinstance(value, (Item, str)) and isinstance(score, Real):
            hits.append(Hit(item=Item.of(value), score=float(score), tier="fallback"))
        else:
            raise InvalidInputError(f"The fallback returned a {type(value).__name__} among its results.")
    return hits


def merged(first: Iterable[Hit], then: Iterable[Hit], k: int) -> list[Hit]:
    """Merge the fallback's hits with the memory's own behind them; each item once."""
    by_id: dict[str, Hit] = {}
    for hit in (*first, *then):
        by_id.setdefault(hit.item.id, hit)
    return list(by_id.values())[:k]


def _plain(result: Any) -> tuple[Any, Any]:
    """Convert a framework's document or node to an Item with its score; return anything else unchanged."""
    if hasattr(result, "page_content"):
        return Item(id=getattr(result, "id", None) or "", text=result.page_content, metadata=result.metadata), 0.0
    if hasattr(result, "node"):
        node = result.node
        return Item(id=node.node_id, text=node.get_content(), metadata=node.metadata), result.score or 0.0
    return result, 0.0
