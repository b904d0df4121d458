"""The coarse filter and fine verification as a step of any LlamaIndex ingestion."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal

from llama_index.core.ingestion import IngestionPipeline, arun_transformations, run_transformations
from llama_index.core.schema import BaseNode, MetadataMode, TransformComponent
from llama_index_instrumentation import get_dispatcher
from pydantic import (
    Field,
    PrivateAttr,
    computed_field,
    model_validator,
)
from typing_extensions import Self, override

from epic_core import BuildReport, EpicMemory, Preference
from epic_core.encoders import Encoder, aembed, embed
from epic_core.encoders.base import default_tau
from epic_core.errors import InvalidInputError
from epic_core.integrations.judging_memory import Prepared, settings_of
from epic_core.lm.failures import said
from epic_core.runtime.batching import unique_preferences
from epic_core.runtime.threads import in_thread
from epic_core.types.validation import checked_keep_rate, checked_tau
from epic_core.types.verdicts import Judged
from epic_core.verification import Verifier
from epic_llamaindex.adapters import encoder_of, verifier_of
from epic_llamaindex.component import JudgingComponent
from epic_llamaindex.reingest import areplace, cache_of, documents_of, replace
from epic_llamaindex.run import Run, check_last
from epic_llamaindex.seen import Ledger, Reprocessed
from epic_llamaindex.told import told

_dispatcher = get_dispatcher(__name__)

# What a memory has of its own.
_A_MEMORYS = ("preferences", "encoder", "llm", "tau", "keep_rate", "coarse", "fine")


class EpicTransform(JudgingComponent, TransformComponent):
    """Nodes in, those out that matter to this user: a step of an `IngestionPipeline`, or of an index's transformations.

        keep = EpicTransform(preferences=["I follow a strict vegan diet."])
        pipeline = IngestionPipeline(transformations=[SentenceSplitter(), keep, EpicEmbedding()])
        nodes = pipeline.run(documents=documents)
        print(keep.report)

    Ids and texts stay as they are. Each node that comes out is a copy with its guidance in flat `epic_*` metadata,
    which is neither embedded nor shown to a model: `epic_instruction`, `epic_preference`, `epic_stance`,
    `epic_rationale`, `epic_confidence` and `epic_similarity` of the strongest alignment, `epic_alignments` with all of
    them as JSON, and `epic_rewrite` where the verifier rewrites. Links to nodes that are left out lead to the next one
    that is not; the link to the source document stays. Images and other media without text cannot be judged and pass as
    they are; nodes with no more than white space are left out.

    With `embed_model=`, the embedding of a node is that of its strongest instruction (or of its rewritten text), so
    that it is found by it. An index keeps an embedding that is there; a later embedding step of a pipeline would put
    another in its place, and is refused.

    The cache of a pipeline takes `preferences`, `tau` and the other settings into its key, and of the models the names
    in `models`, prompts included: change one of them, and nodes are judged anew. A document store skips documents that
    did not change, also after a change of preferences: `reingest(pipeline)` takes them up again. Without a docstore,
    the last `ledger` nodes are remembered as they came in, in 2 to 6 kB of RAM each, and `reprocess()` judges them
    anew:

        keep.preferences = [*keep.preferences, "I only travel by train."]
        changed = keep.reprocess()
        index.delete_nodes(changed.gone)
        index.insert_nodes(changed.kept)

    Nodes that the failure of a model leaves undecided are not lost: unless `on_undecided` is "skip", the call ends with
    an `UndecidedError`, before anything is cached or stored. What was decided is remembered (in this process, or in the
    file of `memory`), so that the same call, made again once the model answers, asks only for the rest. Where a model
    can be reached and still cannot decide about a node, `on_undecided="keep"` does not hold up the others.

    Attributes:
        preferences: The user's, texts or `epic_core.Preference`s.
        embed_model: Embeds instructions, and what the coarse filter compares; a `BaseEmbedding`, an encoder of
            epic_core or its name. Default: nodes get no embedding, and the embedded encoder compares.
        encoder: What the coarse filter compares with, if that is not to be `embed_model`.
        llm: Verifies: an `LLM`, or a LanguageModel or Verifier of epic_core; default: the embedded verifier.
        tau: The coarse filter's threshold, a cosine; default: the encoder's own, else 0.3.
        keep_rate: Instead of tau, the share of the first nodes that shall pass, in (0, 1].
        coarse, fine: Switch a stage off.
        annotate: Write guidance into the metadata; off for property graphs, into which metadata would leak: a
            `SteeredVectorContextRetriever(guidance=...)` gives it back to what is retrieved, and `delete_passages` is
            for them in the place of `delete_nodes`.
        on_undecided: What to do with undecided nodes: "raise"; "keep": take them in as they are, without guidance; or
            "skip": leave them out. `undecided` has them, and a warning is logged. A pipeline's cache and docstore take
            their documents for done then.
        metadata_mode: How much of a node's metadata is judged with its text: MetadataMode.NONE, or as much as is
            embedded (EMBED) or shown to a model (LLM), such as titles and the headers of a section.
        ledger: How many nodes are remembered for `reprocess`, besides those that are undecided.
        memory: Judge by this memory instead: its preferences, encoder and verifier, and its file remembers what a model
            decided. Nothing else is written into it.
        show_progress: Show a bar.

    Raises:
        ValidationError: for arguments that cannot be.
    """

    embed_model: Any = Field(default=None, exclude=True, repr=False)
    encoder: Any = Field(default=None, exclude=True, repr=False)
    llm: Any = Field(default=None, exclude=True, repr=False)
    tau: float | None = None
    keep_rate: float | None = None
    coarse: bool = True
    fine: bool = True
    annotate: bool = True
    on_undecided: Literal["raise", "keep", "skip"] = "raise"
    metadata_mode: MetadataMode = MetadataMode.NONE
    ledger: int = Field(default=10_000, ge=0, exclude=True)
    memory: EpicMemory | None = Field(default=None, exclude=True, repr=False)
    show_progress: bool = Field(default=False, exclude=True)

    _encoder: Encoder = PrivateAttr()
    _verifier: Verifier = PrivateAttr()
    _embedder: Encoder | None = PrivateAttr(default=None)
    _parts: tuple[Any, ...] = PrivateAttr(default=())
    _prepared: Prepared = PrivateAttr(default_factory=Prepared)
    _seen: Ledger = PrivateAttr(default_factory=lambda: Ledger(0))
    _report: BuildReport = PrivateAttr(default_factory=BuildReport)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.memory is not None:
            fields = type(self).model_fields
            given = [
                name
                for name in _A_MEMORYS
                if getattr(self, name) != fields[name].get_default(call_default_factory=True)
            ]
            if given:
                raise InvalidInputError(f"With memory=, {', '.join(given)} would be ignored: it has its own.")
        if self.tau is not None and self.keep_rate is not None:
            raise InvalidInputError("Give tau or keep_rate, not both.")
        unique_preferences(self.preferences)
        if self.tau is not None:
            checked_tau(self.tau)
        if self.keep_rate is not None:
            checked_keep_rate(self.keep_rate)
        parts = (self.embed_model, self.encoder, self.llm, self.memory)
        # The same models go on, with what they have decided.
        if len(self._parts) != len(parts) or any(old is not new for old, new in zip(self._parts, parts, strict=True)):
            self._set_up()
            self._parts = parts
        self._seen.resize(self.ledger)
        return self

    def _set_up(self) -> None:
        embedder = None if self.embed_model is None else encoder_of(self.embed_model)
        encoder = embedder if self.encoder is None and embedder is not None else encoder_of(self.encoder)
        verifier = verifier_of(self.llm, encoder)
        self._embedder, self._encoder, self._verifier = embedder, encoder, verifier

    @classmethod
    @override
    def class_name(cls) -> str:
        """The name under which it is stored."""
        return "EpicTransform"

    @computed_field(repr=False)  # type: ignore[prop-decorator]
    @property
    def models(self) -> dict[str, Any]:
        """What decides besides the settings: the models by their names, with the version of their prompts; a digest of
        their own settings, such as instructions or a temperature; the tau in force, and what has expired."""
        memory, embedder = self.memory, self._embedder
        encoder = self._encoder if memory is None else memory.encoder
        verifier = self._verifier if memory is None else memory.verifier
        named = {
            "encoder": encoder.name,
            "embed_model": None if embedder is None else embedder.name,
            "verifier": verifier.name,
            "settings": told(encoder, embedder, verifier),
        }
        if memory is not None:
            held = settings_of(memory)
            return {**named, **held, "preferences": [preference.as_json() for preference in held["preferences"]]}
        expired = [one.text for one in map(Preference.of, self.preferences) if one.expired]
        tau = default_tau(encoder) if self.tau is None else self.tau
        return {**named, "tau": tau if self.keep_rate is None else None, "expired": expired}

    @override
    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """The settings and what is in `models`, plain values all of them.

        Raises:
            InvalidInputError: where a pipeline runs it, and a later step would embed its nodes anew.
        """
        # The pipeline's cache asks for this before it answers in the place of the step.
        self._check_place()
        # Else pydantic would make another exception of what cannot be said of them, as of a memory that is closed.
        _ = self.models
        return super().to_dict(**kwargs)

    def _check_place(self) -> None:
        if self._embedder is not None and self.fine:
            check_last(self)

    # what came of it

    @property
    def report(self) -> BuildReport:
        """What the run that finished last in this process did: what was seen, kept, discarded, undecided."""
        return self._report

    @property
    def undecided(self) -> list[BaseNode]:
        """The nodes, as they came in, that are without a verdict after all runs so far in this process."""
        return self._seen.undecided()

    # the framework's ways to call it

    @override
    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """The nodes that are kept, in their order.

        Raises:
            InvalidInputError: for what is no node, or where a later step of the pipeline would embed them anew.
            NoPreferencesError: if there are no preferences.
            UndecidedError: if a model fails.
            EncoderError: if the embedding model fails.
        """
        run = Run(self, nodes, kwargs)
        self._judge(run)
        return run.kept()

    @_dispatcher.span
    @override
    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """As `__call__`, without blocking the event loop."""
        self._check_place()  # here, not in another thread, is it known who runs this
        run = await in_thread(Run, self, nodes, kwargs)
        await self._ajudge(run)
        return run.kept()

    def reprocess(self, nodes: Sequence[BaseNode] | None = None) -> Reprocessed:
        """Judge nodes that were seen before by the settings of now, and say what changes in an index.

        For nodes that are not a pipeline's; for one with a docstore there is `reingest`. What is kept has not been
        through the steps that follow in a pipeline. Of documents that were deleted in the meantime, tell it by
        `forget` first.

        Args:
            nodes: As they came in, for what is not in the ledger: seen in another process, or answered by a pipeline's
                cache. Default: those of the ledger that were judged by other settings, or are undecided; if the ledger
                was too small for all, a warning is logged.

        Raises:
            As a call. Nothing has changed then.
        """
        run = Run(self, nodes, again=True)
        self._judge(run)
        return run.changes()

    async def areprocess(self, nodes: Sequence[BaseNode] | None = None) -> Reprocessed:
        """As `reprocess`, without blocking the event loop."""
        run = await in_thread(partial(Run, self, nodes, again=True))
        await self._ajudge(run)
        return run.changes()

    def reingest(self, pipeline: IngestionPipeline, *, show_progress: bool = False) -> list[BaseNode]:
        """Ingest what a pipeline's docstore holds by the settings of now; its vector store then holds just that.

        A docstore skips documents that did not change, whatever has changed about the preferences. This runs all steps
        of the pipeline on the documents it holds, those after this one included, and puts what comes out in the place
        of all that the vector store holds of them. The cache answers as it does in any run. It needs nothing that this
        process has seen, and brings back nothing that was deleted.

        Returns:
            What comes out.

        Raises:
            InvalidInputError: if this is no step of the pipeline, or its docstore holds no documents.
            EpicError: as a call; the vector store is as it was then. If the vector store itself fails, it may lack
                nodes until this is done again.
        """
        documents = documents_of(pipeline, self)
        nodes = run_transformations(
            documents, pipeline.transformations, cache=cache_of(pipeline), show_progress=show_progress
        )
        replace(pipeline.vector_store, documents, nodes)
        return list(nodes)

    async def areingest(self, pipeline: IngestionPipeline, *, show_progress: bool = False) -> list[BaseNode]:
        """As `reingest`, without blocking the event loop."""
        documents = await in_thread(documents_of, pipeline, self)
        nodes = await arun_transformations(
            documents, pipeline.transformations, cache=cache_of(pipeline), show_progress=show_progress
        )
        await areplace(pipeline.vector_store, documents, nodes)
        return list(nodes)

    def forget(self, ids: Iterable[str]) -> int:
        """Tell it that documents or nodes were deleted, so that `reprocess` does not bring them back.

        Args:
            ids: Of documents, or of single nodes.

        Returns:
            How many nodes were remembered of them.
        """
        return self._seen.forget({ids} if isinstance(ids, str) else set(ids))

    # running

    def _judge(self, run: Run) -> None:
        judged: list[Judged] = []
        vectors: list[list[float]] = []
        try:
            if run.items:
                judged = list(self._ready().judge(run.items, report=run.report, progress=self.show_progress))
            texts = run.to_embed(judged)
            if texts and self._embedder is not None:
                vectors = embed(self._embedder, texts).tolist()
        except BaseException:
            run.failed()
            raise
        run.finish(judged, dict(zip(texts, vectors, strict=True)))

    async def _ajudge(self, run: Run) -> None:
        judged: list[Judged] = []
        vectors: list[list[float]] = []
        try:
            if run.items:
                memory = await in_thread(self._ready)
                judged = [one async for one in memory.ajudge(run.items, report=run.report, progress=self.show_progress)]
            texts = run.to_embed(judged)
            if texts and self._embedder is not None:
                vectors = (await aembed(self._embedder, texts)).tolist()
        except BaseException:
            await in_thread(run.failed)
            raise
        # Copying thousands of nodes takes its time.
        await in_thread(run.finish, judged, dict(zip(texts, vectors, strict=True)))

    def _ready(self) -> EpicMemory:
        if self.memory is not None:
            return self.memory
        return self._prepared.memory(
            unique_preferences(self.preferences),
            encoder=self._encoder,
            verifier=self._verifier,
            tau=self.tau,
            keep_rate=self.keep_rate,
            coarse=self.coarse,
            fine=self.fine,
        )

    # copies and other processes

    def __getstate__(self) -> dict[str, Any]:
        # What cannot be sent to another process would be left out there, and another model would decide.
        if self.llm is not None or self.memory is not None:
            raise pickle.PicklingError(
                "An EpicTransform with llm= or memory= cannot be sent to other processes: verdicts and undecided nodes"
                " would be lost with them. Run the pipeline without num_workers; a model is asked as many things at a"
                " time as its `concurrency` says."
            )
        for name in ("embed_model", "encoder"):
            try:
                pickle.dumps(getattr(self, name))
            except Exception as error:
                raise pickle.PicklingError(
                    f"The {name} of this EpicTransform cannot be sent to other processes ({said(error)}). Run the"
                    " pipeline without num_workers."
                ) from None
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return {"__dict__": fields, "__pydantic_fields_set__": set(self.model_fields_set)}
