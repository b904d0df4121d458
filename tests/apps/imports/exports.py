"""Exports made by hand in the shapes of the real ones, and folders that may not be looked into."""

from __future__ import annotations

import json
import pkgutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def chatgpt_message(role: str, *parts: Any, at: float | None = None, kind: str = "text", **metadata: Any) -> Any:
    content = {"content_type": kind, "parts": list(parts)}
    return {"author": {"role": role}, "create_time": at, "content": content, "metadata": metadata}


def chatgpt(title: str, *messages: Any, deleted: Sequence[Any] = (), at: float = 1_700_000_000.0) -> dict[str, Any]:
    """A conversation whose last message ends the branch that counts; `deleted` hang beside the first message."""
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    parent = "root"
    for number, message in enumerate(messages):
        place = f"m{number}"
        mapping[place] = {"id": place, "message": message, "parent": parent, "children": []}
        mapping[parent]["children"].append(place)
        parent = place
    for number, message in enumerate(deleted):
        mapping[f"d{number}"] = {"id": f"d{number}", "message": message, "parent": "root", "children": []}
        mapping["root"]["children"].append(f"d{number}")
    return {"title": title, "create_time": at, "mapping": mapping, "current_node": parent, "conversation_id": title}


def claude(name: str, *messages: Mapping[str, Any]) -> dict[str, Any]:
    return {"uuid": name, "name": name, "created_at": "2024-05-01T10:00:00Z", "chat_messages": list(messages)}


def claude_message(sender: str, text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"sender": sender, "text": text, "content": content, "created_at": "2024-05-01T10:00:00Z", **more}


def archive(path: Path, **members: Any) -> Path:
    """A zip archive; what is no text is written as JSON. Two underscores in a name are its dot."""
    with zipfile.ZipFile(path, "w") as made:
        for name, content in members.items():
            made.writestr(name.replace("__", "."), content if isinstance(content, str) else json.dumps(content))
    return path


def refusing(looks: str, what: str) -> Callable[[Any], Any]:
    """What looks at files and folders, but may not look at some."""
    real = pkgutil.resolve_name(looks)

    def look(path: Any) -> Any:
        if str(path).endswith(what):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    return look
