"""Items: chunks of text that may enter the memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from epic_core.errors import InvalidInputError
from epic_core.types.validation import checked_moment, checked_text, stable_id


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
