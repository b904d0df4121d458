"""Nodes that any retriever has found, judged by the user's preferences, and put into their order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher
from pydantic import (
    Field,
    PrivateAttr,
    computed_field,
    model_validator,
)
from typing_extensions import Self, override

from epic_core import BuildReport, EpicMemory
from epic_core.context import format_hit
from epic_core.encoders import Encoder
from epic_core.errors import InvalidInputError, NoPreferencesError
from epic_core.integrations.judging_memory import Prepared
from epic_core.integrations.reranking import (
    CONTENT,
    GUIDANCE,
    Keep,
    Ranked,
    RememberingEncoder,
    Reranker,
    content_of,
    waited_for,
)
from epic_core.runtime.batching import unique_preferences
from epic_core.runtime.threads import in_thread
from epic_core.steering import Mode
from epic_core.types.metadata import copied
from epic_core.types.validation import checked_tau
from epic_core.verification import LMVerifier, Verifier
from epic_llamaindex.adapters import encoder_of, verifier_of
from epic_llamaindex.component import JudgingComponent
from epic_llamaindex.nodes import Guidance, copy_of, text_of

_logger = logging.getLogger(__name__)
_dispatcher = get_dispatcher(__name__)

# What a memory has of its own.
_A_MEMORYS = ("preferences", "embed_model", "llm", "tau")


class EpicNodePostprocessor(JudgingComponent, BaseNodePostprocessor):
    """Puts the nodes that any retriever has found into the order of the user's preferences, with guidance.

        suited = EpicNodePostprocessor(preferences=["I follow a strict vegan diet."], top_n=5)
        engine = RetrieverQueryEngine.from_args(index.as_retriever(similarity_top_k=20), node_postprocessors=[suited])

    Each node goes through the coarse filter and fine verification, and is ranked by the similarity of its text to the
    query as the preferences steer it, less what its stance takes off; that is its score then. Nodes that are for none
    of the preferences, or undecided as a model failed, count as neutral. Without a query, stances decide, then the
    similarity to the preferences, and scores stay as they are. Nodes without text, as of images, are not judged: they
    come last, with their scores.

    Nodes that come out are copies with the ids that they had; what is known of them under the preferences is in their
    `epic_*` metadata, as `EpicTransform` writes it. A node that has this guidance already, under one of the user's
    preferences, is not judged again: what was found out when it was stored stands. Guidance under preferences that
    are not the user's is taken off.

    Where a model fails, nodes are undecided: they come out, unless there are too many, without guidance, and a warning
    is logged. What was decided is remembered, so that only the rest is asked for when they are found again. With a
    language model, nodes that are new to it cost a call each, while the user waits for the answer: judge them when
    they are stored, with `EpicTransform`, where that is possible. A call to `llm` that fails is tried again once, a
    timeout never (after what the model itself tries); while its server is down, nodes are undecided at once, and half a
    minute later it is asked again. A verifier, given as `llm` or a memory's, has its own patience.

    Attributes:
        preferences: The user's, texts or `epic_core.Preference`s; others can be set at any time, and hold from the next
            call on. What a model decided under those that stay is kept. Nothing else can be set.
        embed_model: What compares, a `BaseEmbedding`, an encoder of epic_core or its name; it need not be the index's.
            Default: the embedded encoder.
        llm: Verifies: an `LLM`, or a LanguageModel or Verifier of epic_core; default: the embedded verifier.
        memory: Judge by this memory instead: its preferences, encoder and verifier, and its file remembers what a model
            decided. Nothing else is written into it. While it has no preferences, nodes stay as they are.
        tau: The coarse filter's threshold, a cosine; default: the encoder's own, else 0.3.
        mode: How the query is steered: "signed", towards what is liked and away from what is avoided; "paper", Eq. 7-8;
            "off", not at all.
        keep: "all" drops nothing; "relevant" drops what is for none of the preferences; "supports" also drops what
            stands, in part or whole, against one. Undecided nodes, and those without text, are never dropped.
        top_n: How many nodes come out at most; default: all.
        rerank: Whether nodes change their places, and scores.
        guidance: "text" puts the guidance into the text, too, as `EpicMemory.context` writes it, numbered by rank; so
            a query engine's prompt has it. `epic_content` in the metadata is the text without it: by that, a node that
            comes with guidance in its text is judged, and its guidance is written anew.

    Raises:
        ValidationError: for arguments that cannot be.
    """

    embed_model: Any = Field(default=None, exclude=True, frozen=True, repr=False)
    llm: Any = Field(default=None, exclude=True, frozen=True, repr=False)
    memory: EpicMemory | None = Field(default=None, exclude=True, frozen=True, repr=False)
    tau: float | None = Field(default=None, frozen=True)
    mode: Mode = Field(default="signed", frozen=True)
    keep: Keep = Field(default="all", frozen=True)
    top_n: int | None = Field(default=None, ge=1, frozen=True)
    rerank: bool = Field(default=True, frozen=True)
    guidance: Guidance = Field(default="metadata", frozen=True)

    _encoder: Encoder = PrivateAttr()
    _verifier: Verifier = PrivateAttr()
    _judging: Prepared = PrivateAttr(default_factory=Prepared)
    _ranker: Reranker | None = PrivateAttr(default=None)
    _preparing: Any = PrivateAttr(default_factory=threading.Lock)
    _report: BuildReport = PrivateAttr(default_factory=BuildReport)
    _warned: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.memory is not None:
            given = [name for name in _A_MEMORYS if getattr(self, name) not in (None, [])]
            if given:
                raise InvalidInputError(f"With memory=, {', '.join(given)} would be ignored: it has its own.")
            return self
        if not unique_preferences(self.preferences):
            raise InvalidInputError("Give the preferences to judge by: preferences=['...'], or a memory.")
        if self.tau is not None:
            checked_tau(self.tau)
        if not hasattr(self, "_verifier"):  # The same models go on, with what they have decided.
            self._encoder = RememberingEncoder(encoder_of(self.embed_model))
            verifier = verifier_of(self.llm, self._encoder)
            if isinstance(verifier, LMVerifier) and verifier is not self.llm:
                verifier = waited_for(verifier.lm)
            self._verifier = verifier
        return self

    @classmethod
    @override
    def class_name(cls) -> str:
        """The name under which it is stored."""
        return "EpicNodePostprocessor"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def models(self) -> dict[str, str]:
        """The names of what compares and of what verifies."""
        if self.memory is not None:
            return {"encoder": self.memory.encoder.name, "verifier": self.memory.verifier.name}
        return {"encoder": self._encoder.name, "verifier": self._verifier.name}

    @property
    def report(self) -> BuildReport:
        """What the call that finished last found out: how many texts were kept, discarded, undecided, and the cost."""
        return self._report

    @override
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        call = _Call(self, nodes, query_bundle)
        with call.told():
            if call.nodes:
                with call.without_preferences():
                    call.take(self._prepared().rank(call.query, call.texts, top_n=self.top_n, report=call.report))
        return call.found

    @_dispatcher.span
    @override
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        call = _Call(self, nodes, query_bundle)
        with call.told():
            if call.nodes:
                with call.without_preferences():
                    ranker = await in_thread(self._prepared)
                    call.take(await ranker.arank(call.query, call.texts, top_n=self.top_n, report=call.report))
        return call.found

    def _prepared(self) -> Reranker:
        """What ranks, under the preferences of now; made at the first use, as an encoder may have to ask a server."""
        memory = self.memory
        if memory is None:
            memory = self._judging.memory(
                unique_preferences(self.preferences),
                encoder=self._encoder,
                verifier=self._verifier,
                tau=self.tau,
                keep_rate=None,
                coarse=True,
                fine=True,
            )
        with self._preparing:
            if self._ranker is None:
                self._ranker = Reranker(memory, mode=self.mode, keep=self.keep, rerank=self.rerank)
            return self._ranker

    # copies

    def __getstate__(self) -> dict[str, Any]:
        # What cannot be pickled fails: left out, as the base class does it, another model would decide.
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "callback_manager"}
        return {"__dict__": fields}


class _Call:
    """One call: the nodes given, and what comes out."""

    def __init__(
        self, processor: EpicNodePostprocessor, nodes: Sequence[NodeWithScore], query: QueryBundle | None
    ) -> None:
        for node in nodes:
            if not isinstance(node, NodeWithScore):
                raise InvalidInputError(
                    f"Expected nodes as a retriever finds them, found {type(node).__name__}: NodeWithScore(node=...)."
                )
        self.nodes = list(nodes)
        given = [(text_of(one.node), one.node.metadata) for one in nodes]
        self.texts = [(content_of(text, metadata), metadata) for text, metadata in given]
        # Those that come with guidance in their texts.
        self._guided = {n for n, (text, _) in enumerate(given) if self.texts[n][0] != text}
        self.query = "" if query is None else query.query_str
        self.report = BuildReport()
        self.found: list[NodeWithScore] = []
        self._processor = processor
        self._bundle = query

    @contextmanager
    def told(self) -> Iterator[None]:
        """Tell those who listen, before and after."""
        top_n, model = self._processor.top_n or len(self.nodes), self._processor.models["verifier"]
        _dispatcher.event(ReRankStartEvent(query=self._bundle, nodes=self.nodes, top_n=top_n, model_name=model))
        payload: dict[str, Any] = {
            EventPayload.NODES: self.nodes,
            EventPayload.MODEL_NAME: model,
            EventPayload.QUERY_STR: self.query,
            EventPayload.TOP_K: top_n,
        }
        with self._processor.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            yield
            event.on_end(payload={EventPayload.NODES: self.found})
        _dispatcher.event(ReRankEndEvent(nodes=self.found))

    @contextmanager
    def without_preferences(self) -> Iterator[None]:
        """Nodes of a memory that has no preferences (yet) stay as they are: it must not cost the user the answer."""
        try:
            yield
        except NoPreferencesError as error:
            self.found = self.nodes[: self._processor.top_n]
            if not self._processor._warned:
                _logger.warning("Nodes stay as they were found while there are no preferences: %s", error)
            self._processor._warned = True

    def take(self, ranked: Sequence[Ranked]) -> None:
        """Make the nodes that come out."""
        self.found = [self._node(number, one) for number, one in enumerate(ranked, start=1)]
        report = self._processor._report = self.report
        if report.undecided:
            # Who runs it in a query engine sees no report.
            _logger.warning(
                "%d texts are undecided, and without guidance, as a model failed: %s",
                report.undecided,
                next(iter(report.failures.values()), "no reason was given"),
            )

    def _node(self, number: int, ranked: Ranked) -> NodeWithScore:
        found = self.nodes[ranked.place]
        said, metadata = ranked.metadata, copied(found.node.metadata)
        # Guidance that it had, and has still, stays as it is.
        if ranked.decision is not None and said.get("epic_alignments") != metadata.get("epic_alignments"):
            metadata = {**{key: value for key, value in metadata.items() if key not in GUIDANCE}, **said}
        told = ranked.decision is not None and (self._processor.guidance == "text" or ranked.place in self._guided)
        if ranked.decision is not None:
            metadata.pop(CONTENT, None)
        if told:
            metadata[CONTENT] = self.texts[ranked.place][0]
        node = copy_of(found.node, metadata)
        if told:
            node.set_content(format_hit(number, ranked.hit))
        return NodeWithScore(node=node, score=found.score if ranked.score is None else ranked.score)
