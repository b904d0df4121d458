"""The messages of an agent's run: what the user asked last, whether it was answered, what of it may be remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from epic_core.runtime.batching import storable


@dataclass(frozen=True, kw_only=True)
class Question:
    """The text of the user's latest message, empty if there is none, and the message's id."""

    text: str
    id: str


def hashed(text: str) -> str:
    """A hash of a text."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def latest_place(messages: Sequence[AnyMessage]) -> int | None:
    """Where the user's latest message is."""
    return next((n for n in reversed(range(len(messages))) if is_the_users(messages[n])), None)


def latest_question(messages: Sequence[AnyMessage]) -> Question:
    """The user's latest message."""
    place = latest_place(messages)
    if place is None:
        return Question(text="", id="")
    return Question(text=text_of(messages[place]), id=messages[place].id or "")


def id_of(message: AnyMessage) -> str:
    """What a message is known by."""
    # In an agent each message has an id, which stays when another middleware changes its text.
    return message.id or hashed(text_of(message))


def answered(messages: Sequence[AnyMessage], place: int) -> bool:
    """Whether the assistant said something after the message there."""
    return any(isinstance(message, AIMessage) for message in messages[place + 1 :])


def is_the_users(message: AnyMessage) -> bool:
    """Whether the user said it."""
    # A summary that another middleware has put in place of old messages is nothing the user said.
    return isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs


def text_of(message: AnyMessage) -> str:
    """The text of a message, without what a memory refuses: it must not cost the user the answer."""
    return storable(str(message.text)).strip()


def turn_of(messages: Sequence[AnyMessage], asked: str, *, both: bool, tools: bool) -> list[dict[str, str]]:
    """The message that was asked, and what the assistant said to it, as a conversation; empty if it said nothing.

    Other messages in the user's name are what a middleware or a tool has put there, or another user's.
    """
    places = [n for n, message in enumerate(messages) if is_the_users(message) and id_of(message) == asked]
    if not places or not answered(messages, places[-1]):
        return []
    start = places[-1]
    said = [("user", messages[start])]
    for message in messages[start + 1 :] if both else ():
        if isinstance(message, AIMessage) and (tools or not message.tool_calls):
            said.append(("assistant", message))
        elif isinstance(message, ToolMessage) and tools:
            said.append(("tool", message))
    return [{"role": role, "content": text} for role, message in said for text in [text_of(message)] if text]
