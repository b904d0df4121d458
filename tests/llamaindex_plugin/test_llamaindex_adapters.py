"""LlamaIndex's LLMs as language models: what they are asked, what they answer, what goes wrong, who hears."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.base.llms.types import (
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMChatStartEvent
from llama_index.core.llms import CustomLLM, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from pydantic import BaseModel, Field, PrivateAttr

from epic_llamaindex.models import LlamaIndexLM, lm_of, verifier_of
from epic_memory.errors import InvalidInputError
from helpers import HashEncoder
from limited_models import KEEP, Limited, Settings
from llamaindex_models import ScriptedLLM, heard
from scripted import ASKED, Complete, memory_with, patient

SCHEMA = {"type": "object", "properties": {"decision": {"type": "string"}}, "required": ["decision"]}


class OpenAI(Limited):
    """As the integration of OpenAI's protocol: settings of a call go into the request."""

    __module__ = "llama_index.llms.openai.base"


class OpenAILike(OpenAI):
    __module__ = "llama_index.llms.openai_like.base"


class Completing(CustomLLM):
    """Completes prompts, synchronously only."""

    prompts: list[str] = Field(default_factory=list)
    threads: set[int] = Field(default_factory=set)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=False)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        assert not kwargs
        self.threads.add(threading.get_ident())
        self.prompts.append(prompt)
        return CompletionResponse(text=KEEP)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        raise NotImplementedError


# what is asked


async def test_a_model_that_completes_prompts_is_called_in_a_thread(complete: Complete) -> None:
    llm = Completing()
    assert (await complete(LlamaIndexLM(llm), schema=SCHEMA, max_tokens=9)).text == KEEP
    assert all(message.content in llm.prompts[0] for message in ASKED)
    llm.threads.clear()
    await LlamaIndexLM(llm).acomplete(ASKED)
    assert llm.threads and threading.get_ident() not in llm.threads


async def test_a_schema_is_sent_where_it_is_known_how(complete: Complete) -> None:
    llm = OpenAILike(answers=[KEEP])
    await complete(LlamaIndexLM(llm), schema=SCHEMA)
    form = llm.calls[0]["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"] == {"name": "answer", "schema": SCHEMA, "strict": True}
    for other in (Settings, Limited):
        llm = other(answers=[KEEP])  # type: ignore[assignment]
        await complete(LlamaIndexLM(llm), schema=SCHEMA)
        assert "response_format" not in llm.calls[0]


async def test_copies_share_the_clients_of_the_model(complete: Complete) -> None:
    class Client(Limited):
        _client: Any = PrivateAttr(default=None)
        made: list[object] = Field(default_factory=list)

        def settings(self) -> dict[str, Any]:
            if self._client is None:
                self._client = object()
                self.made.append(self._client)
            return super().settings()

    given = Client(answers=[KEEP])
    given._client = object()
    lazy = Client(answers=[KEEP])
    for llm, expected in ((given, 0), (lazy, 1)):
        lm = LlamaIndexLM(llm)
        for limit in range(10, 15):
            await complete(lm, max_tokens=limit)
        assert len(llm.made) == expected


class Answer(BaseModel):
    text: str


def test_a_structured_llm_is_an_error() -> None:
    structured = MockLLM().as_structured_llm(Answer)
    for make in (LlamaIndexLM, lm_of, lambda llm: verifier_of(llm, HashEncoder())):
        with pytest.raises(InvalidInputError, match="as_structured_llm"):
            make(structured)


# who hears of it


dispatcher = get_dispatcher(__name__)


TEXTS = ["A vegan diet of beans.", "Old churches.", "Night trains."]


@dispatcher.span
def adds(memory: Any) -> None:
    memory.add(TEXTS)


@dispatcher.span
async def aadds(memory: Any) -> None:
    await memory.aadd(TEXTS)


@pytest.mark.parametrize(
    ("kind", "concurrency", "way"), [(ScriptedLLM, 1, "sync"), (ScriptedLLM, 3, "async"), (MockLLM, 3, "sync")]
)
async def test_calls_are_spans_below_the_callers(kind: Any, concurrency: int, way: str) -> None:
    llm = kind(answers=['{"answers": [{"chunk": 1, "decision": "Discard"}]}'] * 9) if kind is ScriptedLLM else kind()
    memory = memory_with(patient(LlamaIndexLM(llm, concurrency=concurrency), retries=0, batch_size=1))
    with heard() as (events, spans):
        await (aadds(memory) if way == "async" else asyncio.to_thread(adds, memory))

    done = {span.id_: span for span in spans}
    chats = [event for event in events if isinstance(event, LLMChatStartEvent)]
    ends = [event for event in events if isinstance(event, LLMChatEndEvent)]
    assert len(chats) == len(ends) >= 3
    for chat in chats:
        assert chat.span_id in done
        above = chat.span_id
        while done[above].parent_id is not None:
            above = done[above].parent_id  # type: ignore[assignment]
        assert above.startswith(("adds", "aadds"))
