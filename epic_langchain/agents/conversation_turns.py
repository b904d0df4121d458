"""Turns in the messages of an agent's run: the user's latest message, its answers, the text to remember."""

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
    """Return a hash of a text, as hexadecimal digits."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def latest_place(messages: Sequence[AnyMessage]) -> int | None:
    """Return the position of the user's latest message, or None."""
    return next((n for n in reversed(range(len(messages))) if is_the_users(messages[n])), None)


def latest_question(messages: Sequence[AnyMessage]) -> Question:
    """Return the user's latest message."""
    place = latest_place(messages)
    if place is None:
        return Question(text="", id="")
    return Question(text=text_of(messages[place]), id=messages[place].id or "")


def id_of(message: AnyMessage) -> str:
    """Return the id of a message, or a hash of its text if it has none."""
    # In an agent each message has an id, which stays when another middleware changes the message's text.
    return message.id or hashed(text_of(message))


def answered(messages: Sequence[AnyMessage], place: int) -> bool:
    """Tell whether the assistant answered after the message at this position."""
    return any(isinstance(message, AIMessage) for message in messages[place + 1 :])


def is_the_users(message: AnyMessage) -> bool:
    """Tell whether the user wrote a message."""
    # LangChain's summary of old messages is a HumanMessage too, but the user did not write it.
    return isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs


def text_of(message: AnyMessage) -> str:
    """Return the text of a message without characters that a memory refuses: they must not cost the user the answer."""
    return storable(str(message.text)).strip()


def turn_of(messages: Sequence[AnyMessage], asked: str, *, both: bool, tools: bool) -> list[dict[str, str]]:
    """Return the message with this id and the assistant's answers to it as a conversation; empty without an answer.

    Other messages in the user's name are left out: a middleware, a tool or another user wrote them.
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
