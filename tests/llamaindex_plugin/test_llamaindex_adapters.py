"""LlamaIndex's LLMs as language models: what they are asked, what they answer, what goes wrong, who hears."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
    LogProb,
    TextBlock,
    ThinkingBlock,
)
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMChatStartEvent
from llama_index.core.llms import CustomLLM, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from pydantic import BaseModel, Field, PrivateAttr

from epic_llamaindex.models import EpicEmbedding, LlamaIndexLM, lm_of, verifier_of
from epic_memory.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError
from epic_memory.lm import Completion, Message, Token
from epic_memory.verification import EmbeddedVerifier, LMVerifier
from helpers import HashEncoder, KeepAll
from llamaindex_models import ScriptedEmbedding, ScriptedLLM, heard
from scripted import ASKED, EXPECTED, Add, Complete, Own, memory_with, nothing_lost, pairs_of, patient, script

SCHEMA = {"type": "object", "properties": {"decision": {"type": "string"}}, "required": ["decision"]}
KEEP = '{"decision": "Keep"}'


class Settings(ScriptedLLM):
    """Remembers the settings of its calls; `refuses` says which it does not take, and how it says so."""

    refuses: Any = None
    calls: list[dict[str, Any]] = Field(default_factory=list, exclude=True)

    def settings(self) -> dict[str, Any]:
        """Return the settings that matter to a call."""
        return {}

    def respond(self, messages: Sequence[ChatMessage], settings: dict[str, Any]) -> ChatResponse:
        given = {**self.settings(), **settings}
        self.calls.append(given)
        error = self.refuses(given) if self.refuses else None
        if error is not None:
            raise error
        return super().respond(messages, settings)


class Limited(Settings):
    """Its answers can be limited."""

    max_tokens: int | None = None

    def settings(self) -> dict[str, Any]:
        return {"max_tokens": self.max_tokens}


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


def scripted(messages: list[ChatMessage]) -> str:
    """Answers prompts as the script has it."""
    return script()([{"role": message.role.value, "content": message.content} for message in messages])


def answering(answer: Any) -> LlamaIndexLM:
    return LlamaIndexLM(ScriptedLLM(answers=[answer]))


def response(text: str = KEEP, **settings: Any) -> ChatResponse:
    return ChatResponse(message=ChatMessage(role="assistant", content=text), **settings)


class StatusError(Exception):
    """An error of an HTTP client."""

    def __init__(self, status_code: int, said: str = "no") -> None:
        super().__init__(said)
        self.status_code = status_code


# a memory


@pytest.mark.parametrize(
    ("kind", "batch_size", "concurrency"), [(ScriptedLLM, 1, 1), (Limited, 2, 4), (OpenAILike, 8, 4)]
)
async def test_any_llm_verifies(kind: type[ScriptedLLM], batch_size: int, concurrency: int, add: Add) -> None:
    lm = LlamaIndexLM(kind(answers=scripted), concurrency=concurrency)
    memory = memory_with(patient(lm, batch_size=batch_size))
    report = await add(memory)
    assert pairs_of(memory) == EXPECTED
    nothing_lost(memory, report, waiting=0)


async def test_async_completion_makes_no_synchronous_call() -> None:
    llm = OpenAI(answers=[KEEP])
    await LlamaIndexLM(llm).acomplete(ASKED, schema=SCHEMA, max_tokens=5)
    assert len(llm.seen) == 1 and not llm.threads


# what is asked


async def test_roles_and_texts_arrive(complete: Complete) -> None:
    llm = ScriptedLLM(answers=[KEEP])
    await complete(LlamaIndexLM(llm), [*ASKED, Message("user", "half a smile: \ud83d")])
    assert [(message.role.value, message.content) for message in llm.seen[0]] == [
        ("system", "You judge."),
        ("user", "Keep it?"),
        ("assistant", "?"),
        ("user", "Do."),
        ("user", "half a smile: ?"),
    ]


async def test_a_model_that_completes_prompts_is_called_in_a_thread(complete: Complete) -> None:
    llm = Completing()
    assert (await complete(LlamaIndexLM(llm), schema=SCHEMA, max_tokens=9)).text == KEEP
    assert all(message.content in llm.prompts[0] for message in ASKED)
    llm.threads.clear()
    await LlamaIndexLM(llm).acomplete(ASKED)
    assert llm.threads and threading.get_ident() not in llm.threads


async def test_the_mock_of_the_framework_answers_with_the_prompt(complete: Complete) -> None:
    assert "Keep it?" in (await complete(LlamaIndexLM(MockLLM()))).text


async def test_a_schema_is_sent_where_it_is_known_how(complete: Complete) -> None:
    llm = OpenAILike(answers=[KEEP])
    await complete(LlamaIndexLM(llm), schema=SCHEMA)
    form = llm.calls[0]["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"] == {"name": "answer", "schema": SCHEMA, "strict": True}
    for other, options in ((Settings, {}), (Limited, {}), (OpenAI, {"structured": False})):
        llm = other(answers=[KEEP])  # type: ignore[assignment]
        await complete(LlamaIndexLM(llm, **options), schema=SCHEMA)
        assert "response_format" not in llm.calls[0]


async def test_an_answer_is_limited_on_a_copy(complete: Complete) -> None:
    llm = Limited(answers=[KEEP])
    lm = LlamaIndexLM(llm)
    for limit in (50, 70, 50, None):
        await complete(lm, max_tokens=limit)
    assert [call["max_tokens"] for call in llm.calls] == [50, 70, 50, None]
    assert llm.max_tokens is None and lm.llm is llm


async def test_the_models_own_lower_limit_stays(complete: Complete) -> None:
    llm = Limited(answers=[KEEP], max_tokens=40)
    for limit in (50, 30):
        await complete(LlamaIndexLM(llm), max_tokens=limit)
    assert [call["max_tokens"] for call in llm.calls] == [40, 30]


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


# what is refused


async def test_a_limit_that_cuts_off_thinking_is_left_out(complete: Complete) -> None:
    def answer(messages: list[ChatMessage]) -> ChatResponse:
        limited = llm.calls[-1]["max_tokens"] is not None
        return response("<think>I wonder", raw={"finish_reason": "length"}) if limited else response()

    llm = Limited(answers=answer)
    lm = LlamaIndexLM(llm)
    for _ in range(2):
        assert (await complete(lm, max_tokens=50)).text == KEEP
    assert [call["max_tokens"] for call in llm.calls] == [50, None, None]


# what is answered


async def test_thinking_is_no_answer(complete: Complete) -> None:
    blocks = [ThinkingBlock(content="Discard?"), TextBlock(text="Ke"), TextBlock(text="ep")]
    said = ChatResponse(message=ChatMessage(role="assistant", blocks=blocks))
    assert await complete(answering(said)) == Completion(text="Keep")


COUNTS = {
    "openai": {"raw": SimpleNamespace(usage=SimpleNamespace(prompt_tokens=7, completion_tokens=3))},
    "ollama": {"raw": {"prompt_eval_count": 7, "eval_count": 3, "done": True}},
    "anthropic": {"raw": {"usage": SimpleNamespace(input_tokens=7, output_tokens=3)}},
    "gemini": {"raw": {"usage_metadata": {"prompt_token_count": 7, "candidates_token_count": 3}}},
    "framework": {"additional_kwargs": {"prompt_tokens": 7, "completion_tokens": 3}},
}


@pytest.mark.parametrize("given", COUNTS.values(), ids=COUNTS)
async def test_tokens_are_counted(given: dict[str, Any], complete: Complete) -> None:
    completion = await complete(answering(response(**given)))
    assert (completion.prompt_tokens, completion.completion_tokens) == (7, 3)


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": "many"}, {"prompt_tokens": -1}, 7], ids=repr)
async def test_what_is_no_count_counts_nothing(usage: Any, complete: Complete) -> None:
    completion = await complete(answering(response(raw={"usage": usage})))
    assert (completion.prompt_tokens, completion.completion_tokens) == (0, 0)


ENDS = {
    "openai": SimpleNamespace(choices=[SimpleNamespace(finish_reason="length")]),
    "ollama": {"done_reason": "length", "done": True},
    "anthropic": {"stop_reason": "max_tokens"},
    "gemini": {"candidates": [{"finish_reason": SimpleNamespace(name="MAX_TOKENS")}]},
}


@pytest.mark.parametrize("raw", ENDS.values(), ids=ENDS)
async def test_an_answer_that_was_cut_says_so(raw: Any, complete: Complete) -> None:
    assert (await complete(answering(response("Half of", raw=raw)))).cut
    assert not (await complete(answering(response(raw={"finish_reason": "stop"})))).cut


GIVEN = [{"token": "Ke", "logprob": -0.5}, {"token": "ep", "logprob": -0.25}]
TOKENS = (Token("Ke", -0.5), Token("ep", -0.25))
LOGPROBS = {
    "openai": {
        "raw": SimpleNamespace(
            choices=[SimpleNamespace(logprobs=SimpleNamespace(content=[SimpleNamespace(**one) for one in GIVEN]))]
        )
    },
    "ollama": {"raw": {"logprobs": GIVEN}},
    "framework": {"logprobs": [[LogProb(**one), LogProb(token="x", logprob=-9.0)] for one in GIVEN]},  # type: ignore[arg-type]
}


@pytest.mark.parametrize("given", LOGPROBS.values(), ids=LOGPROBS)
async def test_probabilities_are_read(given: dict[str, Any], complete: Complete) -> None:
    assert (await complete(answering(response("Keep", **given)))).tokens == TOKENS


NO_LOGPROBS = {
    "none": {"logprobs": None},
    "empty": {"logprobs": [[], []]},
    "of another text": {"logprobs": [[LogProb(token="Dis", logprob=-0.1)]]},
    "not a number": {"raw": {"logprobs": [{"token": "Keep", "logprob": float("nan")}]}},
    "no probability": {"raw": {"logprobs": [{"token": "Keep"}]}},
}


@pytest.mark.parametrize("given", NO_LOGPROBS.values(), ids=NO_LOGPROBS)
async def test_without_probabilities_there_are_no_tokens(given: dict[str, Any], complete: Complete) -> None:
    assert (await complete(answering(response("Keep", **given)))).tokens is None


# what goes wrong


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (ConnectionError("refused"), LMUnavailableError, "No server answers"),
        (StatusError(401), LMSetupError, "key"),
        (StatusError(400), LMError, "refused"),
    ],
    ids=["no server", "key", "status 400"],
)
async def test_what_goes_wrong_is_explained(error: Exception, kind: Any, says: str, complete: Complete) -> None:
    with pytest.raises(kind, match=says) as raised:
        await complete(answering(error))
    assert "llamaindex:ScriptedLLM:scripted" in str(raised.value)
    assert raised.value.__cause__ is error


async def test_an_answer_that_breaks_off_is_none(complete: Complete) -> None:
    with pytest.raises(LMUnavailableError, match="broke off"):
        await complete(answering(response(raw={"done": False})))


# names, arguments


def test_the_name_is_that_of_class_and_model() -> None:
    assert LlamaIndexLM(ScriptedLLM(answers=[], model="tiny:1b")).name == "llamaindex:ScriptedLLM:tiny:1b"
    assert LlamaIndexLM(Completing()).name == "llamaindex:Completing"
    assert LlamaIndexLM(Completing(), name="mine").name == "mine"


def test_the_context_is_what_the_model_was_given() -> None:
    class Windowed(ScriptedLLM):
        context_window: int = 3900

    assert LlamaIndexLM(Windowed(answers=[])).context is None  # nobody's choice
    assert LlamaIndexLM(Windowed(answers=[], context_window=8192)).context == 8192
    assert LlamaIndexLM(Windowed(answers=[], context_window=8192), context=4096).context == 4096


class Answer(BaseModel):
    text: str


def test_a_structured_llm_is_an_error() -> None:
    structured = MockLLM().as_structured_llm(Answer)
    for make in (LlamaIndexLM, lm_of, lambda llm: verifier_of(llm, HashEncoder())):
        with pytest.raises(InvalidInputError, match="as_structured_llm"):
            make(structured)


@pytest.mark.parametrize(
    "arguments", [{"name": " "}, {"name": 3}, {"concurrency": 0}, {"context": 3}, {"context": "big"}], ids=str
)
def test_arguments_that_cannot_be_are_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        LlamaIndexLM(ScriptedLLM(answers=[]), **arguments)


def test_what_is_given_as_a_model_becomes_a_verifier() -> None:
    encoder, own, judge = HashEncoder(), Own(lambda messages: KEEP), KeepAll()
    llm = ScriptedLLM(answers=[])
    assert isinstance(verifier_of(None, encoder), EmbeddedVerifier)
    assert verifier_of(judge, encoder) is judge  # type: ignore[arg-type]
    assert lm_of(own) is own
    found = lm_of(llm)
    assert isinstance(found, LlamaIndexLM) and found.llm is llm
    for given in (llm, own):
        assert isinstance(verifier_of(given, encoder), LMVerifier)
    assert llm.seen == []


@pytest.mark.parametrize(
    "wrong",
    ["local", 3, ScriptedLLM, Own, ScriptedEmbedding(), EpicEmbedding()],
    ids=["text", "number", "class", "class of ours", "embedding", "embedding of ours"],
)
def test_what_is_no_model_is_an_error(wrong: Any) -> None:
    named = "There is no model 'local'" if wrong == "local" else r"Ollama\(model=...\)"
    with pytest.raises(InvalidInputError, match=named):
        verifier_of(wrong, HashEncoder())
    with pytest.raises(InvalidInputError, match="LlamaIndex LLM"):
        LlamaIndexLM(wrong)


def test_a_message_never_shows_a_model() -> None:
    with pytest.raises(InvalidInputError) as raised:
        LlamaIndexLM(EpicEmbedding())  # type: ignore[arg-type]
    assert "EpicEmbedding" in str(raised.value) and "model_name" not in str(raised.value)


# who hears of it


dispatcher = get_dispatcher(__name__)


@dispatcher.span
def adds(memory: Any) -> None:
    memory.add(["A vegan diet of beans.", "Old churches.", "Night trains."])


@dispatcher.span
async def aadds(memory: Any) -> None:
    await memory.aadd(["A vegan diet of beans.", "Old churches.", "Night trains."])


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
