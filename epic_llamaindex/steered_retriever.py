"""Retriever that steers any LlamaIndex retriever that searches by vector with the user's preferences."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from llama_index.core.base.base_auto_retriever import BaseAutoRetriever
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import VectorStoreQueryMode
from llama_index_instrumentation import get_dispatcher

from epic_llamaindex.models import EpicEmbedding, encoder_of
from epic_llamaindex.nodes import copy_of, text_of
from epic_llamaindex.retriever import EpicRetriever
from epic_llamaindex.vectorstore import EpicVectorStore
from epic_memory import Preference
from epic_memory.encoders import Encoder
from epic_memory.encoders.base import Embed
from epic_memory.errors import EncoderError, EncoderMismatchError, InvalidInputError
from epic_memory.runtime.effects import Call, Effects, arun, run
from epic_memory.types import FloatArray
from epic_memory.types.modes import MinScore, Mode, checked_min_score, checked_mode
from epic_plugins.copies import Open
from epic_plugins.judging_memory import several_preferences
from epic_plugins.vector_stores import OVERFETCH, Found, SteeredSearch, Target, explain_dimension, explain_embedding
from epic_plugins.wrong_arguments import explained

dispatcher = get_dispatcher(__name__)

_KEYWORDS = (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE)
# These classes embed the query with their own model and ignore the embedding in the bundle.
_DEAF = frozenset({"MultiModalVectorIndexRetriever", "KGTableRetriever"})


@explained(index="Give a retriever of it: SteeredRetriever(index.as_retriever(), ...).")
class SteeredRetriever(Open, BaseRetriever):
    """Retriever that asks another retriever with a query steered by the user's preferences.

        leaf = index.as_retriever(similarity_top_k=5)
        retriever = SteeredRetriever(leaf, ["I avoid hotels with casinos."])
        nodes = retriever.retrieve("Where should I stay in Las Vegas?")

    The leaf has to search by the embedding in a query bundle: a VectorIndexRetriever, a property graph's
    VectorContextRetriever, or any other with an embedding model. The query is embedded as the leaf would embed it and
    steered, and the leaf is asked with that embedding; its `similarity_top_k` and filters apply. If, in mode "signed",
    the metadata of nodes gives their stance to these preferences (`EpicTransform` writes it) and one of them conflicts
    with a preference, a copy of the leaf fetches more, and the best of them by similarity and stance are returned, as
    many as the leaf had found; for that, the fetched texts are embedded, and the last 4,096 vectors cached.

    Put retrievers that ask others (fusion, router, auto-merging) around it: QueryFusionRetriever([SteeredRetriever(
    leaf, ...)]). Their bundles should come without an embedding, or with one of this model's: an embedding in the
    bundle is taken for the query's.

    Nodes are copies, whose scores are Python floats: the leaf's, which are similarities to the steered query; or, where
    nodes were ranked by stance, the similarity less the stance's penalty. Their metadata is the leaf's, so that a
    fusion with other retrievers, or of several queries, recognises a node.

    One retriever serves one user; another over the same leaf costs no more than embedding the preferences. Safe to use
    from several threads.

    Args:
        retriever: The leaf. It is never changed.
        preferences: The user's, texts or `epic_memory.Preference`s.
        embed_model: The leaf's: a `BaseEmbedding`, an encoder of epic_memory or its name; default: the leaf's own.
        steering: "signed" goes towards what a preference likes and away from what it avoids; "paper" is Eq. 7-8,
            towards the nearest preference whatever its stance; "off" is the leaf's own search.
        min_score: The least relevance of a node: None, which returns what the leaf finds; a cosine of its text with the
            steered query; or "auto" for the encoder's own floor. For a least relevance texts are embedded.
        callback_manager, object_map, objects, verbose: As for `BaseRetriever`.

    Raises:
        InvalidInputError: if an argument is invalid, or the retriever does not search by the embedding in a bundle;
            from a call, for a query without text.
        EncoderMismatchError: if `embed_model` is not the leaf's; from a call, if the leaf holds vectors of another
            dimension, or the bundle brought an embedding of another.
        EncoderError: from a call, if the embedding model fails.
    """

    def __init__(
        self,
        retriever: BaseRetriever,
        preferences: Iterable[str | Preference] = (),
        *,
        embed_model: BaseEmbedding | Encoder | str | None = None,
        steering: Mode = "signed",
        min_score: MinScore = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: Sequence[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        self._leaf = _checked_leaf(retriever)
        model = _model_of(retriever, embed_model)
        self.preferences = preferences
        self._embed_model = model if isinstance(model, BaseEmbedding) else None
        self._steering = checked_mode(steering)
        self._min_score = checked_min_score(min_score)
        self._search = SteeredSearch(encoder_of(model))
        super().__init__(
            callback_manager=callback_manager,
            object_map=object_map,
            objects=None if objects is None else list(objects),
            verbose=verbose,
        )

    @property
    def preferences(self) -> tuple[str | Preference, ...]:
        """The user's preferences; a change takes effect at the next call."""
        return self._preferences

    @preferences.setter
    def preferences(self, preferences: Iterable[str | Preference]) -> None:
        self._preferences = several_preferences(preferences)

    @dispatcher.span
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run(self._found(query_bundle))

    # BaseRetriever decorates `_retrieve`, but not this method.
    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await arun(self._found(query_bundle), threaded=False)

    def _found(self, query_bundle: QueryBundle) -> Effects[list[NodeWithScore]]:
        bundle = _checked_bundle(query_bundle)
        _check_steered_once(self._leaf)
        embedding: Sequence[float] | FloatArray | None = bundle.embedding
        if embedding is None:
            embedding = yield from self._embedded(bundle.embedding_strs)
        try:
            target: Target = yield from self._search.target(
                embedding, self._preferences, self._steering, bundle.query_str
            )
        except EncoderError as error:
            if bundle.embedding is None:
                raise
            raise EncoderMismatchError(
                f"{error} The embedding came with the query bundle; a retriever that was given the same bundle before"
                " may have written its own into it: give each a bundle of its own."
            ) from error
        bundle = replace(bundle, embedding=target.vector)

        def fetch(vector: list[float], count: int | None) -> Call | None:
            leaf = self._leaf if count is None else self._wider()
            return None if leaf is None else self._ask(leaf, bundle)

        found: Found[NodeWithScore] = yield from self._search.find(target, None, fetch, _read, self._min_score)
        # A fusion identifies a node by text and metadata: they stay the leaf's.
        return [
            NodeWithScore(node=copy_of(one.node), score=one.score if score is None else score) for one, score in found
        ]

    def _embedded(self, texts: list[str]) -> Effects[Sequence[float] | FloatArray]:
        """Return the query's embedding, or the mean of several texts' embeddings, as the leaf would compute it."""
        model = self._embed_model
        if model is None:
            vectors: FloatArray = yield Embed(self._search.encoder, texts, "", query=True)
            mean: FloatArray = np.mean(vectors, axis=0, dtype=np.float32)
            return mean
        embedding: list[float] = yield Call(
            model.get_agg_embedding_from_queries,
            model.aget_agg_embedding_from_queries,
            texts,
            explain=partial(explain_embedding, model),
        )
        return embedding

    def _ask(self, leaf: BaseRetriever, bundle: QueryBundle) -> Call:
        advice = "Its index was made with another model: give the retriever that embed_model, or make the index anew."
        explain = partial(explain_dimension, self._leaf, self._search.encoder, advice, bundle.embedding or ())
        # A copy of the bundle, as retrievers write into it.
        return Call(leaf.retrieve, leaf.aretrieve, replace(bundle), explain=explain)

    def _wider(self) -> BaseRetriever | None:
        """Return a copy of the leaf that finds more; None if the leaf does not show how many it finds."""
        for name in ("_similarity_top_k", "similarity_top_k"):
            count = vars(self._leaf).get(name)
            if isinstance(count, int):
                wider = copy.copy(self._leaf)
                setattr(wider, name, OVERFETCH * count)
                return wider
        return None


def _read(found: NodeWithScore) -> tuple[str, Mapping[str, Any]]:
    return text_of(found.node), found.node.metadata


def _checked_bundle(bundle: object) -> QueryBundle:
    if not isinstance(bundle, QueryBundle):
        raise InvalidInputError(f"A query is a text or a QueryBundle, not {type(bundle).__name__}.")
    if bundle.embedding is None and not any(text.strip() for text in bundle.embedding_strs):
        raise InvalidInputError("The query is empty: give a text, or a bundle with an embedding.")
    return bundle


def _checked_leaf(retriever: object) -> BaseRetriever:
    kind = type(retriever).__name__
    if not isinstance(retriever, BaseRetriever):
        raise InvalidInputError(f"retriever must be a LlamaIndex retriever, not {kind}: index.as_retriever().")
    if isinstance(retriever, (EpicRetriever, SteeredRetriever)):
        raise InvalidInputError(f"{kind} steers its queries itself: give the preferences to it.")
    if isinstance(retriever, BaseAutoRetriever) or _asks_others(retriever):
        raise InvalidInputError(
            f"{kind} asks other retrievers, and need not hand them the query's embedding. Steer what it asks instead:"
            f" {kind}(... SteeredRetriever(leaf, preferences) ...)."
        )
    _check_steered_once(retriever)
    store = getattr(retriever, "_vector_store", None)
    if (
        getattr(retriever, "_vector_store_query_mode", None) in _KEYWORDS
        or not getattr(store, "is_embedding_query", True)
        or _DEAF & {base.__name__ for base in type(retriever).__mro__}
    ):
        raise InvalidInputError(
            f"This {kind} does not search by the embedding in a query bundle, so nothing can steer it. Take a retriever"
            " of a vector index in a mode that does, or use this one beside a steered one, in a QueryFusionRetriever."
        )
    return retriever


def _check_steered_once(leaf: BaseRetriever) -> None:
    store = getattr(leaf, "_vector_store", None)
    if not isinstance(store, EpicVectorStore):
        return
    # The arguments that a VectorIndexRetriever passes to its store with each query.
    options = getattr(leaf, "_kwargs", None) or {}
    own = options.get("preferences")
    own = store.preferences if own is None else own
    if own and (options.get("steering") or store.steering) != "off":
        raise InvalidInputError(
            f"The EpicVectorStore that this {type(leaf).__name__} searches is given preferences itself, and would steer"
            " a second time. Give the preferences to one of them."
        )


def _asks_others(retriever: BaseRetriever) -> bool:
    held = {name: value for name, value in vars(retriever).items() if name != "object_map"}
    for value in held.values():
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (value,)
        if any(isinstance(part, BaseRetriever) for part in parts):
            return True
    return False


def _model_of(retriever: BaseRetriever, given: BaseEmbedding | Encoder | str | None) -> BaseEmbedding | Encoder:
    """Return the model that embeds queries and preferences: the leaf's."""
    if isinstance(given, str):
        given = encoder_of(given)
    own = getattr(retriever, "_embed_model", None)
    kind = type(retriever).__name__
    if not isinstance(own, BaseEmbedding):
        if given is None:
            raise InvalidInputError(
                f"This {kind} does not say what it embeds with. Give embed_model=, the same that its index was made"
                " with; if it asks other retrievers, steer those; if it searches by keywords, it cannot be steered."
            )
        return given
    if given is None:
        return own
    name, own_name = encoder_of(given).name, encoder_of(own).name
    # An encoder that is no model of the framework may be the same model under another name.
    if name != own_name and (isinstance(given, BaseEmbedding) or isinstance(own, EpicEmbedding)):
        raise EncoderMismatchError(
            f"This {kind} embeds with {own.class_name()} {own.model_name!r}, embed_model= is {type(given).__name__}"
            f" {name!r}: a query of one model cannot be found among vectors of another. Leave out embed_model=."
        )
    return given
