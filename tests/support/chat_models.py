"""Models of LangChain whose answers are known, and which remember what they were given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from helpers import HashEncoder


class ScriptedChat(BaseChatModel):
    """Answers by a function of the messages, or in turn by a list; streams word by word; takes any tools."""

    answers: Callable[[list[BaseMessage]], str | AIMessage] | list[str | AIMessage]
    seen: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def systems(self) -> list[str]:
        """The system text of each call, "" where there was none."""
        return ["".join(m.text for m in messages if m.type == "system") for messages in self.seen]

    @property
    def told(self) -> list[str]:
        """The text of each call without the model's own messages and the tools'."""
        return ["\n\n".join(m.text for m in messages if m.type in ("system", "human")) for messages in self.seen]

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        self.seen.append([message.model_copy(deep=True) for message in messages])
        answers = self.answers
        answer = answers[(len(self.seen) - 1) % len(answers)] if isinstance(answers, list) else answers(messages)
        return AIMessage(answer) if isinstance(answer, str) else answer.model_copy(deep=True)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        await asyncio.sleep(0)
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        answer = self._answer(messages)
        if answer.tool_calls:
            yield ChatGenerationChunk(message=AIMessageChunk(content=answer.content, tool_calls=answer.tool_calls))
            return
        for number, word in enumerate(answer.text.split(" ")):
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"{' ' if number else ''}{word}"))


def called(name: str, said: str = "", /, **arguments: Any) -> AIMessage:
    """The answer of a model that calls a tool."""
    return AIMessage(said, tool_calls=[{"name": name, "args": arguments, "id": f"call-{name}"}])


class Words(Embeddings):
    """One axis for each word, as long as one likes; queries may be embedded otherwise.

    Attributes:
        documents, queries: The texts that were embedded as one or the other.
        sync_calls: How many calls were synchronous.
    """

    def __init__(self, *, model: str = "words", length: float = 7.0, shift: float = 0.0, dimension: int = 64) -> None:
        self.model = model
        self.length = length
        self.shift = shift
        self.documents: list[str] = []
        self.queries: list[str] = []
        self.sync_calls = 0
        self._words = HashEncoder(dimension)

    def _document(self, text: str) -> list[float]:
        self.documents.append(text)
        return (self.length * self._words.vector(text)).tolist()

    def _query(self, text: str) -> list[float]:
        self.queries.append(text)
        return (self.length * (self._words.vector(text) + self.shift)).tolist()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.sync_calls += 1
        return [self._document(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.sync_calls += 1
        return self._query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return [self._document(text) for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        await asyncio.sleep(0)
        return self._query(text)
