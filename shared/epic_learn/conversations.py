"""Conversations as they are: messages of many shapes, read into turns; what cannot be used is counted and named."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any, Literal, TypeAlias

from epic_learn.origins import ORIGIN, least_trusted
from epic_learn.times import iso_time
from epic_learn.windows import ConversationChunker
from epic_memory.errors import InvalidInputError
from epic_memory.text.turns import CONVERSATION, SOURCE, SPEAKER, TIME, TURN
from epic_memory.types import Item, stable_id
from epic_memory.types.digests import digest
from epic_memory.types.metadata import dumped_metadata
from epic_memory.types.validation import writable

Role: TypeAlias = Literal["user", "assistant", "system", "tool", "other"]

_NAMES_OF_ROLES: dict[Role, tuple[str, ...]] = {
    "user": ("user", "human", "me", "you", "you said", "humanmessagechunk"),
    "assistant": ("assistant", "ai", "bot", "model", "chatgpt", "claude", "aimessagechunk"),
    "system": ("system", "developer"),
    "tool": ("tool", "function", "toolmessagechunk", "observation"),
}
_ROLES = {name: role for role, names in _NAMES_OF_ROLES.items() for name in names}
_TIMES = ("time", "timestamp", "created_at", "create_time", "datetime", "date")
# Where frameworks keep what a message has besides.
_ASIDE = ("metadata", "additional_kwargs", "response_metadata")
_HOLDERS = ("messages", "contents", "chat_messages", "conversations", "conversation", "results", "memories", "turns")
# The speaker of what another memory exported.
_MEMORY = "memory"
_LINE = re.compile(r"(?:\[(?P<time>\d{4}-\d\d-\d\d[^\]]{0,20})\] ?)?(?P<name>[^\W\d_][\w .'-]{0,39}?) ?:(?:\s+|$)")
_TEXT_PARTS = ("text", "input_text", "output_text", "audio_transcription")
_DEEPEST = 4


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of a conversation, with a text.

    Attributes:
        role: "user", "assistant", "system", "tool", or "other" for a speaker of whom nothing is known.
        speaker: The name of the speaker if there is one, else the role as it was given.
        text: The words, not empty.
        time: When, as ISO 8601 text, in UTC if its zone is known; None if it was not given.
        number: Its place among the messages that were read, from 1.
        source: The title or id of the conversation if several were read together.
        place: Its place in its own conversation, from 1: its number, unless several were read together.
    """

    role: Role
    speaker: str
    text: str
    time: str | None = None
    number: int = 1
    source: str = ""
    place: int = 1


@dataclass(kw_only=True)
class Conversation:
    """The turns of one conversation or several, and what could not be used: reason to count."""

    turns: list[Turn] = field(default_factory=list)
    unusable: Counter[str] = field(default_factory=Counter)


def read_conversation(messages: Any, *, user: str | Collection[str] = ()) -> Conversation:
    """Read messages of any known shape into turns.

    Args:
        messages: Mappings with `role` and `content` as OpenAI and Anthropic have them (content may be a text, None or a
            list of parts); message objects of LangChain, LlamaIndex and others; a ChatGPT export; a mem0 export; or a
            text with "Name: words" lines, one without names being the user's own words.
        user: Names of speakers who are the user, besides "user", "human", "me" and "you". If names are given, a message
            of role "user" that bears another name is somebody else's.

    Raises:
        InvalidInputError: for what holds no messages at all, such as a number; or names that are no texts.
    """
    given = [user] if isinstance(user, str) else list(user) if isinstance(user, Iterable) else [user]
    if not all(isinstance(name, str) for name in given):
        raise InvalidInputError(f"user must be the name of a speaker, or several in a list; not {user!r}.")
    names = {name.strip().casefold() for name in given}
    reading = _Reading(names)
    reading.read(messages)
    return reading.made


def conversation_items(
    conversation: Conversation, chunker: ConversationChunker | None = None, metadata: Mapping[str, Any] | None = None
) -> list[Item]:
    """Return the windows of conversations as items, none over two days; what another memory exported, one by one.

    In their metadata are the `source` (the title, or a name made of the first turn), the number of the first `turn` in
    it, its `time`, the `speaker` where all of it is of one, and the `origin`, that of the least trusted turn. What is
    given goes before these; with a `source` of the caller's, `conversation` is the title or name.

    Raises:
        InvalidInputError: for metadata that an item cannot have, or a chunker that is none.
    """
    if chunker is not None and not isinstance(chunker, ConversationChunker):
        raise InvalidInputError(f"chunker must be a ConversationChunker, not {chunker!r}.")
    given = {} if metadata is None else Item(text="conversation", metadata=metadata).metadata
    # The same words in two sessions, or at two times, are two items: each is found by its own metadata.
    known_by = (dumped_metadata(given, "conversation"),) if given else ()
    chunker = chunker or ConversationChunker()
    items: list[Item] = []
    number = 0
    roles = {turn.role for turn in conversation.turns}
    for title, group in groupby(conversation.turns, key=lambda turn: turn.source):
        number += 1  # so that the first turn of a conversation does not answer the last one of another
        of_source = list(group)
        first = of_source[0]
        # It stays the same as the conversation goes on.
        unnamed = digest(first.time or "", first.speaker, first.text, *known_by, size=4).hex()
        name = title or f"conversation {unnamed}"
        of_all = {SOURCE: name, **({CONVERSATION: name} if title or SOURCE in given else {}), **given}
        for turns in _days(of_source):
            if turns[0].speaker == _MEMORY:
                windows = [(turn.text, range(place, place + 1)) for place, turn in enumerate(turns)]
            else:
                windows = chunker.windows([{"role": turn.speaker, "content": turn.text} for turn in turns])
            for window, places in windows:
                first, speakers = turns[places[0]], {turns[place].speaker for place in places}
                known = known_by if first.time is None else (*known_by, first.time)
                items.append(
                    Item(
                        text=window,
                        id=stable_id("window", window, *known) if known else "",
                        metadata={
                            **({} if first.time is None else {TIME: first.time}),
                            **({SPEAKER: first.speaker} if len(speakers) == 1 and first.speaker != _MEMORY else {}),
                            TURN: number + places[0],
                            # Where nobody is known to be the user, others are not known to be somebody else.
                            **({} if roles == {"other"} else {ORIGIN: least_trusted(turns[n].role for n in places)}),
                            **of_all,
                            "kind": "conversation",
                            "window": len(items),
                        },
                    )
                )
            number += len(turns)
    return items


def _days(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """Yield the turns of each day; those without a time belong to the day before, exported memories to none."""
    part: list[Turn] = []
    day: str | None = None
    for turn in turns:
        date = turn.time[:10] if turn.time else day
        if part and ((day is not None and date != day) or (turn.speaker == _MEMORY) != (part[0].speaker == _MEMORY)):
            yield part
            part = []
        part.append(turn)
        day = date
    if part:
        yield part


class _Reading:
    """The reading of messages, turn by turn."""

    def __init__(self, user: Collection[str]) -> None:
        self.made = Conversation()
        self._user = user
        self._number = self._place = 0

    def read(self, messages: Any) -> None:
        if isinstance(messages, str):
            self._transcript(messages)
            return
        if isinstance(messages, Mapping):
            messages = _inside(messages) or [messages]
        elif _role(messages) is not None:
            messages = [messages]  # a message object, which may be iterable
        if isinstance(messages, bytes) or not isinstance(messages, Iterable):
            raise InvalidInputError(f"A conversation is a list of messages or a text, not {type(messages).__name__}.")
        for message in messages:
            if isinstance(message, Mapping) and isinstance(message.get("mapping"), Mapping):
                self._exported(message)
            elif isinstance(message, Mapping) and (several := _inside(message)) is not None:
                self._place = 0
                for inner in several:
                    self._message(inner, _title(message))
            else:
                self._message(message)

    def _message(self, message: Any, source: str = "") -> None:
        self._number += 1
        self._place += 1
        if isinstance(message, Mapping) and isinstance(message.get("memory"), str):
            self._turn(_MEMORY, "", message["memory"], message, source)
            return
        if isinstance(message, Mapping) and isinstance(message.get("message"), Mapping):
            message = message["message"]
        if isinstance(message, Mapping) and isinstance(message.get("data"), Mapping) and "content" not in message:
            message = {**message["data"], "role": _role(message)}  # LangChain's messages_to_dict
        if isinstance(message, Sequence) and not isinstance(message, str) and len(message) == 2:
            message = dict(zip(("role", "content"), message, strict=True))  # ("human", "Hello")
        role = _role(message)
        if role is None:
            self.made.unusable["messages without a role"] += 1
            return
        name = _of(message, "name")
        content = _of(message, "content")
        if content is None:
            found = (_of(message, key) for key in ("value", "text", "parts"))
            content = next((each for each in found if each is not None), None)
        if _of(message, "tool_calls") or _of(message, "function_call"):
            self.made.unusable["tool calls"] += 1
            if content is None or content == "":
                return
        own, results = self._words(content)
        for result in results:
            self._turn("tool", "", result, message, source)
        if own or not results:
            self._turn(role, name if isinstance(name, str) else "", own, message, source)

    def _words(self, content: Any, depth: int = 0) -> tuple[str, list[str]]:
        """Return the words of a content, and the texts of the tool results in it, which are nobody's words."""
        if isinstance(content, str) or content is None:
            return content or "", []
        if isinstance(content, Mapping) and "parts" in content:
            content = content["parts"]
        if isinstance(content, Mapping) or not isinstance(content, Iterable) or depth > _DEEPEST:
            content = [content] if isinstance(content, Mapping) else []
        words: list[str] = []
        results: list[str] = []
        for part in content:
            kind = _of(part, "type") or _of(part, "content_type")
            text = part if isinstance(part, str) else _of(part, "text")
            if kind == "tool_result":
                inner, more = self._words(_of(part, "content"), depth + 1)
                results += [text for text in (inner, *more) if text]
            elif isinstance(text, str) and (isinstance(part, str) or kind in (None, *_TEXT_PARTS)):
                words.append(text)
            else:
                called = kind if isinstance(kind, str) and kind else "unknown"
                self.made.unusable["tool calls" if called == "tool_use" else f"parts of type {called[:40]}"] += 1
        return "\n".join(words), results

    def _turn(self, speaker: str, name: str, text: str, message: Any, source: str) -> None:
        text = writable(text).strip()
        if not text:
            self.made.unusable["messages without text"] += 1
            return
        role: Role = _ROLES.get(speaker.casefold(), "other")
        if role == "other" and {speaker.casefold(), name.strip().casefold()} & set(self._user):
            role = "user"
        elif role == "user" and self._user and name.strip() and name.strip().casefold() not in self._user:
            role = "other"
        self.made.turns.append(
            Turn(
                role=role,
                speaker=" ".join(writable(name or speaker).split()) or "user",
                text=text,
                time=self._time(message),
                number=self._number,
                source=source,
                place=self._place,
            )
        )

    def _time(self, message: Any) -> str | None:
        given = [_of(holder, key) for holder in (message, *(_of(message, aside) for aside in _ASIDE)) for key in _TIMES]
        given = [value for value in given if isinstance(value, (str, int, float, datetime)) and value]
        if not given:
            return None
        times = [time for time in map(iso_time, given) if time is not None]
        if not times:
            self.made.unusable["times that are no date"] += 1
        return times[0] if times else None

    def _exported(self, conversation: Mapping[str, Any]) -> None:
        """Read one conversation of ChatGPT's export, from its last message back to its first."""
        nodes, title = conversation["mapping"], _title(conversation)
        self._place = 0
        place = conversation.get("current_node")
        if place not in nodes:
            parents = {node.get("parent") for node in nodes.values() if isinstance(node, Mapping)}
            place = next((key for key in reversed(list(nodes)) if key not in parents), None)
        path: dict[Any, Mapping[str, Any]] = {}
        while isinstance(place, str) and place not in path and isinstance(nodes.get(place), Mapping):
            path[place] = nodes[place]
            place = nodes[place].get("parent")
        self.made.unusable["messages of other branches"] += sum(
            isinstance(node, Mapping) and isinstance(node.get("message"), Mapping)
            for key, node in nodes.items()
            if key not in path
        )
        for node in reversed(path.values()):
            message = node.get("message")
            if not isinstance(message, Mapping):
                continue
            content = message.get("content")
            kind = content.get("content_type") if isinstance(content, Mapping) else None
            if _of(message.get("metadata"), "is_visually_hidden_from_conversation") or kind not in (
                "text",
                "multimodal_text",
                "code",
                "execution_output",
            ):
                self.made.unusable["hidden messages"] += 1
                continue
            self._message({**message, "role": _of(message.get("author"), "role")}, title)

    def _transcript(self, text: str) -> None:
        """Read "Name: words" lines; lines without a name go on with the turn before."""
        turns: list[tuple[dict[str, Any], list[str]]] = []
        # Other breaks, such as U+2028, stand inside what one speaker says.
        lines = text.replace("\r\n", "\n").split("\n")
        first = next((line for line in lines if line.strip()), "")
        if not _LINE.match(first):
            turns.append(({"role": "user"}, lines))
            lines = []
        for line in lines:
            if match := _LINE.match(line):
                turns.append(({"role": match["name"], "time": match["time"]}, [line[match.end() :]]))
            elif turns:
                turns[-1][1].append(line)
        for message, words in turns:
            self._message({**message, "content": "\n".join(words)})


def _of(thing: Any, name: str) -> Any:
    """Return a value of a mapping, or an attribute of an object, or None."""
    if isinstance(thing, Mapping):
        return thing.get(name)
    return None if thing is None or isinstance(thing, (str, bytes, type)) else getattr(thing, name, None)


def _role(message: Any) -> str | None:
    """Return who speaks, in the words of the message."""
    for key in ("role", "from", "sender", "type"):
        role = _of(message, key)
        role = getattr(role, "value", role)
        if isinstance(role, str) and role.strip() and not (key == "type" and role == "message"):
            return role.strip()
    return None


def _inside(value: Mapping[str, Any]) -> Sequence[Any] | None:
    """Return the messages inside an object that holds a conversation; None for any other object."""
    is_message = isinstance(value.get("memory"), str) or (_role(value) is not None and value.keys() - {"type"})
    if is_message or isinstance(value.get("mapping"), Mapping):
        return None
    lists = (value.get(key) for key in _HOLDERS)
    return next((each for each in lists if isinstance(each, Sequence) and not isinstance(each, str)), None)


def _title(conversation: Mapping[str, Any]) -> str:
    named = (conversation.get(key) for key in ("title", "name", "conversation_id", "uuid", "id"))
    title = next((each for each in named if isinstance(each, str) and each.strip()), "")
    return " ".join(writable(title).split())[:200]


def unusable_lines(unusable: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each reason why something could not be used."""
    for reason, count in sorted(unusable.items()):
        if count:
            yield f"{count} {reason}"
