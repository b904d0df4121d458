"""Readers of a LangChain model's answer: text, log-probabilities, token counts, and whether it was cut off."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from pydantic import BaseModel

from epic_memory.lm import Completion
from epic_memory.lm.base import is_cut, tokens_of
from epic_memory.lm.http import count

_THINKING = {"reasoning", "thinking", "reasoning_content", "redacted_thinking"}


def completion_of(answer: object) -> Completion:
    """Return the completion in a message, or in the output of a model that is held to a schema.

    The text is the message's own if that is a JSON object: only then do the log-probabilities belong to it. Otherwise
    it is the arguments of the function that was called; otherwise whatever text there is.
    """
    message, parsed = _parts(answer)
    own = str(message.text)
    text = own if _is_object(own) else _called(message) or own
    if not text.strip():
        text = _as_json(parsed) or text
    usage = _usage(message)
    return Completion(
        text=text,
        tokens=tokens_of(message.response_metadata.get("logprobs")) if text == own else None,
        prompt_tokens=count(usage.get("input_tokens")),
        completion_tokens=count(usage.get("output_tokens")),
        cut=_is_cut(message.response_metadata),
    )


def has_thought(answer: object) -> bool:
    """Tell whether an answer says that the model has spent tokens on thinking."""
    message, _ = _parts(answer)
    blocks = message.content if isinstance(message.content, list) else []
    return bool(
        message.additional_kwargs.get("reasoning_content")
        or (_usage(message).get("output_token_details") or {}).get("reasoning")
        or any(isinstance(block, Mapping) and block.get("type") in _THINKING for block in blocks)
    )


def cut_answer(error: Exception) -> AIMessage | None:
    """Return the cut-off answer that an exception carries (OpenAI's client raises one under a schema), else None."""
    if type(error).__name__ != "LengthFinishReasonError":
        return None
    answer: Any = getattr(error, "completion", None)
    counts = getattr(answer, "usage", None)
    used = [count(getattr(counts, name, None)) for name in ("prompt_tokens", "completion_tokens")]
    details = getattr(counts, "completion_tokens_details", None)
    choices = getattr(answer, "choices", None) or [None]
    return AIMessage(
        getattr(getattr(choices[0], "message", None), "content", None) or "",
        response_metadata={"finish_reason": "length"},
        usage_metadata=UsageMetadata(
            input_tokens=used[0],
            output_tokens=used[1],
            total_tokens=sum(used),
            output_token_details={"reasoning": count(getattr(details, "reasoning_tokens", None))},
        ),
    )


def _parts(answer: object) -> tuple[BaseMessage, object]:
    """Return the message, and the object that was parsed from it, if any."""
    if isinstance(answer, BaseMessage):
        return answer, None
    if isinstance(answer, Mapping) and isinstance(answer.get("raw"), BaseMessage):
        return answer["raw"], answer.get("parsed")
    # The model keeps to the schema in its own way and returns only the parsed object.
    return AIMessage(""), answer


def _usage(message: BaseMessage) -> Mapping[str, Any]:
    return getattr(message, "usage_metadata", None) or {}


def _is_cut(metadata: Mapping[str, Any]) -> bool:
    ends = [metadata.get(key) for key in ("finish_reason", "done_reason", "stop_reason", "stopReason")]
    incomplete = metadata.get("incomplete_details")
    ends.append(incomplete.get("reason") if isinstance(incomplete, Mapping) else None)
    return is_cut(ends)


def _called(message: BaseMessage) -> str:
    """Return the arguments of the functions that a message calls, as JSON; invalid calls give their raw text."""
    calls = [_as_json(call["args"]) for call in getattr(message, "tool_calls", ()) if call["args"]]
    broken = [call["args"] for call in getattr(message, "invalid_tool_calls", ()) if call["args"]]
    return "\n".join([*calls, *broken])


def _as_json(value: object) -> str:
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, (Mapping, list)) else ""


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
