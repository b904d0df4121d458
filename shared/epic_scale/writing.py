"""Writing of judgements into users' memories: by `EpicMemory.add`, with a verifier that repeats what was judged."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from epic_memory import Alignment, Candidate, Decision, EpicMemory, Item, Preference, Stance, Verdict
from epic_memory.encoders import Encoder, encoder_of
from epic_memory.errors import EpicError
from epic_memory.runtime.effects import in_thread
from epic_memory.types import FloatArray
from epic_memory.verification.base import BaseVerifier
from epic_scale.judging import Judgement
from epic_scale.people import model_of
from epic_scale.pool import MemoryPool
from epic_scale.processor import EpicProcessorConfig, sent
from epic_scale.reports import reported
from epic_scale.work import Work


class Replay(BaseVerifier):
    """A verifier that repeats judgements made before.

    Args:
        name: Of the verifier that made them, by which entries name it.

    Attributes:
        verdicts: Verdicts by the ids of items. An item that is not among them is discarded.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.verdicts: dict[str, Verdict] = {}

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        """Yield the verdict of each candidate."""
        for one in candidates:
            yield self.verdicts.get(one.item.id) or Verdict(decision=Decision.DISCARD, rationale="not kept")

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        """Yield the verdict of each candidate."""
        for verdict in self.verify(candidates):
            yield verdict


def verdict_of(judgements: Sequence[Judgement]) -> Verdict:
    """Return the verdict that judgements of one item for one user were made from."""
    kept = [one for one in judgements if one.keep]
    if not kept:
        return Verdict(decision=Decision.UNDECIDED, rationale=next(one.error for one in judgements if one.error))
    return Verdict(
        decision=Decision.KEEP,
        rationale=kept[0].rationale,
        confidence=kept[0].confidence,
        alignments=tuple(
            Alignment(
                preference_id=Preference.of(one.preference or "").id,
                instruction=one.instruction or "",
                stance=Stance(one.stance),
                confidence=one.confidence,
                rationale=one.rationale,
            )
            for one in kept
        ),
    )


class KnownVectors:
    """Encoder that knows the embeddings of texts that were judged; of others it asks the encoder that made them.

    Args:
        encoder: That encoder.

    Attributes:
        known: The embeddings by text, each of shape `(d,)`.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.name, self.dimension, self.fingerprint = encoder.name, encoder.dimension, encoder.fingerprint
        self.known: dict[str, FloatArray] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a copy asks before it has any attribute
            raise AttributeError(name)
        return getattr(self._encoder, name)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return the embeddings of texts."""
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        found = dict(zip(new, self._encoder.encode(new), strict=True)) if new else {}
        vectors = [found[text] if text in found else self.known[text] for text in texts]
        return np.array(vectors, dtype=np.float32).reshape(len(texts), self.dimension)

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """As `encode`, in a thread."""
        return await in_thread(self.encode, texts)


class Writer:
    """Worker that writes what was judged for a user into the user's memory.

    Args:
        shared: The people, and the texts of the preferences that earlier builds gave them; or Ray's reference to both.
        config: The build's; the model is asked only where preferences of a memory change.
        work: The build's.
    """

    def __init__(self, shared: Any, config: EpicProcessorConfig, work: Work) -> None:
        people, self._before = sent(shared)
        texts = ([people.preferences[place] for place in places] for places in people.held)
        self._preferences = dict(zip(people.users, texts, strict=True))
        self.encoder = KnownVectors(encoder_of(config.encoder))
        self._replay = Replay(people.verifier)
        # What the first stage let through was found before.
        self._settings = replace(config.settings, verifier=self._replay, coarse=False, model_budget=None)
        options: dict[str, Any] = {"max_open": 8, "encoder": self.encoder, "storage_options": work.storage_options}
        self._adding = MemoryPool(work.users, settings=self._settings, **options)
        self._changing = MemoryPool(work.users, settings=config.settings, llm=model_of(config.llm), **options)
        # Where nobody else can write the memory: a build that is not the sink's any more writes nothing.
        self._check = work.check_newest

    def __call__(self, group: Any) -> Any:
        """Return one row: what was done for the user of these rows."""
        rows = group.to_pylist()
        gone = [row["id"] for row in rows if row["id"] is not None and row["text"] is None]
        found: dict[str, tuple[Item, dict[str | None, Judgement]]] = {}
        self.encoder.known = {}
        for row in rows:
            if row["text"] is not None:
                item = Item(id=row["id"], text=row["text"], metadata=json.loads(row["metadata"]))
                self.encoder.known[item.content] = np.frombuffer(row["vector"], dtype=np.float32)
                one = Judgement(**{name: row[name] for name in Judgement.__dataclass_fields__})
                # After a build that was killed a chunk can be there twice.
                found.setdefault(item.id, (item, {}))[1][one.preference] = one
        try:
            return reported(
                **self.write(rows[0]["user"], [(item, [*each.values()]) for item, each in found.values()], gone)
            )
        except EpicError as error:
            return reported([str(error)], unwritten=1)

    def write(
        self, user: str, judged: Sequence[tuple[Item, Sequence[Judgement]]], gone: Sequence[str] = ()
    ) -> dict[str, float]:
        """Write what was judged for a user.

        A file that is there keeps what else is in it. What it holds already is not added again.

        Args:
            user: The user's id.
            judged: Items and judgements.
            gone: Ids of items whose text has changed: they go, unless the new text is kept.

        Returns:
            How many `users` were written, `entries` gained, and seconds it took to `write`.
        """
        started, preferences = time.perf_counter(), self._preferences[user]
        self._replay.verdicts = {item.id: verdict_of(judgements) for item, judgements in judged}
        items = sorted((item for item, _ in judged), key=lambda item: item.id)
        if not self._adding.has(user):
            settings = replace(self._settings, namespace=user)
            with EpicMemory(preferences, encoder=self.encoder, settings=settings) as memory:
                gained = memory.add(items, light=False).entries
                self._check()
                self._adding.put(memory)
            return {"users": 1, "entries": gained, "write": time.perf_counter() - started}
        changed, gained = self._change(user, preferences), 0
        if items or gone:
            with self._adding.get(user) as memory:
                self._check()
                gained = memory.add(items, light=False).entries
                stale = [one.id for one in memory.get(gone) if one.id not in self._replay.verdicts]
                memory.forget(*stale)
                changed = changed or bool(gained or stale)
        return {"users": int(changed), "entries": gained, "write": time.perf_counter() - started}

    def _change(self, user: str, preferences: Sequence[Preference]) -> bool:
        """Give a memory new preferences, and take those of earlier builds that are gone; return whether any were."""
        with self._adding.get(user, read_only=True) as memory:
            held = {one.id: one.text for one in memory.preferences}
        wanted = {one.id for one in preferences}
        gone = [text for key, text in held.items() if key not in wanted and text in self._before[user]]
        new = [one for one in preferences if one.id not in held]
        if gone or new:
            with self._changing.get(user) as memory:
                self._check()
                for one in new:
                    memory.preferences.add(one)
                for text in gone:
                    memory.preferences.remove(text)
        return bool(gone or new)

    def close(self) -> None:
        """Close all memories."""
        self._adding.close()
        self._changing.close()
