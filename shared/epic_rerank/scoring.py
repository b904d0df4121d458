"""Scorers: how good a prompt is for a model, by the reference answer that should follow it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from epic_memory.errors import InvalidInputError, LMError, LMSetupError
from epic_memory.lm.base import LanguageModel, Message
from epic_memory.lm.http import sendable
from epic_memory.lm.openai_compatible import OpenAICompatibleLM

_LONGEST_ANSWER = 256  # tokens


@runtime_checkable
class Scorer(Protocol):
    """Protocol of what tells how good a prompt is: log p(reference | prompt), Eq. 4 of PURPLE, or a substitute.

    Only scores of one scorer and one reference can be compared.

    Failures are raised as `LMError`s, as by a `LanguageModel`. A scorer that got no log-probabilities raises
    `LMSetupError`: a score of 0 would be the best of all.

    Attributes:
        name: Identifies model and measure; scores are stored under it.
        concurrency: Optional: how many scores may be asked for at once. Default: 1.
    """

    name: str

    def score(self, messages: Sequence[Message], reference: str) -> float:
        """Return the score of a reference as the answer to messages."""
        ...


class VllmScorer:
    """Scorer that asks vLLM for the log-probabilities of a reference: `VllmScorer(lm_of("openai:qwen3", url=...))`.

    The reference is sent as the beginning of the model's own answer, and the probabilities of the prompt's tokens are
    asked for (`prompt_logprobs`, a field of vLLM). Other servers leave them out, and are refused: llama.cpp's and
    Ollama's report generated tokens only, and so does OpenAI.

    Args:
        lm: The server and the model.
    """

    def __init__(self, lm: OpenAICompatibleLM) -> None:
        if not isinstance(lm, OpenAICompatibleLM):
            raise InvalidInputError(f"lm must be an OpenAICompatibleLM, not {type(lm).__name__}.")
        self.name = f"logprob:{lm.name}"
        self.concurrency = lm.concurrency
        self._lm = lm

    def score(self, messages: Sequence[Message], reference: str) -> float:
        """Return log p(reference | messages), the sum of the natural log-probabilities of the reference's tokens.

        Raises:
            LMSetupError: if the server gives no log-probabilities of a prompt.
            LMError: if it fails, or its tokens do not spell the reference.
        """
        if not reference.strip():
            raise InvalidInputError("The reference to be scored is empty.")
        return _scored(self._lm.post("/chat/completions", _request(messages, reference)), reference)


def _request(messages: Sequence[Message], reference: str) -> dict[str, Any]:
    return {
        "messages": sendable([*messages, Message("assistant", reference)]),
        "max_tokens": 1,
        "temperature": 0,
        "prompt_logprobs": 0,
        # The prompt has to end with the reference: no end of turn behind it, and no beginning of an answer.
        "add_generation_prompt": False,
        "continue_final_message": True,
    }


def _scored(body: Any, reference: str) -> float:
    """Add up the log-probabilities of the last tokens of a prompt, those that spell the reference."""
    given = body.get("prompt_logprobs") if isinstance(body, Mapping) else None
    if not isinstance(given, Sequence) or isinstance(given, str) or not any(given):
        raise LMSetupError(
            "The server gave no log-probabilities of the prompt, so it cannot score a reference. Use vLLM (its field"
            " prompt_logprobs), or a MetricScorer, which lets the model answer and compares."
        )
    wanted, spelt, total = reference.strip(), "", 0.0
    for position in reversed(given):
        try:
            # The first entry of a position is the prompt's own token; others are alternatives.
            token = next(iter(position.values()))
            piece, logprob = str(token["decoded_token"]), float(token["logprob"])
        except (AttributeError, StopIteration, KeyError, TypeError, ValueError):
            break
        if not -math.inf < logprob <= 1e-6:
            raise LMError(f"The server gave {logprob} as the log-probability of {piece!r}.")
        spelt, total = piece + spelt, total + logprob
        if spelt.strip() == wanted:
            return total
        if len(spelt.strip()) > len(wanted):
            break
    raise LMError(
        f"The tokens that the server scored end in {spelt[-80:]!r}, which is not the reference {wanted[-80:]!r}."
    )


class MetricScorer:
    """Scorer that has a model answer and compares with the reference, for servers without log-probabilities.

    The weaker reward of the paper's ablation (Table 2), and slower, as an answer has to be generated.

    Args:
        lm: Answers.
    """

    def __init__(self, lm: LanguageModel) -> None:
        self.name = f"token_f1:{lm.name}"
        self.concurrency = max(1, int(getattr(lm, "concurrency", 1)))
        self._lm = lm

    def score(self, messages: Sequence[Message], reference: str) -> float:
        """Return the agreement of the model's answer with the reference, in [0, 1]."""
        return token_f1(self._lm.complete(messages, max_tokens=_LONGEST_ANSWER).text, reference)


def token_f1(answer: str, reference: str) -> float:
    """Return the F1 of the words of an answer and a reference, in [0, 1]; case and punctuation do not count."""
    given, wanted = (Counter(re.findall(r"\w+", text.casefold())) for text in (answer, reference))
    shared = (given & wanted).total()
    return 2.0 * shared / (given.total() + wanted.total()) if shared else 0.0
