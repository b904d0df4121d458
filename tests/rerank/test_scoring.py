"""Scorers: log-probabilities of a reference's own tokens, and refusals of servers that give none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from epic_memory.errors import InvalidInputError, LMError, LMSetupError
from epic_memory.lm import Message, OpenAICompatibleLM
from epic_rerank.scoring import MetricScorer, VllmScorer, token_f1
from lm_servers import Json, LMServer, Reply

ASKED = [Message("user", "What is the capital?")]


def vllm(*tokens: tuple[str, float] | None) -> Any:
    """A server that reports these tokens as the prompt's, in vLLM's form."""

    def answer(request: Json) -> Reply:
        positions = [
            token and {str(number): {"logprob": token[1], "rank": 1, "decoded_token": token[0]}}
            for number, token in enumerate(tokens)
        ]
        body = {"choices": [{"message": {"content": "x"}}], "prompt_logprobs": positions}
        return Reply(pieces=lambda: [json.dumps(body).encode()])

    return answer


def test_only_the_tokens_of_the_reference_count() -> None:
    with LMServer(vllm(None, ("<user>", -9.0), ("\n", -8.0), (" Lis", -0.5), ("bon", -0.25))) as server:
        scorer = VllmScorer(OpenAICompatibleLM(server.base_url, "tiny"))
        assert scorer.score(ASKED, "Lisbon") == -0.75
        with pytest.raises(InvalidInputError):
            scorer.score(ASKED, " ")
        sent = server.asked[0]
        server.answer = lambda request: "Lisbon"
        with pytest.raises(LMSetupError, match="MetricScorer"):  # there are no log-probabilities
            scorer.score(ASKED, "Lisbon")
    assert sent["messages"][-1] == {"role": "assistant", "content": "Lisbon"}
    assert (sent["continue_final_message"], sent["add_generation_prompt"]) == (True, False)


@pytest.mark.parametrize("tokens", [[("Lis", -0.5), ("sabon", -0.2)], [None, ("bon", -0.5)], [("Lisbon", 0.5)]])
def test_tokens_that_are_not_the_reference_are_an_error(tokens: list[tuple[str, float] | None]) -> None:
    with LMServer(vllm(*tokens)) as server, pytest.raises(LMError):
        VllmScorer(OpenAICompatibleLM(server.base_url, "tiny")).score(ASKED, "Lisbon")


def test_an_answer_is_compared_with_the_reference() -> None:
    with LMServer(lambda request: "It is Lisbon.") as server:
        scorer = MetricScorer(OpenAICompatibleLM(server.base_url, "tiny"))
        assert scorer.score(ASKED, "Lisbon") == pytest.approx(0.5)
    assert scorer.name == "token_f1:openai:tiny"
    assert (token_f1("A b.", "a B"), token_f1("", "a"), token_f1("b", "a")) == (1.0, 0.0, 0.0)
