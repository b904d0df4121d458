"""Chat models of both frameworks that remember the settings of each call, and whose answers can be limited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from pydantic import Field, PrivateAttr

from llamaindex_models import ScriptedLLM

KEEP = '{"decision": "Keep"}'


class Call:
    """Arguments that a model was called with."""

    def __init__(self, messages: list[BaseMessage], settings: dict[str, Any], limit: int | None) -> None:
        self.messages = messages
        self.settings = settings
        self.limit = limit

    @property
    def schema(self) -> dict[str, Any] | None:
        """The schema it was held to, by its format or as a function."""
        if "format" in self.settings:
            return self.settings["format"]  # type: ignore[no-any-return]
        return self.settings["tools"][0]["function"] if "tools" in self.settings else None


class Chat(BaseChatModel):
    """Answers with a text or a message, or what a function makes of a call; raises what is an exception.

    It cannot be held to a schema.
    """

    answer: Any = KEEP
    num_ctx: int | None = None
    _calls: list[Call] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    _threads: set[int] = PrivateAttr(default_factory=set)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def seen(self) -> list[list[BaseMessage]]:
        """The messages of each call."""
        return [call.messages for call in self._calls]

    @property
    def limits(self) -> list[int | None]:
        """The limit of each call."""
        return [call.limit for call in self._calls]

    @property
    def threads(self) -> set[int]:
        """The threads it was called in synchronously."""
        return self._threads

    def _limit(self) -> int | None:
        return None

    def _said(self, messages: list[BaseMessage], settings: dict[str, Any]) -> AIMessage:
        call = Call(messages, settings, self._limit())
        with self._lock:
            self._calls.append(call)
        said = self.answer(call) if callable(self.answer) else self.answer
        if isinstance(said, Exception):
            raise said
        return self._message(AIMessage(said) if isinstance(said, str) else said.model_copy(deep=True), settings)

    def _message(self, message: AIMessage, settings: dict[str, Any]) -> AIMessage:
        return message

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **settings: Any) -> Any:
        self._threads.add(threading.get_ident())
        message = self._said(messages, settings)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **settings: Any
    ) -> Any:
        await asyncio.sleep(0)
        message = self._said(messages, settings)
        return ChatResult(generations=[ChatGeneration(message=message)])


class LimitedChat(Chat):
    """Takes a limit of its answers."""

    max_tokens: int | None = None

    def _limit(self) -> int | None:
        return self.max_tokens


class Settings(ScriptedLLM):
    """Remembers the settings of its calls."""

    calls: list[dict[str, Any]] = Field(default_factory=list, exclude=True)

    def settings(self) -> dict[str, Any]:
        """Return the settings that matter to a call."""
        return {}

    @property
    def limits(self) -> list[int | None]:
        """The limit of each call."""
        return [call.get("max_tokens") for call in self.calls]

    def respond(self, messages: Sequence[ChatMessage], settings: dict[str, Any]) -> ChatResponse:
        given = {**self.settings(), **settings}
        self.calls.append(given)
        return super().respond(messages, settings)


class Limited(Settings):
    """Its answers can be limited."""

    max_tokens: int | None = None

    def settings(self) -> dict[str, Any]:
        return {"max_tokens": self.max_tokens}
