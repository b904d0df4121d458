"""The outline of a memory, and the entries of items by their ids."""

from __future__ import annotations

import time

import numpy as np
import pytest

from epic_memory import EpicMemory, Item, Stance
from epic_memory.errors import InvalidInputError

AVOIDS, LIKES = "I avoid hotels with on-site casinos.", "I like quiet hotels near the sea."
GOLDEN, STEAM = "The Golden Ace is a hotel with an on-site casino.", "The steam engine was improved by James Watt."


def test_the_outline_says_what_is_held_for_what() -> None:
    memory = EpicMemory([AVOIDS, LIKES])
    memory.add([Item(id="golden", text=GOLDEN), Item(id="steam", text=STEAM)])
    memory.facts.add("I live in Porto.")
    outline = memory.file.outline()

    fact = memory.facts[0].id
    assert dict(zip(outline.items, outline.facts.tolist(), strict=True)) == {
        "golden": False,
        "steam": False,
        fact: True,
    }
    assert outline.preferences == [each.id for each in memory.preferences]
    assert outline.vectors.shape == (3, memory.encoder.dimension)
    assert np.allclose(np.linalg.norm(outline.vectors, axis=1), 1, atol=0.02)
    entries = memory.file.entries(outline.items)
    assert list(entries) == ["golden"] and memory.explain("golden").entries == tuple(entries["golden"])
    pairs = [(outline.items[item], outline.preferences[preference]) for item, preference in outline.entries.tolist()]
    assert pairs == [("golden", each.preference_id) for each in entries["golden"]]
    assert outline.stances == [each.stance for each in entries["golden"]] and Stance.CONFLICTS in outline.stances
    assert outline.added.tolist() == [each.added for each in entries["golden"]]
    assert (abs(outline.added - time.time()) < 3600).all()


def test_an_empty_memory_has_an_empty_outline() -> None:
    memory = EpicMemory()
    outline = memory.file.outline()
    assert outline.items == [] and outline.vectors.shape == (0, memory.encoder.dimension)
    assert outline.entries.shape == (0, 2) and memory.file.entries(["none"]) == {}
    with pytest.raises(InvalidInputError, match="list"):
        memory.file.entries("golden")
