"""Arguments of calls: options for one call, and the documents, texts and ids that a store is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from langchain_core.documents import Document
from langchain_core.load.serializable import SerializedNotImplemented
from langchain_core.runnables import RunnableConfig, ensure_config

from epic_langchain.documents import record_of
from epic_memory.errors import InvalidInputError
from epic_plugins.collection import Record
from epic_plugins.metadata import PREFIX
from epic_plugins.several import several
from epic_plugins.wrong_arguments import check_options

OVERRIDES = ("preferences", "steering", "stance_policy", "min_score")
"""Options of a search that a call may give one by one."""
OPTIONS = ("k", "filter", "namespace", "options", *OVERRIDES)
"""The options of calls of all components."""


def per_call(config: RunnableConfig | None, kwargs: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the options of a call: its keyword arguments, then those in `config["configurable"]`.

    There an option begins with "epic_", such as "epic_k": the other keys belong to others. An option that is None
    counts as not given, but for `min_score`, where it means that all are returned.

    Raises:
        TypeError: for an unknown keyword argument.
        InvalidInputError: for a key "epic_..." that no component knows.
    """
    check_options(kwargs, names)
    configurable = ensure_config(config).get("configurable") or {}
    # One config goes to all components of a chain: an option that only another one takes is no mistake.
    keys = {f"{PREFIX}{name}": name for name in OPTIONS}
    for key in configurable:
        if str(key).startswith(PREFIX) and key not in keys:
            near = get_close_matches(str(key), keys, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise InvalidInputError(
                f"There is no {key!r}: in config['configurable'], keys with {PREFIX!r} are {', '.join(keys)}.{meant}"
            )
    given = {name: configurable[key] for key, name in keys.items() if name in names and key in configurable}
    return _given(given) | _given(kwargs)


def without_settings(described: SerializedNotImplemented) -> SerializedNotImplemented:
    """Return the description of a component for traces without its `repr`, which shows its settings."""
    described["repr"] = f"{described['id'][-1]}(...)"
    return described


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None or name == "min_score"}


def records_of(
    documents: Iterable[Document], ids: Iterable[str | None] | None, *, batch_size: int | None = None
) -> list[Record]:
    """Turn documents into records. `langchain_core.indexing.index` passes a `batch_size`, which has no effect."""
    records = []
    for number, document in enumerate(with_ids(documents, ids), start=1):
        try:
            records.append(record_of(document))
        except InvalidInputError as error:
            raise InvalidInputError(f"Document {number}: {error}") from None
    return records


def with_ids(documents: Iterable[Document], ids: Iterable[str | None] | None) -> list[Document]:
    """Return documents with these ids; None stands for a document's own."""
    given = list(several(documents, Document, "Documents"))
    if ids is None:
        return given
    return [
        document.model_copy(update={"id": one}) if one else document
        for document, one in zip(given, _for_each(given, ids, str, "ids"), strict=True)
    ]


def documents_of_texts(texts: Iterable[str], metadatas: Iterable[Mapping[str, Any] | None] | None) -> list[Document]:
    """Make a document of each text."""
    given = list(several(texts, str, "texts"))
    known = [None] * len(given) if metadatas is None else _for_each(given, metadatas, Mapping, "metadatas")
    return [
        Document(page_content=text, metadata=dict(metadata or {})) for text, metadata in zip(given, known, strict=True)
    ]


def _for_each(documents: Sequence[Any], given: Iterable[Any], kind: type, what: str) -> list[Any]:
    """Return values of one type, or None, as a list: one for each document."""
    values = list(several(given, (kind, type(None)), what))
    if len(values) != len(documents):
        raise InvalidInputError(f"There are {len(values)} {what} for {len(documents)} documents: give one for each.")
    return values
