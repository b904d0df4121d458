"""Transform component for any LlamaIndex ingestion: the coarse filter and fine verification."""

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

# Fields that a memory replaces with its own.
_A_MEMORYS = ("preferences", "encoder", "llm", "tau", "keep_rate", "coarse", "fine")


class EpicTransform(JudgingComponent, TransformComponent):
    """Step of an `IngestionPipeline`, or of an index's transformations, that keeps the nodes that matter to a user.

        keep = EpicTransform(preferences=["I follow a strict vegan diet."])
        pipeline = IngestionPipeline(transformations=[SentenceSplitter(), keep, EpicEmbedding()])
        nodes = pipeline.run(documents=documents)
        print(keep.report)

    Ids and texts stay as they are. Each returned node is a copy with its guidance in flat `epic_*` metadata, which is
    neither embedded nor shown to a model: `epic_instruction`, `epic_preference`, `epic_stance`, `epic_rationale`,
    `epic_confidence` and `epic_similarity` of the strongest alignment, `epic_alignments` with all of them as JSON, and
    `epic_rewrite` if the verifier rewrites. Links to dropped nodes are redirected to the next node that is kept; the
    link to the source document stays. Images and other media without text cannot be judged and pass unchanged; nodes
    with nothing but white space are dropped.

    With `embed_model=`, a node gets the embedding of its strongest instruction (or of its rewritten text), and is found
    by it. An index keeps an existing embedding; a later embedding step of a pipeline would replace it, and is refused.

    The cache key of a pipeline includes `preferences`, `tau` and the other settings, and the models' names in `models`,
    prompts included: if one of them changes, nodes are judged anew. A docstore skips unchanged documents even after a
    change of preferences: `reingest(pipeline)` ingests them again. Without a docstore, the last `ledger` nodes are
    remembered as they came in, in 2 to 6 kB of RAM each, and `reprocess()` judges them anew:

        keep.preferences = [*keep.preferences, "I only travel by train."]
        changed = keep.reprocess()
        index.delete_nodes(changed.gone)
        index.insert_nodes(changed.kept)

    Nodes that a model's failure leaves undecided are not lost: unless `on_undecided` is "keep" or "skip", the call ends
    with an `UndecidedError` before anything is cached or stored. Verdicts are cached (in this process, or in the file
    of `memory`), so that the same call, repeated once the model answers, asks only for the rest. If a model can be
    reached and still cannot decide about a node, `on_undecided="keep"` lets the others through.

    Attributes:
        preferences: The user's, texts or `epic_core.Preference`s.
        embed_model: Embeds instructions, and the texts that the coarse filter compares: a `BaseEmbedding`, an encoder
            of epic_core or its name. Default: nodes get no embedding, and the embedded encoder compares.
        encoder: The coarse filter's encoder, if it is not to be `embed_model`.
        llm: Verifies: an `LLM`, or a LanguageModel or Verifier of epic_core; default: the embedded verifier.
        tau: The coarse filter's threshold, a cosine; default: the encoder's own, else 0.3.
        keep_rate: Instead of tau, the share of the first nodes that shall pass, in (0, 1].
        coarse, fine: Whether to run the coarse filter and fine verification.
        annotate: Write guidance into the metadata; turn it off for property graphs, into which metadata would leak: a
            `SteeredVectorContextRetriever(guidance=...)` adds guidance to retrieved nodes, and `delete_passages`
            replaces `delete_nodes` for them.
        on_undecided: How to treat undecided nodes: "raise" an error; "keep" them as they are, without guidance; or
            "skip" them. `undecided` lists them, and a warning is logged. With "keep" and "skip", a pipeline's cache and
            docstore count their documents as done.
        metadata_mode: How much of a node's metadata is judged with its text: MetadataMode.NONE, or as much as is
            embedded (EMBED) or shown to a model (LLM), such as titles and the headers of a section.
        ledger: How many nodes are remembered for `reprocess`, besides undecided ones.
        memory: Judge by this memory instead: its preferences, encoder and verifier; its file caches what a model
            decided. Nothing else is written into it.
        show_progress: Show a progress bar.

    Raises:
        ValidationError: if an argument is invalid.
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
        # Keep unchanged models, and with them the verdicts they have reached.
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
        """Return the name under which the component is stored."""
        return "EpicTransform"

    @computed_field(repr=False)  # type: ignore[prop-decorator]
    @property
    def models(self) -> dict[str, Any]:
        """Inputs of a verdict besides the component's settings, as part of a cache key.

        These are the models' names, with the version of their prompts; a digest of the models' own settings, such as
        instructions or a temperature; the tau in force; and expired preferences; with `memory`, all of its settings.
        """
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
        """Return the settings and `models` as plain values.

        Raises:
            InvalidInputError: if a pipeline runs the step, and a later step would embed its nodes anew.
        """
        # The pipeline's cache calls this before it answers in place of the step.
        self._check_place()
        # Read `models` first: pydantic would replace an exception from it, as of a closed memory, with one of its own.
        _ = self.models
        return super().to_dict(**kwargs)

    def _check_place(self) -> None:
        if self._embedder is not None and self.fine:
            check_last(self)

    # results

    @property
    def report(self) -> BuildReport:
        """The report of the run that finished last in this process: nodes seen, kept, discarded and undecided."""
        return self._report

    @property
    def undecided(self) -> list[BaseNode]:
        """The input nodes that still have no verdict after all runs so far in this process."""
        return self._seen.undecided()

    # LlamaIndex's interface

    @override
    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Return the nodes that are kept, in their order.

        Raises:
            InvalidInputError: for anything but nodes, or if a later step of the pipeline would embed them anew.
            NoPreferencesError: if there are no preferences.
            UndecidedError: if a model fails and `on_undecided` is "raise".
            EncoderError: if the embedding model fails.
        """
        run = Run(self, nodes, kwargs)
        self._judge(run)
        return run.kept()

    @_dispatcher.span
    @override
    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Do the same as `__call__` without blocking the event loop."""
        self._check_place()  # only this thread's stack shows the pipeline that runs this
        run = await in_thread(Run, self, nodes, kwargs)
        await self._ajudge(run)
        return run.kept()

    def reprocess(self, nodes: Sequence[BaseNode] | None = None) -> Reprocessed:
        """Judge nodes that were seen before by the current settings, and return the changes to an index.

        For nodes that no pipeline stores; for a pipeline with a docstore there is `reingest`. The kept nodes have not
        been through later steps of a pipeline. Report documents that were deleted in the meantime to `forget` first.

        Args:
            nodes: Input nodes that are not in the ledger: seen in another process, or answered by a pipeline's cache.
                Default: the ledger's nodes that were judged by other settings or are undecided; if the ledger was too
                small for all nodes, a warning is logged.

        Raises:
            EpicError: as a call raises it; nothing has changed then.
        """
        run = Run(self, nodes, again=True)
        self._judge(run)
        return run.changes()

    async def areprocess(self, nodes: Sequence[BaseNode] | None = None) -> Reprocessed:
        """Do the same as `reprocess` without blocking the event loop."""
        run = await in_thread(partial(Run, self, nodes, again=True))
        await self._ajudge(run)
        return run.changes()

    def reingest(self, pipeline: IngestionPipeline, *, show_progress: bool = False) -> list[BaseNode]:
        """Ingest the documents in a pipeline's docstore anew, and replace their nodes in its vector store.

        A docstore skips unchanged documents even if the preferences changed. This method runs all steps of the pipeline
        under the current settings, those after this one included, on the documents it holds, and replaces all their
        nodes in the vector store with the result. The cache answers as in any run. It depends on nothing that this
        process has seen, and does not bring back deleted documents.

        Returns:
            The nodes of the last step.

        Raises:
            InvalidInputError: if this is not a step of the pipeline, or its docstore holds no documents.
            EpicError: as a call raises it; the vector store is unchanged then. If the vector store itself fails, it may
                lack nodes until this is repeated.
        """
        documents = documents_of(pipeline, self)
        nodes = run_transformations(
            documents, pipeline.transformations, cache=cache_of(pipeline), show_progress=show_progress
        )
        replace(pipeline.vector_store, documents, nodes)
        return list(nodes)

    async def areingest(self, pipeline: IngestionPipeline, *, show_progress: bool = False) -> list[BaseNode]:
        """Do the same as `reingest` without blocking the event loop."""
        documents = await in_thread(documents_of, pipeline, self)
        nodes = await arun_transformations(
            documents, pipeline.transformations, cache=cache_of(pipeline), show_progress=show_progress
        )
        await areplace(pipeline.vector_store, documents, nodes)
        return list(nodes)

    def forget(self, ids: Iterable[str]) -> int:
        """Forget deleted documents or nodes, so that `reprocess` does not bring them back.

        Args:
            ids: Ids of documents, or of single nodes.

        Returns:
            How many of their nodes were remembered.
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
        # In a thread: copying thousands of nodes is slow.
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
        # A model that cannot be sent to another process would be left out there, and another model would decide.
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
