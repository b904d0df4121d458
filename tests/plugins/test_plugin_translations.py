"""Translations of what both plugins tell a model."""

from __future__ import annotations

import pytest

from epic_memory.text.translations import LANGUAGES
from helpers import check_places


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_a_message_has_the_same_places_in_every_language(language: str) -> None:
    check_places("epic_plugins", language)
