"""What a vector store is called with, checked: documents, texts, ids, options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from langchain_core.documents import Document

from epic_core.collection import Record
from epic_core.errors import InvalidInputError
from epic_core.types import checked_k
from epic_langchain.documents import checked_documents, record_of


def options_of(given: dict[str, Any], known: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """The filter, and other options of a call.

    Raises:
        TypeError: for options that are not known.
    """
    check_none_left({name: value for name, value in given.items() if name not in known})
    others = {name: value for name, value in given.items() if name != "filter"}
    return given.get("filter"), others


def check_none_left(options: dict[str, Any]) -> None:
    """Refuse options that are not known.

    Raises:
        TypeError: naming them.
    """
    if options:
        raise TypeError(f"EpicVectorStore does not know {', '.join(map(repr, sorted(options)))} here.")


def records_of(
    documents: Iterable[Document], ids: Iterable[str | None] | None, options: dict[str, Any]
) -> list[Record]:
    """Documents as records.

    Raises:
        InvalidInputError: naming the document that cannot be one, or for another number of ids.
        TypeError: for options that are not known.
    """
    check_none_left({name: value for name, value in options.items() if name != "batch_size"})
    given, records = checked_documents(documents), []
    for number, (document, one) in enumerate(zip(given, ids_for(ids, len(given)), strict=True), start=1):
        try:
            records.append(record_of(document, one))
        except InvalidInputError as error:
            raise InvalidInputError(f"Document {number}: {error}") from None
    return records


def several_ids(ids: Iterable[str]) -> list[str]:
    """Ids as a list.

    Raises:
        InvalidInputError: for anything else.
    """
    return listed("ids", ids, str)


def ids_for(ids: Iterable[str | None] | None, count: int) -> list[str | None]:
    """Ids for so many documents; None where a document's own counts.

    Raises:
        InvalidInputError: for another number of them, or what is no id.
    """
    if ids is None:
        return [None] * count
    given = listed("ids", ids, str, optional=True)
    if len(given) != count:
        raise InvalidInputError(f"There are {len(given)} ids for {count} documents: give one for each.")
    return [one or None for one in given]


def documents_of_texts(
    texts: Iterable[str], metadatas: Iterable[Mapping[str, Any] | None] | None, ids: Iterable[str | None] | None
) -> list[Document]:
    """Texts as documents.

    Raises:
        InvalidInputError: for what is no text, or another number of metadatas or ids.
    """
    given = listed("texts", texts, str)
    count = len(given)
    known = [None] * count if metadatas is None else listed("metadatas", metadatas, Mapping, optional=True)
    if len(known) != count:
        raise InvalidInputError(f"There are {len(known)} metadatas for {count} texts: give one for each.")
    return [
        Document(id=one, page_content=text, metadata=dict(metadata or {}))
        for text, metadata, one in zip(given, known, ids_for(ids, count), strict=True)
    ]


def listed(what: str, given: Any, kind: type, *, optional: bool = False) -> list[Any]:
    """Things of one kind as a list; `optional` if there may be None among them.

    Raises:
        InvalidInputError: for anything else.
    """
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InvalidInputError(f"Give {what} as a list, not as {type(given).__name__}.")
    listed = list(given)
    for one in listed:
        if not isinstance(one, kind) and not (optional and one is None):
            raise InvalidInputError(f"Among {what}, all have to be of type {kind.__name__}; not {type(one).__name__}.")
    return listed


def fetched(k: int, fetch_k: int, lambda_mult: float) -> int:
    """How many documents the k diverse ones are chosen from.

    Raises:
        InvalidInputError: for numbers that cannot be.
    """
    if not isinstance(fetch_k, Integral) or isinstance(fetch_k, bool):
        raise InvalidInputError(f"fetch_k must be a whole number, not {fetch_k!r}.")
    if not isinstance(lambda_mult, Real) or not 0.0 <= lambda_mult <= 1.0:
        raise InvalidInputError(f"lambda_mult must be between 0, most diverse, and 1; not {lambda_mult!r}.")
    return max(checked_k(k), int(fetch_k))
