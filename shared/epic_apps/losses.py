"""Losses: at which stage a text that one misses was lost on its way into a memory, or out of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from epic_apps.cli.reasons import turned_away_now
from epic_apps.cli.sources import Sources
from epic_apps.origins import with_origin
from epic_apps.syncing import files_without_room
from epic_learn.credentials import holds_credential
from epic_learn.types import plain
from epic_memory.encoders.base import default_tau, embed
from epic_memory.memory import EpicMemory, checked_memory
from epic_memory.text.stems import content_stems
from epic_memory.types import Item, checked_text

_Thing = TypeVar("_Thing")
Stage: TypeAlias = Literal[
    "held",
    "below the threshold",
    "proposed",
    "undecided",
    "turned away",
    "replaced",
    "coarse filter",
    "verification",
    "budget",
    "expired",
    "ruled out",
    "secret",
    "not known",
]
"""Where a text is, or was lost. "not known": never said, or forgotten or over, which leaves no trace."""

_STAGES: dict[str, Stage] = {
    "coarse filter": "coarse filter", "verification": "verification", "budget": "budget", "expired": "expired",
}  # fmt: skip
_MOST = 5
# Two texts that are so near say the same, if in other words.
_SAME, _SAME_SENTENCE = 0.6, 0.85
# A preference is in a few words, and is near what it is about: by this factor above the coarse filter's threshold.
_ABOUT, _ABOUT_SENTENCE = 1.6, 2.0
_OF_ONESELF = re.compile(r"\b(?:I|me|my|mine|myself)\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class WhyNot:
    """Where a text is, or why it is not there.

    Attributes:
        stage: Where it was lost, or is.
        reason: Why, in words.
        text: The text that this is about, as far as it is known.
        do: What to do about it; empty for nothing.
    """

    stage: Stage
    reason: str
    text: str = ""
    do: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, (f"{self.stage}: {self.reason}", self.text and f"    {self.text!r}", self.do)))


def why_not(memory: EpicMemory, text: str) -> WhyNot:
    """Say at which stage a text was lost that one expected to find.

        print(why_not(memory, "my sister's name"))

    Args:
        memory: The memory. It is not changed.
        text: The text, or a few words about it.

    Raises:
        InvalidInputError: for an empty text.
    """
    asked = _Asked(checked_memory(memory), checked_text(text, "The text"))
    looks = [asked.kept_out, asked.exactly, asked.proposed, asked.recorded, asked.alike, asked.judged_now]
    # One word may be in many texts: those that are held come first.
    looks.insert(3 if asked.has_several_words else 5, asked.without_room)
    for look in (*looks, asked.preferred):
        if (found := look()) is not None:
            return found
    now = turned_away_now(memory, Item(text=text.strip()))
    return WhyNot(
        stage="not known",
        reason="nothing like it was ever said; or it was forgotten, is over, or was rejected in other words,"
        f" which leaves no trace. If it came now, it would {'be kept' if now is None else f'not be kept: {now.why}'}",
        do="Say it again: epic note FILE TEXT for a fact, epic add FILE TEXT for anything else.",
    )


class _Asked:
    """One question, and where its answer may be."""

    def __init__(self, memory: EpicMemory, text: str) -> None:
        self._memory, self._text = memory, text.strip()
        self._stems = set(content_stems(text))

    @property
    def has_several_words(self) -> bool:
        """True if it has more than one word that carries meaning."""
        return len(self._stems) > 1

    def kept_out(self) -> WhyNot | None:
        """Look at what is never kept."""
        if holds_credential(self._text):
            return WhyNot(stage="secret", reason="it says a password, a key or a number that is never kept")
        if (topic := self._memory.never.topic_of(self._text)) is not None:
            reason = f"it is about {topic!r}, of which nothing is kept"
            return WhyNot(stage="ruled out", reason=reason, do=f"epic never FILE remove {topic!r} lifts the rule.")
        return None

    def exactly(self) -> WhyNot | None:
        """Look at what is held or waits in these words."""
        held = [*self._memory.preferences, *self._memory.facts, *self._memory.items()]
        wanted = plain(self._text)
        same = next((each for each in held if wanted in (plain(each.text), plain(each.id))), None)
        same = same or next((each for each in held if len(self._stems) > 1 and wanted in plain(each.text)), None)
        if same is not None:
            found = [hit.item.id for hit in self._memory.search(self._text, _MOST)]
            if not isinstance(same, Item) or same.fact or same.id in found:
                return WhyNot(stage="held", reason="it is there, and a search for it finds it", text=same.text)
            reason = "it is held, but nothing in it answers these words"
            return WhyNot(stage="below the threshold", reason=reason, text=same.text, do="Ask with --all.")
        waiting = next((each for each in self._memory.items(waiting=True) if self._is_like(each.text)), None)
        if waiting is not None:
            do = "epic retry FILE --llm MODEL"
            return WhyNot(stage="undecided", reason="it waits for a verdict", text=waiting.text, do=do)
        return None

    def proposed(self) -> WhyNot | None:
        """Look at what was proposed, and what was decided about it."""
        proposals = self._memory.proposals
        if (found := self._nearest(list(proposals), lambda each: each.text or each.old)) is not None:
            do = f"epic proposals FILE accept {found.id[:8]}"
            return WhyNot(stage="proposed", reason="it waits for you to accept it", text=str(found), do=do)
        if proposals.was_decided(self._text):
            return WhyNot(stage="turned away", reason="it was proposed, and rejected or taken back since")
        return None

    def recorded(self) -> WhyNot | None:
        """Look at the history of facts, and the records of what was not kept."""
        gone = [edit for edit in self._memory.facts.edits() if edit.kind in ("replace", "end") and edit.old is not None]
        edit = self._nearest(gone, lambda each: each.old.text if each.old else "")
        if edit is not None and edit.old is not None:
            did = "is over, as you said" if edit.kind == "end" else f"was replaced by {edit.item.text!r}"
            return WhyNot(
                stage="replaced", reason=f"the fact {did}", text=edit.old.text, do=f"epic facts FILE --undo {edit.id}"
            )
        record = self._nearest(self._memory.file.not_kept(), lambda each: each.text)
        if record is None or self._memory.get([record.item_id]):
            return None
        return WhyNot(stage=_STAGES[record.stage], reason=record.why, text=record.text)

    def alike(self) -> WhyNot | None:
        """Look at what a search finds, in whatever words it was said."""
        hits = self._memory.search(self._text, _MOST)
        best = self._nearest([*hits.facts, *hits], lambda hit: hit.item.text)
        if best is None:
            return None
        return WhyNot(stage="held", reason="it is there in other words", text=best.item.text)

    def preferred(self) -> WhyNot | None:
        """Look at what the preferences are about, in whatever words."""
        preferences = list(self._memory.preferences)
        if not preferences:
            return None
        if (named := next((each for each in preferences if self._is_like(each.text)), None)) is not None:
            return WhyNot(stage="held", reason="it is there, as a preference", text=named.text)
        vectors = embed(self._memory.encoder, [self._text, *(each.text for each in preferences)])
        cosines = vectors[1:] @ vectors[0]
        near = min(_SAME_SENTENCE, _ABOUT * default_tau(self._memory.encoder))
        if self._text[-1] in ".!?":  # only what users say of themselves may be a preference
            near = (
                min(_SAME_SENTENCE, _ABOUT_SENTENCE * default_tau(self._memory.encoder))
                if _OF_ONESELF.search(self._text)
                else _SAME_SENTENCE
            )
        if cosines.max() < near:
            return None
        text = preferences[int(cosines.argmax())].text
        return WhyNot(stage="held", reason="a preference is about it, in other words", text=text)

    def without_room(self) -> WhyNot | None:
        """Look into the files of synced folders of which something found no room."""
        files = [each for each in files_without_room(self._memory) if each[0].is_file()]
        item = next(
            (item for item in with_origin(Sources([], given=files), (), Counter()) if self._is_like(item.text)), None
        )
        if item is None:
            return None
        reason = f"the memory had no room for it when {item.metadata.get('source', item.id)} was synced"
        do = "Give it more room, and sync again: epic sync FILE --reserve SIZE"
        return WhyNot(stage="budget", reason=reason, text=item.text, do=do)

    def judged_now(self) -> WhyNot | None:
        """Judge a text that was seen once and is not held, of which no record is left."""
        item = Item(text=self._text)
        if not self._memory.file.has_seen([item])[0]:
            return None
        record = turned_away_now(self._memory, item)
        if record is None:
            return WhyNot(stage="budget", reason="it was seen, and would be kept now; it had no room", text=self._text)
        return WhyNot(stage=_STAGES[record.stage], reason=f"it was seen and not kept: {record.why}", text=self._text)

    def _is_like(self, text: str) -> bool:
        return plain(self._text) == plain(text) or bool(self._stems and self._stems <= set(content_stems(text)))

    def _nearest(self, several: Sequence[_Thing], text_of: Callable[[_Thing], str]) -> _Thing | None:
        """Return the one whose text is this text, has its words, or says the same; None if there is none."""
        texts = [text_of(each) for each in several]
        for each, text in zip(several, texts, strict=True):
            if self._is_like(text):
                return each
        if not several or not any(texts):
            return None
        vectors = embed(self._memory.encoder, [self._text, *(text or " " for text in texts)])
        cosines = vectors[1:] @ vectors[0]
        best = int(cosines.argmax())
        shared = self._stems & set(content_stems(texts[best]))
        near = float(cosines[best])
        if self._text[-1] in ".!?":  # a whole sentence is asked for, not what it is about
            return several[best] if near >= _SAME_SENTENCE else None
        return several[best] if near >= _SAME or (shared and near >= default_tau(self._memory.encoder)) else None
