"""Turns in the messages of an agent's run: the latest question, its answers, what to remember."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from epic_memory.runtime.batching import storable


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


def latest_question(messages: Sequence[AnyMessage], turn: Mapping[str, str] | None) -> Question:
    """Return the user's latest message; the one that began the turn, if a summary has replaced the user's messages."""
    place = latest_place(messages)
    if place is None:
        return Question(text=turn["text"], id=turn["asked"]) if turn else Question(text="", id="")
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


def place_of(messages: Sequence[AnyMessage], asked: str) -> int | None:
    """Return the position of the user's message with this id, or None."""
    places = (n for n, message in enumerate(messages) if is_the_users(message) and id_of(message) == asked)
    return max(places, default=None)


def turn_of(messages: Sequence[AnyMessage], turn: Mapping[str, str], *, both: bool) -> list[dict[str, str]]:
    """Return the message that began a turn and the assistant's answers as a conversation; empty without an answer.

    Other messages in the user's name are left out: a middleware, a tool or another user wrote them. Where a summary
    has replaced the message, it had replaced everything before it, too: all that is left belongs to the turn.
    """
    place = place_of(messages, turn["asked"])
    start = -1 if place is None else place
    if not answered(messages, start):
        return []
    said = [("user", turn["text"] if place is None else text_of(messages[place]))]
    answers = messages[start + 1 :] if both else ()
    said += [("assistant", text_of(one)) for one in answers if isinstance(one, AIMessage) and not one.tool_calls]
    return [{"role": role, "content": text} for role, text in said if text]
