"""The light tier: what verification turned away, kept for its text alone while the file is under its reserve.

What the first tier holds was verified, and has instructions. The rest is not lost as long as there is room: an item of
the light tier takes its packed text and one small code. It is admitted best first, by its similarity to the nearest
preference, gives way to what is better and to the first tier, is searched together with it, and is looked through again
when a preference is added. `reserve=0` is the paper's memory, which forgets what it does not keep.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epic_memory.pipeline.session import Session
from epic_memory.storage.codecs import code_length, deflated
from epic_memory.storage.namespace import CommittedRows, Namespace
from epic_memory.types import FloatArray, Item
from epic_memory.types.metadata import dumped_metadata

# What the next items need besides: pages are not full, and the SQL indexes take some.
_FILLING = 1.25
_SLACK = 8_000
# What each text costs that a preference has beyond its share, as a part of that share; a share is so many at least.
_CROWDED = 0.1
_LEAST_SHARE = 8


def admitted(
    session: Session, space: Namespace, rejected: Sequence[tuple[Item, FloatArray]]
) -> tuple[list[tuple[Item, FloatArray]], list[int]]:
    """Choose which rejected items the light tier takes, and the rows of the items that leave it for them.

    Call it under the lock.
    """
    if session.reserve == 0 or not rejected:
        return [], []
    code = code_length(session.encoder.dimension, small=True)
    sizes = [int(_FILLING * (item_bytes(item) + code)) for item, _ in rejected]
    room = _limit(session) - _SLACK - session.store.used_bytes()
    if sum(sizes) <= room:
        return list(rejected), []
    rows, count = sorted(space.light_rows), len(rejected)
    vectors = np.stack([vector for _, vector in rejected])
    worth = _worth(space, np.concatenate([vectors, space.texts.vectors[space.texts.places(rows)]]))
    held_sizes = session.store.items.light_sizes(rows)
    sizes += [int(_FILLING * held_sizes[row]) for row in rows]
    room += sum(sizes[count:])
    stays = set[int]()
    # The best first; of equal ones those that are held.
    for place in np.lexsort((np.arange(len(sizes)) < count, -worth)).tolist():
        if sizes[place] <= room:
            room -= sizes[place]
            stays.add(place)
    taken = [one for place, one in enumerate(rejected) if place in stays]
    return taken, [row for place, row in enumerate(rows, start=count) if place not in stays]


def trim(session: Session) -> int:
    """Evict the lowest-ranked items until the file fits into its reserve; return how many went."""
    excess = session.store.used_bytes() + _SLACK - _limit(session)
    return leave(session, excess) if excess > 0 else 0


def leave(session: Session, octets: int) -> int:
    """Evict the lowest-ranked items until so many bytes are free; return how many went."""
    with session.changing(session.encoder, committed := CommittedRows()) as space:
        rows = sorted(space.light_rows)
        if not rows:
            return 0
        order = np.argsort(_worth(space, space.texts.vectors[space.texts.places(rows)]), kind="stable").tolist()
        rows = [rows[place] for place in order]
        sizes = session.store.items.light_sizes(rows)
        going: list[int] = []
        for row in rows:
            if octets <= 0:
                break
            octets -= sizes[row]
            going.append(row)
        remove(session, going, committed)
        return len(going)


def remove(session: Session, going: Sequence[int], rows: CommittedRows) -> None:
    """Remove items of the light tier. Call it inside a transaction."""
    held = session.store.items.held_at(going)
    ids = [one.item.id for one in held.values()]
    waiting = session.store.retry_queue.rows_of(session.namespace, ids)
    digests = [one.digest for one in held.values() if one.item.id not in waiting]
    rows.gone_items += held
    rows.seen += digests
    rows.forgotten |= session.store.seen.add(session.namespace, digests) > 0
    # What waits for a verdict goes on waiting.
    session.store.items.remove(session.namespace, ids, waiting=False)


def item_bytes(item: Item) -> int:
    """Estimate the bytes of an item in the file: its text as it is packed, its metadata, its id, and the row."""
    text = deflated(item.text)
    metadata = dumped_metadata(item.metadata, item.id)
    return len(text if isinstance(text, bytes) else text.encode()) + len((metadata + 2 * item.id).encode()) + 160


def _limit(session: Session) -> int:
    """Return how many bytes the file may have with the light tier in it."""
    if session.budget is None:
        return session.reserve
    return min(session.reserve, session.budget.pages(page := session.store.pages()[2]) * page)


def _worth(space: Namespace, vectors: FloatArray) -> FloatArray:
    """Return how much each text may matter, shape `(n,)`.

    That is its similarity to the nearest preference, less something for each that is nearer to the same preference
    beyond that one's share: a broad preference leaves room for others.
    """
    if not len(space.vectors) or not len(vectors):
        return np.zeros(len(vectors), dtype=np.float32)
    similarities = vectors @ space.vectors.T
    nearest, worth = similarities.argmax(axis=1), similarities.max(axis=1)
    share = max(1.0, _LEAST_SHARE, len(vectors) / len(space.vectors))
    for preference in np.unique(nearest):
        places = np.flatnonzero(nearest == preference)
        ranks = np.argsort(np.argsort(-worth[places], kind="stable"), kind="stable")
        worth[places] -= np.float32(_CROWDED) * np.maximum(ranks / share - 1.0, 0.0).astype(np.float32)
    weighed: FloatArray = worth
    return weighed
