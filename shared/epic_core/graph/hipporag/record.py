"""Record of the passages of a HippoRAG instance that came from a memory, so that the graph can follow the memory.

A passage is identified by its text, an item by the version that was offered: a byte budget may shorten the text that
a memory keeps, while the passage stays as it was indexed. Passages from the memory are listed in `epic_passages.json`
in the instance's folder: all others were the user's own before.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

from epic_core.errors import InvalidInputError, StoreError
from epic_core.graph.hipporag.instance import Instance, write_json
from epic_core.memory import EpicMemory
from epic_core.storage.tables.items import HeldItem
from epic_core.types import Hit, Item, MemoryEntry
from epic_core.types.metadata import copied

_FILE = "epic_passages.json"
_VERSION = 1
# The separator of an instruction and the text, if both are indexed.
_GAP = "\n\n"


class Entering(NamedTuple):
    """An item that the memory holds and the graph does not: the text to index, the item, and its mark."""

    text: str
    item: Item
    mark: str


class Record:
    """Record that keeps a HippoRAG instance in step with a memory. Not safe to use from several threads.

    Args:
        instance: The instance with the passages.
        memory: The memory that decides.
        instructed: Whether the instructions are indexed in front of the text.

    Attributes:
        failed: The passages without facts, because extraction failed: digest of the text to reason.

    Raises:
        StoreError: if the file cannot be read, or is of another version.
    """

    def __init__(self, instance: Instance, memory: EpicMemory, *, instructed: bool) -> None:
        self._instance = instance
        self._memory = memory
        self._instructed = instructed
        self._marks, self.failed = self._read()
        # For passages from the memory: the item by the indexed text, and the indexed text by the item's text.
        self._items: dict[str, Item] = {}
        self._indexed: dict[str, str] = {}
        self._followed: object = None
        # Whether the memory was found to hold a passage of the graph, or the caller said that it is the one to follow.
        self._trusted = False

    # contents

    def knows(self, text: str) -> bool:
        """Tell whether a passage came from the memory."""
        return digest_of(text) in self._marks

    def item(self, text: str) -> Item | None:
        """Return the item of a passage, given by the indexed text or the item's text."""
        return self._items.get(self.indexed(text))

    def indexed(self, text: str) -> str:
        """Return the indexed text for an item's text."""
        return text if text in self._items else self._indexed.get(text, text)

    def hit(self, text: str, score: float = 0.0, *, under: Collection[str | None] | None = None) -> Hit:
        """Return a passage as a hit, with its entries under some preferences, given by their ids, or under all.

        For a passage that did not come from the memory, only its text is known.
        """
        item = self.item(text)
        if item is None:
            return Hit(item=Item(text=text), score=score, tier="fallback")
        entries = self._entries(item)
        kept = entries if under is None else [one for one in entries if one.preference_id in under]
        return Hit(item=replace(item, metadata=copied(item.metadata)), score=score, entries=tuple(kept))

    @property
    def failures(self) -> dict[str, str]:
        """Why passages are without facts: item id to reason."""
        if not self.failed:
            return {}
        ids = {digest_of(text): item.id for text, item in self._items.items()}
        return {ids[key]: reason for key, reason in self.failed.items() if key in ids}

    # following the memory

    def entering(self) -> list[Entering]:
        """Return the items that the memory holds and the graph is not known to hold."""
        known = {mark for marks in self._marks.values() for mark in marks}
        return [Entering(self._text(one), one.item, mark) for one, mark in self._held() if mark not in known]

    def enter(self, entered: Iterable[Entering]) -> None:
        """Record that passages are in the graph."""
        for one in entered:
            self._marks.setdefault(digest_of(one.text), []).append(one.mark)
        self._followed = None
        self._write()

    def follow(self, given: Collection[str] = (), *, anew: bool = False, trusted: bool = False) -> int:
        """Remove passages from the graph that the memory no longer holds; return how many.

        Passages that were removed from the graph in another way leave the memory; but if all are gone at once, the
        graph was probably lost, and they are indexed anew.

        Args:
            given: Texts of passages to remove as well unless the memory holds them.
            anew: Compare even if the memory has not changed.
            trusted: Empty the graph, too, if the memory holds none of its passages.

        Raises:
            InvalidInputError: if it holds none of the passages that came from a memory, and so seems to be another one.
        """
        if not (anew or given) and self._followed == self._session():
            return 0
        there = {digest_of(text): text for text in self._instance.passages.values()}
        lost = [key for key in self._marks if key not in there]
        held = {mark: one for one, mark in self._held()}
        self._trusted = self._trusted or trusted
        if not self._trusted:
            self._check([marks for key, marks in self._marks.items() if key in there], held)
        if lost and len(lost) < len(self._marks) and self._memory._session.store.writable:
            self._memory.forget(*{held[mark].item.id for key in lost for mark in self._marks[key] if mark in held})
            held = {mark: one for one, mark in self._held()}
        kept = {key: [mark for mark in self._marks[key] if mark in held] for key in self._marks if key not in lost}
        leaving = [there[key] for key, marks in kept.items() if not marks]
        if given:
            wanted = {self._text(one) for one in held.values()}
            leaving += [text for key, text in there.items() if text in given and key not in kept and text not in wanted]
        changed = kept != self._marks
        # Remove first: a passage that cannot be removed would count as the user's own once its mark is gone.
        self.remove(leaving)
        self._marks = {key: marks for key, marks in kept.items() if marks}
        if changed:
            self._write()
        first = {there[key]: marks[0] for key, marks in self._marks.items()}
        self._items = {text: _as_indexed(held[mark].item, text, mark) for text, mark in first.items()}
        self._indexed = {item.text: text for text, item in self._items.items()}
        self._followed = self._session()
        return len(leaving)

    def _check(self, passages: Sequence[Sequence[str]], held: Iterable[str]) -> None:
        """Check that the memory holds a passage that came from a memory; passages are given by their marks.

        Raises:
            InvalidInputError: if it holds none of them.
        """
        versions = {_version(mark) for mark in held}
        if passages and not any(_version(mark) in versions for marks in passages for mark in marks):
            raise InvalidInputError(
                f"This memory holds none of the {len(passages)} passages that came into the graph from a memory: it is"
                " another one, or they were in a memory in RAM. Give the memory they came from,"
                " EpicMemory.open(path), or index the same documents again; update() takes them out of the graph."
            )
        self._trusted = True

    def remove(self, texts: Sequence[str]) -> None:
        """Remove passages from the graph."""
        if not texts:
            return
        self._instance.delete(texts)
        for text in texts:
            self._marks.pop(digest_of(text), None)
            self.failed.pop(digest_of(text), None)
        self._followed = None
        self._write()

    def _session(self) -> object:
        # The revision does not change when a preference expires.
        return self._memory.revision, tuple(preference.id for preference in self._memory.preferences)

    def _held(self) -> list[tuple[HeldItem, str]]:
        """Return the items held under a live preference, each with its mark, which identifies its version and form."""
        session = self._memory._session
        with session.lock, session.store.reading():
            space = session.space()
            held = [one for row, one in session.store.items.held(space.namespace) if space.rows_of.get(row)]
        return [(one, _mark(one, self._instruction(one.item))) for one in held]

    def _text(self, one: HeldItem) -> str:
        """Return the text to index for an item."""
        text, instruction = one.rewrite or one.item.text, self._instruction(one.item)
        return f"{instruction}{_GAP}{text}" if instruction else text

    def _instruction(self, item: Item) -> str:
        """Return the instructions in front of the indexed text; empty if they are not indexed."""
        if not self._instructed:
            return ""
        return "\n".join(entry.instruction for entry in self._entries(item) if entry.instruction)

    def _entries(self, item: Item) -> list[MemoryEntry]:
        """Return an item's entries under live preferences; none if another thread has just forgotten it."""
        session = self._memory._session
        with session.lock, session.store.reading():
            space = session.space()
            row = session.store.items.row(space.namespace, item.id)
            entries = [] if row is None else session.store.entries.of_item(space.namespace, row)
            live = {None, *(preference.id for preference in space.preferences)}
        return [entry for entry in entries if entry.preference_id in live]

    # the file

    def _read(self) -> tuple[dict[str, list[str]], dict[str, str]]:
        folder = self._instance.folder
        if folder is None or not (path := folder / _FILE).exists():
            return {}, {}
        try:
            known: Any = json.loads(path.read_text(encoding="utf-8"))
            version, marks, failed = known["version"], dict(known["passages"]), dict(known["failed"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path} cannot be read: {error}. Go back to a copy of the folder; or remove the file: passages that"
                " the memory holds are known again then, and others taken for your own."
            ) from error
        if version != _VERSION:
            raise StoreError(f"{path} is of version {version}, and {_VERSION} is read here. Update epic-memory.")
        return marks, failed

    def _write(self) -> None:
        if self._instance.folder is not None:
            known = {"version": _VERSION, "passages": self._marks, "failed": self.failed}
            write_json(self._instance.folder / _FILE, known)


def digest_of(text: str) -> str:
    """Return a digest of a text, as hexadecimal digits."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _mark(one: HeldItem, instruction: str) -> str:
    """Return a mark that changes with the text to be indexed; it ends with "/" if that is the item's own text."""
    changed = f"{one.rewrite}{_GAP}{instruction}" if one.rewrite or instruction else ""
    return f"{one.digest.hex()}/{digest_of(changed) if changed else ''}"


def _version(mark: str) -> str:
    """Return the part of a mark that identifies an item's version, whatever text is indexed for it."""
    return mark.partition("/")[0]


def _as_indexed(item: Item, text: str, mark: str) -> Item:
    """Return the item with its whole text, if that was indexed."""
    return replace(item, text=text) if mark.endswith("/") else item
