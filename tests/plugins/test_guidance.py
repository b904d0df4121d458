"""Guidance in metadata, read back as keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

from epic_memory.errors import InvalidInputError
from epic_memory.types import Stance
from epic_plugins.metadata import keys_of_guidance
from epic_plugins.tables import Key
from tables import table

SUITS = {"instruction": "Serve it.", "stance": "supports"}
AVOID = {"instruction": "Leave it.", "stance": "conflicts"}


@pytest.mark.parametrize(
    ("metadata", "keys"),
    [
        ({}, None),
        ({"epic_instruction": None}, None),
        ({"epic_instruction": "  "}, None),
        ({"epic_instruction": "Serve it."}, (Key(text="Serve it.", stance=Stance.NEUTRAL),)),
        ({"epic_alignments": json.dumps([SUITS, AVOID, SUITS])}, (Key(text="Serve it.", stance=Stance.SUPPORTS),
                                                                  Key(text="Leave it.", stance=Stance.CONFLICTS))),
        ({"epic_alignments": [SUITS], "epic_instruction": "Other."}, (Key(text="Serve it.", stance=Stance.SUPPORTS),)),
        ({"epic_alignments": "[]"}, None),
    ],
)  # fmt: skip
def test_guidance_is_read_as_keys(metadata: dict[str, Any], keys: tuple[Key, ...] | None) -> None:
    assert keys_of_guidance(metadata, "document 'a'") == keys


@pytest.mark.parametrize(
    "alignments",
    [*table(__file__, "guidance_that_cannot_be_read_names_its_owner"), [{**SUITS, "stance": "loves"}], "[" * 9**5],
)
def test_guidance_that_cannot_be_read_names_its_owner(alignments: Any) -> None:
    with pytest.raises(InvalidInputError, match="document 'a' cannot be read"):
        keys_of_guidance({"epic_alignments": alignments}, "document 'a'")
