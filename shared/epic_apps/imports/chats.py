"""Conversations with assistants: ChatGPT's, Claude's and Gemini's exports, and lists of messages of other shapes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from epic_apps.cli.sources import read_records
from epic_apps.imports.parts import Part
from epic_apps.imports.recognition import Recognized, json_items
from epic_memory.errors import InvalidInputError

_LARGEST = 100_000_000
_PROMPTED = "Prompted "


@dataclass(frozen=True)
class Chat:
    """One conversation, not read yet.

    Attributes:
        messages: What `epic_learn.conversations.read_conversation` reads.
        title: What it is called; empty if it says so itself, or has no name.
        user: Names of speakers who are the user.
    """

    messages: Any
    title: str = ""
    user: Collection[str] = ()


def chats_of(part: Part, found: Recognized, user: Collection[str]) -> Iterator[Chat]:
    """Yield the conversations of an assistant's export, or of other messages, one after the other.

    Raises:
        InvalidInputError: where the export is broken; what came before it was yielded.
    """
    if found.kind == "gemini":
        yield from _gemini(json_items(part, found.prefix))
        return
    for value in _values(part, found):
        if found.kind == "claude" and isinstance(value, Mapping):
            yield Chat(_claude(value), str(value.get("name") or ""))
        elif isinstance(value, (Mapping, list)) or part.suffix == ".txt":
            yield Chat([value] if isinstance(value, Mapping) else value, "", user)


def _values(part: Part, found: Recognized) -> Iterator[Any]:
    if found.lines:
        yield from json_lines(part) if found.prefix else [list(json_lines(part))]
    elif not found.prefix and part.size > _LARGEST:
        raise InvalidInputError(f"{part.name} is one conversation of more than {_LARGEST // 1_000_000} MB. Divide it.")
    elif part.suffix == ".txt":
        with part.open() as file:
            yield file.read().decode("utf-8-sig", "replace")
    else:
        yield from json_items(part, found.prefix)


def json_lines(part: Part) -> Iterator[dict[str, Any]]:
    """Yield the object of each line that has one.

    Raises:
        InvalidInputError: for a line that is no JSON; what came before it was yielded.
    """
    with part.open() as file:
        for _, record in read_records(file, part.name, others=True):
            if isinstance(record, InvalidInputError):
                raise record
            yield record


def _claude(conversation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of the branch that ends with the last message: what was edited away is left out."""
    given = conversation.get("chat_messages")
    messages = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
    by_id = {each.get("uuid"): each for each in messages}
    if any(each.get("parent_message_uuid") in by_id for each in messages):
        branch: list[Mapping[str, Any]] = []
        place: Mapping[str, Any] | None = messages[-1]
        while place is not None and place not in branch:
            branch.insert(0, place)
            place = by_id.get(place.get("parent_message_uuid"))
        messages = branch
    return [
        {
            "role": each.get("sender") or "unknown",
            # Attachments are texts of others, which a message carries beside its own words.
            "content": each.get("content") or each.get("text") or "",
            "created_at": each.get("created_at"),
        }
        for each in messages
    ]


def _gemini(activities: Iterator[Any]) -> Iterator[Chat]:
    """Yield a conversation for each day: the export knows prompts, not the conversations that they belong to."""
    prompts = (
        (str(each.get("time", ""))[:10], each)
        for each in activities
        if isinstance(each, Mapping) and str(each.get("title", "")).startswith(_PROMPTED)
    )
    for day, several in groupby(prompts, key=lambda pair: pair[0]):
        messages = [
            {"role": "user", "content": str(each["title"])[len(_PROMPTED) :], "time": each.get("time")}
            for _, each in several
        ]
        yield Chat(messages, f"Gemini {day}")
