"""Instance of HippoRAG 2.0.0a4, called in a way that avoids its known failures.

Nothing in the instance is changed beyond one call: methods are overridden by attributes of the same name, which are
removed when the call is over.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from epic_memory.encoders.base import checked
from epic_memory.errors import InvalidInputError, StoreError
from epic_memory.runtime.effects import in_thread
from epic_memory.storage.sqlite.files import new_file
from epic_memory.types import FloatArray

Steer: TypeAlias = Callable[[str, str, FloatArray], FloatArray]
"""Function of a query's text, its embedding's purpose ("triple" or "passage"), and the embedding, to a steered one."""

Reader: TypeAlias = Callable[[str], str]
"""Function of a retrieved passage to the text that an answering model reads."""

# Seconds to wait while another process uses the cache.
_BUSY = 30.0
_STORES = ("chunk_embedding_store", "entity_embedding_store", "fact_embedding_store")
_NEEDED = ("index", "retrieve", "delete", "prepare_retrieval_objects", "graph", "openie", "embedding_model", *_STORES)


class Instance:
    """A HippoRAG instance, and the ways to call it. Not safe to use from several threads.

    Args:
        hipporag: The instance.

    Raises:
        InvalidInputError: for anything but a HippoRAG instance, or one that cannot embed or delete.
    """

    def __init__(self, hipporag: Any) -> None:
        if missing := [name for name in _NEEDED if not hasattr(hipporag, name)]:
            raise InvalidInputError(
                f"{type(hipporag).__name__} is no HippoRAG 2 instance: it has no {', '.join(missing)}. Give one of"
                " hipporag 2.0.0a4."
            )
        if hipporag.embedding_model is None:
            raise InvalidInputError(
                "This HippoRAG instance has no embedding model: with openie_mode='offline' it extracts and does no"
                " more. Run that by itself first, then give an instance with openie_mode='online'."
            )
        if not hipporag.global_config.save_openie or hipporag.global_config.force_openie_from_scratch:
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

    # changes

    def index(self, texts: Sequence[str], openie: Any) -> None:
        """Index passages, with another extraction than the instance's own; after a failure, nothing has been added."""
        stores = [getattr(self.raw, name) for name in _STORES]
        before, graph = [set(store.get_all_ids()) for store in stores], self.raw.graph.copy()
        try:
            with self._overridden(openie=openie, add_new_edges=self._add_new_edges):
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
            with self._overridden():
                self.raw.delete(list(texts))
        finally:
            self._stale()

    def forget_answers(self) -> None:
        """Clear the cache of its language model's answers, which quote passages and do not say which.

        Raises:
            StoreError: if it cannot be cleared, as while another process writes to it.
        """
        for path in (Path(self.raw.global_config.save_dir) / "llm_cache").glob("*.sqlite"):
            try:
                with closing(sqlite3.connect(path, timeout=_BUSY, isolation_level=None)) as cache:
                    cache.execute("PRAGMA secure_delete = ON")
                    if cache.execute("SELECT 1 FROM sqlite_master WHERE name = 'cache'").fetchone():
                        cache.execute("DELETE FROM cache")
                        cache.execute("VACUUM")
            except sqlite3.Error as error:
                raise StoreError(
                    f"{path} cannot be cleared: {error}. It quotes passages that are to be forgotten; they stay in the"
                    " graph until it can be, or is removed."
                ) from error

    def _stale(self) -> None:
        """Have the data for retrieval made anew: otherwise it would lack the passages of the last `index`."""
        self.raw.ready_to_retrieve = False
        self.raw.ent_node_to_chunk_ids = None

    def _add_new_edges(self, own: Callable[[], None]) -> None:
        """Add edges in place of all those between entities, which every index states again: they would double."""
        graph = self.raw.graph
        entities = [name.startswith("entity-") for name in graph.vs["name"]]
        graph.delete_edges(
            [place for place, (one, other) in enumerate(graph.get_edgelist()) if entities[one] and entities[other]]
        )
        own()

    def _load_existing_openie(self, own: Callable[..., Any], chunk_keys: Any) -> Any:
        """Return what was extracted from the passages it holds: the file may contain other or deleted passages."""
        found, missing = own(chunk_keys)
        held = set(self.raw.chunk_embedding_store.get_all_ids())
        return [one for one in found if one["idx"] in held], missing

    def _save_openie_results(self, own: Callable[..., Any], results: Sequence[Any]) -> None:
        """Save what was extracted; if nothing was, the instance would leave the file as it is, with what has gone."""
        if results:
            own(results)
        else:
            write_json(Path(self.raw.openie_results_path), {"docs": [], "avg_ent_chars": 0, "avg_ent_words": 0})

    # questions

    @contextmanager
    def asking(self, steer: Steer | None, reader: Reader) -> Iterator[None]:
        """Answer questions inside the block with steered vectors, also from an empty store and where no fact counts."""
        wrappers: dict[str, Callable[..., Any]] = {
            "dense_passage_retrieval": self._dense_passage_retrieval,
            "graph_search_with_fact_entities": self._graph_search,
            "qa": partial(self._answer, reader=reader),
        }
        plain: list[Any] = []
        if steer is not None:
            wrappers["get_query_embeddings"] = partial(self._embed, steer=steer, plain=plain)
        # HippoRAG divides by zero for entities without links, and then ignores these results.
        with self._overridden(**wrappers), np.errstate(divide="ignore", invalid="ignore"):
            try:
                yield
            finally:
                if plain:
                    self.raw.query_to_embedding = plain[0]

    def _embed(self, own: Callable[..., Any], queries: Sequence[str], *, steer: Steer, plain: list[Any]) -> None:
        """Embed queries, and put steered vectors in the place of its cache, which is kept in `plain`."""
        own(queries)
        plain.append(self.raw.query_to_embedding)
        self.raw.query_to_embedding = {
            kind: {text: _moved(vectors[text], partial(steer, text, kind)) for text in queries}
            for kind, vectors in plain[0].items()
        }

    def _dense_passage_retrieval(self, own: Callable[..., Any], query: str) -> Any:
        if not self.raw.passage_node_keys:
            return np.array([], dtype=np.intp), np.array([])
        return own(query)

    def _graph_search(
        self, own: Callable[..., Any], *, query: str, top_k_facts: Any, top_k_fact_indices: Any, **options: Any
    ) -> Any:
        """Search; where it asserts that all facts count, with those that do, and without any by similarity."""
        scores = options["query_fact_scores"]
        counting = [place for place, index in enumerate(top_k_fact_indices) if scores[index] > 0]
        for places in (range(len(top_k_facts)), counting):
            facts, indices = ([listed[place] for place in places] for listed in (top_k_facts, top_k_fact_indices))
            try:
                return own(query=query, top_k_facts=facts, top_k_fact_indices=indices, **options)
            except AssertionError:
                continue
        return self.raw.dense_passage_retrieval(query)

    def _answer(self, own: Callable[..., Any], queries: Sequence[Any], *, reader: Reader) -> Any:
        """Answer questions from the texts that a reader makes of passages; the passages themselves are restored."""
        docs = [query.docs for query in queries]
        most = int(self.raw.global_config.qa_top_k)
        try:
            for query, texts in zip(queries, docs, strict=True):
                query.docs = [reader(text) for text in texts[:most]]
            return own(queries)
        finally:
            for query, texts in zip(queries, docs, strict=True):
                query.docs = texts

    @contextmanager
    def _overridden(self, openie: Any = None, **wrappers: Callable[..., Any]) -> Iterator[None]:
        """Call wrappers in place of methods, each with the method as its first argument."""
        wrappers |= {
            "load_existing_openie": self._load_existing_openie,
            "save_openie_results": self._save_openie_results,
        }
        covers = {name: partial(wrapper, getattr(self.raw, name)) for name, wrapper in wrappers.items()}
        if openie is not None:
            covers["openie"] = openie
        own = vars(self.raw)
        before = {name: own[name] for name in covers if name in own}
        own.update(covers)
        try:
            yield
        finally:
            for name in covers:
                del own[name]
            own.update(before)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    with new_file(path, overwrite=True) as made:
        Path(made).write_text(json.dumps(value), encoding="utf-8")


def _moved(vector: Any, move: Callable[[FloatArray], FloatArray]) -> Any:
    """Move an embedding on the unit sphere, and keep its length, shape and type."""
    flat = vector.astype(np.float32).ravel()
    length = math.sqrt(float(flat @ flat))
    if not 0.0 < length < math.inf:
        return vector
    return (move(flat / np.float32(length)) * np.float32(length)).reshape(vector.shape).astype(vector.dtype)


class HippoEncoder:
    """Encoder that embeds texts as a HippoRAG instance embeds its passages.

    Args:
        hipporag: The instance.

    Attributes:
        name, fingerprint: The name of the instance's model.
    """

    def __init__(self, hipporag: Any) -> None:
        self.name = self.fingerprint = f"hipporag:{hipporag.global_config.embedding_model_name}"
        self._hipporag = hipporag

    @cached_property
    def dimension(self) -> int:
        """Length of an embedding."""
        return int(np.shape(self._hipporag.embedding_model.batch_encode(["dimension"]))[1])

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return L2-normalised float32 embeddings, shape `(len(texts), dimension)`."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        # Looked up each time, as the instance's model may be replaced.
        return checked(self, texts, self._hipporag.embedding_model.batch_encode(list(texts)))

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """Return embeddings as `encode` does, in a worker thread."""
        return await in_thread(self.encode, texts)
