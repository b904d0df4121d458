"""Postprocessor that judges the nodes of any retriever by the user's preferences and reorders them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher
from pydantic import Field, PrivateAttr, computed_field, model_validator
from typing_extensions import Self, override

from epic_llamaindex.models import encoder_of, verifier_of
from epic_llamaindex.models.component import JudgingComponent
from epic_llamaindex.nodes import copy_of, text_of
from epic_llamaindex.ranking import (
    CONTENT,
    GUIDANCE,
    Keep,
    Ranked,
    RememberingEncoder,
    Reranker,
    content_of,
)
from epic_memory import BuildReport
from epic_memory.context import format_hit
from epic_memory.errors import InvalidInputError, NoPreferencesError
from epic_memory.runtime.effects import Effects, arun, run
from epic_memory.settings import checked_settings
from epic_memory.types.metadata import copied
from epic_memory.verification import LMVerifier
from epic_plugins.judging_memory import warn_of_undecided
from epic_plugins.several import several
from epic_plugins.wrong_arguments import explained

_logger = logging.getLogger(__name__)
_dispatcher = get_dispatcher(__name__)


@explained()
class EpicNodePostprocessor(JudgingComponent, BaseNodePostprocessor):
    """Postprocessor that ranks the nodes of any retriever by the user's preferences and adds guidance.

        suited = EpicNodePostprocessor(preferences=["I follow a strict vegan diet."], top_n=5)
        engine = RetrieverQueryEngine.from_args(index.as_retriever(similarity_top_k=20), node_postprocessors=[suited])

    Each node goes through the coarse filter and fine verification, and is ranked by the similarity of its text to the
    steered query, less the penalty for its stance; the result is its new score. Nodes that match no preference, or that
    a model's failure leaves undecided, count as neutral. Without a query, nodes are ranked by stance, then by their
    similarity to the preferences, and scores stay as they are. Nodes without text, such as images, are not judged: they
    come last, with their scores.

    The returned nodes are copies with the same ids; their guidance is in `epic_*` metadata, as `EpicTransform` writes
    it. A node that already has this guidance, under one of the user's preferences, is not judged again: the verdict
    from when it was stored stands. Guidance under preferences that are not the user's is removed.

    If a model fails, its nodes are returned without guidance (`top_n` still applies), and a warning is logged. Verdicts
    are cached. Each node that is new to a language model costs a call while the user waits for the answer: it is better
    to judge nodes when they are stored, with `EpicTransform`. A query waits for a model that does not answer as long as
    the model's own timeout, the first query twice: give `llm` a short one, as in `OllamaLM("qwen3:4b", timeout=5)`,
    whose default is 120 seconds. A call to `llm` that fails is not retried; a verifier, given as `llm` or a memory's,
    follows its own retry policy.

    Attributes:
        preferences: The user's, texts or `epic_memory.Preference`s. The only attribute that can be changed; a change
            takes effect at the next call, and verdicts under preferences that remain are kept.
        embed_model: Compares texts: a `BaseEmbedding`, an encoder of epic_memory or its name; it need not be the
            index's. Default: the embedded encoder.
        llm: Verifies: an `LLM`, a LanguageModel of epic_memory or the name of one ("ollama:qwen3:4b"), or a Verifier;
            default: the embedded verifier.
        settings: How to judge and to steer, as for `EpicMemory`: `Settings(tau=..., steering=..., model_budget=...)`.
            What the budget leaves over is undecided.
        memory: Judge by this memory instead: its preferences, models and settings; its file caches what a model
            decided. Nothing else is written into it. While it has no preferences, nodes stay as they are.
        keep: "all" drops nothing; "relevant" drops nodes that match no preference; "supports" also drops nodes that
            conflict, in part or whole, with one. Undecided nodes, and nodes without text, are never dropped.
        top_n: How many nodes are returned at most; default: all.
        guidance: "text" also writes the guidance into the text, as `EpicMemory.context` does, numbered by rank, so that
            it is in a query engine's prompt. `epic_content` in the metadata is the text without guidance: a node that
            comes with guidance in its text is judged by it, and its guidance is rewritten.

    Raises:
        ValidationError: if an argument is invalid.
    """

    embed_model: Any = Field(default=None, exclude=True, frozen=True, repr=False)
    keep: Keep = Field(default="all", frozen=True)
    top_n: int | None = Field(default=None, ge=1, frozen=True)
    guidance: Literal["metadata", "text"] = Field(default="metadata", frozen=True)

    _ranker: Reranker | None = PrivateAttr(default=None)
    _preparing: Any = PrivateAttr(default_factory=threading.Lock)
    _warned: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self._is_judged_by_memory("embed_model"):
            return self
        if not self.preferences:
            raise InvalidInputError("Give the preferences to judge by: preferences=['...'], or a memory.")
        if not hasattr(self, "_verifier"):  # Keep unchanged models, and with them the verdicts they have reached.
            self._encoder = RememberingEncoder(encoder_of(self.embed_model))
            how = checked_settings(self.settings)
            verifier = verifier_of(self.llm, self._encoder, how)
            if isinstance(verifier, LMVerifier) and verifier not in (self.llm, how.verifier):
                verifier = LMVerifier(verifier.lm, retries=0, language=how.language)  # the user waits for the answer
            self._verifier = verifier
        return self

    @computed_field  # type: ignore[prop-decorator]
    @property
    def models(self) -> dict[str, str]:
        """The names of the encoder and the verifier."""
        memory = self.memory
        encoder, verifier = (self._encoder, self._verifier) if memory is None else (memory.encoder, memory.verifier)
        return {"encoder": encoder.name, "verifier": verifier.name}

    @override
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        call = _Call(self, nodes, query_bundle)
        with call.events():
            run(call.ranked())
        return call.found

    @_dispatcher.span
    @override
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        call = _Call(self, nodes, query_bundle)
        with call.events():
            await arun(call.ranked())
        return call.found

    def _prepared_ranker(self) -> Reranker:
        """Return the reranker for the current preferences; made on first use, as an encoder may ask a server."""
        memory = self._judging_memory()
        with self._preparing:
            if self._ranker is None:
                self._ranker = Reranker(memory, keep=self.keep)
            return self._ranker


class _Call:
    """One call: the nodes given, and the nodes to return."""

    def __init__(
        self, processor: EpicNodePostprocessor, nodes: Sequence[NodeWithScore], query: QueryBundle | None
    ) -> None:
        self.nodes = list(several(nodes, NodeWithScore, "NodeWithScore(node=...)"))
        given = [(text_of(one.node), one.node.metadata) for one in self.nodes]
        self.texts = [(content_of(text, metadata), metadata) for text, metadata in given]
        # Positions of nodes that come with guidance in their texts.
        self._guided = {n for n, (text, _) in enumerate(given) if self.texts[n][0] != text}
        self.query = "" if query is None else query.query_str
        self.report = BuildReport()
        self.found: list[NodeWithScore] = []
        self._processor = processor
        self._bundle = query

    @contextmanager
    def events(self) -> Iterator[None]:
        """Send LlamaIndex's start and end events around the block."""
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

    def ranked(self) -> Effects[None]:
        """Judge and rank the nodes; while there are no preferences, they stay as they are: the user gets an answer."""
        processor = self._processor
        try:
            if self.nodes:
                ranker = processor._prepared_ranker()
                self._take((yield from ranker.rank(self.query, self.texts, self.report, top_n=processor.top_n)))
        except NoPreferencesError as error:
            self.found = self.nodes[: processor.top_n]
            if not processor._warned:
                _logger.warning("Nodes stay as they were found while there are no preferences: %s", error)
            processor._warned = True

    def _take(self, ranked: Sequence[Ranked]) -> None:
        """Make the nodes to return, store the report, and warn of undecided texts."""
        self.found = [self._node(number, one) for number, one in enumerate(ranked, start=1)]
        self._processor._report = self.report
        told = "%d texts are undecided, and without guidance, as a model failed"
        warn_of_undecided(self.report, _logger, told)

    def _node(self, number: int, ranked: Ranked) -> NodeWithScore:
        found = self.nodes[ranked.place]
        guidance, metadata = ranked.metadata, copied(found.node.metadata)
        # Guidance that the node already had, and that is unchanged, stays as it is.
        if ranked.decision is not None and guidance.get("epic_alignments") != metadata.get("epic_alignments"):
            metadata = {**{key: value for key, value in metadata.items() if key not in GUIDANCE}, **guidance}
        guided = ranked.decision is not None and (self._processor.guidance == "text" or ranked.place in self._guided)
        if ranked.decision is not None:
            metadata.pop(CONTENT, None)
        if guided:
            metadata[CONTENT] = self.texts[ranked.place][0]
        node = copy_of(found.node, metadata)
        if guided:
            node.set_content(format_hit(number, ranked.hit))
        return NodeWithScore(node=node, score=found.score if ranked.score is None else ranked.score)
