"""Choice of what a search shows: the results reranked by what was learnt, and as many as the question needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from epic_memory.errors import InvalidInputError
from epic_memory.pipeline.session import Session
from epic_memory.types import FloatArray, Hit, Hits, Preference
from epic_memory.types.results import Ranking
from epic_memory.types.validation import one_of
from epic_rerank import SIGNALS, LearnedReranker
from epic_rerank.features import features_of
from epic_rerank.reranker import CANDIDATES, feedback_event
from epic_rerank.selection import MemorySelection, Policy, taken

Select: TypeAlias = Literal["k", "adaptive"]
"""How many hits: k, or as many as the question needs, at most k."""
Feedback: TypeAlias = Mapping[str, str | float]
"""What a user did with hits, by the id of their item: one of `SIGNALS`, or a reward in [0, 1]."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is chosen of the results of a search.

    Attributes:
        reranker: Orders them; None for the order of retrieval.
        policy: Takes only those that the question needs; None to take all.
    """

    reranker: LearnedReranker | None
    policy: Policy | None

    def fetched(self, k: int) -> int:
        """Return how many results of retrieval are chosen from."""
        return k if self.reranker is None else max(k, CANDIDATES)

    def pool(self, chosen: list[int], order: Sequence[int]) -> list[int]:
        """Return the k results of retrieval, and behind them more to choose from."""
        known = set(chosen)
        more = [place for place in order if place not in known] if self.reranker is not None else []
        return chosen + more[: max(0, CANDIDATES - len(chosen))]

    def choose(
        self,
        query: str,
        vector: FloatArray,
        hits: Sequence[Hit],
        vectors: Sequence[FloatArray],
        k: int,
        matters: Sequence[tuple[Preference, float]],
    ) -> Ranking:
        """Choose at most k hits; the arguments are those of `features_of`."""
        if self.reranker is None:
            count = min(k, len(hits))
            ranking = Ranking(features=np.zeros((len(hits), 0)), order=list(range(count)), probabilities=[1.0] * count)
        else:
            features = features_of(query, vector, hits, vectors, matters)
            ranking = self.reranker.rank(features, k)
        if self.policy is None:
            return ranking
        ordered, embeddings = ranking.chosen(hits, vectors)
        needed = taken(query, ordered, embeddings, self.policy)
        return replace(
            ranking,
            order=[ranking.order[place] for place in needed],
            probabilities=[ranking.probabilities[place] for place in needed],
        )


def checked_choice(
    session: Session,
    reranker: LearnedReranker | bool | None,
    select: str,
    *,
    namespace: str | None,
    plain: bool,
    policy: type[Policy] = MemorySelection,
) -> Choice | None:
    """Return what a search chooses, or None for the k results as they are.

    Args:
        session: The memory.
        reranker: One, or True for the memory's own.
        select: A `Select`.
        namespace: The one that is searched; None for the memory's own.
        policy: What takes hits if the selection is adaptive.
        plain: Whether the search finds by texts, as it has to.

    Raises:
        InvalidInputError: for anything else.
    """
    one_of("select", select, ("k", "adaptive"))
    if not reranker and select == "k":
        return None
    if not plain:
        raise InvalidInputError('reranker= and select= need keys="both".')
    if reranker is True:
        reranker = own_reranker(session, session.namespace if namespace is None else namespace)
    elif reranker and not isinstance(reranker, LearnedReranker):
        raise InvalidInputError(f"reranker must be a LearnedReranker or True, not {type(reranker).__name__}.")
    elif reranker and reranker.encoder not in ("", session.encoder.fingerprint):
        raise InvalidInputError("This reranker was trained with another encoder. Train it again: epic rerank train.")
    return Choice(reranker=reranker or None, policy=policy.shipped() if select == "adaptive" else None)


def own_reranker(session: Session, namespace: str) -> LearnedReranker:
    """Return the reranker that a namespace has learnt; an untrained one if it has learnt nothing."""
    with session.lock, session.store.reading():
        version = session.store.learnt.version(namespace)
        known = session.rerankers.get(namespace)
        if known is None or known[0] != version:
            stored = session.store.learnt.reranker(namespace)
            fingerprint = session.encoder.fingerprint
            made = (
                LearnedReranker(encoder=fingerprint)
                if stored is None
                else LearnedReranker.from_object(stored, encoder=fingerprint)
            )
            known = session.rerankers[namespace] = (version, made)
        return known[1]


def learn(session: Session, hits: Hits, feedback: Feedback) -> None:
    """Learn from what a user did with the hits of a search that had a reranker.

    Raises:
        InvalidInputError: if they had none, are not whole, or the feedback names another item or signal.
    """
    ranking = getattr(hits, "ranking", None)
    if ranking is None or not ranking.features.shape[1] or len(hits) != len(ranking.order):
        raise InvalidInputError(
            "learn() needs the whole result of a search with a reranker: hits = memory.search(query, reranker=True)."
        )
    shown = [hit.item.id for hit in hits]
    if unknown := sorted(set(feedback) - set(shown)):
        raise InvalidInputError(f"The item {unknown[0]!r} is not among the hits that were shown.")
    signals = [_reward(feedback[item]) if item in feedback else 0.0 for item in shown]
    event = feedback_event(ranking, signals)
    with session.lock:
        session.space()  # notices another process's encoder
        reranker, store = own_reranker(session, session.namespace), session.store
        learnt = reranker.learn([*store.learnt.events(session.namespace), event])
        with store.transaction():
            store.learnt.put(session.namespace, learnt.as_object(), event)


def set_reranker(session: Session, reranker: LearnedReranker | None) -> bool:
    """Keep a reranker in the file, or forget what was learnt; return whether there was anything before.

    Raises:
        InvalidInputError: if it was trained with another encoder.
    """
    if reranker is not None and reranker.encoder not in ("", session.encoder.fingerprint):
        raise InvalidInputError("This reranker was trained with another encoder. Train it again: epic rerank train.")
    store, namespace = session.store, session.namespace
    with session.lock, store.transaction():
        session.space()
        before = store.learnt.forget(namespace)
        if reranker is not None:
            store.learnt.put(namespace, reranker.as_object())
    if reranker is None:
        store.give_back()
    return before


def _reward(signal: object) -> float:
    if isinstance(signal, str):
        return SIGNALS[one_of("A signal", signal, tuple(SIGNALS))]
    if isinstance(signal, (int, float)) and 0.0 <= signal <= 1.0:
        return float(signal)
    raise InvalidInputError(f"A signal is one of {', '.join(SIGNALS)}, or a number between 0 and 1; not {signal!r}.")
