"""Chunker of the paper for conversations: windows of some turns, which overlap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epic_memory.errors import InvalidInputError
from epic_memory.text.chunking import WordChunker, count_words


@dataclass(frozen=True, kw_only=True)
class ConversationChunker:
    """A chunker into windows over a conversation, one `role: content` line for each turn.

    A window holds at most `max_turns` turns and about `max_words` words; neighbours share up to `overlap` turns. A turn
    longer than `max_words` is cut at sentence ends into turns of the same role.

    Raises:
        InvalidInputError: for sizes that cannot make progress, or a message without role and content.
    """

    max_turns: int = 8
    max_words: int = 180
    overlap: int = 2

    def __post_init__(self) -> None:
        if self.max_turns < 1 or self.max_words < 1 or not 0 <= self.overlap < self.max_turns:
            raise InvalidInputError(
                "A conversation window needs max_turns >= 1, max_words >= 1 and overlap < max_turns."
            )

    def _turns(self, messages: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
        """Return the lines of the turns, each with the position of its message."""
        cutter = WordChunker(max_words=self.max_words)
        turns: list[tuple[str, int]] = []
        for position, message in enumerate(messages):
            role, content = _role_and_content(message, position + 1)
            turns.extend((f"{role}: {' '.join(piece.split())}", position) for piece in cutter.chunks(content))
        return turns

    def chunks(self, messages: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return the windows, in order; every turn is in at least one."""
        return [window for window, _ in self.windows(messages)]

    def windows(self, messages: Iterable[Mapping[str, Any]]) -> list[tuple[str, range]]:
        """Return the windows as `chunks` does, each with the positions of its messages, from 0."""
        turns = self._turns(messages)
        lengths = [count_words(turn) for turn, _ in turns]
        windows: list[tuple[str, range]] = []
        start = 0
        while start < len(turns):
            end, words = start, 0
            while end < len(turns) and end - start < self.max_turns:
                if end > start and words + lengths[end] > self.max_words:
                    break
                words += lengths[end]
                end += 1
            lines, positions = zip(*turns[start:end], strict=True)
            windows.append(("\n".join(lines), range(positions[0], positions[-1] + 1)))
            if end == len(turns):
                break
            start = self._next_start(lengths, start, end)
        return windows

    def _next_start(self, lengths: Sequence[int], start: int, end: int) -> int:
        following = max(end - self.overlap, start + 1)
        # An overlap that leaves no room for the next turn would repeat turns and add nothing.
        while following < end and sum(lengths[following : end + 1]) > self.max_words:
            following += 1
        return following


def _role_and_content(message: Mapping[str, Any], position: int) -> tuple[str, str]:
    if not isinstance(message, Mapping) or "role" not in message or "content" not in message:
        raise InvalidInputError(f"Message {position} needs a 'role' and a 'content'.")
    role, content = message["role"], message["content"]
    if not isinstance(role, str) or not isinstance(content, str):
        raise InvalidInputError(f"Role and content of message {position} must be strings.")
    # The role is put on one line, so that it cannot begin another turn.
    return " ".join(role.split()) or "user", content
