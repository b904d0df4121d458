"""Tags of texts: the protocol of taggers, and tags as metadata that filters work on, written to what comes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias, runtime_checkable

from epic_memory.runtime.effects import Call, Effects
from epic_memory.types import BuildReport, Item

KINDS = ("topics", "entities", "kind", "intent", "preferences")
"""Kinds of tags: topics, names, the kind of text, what whoever wrote it is after, and what is said of the user."""
PREFIX = "tags_"
"""The beginning of the metadata keys of tags: `tags_topics` and so on, each a list of texts."""

Tags: TypeAlias = Mapping[str, Sequence[str]]
"""Tags of a text by what they tell, of `KINDS`; what has none may be missing."""


@runtime_checkable
class Tagger(Protocol):
    """Anything that gives tags to texts.

    Attributes:
        name: Changes when the tags would.
    """

    name: str

    def tag(self, texts: Sequence[str]) -> list[Tags | None]:
        """Return the tags of each text, in order; None for one that could not be read."""
        ...

    async def atag(self, texts: Sequence[str]) -> list[Tags | None]:
        """Do the same as `tag` without blocking the event loop."""
        ...


def tag_metadata(tags: Tags) -> dict[str, list[str]]:
    """Return tags as metadata, flat lists: `{"tags_topics": ["lentil soup"]}`."""
    return {f"{PREFIX}{kind}": list(tags[kind]) for kind in KINDS if tags.get(kind)}


def tagged(tagger: Tagger, items: Sequence[Item], held: Iterable[Item], report: BuildReport) -> Effects[list[Item]]:
    """Return items with their tags as metadata; what is held with the same text keeps those it has."""
    known = {
        item.id: (item.text, {key: value for key, value in item.metadata.items() if key.startswith(PREFIX)})
        for item in held
    }
    fresh = [item for item in items if not known.get(item.id, ("", {}))[1] or known[item.id][0] != item.text]
    answers: list[Tags | None] = yield Call(tagger.tag, tagger.atag, [item.text for item in fresh], part="tags")
    if (without := sum(tags is None for tags in answers)) > 0:
        report.warnings.append(f"{without} items have no tags: {tagger.name} failed. Add them again.")
    tags_of = {key: tags for key, (_, tags) in known.items()}
    tags_of |= {item.id: tag_metadata(tags or {}) for item, tags in zip(fresh, answers, strict=True)}
    return [replace(item, metadata={**tags, **item.metadata}) if (tags := tags_of[item.id]) else item for item in items]
