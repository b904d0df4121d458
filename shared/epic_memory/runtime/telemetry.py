"""Telemetry of work under way: a progress bar, log lines and OpenTelemetry spans; counts and seconds, never texts.

A span is made only where the application itself has imported OpenTelemetry; nothing is sent from here.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import length_hint
from typing import TYPE_CHECKING, Any

from epic_memory.runtime.effects import Clock
from epic_memory.types import BuildReport, Hits, Item

if TYPE_CHECKING:
    from tqdm import tqdm

_logger = logging.getLogger("epic_memory")
# Silent unless the application asks for it.
_logger.addHandler(logging.NullHandler())
_COUNTED = ("seen", "duplicates", "known", "waiting", "passed", "kept", "discarded", "undecided", "cached", "evicted")


def counts_of(report: BuildReport) -> dict[str, int]:
    """Return the counts of a report that its span carries."""
    return {name: getattr(report, name) for name in _COUNTED} | {"calls": report.usage.calls}


def counts_of_search(hits: Hits, k: int) -> dict[str, int]:
    """Return the counts of a search that its span carries."""
    return {"k": k, "hits": len(hits), "facts": len(hits.facts), "steered_by": len(hits.steered_by)}


def measures(counts: Mapping[str, int], seconds: Mapping[str, float]) -> dict[str, int | float]:
    """Return counts and seconds by part under the names that a span's attributes have, such as "epic.hits"."""
    told: dict[str, int | float] = {f"epic.{key}": value for key, value in counts.items()}
    return told | {f"epic.seconds.{part.replace(' ', '_')}": value for part, value in seconds.items()}


@contextmanager
def span(name: str, clock: Clock) -> Iterator[dict[str, int]]:
    """Measure what happens inside a `with`, as a span `epic.NAME` and a log line of the logger "epic_memory".

    It gives a dictionary for counts. An error leaves its type's name, not its message, which may quote a text.

    Args:
        name: "build", "verify" or "search".
        clock: The operation's; it holds the span that is under way, above those that begin inside, and the seconds.
    """
    counts: dict[str, int] = {}
    above, before, started = clock.span, dict(clock.parts), time.perf_counter()
    trace, made = sys.modules.get("opentelemetry.trace"), None
    if trace is not None:
        # Given, not taken from the context: what is between two effects runs in other threads.
        context = None if above is None else trace.set_span_in_context(above)
        made = trace.get_tracer("epic_memory").start_span(f"epic.{name}", context)
    clock.span = made
    failure = ""
    try:
        yield counts
    except BaseException as error:
        failure = type(error).__name__
        raise
    finally:
        clock.span = above
        seconds = {part: spent for part, total in clock.parts.items() if (spent := total - before.get(part, 0.0))}
        if trace is not None and made is not None:
            made.set_attributes(measures(counts, seconds))
            if failure:
                made.set_attribute("error.type", failure)
                made.set_status(trace.StatusCode.ERROR)
            made.end()
        if _logger.isEnabledFor(logging.DEBUG):
            told = ", ".join(f"{key} {value}" for key, value in counts.items())
            ended = f"ended with {failure}" if failure else "done"
            _logger.debug("%s %s in %.4f s: %s", name, ended, time.perf_counter() - started, told)


class Progress:
    """A counter of finished items, with or without a bar.

    Args:
        items: The items to be processed; their number is the total, also an estimate by `__length_hint__`.
        shown: Whether to show a bar.
    """

    def __init__(self, items: Any = None, *, shown: bool = False) -> None:
        self._bar: tqdm[Any] | None = None
        self._source = () if isinstance(items, (str, Item)) else items
        self._items = self._pieces = 1
        self._done = self._counted = 0
        if shown:
            from tqdm import tqdm

            self._bar = tqdm(total=length_hint(self._source) or None, unit=" items")

    def expect(self, total: int) -> None:
        """Set the total, once it is known."""
        if self._bar is not None:
            self._bar.reset(total)

    def begin(self, items: int, pieces: int, *, done: int) -> None:
        """Begin a batch of items that were cut into pieces, `done` of which are done already."""
        self._items, self._pieces = items, max(1, pieces)
        self._done = self._counted = 0
        if self._bar is not None and (total := length_hint(self._source)):
            self._bar.total = max(total, self._bar.n + items)
        self.advance(done)

    def advance(self, pieces: int) -> None:
        """Count finished pieces; the bar shows the number of items they amount to."""
        self._done += pieces
        if self._bar is not None:
            items = self._items * self._done // self._pieces
            self._bar.update(items - self._counted)
            self._counted = items

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
