"""Tags of texts: the protocol of taggers, tags as metadata that filters work on, and how they rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from epic_core.errors import InvalidInputError

KINDS = ("topics", "entities", "kind", "intent", "preferences")
"""What tags tell: topics, names, the kind of text, what whoever wrote it is after, and what is said of the user."""
PREFIX = "tags_"
"""The beginning of the metadata keys of tags: `tags_topics` and so on, each a list of texts."""

Tags: TypeAlias = Mapping[str, Sequence[str]]
"""Tags of a text by what they tell, of `KINDS`; what has none may be missing."""


@dataclass(frozen=True, kw_only=True)
class TagRerank:
    """Ranking by tags, in a search of `fetched` items.

    Attributes:
        paper: The published rule: ranks by cosine, from `fetched` down, each gaining one for each tag of the query that
            it has; at most `most` are shown, of those that reach `least`. Else `share` is added to a score for all.
        fetched: How many items are found before they are ranked.
        alike: The cosine above which two tags are one.
        least, most: Of the published rule.
        share: What an item gains that has all tags of the query.
    """

    paper: bool = False
    fetched: int = 20
    alike: float = 0.75
    least: int = 18
    most: int = 5
    share: float = 0.05


Rerank: TypeAlias = Literal["tags", "tags-paper"] | TagRerank
"""A ranking by tags, or the name of one."""


def rerank_of(given: Rerank) -> TagRerank:
    """Return a ranking by tags.

    Raises:
        InvalidInputError: for anything else.
    """
    if isinstance(given, TagRerank):
        return given
    if given not in ("tags", "tags-paper"):
        raise InvalidInputError(f'rerank must be "tags", "tags-paper", a TagRerank or None, not {given!r}.')
    return TagRerank(paper=given == "tags-paper")


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


def compared_tags(metadata: Mapping[str, Any]) -> list[str]:
    """Return the topics and entities among an item's tags, which are compared with those of a query."""
    given = (metadata.get(f"{PREFIX}{kind}") for kind in KINDS[:2])
    return [tag for tags in given if isinstance(tags, list) for tag in tags if isinstance(tag, str) and tag.strip()]
