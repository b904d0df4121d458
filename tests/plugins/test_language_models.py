"""Chat models of both frameworks as language models: what they are asked, what is read of an answer, and errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")
pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from langchain_core import exceptions
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LogProb, TextBlock, ThinkingBlock
from llama_index.core.llms import MockLLM

import epic_langchain.models as lc
import epic_llamaindex.models as li
from epic_memory.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError
from epic_memory.lm import Completion, LanguageModel, Message, Token
from epic_memory.verification import EmbeddedVerifier, LMVerifier
from helpers import HashEncoder, KeepAll
from limited_models import KEEP, Chat, Limited, LimitedChat
from llamaindex_models import ScriptedEmbedding, ScriptedLLM
from scripted import ASKED, EXPECTED, Add, Complete, Own, memory_with, nothing_lost, pairs_of, patient, script


@dataclass(frozen=True)
class Plugin:
    """One plugin's adapter, and models of its framework; those that are limited remember the limit of each call."""

    adapter: Callable[..., Any]
    plain: Callable[[Any], Any]
    limited: Callable[..., Any]
    answer: Callable[..., Any]
    name: str
    lm_of: Callable[[Any], Any]
    verifier_of: Callable[..., Any]
    wanted: str


def ai_message(text: str = KEEP, **metadata: Any) -> AIMessage:
    return AIMessage(text, response_metadata=metadata)


def chat_response(text: str = KEEP, **raw: Any) -> ChatResponse:
    return ChatResponse(message=ChatMessage(role="assistant", content=text), raw=raw)


PLUGINS = {
    "lc": Plugin(
        adapter=lc.LangChainLM,
        plain=lambda answer: Chat(answer=answer),
        limited=lambda answer, **options: LimitedChat(answer=answer, **options),
        answer=ai_message,
        name="langchain:Chat",
        lm_of=lc.lm_of,
        verifier_of=lc.verifier_of,
        wanted=r"chat model.*ChatOllama",
    ),
    "li": Plugin(
        adapter=li.LlamaIndexLM,
        plain=lambda answer: ScriptedLLM(answers=answer if callable(answer) else [answer]),
        limited=lambda answer, **options: Limited(answers=answer if callable(answer) else [answer], **options),
        answer=chat_response,
        name="llamaindex:ScriptedLLM:scripted",
        lm_of=li.lm_of,
        verifier_of=li.verifier_of,
        wanted=r"Ollama\(model=...\)",
    ),
}


@pytest.fixture(params=PLUGINS)
def plugin(request: pytest.FixtureRequest) -> Plugin:
    return PLUGINS[request.param]


def scripted(messages: Any) -> str:
    """Answers prompts as the script has it."""
    roles = {"human": "user", "ai": "assistant", "system": "system"}
    messages = getattr(messages, "messages", messages)
    read = [(one.role.value if isinstance(one, ChatMessage) else roles[one.type], one.content) for one in messages]
    return script()([{"role": role, "content": content} for role, content in read])


@pytest.mark.parametrize(("batch_size", "concurrency"), [(1, 1), (2, 4), (8, 4)])
async def test_any_chat_model_verifies(plugin: Plugin, batch_size: int, concurrency: int, add: Add) -> None:
    model = plugin.limited(scripted)
    memory = memory_with(patient(plugin.adapter(model, concurrency=concurrency), batch_size=batch_size))
    report = await add(memory)
    assert pairs_of(memory) == EXPECTED
    nothing_lost(memory, report, waiting=0)
    assert {limit is None for limit in model.limits} == {False}


async def test_roles_and_texts_arrive_and_nothing_blocks_the_event_loop(plugin: Plugin, complete: Complete) -> None:
    model = plugin.limited(KEEP)
    assert (await complete(plugin.adapter(model), [*ASKED, Message("user", "half a smile: \ud83d")])).text == KEEP
    seen = [(getattr(one, "type", None) or one.role.value, one.content) for one in model.seen[0]]
    assert [content for _, content in seen] == ["You judge.", "Keep it?", "?", "Do.", "half a smile: ?"]
    assert [role for role, _ in seen[:2]] in (["system", "human"], ["system", "user"])
    model.threads.clear()
    await plugin.adapter(model).acomplete(ASKED)
    assert not model.threads


# what is read of an answer

SAYS_KEEP = [{"token": "Keep", "logprob": -0.5}, {"token": "!", "logprob": -0.1}]
TOKENS = (Token("Keep", -0.5), Token("!", -0.1))
AS_OBJECTS = [SimpleNamespace(**one) for one in SAYS_KEEP]
CHOICES = SimpleNamespace(choices=[SimpleNamespace(logprobs=SimpleNamespace(content=AS_OBJECTS))])
LOGPROBS: list[tuple[str, Any, bool]] = [
    ("lc", {"logprobs": {"content": SAYS_KEEP}}, True),
    *((name, {"logprobs": SAYS_KEEP}, True) for name in PLUGINS),
    *((name, {"logprobs": AS_OBJECTS}, True) for name in PLUGINS),
    ("li", CHOICES, True),
    *(
        (name, {"logprobs": wrong}, False)
        for name in PLUGINS
        for wrong in (None, [], "none", [3], [{"token": "a"}], [{"token": "a", "logprob": float("nan")}])
    ),
    ("lc", {"logprobs": {"tokens": ["a"], "token_logprobs": [-0.1]}}, False),
]


@pytest.mark.parametrize(("name", "given", "read"), LOGPROBS, ids=lambda value: str(value)[:60])
async def test_log_probabilities_are_read(name: str, given: Any, read: bool, complete: Complete) -> None:
    plugin = PLUGINS[name]
    answer = plugin.answer("Keep!", **given) if isinstance(given, dict) else chat_response("Keep!")
    if given is CHOICES:
        answer.raw = given
    assert (await complete(plugin.adapter(plugin.plain(answer)))).tokens == (TOKENS if read else None)


@pytest.mark.parametrize(("text", "read"), [("Keep!", True), ("Discard", False)])
async def test_the_frameworks_likeliest_tokens_have_to_be_those_of_the_text(text: str, read: bool) -> None:
    answer = chat_response(text)
    answer.logprobs = [[LogProb(**one), LogProb(token="x", logprob=-9.0)] for one in SAYS_KEEP]
    completion = await li.LlamaIndexLM(ScriptedLLM(answers=[answer])).acomplete(ASKED)
    assert completion.tokens == (TOKENS if read else None)


COUNTS: list[tuple[str, Any, Any]] = [
    ("lc", {"usage_metadata": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}}, (7, 3)),
    ("lc", {}, (0, 0)),
    ("li", {"raw": SimpleNamespace(usage=SimpleNamespace(prompt_tokens=7, completion_tokens=3))}, (7, 3)),
    ("li", {"raw": {"prompt_eval_count": 7, "eval_count": 3, "done": True}}, (7, 3)),
    ("li", {"raw": {"usage": SimpleNamespace(input_tokens=7, output_tokens=3)}}, (7, 3)),
    ("li", {"raw": {"usage_metadata": {"prompt_token_count": 7, "candidates_token_count": 3}}}, (7, 3)),
    ("li", {"additional_kwargs": {"prompt_tokens": 7, "completion_tokens": 3}}, (7, 3)),
    *(
        ("li", {"raw": {"usage": wrong}}, (0, 0))
        for wrong in (None, {"prompt_tokens": "many"}, {"prompt_tokens": -1}, 7)
    ),
]


@pytest.mark.parametrize(("name", "given", "counts"), COUNTS, ids=lambda value: str(value)[:60])
async def test_tokens_are_counted(name: str, given: Any, counts: Any, complete: Complete) -> None:
    said = ChatMessage(role="assistant", content=KEEP)
    answer: Any = AIMessage(KEEP, **given) if name == "lc" else ChatResponse(message=said, **given)
    completion = await complete(PLUGINS[name].adapter(PLUGINS[name].plain(answer)))
    assert (completion.prompt_tokens, completion.completion_tokens) == counts


ENDS: list[tuple[str, Any, bool]] = [
    *((name, {"finish_reason": reason}, True) for name in PLUGINS for reason in ("length", "MAX_TOKENS")),
    *((name, {"done_reason": "length"}, True) for name in PLUGINS),
    *((name, {"stop_reason": "max_tokens"}, True) for name in PLUGINS),
    *((name, given, False) for name in PLUGINS for given in ({"finish_reason": "stop"}, {"stop_reason": None}, {})),
    ("lc", {"stopReason": "max_tokens"}, True),
    ("lc", {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, True),
    ("li", {"choices": [SimpleNamespace(finish_reason="length")]}, True),
    ("li", {"candidates": [{"finish_reason": SimpleNamespace(name="MAX_TOKENS")}]}, True),
]


@pytest.mark.parametrize(("name", "given", "cut"), ENDS, ids=lambda value: str(value)[:60])
def test_an_answer_that_was_cut_off_says_so(name: str, given: Any, cut: bool) -> None:
    answer = PLUGINS[name].answer("Kee", **given)
    assert PLUGINS[name].adapter(PLUGINS[name].plain(answer)).complete(ASKED).cut is cut


# the limit of an answer


async def test_an_answer_is_limited_on_a_copy_and_the_lower_limit_holds(plugin: Plugin, complete: Complete) -> None:
    model = plugin.limited(KEEP)
    for limit in (300, 600, 300, None):
        await complete(plugin.adapter(model), max_tokens=limit)
    assert model.limits == [300, 600, 300, None] and model.max_tokens is None
    for own, limit in ((100, 100), (300, 300), (500, 300)):
        model = plugin.limited(KEEP, max_tokens=own)
        await complete(plugin.adapter(model), max_tokens=300)
        assert model.limits == [limit]
    assert (await complete(plugin.adapter(plugin.plain(KEEP)), max_tokens=300)).text == KEEP


BLOCKS: Any = [{"type": "reasoning", "reasoning": "The chunk"}, {"type": "text", "text": "{"}]
USAGE: Any = {"input_tokens": 1, "output_tokens": 300, "total_tokens": 301, "output_token_details": {"reasoning": 299}}
THOUGHTS: list[tuple[str, Any]] = [
    *((name, text) for name in PLUGINS for text in ("", "<think>The chunk is about")),
    ("lc", AIMessage(BLOCKS)),
    ("lc", AIMessage("{", additional_kwargs={"reasoning_content": "The chunk"})),
    ("lc", AIMessage("{", usage_metadata=USAGE)),
]


@pytest.mark.parametrize(("name", "thought"), THOUGHTS, ids=lambda value: str(value)[:50])
async def test_a_limit_that_ends_in_the_thinking_is_left_out_from_then_on(
    name: str, thought: Any, complete: Complete
) -> None:
    plugin, ended = PLUGINS[name], {"finish_reason": "length"}
    cut = plugin.answer(thought, **ended) if isinstance(thought, str) else thought
    if cut is thought:
        cut.response_metadata = ended
    model = plugin.limited(lambda _: KEEP if model.limits[-1] is None else cut)
    adapter = plugin.adapter(model)
    for _ in range(2):
        assert (await complete(adapter, max_tokens=300)).text == KEEP
    assert model.limits == [300, None, None]


@pytest.mark.parametrize("text", ["{", "\n\n\n", "<think>Hm.</think> {"], ids=repr)
async def test_an_answer_that_does_not_end_keeps_its_limit(plugin: Plugin, text: str, complete: Complete) -> None:
    model = plugin.limited(plugin.answer(text, finish_reason="length"))
    completion = await complete(plugin.adapter(model), max_tokens=300)
    assert (completion.text, completion.cut, model.limits) == (text, True, [300])


# what goes wrong


def of_langchain(name: str) -> Any:
    """One of langchain-core's own errors, where this version has it."""
    return (getattr(exceptions, name, None) or type(name, (Exception,), {}))("It failed.")


# What clients of servers raise is tested with the base of both adapters.
@pytest.mark.parametrize(
    ("kind", "said", "error"),
    [
        (LMUnavailableError, ":", of_langchain("ModelRateLimitError")),
        (LMUnavailableError, "No server answers.*Start it", of_langchain("ModelConnectionError")),
        (LMUnavailableError, "in time", TimeoutError()),
        (LMUnavailableError, "in time", of_langchain("ModelTimeoutError")),
        (LMSetupError, "(key|name)", of_langchain("ModelAuthenticationError")),
        (LMError, "refused", of_langchain("ContextOverflowError")),
    ],
    ids=lambda value: repr(value)[:50],
)
async def test_an_error_of_the_model_says_what_can_be_done(
    plugin: Plugin, error: Exception, kind: type[Exception], said: str, complete: Complete
) -> None:
    with pytest.raises(kind, match=said) as raised:
        await complete(plugin.adapter(plugin.plain(error)))
    assert type(raised.value) is kind and raised.value.__cause__ is error and plugin.name in str(raised.value)
    if isinstance(raised.value, LMUnavailableError):
        assert raised.value.timed_out is (said == "in time") and raised.value.retry_after is None


async def test_an_answer_that_breaks_off_and_what_was_only_thought_are_none(complete: Complete) -> None:
    with pytest.raises(LMUnavailableError, match="broke off"):
        await complete(li.LlamaIndexLM(ScriptedLLM(answers=[chat_response(done=False)])))
    blocks = [ThinkingBlock(content="Discard?"), TextBlock(text="Ke"), TextBlock(text="ep")]
    said = ChatResponse(message=ChatMessage(role="assistant", blocks=blocks))
    assert await complete(li.LlamaIndexLM(ScriptedLLM(answers=[said]))) == Completion(text="Keep")


# what is given as a model


class Tiny(Chat):
    model_name: str = "tiny:1b"


class Windowed(ScriptedLLM):
    context_window: int = 3900


@pytest.mark.parametrize(
    ("name", "model", "called", "context"),
    [
        ("lc", Chat(), "langchain:Chat", None),
        ("lc", Tiny(num_ctx=4096), "langchain:Tiny:tiny:1b", 4096),
        ("li", ScriptedLLM(answers=[], model="tiny:1b"), "llamaindex:ScriptedLLM:tiny:1b", None),
        ("li", MockLLM(), "llamaindex:MockLLM", None),
        ("li", Windowed(answers=[]), "llamaindex:ScriptedLLM:scripted", None),  # nobody's choice
        ("li", Windowed(answers=[], context_window=8192), "llamaindex:ScriptedLLM:scripted", 8192),
    ],
    ids=lambda value: str(value)[:40],
)
def test_name_and_context_are_the_models_unless_given(name: str, model: Any, called: str, context: int | None) -> None:
    made = PLUGINS[name].adapter(model)
    assert (made.name, made.context, made.concurrency) == (called, context, 1) and isinstance(made, LanguageModel)
    made = PLUGINS[name].adapter(model, name="mine", context=2048)
    assert (made.name, made.context) == ("mine", 2048)
    wrong = [{"concurrency": 0}, {"concurrency": True}, {"context": 10}, {"context": "8k"}, {"name": " "}, {"name": 3}]
    for options in wrong:
        with pytest.raises(InvalidInputError):
            PLUGINS[name].adapter(model, **options)


def test_what_is_given_as_a_model_becomes_a_verifier(plugin: Plugin) -> None:
    encoder, own, model, verifier = HashEncoder(), Own(lambda messages: KEEP), plugin.plain(KEEP), KeepAll()
    embedded = plugin.verifier_of(None, encoder)
    assert isinstance(embedded, EmbeddedVerifier) and embedded.encoder is encoder
    assert plugin.verifier_of(verifier, encoder) is verifier and plugin.lm_of(own) is own
    made = plugin.lm_of(model)
    assert made.name == plugin.name and model in (getattr(made, "model", None), getattr(made, "llm", None))
    for given in (own, model):
        judging = plugin.verifier_of(given, encoder)
        assert isinstance(judging, LMVerifier) and judging.name.startswith(f"lm/{plugin.lm_of(given).name}/")


WRONG: list[tuple[str, Any]] = [
    *((name, wrong) for name in PLUGINS for wrong in ("gpt", 3, object(), Own)),
    *(("lc", wrong) for wrong in (Chat, Chat().bind(stop=["x"]), Chat().with_retry(), FakeListLLM(responses=["x"]))),
    ("lc", lc.EpicEmbeddings()),
    *(("li", wrong) for wrong in (ScriptedLLM, ScriptedEmbedding(), li.EpicEmbedding())),
]


@pytest.mark.parametrize(("name", "wrong"), WRONG, ids=lambda value: type(value).__name__)
def test_what_is_no_model_is_an_error_that_says_what_to_give(name: str, wrong: Any) -> None:
    plugin = PLUGINS[name]
    for make in (plugin.lm_of, lambda given: plugin.verifier_of(given, HashEncoder())):
        with pytest.raises(InvalidInputError, match="There is no model 'gpt'" if wrong == "gpt" else plugin.wanted):
            make(wrong)
    with pytest.raises(InvalidInputError, match=r"LangChain chat model|LlamaIndex LLM") as raised:
        plugin.adapter(wrong)
    assert "model_name" not in str(raised.value)  # nothing of what a model holds is shown
