"""What a LlamaIndex LLM answered: its text, the log-probabilities, what it cost and whether it is all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, TextBlock

from epic_core.errors import LMUnavailableError
from epic_core.lm import Completion, Token
from epic_core.lm.adapted import is_cut, still_thinking, tokens_of
from epic_core.lm.http import count

_ENDS = ("finish_reason", "done_reason", "stop_reason")
_PROMPT = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_ANSWER = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")


def read(response: ChatResponse) -> Completion:
    """The completion in a response; its thinking blocks are left out.

    Raises:
        LMUnavailableError: if the server did not say that the answer is complete.
    """
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


def only_thought(response: ChatResponse, completion: Completion) -> bool:
    """Whether an answer was cut off because the model had been thinking for so long."""
    if not completion.cut or not completion.text:
        return completion.cut
    details = _of(_of(response.raw, "usage"), "completion_tokens_details")
    return bool(
        any(getattr(block, "block_type", None) == "thinking" for block in response.message.blocks)
        or _of(details, "reasoning_tokens")
        or still_thinking(completion.text)
    )


def _of(holder: Any, name: str) -> Any:
    """A value of a raw answer, which is a mapping or an object."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _choice(raw: Any) -> Any:
    """The first of the answers that a server may give."""
    choices = _of(raw, "choices") or _of(raw, "candidates")
    return choices[0] if isinstance(choices, (list, tuple)) else None


def _counted(used: list[Any], names: tuple[str, ...]) -> int:
    counts = (count(_of(place, name)) for place in used for name in names)
    return next((number for number in counts if number), 0)


def _tokens(response: ChatResponse, text: str) -> tuple[Token, ...] | None:
    """The tokens of an answer with their log-probabilities.

    The framework's own list has the likeliest tokens at each place, the server's the one that was taken.
    """
    for given in (_of(response.raw, "logprobs"), _of(_choice(response.raw), "logprobs")):
        tokens = tokens_of(given)
        if tokens is not None:
            return tokens
    likeliest = tokens_of([place[0] for place in response.logprobs or () if place])
    return likeliest if likeliest and "".join(token.text for token in likeliest) == text else None
