"""Arguments and queries of a vector store: their checks, and the search for a query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode, VectorStoreQueryResult

from epic_llamaindex.records import CLASS_KEY, REFERRING, SOURCE_KEY, condition_of, node_of_record
from epic_memory.errors import InvalidInputError
from epic_memory.runtime.effects import Call, Effects
from epic_memory.types import checked_k
from epic_plugins.collection import Collection, Matches
from epic_plugins.several import several
from epic_plugins.wrong_arguments import check_options

_MODES = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR)
_KNOWN = ("preferences", "steering", "mmr_threshold")


def queried(collection: Collection, query: VectorStoreQuery, kwargs: dict[str, Any]) -> Effects[VectorStoreQueryResult]:
    """Search a collection for the nodes that fit a query best; `kwargs` are the options given beside the query."""
    if not isinstance(query, VectorStoreQuery):
        raise InvalidInputError(f"Expected a VectorStoreQuery, found {type(query).__name__}.")
    check_options(kwargs, _KNOWN)
    if query.mode not in _MODES:
        mode = getattr(query.mode, "value", query.mode)
        raise InvalidInputError(f"EpicVectorStore searches in the modes 'default' and 'mmr', not {mode!r}.")
    if query.query_str is None and query.query_embedding is None:
        raise InvalidInputError("There is nothing to search for: give query_embedding or query_str.")
    k, diverse = checked_k(query.similarity_top_k), query.mode == VectorStoreQueryMode.MMR
    threshold = _threshold(kwargs.get("mmr_threshold"), query.mmr_threshold) if diverse else 1.0
    options: dict[str, Any] = {
        "k": max(20, 4 * k) if diverse else k,
        "query": query.query_str,
        "embedding": query.query_embedding,
        "where": condition_of(query.filters),
        "ids": _restricted(query, collection),
        "preferences": kwargs.get("preferences"),
        "steering": kwargs.get("steering"),
    }
    matches: Matches = yield Call(collection.search, collection.asearch, **options)
    chosen = list(matches)
    if diverse and chosen:
        _, places = get_top_k_mmr_embeddings(
            matches.vector,  # type: ignore[arg-type]
            [match.vector for match in chosen],  # type: ignore[misc]
            similarity_fn=lambda one, other: float(np.dot(one, other)),  # both are unit vectors
            similarity_top_k=k,
            embedding_ids=list(range(len(chosen))),
            mmr_threshold=threshold,
        )
        chosen = [chosen[place] for place in places]
    return VectorStoreQueryResult(
        nodes=[node_of_record(match.record, collection.path) for match in chosen],
        similarities=[match.score for match in chosen],
        ids=[match.record.id for match in chosen],
    )


def _restricted(query: VectorStoreQuery, collection: Collection) -> set[str] | None:
    """Return the ids that the search is restricted to; None for no restriction."""
    ids = None
    if query.doc_ids:
        ids = set(collection.having(SOURCE_KEY, set(several_ids(query.doc_ids))))
    # Even over a store that keeps texts, an index puts the ids of its image and index nodes into each query
    # (`as_retriever` passes `node_ids=index_struct.nodes_dict`). The list has nodes it does not know to be deleted, and
    # lacks nodes that another index added: it is no restriction. A list that names text nodes was given by the user.
    if query.node_ids:
        held = set(several_ids(query.node_ids)).intersection(collection.ids())
        if not held.issubset(collection.having(CLASS_KEY, REFERRING)):
            ids = held if ids is None else ids & held
    return ids


def several_ids(ids: Iterable[str]) -> list[str]:
    """Return ids as a list, without duplicates."""
    return list(dict.fromkeys(several(ids, str, "ids")))


def check_local(fs: Any) -> None:
    """Refuse a file system other than this machine's."""
    protocol = getattr(fs, "protocol", ())
    if fs is not None and "file" not in ((protocol,) if isinstance(protocol, str) else protocol):
        raise InvalidInputError(
            f"A vector store is a file of this machine; it cannot be on {type(fs).__name__}. Persist it to a local"
            " path, and copy the file."
        )


def _threshold(*given: Any) -> float:
    threshold = next((one for one in given if one is not None), 0.5)
    if not isinstance(threshold, (int, float)) or isinstance(threshold, bool) or not 0.0 <= threshold <= 1.0:
        raise InvalidInputError(f"mmr_threshold must be between 0, most diverse, and 1; not {threshold!r}.")
    return float(threshold)
