"""A HippoRAG instance, called in a way that avoids its known failures.

Nothing in the instance is changed beyond one call: methods are overridden by attributes of the same name, which are
removed when the call is over. It works with the releases 2.0.0a3 and a4 and with the development version; correct
behaviour is left to the instance.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from epic_core.errors import InvalidInputError
from epic_core.storage.sqlite.files import new_file
from epic_core.types import FloatArray

Steer: TypeAlias = Callable[[str, str, FloatArray], FloatArray]
"""Function of a query's text, its embedding's purpose ("triple" or "passage"), and the embedding, to a steered one."""

Reader: TypeAlias = Callable[[str], str]
"""Function of a retrieved passage to the text that an answering model reads."""

_NEEDED = ("index", "retrieve", "delete", "get_query_embeddings", "prepare_retrieval_objects")
_STORES = ("chunk_embedding_store", "entity_embedding_store", "fact_embedding_store")
_ENTITY = "entity-"


class Instance:
    """A HippoRAG instance, and the ways to call it. Not safe to use from several threads.

    Args:
        hipporag: The instance.

    Raises:
        InvalidInputError: for anything but a HippoRAG instance, or one that cannot embed or delete.
    """

    def __init__(self, hipporag: Any) -> None:
        missing = [name for name in _NEEDED if not callable(getattr(hipporag, name, None))]
        missing += [name for name in (*_STORES, "graph", "openie") if not hasattr(hipporag, name)]
        if missing:
            raise InvalidInputError(
                f"{type(hipporag).__name__} is no HippoRAG 2 instance: it has no {', '.join(missing)}. Give one of"
                " hipporag 2.0.0a3 or later."
            )
        if not callable(getattr(getattr(hipporag, "embedding_model", None), "batch_encode", None)):
            raise InvalidInputError(
                "This HippoRAG instance has no embedding model: with openie_mode='offline' it extracts and does no"
                " more. Run that by itself first, then give an instance with openie_mode='online'."
            )
        config = getattr(hipporag, "global_config", None)
        if not getattr(config, "save_openie", True) or getattr(config, "force_openie_from_scratch", False):
            raise InvalidInputError(
                "This HippoRAG instance does not know what it extracted, so that it could not delete the facts of a"
                " passage. Make it with save_openie=True and force_openie_from_scratch=False."
            )
        self.raw = hipporag

    # contents

    @property
    def passages(self) -> dict[str, str]:
        """The text of every passage, by its key."""
        rows = self.raw.chunk_embedding_store.get_all_id_to_rows()
        return {str(key): str(row["content"]) for key, row in rows.items()}

    @property
    def unlinked(self) -> list[str]:
        """The passages in its store that are not in its graph, because the graph was lost or is to be made anew."""
        there = set(self.raw.graph.vs["name"]) if self.raw.graph.vcount() else set()
        return [text for key, text in self.passages.items() if key not in there]

    @property
    def folder(self) -> Path | None:
        """The folder of its files; None without one."""
        folder = getattr(self.raw, "working_dir", None)
        return None if folder is None else Path(folder)

    # changes

    def index(self, texts: Sequence[str], openie: Any, metadata: Mapping[str, Mapping[str, Any]]) -> None:
        """Index passages; after a failure, nothing has been added.

        Args:
            texts: The texts to index, unchanged.
            openie: Extracts entities and facts; None for the instance's own.
            metadata: By text; used only if the instance keeps metadata.
        """
        stores = [getattr(self.raw, name) for name in _STORES]
        before, graph = [set(store.get_all_ids()) for store in stores], self.raw.graph.copy()
        covers = self._files() | {"add_new_edges": self._add_new_edges}
        if openie is not None:
            covers["openie"] = openie
        cutter = getattr(self.raw, "text_preprocessor", None)
        if cutter is not None:
            covers["text_preprocessor"] = _Cut(cutter, metadata)
        try:
            with self._covered(covers):
                self.raw.index(list(texts))
        except BaseException:
            # Remove new passages: the next index would take them for complete, and they would never get their facts.
            for store, known in zip(stores, before, strict=True):
                if made := [key for key in store.get_all_ids() if key not in known]:
                    store.delete(made)
            self.raw.graph = graph
            raise
        finally:
            self._stale()

    def delete(self, texts: Sequence[str]) -> None:
        """Remove passages, with the entities and facts that no other passage states.

        An edge between two entities that other passages mention goes at the next `index`, which makes these edges anew.
        """
        # Its map of entities to passages is the last index's, and may contain deleted passages.
        self._stale()
        try:
            with self._covered(self._files()):
                self.raw.delete(list(texts))
        finally:
            self._stale()

    def _stale(self) -> None:
        """Have the data for retrieval made anew: otherwise it would lack the passages of the last `index`."""
        self.raw.ready_to_retrieve = False
        if hasattr(self.raw, "ent_node_to_chunk_ids"):
            self.raw.ent_node_to_chunk_ids = None

    def _add_new_edges(self) -> None:
        """Add edges as the instance does, but without doubling: it adds all edges between entities at every index."""
        raw, graph = self.raw, self.raw.graph
        names = graph.vs["name"] if graph.vcount() else []
        stated = {frozenset(pair) for pair in raw.node_to_node_stats}
        sources = set().union(*(raw.ent_node_to_chunk_ids or {}).values())
        linked = {names[end] for edge in graph.get_edgelist() for end in edge}
        # If all passages are indexed again, edges that are not stated again belong to deleted passages.
        every = all(name in sources for name in linked if not name.startswith(_ENTITY))
        doomed = []
        for number, (one, other) in enumerate(graph.get_edgelist()):
            pair = names[one], names[other]
            if all(name.startswith(_ENTITY) for name in pair) and (every or frozenset(pair) in stated):
                doomed.append(number)
        graph.delete_edges(doomed)
        self._own("add_new_edges")()

    # questions

    @contextmanager
    def asking(self, steer: Steer | None, reader: Reader | None = None) -> Iterator[None]:
        """Answer questions inside the block with steered vectors, also from an empty store and where no fact counts."""
        plain: dict[tuple[str, str], Any] = {}
        covers: dict[str, Any] = {
            "load_existing_openie": self._load_existing_openie,
            "get_fact_scores": self._get_fact_scores,
            "rerank_facts": self._rerank_facts,
            "dense_passage_retrieval": self._dense_passage_retrieval,
            "graph_search_with_fact_entities": self._graph_search,
        }
        if steer is not None:
            covers["get_query_embeddings"] = lambda queries: self._steered(queries, steer, plain)
        if reader is not None:
            covers["qa"] = lambda queries: self._answered(queries, reader)
        # HippoRAG divides by zero for entities without links, and then ignores these results.
        with self._covered(covers), np.errstate(divide="ignore", invalid="ignore"):
            try:
                yield
            finally:
                cache = getattr(self.raw, "query_to_embedding", {})
                for (kind, text), vector in plain.items():
                    if text in cache.get(kind, {}):
                        cache[kind][text] = vector

    def _steered(self, queries: Sequence[Any], steer: Steer, plain: dict[tuple[str, str], Any]) -> None:
        """Embed queries as the instance does, and replace the vectors in its cache by steered ones."""
        self._own("get_query_embeddings")(queries)
        cache = self.raw.query_to_embedding
        for text in dict.fromkeys(getattr(query, "question", query) for query in queries):
            for kind in cache:
                if (kind, text) not in plain and text in cache[kind]:
                    vector = plain[kind, text] = cache[kind][text]
                    cache[kind][text] = _moved(vector, partial(steer, text, kind))

    def _get_fact_scores(self, query: str) -> Any:
        if not len(self.raw.fact_node_keys):
            return np.array([])
        return _counted(self._own("get_fact_scores")(query))

    def _rerank_facts(self, query: str, query_fact_scores: Any) -> Any:
        if not len(query_fact_scores):
            return [], [], {"facts_before_rerank": [], "facts_after_rerank": []}
        return self._own("rerank_facts")(query, query_fact_scores)

    def _dense_passage_retrieval(self, query: str) -> Any:
        if not len(self.raw.passage_node_keys):
            return np.array([], dtype=np.intp), np.array([])
        order, scores = self._own("dense_passage_retrieval")(query)
        return np.atleast_1d(order), _counted(scores)

    def _graph_search(self, *args: Any, **kwargs: Any) -> Any:
        """Search as the instance does; if it fails, with the facts that count, or without any by similarity."""
        own = self._own("graph_search_with_fact_entities")
        given = inspect.signature(own).bind(*args, **kwargs).arguments
        with np.errstate(divide="ignore", invalid="ignore"):
            try:
                return own(**given)
            except AssertionError:
                pass
            scores = np.atleast_1d(given["query_fact_scores"])
            known = getattr(self.raw.entity_embedding_store, "text_to_hash_id", {})
            counting = [
                (fact, place)
                for fact, place in zip(given["top_k_facts"], given["top_k_fact_indices"], strict=True)
                if scores[place] > 0 and fact[0].lower() in known and fact[2].lower() in known
            ]
            if counting:
                given |= {"top_k_facts": [fact for fact, _ in counting]}
                given |= {"top_k_fact_indices": [place for _, place in counting]}
                try:
                    return own(**given)
                except AssertionError:
                    pass
        return self.raw.dense_passage_retrieval(given["query"])

    def _answered(self, queries: Sequence[Any], reader: Reader) -> Any:
        """Answer questions from the texts that a reader makes of passages; the passages themselves are restored."""
        docs = [query.docs for query in queries]
        most = int(getattr(self.raw.global_config, "qa_top_k", 5))
        try:
            for query, own in zip(queries, docs, strict=True):
                query.docs = [reader(text) for text in own[:most]]
            return self._own("qa")(queries)
        finally:
            for query, own in zip(queries, docs, strict=True):
                query.docs = own

    # files

    def _files(self) -> dict[str, Any]:
        return {
            "load_existing_openie": self._load_existing_openie,
            "save_openie_results": self._save_openie_results,
        }

    def _load_existing_openie(self, chunk_keys: Any) -> Any:
        """Return what was extracted from the passages it holds: the file may contain other or deleted passages."""
        found, missing = self._own("load_existing_openie")(chunk_keys)
        held = set(self.raw.chunk_embedding_store.get_all_ids())
        return list({one["idx"]: one for one in found if one["idx"] in held}.values()), missing

    def _save_openie_results(self, results: Sequence[Any]) -> None:
        """Save as the instance does; write the file here if nothing was extracted, where the instance fails."""
        if any(one["extracted_entities"] for one in results):
            self._own("save_openie_results")(results)
            return
        kept = {"docs": list(results), "avg_ent_chars": 0, "avg_ent_words": 0}
        write_json(Path(self.raw.openie_results_path), kept)

    # overriding methods

    def _own(self, name: str) -> Callable[..., Any]:
        """Return a method of the instance as it was before it was overridden."""
        return self._uncovered.get(name) or getattr(type(self.raw), name).__get__(self.raw)  # type: ignore[no-any-return]

    @contextmanager
    def _covered(self, covers: Mapping[str, Any]) -> Iterator[None]:
        own = vars(self.raw)
        there = {name: cover for name, cover in covers.items() if hasattr(self.raw, name)}
        before = {name: own[name] for name in there if name in own}
        self._uncovered: dict[str, Any] = before
        own.update(there)
        try:
            yield
        finally:
            for name, cover in there.items():
                if own.get(name) is not cover:
                    continue
                del own[name]
                if name in before:
                    own[name] = before[name]
            self._uncovered = {}


class _Cut:
    """A preprocessor for passages that are cut already."""

    def __init__(self, cutter: Any, metadata: Mapping[str, Mapping[str, Any]]) -> None:
        self._chunk = type(cutter.preprocess(["A text."])[0])
        self._metadata = metadata

    def preprocess(self, docs: Sequence[str]) -> list[Any]:
        """Return a chunk for each text."""
        return [self._chunk(content=text, metadata=dict(self._metadata.get(text, {}))) for text in docs]


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, whole or not at all."""
    with new_file(path, overwrite=True) as made:
        Path(made).write_text(json.dumps(value), encoding="utf-8")


def _moved(vector: Any, move: Callable[[FloatArray], FloatArray]) -> Any:
    """Move an embedding on the unit sphere, and keep its length, shape and type."""
    given = np.asarray(vector)
    flat = given.astype(np.float32).ravel()
    length = math.sqrt(float(flat @ flat))
    if not 0.0 < length < math.inf:
        return vector
    moved = move(flat / np.float32(length)) * np.float32(length)
    return moved.reshape(given.shape).astype(given.dtype)


def _counted(scores: Any) -> Any:
    """Return scores with 1 in place of NaN: 2.0.0a3 computes 0 / 0 if all are equal; a4 counts them in full."""
    array = np.atleast_1d(np.asarray(scores))
    return np.where(np.isnan(array), 1.0, array)
