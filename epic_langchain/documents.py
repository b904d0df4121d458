"""Conversions of LangChain Documents to items and records and back, with guidance in flat `epic_*` metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from langchain_core.documents import Document
from typing_extensions import override

from epic_memory import Hit, Item
from epic_memory.types.metadata import copied, dumped_metadata
from epic_memory.types.verdicts import Judged
from epic_plugins.collection import Record
from epic_plugins.metadata import (
    OF_ONE_CALL,
    as_metadata,
    guidance_of,
    hit_metadata,
    keys_of_guidance,
    own_metadata,
)


def memory_item(document: Document) -> Item:
    """Make an item to be stored in a memory of a document, with its metadata."""
    return Item(id=document.id or "", text=document.page_content, metadata=own_metadata(document.metadata))


def kept_document(judged: Judged, document: Document) -> Document:
    """Return a kept document with its guidance."""
    metadata = own_metadata(document.metadata) | as_metadata(guidance_of(judged))
    return Document(id=document.id, page_content=document.page_content, metadata=metadata)


class FoundDocument(Document):
    """A document that a search found: equal to another if it is the same text, whatever the two queries were.

    LangChain's retrievers that ask several queries (`MultiQueryRetriever`) return equal documents once; `epic_score`
    and the other guidance in the metadata depend on the query.
    """

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document):
            return NotImplemented
        same_text = self.id == other.id and self.page_content == other.page_content
        return same_text and own_metadata(self.metadata) == own_metadata(other.metadata)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    @override
    def lc_id(cls) -> list[str]:
        """Return the id of Document, as which it is written and read."""
        return Document.lc_id()


def document_of(hit: Hit, text: str) -> Document:
    """Make a Document of a hit and its text, with guidance in its metadata."""
    return FoundDocument(id=hit.item.id, page_content=text, metadata=hit_metadata(hit))


def described(metadata: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
    """Return a copy of a found document's metadata with `epic_*` facts about this call; None is left out.

    A store may have returned the very objects that it holds.
    """
    own = {key: copied(value) for key, value in metadata.items() if key not in OF_ONE_CALL}
    return own | {f"epic_{name}": value for name, value in facts.items() if value is not None}


def record_of(document: Document) -> Record:
    """Make a record of a document: its keys are the instructions in its guidance and its text, or its text alone."""
    record_id = document.id or str(uuid4())
    keys = keys_of_guidance(document.metadata, f"document {record_id!r}")
    record = Record(id=record_id, text=document.page_content, metadata=document.metadata, keys=keys)
    dumped_metadata(record.metadata, record.id, "document")
    return record


def document_of_record(record: Record) -> Document:
    """Make a Document of a record."""
    return Document(id=record.id, page_content=record.text, metadata=dict(record.metadata))
