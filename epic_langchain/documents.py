"""Documents of LangChain and what the core makes of them: items, records, and guidance in flat `epic_*` metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import uuid4

from langchain_core.documents import Document

from epic_core import Hit, Item, Stance
from epic_core.collection import Key, Record
from epic_core.context import format_hit
from epic_core.errors import InvalidInputError
from epic_core.judging import Judged
from epic_core.rows import dumped_metadata
from epic_core.types import stable_id

PREFIX = "epic_"
_ORIGINAL = "epic_original"
Facts: TypeAlias = Mapping[str, Any]
"""What is known of a document under one preference: instruction, preference, stance, rationale, confidence."""

_WORST_LAST = [Stance.SUPPORTS, Stance.NEUTRAL, Stance.MIXED, Stance.CONFLICTS]
# So that embeddings computed on another machine give the same metadata, and `index()` the same hash.
_DIGITS = 4


def checked_documents(documents: Iterable[Document]) -> list[Document]:
    """The documents.

    Raises:
        InvalidInputError: for anything else.
    """
    return [checked_document(document) for document in several(documents)]


def several(documents: Iterable[Document]) -> Iterable[Document]:
    """What can be iterated over as documents; they are not looked at.

    Raises:
        InvalidInputError: for anything else.
    """
    if isinstance(documents, (Document, str, bytes, Mapping)) or not isinstance(documents, Iterable):
        raise InvalidInputError(f"Give several Documents in a list, not {type(documents).__name__}.")
    return documents


def checked_document(document: object) -> Document:
    """The document.

    Raises:
        InvalidInputError: for anything else.
    """
    if not isinstance(document, Document):
        raise InvalidInputError(f"Expected Documents, found {type(document).__name__}: Document(page_content=...).")
    return document


def item_of(document: Document) -> Item:
    """A document as an item to be judged: without its metadata, which need not be JSON."""
    return Item(id=document.id or "", text=document.page_content)


def memory_item(document: object) -> Item:
    """A document as an item that a memory takes in, with its metadata.

    Raises:
        InvalidInputError: for anything but a Document, or one without text.
    """
    found = checked_document(document)
    return Item(id=found.id or "", text=found.page_content, metadata=_own(found.metadata))


def documents_of(judged: Judged, document: Document, *, split: bool) -> list[Document]:
    """A kept document with its guidance; `split` gives one for each preference it was kept for."""
    alignments = [
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
    own = _own(document.metadata)
    if judged.rewrite:
        own.setdefault(_ORIGINAL, document.page_content)
    text = judged.rewrite or document.page_content
    if not split:
        return [Document(id=document.id, page_content=text, metadata=own | _metadata(alignments))]
    return [
        Document(
            id=stable_id("document", document.id, preference.id) if document.id else document.id,
            page_content=text,
            metadata=own | _metadata([facts]),
        )
        for facts, preference in zip(alignments, judged.preferences, strict=True)
    ]


def document_of(hit: Hit, number: int = 1, *, guidance: str = "metadata") -> Document:
    """A hit as a Document: its guidance in metadata; with `guidance="text"`, in the text as a model is given it."""
    # What a fallback found may have guidance of its own; nothing else says of itself how it is to be used.
    metadata = copied(hit.item.metadata) if hit.tier == "fallback" else _own(hit.item.metadata)
    metadata |= {"epic_score": hit.score, "epic_tier": hit.tier}
    if hit.entries:
        metadata |= _metadata(
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
        # Several instructions are one text; a conflict with any preference is a conflict.
        metadata["epic_instruction"] = "\n".join(hit.instructions)
        metadata["epic_stance"] = str(max(hit.stances, key=_WORST_LAST.index))
    return Document(
        id=hit.item.id, page_content=format_hit(number, hit) if guidance == "text" else hit.text, metadata=metadata
    )


def record_of(document: Document, given_id: str | None) -> Record:
    """A document as a record: found by its instructions if it carries any, else by its text.

    Raises:
        InvalidInputError: for a text or metadata that cannot be stored, or guidance that cannot be read.
    """
    record_id = given_id or document.id or str(uuid4())
    keys = _keys(document.metadata, record_id)
    record = Record(id=record_id, text=document.page_content, metadata=document.metadata, keys=keys)
    dumped_metadata(record.metadata, record.id, "document")
    return record


def document_of_record(record: Record) -> Document:
    """A record as a Document."""
    return Document(id=record.id, page_content=record.text, metadata=dict(record.metadata))


def item_document(item: Item) -> Document:
    """An item as a Document."""
    return Document(id=item.id, page_content=item.text, metadata=_own(item.metadata))


def _own(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of metadata, without guidance that was written earlier."""
    return {key: copied(value) for key, value in metadata.items() if not key.startswith(PREFIX) or key == _ORIGINAL}


def copied(value: Any) -> Any:
    """A value with its lists and mappings anew; what is in them may be anything."""
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list) else value


def _facts(*, stance: Stance, confidence: float | None, similarity: float, **texts: str) -> dict[str, Any]:
    return {
        **texts,
        "stance": str(stance),
        "confidence": None if confidence is None else round(confidence, _DIGITS),
        "similarity": round(similarity, _DIGITS),
    }


def _metadata(alignments: Sequence[Facts]) -> dict[str, Any]:
    """The strongest alignment in flat keys, and all of them as JSON. Many stores take no nulls."""
    flat = {f"{PREFIX}{name}": value for name, value in alignments[0].items() if value is not None}
    return flat | {"epic_alignments": json.dumps(list(alignments), ensure_ascii=False)}


def _keys(metadata: Facts, record_id: str) -> tuple[Key, ...] | None:
    """The instructions in a document's metadata; None without any.

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
            f"The guidance in the metadata of document {record_id!r} cannot be read: {error}. Leave it as"
            " EpicDocumentTransformer wrote it, or remove the keys that begin with epic_."
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
