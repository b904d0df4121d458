"""Conversations between people, as WhatsApp and Telegram export them; only the user's own messages count."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import Any

from epic_apps.imports.chats import Chat
from epic_apps.imports.parts import Part
from epic_apps.imports.recognition import WHATSAPP, Recognized, json_items
from epic_memory.errors import InvalidInputError

# Messages of a chat that goes on for years are read in pieces.
_PIECE = 500
_NAMED = re.compile(r"WhatsApp[ -]Chat (?:with|mit|avec|con|-) (.+)", re.I)
_SPEAKER = re.compile(r"([^:\n]{1,60}): ?(.*)", re.S)
_GROUP = re.compile(r"\b(?:group|gruppe|groupe|grupo|gruppo|groep|subject|betreff|sujet|asunto)\b", re.I)
_NO_WORDS = re.compile(
    r"\u200e|<(?:media omitted|attached: [^>]*|this message was edited|medien ausgeschlossen)>|"
    r"(?:this message was deleted|you deleted this message|(?:image|video|audio|sticker|gif|document) omitted)\.?$",
    re.I,
)


def people_of(part: Part, found: Recognized, user: Collection[str], origin: str) -> Iterator[Chat]:
    """Yield the conversations of a messenger's export in pieces, with the role "user" for the user's own messages.

    Args:
        part: The export.
        found: What it was recognised as.
        user: Names of the user in it.
        origin: The name of the file that holds it, which may name the other person.

    Raises:
        InvalidInputError: if nothing says which of the speakers is the user; or where the export is broken.
    """
    yield from _telegram(part, found, user) if found.kind == "telegram" else _whatsapp(part, user, origin)


def _pieces(title: str, messages: Iterator[dict[str, Any]]) -> Iterator[Chat]:
    while piece := list(islice(messages, _PIECE)):
        yield Chat(piece, title)


# --- WhatsApp


def _whatsapp(part: Part, user: Collection[str], origin: str) -> Iterator[Chat]:
    speakers: Counter[str] = Counter()
    largest = (0, 0)
    is_group = _is_group(part)
    for date, _, _, name, _ in _messages(part):
        speakers[name] += 1
        largest = max(largest[0], date[0]), max(largest[1], date[1])
    named = _NAMED.match(PurePosixPath(origin).stem)
    others = {named[1].strip()} if named else set()
    mine = {name for name in speakers if name.casefold() in {each.strip().casefold() for each in user}}
    if not mine and others & speakers.keys() and len(speakers) == 2 and not is_group:
        mine = speakers.keys() - others
    if not mine:
        most = ", ".join(name for name, _ in speakers.most_common(8))
        raise InvalidInputError(f"{part.name}: say which of the speakers you are, by --user NAME: {most}.")
    # By the largest numbers of all dates; where both are possible, the day comes first.
    order = "ymd" if largest[0] > 31 else "mdy" if largest[1] > 12 else "dmy"
    read = (
        {"role": "user" if name in mine else "other", "name": name, "content": text, "time": _time(date, order, *clock)}
        for date, *clock, name, text in _messages(part)
    )
    yield from _pieces(" and ".join(sorted(others or speakers.keys() - mine)[:3]) or PurePosixPath(origin).stem, read)


def _is_group(part: Part) -> bool:
    """Tell whether a line that nobody says is about a group: it may have the name of one of its members."""
    with part.open() as file:
        heads = (WHATSAPP.match(line) for line in io.TextIOWrapper(file, "utf-8-sig", "replace"))
        return any(_GROUP.search(head["rest"]) and not _SPEAKER.match(head["rest"]) for head in heads if head)


def _messages(part: Part) -> Iterator[tuple[tuple[int, int, int], str, str, str, str]]:
    """Yield the date as it stands, time and half of the day, the speaker and the text of each message."""
    with part.open() as file:
        head: re.Match[str] | None = None
        lines: list[str] = []
        for line in chain(io.TextIOWrapper(file, "utf-8-sig", "replace"), [None]):
            begun = None if line is None else WHATSAPP.match(line)
            if line is not None and begun is None:
                lines.append(line)
                continue
            if head is not None and (said := _SPEAKER.match("".join([head["rest"], "\n", *lines]).lstrip("\u200e"))):
                first, second, third = (int(each) for each in re.split(r"[./-]", head["date"]))
                text = _NO_WORDS.sub("", said[2]).strip()
                yield (first, second, third), head["time"], head["half"] or "", said[1].strip("\u200e~ "), text
            head, lines = begun, []


def _time(date: tuple[int, int, int], order: str, time: str, half: str) -> str | None:
    at = dict(zip(order, date, strict=True))
    hour, minute, second = (*(int(each) for each in re.split("[:.]", time)), 0)[:3]
    hour = hour % 12 + 12 * (half.lower() == "p") if half else hour
    try:
        return datetime(at["y"] + 2000 * (at["y"] < 100), at["m"], at["d"], hour, minute, second).isoformat()
    except ValueError:
        return None


# --- Telegram


def _telegram(part: Part, found: Recognized, user: Collection[str]) -> Iterator[Chat]:
    names = {each.strip().casefold() for each in user}
    ids = {f"user{found.known.get('personal_information.user_id')}"}
    if found.prefix:
        for chat in json_items(part, found.prefix):
            if isinstance(chat, Mapping):
                mine = _is_mine(chat, names, ids)
                given = chat.get("messages")
                read = (_telegram_message(each, mine) for each in (given if isinstance(given, list) else []))
                yield from _pieces(str(chat.get("name") or "Telegram"), (each for each in read if each))
        return
    alone = found.known.get("type") == "saved_messages"
    if not names and found.known.get("type") != "personal_chat" and not alone:
        raise InvalidInputError(f"{part.name}: say which of the speakers you are, by --user NAME.")
    mine = _is_mine(found.known, names, ids)
    read = (_telegram_message(each, mine) for each in json_items(part, "messages.item"))
    yield from _pieces(str(found.known.get("name") or "Telegram"), (each for each in read if each))


def _is_mine(chat: Mapping[str, Any], names: Collection[str], ids: Collection[str]) -> Any:
    """Return what tells whether a message is the user's: by id, else by name, or as the only other one."""
    kind, other = chat.get("type"), f"user{chat.get('id')}"
    is_known = ids != {"userNone"}

    def is_mine(message: Mapping[str, Any]) -> bool:
        given = message.get("from_id")
        sender = f"user{given}" if isinstance(given, int) else given
        is_channel = isinstance(sender, str) and not sender.startswith("user")
        if message.get("forwarded_from") or message.get("saved_from") or is_channel:
            return False
        if is_known and sender is not None:
            return sender in ids
        if kind in ("personal_chat", "bot_chat") and sender == other:
            return False
        if names:
            # Anybody may have the same name: it counts only where no id says more.
            return str(message.get("from")).strip().casefold() in names
        return kind == "saved_messages" or (kind == "personal_chat" and not is_known and sender is not None)

    return is_mine


def _telegram_message(message: Any, is_mine: Any) -> dict[str, Any] | None:
    if not isinstance(message, Mapping) or message.get("type") != "message":
        return None
    text = message.get("text") or ""
    if not isinstance(text, (str, list)):
        return None
    if isinstance(text, list):
        # Code and quotations are not the user's own words.
        text = "".join(
            each if isinstance(each, str) else str(each.get("text", ""))
            for each in text
            if isinstance(each, str) or (isinstance(each, Mapping) and each.get("type") not in ("pre", "blockquote"))
        )
    role = "user" if is_mine(message) else "other"
    return {"role": role, "name": str(message.get("from") or ""), "content": text, "time": message.get("date")}
