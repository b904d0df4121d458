"""Document transformer for any ingestion pipeline: the coarse filter and fine verification."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.documents import BaseDocumentTransformer, Document
from langchain_core.load.serializable import SerializedNotImplemented
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import ConfigDict, Field, PrivateAttr, model_validator
from typing_extensions import Self, override

from epic_langchain.arguments import per_call, without_settings
from epic_langchain.documents import kept_document
from epic_langchain.events import judge_event
from epic_langchain.models import calling_with, encoder_of, verifier_of
from epic_memory import BuildReport, Decision, EpicMemory, Item, Preference, Settings
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.runtime.batching import unique_preferences
from epic_memory.runtime.effects import in_thread
from epic_memory.types.verdicts import Judged
from epic_plugins.judging_memory import JudgingModel, Prepared
from epic_plugins.several import checked, several
from epic_plugins.wrong_arguments import explained

_logger = logging.getLogger(__name__)

_USERS = 32


class _PreparedForUsers:
    """A prepared memory for each of the users served last. Safe to use from several threads."""

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[Preference, ...], Prepared] = OrderedDict()
        self._lock = threading.Lock()

    def memory(self, preferences: Iterable[str | Preference], *, encoder: Encoder, settings: Settings) -> EpicMemory:
        """Return the memory of a user, as `Prepared.memory` does; no user waits for another's."""
        unique = tuple(unique_preferences(preferences))
        with self._lock:
            prepared = self._made.setdefault(unique, Prepared())
            self._made.move_to_end(unique)
            while len(self._made) > _USERS:
                self._made.popitem(last=False)
        return prepared.memory(unique, encoder=encoder, settings=settings)


@explained()
class EpicDocumentTransformer(
    JudgingModel, RunnableSerializable[Sequence[Document], list[Document]], BaseDocumentTransformer
):
    """Transformer that keeps the documents that matter to a user, with guidance in flat `epic_*` metadata.

        keep = EpicDocumentTransformer(preferences=["I follow a strict vegan diet."], llm=ChatOllama(model="qwen3:4b"))
        documents = keep.transform_documents(loader.load())
        print(keep.report)

    `epic_instruction`, `epic_preference`, `epic_stance`, `epic_rationale`, `epic_confidence` and `epic_similarity`
    describe the strongest alignment, `epic_alignments` has all of them as JSON. The transformer is also a Runnable, for
    another user as `invoke(documents, preferences=[...])`. Other metadata is kept, input documents are never changed,
    and documents whose text is white space are left out.

    If the model fails on a document, it is not returned; it is in `undecided`, the reason is in `report.failures`, and
    a warning is logged. Transform it again once the model answers: existing verdicts are reused.

    Attributes:
        preferences: The user's.
        embeddings: LangChain's `Embeddings`, an encoder of epic_memory or its name; default: the embedded encoder.
        llm: A chat model, a LanguageModel of epic_memory or the name of one ("ollama:qwen3:4b"), or a Verifier;
            default: the embedded verifier, which needs no model.
        settings: How to judge, as for `EpicMemory`: `Settings(tau=..., model_budget=...)`. What the
            budget leaves over is undecided.
        memory: Judge by this memory instead: its preferences, models and settings; its file caches what a model
            decided. Nothing else is written into it.
        progress: Show a progress bar.

    Raises:
        ValidationError: if an argument is invalid.
    """

    # Frozen: memories prepared under one setting would be used under another.
    # hide_input_in_errors: a model may hold a key.
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, frozen=True, hide_input_in_errors=True)

    embeddings: Any = None
    progress: bool = Field(default=False, exclude=True)

    _prepared: _PreparedForUsers = PrivateAttr(default_factory=_PreparedForUsers)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    _undecided: list[Document] = PrivateAttr(default_factory=list)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self._is_judged_by_memory("embeddings"):
            self._encoder = encoder_of(self.embeddings)
            self._verifier = verifier_of(self.llm, self._encoder, self.settings)
        return self

    # results

    @property
    def undecided(self) -> list[Document]:
        """The input documents that the last run left without a verdict, whatever its preferences.

        Transform them again, under the same preferences. Of runs at the same time, as in `batch`, the one that ends
        last counts, as for `report`.
        """
        return list(self._undecided)

    @override
    def to_json_not_implemented(self) -> SerializedNotImplemented:
        """Return the description that traces get: without the preferences, which are the user's own words."""
        return without_settings(super().to_json_not_implemented())

    # LangChain's interface

    @override
    def invoke(self, input: Sequence[Document], config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Return the documents that are kept. `preferences=` replaces the transformer's own for this call."""
        return self._call_with_config(self._run, input, config, **kwargs)

    @override
    async def ainvoke(
        self, input: Sequence[Document], config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        return await self._acall_with_config(self._arun, input, config, **kwargs)

    @override
    def transform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        """Return the documents that are kept, as `invoke` does."""
        return self.invoke(documents, **kwargs)

    @override
    async def atransform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        return await self.ainvoke(documents, **kwargs)

    def lazy_transform(
        self,
        documents: Iterable[Document],
        config: RunnableConfig | None = None,
        *,
        preferences: Sequence[str | Preference] | None = None,
    ) -> Iterator[Document]:
        """Yield kept documents of any iterable, a few at a time; `report` is set when the iterator ends or closes."""
        memory = self._memory_for(preferences, config)
        run = _Run(self)
        judging = memory.judge(run.items(documents), report=run.report, progress=self.progress)
        try:
            while True:
                # Not around the yield: the config would apply to the caller as well.
                with calling_with(config):
                    judged = next(judging, None)
                if judged is None:
                    judge_event((config or {}).get("callbacks"), run.report).run(None)
                    return
                yield from run.kept(judged)
        finally:
            judging.close()  # type: ignore[attr-defined]
            run.finish()

    async def alazy_transform(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        config: RunnableConfig | None = None,
        *,
        preferences: Sequence[str | Preference] | None = None,
    ) -> AsyncIterator[Document]:
        """Do the same as `lazy_transform` without blocking the event loop; also takes an asynchronous iterable."""
        memory = await in_thread(self._memory_for, preferences, config)
        run = _Run(self)
        items = run.aitems(documents) if isinstance(documents, AsyncIterable) else run.items(documents)
        judging = memory.ajudge(items, report=run.report, progress=self.progress)
        try:
            while True:
                with calling_with(config):
                    judged = await anext(judging, None)
                if judged is None:
                    await judge_event((config or {}).get("callbacks"), run.report).arun()
                    return
                for document in run.kept(judged):
                    yield document
        finally:
            await judging.aclose()  # type: ignore[attr-defined]
            run.finish()

    # running

    def _run(
        self,
        documents: Sequence[Document],
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **options: Any,
    ) -> list[Document]:
        return list(self.lazy_transform(list(_several(documents)), config, **options))

    async def _arun(
        self,
        documents: Sequence[Document],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **options: Any,
    ) -> list[Document]:
        kept = self.alazy_transform(list(_several(documents)), config, **options)
        return [document async for document in kept]

    def _memory_for(self, preferences: Sequence[str | Preference] | None, config: RunnableConfig | None) -> EpicMemory:
        """Return the memory that judges by the preferences of a call, by default the transformer's own."""
        given = per_call(config, {"preferences": preferences}, ("preferences",))
        if self.memory is not None:
            if given:
                raise InvalidInputError("With memory=, preferences cannot be given for a call: it has its own.")
            return self.memory
        users = given.get("preferences", self.preferences)
        return self._prepared.memory(users, encoder=self._encoder, settings=self._judging_settings)


class _Run:
    """One run: its report, and the documents that wait for a verdict."""

    def __init__(self, transformer: EpicDocumentTransformer) -> None:
        self.report = BuildReport()
        self._transformer = transformer
        self._waiting: deque[Document] = deque()
        self._undecided: list[Document] = []
        self._seen = self._blank = 0

    def items(self, documents: Iterable[Document]) -> Iterable[Item]:
        """Return the items of documents; the documents are queued until their items are judged."""
        items = (item for document in _several(documents) for item in self._item(document))
        # A list is read at once: invalid documents raise before a model is asked, and the progress bar has a total.
        return list(items) if isinstance(documents, (list, tuple)) else items

    async def aitems(self, documents: AsyncIterable[Document]) -> AsyncIterator[Item]:
        """Yield the items of an asynchronous iterable of documents, as `items` does."""
        async for document in documents:
            for item in self._item(checked(document, Document, "Documents")):
                yield item

    def _item(self, document: Document) -> Iterator[Item]:
        self._seen += 1
        if not document.page_content.strip():
            self._blank += 1
            return
        try:
            # Without its metadata, which need not be JSON.
            item = Item(id=document.id or "", text=document.page_content)
        except InvalidInputError as error:
            named = "" if document.id is None else f" (id {document.id!r})"
            raise InvalidInputError(f"Document {self._seen}{named}: {error}") from None
        self._waiting.append(document)
        yield item

    def kept(self, judged: Judged) -> list[Document]:
        """Return the output for the document that has waited longest."""
        document = self._waiting.popleft()
        if judged.verdict.decision is Decision.UNDECIDED:
            self._undecided.append(document)
        return [kept_document(judged, document)] if judged.kept else []

    def finish(self) -> None:
        """Store the report and the undecided documents in the transformer."""
        if self._blank:
            self.report.warnings.append(f"{self._blank} documents without text were left out.")
        if self._undecided:
            said = (
                f"{len(self._undecided)} documents are undecided: transform `undecided` again when the model answers."
            )
            self.report.warnings.append(said)
            # A caller inside a chain sees neither the report nor the list of undecided documents.
            _logger.warning("%s %s", said, next(iter(self.report.failures.values()), ""))
        with self._transformer._lock:
            self._transformer._report, self._transformer._undecided = self.report, self._undecided


def _several(documents: Iterable[Document]) -> Iterator[Document]:
    return several(documents, Document, "Documents")
