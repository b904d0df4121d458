"""Run of an ingestion step: its input nodes, and the nodes it makes of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from llama_index.core.schema import BaseNode, ImageNode, MetadataMode, Node

from epic_llamaindex.ingestion.links import relink
from epic_llamaindex.nodes import checked_nodes, copy_of, text_of
from epic_memory import BuildReport, Decision, Item
from epic_memory.errors import InvalidInputError, UndecidedError
from epic_memory.settings import checked_settings
from epic_memory.types.verdicts import Judged
from epic_plugins.metadata import as_metadata, guidance_of, own_metadata

if TYPE_CHECKING:
    from epic_llamaindex.ingestion.transform import EpicTransform

_logger = logging.getLogger(__name__)


class Run:
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
