"""Feedback that a memory learns from: its reranker, kept in its file, for each namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias
from weakref import WeakKeyDictionary

from epic_memory.errors import InvalidInputError
from epic_memory.memory import EpicMemory, checked_memory
from epic_memory.runtime.effects import in_thread
from epic_memory.types import Hits
from epic_memory.types.validation import one_of
from epic_rerank.reranker import SIGNALS, LearnedReranker, feedback_event
from epic_rerank.tables import Learnt

Feedback: TypeAlias = Mapping[str, str | float]
"""Feedback of a user on hits, by the id of their item: one of `SIGNALS`, or a reward in [0, 1]."""

# Rerankers that were read, with the version of the file's that each is.
_read: WeakKeyDictionary[EpicMemory, dict[str, tuple[int | None, LearnedReranker]]] = WeakKeyDictionary()


def reranker_of(memory: EpicMemory, *, namespace: str | None = None) -> LearnedReranker:
    """Return what a memory has learnt; an untrained reranker if it has learnt nothing.

    Args:
        memory: The memory.
        namespace: Another user's memory in the same file.
    """
    session, store = checked_memory(memory)._session, memory._session.store
    name = memory.namespace if namespace is None else namespace
    with session.lock, store.reading():
        known, version = _read.setdefault(memory, {}), Learnt(store).version(name)
        if name not in known or known[name][0] != version:
            stored, fingerprint = Learnt(store).reranker(name), memory.encoder.fingerprint
            known[name] = (
                version,
                LearnedReranker(encoder=fingerprint)
                if stored is None
                else LearnedReranker.from_object(stored, encoder=fingerprint),
            )
        return known[name][1]


def set_reranker(memory: EpicMemory, reranker: LearnedReranker) -> None:
    """Keep a reranker that was trained in a memory's file, in place of what was learnt.

    Raises:
        InvalidInputError: if it was trained with another encoder.
    """
    if reranker.encoder not in ("", checked_memory(memory).encoder.fingerprint):
        raise InvalidInputError("This reranker was trained with another encoder. Train it again: epic rerank train.")
    session, store = checked_memory(memory)._session, memory._session.store
    with session.lock, store.transaction():
        session.space()  # notices another process's encoder
        Learnt(store).clear(memory.namespace)
        Learnt(store).put(memory.namespace, reranker.as_object())


def forget(memory: EpicMemory) -> bool:
    """Forget what was learnt of feedback and by training, and return whether there was anything."""
    session, store = checked_memory(memory)._session, memory._session.store
    with session.lock, store.transaction():
        session.space()
        before = Learnt(store).clear(memory.namespace)
    store.give_back()
    return before


def learn(memory: EpicMemory, hits: Hits, feedback: Feedback) -> None:
    """Learn which hits help from what the user did with those of a search with a reranker as its chooser.

        hits = memory.search("What should I cook tonight?", k=3, options=SearchOptions(chooser=reranker_of(memory)))
        learn(memory, hits, {hits[1].item.id: "used"})

    It learns numbers only. They are stored in the file, exported, and deleted by `forget`. Hits that the feedback does
    not name count as shown in vain.

    Args:
        memory: The memory that was searched.
        hits: The whole result.
        feedback: By the id of an item: "used", "copied", "thumb", "corrected", or a reward in [0, 1].

    Raises:
        InvalidInputError: for hits of a search without a reranker, another item, or another signal.
    """
    ranking = getattr(hits, "ranking", None)
    if ranking is None or not ranking.features.shape[1] or len(hits) != len(ranking.order):
        raise InvalidInputError(
            "Give all of search(query, options=SearchOptions(chooser=reranker_of(memory))) to learn()."
        )
    shown = [hit.item.id for hit in hits]
    if unknown := sorted(set(feedback) - set(shown)):
        raise InvalidInputError(f"The item {unknown[0]!r} is not among the hits that were shown.")
    signals = [_reward(feedback[item]) if item in feedback else 0.0 for item in shown]
    event = feedback_event(ranking, signals)
    session, store = checked_memory(memory)._session, memory._session.store
    with session.lock:
        session.space()  # notices another process's encoder
        learnt = reranker_of(memory).learn([*Learnt(store).events(memory.namespace), event])
        with store.transaction():
            Learnt(store).put(memory.namespace, learnt.as_object(), event)


async def alearn(memory: EpicMemory, hits: Hits, feedback: Feedback) -> None:
    """As `learn`, without blocking the event loop."""
    await in_thread(learn, memory, hits, feedback)


def _reward(signal: object) -> float:
    if isinstance(signal, str):
        return SIGNALS[one_of("A signal", signal, tuple(SIGNALS))]
    if isinstance(signal, (int, float)) and 0.0 <= signal <= 1.0:
        return float(signal)
    raise InvalidInputError(f"A signal is one of {', '.join(SIGNALS)}, or a number between 0 and 1; not {signal!r}.")
