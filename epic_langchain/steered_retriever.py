"""Retriever that searches any LangChain vector store, steered by the user's preferences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import LangSmithRetrieverParams
from langchain_core.vectorstores import VectorStore
from pydantic import BeforeValidator, Field, PrivateAttr, field_validator, model_validator
from typing_extensions import Self, override

from epic_langchain.documents import FoundDocument, described
from epic_langchain.models import EpicEmbeddings, encoder_of
from epic_langchain.retriever import OptionsRetriever, RunManager
from epic_memory import Preference
from epic_memory.encoders.base import aembed_query, embed_query
from epic_memory.errors import InvalidInputError
from epic_memory.runtime.effects import Call, Effects
from epic_memory.steering import Mode
from epic_memory.types import FloatArray, checked_k, checked_text
from epic_memory.types.modes import MinScore, checked_min_score
from epic_plugins.judging_memory import several_preferences
from epic_plugins.vector_stores import Found, SteeredSearch, Target, explain_dimension, explain_embedding
from epic_plugins.wrong_arguments import explained


@explained()
class SteeredRetriever(OptionsRetriever):
    """Retriever that searches any LangChain vector store with a query steered by the user's preferences.

        retriever = SteeredRetriever(vectorstore=store, preferences=["I avoid hotels with casinos."])
        documents = retriever.invoke("Where should I stay in Las Vegas?", k=3)

    The query is embedded and steered, and the store is asked for its k nearest documents. If, in mode "signed", the
    metadata of documents gives their stance to these preferences (`EpicDocumentTransformer` writes it) and one of the k
    conflicts with a preference, more are fetched and ranked by similarity and stance; for that, their texts are
    embedded, and the last 4,096 vectors cached.

    `k`, `filter`, `preferences`, `steering` and `min_score` can be given with each call, or in `config["configurable"]`
    with the prefix `epic_`, so that one retriever serves many users. A filter is in the store's own language.

    Documents are copies. `epic_steered_by` in their metadata names the preferences that steered the query, one a line,
    the nearest first; `epic_score` is the similarity less the stance's penalty, where documents were ranked by stance.

    Attributes:
        vectorstore: Any store that can search by vector.
        preferences: The user's, texts or `epic_memory.Preference`s.
        embeddings: The store's: LangChain's `Embeddings`, an encoder of epic_memory or its name; default: the store's
            `embeddings`.
        k: How many documents, at least 1.
        steering: "signed" goes towards what a preference likes and away from what it avoids; "paper" is Eq. 7-8,
            towards the nearest preference whatever its stance; "off" is the store's own search.
        min_score: The least relevance of a document: None, which returns what the store finds; a cosine of its text
            with the steered query; or "auto" for the encoder's own floor. For a least relevance texts are embedded.
        search_kwargs: Other arguments of the store's search by vector. A call cannot replace a `filter` given here.

    Raises:
        ValidationError: if an argument is invalid.
        InvalidInputError: from a call, if the store cannot search by vector, or the query or an option is invalid.
        EncoderMismatchError: from a call, if the store holds vectors of another dimension.
        EncoderError: from a call, if the embeddings fail.
    """

    vectorstore: VectorStore
    preferences: Annotated[Sequence[str | Preference], BeforeValidator(several_preferences)] = ()
    steering: Mode = "signed"
    min_score: Annotated[MinScore, BeforeValidator(checked_min_score)] = None
    search_kwargs: dict[str, Any] = Field(default_factory=dict)

    _per_call: ClassVar[tuple[str, ...]] = ("k", "filter", "preferences", "steering", "min_score")
    _embeddings: Embeddings | None = PrivateAttr()
    _search: SteeredSearch = PrivateAttr()

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
        self._search = SteeredSearch(encoder_of(embeddings))
        return self

    @override
    def _found(
        self,
        query: str,
        run_manager: RunManager,
        *,
        k: int | None = None,
        filter: Any = None,
        preferences: Sequence[str | Preference] | None = None,
        steering: Mode | None = None,
        **given: MinScore,
    ) -> Effects[list[Document]]:
        query = checked_text(query, "The query")
        k = self.k if k is None else checked_k(k)
        kwargs = self._store_options(filter)
        min_score = checked_min_score(given.get("min_score", self.min_score))
        embedding: Sequence[float] | FloatArray = yield self._embedded(query)
        users = self.preferences if preferences is None else preferences
        target: Target = yield from self._search.target(embedding, users, steering or self.steering, query)
        searches = self.vectorstore.similarity_search_by_vector, self.vectorstore.asimilarity_search_by_vector
        explain = partial(self._not_found, target.vector)

        def fetch(vector: list[float], count: int | None) -> Call:
            return Call(*searches, vector, k=count, **kwargs, explain=explain)

        found: Found[Document] = yield from self._search.find(target, k, fetch, _read, min_score)
        steered_by = "\n".join(target.steered_by) or None
        return [_copied(document, steered_by=steered_by, score=score) for document, score in found]

    def _store_options(self, filter: Any) -> dict[str, Any]:
        if filter is None:
            return self.search_kwargs
        if "filter" in self.search_kwargs:
            raise InvalidInputError("This retriever has a filter of its own, which a call cannot replace.")
        return {**self.search_kwargs, "filter": filter}

    def _embedded(self, query: str) -> Call:
        """Return the call for the query's embedding, which is not normalised if the model does not normalise it."""
        if self._embeddings is None:
            return Call(embed_query, aembed_query, self._search.encoder, query)
        model = self._embeddings
        return Call(model.embed_query, model.aembed_query, query, explain=partial(explain_embedding, model))

    def _not_found(self, vector: list[float], error: Exception) -> None:
        """Raise the error that explains a store's failure, if its cause is known."""
        if isinstance(error, NotImplementedError):
            raise InvalidInputError(
                f"{type(self.vectorstore).__name__} cannot search by vector, and a steered query is one. Use a store"
                " that has similarity_search_by_vector, or this store's own retriever."
            ) from error
        advice = "Give embeddings=, the same that the store was filled with; or fill it anew."
        explain_dimension(self.vectorstore, self._search.encoder, advice, vector, error)

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        params["ls_vector_store_provider"] = type(self.vectorstore).__name__
        params["ls_embedding_provider"] = type(self._embeddings or self._search.encoder).__name__
        return params


def _read(document: Document) -> tuple[str, Mapping[str, Any]]:
    return document.page_content, document.metadata


def _copied(document: Document, **facts: Any) -> Document:
    metadata = described(document.metadata, **facts)
    if type(document) is not Document:  # a store's own kind, with fields of its own
        return document.model_copy(update={"metadata": metadata})
    return FoundDocument(id=document.id, page_content=document.page_content, metadata=metadata)
