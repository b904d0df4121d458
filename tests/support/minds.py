"""A language model that answers all that a memory asks: preferences, verdicts, proposals, facts."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from epic_memory.types import Stance
from scripted import answer_to, preference_read, read_prompt

CHAT = [("user", "just veggie for me")]


class Mind:
    """A language model's answers to all that a memory asks, as a function of messages in any form.

    Attributes:
        well: Whether it answers; else `fault` makes what comes instead, or raises.
        stance: How it says that a text stands to a preference; None for one that does not matter to it.
        answered: What it has answered: what was asked, and about what.
    """

    def __init__(self) -> None:
        self.well = True
        self.fault: Callable[[], Any] = lambda: "Who knows."
        self.stance: Stance | None = Stance.SUPPORTS
        self.answered: Counter[tuple[str, ...]] = Counter()
        self.asked = 0
        self._lock = threading.Lock()

    def __call__(self, messages: Sequence[Any]) -> Any:
        with self._lock:
            self.asked += 1
            if not self.well:
                return self.fault()
            plain = [plain_message(message) for message in messages]
            topics, answer = self._answer(plain)
            self.answered.update(topics)
            return answer

    @property
    def kinds(self) -> set[str]:
        return {kind for kind, *_ in self.answered}

    def _answer(self, messages: list[dict[str, str]]) -> tuple[list[tuple[str, ...]], str]:
        system, user = messages[0]["content"], messages[-1]["content"]
        if (preference := preference_read(messages)) is not None:
            said = {"liked": ["beans"], "avoided": [], "firmness": "mild", "scope": ""}
            expansion = {"questions": ["What suits me?"], "follows": [f"more of {preference}"], "breaks": []}
            return [("read", preference)], json.dumps(said | expansion)
        if "part of a conversation" in system:
            one = {"kind": "add_preference", "text": "I am a vegetarian.", "old": "", "quote": CHAT[0][1], "turn": 1}
            return [("propose", user)], json.dumps({"proposals": [one | {"ends": ""}]})
        if "compare a new statement" in system:
            return [("compare", user)], json.dumps({"decision": "update", "number": 1})
        asked = read_prompt(messages)
        pairs = [
            ("judge", chunk, asked.preferences[number - 1])
            for chunk, under in zip(asked.chunks, asked.under, strict=True)
            for number in under
        ]
        return pairs, answer_to(asked, lambda chunk, preference: self.stance)


def plain_message(message: Any) -> dict[str, str]:
    """A message of ours, of a framework or of a protocol, as a protocol has it."""
    if isinstance(message, Mapping):
        return {"role": message["role"], "content": message["content"]}
    role = getattr(message, "role", None) or {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    return {"role": str(getattr(role, "value", role)), "content": str(message.content)}
