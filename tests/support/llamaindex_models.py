"""Models of LlamaIndex whose answers are known, and which remember what they were given; and what its handlers hear."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span import SimpleSpan
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.llm import LLM
from pydantic import Field, PrivateAttr

from epic_memory.encoders import default_encoder


class ScriptedLLM(LLM):
    """Answers by a function of the messages, or in turn by a list; it does not stream.

    An answer is a text, a ChatResponse, or an exception, which is raised. A prompt is one message of the user.

    Attributes:
        seen: The messages of each call; shared by the model's copies.
        threads: The threads it was called in synchronously.
    """

    answers: Any
    model: str = "scripted"
    seen: list[list[ChatMessage]] = Field(default_factory=list, exclude=True)
    threads: set[int] = Field(default_factory=set, exclude=True)

    @classmethod
    def class_name(cls) -> str:
        return "ScriptedLLM"

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=self.model, is_chat_model=True)

    @property
    def prompts(self) -> list[str]:
        """The whole text of each call."""
        return ["\n".join(message.content or "" for message in messages) for messages in self.seen]

    def respond(self, messages: Sequence[ChatMessage], settings: dict[str, Any]) -> ChatResponse:
        """The next answer; subclasses may look at the settings of the call."""
        self.seen.append([message.model_copy(deep=True) for message in messages])
        answers = self.answers
        answer = answers(list(messages)) if callable(answers) else answers[(len(self.seen) - 1) % len(answers)]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ChatResponse) else ChatResponse(message=_said(answer))

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        self.threads.add(threading.get_ident())
        return self.respond(messages, kwargs)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        await asyncio.sleep(0)
        return self.respond(messages, kwargs)

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        raise NotImplementedError

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        raise NotImplementedError

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self.threads.add(threading.get_ident())
        return CompletionResponse(text=self.respond([ChatMessage(prompt)], kwargs).message.content or "")

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        await asyncio.sleep(0)
        return CompletionResponse(text=self.respond([ChatMessage(prompt)], kwargs).message.content or "")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        raise NotImplementedError

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        raise NotImplementedError


def _said(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", content=text)


class SyncEmbedding(BaseEmbedding):
    """The embedded encoder in a dimension of its own, with the framework's synchronous fall-back for async calls.

    Cosines are roughly those of the embedded encoder. `shift` moves queries away from what is to be found.

    Attributes:
        error: Raised by every call, once it is set.
        documents, queries: The texts embedded as either.
        threads: The threads it was called in synchronously.
    """

    model_name: str = "words"
    dimension: int = 96
    shift: float = 0.0
    _error: Exception | None = PrivateAttr(default=None)
    _documents: list[str] = PrivateAttr(default_factory=list)
    _queries: list[str] = PrivateAttr(default_factory=list)
    _threads: set[int] = PrivateAttr(default_factory=set)

    @classmethod
    def class_name(cls) -> str:
        return cls.__name__

    @property
    def error(self) -> Exception | None:
        return self._error

    def fail_with(self, error: Exception | None) -> None:
        """Raise this from now on; None ends it."""
        self._error = error

    @property
    def documents(self) -> list[str]:
        return self._documents

    @property
    def queries(self) -> list[str]:
        return self._queries

    @property
    def threads(self) -> set[int]:
        return self._threads

    @cached_property
    def _projection(self) -> Any:
        size = max(self.dimension, default_encoder().dimension)
        return np.linalg.qr(np.random.default_rng(7).normal(size=(size, size)))[0][: default_encoder().dimension]

    def vectors(self, texts: Sequence[str], shift: float = 0.0) -> list[Embedding]:
        """The embeddings of texts, without a call of the model."""
        if self._error is not None:
            raise self._error
        moved = default_encoder().encode(texts) @ self._projection[:, : self.dimension] + shift
        return [[float(value) for value in row] for row in moved]

    def _get_text_embedding(self, text: str) -> Embedding:
        self._threads.add(threading.get_ident())
        self._documents.append(text)
        return self.vectors([text])[0]

    def _get_query_embedding(self, query: str) -> Embedding:
        self._threads.add(threading.get_ident())
        self._queries.append(query)
        return self.vectors([query], self.shift)[0]

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return self._get_query_embedding(query)


class ScriptedEmbedding(SyncEmbedding):
    """As `SyncEmbedding`, in batches, and really asynchronous."""

    model_name: str = "words"

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        self._threads.add(threading.get_ident())
        self._documents.extend(texts)
        return self.vectors(texts)

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        await asyncio.sleep(0)
        self._documents.extend(texts)
        return self.vectors(texts)

    async def _aget_query_embedding(self, query: str) -> Embedding:
        await asyncio.sleep(0)
        self._queries.append(query)
        return self.vectors([query], self.shift)[0]


class _Events(BaseEventHandler):
    """Remembers events."""

    heard: list[Any] = Field(default_factory=list)

    def handle(self, event: Any, **kwargs: Any) -> None:
        self.heard.append(event)


@contextmanager
def heard() -> Iterator[tuple[list[Any], list[SimpleSpan]]]:
    """The events that handlers are told of meanwhile, and the spans that end."""
    root, events, spans = get_dispatcher(), _Events(), SimpleSpanHandler()
    root.add_event_handler(events)
    root.add_span_handler(spans)
    try:
        yield events.heard, spans.completed_spans
    finally:
        root.event_handlers.remove(events)
        root.span_handlers.remove(spans)
