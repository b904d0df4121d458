"""Items: chunks of text that may enter the memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from epic_core.errors import InvalidInputError
from epic_core.types.validation import checked_text, stable_id


@dataclass(frozen=True, kw_only=True)
class Item:
    """One chunk of text that may enter the memory.

    Attributes:
        text: The text, not empty.
        id: Unique within a namespace. Default: a uuid5 of the text, so that the same text is the same item.
        metadata: JSON-compatible values that filters test.

    Raises:
        InvalidInputError: for an empty text, a blank id, or metadata that is not a mapping with string keys.
    """

    text: str
    id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        checked_text(self.text, "The text of an item")
        if self.id != "":
            checked_text(self.id, "The id of an item")
        if not isinstance(self.metadata, Mapping) or not all(isinstance(key, str) for key in self.metadata):
            raise InvalidInputError("The metadata of an item must be a mapping with string keys.")
        object.__setattr__(self, "id", self.id or stable_id("item", self.text))
        object.__setattr__(self, "metadata", dict(self.metadata))

    @classmethod
    def of(cls, value: str | Item) -> Item:
        """Return the item itself, or an item made from a text."""
        if isinstance(value, Item):
            return value
        return cls(text=checked_text(value, "An item"))
