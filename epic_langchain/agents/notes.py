"""What is said to a model in a turn, kept until it ends: a memory is asked once, not at each call of a tool loop."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from epic_langchain.agents.options import Asked
from epic_langchain.agents.turns import Question

# Of so many unfinished turns, for so many seconds.
_TURNS_KEPT = 256
_KEPT_FOR = 600.0


@dataclass(frozen=True, kw_only=True)
class Noted:
    """What the system message says in a turn, by which revision of the memory, and since when."""

    note: str
    revision: str
    at: float


def key_of(asked: Asked, question: Question) -> Hashable | None:
    """Tells a turn and what it asked for from others; None where nothing can."""
    where = None if asked.filter is None else asked.filter.identity()
    # Without an id, another turn could have the same question.
    if not question.id or (where is None and asked.filter is not None):
        return None
    chosen: Hashable = None
    if asked.preferences is not None:
        chosen = tuple((isinstance(one, str), one if isinstance(one, str) else one.id) for one in asked.preferences)
    return question.id, question.text, asked.namespace, asked.k, where, chosen


class Notes:
    """The notes of turns that have not ended. Safe to use from several threads."""

    def __init__(self) -> None:
        self._notes: OrderedDict[Hashable, Noted] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, asked: Asked, question: Question, revision: str) -> str | None:
        """What is known of a turn, if the memory still has that revision."""
        key = key_of(asked, question)
        with self._lock:
            self._drop_old()
            noted = None if key is None else self._notes.get(key)
        return noted.note if noted is not None and noted.revision == revision else None

    def keep(self, asked: Asked, question: Question, revision: str, note: str) -> str:
        """Keep a note; the note."""
        key = key_of(asked, question)
        if key is not None:
            with self._lock:
                self._notes.pop(key, None)
                self._notes[key] = Noted(note=note, revision=revision, at=monotonic())
                self._drop_old()
                while len(self._notes) > _TURNS_KEPT:
                    self._notes.popitem(last=False)
        return note

    def drop(self, asked: Asked, question: Question) -> None:
        """Forget what is known of a turn."""
        with self._lock:
            self._notes.pop(key_of(asked, question), None)

    @contextmanager
    def lost_on_error(self, asked: Asked, question: Question) -> Iterator[None]:
        """A turn that fails may never end: nothing of it is kept."""
        try:
            yield
        except BaseException:
            self.drop(asked, question)
            raise

    def _drop_old(self) -> None:
        limit = monotonic() - _KEPT_FOR
        while self._notes and next(iter(self._notes.values())).at < limit:
            self._notes.popitem(last=False)
