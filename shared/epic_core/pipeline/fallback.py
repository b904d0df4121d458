"""Fallbacks: where a query goes for which a memory holds nothing relevant."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

from epic_core.errors import InvalidInputError
from epic_core.runtime.effects import Effect
from epic_core.runtime.threads import in_thread
from epic_core.types import Hit, Item

FallbackCall: TypeAlias = Callable[[str, int], Iterable[Any]]


def checked_fallback(fallback: object) -> Any:
    """Check a fallback: None, a callable `(query, k)`, or an object with `search(query, k)`.

    Raises:
        InvalidInputError: for anything else.
    """
    if fallback is None or isinstance(fallback, type) or _method(fallback, False) is not None:
        if isinstance(fallback, type):
            raise InvalidInputError(f"The fallback is the class {fallback.__name__}; give an object of it.")
        return fallback
    raise InvalidInputError(
        "A fallback must be a callable (query, k), or have a method search(query, k), invoke(query) or retrieve(query);"
        f" {type(fallback).__name__} is none of these."
    )


def _method(fallback: Any, asynchronous: bool) -> tuple[Callable[..., Any], bool] | None:
    """Return the callable to ask, and whether it takes k: `search`, a framework's retriever, or the object itself."""
    prefix = "a" if asynchronous else ""
    for name, takes_k in (("search", True), ("invoke", False), ("retrieve", False)):
        method = getattr(fallback, prefix + name, None)
        if callable(method):
            return method, takes_k
    if asynchronous:
        return None
    return (fallback, True) if callable(fallback) else None


def ask(fallback: Any, query: str, k: int) -> Any:
    """Ask a fallback, and return its answer or an awaitable of it."""
    call, takes_k = _method(fallback, False) or (fallback, True)
    return call(query, k) if takes_k else call(query)


def asynchronous_call(fallback: Any, query: str, k: int) -> Any:
    """Return an awaitable of the fallback's answer if it has an asynchronous method, else None."""
    method = _method(fallback, True)
    if method is not None:
        call, takes_k = method
        return call(query, k) if takes_k else call(query)
    plain = _method(fallback, False)
    if plain is not None and any(map(inspect.iscoroutinefunction, (plain[0], type(plain[0]).__call__))):
        return ask(fallback, query, k)
    return None


@dataclass
class AskFallback(Effect):
    """The k results that a fallback finds best, as it returns them."""

    fallback: Any
    query: str
    k: int
    part: str = "fallback"

    def run(self, stopped: threading.Event | None) -> Any:
        """Ask it.

        Raises:
            InvalidInputError: if it is asynchronous.
        """
        answer = ask(self.fallback, self.query, self.k)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise InvalidInputError("This fallback is asynchronous. Use asearch, or give a synchronous fallback.")
        return answer

    async def arun(self) -> Any:
        """Ask it: in its own asynchronous way, or in a worker thread."""
        call = asynchronous_call(self.fallback, self.query, self.k)
        if call is not None:
            return await call
        answer = await in_thread(ask, self.fallback, self.query, self.k)
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


def _plain(result: Any) -> tuple[Any, Any]:
    """Convert a framework's document or node to an Item with its score; return anything else unchanged."""
    if hasattr(result, "page_content"):
        return Item(id=getattr(result, "id", None) or "", text=result.page_content, metadata=result.metadata), 0.0
    if hasattr(result, "node"):
        node = result.node
        return Item(id=node.node_id, text=node.get_content(), metadata=node.metadata), result.score or 0.0
    return result, 0.0
