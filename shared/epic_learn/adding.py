"""Conversations offered to a memory, in windows of a few turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epic_learn.conversations import conversation_items, read_conversation
from epic_learn.credentials import without_credentials
from epic_learn.windows import ConversationChunker
from epic_memory.memory import EpicMemory, checked_memory
from epic_memory.runtime.effects import in_thread
from epic_memory.types import BuildReport


def add_conversation(
    memory: EpicMemory,
    messages: Any,
    *,
    chunker: ConversationChunker | None = None,
    metadata: Mapping[str, Any] | None = None,
    light: bool = True,
) -> BuildReport:
    """Offer a conversation in windows of a few turns, which know their `turn`, `time`, `speaker` and `source`.

    These are metadata: the number and time of a window's first turn, and who speaks if it is one. They rank what a
    question finds that names a speaker or a month, or that a turn answers.

    Args:
        memory: The memory.
        messages: In their order: mappings with `role` and `content` as OpenAI and Anthropic have them, message
            objects of LangChain or LlamaIndex, a ChatGPT or mem0 export, or a text with "Name: words" lines. The
            report's `unusable` counts what could not be used, such as tool calls and images, and sentences with a
            password, which are left out.
        chunker: Cuts the windows.
        metadata: Of every window, such as a session's id; `kind` and `window` are ours. The same words with
            other metadata are another item.
        light: Whether what is not kept may stay in the light tier.

    Raises:
        InvalidInputError: for what holds no messages, or metadata that cannot be; and as `EpicMemory.add`.
    """
    conversation = without_credentials(read_conversation(messages))
    report = checked_memory(memory).add(conversation_items(conversation, chunker, metadata), light=light)
    report.unusable = dict(+conversation.unusable)
    return report


async def aadd_conversation(
    memory: EpicMemory,
    messages: Any,
    *,
    chunker: ConversationChunker | None = None,
    metadata: Mapping[str, Any] | None = None,
    light: bool = True,
) -> BuildReport:
    """As `add_conversation`, without blocking the event loop."""
    conversation = without_credentials(await in_thread(read_conversation, messages))
    report = await checked_memory(memory).aadd(conversation_items(conversation, chunker, metadata), light=light)
    report.unusable = dict(+conversation.unusable)
    return report
