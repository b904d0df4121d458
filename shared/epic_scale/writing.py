"""Writing of judgements into users' memories: by `EpicMemory.add`, with a verifier that repeats what was judged."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from epic_memory import Alignment, Candidate, Decision, EpicMemory, Item, Preference, Settings, Stance, Verdict
from epic_memory.encoders import Encoder, encoder_of
from epic_memory.verification.base import BaseVerifier
from epic_scale.judging import Judgement
from epic_scale.people import model_of
from epic_scale.pool import MemoryPool


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


class Writer:
    """A writer of users' memories into a pool's root.

    Args:
        root: The root.
        verifier: The name of the verifier that judged.
        encoder, llm, settings: As for `EpicMemory`; the model is asked only where preferences of a memory change.
        storage_options: As for `MemoryPool`.
    """

    def __init__(
        self,
        root: str,
        verifier: str,
        encoder: Encoder | str | None = None,
        llm: Any = None,
        settings: Settings = Settings(),
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        self._encoder = encoder_of(encoder)
        self._replay = Replay(verifier)
        # What the first stage let through was found before.
        self._settings = replace(settings, verifier=self._replay, coarse=False, model_budget=None)
        options: dict[str, Any] = {"max_open": 8, "encoder": self._encoder, "storage_options": storage_options}
        self._adding = MemoryPool(root, settings=self._settings, **options)
        self._changing = MemoryPool(root, settings=settings, llm=model_of(llm), **options)

    def write(
        self,
        user: str,
        preferences: Sequence[Preference],
        before: Sequence[str],
        judged: Mapping[str, tuple[Item, Sequence[Judgement]]],
        gone: Sequence[str] = (),
    ) -> dict[str, float]:
        """Write what was judged for a user; an error is part of what is returned.

        A file that is there keeps what else is in it. What it holds already is not added again.

        Args:
            user: The user's id.
            preferences: What the corpus was judged by.
            before: Texts of the preferences of earlier builds, which the user has no more if they are not in these.
            judged: Items and judgements, by the items' ids.
            gone: Ids of items whose text has changed: they go, unless the new text is kept.

        Returns:
            How many `users` were written, `entries` gained, and seconds it took to `write`.
        """
        started = time.perf_counter()
        self._replay.verdicts = {key: verdict_of(judgements) for key, (_, judgements) in judged.items()}
        items = [judged[key][0] for key in sorted(judged)]
        if not self._adding.has(user):
            settings = replace(self._settings, namespace=user)
            with EpicMemory(preferences, encoder=self._encoder, settings=settings) as memory:
                gained = memory.add(items, light=False).entries
                self._adding.put(memory)
            return {"users": 1, "entries": gained, "write": time.perf_counter() - started}
        changed = self._change(user, preferences, before)
        gained = 0
        if items or gone:
            with self._adding.get(user) as memory:
                gained = memory.add(items, light=False).entries
                stale = [one.id for one in memory.get(gone) if one.id not in judged]
                memory.forget(*stale)
                changed = changed or bool(gained or stale)
        return {"users": int(changed), "entries": gained, "write": time.perf_counter() - started}

    def _change(self, user: str, preferences: Sequence[Preference], before: Sequence[str]) -> bool:
        """Give a memory new preferences, and take those of earlier builds that are gone; return whether any were."""
        with self._adding.get(user, read_only=True) as memory:
            held = {one.id: one.text for one in memory.preferences}
        wanted = {one.id for one in preferences}
        gone = [text for key, text in held.items() if key not in wanted and text in before]
        new = [one for one in preferences if one.id not in held]
        if gone or new:
            with self._changing.get(user) as memory:
                for one in new:
                    memory.preferences.add(one)
                for text in gone:
                    memory.preferences.remove(text)
        return bool(gone or new)

    def close(self) -> None:
        """Close all memories."""
        self._adding.close()
        self._changing.close()
