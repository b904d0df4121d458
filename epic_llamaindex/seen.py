"""Bounded ledger of the nodes that an ingestion step has seen, with the outcome and settings of each."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import TypeAlias

from llama_index.core.schema import BaseNode

from epic_core.types.digests import digest
from epic_core.types.metadata import copied
from epic_llamaindex.nodes import text_of

_Place: TypeAlias = tuple[str, object, object]


@dataclass(frozen=True)
class Reprocessed:
    """Changes to an index after nodes that were seen before are judged anew.

    Attributes:
        gone: The ids of nodes to remove from the index: nodes that are no longer kept, and nodes whose new version
            is among `kept`. Includes given nodes that the ledger does not remember, whether or not the index has them.
        kept: The nodes to insert: nodes that are kept now and were not before, or not with this guidance.
    """

    gone: list[str]
    kept: list[BaseNode]


@dataclass(slots=True)
class Seen:
    """A node as it came in.

    Attributes:
        node: A copy of it.
        settings: The settings it was judged by; None while it is undecided.
        wanted: A digest of the node that was made of it; None if it was not kept.
        given: A digest of the version that was returned last; None if none was.
    """

    node: BaseNode
    settings: str | None
    wanted: bytes | None = None
    given: bytes | None = None


class Ledger:
    """The nodes that were seen last, by their ids. Safe to use from several threads.

    When nodes of a document come again, nodes of an earlier version of the document, and nodes of the same position and
    text with other ids, are dropped: a splitter gives new ids each time, and its caller removes the old nodes.
    Undecided nodes are never dropped for lack of space.

    Attributes:
        size: How many nodes are remembered.
        forgotten: How many nodes were dropped because there were more.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.forgotten = 0
        self._seen: OrderedDict[str, Seen] = OrderedDict()
        self._of_source: dict[str, dict[str, _Place]] = {}
        self._at: dict[tuple[str, _Place], set[str]] = {}
        self._versions: dict[str, str | None] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._seen)

    def resize(self, size: int) -> None:
        """Change how many nodes are remembered."""
        with self._lock:
            self.size = size
            self._forget()

    def note(self, run: Iterable[tuple[BaseNode, bytes | None]], settings: str, undecided: Collection[str]) -> int:
        """Record nodes as they came in, each with the digest of the node made of it, or None if it was not kept.

        Args:
            run: The nodes of one run.
            settings: The settings they were judged by.
            undecided: The ids of nodes without a verdict.

        Returns:
            How many nodes were dropped to make room.
        """
        with self._lock:
            came = list(run)
            self._replace([node for node, _ in came])
            for node, made in came:
                before = self._seen.get(node.node_id)
                if before is not None:
                    self._drop(node.node_id)
                self._seen[node.node_id] = Seen(
                    node=_copy(node),
                    settings=None if node.node_id in undecided else settings,
                    wanted=made,
                    given=None if before is None else before.given,
                )
                source = node.source_node
                if source is not None:
                    place = _place(node)
                    self._of_source.setdefault(source.node_id, {})[node.node_id] = place
                    self._at.setdefault((source.node_id, place), set()).add(node.node_id)
                    self._versions[source.node_id] = source.hash
            return self._forget()

    def note_undecided(self, nodes: Sequence[BaseNode]) -> None:
        """Record nodes as undecided, except nodes that are already in the ledger."""
        with self._lock:
            new = [node for node in nodes if node.node_id not in self._seen]
        self.note(((node, None) for node in new), "", {node.node_id for node in new})

    def give(self, node_ids: Iterable[str]) -> None:
        """Record that the nodes made of these were returned."""
        with self._lock:
            for node_id in node_ids:
                if node_id in self._seen:
                    self._seen[node_id].given = self._seen[node_id].wanted

    def due(self, settings: str) -> list[BaseNode]:
        """Return the nodes to judge again: judged by other settings, or whose made version was never returned.

        All other nodes of the same documents are included, as their links may change.
        """
        with self._lock:
            due = {
                node_id: seen.node.ref_doc_id
                for node_id, seen in self._seen.items()
                if seen.settings != settings or seen.wanted != seen.given
            }
            sources = set(due.values()) - {None}
            return [
                seen.node
                for node_id, seen in self._seen.items()
                if node_id in due or (sources and seen.node.ref_doc_id in sources)
            ]

    def undecided(self) -> list[BaseNode]:
        """Return the nodes without a verdict."""
        with self._lock:
            return [seen.node for seen in self._seen.values() if seen.settings is None]

    def given(self, node_ids: Iterable[str]) -> dict[str, bytes | None]:
        """Return the digest of the version returned last, for each of these nodes that is remembered."""
        with self._lock:
            return {one: self._seen[one].given for one in node_ids if one in self._seen}

    def left_out(self) -> dict[str, BaseNode]:
        """Return the nodes that were not kept when they were judged last."""
        with self._lock:
            return {one: seen.node for one, seen in self._seen.items() if seen.wanted is None}

    def forget(self, ids: Collection[str]) -> int:
        """Drop nodes with these ids, and nodes of documents with these ids; return how many there were."""
        with self._lock:
            gone = [
                node_id
                for node_id, seen in self._seen.items()
                if node_id in ids or (seen.node.ref_doc_id is not None and seen.node.ref_doc_id in ids)
            ]
            for node_id in gone:
                self._drop(node_id)
            return len(gone)

    def _replace(self, nodes: Sequence[BaseNode]) -> None:
        """Drop the nodes that these nodes replace."""
        came = {node.node_id for node in nodes}
        gone: set[str] = set()
        for node in nodes:
            source = node.source_node
            if source is None or source.node_id not in self._of_source:
                continue
            place = _place(node)
            if self._versions[source.node_id] != source.hash:
                gone |= self._of_source[source.node_id].keys() - came
                self._versions[source.node_id] = source.hash
            else:
                gone |= self._at.get((source.node_id, place), set()) - came
        for node_id in gone:
            self._drop(node_id)

    def _drop(self, node_id: str) -> None:
        source_id = self._seen.pop(node_id).node.ref_doc_id
        if source_id is None:
            return
        of_source = self._of_source[source_id]
        key = source_id, of_source.pop(node_id)
        self._at[key].discard(node_id)
        if not self._at[key]:
            del self._at[key]
        if not of_source:
            del self._of_source[source_id], self._versions[source_id]

    def _forget(self) -> int:
        decided = (node_id for node_id, seen in self._seen.items() if seen.settings is not None)
        gone = list(islice(decided, max(0, len(self._seen) - self.size)))
        for node_id in gone:
            self._drop(node_id)
        self.forgotten += len(gone)
        return len(gone)


def _copy(node: BaseNode) -> BaseNode:
    """Copy a node, sharing the parts that nobody changes in place: thousands of copies are held."""
    links = {role: list(link) if isinstance(link, list) else link for role, link in node.relationships.items()}
    excluded = {
        name: list(getattr(node, name)) for name in ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
    }
    return node.model_copy(update={"metadata": copied(node.metadata), "relationships": links, **excluded})


def _place(node: BaseNode) -> _Place:
    """Return a node's text and its position in the document: the same text may occur there twice."""
    return text_of(node), getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)


def digest_of(node: BaseNode, found_by: str) -> bytes:
    """Return a digest of a node's text, metadata and links, and of what it is found by; it identifies a version."""
    links = {
        str(role.value): [one.node_id for one in (link if isinstance(link, list) else [link])]
        for role, link in node.relationships.items()
    }
    return digest(node.hash, json.dumps(links, sort_keys=True), found_by, size=8)
