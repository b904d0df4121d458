"""Transform component for any LlamaIndex ingestion: the coarse filter and fine verification."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import BaseNode, ImageNode, MetadataMode, Node, TransformComponent
from llama_index_instrumentation import get_dispatcher
from pydantic import Field, PrivateAttr, computed_field, model_validator
from typing_extensions import Self, override

from epic_llamaindex.events import judge_event
from epic_llamaindex.ingestion.links import relink
from epic_llamaindex.ingestion.reingest import reingested
from epic_llamaindex.models import encoder_of, verifier_of
from epic_llamaindex.models.component import JudgingComponent
from epic_llamaindex.models.settings import settings_digest
from epic_llamaindex.nodes import checked_nodes, copy_of, text_of
from epic_memory import BuildReport, Decision, Item, Preference
from epic_memory.encoders import Encoder
from epic_memory.encoders.base import Embed, default_tau
from epic_memory.errors import InvalidInputError, NotCopiedError, UndecidedError
from epic_memory.runtime.effects import Effects, arun, run
from epic_memory.settings import checked_settings
from epic_memory.types import FloatArray
from epic_memory.types.verdicts import Judged
from epic_plugins.judging_memory import Judge
from epic_plugins.metadata import as_metadata, guidance_of, own_metadata
from epic_plugins.wrong_arguments import explained

_logger = logging.getLogger(__name__)
_dispatcher = get_dispatcher(__name__)


@explained()
class EpicTransform(JudgingComponent, TransformComponent):
    """Step of an `IngestionPipeline`, or of an index's transformations, that keeps the nodes that matter to a user.

        keep = EpicTransform(preferences=["I follow a strict vegan diet."])
        pipeline = IngestionPipeline(transformations=[SentenceSplitter(), keep, EpicEmbedding()])
        nodes = pipeline.run(documents=documents)
        print(keep.report)

    Ids and texts stay as they are. Each returned node is a copy with its guidance in flat `epic_*` metadata, which is
    neither embedded nor shown to a model: `epic_instruction`, `epic_preference`, `epic_stance`, `epic_rationale`,
    `epic_confidence` and `epic_similarity` of the strongest alignment, and `epic_alignments` with all of them as JSON.
    Links to dropped nodes are redirected to the next node that is kept; the link to the source document stays. Images
    and other media without text cannot be judged and pass unchanged; blank nodes are dropped.

    With `embed_model=`, a node gets the embedding of its strongest instruction, and is found
    by it. An index keeps an existing embedding; an embedding step after this one would replace it, so leave it out.

    The cache key of a pipeline includes `preferences`, `settings` and the models' names in `models`, prompts included:
    if one of them changes, nodes are judged anew. A docstore skips unchanged documents even after a change of
    preferences: `reingest(pipeline)` ingests them again.

    Nodes that a model's failure leaves undecided are not lost: unless `on_undecided` is "keep" or "skip", the call ends
    with an `UndecidedError` before anything is cached or stored. Verdicts are cached (in this process, or in the file
    of `memory`), so that the same call, repeated once the model answers, asks only for the rest.

    Attributes:
        preferences: The user's, texts or `epic_memory.Preference`s. The only attribute that can be changed; a change
            takes effect at the next call, and verdicts under preferences that remain are kept.
        embed_model: Embeds instructions, and the texts that the coarse filter compares: a `BaseEmbedding`, an encoder
            of epic_memory or its name. Default: nodes get no embedding, and the embedded encoder compares.
        encoder: The coarse filter's encoder, if it is not to be `embed_model`.
        llm: Verifies: an `LLM`, a LanguageModel of epic_memory or the name of one ("ollama:qwen3:4b"), or a Verifier;
            default: the embedded verifier.
        settings: How to judge, as for `EpicMemory`: `Settings(tau=..., model_budget=...)`. What the
            budget leaves over is undecided.
        annotate: Write guidance into the metadata; turn it off for property graphs, into which metadata would leak: a
            `SteeredVectorContextRetriever(guidance=...)` adds guidance to retrieved nodes.
        on_undecided: How to treat undecided nodes: "raise" an error; "keep" them as they are, without guidance; or
            "skip" them. `undecided` lists them, and a warning is logged. With "keep" and "skip", a pipeline's cache and
            docstore count their documents as done.
        memory: Judge by this memory instead: its preferences, models and settings; its file caches what a model
            decided. Nothing else is written into it.
        show_progress: Show a progress bar.

    Raises:
        ValidationError: if an argument is invalid.
    """

    embed_model: Any = Field(default=None, exclude=True, frozen=True, repr=False)
    encoder: Any = Field(default=None, exclude=True, frozen=True, repr=False)
    annotate: bool = Field(default=True, frozen=True)
    on_undecided: Literal["raise", "keep", "skip"] = Field(default="raise", frozen=True)
    show_progress: bool = Field(default=False, exclude=True, frozen=True)

    _embedder: Encoder | None = PrivateAttr(default=None)
    _undecided: dict[str, BaseNode] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._is_judged_by_memory("encoder")
        if not hasattr(self, "_verifier"):  # Keep models, and with them the verdicts they have reached.
            self._embedder = None if self.embed_model is None else encoder_of(self.embed_model)
            own = None if self.encoder is None else encoder_of(self.encoder)
            self._encoder = own or self._embedder or encoder_of(None)
            self._verifier = verifier_of(self.llm, self._encoder, self.settings)
        return self

    @computed_field(repr=False)  # type: ignore[prop-decorator]
    @property
    def models(self) -> dict[str, Any]:
        """Inputs of a verdict besides the component's settings, as part of a cache key.

        These are the models' names, with the version of their prompts; a digest of the models' own settings, such as
        instructions or a temperature; the tau in force; and expired preferences; with `memory`, all of its settings.
        """
        memory, embedder, how = self.memory, self._embedder, checked_settings(self.settings)
        encoder, verifier = (self._encoder, self._verifier) if memory is None else (memory.encoder, memory.verifier)
        named = {
            "encoder": encoder.name,
            "embed_model": None if embedder is None else embedder.name,
            "verifier": verifier.name,
            "settings": settings_digest(encoder, embedder, verifier),
        }
        if memory is None:
            expired = [one.text for one in map(Preference.of, self.preferences) if one.expired]
            tau = default_tau(encoder) if how.tau is None else how.tau
            return {**named, "tau": tau, "expired": expired}
        how = memory.settings
        return {
            **named,
            "tau": memory.tau,
            **{name: getattr(how, name) for name in ("coarse", "fine")},
            "preferences": [preference.as_json() for preference in memory.preferences],
        }

    @override
    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the settings and `models` as plain values."""
        # Read `models` first: pydantic would replace an exception from it, as of a closed memory, with one of its own.
        _ = self.models
        return super().to_dict(**kwargs)

    # results

    @property
    def undecided(self) -> list[BaseNode]:
        """The input nodes that still have no verdict after all runs so far in this process."""
        return list(self._undecided.values())

    def _take(self, nodes: Sequence[BaseNode], undecided: Sequence[BaseNode]) -> None:
        """Note which nodes of a run are undecided; the others replace earlier versions of themselves."""
        places = {_place(node) for node in nodes}
        left = {node.node_id: node for node in self._undecided.values() if _place(node) not in places}
        self._undecided = left | {node.node_id: node for node in undecided}

    # LlamaIndex's interface

    @override
    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Return the nodes that are kept, in their order.

        Raises:
            InvalidInputError: for anything but nodes.
            NoPreferencesError: if there are no preferences.
            UndecidedError: if a model fails and `on_undecided` is "raise".
            EncoderError: if the embedding model fails.
        """
        return run(self._kept(nodes, kwargs))

    @_dispatcher.span
    @override
    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        return await arun(self._kept(nodes, kwargs))

    def _kept(self, nodes: Sequence[BaseNode], options: Mapping[str, Any]) -> Effects[list[BaseNode]]:
        if "preferences" in options:
            raise InvalidInputError("A pipeline's cache does not see preferences=: give them to EpicTransform itself.")
        work = _Run(self, nodes)
        judged: list[Judged] = []
        vectors: dict[str, list[float]] = {}
        try:
            if work.items:
                judged = yield Judge(self._judging_memory(), work.items, work.report, progress=self.show_progress)
            texts = [] if self._embedder is None else work.to_embed(judged)
            if texts and self._embedder is not None:
                embedded: FloatArray = yield Embed(self._embedder, texts, "")
                vectors = dict(zip(texts, embedded.tolist(), strict=True))
        except BaseException:
            # Also if an effect fails, which closes this generator. A docstore may count the documents as known already.
            self._take(work.nodes, work.nodes)
            raise
        _dispatcher.event(judge_event(work.report))
        return work.finish(judged, vectors)

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
        return run(reingested(pipeline, self, show_progress))

    async def areingest(self, pipeline: IngestionPipeline, *, show_progress: bool = False) -> list[BaseNode]:
        """Do the same as `reingest` without blocking the event loop."""
        return await arun(reingested(pipeline, self, show_progress))

    @override
    def __reduce__(self) -> Any:
        if self.llm is not None or self.memory is not None:
            raise NotCopiedError(
                "An EpicTransform with llm= or memory= cannot be sent to other processes: verdicts and undecided nodes"
                " would be lost with them. Run the pipeline without num_workers; a model is asked as many things at a"
                " time as its `concurrency` says."
            )
        return super().__reduce__()


def _place(node: BaseNode) -> tuple[object, ...]:
    """Return what identifies a node: a splitter gives new ids each time."""
    if node.ref_doc_id is None:
        return (node.node_id,)
    return node.ref_doc_id, getattr(node, "start_char_idx", None), text_of(node)


class _Run:
    """One run of an ingestion step: its input nodes, an item for each with text, and the report."""

    def __init__(self, step: EpicTransform, nodes: Sequence[BaseNode]) -> None:
        self._step = step
        self.nodes = checked_nodes(nodes)
        self.items: list[Item] = []
        self.report = BuildReport()
        self._judged: list[BaseNode] = []
        for number, node in enumerate(self.nodes, start=1):
            if not text_of(node).strip():
                continue
            try:
                # Without the metadata, which need not be JSON.
                self.items.append(Item(id=node.node_id, text=text_of(node)))
            except InvalidInputError as error:
                raise InvalidInputError(f"Node {number} ({node.node_id!r}): {error}") from None
            self._judged.append(node)

    def to_embed(self, judged: Sequence[Judged]) -> list[str]:
        """Return the texts that the kept nodes are found by, each once."""
        texts = (self._found_by(node, one) for node, one in zip(self._judged, judged, strict=True))
        return list(dict.fromkeys(filter(None, texts)))

    def _found_by(self, node: BaseNode, judged: Judged) -> str:
        """Return the text whose embedding a returned node gets; empty if it gets none."""
        if judged.verdict.decision is Decision.UNDECIDED and self._step.on_undecided == "keep":
            return node.get_content(MetadataMode.EMBED)
        alignments = judged.verdict.alignments
        return alignments[0].instruction.strip() if alignments else ""

    def finish(self, judged: Sequence[Judged], vectors: Mapping[str, list[float]]) -> list[BaseNode]:
        """Return the nodes that are kept, and hand the report and the undecided nodes to the step.

        Raises:
            UndecidedError: if nodes are undecided and `on_undecided` is "raise".
        """
        verdicts = {id(node): one for node, one in zip(self._judged, judged, strict=True)}
        kept: list[BaseNode] = []
        undecided: list[BaseNode] = []
        gone: dict[str, BaseNode] = {}
        for node in self.nodes:
            one = verdicts.get(id(node))
            made: BaseNode | None = None
            if one is None:
                made = copy_of(node, own_metadata(node.metadata)) if _is_media(node) else None
            elif one.verdict.decision is Decision.UNDECIDED:
                undecided.append(node)
                made = self._annotated(node, one, vectors) if self._step.on_undecided == "keep" else None
            elif one.kept:
                made = self._annotated(node, one, vectors)
            if made is None:
                gone[node.node_id] = node
            else:
                kept.append(made)
        for node in kept:
            gone.pop(node.node_id, None)
        relink(kept, gone)
        self._step._take(self.nodes, undecided)
        self._hand_over_report(undecided)
        return kept

    def _annotated(self, node: BaseNode, judged: Judged, vectors: Mapping[str, list[float]]) -> BaseNode:
        metadata = own_metadata(node.metadata)
        if self._step.annotate and judged.kept:
            metadata |= as_metadata(guidance_of(judged))
        vector = vectors.get(self._found_by(node, judged))
        return copy_of(node, metadata) if vector is None else copy_of(node, metadata, embedding=list(vector))

    def _hand_over_report(self, undecided: Sequence[BaseNode]) -> None:
        """Hand over the report; log a warning of undecided nodes, which might otherwise go unseen."""
        step, report = self._step, self.report
        step._report = report
        if not self.items and checked_settings(step.settings).coarse:
            report.tau = step.models["tau"]
        blank = sum(not text_of(node).strip() and not _is_media(node) for node in self.nodes)
        if blank:
            report.warnings.append(f"{blank} nodes without text were left out.")
        if not undecided:
            return
        summary = (
            f"{len(undecided)} of {len(self._judged)} nodes are undecided, as a model failed:"
            f" {next(iter(report.failures.values()), 'no reason was given')}"
        )
        report.warnings.append(summary)
        named = ", ".join(sorted(node.node_id for node in undecided)[:20])
        if step.on_undecided == "raise":
            raise UndecidedError(
                f"{summary} What was decided is remembered: run it again when the model answers. Where a document store"
                " skips the documents by then, give the step its own `undecided`. To go on nevertheless, give"
                f" on_undecided='keep', which takes such nodes in as they are, or 'skip'. Undecided: {named}"
            )
        done = "kept without guidance" if step.on_undecided == "keep" else "left out"
        _logger.warning("%s They are %s, and in `undecided`: %s", summary, done, named)


def _is_media(node: BaseNode) -> bool:
    """Tell whether a node has an image, audio or video."""
    if isinstance(node, Node):
        return any((node.image_resource, node.audio_resource, node.video_resource))
    return isinstance(node, ImageNode)
