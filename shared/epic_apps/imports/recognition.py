"""Recognition of exports: what a file holds, by its first bytes and keys, whatever it is called."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Literal, TypeAlias

from epic_apps.cli.readers import READERS
from epic_apps.cli.readers.base import library
from epic_apps.imports.parts import Part
from epic_memory.errors import InvalidInputError

Kind: TypeAlias = Literal["chatgpt", "claude", "gemini", "telegram", "whatsapp", "chat", "document", "unknown"]
"""Kind of a part; "chat" is any other list of messages, "document" what is read as notes."""

EXTRA = "imports"
CHAT_KINDS = frozenset({"chatgpt", "claude", "gemini", "telegram", "whatsapp", "chat"})

# The head of a message: [31.12.23, 22:15:01] Ann: ..., or 12/31/23, 10:15 PM - Ann: ...
WHATSAPP = re.compile(
    r"\u200e?\[?(?P<date>\d{1,4}[./-]\d{1,2}[./-]\d{1,4}),?\s"
    r"(?P<time>\d{1,2}[:.]\d\d(?:[:.]\d\d)?)(?:\s?(?P<half>[AaPp])\.?\s?[Mm]\.?)?(?:\]|\s-)\s(?P<rest>.*)"
)
_SPEAKER = re.compile(r"(?:user|human|you|me|assistant|ai|chatgpt|claude|gemini|model) ?:", re.I)
_MESSAGES = ("messages", "chat_messages", "turns", "conversation", "contents")
_TELEGRAM = frozenset({
    "personal_chat", "bot_chat", "saved_messages", "private_group", "private_supergroup", "public_supergroup",
    "private_channel", "public_channel",
})  # fmt: skip
# Keys of one large value that come late are not waited for.
_MOST_EVENTS = 500_000
_DEEPEST = 64


@dataclass(frozen=True)
class Recognized:
    """Contents of a part, as they were recognised.

    Attributes:
        kind: What it is.
        prefix: Where its conversations are in the JSON, as ijson writes it: "item" for each of an array, "" for all.
        lines: Whether it is a JSON object a line.
        known: Top-level values that came before them, by their paths.
    """

    kind: Kind
    prefix: str = "item"
    lines: bool = False
    known: Mapping[str, Any] = field(default_factory=dict)


def recognized(part: Part) -> Recognized:
    """Say what a part holds.

    Raises:
        InvalidInputError: if it cannot be read, or is broken JSON.
        MissingExtraError: for JSON, if ijson is not installed.
    """
    if part.suffix == ".json":
        return _of_json(part)
    if part.suffix in (".jsonl", ".ndjson"):
        return _of_lines(part)
    if part.suffix == ".txt":
        # A note may begin with a name and a colon, too: two different speakers make a chat.
        lines = [line for line in part.head().lstrip("\ufeff").splitlines() if line.strip()]
        if any(WHATSAPP.match(line) for line in lines[:3]):
            return Recognized("whatsapp")
        speakers = {found.group().casefold() for line in lines if (found := _SPEAKER.match(line))}
        if lines and _SPEAKER.match(lines[0]) and len(speakers) > 1:
            return Recognized("chat", "")
    return Recognized("document" if part.suffix in READERS else "unknown")


def json_items(part: Part, prefix: str) -> Iterator[Any]:
    """Yield the values under a prefix of a JSON file one after the other, without holding the others.

    Raises:
        InvalidInputError: where the JSON is broken; what came before it was yielded.
        MissingExtraError: if ijson is not installed.
    """
    with part.open() as file:
        yield from _checked(part, _ijson().items(_events(file), prefix))


def _ijson() -> Any:
    return library("ijson", EXTRA)


def _events(file: BinaryIO) -> Iterator[Any]:
    """Return the events of a JSON file, unless it is nested deeper than any export: paths grow with the depth."""

    def shallow() -> Iterator[tuple[str, Any]]:
        depth = 0
        for event, value in _ijson().basic_parse(_without_mark(file), use_float=True):
            depth += event in ("start_map", "start_array")
            depth -= event in ("end_map", "end_array")
            if depth > _DEEPEST:
                raise OverflowError("nested too deeply")
            yield event, value

    events: Iterator[Any] = _ijson().parse(shallow())
    return events


def _checked(part: Part, events: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from events
    except (_ijson().JSONError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        told = " ".join(str(error).split())[:100]
        raise InvalidInputError(f"{part.name}: broken JSON ({told}). Export it anew.") from None


def _without_mark(file: BinaryIO) -> BinaryIO:
    """Return a file from behind its byte order mark, if it has one."""
    peek = getattr(file, "peek", None)
    if peek is not None and peek(3)[:3] == b"\xef\xbb\xbf":
        file.read(3)
    return file


def _of_json(part: Part) -> Recognized:
    values: dict[str, Any] = {}
    with part.open() as file:
        events = _checked(part, _events(file))
        _, first, _ = next(events, ("", "null", None))
        if first == "start_array":
            return _of_record(next(json_items(part, "item"), None))
        for number, (path, event, value) in enumerate(events if first == "start_map" else ()):
            if event == "map_key" and not path and (found := _by_key(value, values)) is not None:
                return found
            if event in ("string", "number") and path.count(".") <= 1:
                values[path] = value
            if number > _MOST_EVENTS:
                break
    return Recognized("unknown")


def _by_key(key: str, before: Mapping[str, Any]) -> Recognized | None:
    """Say what an object is as soon as a key says it."""
    if key in ("mapping", "chat_messages"):
        return Recognized("chatgpt" if key == "mapping" else "claude", "")
    if key == "chats":
        return Recognized("telegram", "chats.list.item", known=before)
    if key == "messages" and before.get("type") in _TELEGRAM:
        return Recognized("telegram", "", known=before)
    if key == "conversations":
        return Recognized("chat", "conversations.item")
    return Recognized("chat", "") if key in _MESSAGES else None


def _of_record(first: Any) -> Recognized:
    """Say what an array or lines are by the first record."""
    if not isinstance(first, Mapping):
        return Recognized("unknown")
    if "mapping" in first:
        return Recognized("chatgpt")
    if "chat_messages" in first:
        return Recognized("claude")
    if isinstance(first.get("header"), str) and isinstance(first.get("title"), str) and "time" in first:
        return Recognized("gemini" if "gemini" in first["header"].lower() else "unknown")
    if any(isinstance(first.get(key), list) for key in _MESSAGES):
        return Recognized("chat")
    if {"role", "sender", "from", "author"} & first.keys() and {"content", "text", "value", "parts"} & first.keys():
        return Recognized("chat", "")
    return Recognized("document" if isinstance(first.get("text"), str) else "unknown")


def _of_lines(part: Part) -> Recognized:
    from epic_apps.imports.chats import json_lines

    found = _of_record(next(json_lines(part), None))
    return found if found.kind == "document" else replace(found, lines=True)
