"""Tags of texts: the protocol of taggers, and tags as metadata that filters work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

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
