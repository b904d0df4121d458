"""Exports: a memory as lines of JSON, to read, to keep, or to move to another encoder or version.

The first line describes the memory, then come its preferences, its items with their entries, what waits in the retry
queue, its proposals, what its reranker learnt, and a last line that counts them, so that a file that was cut is
noticed. Embeddings are not written: whoever reads the lines embeds the texts with an encoder of their own. Nor are the
history of facts and what has expired.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from epic_learn.facts.editing import check_length
from epic_learn.never import Rules
from epic_learn.tables import ProposalTable, checked_line
from epic_memory.encoders.base import described, embed
from epic_memory.errors import InvalidInputError, StoreError
from epic_memory.lm.answers import reason_of
from epic_memory.pipeline.aspects import asks_model, read_preferences
from epic_memory.pipeline.opening import take_up
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Clock, run
from epic_memory.runtime.optional import optional
from epic_memory.storage.sqlite.files import check_name, check_path, new_file
from epic_memory.storage.tables.entries import NewEntry
from epic_memory.storage.tables.items import HeldItem
from epic_memory.types import FloatArray, Item, Preference, Stance
from epic_memory.types.digests import DIGEST_BYTES
from epic_memory.types.metadata import dumped_metadata
from epic_memory.types.validation import checked_tau

FORMAT = 1


@dataclass(kw_only=True)
class Portable:
    """The checked content of an export.

    Attributes:
        header: What the memory was made with.
        preferences: In the user's order.
        unread: The ids of those that a model is still to read.
        items: As they were stored, with their entries.
        pending: Undecided items with the reason and the ids of their preferences.
        proposals: Columns of the table of proposals.
        reranker: What was learnt of feedback; None for nothing.
    """

    header: dict[str, Any] = field(default_factory=dict)
    preferences: list[Preference] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    items: list[tuple[HeldItem, list[dict[str, Any]]]] = field(default_factory=list)
    pending: list[tuple[Item, str, list[str]]] = field(default_factory=list)
    proposals: list[dict[str, Any]] = field(default_factory=list)
    reranker: dict[str, Any] | None = None


def lines_of(session: Session) -> Iterator[str]:
    """Yield a namespace line by line, all from one state of the file."""
    store, namespace = session.store, session.namespace
    with session.lock, store.reading():
        meta = store.meta()
        header = {
            "kind": "epic-memory",
            "format": FORMAT,
            "namespace": namespace,
            "encoder": described(session.encoder),
            **{name: meta.get(f"{name}/{namespace}") for name in ("tau", "verifier", "never")},
        }
        yield json.dumps(header, ensure_ascii=False)
        known, unread = store.preferences.at(namespace), store.preferences.unread(namespace)
        for preference in known.values():
            mark = {"unread": True} if preference.id in unread else {}
            yield json.dumps({"kind": "preference", **preference.as_object(), **mark}, ensure_ascii=False)
        items = 0
        now = time.time()
        for row, held in store.items.held(namespace):
            if held.item.ends <= now:
                continue
            items += 1
            entries = [
                {**columns, "preference": known[columns["preference"]].id if columns["preference"] in known else None}
                for columns in store.entries.lines(row)
            ]
            light = not entries and not held.item.fact
            line = {"kind": "item", **_item(held.item), "version": held.digest.hex(), "light": light}
            yield json.dumps({**line, "entries": entries}, ensure_ascii=False)
        waiting = [triple for triple in store.retry_queue.waiting(namespace) if triple[0].ends > now]
        for item, reason, preferences in waiting:
            pending = {"kind": "pending", **_item(item), "reason": reason, "preferences": preferences}
            yield json.dumps(pending, ensure_ascii=False)
        proposals = ProposalTable(store).exported(namespace)
        for columns in proposals:
            yield json.dumps({**columns, "proposal": columns["kind"], "kind": "proposal"}, ensure_ascii=False)
        if "learnt" in store.schema.tables:
            reranker = optional("epic_rerank.tables", "Learnt")(store).reranker(namespace)
            if reranker is not None:
                yield json.dumps({"kind": "reranker", "reranker": reranker}, ensure_ascii=False)
        counts = {"preferences": len(known), "items": items, "pending": len(waiting), "proposals": len(proposals)}
        yield json.dumps({"kind": "end", **counts})


def export(session: Session, path: Path, *, overwrite: bool) -> int:
    """Write a namespace into a file, whole or not at all; return how many items it has."""
    items = 0
    check_path(path)
    session.store.check_other(path)
    with new_file(path, overwrite=overwrite) as made, Path(made).open("w", encoding="utf-8") as lines:
        for line in lines_of(session):
            lines.write(line + "\n")
            items += line.startswith('{"kind": "item"')
    return items


def _item(item: Item) -> dict[str, Any]:
    line: dict[str, Any] = {"id": item.id, "text": item.text, "metadata": dict(item.metadata)}
    if item.expires_at is not None:
        line["expires_at"] = item.expires_at.isoformat()
    return {**line, "fact": True} if item.fact else line


def read_export(path: Path) -> Portable:
    """Read and check an export.

    Raises:
        InvalidInputError: naming the line that is none, or saying that the end is missing.
        StoreError: if the file cannot be read.
    """
    read, ended = Portable(), False
    check_name(path)
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if ended:
                    raise InvalidInputError(f"{path}, line {number}: there is something after the end.")
                try:
                    ended = take_line(read, json.loads(line), first=number == 1)
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
                    what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                    raise InvalidInputError(f"{path}, line {number}: {what[:300]}") from None
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not UTF-8 text ({error.reason}): it is no export of a memory.") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}.") from None
    if not ended:
        raise InvalidInputError(f"{path} has no end: it is no export of a memory, or was cut. Export it again.")
    return read


def take_line(read: Portable, line: Any, *, first: bool) -> bool:
    """Check one line into what was read, and tell whether it was the last."""
    kind = line["kind"]
    json.dumps(line, ensure_ascii=False).encode()  # JSON can spell what is no text
    if first:
        _take_header(read, line)
    elif kind == "preference":
        _take_preference(read, line)
    elif kind == "item":
        _take_item(read, line)
    elif kind == "pending":
        item = _checked_item(line)
        read.pending.append((item, str(line["reason"]), [str(key) for key in line["preferences"]]))
    elif kind == "proposal":
        read.proposals.append(checked_line({**line, "kind": line["proposal"]}))
    elif kind == "reranker":
        read.reranker = optional("epic_rerank", "LearnedReranker").from_object(line["reranker"]).as_object()
    elif kind == "end":
        _check_end(read, line)
    else:
        raise ValueError(f"there is no kind {kind!r}")
    return bool(kind == "end")


def _take_header(read: Portable, line: Any) -> None:
    if line["kind"] != "epic-memory" or line["format"] != FORMAT:
        raise ValueError("this is no export of a memory, or one of a newer version")
    read.header = dict(line)
    if line.get("tau") is not None:
        checked_tau(line["tau"], "tau")
    if not isinstance(line.get("verifier"), (str, NoneType)):
        raise ValueError("the verifier is no name")
    if line.get("never"):
        Rules.of(line["never"])


def _check_end(read: Portable, line: Any) -> None:
    counted = {name: len(getattr(read, name)) for name in ("preferences", "items", "pending", "proposals")}
    if any(line[name] != count for name, count in counted.items()):
        raise ValueError(f"there should be {line['items']} items, and are {counted['items']}: lines are missing")


def _take_preference(read: Portable, line: Any) -> None:
    more = {name: line.get(name) for name in ("aspects", "expansion")}
    preference = Preference(id=line["id"], text=line["text"], expires_at=line["expires_at"], **more)
    if preference.id in {each.id for each in read.preferences}:
        raise ValueError(f"the preference {preference.text!r} is there twice")
    read.preferences.append(preference)
    if line.get("unread") and (preference.aspects is None or preference.expansion is None):
        read.unread.add(preference.id)


def _checked_item(line: Mapping[str, Any]) -> Item:
    more: dict[str, Any] = {"expires_at": line.get("expires_at"), "fact": bool(line.get("fact", False))}
    item = Item(id=line["id"], text=line["text"], metadata=line["metadata"], **more)
    dumped_metadata(item.metadata, item.id)
    if item.fact:
        check_length(item.text)
    return item


class _Entry(BaseModel):
    """An entry as an export has it; shares may be off by what was rounded."""

    model_config = ConfigDict(strict=True)

    preference: str | None
    stance: Annotated[Stance, Field(strict=False)]
    confidence: float | None = Field(ge=-1e-3, le=1.001)
    similarity: float = Field(ge=-1.001, le=1.001)
    added: int = Field(gt=-(2**53), lt=2**53)
    verifier: int = Field(gt=-(2**53), lt=2**53)
    instruction: str
    rationale: str


def _take_item(read: Portable, line: Any) -> None:
    held = HeldItem(item=_checked_item(line), digest=bytes.fromhex(line["version"]))
    if len(held.digest) != DIGEST_BYTES:
        raise ValueError("its version is none")
    try:
        entries = [_Entry.model_validate(entry).model_dump() for entry in line["entries"]]
    except ValidationError as error:
        given = error.errors()[0]["input"]
        # Texts are the user's, and a message may be logged.
        raise ValueError(reason_of(error) + (f", not {given}" if isinstance(given, (int, float)) else "")) from None
    if bool(entries) + bool(line["light"]) + held.item.fact != 1:
        raise ValueError("an item has entries, is in the light tier, or is a fact of the user")
    read.items.append((held, entries))


def take_over(session: Session, read: Portable) -> None:
    """Write an export into a memory, and open it; a namespace that holds something is a `StoreError`."""
    store, namespace, encoder = session.store, session.namespace, session.encoder
    if store.meta_of("encoder") is not None:
        session.check_encoder()
    same = read.header.get("encoder") == described(encoder)
    tau = read.header.get("tau") if same else None
    if session.own_tau is None and tau is not None:
        session.own_tau = float(tau)
    asked = {preference.id for preference in read.preferences if asks_model(session, preference)}
    stated = run(read_preferences(session, read.preferences, session.opened), Clock())
    read.preferences = [preference for preference, _ in stated]
    read.unread = {preference.id for preference, unread in stated if unread} | read.unread - asked
    vector_of = vectors_of(session, read)
    with session.lock, store.transaction():
        if namespace in store.namespaces():
            raise StoreError(
                f"{store.path} holds something in the namespace {namespace!r} already. Give another file or namespace."
            )
        session.mark_stale()
        if store.meta_of("encoder") is None:
            store.set_meta(encoder=described(encoder))
        for name in ("tau", "verifier", "never"):
            # A threshold belongs to the encoder it was found with.
            if read.header.get(name) is not None and (same or name != "tau"):
                store.set_meta(**{f"{name}/{namespace}": read.header[name]})
        put_in(session, read, vector_of)
        if read.reranker is not None and read.reranker["encoder"] in ("", encoder.fingerprint):
            optional("epic_rerank.tables", "Learnt")(store).put(namespace, read.reranker)
    take_up(session, None, sync=False, reencode=False)


def vectors_of(session: Session, read: Portable) -> dict[str, FloatArray]:
    """Return the embeddings of preferences, items and instructions, by their texts."""
    texts = dict.fromkeys(preference.text for preference in read.preferences)
    for held, entries in read.items:
        texts |= dict.fromkeys([*(entry["instruction"] or held.item.content for entry in entries), held.item.searched])
    return dict(zip(texts, embed(session.encoder, list(texts)), strict=True))


def put_in(session: Session, read: Portable, vector_of: Mapping[str, FloatArray]) -> None:
    """Write preferences, known or new, items that are not held, what waits, and proposals; inside a transaction."""
    store, namespace = session.store, session.namespace
    rows = {preference.id: row for row, preference in store.preferences.at(namespace).items()}
    for preference in read.preferences:
        vector, unread = vector_of[preference.text], preference.id in read.unread
        if preference.id in rows:
            store.set_preference(namespace, preference, vector)
            store.preferences.set_stated(namespace, preference, unread=unread)
        else:
            rows[preference.id] = store.preferences.add(namespace, preference, vector, unread=unread)
    for held, entries in read.items:
        item, vectors = held.item, vector_of[held.item.searched][None]
        item_row = store.items.put_all(namespace, [item], vectors, {item.id: held.digest}).rows[0]
        for columns in entries:
            under = columns["preference"]
            if under is not None and under not in rows:
                raise InvalidInputError(f"Item {item.id!r} is held for a preference that is not in the export.")
            rest = {name: value for name, value in columns.items() if name != "preference"}
            vector = vector_of[columns["instruction"] or item.content]
            store.entries.add(item_row, rows.get(under), NewEntry(preference_id=under, vector=vector, **rest))
    for item, reason, ids in read.pending:
        store.retry_queue.put(namespace, item, reason, ids)
    ProposalTable(store).import_(namespace, read.proposals)
