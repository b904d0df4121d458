"""Tags in a memory: written to the metadata of what comes, and compared with those of a query to rank what is found."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_core.encoders.base import Embed
from epic_core.errors import InvalidInputError
from epic_core.pipeline.search import Search, search
from epic_core.pipeline.session import Session
from epic_core.runtime.effects import Clock, Effect, Effects
from epic_core.text.tagging import PREFIX, Tagger, TagRerank, Tags, compared_tags, tag_metadata
from epic_core.types import BuildReport, FloatArray, Hits, Item

# Embeddings of tags that are held in RAM.
_MOST_VECTORS = 50_000


@dataclass
class _Tag(Effect):
    """An effect whose result is the tags of texts."""

    tagger: Tagger
    texts: Sequence[str]
    part: str = "tags"

    def run(self, stopped: threading.Event | None) -> list[Tags | None]:
        """Ask the tagger."""
        return self.tagger.tag(self.texts)

    async def arun(self) -> list[Tags | None]:
        """Ask the tagger without blocking the event loop."""
        return await self.tagger.atag(self.texts)


def checked_tagger(tagger: Tagger | None) -> Tagger | None:
    """Check a tagger.

    Raises:
        InvalidInputError: for anything else.
    """
    if tagger is not None and (isinstance(tagger, type) or not isinstance(tagger, Tagger)):
        raise InvalidInputError(
            "A tagger has a name, tag(texts) and atag(texts), such as epic_core.graph.PhraseTagger();"
            f" {tagger!r} is none."
        )
    return tagger


def tagged(session: Session, tagger: Tagger, items: Sequence[Item], report: BuildReport) -> Effects[list[Item]]:
    """Return items with their tags as metadata; what is held with the same text keeps those it has."""
    with session.lock, session.store.reading():
        store, namespace = session.store, session.namespace
        rows = [store.items.row(namespace, item.id) for item in items]
        held = store.items.at([row for row in rows if row is not None])
    known = {item.id: (item.text, _tags_in(item)) for item in held.values()}
    fresh = [item for item in items if not known.get(item.id, ("", {}))[1] or known[item.id][0] != item.text]
    answers: list[Tags | None] = yield _Tag(tagger, [item.text for item in fresh])
    if (without := sum(tags is None for tags in answers)) > 0:
        report.warnings.append(f"{without} items have no tags: {tagger.name} failed. Add them again.")
    tags_of = {key: tags for key, (_, tags) in known.items()}
    tags_of |= {item.id: tag_metadata(tags or {}) for item, tags in zip(fresh, answers, strict=True)}
    return [replace(item, metadata={**tags, **item.metadata}) if (tags := tags_of[item.id]) else item for item in items]


def _tags_in(item: Item) -> dict[str, Any]:
    return {key: value for key, value in item.metadata.items() if key.startswith(PREFIX)}


def search_by_tags(session: Session, asked: Search, rerank: TagRerank, clock: Clock) -> Effects[Hits]:
    """Search, and rank what is found by the tags that it shares with the query.

    Raises:
        InvalidInputError: if the memory has no tagger.
    """
    if session.tagger is None:
        raise InvalidInputError("To rank by tags takes a tagger: EpicMemory(tagger=epic_core.graph.PhraseTagger()).")
    # What a reranker or a selection chooses from is in the order of the tags.
    choice, shown = asked.choice, asked.k if asked.choice is None else asked.choice.fetched(asked.k)
    wider = replace(asked, k=rerank.fetched if rerank.paper else max(shown, rerank.fetched), choice=None)
    if rerank.paper:  # by cosine alone, whatever it is
        wider = replace(wider, mode="off", stance_policy="any", min_score=None)
    hits = yield from search(session, wider, clock)
    (tags,) = yield _Tag(session.tagger, [asked.query])
    of_query = compared_tags(tag_metadata(tags or {}))
    of_hits = [compared_tags(hit.item.metadata) for hit in hits]
    vectors = yield from _embedded(session, [of_query, *of_hits])
    matches = matched(vectors[0], vectors[1:], rerank.alike)
    scores = np.array([hit.score for hit in hits], dtype=np.float32)
    if rerank.paper:
        order, scores = paper_order(matches, rerank)
        order = order[:shown]
    else:
        scores += np.float32(rerank.share / max(len(of_query), 1)) * matches
        order = np.argsort(-scores, kind="stable")[:shown]
    chosen = order.tolist()
    found = [replace(hits[place], score=float(scores[place])) for place in chosen]
    found_by = [hits.vectors[place] for place in chosen] if hits.vectors else []
    ranking = None
    if choice is not None and hits.query is not None and not hits.fallback:
        ranking = choice.choose(asked.query, hits.query, found, found_by, asked.k, hits.matters)
        found, found_by = ranking.chosen(found, found_by)
    ranked = Hits(found[: asked.k])
    ranked.__dict__.update(hits.__dict__)
    ranked.vectors, ranked.ranking = found_by[: asked.k], ranking
    return ranked


def matched(query: FloatArray, items: Sequence[FloatArray], alike: float) -> NDArray[np.int64]:
    """Return for each item how many tags of a query have one like them, shape `(n,)`.

    Args:
        query: Embeddings of the query's tags, shape `(t, d)`.
        items: Embeddings of each item's tags, each shape `(u, d)`.
        alike: The cosine above which two tags are one.
    """
    counts = [int(((query @ tags.T).max(axis=1) > alike).sum()) if len(query) and len(tags) else 0 for tags in items]
    return np.array(counts, dtype=np.int64)


def paper_order(matches: NDArray[np.int64], rule: TagRerank) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the places of the items that the published rule shows, best first, and the score of each item.

    The first of the items found has a rank score of `fetched`, the next one less, and each matching tag adds one.
    Shown are at most `most` that reach `least`. Scores are shares of twice `fetched`, to be in [0, 1].
    """
    ranks = rule.fetched - np.arange(len(matches)) + matches
    order = np.argsort(-ranks, kind="stable")
    shown: NDArray[np.int64] = order[ranks[order] >= rule.least][: rule.most]
    return shown, np.minimum(ranks / (2.0 * rule.fetched), 1.0).astype(np.float32)


def _embedded(session: Session, lists: Sequence[Sequence[str]]) -> Effects[list[FloatArray]]:
    """Return the embeddings of lists of tags, each tag encoded once."""
    table = session.tag_vectors
    if len(table) > _MOST_VECTORS:
        table.clear()
    new = [tag for tag in dict.fromkeys(tag for tags in lists for tag in tags) if tag not in table]
    vectors: FloatArray = yield Embed(session.encoder, new, "tags")
    table.update(zip(new, vectors, strict=True))
    none = np.zeros((0, session.encoder.dimension), dtype=np.float32)
    return [np.stack([table[tag] for tag in tags]) if tags else none for tags in lists]
