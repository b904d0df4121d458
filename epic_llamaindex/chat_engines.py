"""Chat engines of LlamaIndex that answer also where the memory holds nothing on a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.base.response.schema import AsyncStreamingResponse, Response, StreamingResponse
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.llms import LLM
from llama_index.core.prompts import ChatPromptTemplate
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.schema import NodeWithScore, QueryBundle
from typing_extensions import override

from epic_memory.errors import InvalidInputError


class _Answering(CompactAndRefine):
    """Synthesizer that lets the model answer the conversation alone if there are no nodes.

    LlamaIndex's own returns the text "Empty Response" then, without asking the model.
    """

    def __init__(self, made: CompactAndRefine, conversation: Sequence[ChatMessage]) -> None:
        vars(self).update(vars(made))
        self._conversation = conversation

    def _prompt(self, query: str | QueryBundle) -> ChatPromptTemplate:
        asked = query.query_str if isinstance(query, QueryBundle) else query
        return ChatPromptTemplate([*self._conversation, ChatMessage(asked, role=MessageRole.USER)])

    @override
    def synthesize(self, query: str | QueryBundle, nodes: list[NodeWithScore], *args: Any, **kwargs: Any) -> Any:
        if nodes:
            return super().synthesize(query, nodes, *args, **kwargs)
        if self._streaming:
            return StreamingResponse(self._llm.stream(self._prompt(query)))
        return Response(self._llm.predict(self._prompt(query)))

    @override
    async def asynthesize(self, query: str | QueryBundle, nodes: list[NodeWithScore], *args: Any, **kwargs: Any) -> Any:
        if nodes:
            return await super().asynthesize(query, nodes, *args, **kwargs)
        if self._streaming:
            return AsyncStreamingResponse(await self._llm.astream(self._prompt(query)))
        return Response(await self._llm.apredict(self._prompt(query)))


class _Context(ContextChatEngine):
    @override
    def _get_response_synthesizer(self, chat_history: list[ChatMessage], streaming: bool = False) -> CompactAndRefine:
        made = super()._get_response_synthesizer(chat_history, streaming)
        return _Answering(made, [*self._prefix_messages, *chat_history])


class _CondensePlusContext(CondensePlusContextChatEngine):
    @override
    def _get_response_synthesizer(self, chat_history: list[ChatMessage], streaming: bool = False) -> CompactAndRefine:
        made = super()._get_response_synthesizer(chat_history, streaming)
        told = [ChatMessage(self._system_prompt, role=self._llm.metadata.system_role)] if self._system_prompt else []
        return _Answering(made, [*told, *chat_history])


_ENGINES: dict[str, type[_Context | _CondensePlusContext]] = {
    "context": _Context,
    "condense_plus_context": _CondensePlusContext,
}


def chat_engine(retriever: BaseRetriever, llm: LLM, chat_mode: str, options: dict[str, Any]) -> BaseChatEngine:
    """Return a chat engine over a retriever.

    Raises:
        InvalidInputError: for another mode, or anything but a model of LlamaIndex.
    """
    mode = str(getattr(chat_mode, "value", chat_mode))
    if mode not in _ENGINES:
        raise InvalidInputError(f"chat_mode must be {' or '.join(map(repr, _ENGINES))}, not {mode!r}.")
    if not isinstance(llm, LLM):
        raise InvalidInputError(f"llm must be an LLM of LlamaIndex, not {type(llm).__name__}: Ollama(model=...).")
    return _ENGINES[mode].from_defaults(retriever=retriever, llm=llm, **options)
