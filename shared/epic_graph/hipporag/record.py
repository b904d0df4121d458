"""Record of the passages of a HippoRAG instance that came from a memory, so that the graph can follow the memory.

A passage is identified by its text, an item by the version that was offered. Passages from the memory are listed in
`epic_passages.json` in the instance's folder: all others were the user's own before.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from epic_graph.hipporag.instance import Instance, write_json
from epic_memory.errors import InvalidInputError, StoreError
from epic_memory.memory import EpicMemory
from epic_memory.types import Hit, Item
from epic_memory.types.metadata import copied

_VERSION = 1


class Record:
    """Record that keeps a HippoRAG instance in step with a memory. Not safe to use from several threads.

    Args:
        instance: The instance with the passages.
        memory: The memory that decides.

    Attributes:
        failed: The passages without facts, because extraction failed: digest of the text to reason.

    Raises:
        StoreError: if the file cannot be read, or is of another version.
    """

    def __init__(self, instance: Instance, memory: EpicMemory) -> None:
        self._instance = instance
        self._memory = memory
        self._session = memory._session
        self._path = Path(instance.raw.working_dir) / "epic_passages.json"
        # Marks of items, which identify their versions, to the digests of the texts that were indexed.
        self._marks, self.failed = self._read()
        # For passages from the memory: the item by the indexed text.
        self._items: dict[str, Item] = {}
        self._followed: object = None
        # Whether the memory was found to hold a passage of the graph, or the caller said that it is the one to follow.
        self._trusted = False

    # contents

    def knows(self, text: str) -> bool:
        """Tell whether a passage came from the memory."""
        return digest_of(text) in self._marks.values()

    def item(self, text: str) -> Item | None:
        """Return the item of a passage, with the text that was indexed."""
        return self._items.get(text)

    def hit(self, text: str, score: float = 0.0) -> Hit:
        """Return a passage as a hit; of one that did not come from the memory, only its text is known."""
        item = self.item(text)
        if item is None:
            return Hit(item=Item(text=text), score=score, tier="fallback")
        entries = tuple(self._memory.file.entries([item.id]).get(item.id, ()))
        return Hit(item=replace(item, metadata=copied(item.metadata)), score=score, entries=entries)

    @property
    def failures(self) -> dict[str, str]:
        """Why passages are without facts: item id to reason."""
        ids = {digest_of(text): item.id for text, item in self._items.items()} if self.failed else {}
        return {ids[key]: reason for key, reason in self.failed.items() if key in ids}

    # following the memory

    def entering(self) -> dict[str, str]:
        """Return the texts to index for items that the memory holds and the graph is not known to hold, by marks."""
        return {mark: item.text for mark, item in self._held().items() if mark not in self._marks}

    def enter(self, entered: Mapping[str, str]) -> None:
        """Record that passages are in the graph."""
        self._marks |= {mark: digest_of(text) for mark, text in entered.items()}
        self._followed = None
        self._write()

    def follow(self, given: Collection[str] = (), *, anew: bool = False, trusted: bool = False) -> int:
        """Remove passages from the graph that the memory no longer holds; return how many.

        Passages that were removed from it in another way are indexed again.

        Args:
            given: Texts of passages to remove as well unless the memory holds them.
            anew: Compare even if the memory has not changed.
            trusted: Empty the graph, too, if the memory holds none of its passages.

        Raises:
            InvalidInputError: if it holds none of the passages that came from a memory, and so seems to be another one.
            StoreError: if the cache of the instance's language model, which quotes passages, cannot be cleared.
        """
        if not (anew or given) and self._followed == self._state():
            return 0
        there = {digest_of(text): text for text in self._instance.passages.values()}
        held = self._held()
        self._check([mark for mark, key in self._marks.items() if key in there], held, trusted)
        kept = {mark: key for mark, key in self._marks.items() if mark in held and key in there}
        left = set(self._marks.values()) - set(kept.values())
        if given:
            wanted = {item.text for item in held.values()}
            own = set(self._marks.values())
            left |= {key for key, text in there.items() if text in given and key not in own and text not in wanted}
        leaving = [there[key] for key in left if key in there]
        if leaving:
            self._instance.forget_answers()
        # Remove first: a passage that cannot be removed would count as the user's own once its mark is gone.
        self.remove(leaving)
        if kept != self._marks:
            self._marks = kept
            self._write()
        # Of items with the same text, the first.
        self._items = {there[key]: replace(held[mark], text=there[key]) for mark, key in reversed(kept.items())}
        self._followed = self._state()
        return len(leaving)

    def _check(self, marks: Sequence[str], held: Iterable[str], trusted: bool) -> None:
        """Check that the memory holds an item of those whose passages are in the graph.

        Raises:
            InvalidInputError: if it holds none of them.
        """
        if marks and not (trusted or self._trusted or set(marks) & set(held)):
            raise InvalidInputError(
                f"This memory holds none of the {len(marks)} passages that came into the graph from a memory: it is"
                " another one, or they were in a memory in RAM. Give the memory they came from,"
                " EpicMemory.open(path), or index the same documents again; update() takes them out of the graph."
            )
        self._trusted = True

    def remove(self, texts: Sequence[str]) -> None:
        """Remove passages from the graph."""
        if not texts:
            return
        self._instance.delete(texts)
        gone = set(map(digest_of, texts))
        self._marks = {mark: key for mark, key in self._marks.items() if key not in gone}
        self.failed = {key: reason for key, reason in self.failed.items() if key not in gone}
        self._followed = None
        self._write()

    def _state(self) -> object:
        # The revision does not change when a preference expires.
        return self._memory.file.revision, tuple(preference.id for preference in self._memory.preferences)

    def _held(self) -> dict[str, Item]:
        """Return the items held under a live preference, by their marks."""
        with self._session.lock, self._session.store.reading():
            space = self._session.space()
            held = self._session.store.items.held(space.namespace)
            return {one.digest.hex(): one.item for row, one in held if space.rows_of.get(row)}

    # the file

    def _read(self) -> tuple[dict[str, str], dict[str, str]]:
        if not self._path.exists():
            return {}, {}
        try:
            known: Any = json.loads(self._path.read_text(encoding="utf-8"))
            version, marks, failed = known["version"], dict(known["passages"]), dict(known["failed"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{self._path} cannot be read: {error}. Go back to a copy of the folder; or remove the file: passages"
                " that the memory holds are known again then, and others taken for your own."
            ) from error
        if version != _VERSION:
            raise StoreError(f"{self._path} is of version {version}, and {_VERSION} is read here. Update epic-memory.")
        return marks, failed

    def _write(self) -> None:
        write_json(self._path, {"version": _VERSION, "passages": self._marks, "failed": self.failed})


def digest_of(text: str) -> str:
    """Return a digest of a text, as hexadecimal digits."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
