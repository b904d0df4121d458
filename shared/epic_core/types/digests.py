"""Digests of texts, and their width in the file."""

from __future__ import annotations

DIGEST_BYTES = 6
