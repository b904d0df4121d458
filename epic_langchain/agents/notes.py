"""Cache of the notes in an agent's system message: a memory is searched once a turn, not once a tool call."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from epic_langchain.agents.options import Asked
from epic_langchain.agents.turns import Question

# At most 256 unfinished turns are kept, each for at most 600 seconds.
_TURNS_KEPT = 256
_KEPT_FOR = 600.0


@dataclass(frozen=True, kw_only=True)
class Noted:
    """The note of a turn, the memory's revision it was made from, and the time it was made."""

    note: str
    revision: str
    at: float


def key_of(asked: Asked, question: Question) -> Hashable | None:
    """Return a key that identifies a turn and its options; None if nothing identifies them."""
    where = None if asked.filter is None else asked.filter.identity()
    # Without a message id, another turn could have the same question.
    if not question.id or (where is None and asked.filter is not None):
        return None
    chosen: Hashable = None
    if asked.preferences is not None:
        chosen = tuple((isinstance(one, str), one if isinstance(one, str) else one.id) for one in asked.preferences)
    return question.id, question.text, asked.namespace, asked.k, where, chosen


class Notes:
    """Notes of turns that have not ended. Safe to use from several threads."""

    def __init__(self) -> None:
        self._notes: OrderedDict[Hashable, Noted] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, asked: Asked, question: Question, revision: str) -> str | None:
        """Return the note of a turn if the memory still has that revision, else None."""
        key = key_of(asked, question)
        with self._lock:
            self._drop_old()
            noted = None if key is None else self._notes.get(key)
        return noted.note if noted is not None and noted.revision == revision else None

    def keep(self, asked: Asked, question: Question, revision: str, note: str) -> str:
        """Keep the note of a turn and return it."""
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
        """Remove the note of a turn."""
        with self._lock:
            self._notes.pop(key_of(asked, question), None)

    @contextmanager
    def lost_on_error(self, asked: Asked, question: Question) -> Iterator[None]:
        """Drop the note if the block raises: a turn that fails may never end."""
        try:
            yield
        except BaseException:
            self.drop(asked, question)
            raise

    def _drop_old(self) -> None:
        limit = monotonic() - _KEPT_FOR
        while self._notes and next(iter(self._notes.values())).at < limit:
            self._notes.popitem(last=False)
