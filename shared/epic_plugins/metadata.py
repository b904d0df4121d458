"""Guidance for a text under the user's preferences, as flat `epic_*` metadata of a framework's documents.

`epic_instruction`, `epic_preference`, `epic_stance`, `epic_rationale`, `epic_confidence` and `epic_similarity` describe
the strongest alignment; `epic_alignments` has all of them as JSON. Metadata keys that begin with `epic_` are reserved
for this package; all others are the user's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from epic_memory.context import format_hit, format_preferences, language_of_context, numbered_hits
from epic_memory.errors import InvalidInputError
from epic_memory.types import Alignment, Hit, Hits, MemoryEntry, Stance
from epic_memory.types.metadata import copied
from epic_memory.types.verdicts import Judged, penalties
from epic_plugins.collection.collection import Key

PREFIX = "epic_"
OF_ONE_CALL = frozenset({"epic_steered_by", "epic_score", "epic_tier"})
"""The keys that describe a found text in one call only."""

# Rounded, so that embeddings computed on another machine give the same metadata and a framework's hash of it.
_DIGITS = 4


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of metadata without earlier guidance."""
    return {key: copied(value) for key, value in metadata.items() if not key.startswith(PREFIX)}


# from verdicts and hits to metadata


def guidance_of(judged: Judged) -> list[dict[str, Any]]:
    """Return the guidance under each preference, strongest first, in the form that `as_metadata` takes."""
    alignments = zip(judged.verdict.alignments, judged.preferences, judged.similarities, strict=True)
    return [_facts(one, preference.text, similarity) for one, preference, similarity in alignments]


def as_metadata(alignments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return guidance under at least one preference as metadata: the first in flat keys, all of it as JSON.

    Keys without a value are left out, as many stores refuse None.
    """
    flat = {f"{PREFIX}{name}": value for name, value in alignments[0].items() if value is not None}
    return flat | {"epic_alignments": json.dumps(list(alignments), ensure_ascii=False)}


def hit_metadata(hit: Hit) -> dict[str, Any]:
    """Return the metadata of a hit's item with its guidance: all its instructions as one text, and its worst stance."""
    # A fallback's documents may bring guidance of their own; in any other item's metadata, `epic_*` keys are outdated.
    metadata = copied(hit.item.metadata) if hit.tier == "fallback" else own_metadata(hit.item.metadata)
    metadata |= {"epic_score": hit.score, "epic_tier": hit.tier}
    if hit.entries:
        metadata |= as_metadata([_facts(entry, entry.preference, entry.similarity) for entry in hit.entries])
        metadata["epic_instruction"] = "\n".join(hit.instructions)
        # A conflict with any preference is a conflict.
        metadata["epic_stance"] = str(max(hit.stances, key=penalties().__getitem__))
    return metadata


def texts_of(hits: Hits, guidance: str) -> list[tuple[Hit, str]]:
    """Return hits in the order of a context, each with its text: by itself, or for "text" as a model gets it.

    The first then opens with the preferences that matter, as the memory's own context does.
    """
    numbered = list(numbered_hits(hits))
    if guidance != "text":
        return [(hit, hit.text) for _, hit in numbered]
    language, opening = language_of_context(hits), format_preferences(hits)
    texts = [(hit, format_hit(number, hit, language)) for number, hit in numbered]
    if texts and opening:
        texts[0] = texts[0][0], f"{opening}\n\n{texts[0][1]}"
    return texts


def _facts(one: Alignment | MemoryEntry, preference: str, similarity: float) -> dict[str, Any]:
    return {
        "instruction": one.instruction,
        "preference": preference,
        "stance": str(one.stance),
        "rationale": one.rationale,
        "confidence": None if one.confidence is None else round(one.confidence, _DIGITS),
        "similarity": round(similarity, _DIGITS),
    }


# from metadata to keys


def keys_of_guidance(metadata: Mapping[str, Any], owner: str) -> tuple[Key, ...] | None:
    """Return the instructions in metadata as keys of a record; None if there are none.

    Raises:
        InvalidInputError: if the guidance of the owner, such as "document 'a'", cannot be read.
    """
    alignments = metadata.get("epic_alignments")
    if alignments is None:
        alignments = [{name: metadata.get(f"{PREFIX}{name}") for name in ("instruction", "stance")}]
    try:
        keys = map(_key, json.loads(alignments) if isinstance(alignments, str) else alignments)
        return tuple(dict.fromkeys(key for key in keys if key is not None)) or None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"The guidance in the metadata of {owner} cannot be read: {error}. Leave it as it was written, or remove"
            " the keys that begin with epic_."
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
