"""Retriever that searches any LangChain vector store, steered by the user's preferences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, Field, PrivateAttr, field_validator, model_validator
from typing_extensions import Self, override

from epic_core import Preference
from epic_core.encoders.base import aembed_query, embed_query
from epic_core.errors import EncoderError, EncoderMismatchError, EpicError, InvalidInputError
from epic_core.runtime.batching import unique_preferences
from epic_core.steering import Mode
from epic_core.steering.vector_stores import Found, SteeredSearch, Target, checked_overfetch, refuses_dimension
from epic_core.types import FloatArray, checked_k, checked_text
from epic_core.types.metadata import copied
from epic_core.types.validation import checked_tau
from epic_langchain.adapters import encoder_of
from epic_langchain.embeddings import EpicEmbeddings
from epic_langchain.per_call import per_call

_PER_CALL = ("k", "filter", "preferences", "mode")
# Keys that describe a document in one call only.
_OURS = frozenset({"epic_steered_by", "epic_score", "epic_tier"})


class SteeredRetriever(BaseRetriever):
    """Retriever that searches any LangChain vector store with a query steered by the user's preferences.

        retriever = SteeredRetriever(vectorstore=store, preferences=["I avoid hotels with casinos."])
        documents = retriever.invoke("Where should I stay in Las Vegas?", k=3)

    The query is embedded and steered, and the store is asked for its k nearest documents; embedding the query is nearly
    all that this adds to the cost of the store's own search. If, in mode "signed", the metadata of documents gives
    their stance to these preferences (`EpicDocumentTransformer` writes it) and one of the k conflicts with a
    preference, more are fetched and ranked by similarity and stance; for that, the fetched texts are embedded. The
    vectors of the last 4,096 texts are cached.

    `k`, `filter`, `preferences` and `mode` can be given with each call, or in `config["configurable"]`, so that one
    retriever serves many users: preferences are embedded when they are first used, and those of the last 128 users are
    cached. A filter is in the store's own language, and is passed to the store's search as `filter`.

    Documents are copies. `epic_steered_by` in their metadata names the preferences that steered the query, one a line,
    the nearest first; `epic_score` is the similarity less the stance's penalty, where documents were ranked by stance;
    `epic_tier` is "fallback" for documents of the fallback.

    Attributes:
        vectorstore: Any store that can search by vector.
        preferences: The user's, texts or `epic_core.Preference`s.
        embeddings: The store's: LangChain's `Embeddings`, an encoder of epic_core or its name; default: the store's
            `embeddings`.
        k: How many documents, at least 1.
        mode: "signed" goes towards what a preference likes and away from what it avoids; "paper" is Eq. 7-8, towards
            the nearest preference whatever its stance; "off" is the store's own search.
        fallback: A retriever, or any Runnable from a query to Documents, asked instead of the store for a query that
            matches no preference (unless the mode is "off"). It gets the call's `configurable`.
        floor: Cosine from which a preference matches and steers. Default: the encoder's own, else 0.2, to match; the
            core's weight of a preference (`steering.relevance`) to steer. In paper mode every preference steers,
            unless a floor is given.
        overfetch: How many times k are fetched to rank by stance, at least 1; with 1, stances are ignored.
        search_kwargs: Other arguments of the store's search by vector. A call cannot replace a `filter` given here.

    Raises:
        ValidationError: if an argument is invalid.
        InvalidInputError: from a call, if the store cannot search by vector, or the query or an option is invalid.
        EncoderMismatchError: from a call, if the store holds vectors of another dimension.
        EncoderError: from a call, if the embeddings fail.
    """

    model_config = ConfigDict(
        extra="forbid",
        arbitrary_types_allowed=True,
        validate_default=True,
        validate_assignment=True,
        # A model may hold a key.
        hide_input_in_errors=True,
    )

    vectorstore: VectorStore
    preferences: Sequence[str | Preference] = ()
    embeddings: Any = None
    k: int = 5
    mode: Mode = "signed"
    fallback: Runnable[str, list[Document]] | None = None
    floor: float | None = None
    overfetch: int = 4
    search_kwargs: dict[str, Any] = Field(default_factory=dict)

    _embeddings: Embeddings | None = PrivateAttr()
    _search: SteeredSearch = PrivateAttr()

    @field_validator("preferences", mode="before")
    @classmethod
    def _checked_preferences(cls, preferences: Any) -> Sequence[str | Preference]:
        if isinstance(preferences, Iterable) and not isinstance(preferences, str):
            preferences = tuple(preferences)
        unique = unique_preferences(preferences)
        # Keep texts as they were given: looking them up costs less.
        return preferences if isinstance(preferences, tuple) else tuple(unique)

    @field_validator("k", mode="before")
    @classmethod
    def _checked_k(cls, k: Any) -> int:
        return checked_k(k)

    @field_validator("overfetch", mode="before")
    @classmethod
    def _checked_overfetch(cls, overfetch: Any) -> int:
        return checked_overfetch(overfetch)

    @field_validator("floor")
    @classmethod
    def _checked_floor(cls, floor: float | None) -> float | None:
        return None if floor is None else checked_tau(floor, "floor")

    @field_validator("search_kwargs")
    @classmethod
    def _checked_search_kwargs(cls, search_kwargs: dict[str, Any]) -> dict[str, Any]:
        if "k" in search_kwargs:
            raise InvalidInputError("k has a place of its own: SteeredRetriever(k=...), not search_kwargs.")
        return search_kwargs

    @model_validator(mode="after")
    def _set_up(self) -> Self:
        embeddings = self.vectorstore.embeddings if self.embeddings is None else self.embeddings
        if embeddings is None:
            raise InvalidInputError(
                f"This {type(self.vectorstore).__name__} does not say what its texts were embedded with. Give"
                " embeddings=, the same that it was filled with."
            )
        # An encoder returns unit vectors; the embeddings of other models are used as they are.
        ours = isinstance(embeddings, EpicEmbeddings) or not isinstance(embeddings, Embeddings)
        self._embeddings = None if ours else embeddings
        self._search = SteeredSearch(encoder_of(embeddings), floor=self.floor, overfetch=self.overfetch)
        return self

    @override
    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Return the documents for a query; keyword arguments apply to this call only."""
        return super().invoke(input, config, **self._options(config, kwargs))

    @override
    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Do the same as `invoke` without blocking the event loop."""
        return await super().ainvoke(input, config, **self._options(config, kwargs))

    def _options(self, config: RunnableConfig | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        options = per_call(config, kwargs, _PER_CALL)
        if self.fallback is not None:
            # BaseRetriever does not pass the config on, and a fallback may serve many users, too.
            options["configurable"] = ensure_config(config).get("configurable")
        return options

    @override
    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Any = None,
        preferences: Sequence[str | Preference] | None = None,
        mode: Mode | None = None,
        configurable: dict[str, Any] | None = None,
    ) -> list[Document]:
        call = _Call(self, query, k, filter)
        embedding = call.embedded()
        users = self.preferences if preferences is None else preferences
        target = self._search.target(embedding, users, self.mode if mode is None else mode)
        if self.fallback is not None and not target.matched:
            config = RunnableConfig(callbacks=run_manager.get_child(), configurable=configurable or {})
            return call.of_fallback(self.fallback.invoke(query, config))
        return call.documents(target, self._search.find(target, call.k, call.fetch, _read))

    @override
    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Any = None,
        preferences: Sequence[str | Preference] | None = None,
        mode: Mode | None = None,
        configurable: dict[str, Any] | None = None,
    ) -> list[Document]:
        call = _Call(self, query, k, filter)
        embedding = await call.aembedded()
        users = self.preferences if preferences is None else preferences
        target = await self._search.atarget(embedding, users, self.mode if mode is None else mode)
        if self.fallback is not None and not target.matched:
            config = RunnableConfig(callbacks=run_manager.get_child(), configurable=configurable or {})
            return call.of_fallback(await self.fallback.ainvoke(query, config))
        return call.documents(target, await self._search.afind(target, call.k, call.afetch, _read))

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        params["ls_vector_store_provider"] = type(self.vectorstore).__name__
        params["ls_embedding_provider"] = type(self._embeddings or self._search.encoder).__name__
        return params


class _Call:
    """One call: its query to the store, and the documents made of the answer."""

    def __init__(self, retriever: SteeredRetriever, query: str, k: int | None, filter: Any) -> None:
        self._query = checked_text(query, "The query")
        self.k = retriever.k if k is None else checked_k(k)
        self._store = retriever.vectorstore
        self._search = retriever._search
        self._embeddings = retriever._embeddings
        self._kwargs = retriever.search_kwargs
        if filter is not None:
            if "filter" in self._kwargs:
                raise InvalidInputError("This retriever has a filter of its own, which a call cannot replace.")
            self._kwargs = {**self._kwargs, "filter": filter}

    def embedded(self) -> Sequence[float] | FloatArray:
        """Return the query's embedding, not normalised if the model does not normalise it."""
        if self._embeddings is None:
            return embed_query(self._search.encoder, self._query)
        try:
            return self._embeddings.embed_query(self._query)
        except EpicError:
            raise
        except Exception as error:
            raise self._not_embedded(error) from error

    async def aembedded(self) -> Sequence[float] | FloatArray:
        """Do the same as `embedded` without blocking the event loop."""
        if self._embeddings is None:
            return await aembed_query(self._search.encoder, self._query)
        try:
            return await self._embeddings.aembed_query(self._query)
        except EpicError:
            raise
        except Exception as error:
            raise self._not_embedded(error) from error

    def _not_embedded(self, error: Exception) -> EncoderError:
        return EncoderError(f"{type(self._embeddings).__name__} could not embed the query: {error}")

    def fetch(self, vector: list[float], count: int) -> list[Document]:
        """Return the documents nearest to a vector, as the store returns them."""
        try:
            return self._store.similarity_search_by_vector(vector, k=count, **self._kwargs)
        except Exception as error:
            self._explain(error, vector)
            raise

    async def afetch(self, vector: list[float], count: int) -> list[Document]:
        """Do the same as `fetch` without blocking the event loop."""
        try:
            return await self._store.asimilarity_search_by_vector(vector, k=count, **self._kwargs)
        except Exception as error:
            self._explain(error, vector)
            raise

    def _explain(self, error: Exception, vector: list[float]) -> None:
        """Raise the error that explains a store's failure, if its cause is known."""
        store = type(self._store).__name__
        if isinstance(error, NotImplementedError):
            raise InvalidInputError(
                f"{store} cannot search by vector, and a steered query is one. Use a store that has"
                " similarity_search_by_vector, or this store's own retriever."
            ) from error
        if refuses_dimension(error, vector):
            raise EncoderMismatchError(
                f"{store} refuses the query's embedding, {len(vector)} numbers made with"
                f" {self._search.encoder.name}: {error}. Give embeddings=, the same that the store was filled"
                " with; or fill it anew."
            ) from error

    def documents(self, target: Target, found: Sequence[Found[Document]]) -> list[Document]:
        """Return copies of the store's documents, with `epic_steered_by` and `epic_score` in their metadata."""
        said = {"epic_steered_by": "\n".join(target.steered_by)} if target.steered_by else {}
        return [_with(one.document, said if one.score is None else {**said, "epic_score": one.score}) for one in found]

    def of_fallback(self, found: Any) -> list[Document]:
        """Return copies of the first k documents that the fallback returned."""
        if not isinstance(found, (list, tuple)) or not all(isinstance(document, Document) for document in found):
            raise InvalidInputError(
                f"The fallback returned {type(found).__name__}, not a list of Documents. Give a retriever, or a"
                " Runnable that returns Documents."
            )
        return [_with(document, {"epic_tier": "fallback"}) for document in found[: self.k]]


def _read(document: Document) -> tuple[str, Mapping[str, Any]]:
    return document.page_content, document.metadata


def _with(document: Document, said: Mapping[str, Any]) -> Document:
    """Return a copy with more metadata; a store may have returned the very objects that it holds."""
    own = {key: copied(value) for key, value in document.metadata.items() if key not in _OURS}
    return document.model_copy(update={"metadata": {**own, **said}})
