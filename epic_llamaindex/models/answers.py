"""Readers of a LlamaIndex LLM's answer: text, log-probabilities, token counts, and whether it was cut off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, TextBlock

from epic_memory.errors import LMUnavailableError
from epic_memory.lm import Completion, Token
from epic_memory.lm.base import is_cut, tokens_of
from epic_memory.lm.http import count

_ENDS = ("finish_reason", "done_reason", "stop_reason")
_PROMPT = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_ANSWER = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")


def completion_of(response: ChatResponse) -> Completion:
    """Return the completion in a response, without its thinking blocks."""
    if _of(response.raw, "done") is False:  # Ollama's
        raise LMUnavailableError("The server broke off in the middle of an answer.")
    text = "".join(block.text for block in response.message.blocks if isinstance(block, TextBlock))
    choice = _choice(response.raw)
    used = [_of(response.raw, "usage"), _of(response.raw, "usage_metadata"), response.raw, response.additional_kwargs]
    return Completion(
        text=text,
        tokens=_tokens(response, text),
        prompt_tokens=_counted(used, _PROMPT),
        completion_tokens=_counted(used, _ANSWER),
        cut=is_cut([_of(place, end) for place in (response.raw, choice) for end in _ENDS]),
    )


def has_thought(response: ChatResponse) -> bool:
    """Tell whether an answer says that the model has spent tokens on thinking."""
    details = _of(_of(response.raw, "usage"), "completion_tokens_details")
    return bool(
        any(getattr(block, "block_type", None) == "thinking" for block in response.message.blocks)
        or _of(details, "reasoning_tokens")
    )


def _of(holder: Any, name: str) -> Any:
    """Return a field of a raw answer, which is a mapping or an object; None if it has no such field."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _choice(raw: Any) -> Any:
    """Return the first of a server's alternative answers, or None."""
    choices = _of(raw, "choices") or _of(raw, "candidates")
    return choices[0] if isinstance(choices, (list, tuple)) else None


def _counted(used: list[Any], names: tuple[str, ...]) -> int:
    counts = (count(_of(place, name)) for place in used for name in names)
    return next((number for number in counts if number), 0)


def _tokens(response: ChatResponse, text: str) -> tuple[Token, ...] | None:
    """Return the tokens of an answer with their log-probabilities, or None.

    The server's list is preferred: it has the tokens that were chosen, the framework's the likeliest at each place.
    """
    for given in (_of(response.raw, "logprobs"), _of(_choice(response.raw), "logprobs")):
        tokens = tokens_of(given)
        if tokens is not None:
            return tokens
    likeliest = tokens_of([place[0] for place in response.logprobs or () if place])
    return likeliest if likeliest and "".join(token.text for token in likeliest) == text else None
