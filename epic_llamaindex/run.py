"""Run of an ingestion step: its input nodes, and the nodes it makes of them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.ingestion.pipeline import arun_transformations, run_transformations
from llama_index.core.schema import BaseNode, ImageNode, MetadataMode, Node

from epic_core import BuildReport, Decision, Item
from epic_core.errors import InvalidInputError, UndecidedError
from epic_core.integrations.metadata import REWRITE, as_metadata, guidance_of, own_metadata
from epic_core.types.digests import digest
from epic_core.types.verdicts import Judged
from epic_llamaindex.links import relink
from epic_llamaindex.nodes import checked_nodes, copy_of, text_of
from epic_llamaindex.seen import Reprocessed, digest_of
from epic_llamaindex.told import told

if TYPE_CHECKING:
    from epic_llamaindex.transform import EpicTransform

_logger = logging.getLogger(__name__)

_RUNNERS = (run_transformations.__code__, arun_transformations.__code__)


class Run:
    """One run of an ingestion step: its input nodes, and the nodes it makes of them."""

    def __init__(
        self,
        step: EpicTransform,
        nodes: Sequence[BaseNode] | None,
        options: Mapping[str, Any] | None = None,
        *,
        again: bool = False,
    ) -> None:
        if "preferences" in (options or {}):
            raise InvalidInputError("A pipeline's cache does not see preferences=: give them to EpicTransform itself.")
        self._step = step
        self._settings = digest(str(step.to_dict())).hex()
        self._again = again
        self._by_ledger = again and nodes is None
        self.nodes = step._seen.due(self._settings) if self._by_ledger else checked_nodes(nodes)
        self.report = BuildReport()
        self.items: list[Item] = []
        self._judged: list[BaseNode] = []
        self._blank: list[BaseNode] = []
        for number, node in enumerate(self.nodes, start=1):
            self._take(number, node)
        self._made: dict[int, BaseNode] = {}
        self._digests: dict[int, bytes] = {}
        self._undecided: set[str] = set()

    def _take(self, number: int, node: BaseNode) -> None:
        if not text_of(node).strip():
            if not _is_media(node):
                self._blank.append(node)
            return
        try:
            # Without the metadata, which need not be JSON.
            self.items.append(Item(id=node.node_id, text=node.get_content(self._step.metadata_mode)))
        except InvalidInputError as error:
            raise InvalidInputError(f"Node {number} ({node.node_id!r}): {error}") from None
        self._judged.append(node)

    def to_embed(self, judged: Sequence[Judged]) -> list[str]:
        """Return the texts that the kept nodes are found by, each once; nothing if nodes get no embedding."""
        if self._step.embed_model is None:
            return []
        texts = (self._found_by(node, one) for node, one in zip(self._judged, judged, strict=True))
        return list(dict.fromkeys(filter(None, texts)))

    def _found_by(self, node: BaseNode, judged: Judged) -> str:
        """Return the text whose embedding a returned node gets; empty if it gets none."""
        if judged.verdict.decision is Decision.UNDECIDED and self._step.on_undecided == "keep":
            return node.get_content(MetadataMode.EMBED)
        alignments = judged.verdict.alignments
        return judged.rewrite or (alignments[0].instruction.strip() if alignments else "")

    def finish(self, judged: Sequence[Judged], vectors: Mapping[str, list[float]]) -> None:
        """Make the nodes to return, and record the outcome of each node.

        Raises:
            UndecidedError: if nodes are undecided and `on_undecided` is "raise".
        """
        verdicts = {id(node): one for node, one in zip(self._judged, judged, strict=True)}
        blank = {id(node) for node in self._blank}
        gone: dict[str, BaseNode] = self._step._seen.left_out() if self._again else {}
        for node in self.nodes:
            one = verdicts.get(id(node))
            undecided = one is not None and one.verdict.decision is Decision.UNDECIDED
            if undecided:
                self._undecided.add(node.node_id)
            passes = self._step.on_undecided == "keep" if undecided else one is None and id(node) not in blank
            if one is not None and (one.kept or passes):
                self._made[id(node)] = self._annotated(node, one, vectors)
            elif passes:
                self._made[id(node)] = copy_of(node, own_metadata(node.metadata))
            else:
                gone[node.node_id] = node
        kept = list(self._made.values())
        for node in kept:
            gone.pop(node.node_id, None)
        relink(kept, gone)
        found_by = {id(node): self._found_by(node, one) for node, one in zip(self._judged, judged, strict=True)}
        embedded = told(self._step._embedder) if vectors else ""
        for key, made in self._made.items():
            found = found_by.get(key, "")
            self._digests[key] = digest_of(made, embedded + found if found in vectors else "")
        seen = self._step._seen
        self._known = seen.given(node.node_id for node in self.nodes)
        forgotten = seen.note(
            ((node, self._digests.get(id(node))) for node in self.nodes), self._settings, self._undecided
        )
        self._tell(forgotten)

    def failed(self) -> None:
        """Record nodes that an error left without a verdict: a docstore may already count their documents as known."""
        if not self._again:
            self._step._seen.note_undecided(self.nodes)

    def _annotated(self, node: BaseNode, judged: Judged, vectors: Mapping[str, list[float]]) -> BaseNode:
        metadata = own_metadata(node.metadata)
        if self._step.annotate and judged.kept:
            metadata |= as_metadata(guidance_of(judged))
            if judged.rewrite:
                metadata[REWRITE] = judged.rewrite
        vector = vectors.get(self._found_by(node, judged))
        return copy_of(node, metadata) if vector is None else copy_of(node, metadata, embedding=list(vector))

    def _tell(self, forgotten: int) -> None:
        """Hand over the report; log its warnings of undecided or missing nodes, which might otherwise go unseen."""
        step, report = self._step, self.report
        step._report = report
        if not self.items and step.coarse:
            report.tau = step.models["tau"]
        if self._blank:
            report.warnings.append(f"{len(self._blank)} nodes without text were left out.")
        if forgotten and step.ledger:
            report.warnings.append(
                f"{forgotten} nodes are no longer remembered for reprocess(), as ledger is {step.ledger}. After a"
                " change of preferences, give them: reprocess(nodes)."
            )
        if self._by_ledger and step._seen.forgotten:
            report.warnings.append(
                f"{step._seen.forgotten} nodes that were seen are not among these, as ledger is {step.ledger}. Give"
                " them: reprocess(nodes)."
            )
            _logger.warning("%s", report.warnings[-1])
        if not self._undecided:
            return
        said = (
            f"{len(self._undecided)} of {len(self._judged)} nodes are undecided, as a model failed:"
            f" {next(iter(report.failures.values()), 'no reason was given')}"
        )
        report.warnings.append(said)
        named = ", ".join(sorted(self._undecided)[:20])
        if step.on_undecided == "raise":
            raise UndecidedError(
                f"{said} What was decided is remembered: run it again when the model answers. Where a document store"
                " takes the documents for known by then, reprocess() gives their nodes. To go on nevertheless, give"
                f" on_undecided='keep', which takes such nodes in as they are, or 'skip'. Undecided: {named}"
            )
        done = "kept without guidance" if step.on_undecided == "keep" else "left out"
        _logger.warning("%s They are %s, and in `undecided`: %s", said, done, named)

    def kept(self) -> list[BaseNode]:
        """Return the nodes that were made, and record that they were returned."""
        self._step._seen.give(node.node_id for node in self.nodes)
        return [self._made[id(node)] for node in self.nodes if id(node) in self._made]

    def changes(self) -> Reprocessed:
        """Return the changes compared with the nodes that were returned before."""
        gone, kept = [], []
        for node in self.nodes:
            made = self._made.get(id(node))
            # A node that is in the index stays there while it is undecided.
            if node.node_id in self._undecided and (made is None or self._known.get(node.node_id) is not None):
                continue
            if node.node_id in self._known and self._known[node.node_id] == self._digests.get(id(node)):
                continue
            if self._known.get(node.node_id, b"") is not None:
                gone.append(node.node_id)
            if made is not None:
                kept.append(made)
        given = {node.node_id for node in kept}
        self._step._seen.give(one.node_id for one in self.nodes if one.node_id not in self._undecided - given)
        return Reprocessed(gone=gone, kept=kept)


def _is_media(node: BaseNode) -> bool:
    """Tell whether a node has an image, audio or video."""
    if isinstance(node, Node):
        return any((node.image_resource, node.audio_resource, node.video_resource))
    return isinstance(node, ImageNode)


def check_last(step: EpicTransform) -> None:
    """Refuse to run if a later step would replace the embeddings of the instructions with others.

    The framework does not tell a step its place: only the frame of the running pipeline shows it. An error at the later
    step would come too late: the cache would hold the nodes by then, and this step would not run again.

    Raises:
        InvalidInputError: if there is such a step.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in _RUNNERS:
        frame = frame.f_back
    if frame is None:
        return
    steps = list(frame.f_locals["transformations"])
    after = steps[next((place for place, one in enumerate(steps) if one is step), len(steps)) + 1 :]
    for one in after:
        if isinstance(one, BaseEmbedding) or getattr(one, "embed_model", None) is not None:
            raise InvalidInputError(
                f"{type(one).__name__} comes after an EpicTransform with embed_model=, and would put other embeddings"
                " in the place of the instructions'. Leave that step out, or leave out embed_model=."
            )
