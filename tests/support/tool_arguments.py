"""Arguments of a search that no tool can use, and what every tool says of them."""

from __future__ import annotations

from typing import Any

WRONG_QUERIES: list[tuple[dict[str, Any], str]] = [
    ({}, "is missing"),
    ({"q": "hotel"}, "is missing"),
    ({"query": ""}, "is empty"),
    ({"query": " \x00"}, "is empty"),
    ({"query": None}, "is empty"),
    ({"query": {"a": 1}}, "must be a text, not dict"),
    ({"query": "x" * 10_001}, "is too long: 10001 characters, at most 10000 are read"),
]
