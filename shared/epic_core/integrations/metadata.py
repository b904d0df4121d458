"""Guidance: what is known of a text under the user's preferences, as flat `epic_*` metadata of a framework's documents.

`epic_instruction`, `epic_preference`, `epic_stance`, `epic_rationale`, `epic_confidence` and `epic_similarity` are of
the strongest alignment; `epic_alignments` has all of them as JSON. Metadata with keys that begin with `epic_` are
ours; all else is the user's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from epic_core.collection.collection import Key
from epic_core.errors import InvalidInputError
from epic_core.types import Hit, Stance
from epic_core.types.metadata import copied
from epic_core.types.verdicts import PENALTY, Judged

PREFIX = "epic_"
ORIGINAL = "epic_original"
"""The text before it was rewritten; it stays when a text is judged anew."""

REWRITE = "epic_rewrite"
"""What a verifier that rewrites made of a text that stays as it is."""

# So that embeddings computed on another machine give the same metadata, and a framework's hash of them stays the same.
_DIGITS = 4


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of metadata, without guidance that was written earlier."""
    return {key: copied(value) for key, value in metadata.items() if not key.startswith(PREFIX) or key == ORIGINAL}


# writing


def guidance_of(judged: Judged) -> list[dict[str, Any]]:
    """What a verdict says under each preference, strongest first: of each the facts that `as_metadata` takes."""
    return [
        _facts(
            instruction=one.instruction,
            preference=preference.text,
            stance=one.stance,
            rationale=one.rationale,
            confidence=one.confidence,
            similarity=similarity,
        )
        for one, preference, similarity in zip(
            judged.verdict.alignments, judged.preferences, judged.similarities, strict=True
        )
    ]


def as_metadata(alignments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Guidance under at least one preference: of the first in flat keys, of all as JSON. Many stores take no nulls."""
    flat = {f"{PREFIX}{name}": value for name, value in alignments[0].items() if value is not None}
    return flat | {"epic_alignments": json.dumps(list(alignments), ensure_ascii=False)}


def hit_metadata(hit: Hit) -> dict[str, Any]:
    """The metadata of a hit's item, and its guidance: all its instructions as one text, and its worst stance."""
    # What a fallback found may have guidance of its own; nothing else says of itself how it is to be used.
    metadata = copied(hit.item.metadata) if hit.tier == "fallback" else own_metadata(hit.item.metadata)
    metadata |= {"epic_score": hit.score, "epic_tier": hit.tier}
    if hit.entries:
        metadata |= as_metadata(
            [
                _facts(
                    instruction=entry.instruction,
                    preference=entry.preference,
                    stance=entry.stance,
                    rationale=entry.rationale,
                    confidence=entry.confidence,
                    similarity=entry.similarity,
                )
                for entry in hit.entries
            ]
        )
        metadata["epic_instruction"] = "\n".join(hit.instructions)
        # A conflict with any preference is a conflict.
        metadata["epic_stance"] = str(max(hit.stances, key=PENALTY.__getitem__))
    return metadata


def _facts(*, stance: Stance, confidence: float | None, similarity: float, **texts: str) -> dict[str, Any]:
    return {
        **texts,
        "stance": str(stance),
        "confidence": None if confidence is None else round(confidence, _DIGITS),
        "similarity": round(similarity, _DIGITS),
    }


# reading


def keys_of_guidance(metadata: Mapping[str, Any], what: str) -> tuple[Key, ...] | None:
    """The instructions in metadata, by which a record is found; None without any.

    Args:
        metadata: With or without guidance.
        what: Whose they are, for the message: "document 'a'".

    Raises:
        InvalidInputError: if they cannot be read.
    """
    alignments = metadata.get("epic_alignments")
    if alignments is None:
        alignments = [{name: metadata.get(f"{PREFIX}{name}") for name in ("instruction", "stance")}]
    try:
        keys = map(_key, json.loads(alignments) if isinstance(alignments, str) else alignments)
        return tuple(dict.fromkeys(key for key in keys if key is not None)) or None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"The guidance in the metadata of {what} cannot be read: {error}. Leave it as it was written, or remove the"
            " keys that begin with epic_."
        ) from None


def _key(facts: object) -> Key | None:
    if not isinstance(facts, Mapping):
        raise TypeError("epic_alignments is no list of mappings")
    text, stance = facts.get("instruction"), facts.get("stance")
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"an instruction is no text but {type(text).__name__}")
    text.encode()
    return Key(text=text, stance=Stance(stance or Stance.NEUTRAL)) if text.strip() else None
