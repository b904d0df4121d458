"""Checks of the arguments of a vector store: documents, texts, ids, options."""

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
    """Split the options of a call into the filter and the others.

    Raises:
        TypeError: for unknown options.
    """
    check_none_left({name: value for name, value in given.items() if name not in known})
    others = {name: value for name, value in given.items() if name != "filter"}
    return given.get("filter"), others


def check_none_left(options: dict[str, Any]) -> None:
    """Refuse unknown options.

    Raises:
        TypeError: naming the unknown options.
    """
    if options:
        raise TypeError(f"EpicVectorStore does not know {', '.join(map(repr, sorted(options)))} here.")


def records_of(
    documents: Iterable[Document], ids: Iterable[str | None] | None, options: dict[str, Any]
) -> list[Record]:
    """Turn documents into records.

    Raises:
        InvalidInputError: if a document is invalid, naming it, or the number of ids differs.
        TypeError: for unknown options.
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
    """Return ids as a list.

    Raises:
        InvalidInputError: for anything but a list of strings.
    """
    return listed("ids", ids, str)


def ids_for(ids: Iterable[str | None] | None, count: int) -> list[str | None]:
    """Return one id for each of `count` documents; None stands for the document's own id.

    Raises:
        InvalidInputError: if their number differs from `count`, or one is not a string.
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
    """Make a document of each text.

    Raises:
        InvalidInputError: if one is not a string, or the number of metadatas or ids differs.
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
    """Return values of one type as a list; `optional` also allows None among them.

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
    """Return how many documents to fetch, from which the k diverse ones are chosen.

    Raises:
        InvalidInputError: if a number is out of its range.
    """
    if not isinstance(fetch_k, Integral) or isinstance(fetch_k, bool):
        raise InvalidInputError(f"fetch_k must be a whole number, not {fetch_k!r}.")
    if not isinstance(lambda_mult, Real) or not 0.0 <= lambda_mult <= 1.0:
        raise InvalidInputError(f"lambda_mult must be between 0, most diverse, and 1; not {lambda_mult!r}.")
    return max(checked_k(k), int(fetch_k))
