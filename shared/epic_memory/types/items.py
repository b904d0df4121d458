"""Items: chunks of text that may enter the memory."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from epic_memory.errors import InvalidInputError
from epic_memory.types.validation import checked_moment, checked_text, stable_id

# Where frameworks put a title, and the name of a file; a source may be anything.
_TITLES, _FILES = ("title", "subject"), ("file_name", "filename", "file_path", "source")
_LONGEST_TITLE = 200
QUESTIONS = "epic_questions"
"""Key of the metadata of a fact: questions that it answers, as a language model says."""
# The last part of a path or an address, without the ending of a file.
_FILE = re.compile(r"([^/\\?#]+?)(?:\.[A-Za-z]\w{0,4})?[/\\]?(?:[?#].*)?$", re.S)
_PATH = re.compile(r"[/\\]|\.[A-Za-z]\w{0,4}$")
# A file that holds many texts does not say what one of them is about.
_CONTAINER = re.compile(r"\.(?:jsonl?|ndjson|csv|tsv|mbox|xml|ya?ml|parquet|zip|db|log)$", re.I)
_WORD = re.compile(r"[^\W\d_]{2,}")
_ARTICLE = re.compile(r"\A(?:the|an?)\s+", re.I)


@dataclass(frozen=True, kw_only=True)
class Item:
    """One chunk of text that may enter the memory.

    Attributes:
        text: The text, not empty.
        id: Unique within a namespace. Default: a uuid5 of the text, so that the same text is the same item.
        metadata: JSON-compatible values that filters test.
        expires_at: Time from which the item is neither found nor kept, with a time zone, or as ISO 8601 text; None for
            never.
        fact: Whether it is a fact of the user, such as "I work night shifts": it is held whatever the preferences are.

    Raises:
        InvalidInputError: for an empty text, a blank id, metadata that is not a mapping with string keys, or an
            `expires_at` that is no time.
    """

    text: str
    id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    expires_at: datetime | None = None
    fact: bool = False

    def __post_init__(self) -> None:
        checked_text(self.text, "The text of an item")
        if self.id != "":
            checked_text(self.id, "The id of an item")
        if not isinstance(self.metadata, Mapping) or not all(isinstance(key, str) for key in self.metadata):
            raise InvalidInputError("The metadata of an item must be a mapping with string keys.")
        object.__setattr__(self, "id", self.id or stable_id("item", self.text))
        object.__setattr__(self, "metadata", dict(self.metadata))
        if self.expires_at is not None:
            object.__setattr__(self, "expires_at", checked_moment(self.expires_at))

    @property
    def content(self) -> str:
        """The item's title, if it has one, and its text: what is embedded, judged and given to a model."""
        return content_of(self.text, self.metadata)

    @property
    def searched(self) -> str:
        """The item's content, and the questions that it answers if a language model said any: what finds it."""
        return searched_of(self.text, self.metadata)

    @property
    def ends(self) -> float:
        """Seconds since the epoch at which the item expires; infinite for never."""
        return math.inf if self.expires_at is None else self.expires_at.timestamp()

    @classmethod
    def of(cls, value: str | Item) -> Item:
        """Return the item itself, or an item made from a text."""
        if isinstance(value, Item):
            return value
        if isinstance(value, Mapping):
            raise InvalidInputError(
                "An item must be a string or an Item, not a mapping. Write Item(text=..., metadata=...)."
            )
        return cls(text=checked_text(value, "An item"))


def questions_of(metadata: Mapping[str, Any]) -> list[str]:
    """Return the questions that an item answers, as a language model says."""
    questions = metadata.get(QUESTIONS)
    return [each for each in questions if isinstance(each, str)] if isinstance(questions, list) else []


def searched_of(text: str, metadata: Mapping[str, Any]) -> str:
    """Return what finds a text: its content, and the questions that it answers, each on a line."""
    return "\n".join((content_of(text, metadata), *questions_of(metadata)))


def content_of(text: str, metadata: Mapping[str, Any]) -> str:
    """Return a text below its title: the metadata's `title` or `subject`, or the name of its file.

    The file is that of `file_name`, `filename`, `file_path` or `source`, unless the source is no path. A turn of a
    conversation has no title, and neither has a text that begins with it.
    """
    if not metadata or "speaker" in metadata or "turn" in metadata:
        return text
    for key in (*_TITLES, *_FILES):
        value = metadata.get(key)
        if isinstance(value, str) and (name := _named(value, key)):
            return text if _bare(text).startswith(_bare(name)) else f"{name}\n{text}"
    return text


def _bare(text: str) -> str:
    """Return the beginning of a text in lower case, without an article."""
    return _ARTICLE.sub("", text[: 2 * _LONGEST_TITLE], count=1).casefold()


def _named(value: str, key: str) -> str:
    """Return a title on one line; of a path or an address the words of its last part; empty if it has no words."""
    if len(value) > 10 * _LONGEST_TITLE:
        return ""
    value = value.strip()
    if key in _FILES:
        is_file = (key != "source" or _PATH.search(value)) and not _CONTAINER.search(value)
        found = _FILE.search(value) if is_file else None
        value = re.sub(r"[_\-+]+|%20", " ", found[1]) if found else ""
    value = " ".join(value.split())
    return value if len(value) <= _LONGEST_TITLE and _WORD.search(value) else ""
