"""Construction of a HippoRAG instance's graph: documents become items, and the passages follow the memory."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from epic_core.errors import InvalidInputError
from epic_core.graph.extraction.base import Extractor
from epic_core.graph.hipporag.instance import Instance
from epic_core.graph.hipporag.openie import Extracting, ExtractorOpenIE, SafeOpenIE, evaluates
from epic_core.graph.hipporag.record import Record, digest_of
from epic_core.types import BuildReport, Item


@dataclass(kw_only=True)
class HippoReport:
    """The outcome of one change to the memory and the graph.

    Attributes:
        memory: The memory's report: what it kept, discarded, and could not decide.
        indexed: How many passages were added to the graph.
        removed: How many passages were removed from it.
        passages: How many it holds now, including those it held before.
        foreign: How many of these were there before and are not judged (`EpicHippoRAG.adopt`).
        failures: Why extraction failed for passages: item id to reason. These have no facts, and are found by their own
            text alone, until `retry` extracts them.
        seconds: Time spent on the graph.
        warnings: Warnings in words, besides the memory's own.
    """

    memory: BuildReport = field(default_factory=BuildReport)
    indexed: int = 0
    removed: int = 0
    passages: int = 0
    foreign: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)

    def _lines(self) -> Iterator[str]:
        if self.memory.seen:
            yield str(self.memory)
        yield f"graph           {self.passages:>8} passages   (+{self.indexed} -{self.removed}, {self.seconds:.3f} s)"
        if self.foreign:
            yield f"not judged      {self.foreign:>8}   in the graph from before; adopt() does it"
        if self.failures:
            yield f"not extracted   {len(self.failures):>8}   found by their text alone; retry() tries again"
        for reason, count in Counter(self.failures.values()).most_common(3):
            yield f"not extracted ({count}): {reason}"
        for warning in self.warnings:
            yield f"warning: {warning}"

    def __str__(self) -> str:
        return "\n".join(self._lines())


class Building:
    """Builder that makes the graph of an instance follow its memory. Not safe to use from several threads.

    Args:
        instance: The instance.
        record: The record of the passages that came from the memory.
        extraction: As for `EpicHippoRAG`.
    """

    def __init__(self, instance: Instance, record: Record, extraction: Literal["safe", "own"] | Extractor) -> None:
        self._instance = instance
        self._record = record
        self._extraction = extraction
        # How often each failed passage was tried again.
        self._attempts: dict[str, int] = {}

    def follow(self, report: HippoReport, given: Collection[str] = (), *, trusted: bool = False) -> HippoReport:
        """Make the graph hold what the memory holds; of the given texts, remove those that the memory does not hold."""
        started = time.perf_counter()
        report.removed = self._record.follow(given, anew=True, trusted=trusted)
        passages = set(self._instance.passages.values())
        entering = self._record.entering()
        metadata = {one.text: one.item.metadata for one in entering if one.text not in passages}
        self.index(metadata, report)
        if entering:
            self._record.enter(entering)
        self._record.follow()
        texts = self._instance.passages.values()
        report.indexed, report.passages, report.failures = len(metadata), len(texts), self._record.failures
        report.foreign = sum(not self._record.knows(text) for text in texts)
        report.seconds = time.perf_counter() - started
        return report

    def again(self, report: HippoReport) -> HippoReport:
        """Do the same as `follow`, and extract passages again whose extraction failed."""
        self._record.follow()
        failed = self._record.failed
        again = [text for text in self._instance.passages.values() if digest_of(text) in failed]
        for text in again:
            self._attempts[text] = self._attempts.get(text, 0) + 1
        self._record.remove(again)
        report = self.follow(report)
        self._attempts = {text: n for text, n in self._attempts.items() if digest_of(text) in failed}
        return report

    def index(self, metadata: Mapping[str, Mapping[str, Any]], report: HippoReport) -> None:
        """Index texts, each with its metadata, and the passages that the graph has lost."""
        texts = list(dict.fromkeys([*metadata, *self._instance.unlinked]))
        if not texts:
            return
        extracting = self._extracting()
        self._instance.index(texts, extracting, metadata)
        if isinstance(extracting, Extracting):
            self._record.failed |= {digest_of(text): reason for text, reason in extracting.failed.items()}
            if extracting.left_out:
                report.warnings.append(
                    f"{extracting.left_out} facts were left out: HippoRAG keeps the letters of A-Z only, and their"
                    " names have none."
                )

    def _extracting(self) -> Any:
        """Return the replacement of the instance's extraction; None if its own is used."""
        if self._extraction == "own":
            return None
        if self._extraction != "safe":
            return ExtractorOpenIE(self._extraction)
        own = self._instance.raw.openie
        return SafeOpenIE(own, attempts=self._attempts) if evaluates(own) else None


def several(docs: Any) -> list[Any]:
    """Return documents as a list; a single document becomes a list of one.

    Raises:
        InvalidInputError: for anything but documents.
    """
    if isinstance(docs, (bytes, Mapping)) or not isinstance(docs, (str, Item, Iterable)):
        raise InvalidInputError(f"EpicHippoRAG takes texts or Items, not {type(docs).__name__}.")
    return [docs] if isinstance(docs, (str, Item)) else list(docs)


def cut(docs: Any, preprocessor: Any) -> tuple[list[Item], int]:
    """Return documents as items, and how many have no text.

    Args:
        docs: Texts, items, or what the preprocessor takes.
        preprocessor: The instance's own, which cuts everything but items; None to cut nothing.

    Raises:
        InvalidInputError: for anything but documents.
    """
    items, blank = [], 0
    for number, doc in enumerate(several(docs), start=1):
        try:
            for piece in _pieces(doc, preprocessor):
                if isinstance(piece, str) and not piece.strip():
                    blank += 1
                else:
                    items.append(Item.of(piece))
        except InvalidInputError as error:
            raise InvalidInputError(f"Document {number}: {error}") from None
    return items, blank


def _pieces(doc: Any, preprocessor: Any) -> Iterator[Any]:
    if preprocessor is None or isinstance(doc, Item):
        yield doc
        return
    for chunk in preprocessor.preprocess([doc]):
        metadata = dict(getattr(chunk, "metadata", None) or {})
        if getattr(chunk, "source_id", None) is not None:
            metadata["source_id"] = chunk.source_id
        yield Item(text=chunk.content, metadata=metadata) if metadata and chunk.content.strip() else chunk.content
