"""The base of language models that ask a framework's model, and the meaning of a framework's failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from epic_memory.errors import LMError, LMSetupError, LMUnavailableError
from epic_memory.lm import Completion, Message
from epic_memory.lm.base import Schema
from epic_plugins.adapted_lm import AdaptedLM, explained, refused

HELLO = [Message("user", "Is it so?")]
SCHEMA: Schema = {"type": "object"}


class Status(Exception):  # noqa: N818
    """A failure with a status, as clients of servers have it."""

    def __init__(self, status: int, said: str = "no") -> None:
        super().__init__(said)
        self.status_code = status


class Framework(AdaptedLM):
    """Answers in turn; an exception is raised. `asked` has the schema and the limit of each call."""

    def __init__(self, *answers: Any, **options: Any) -> None:
        super().__init__("framework:tiny", **{"concurrency": 2, "context": None, "structured": True, **options})
        self.answers = list(answers)
        self.asked: list[tuple[bool, int | None]] = []

    def _ask(self, messages: list[dict[str, str]], schema: Schema | None, limit: int | None) -> Any:
        assert messages == [{"role": "user", "content": "Is it so?"}]
        self.asked.append((schema is not None, limit))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _aask(self, messages: list[dict[str, str]], schema: Schema | None, limit: int | None) -> Any:
        return self._ask(messages, schema, limit)

    def _read(self, answer: Any) -> Completion:
        return Completion(text=answer)

    def _only_thought(self, answer: Any, completion: Completion) -> bool:
        return bool(answer == "<think>")


def answered(lm: Framework, way: str) -> str:
    if way == "sync":
        return lm.complete(HELLO, schema=SCHEMA, max_tokens=9).text
    return asyncio.run(lm.acomplete(HELLO, schema=SCHEMA, max_tokens=9)).text


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        (["yes"], [(True, 9)]),
        ([Status(400), "yes"], [(True, 9), (False, 9)]),
        ([Status(400), TypeError(), "yes"], [(True, 9), (False, 9), (True, None)]),
        ([Status(400)] * 3 + ["yes"], [(True, 9), (False, 9), (True, None), (False, None)]),
        (["<think>", "yes"], [(True, 9), (True, None)]),
        ([RuntimeError("Event loop is closed")] * 2 + ["yes"], [(True, 9)] * 3),
    ],
)
def test_what_is_refused_is_left_out_from_then_on(way: str, answers: list[Any], asked: list[Any]) -> None:
    lm = Framework(*answers, "again")
    assert answered(lm, way) == "yes"
    assert lm.asked == asked
    assert answered(lm, way) == "again"
    assert lm.asked[-1] == asked[-1]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_failure_has_a_meaning_and_its_cause(way: str) -> None:
    lm = Framework(Status(503, "busy"))
    with pytest.raises(LMUnavailableError, match=r"framework:tiny failed \(503\): busy") as error:
        answered(lm, way)
    assert isinstance(error.value.__cause__, Status)
    with pytest.raises(KeyError):
        answered(Framework(KeyError("unknown to us")), way)


def test_a_feature_that_was_taken_is_not_doubted() -> None:
    lm = Framework("yes", Status(400))
    answered(lm, "sync")
    with pytest.raises(LMError):
        answered(lm, "sync")
    assert lm.asked == [(True, 9)] * 2


def named(name: str, **attributes: Any) -> Exception:
    """An error of a class of that name."""
    error: Exception = type(name, (Exception,), attributes)("It failed.")
    return error


class ReadTimeout(Exception):  # noqa: N818
    pass


class RateLimitError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        *((Status(status), LMSetupError) for status in (401, 403, 404)),
        *((Status(status), LMUnavailableError) for status in (408, 409, 425, 429, 500, 503, 599)),
        *((Status(status), LMError) for status in (400, 413, 422)),
        (ConnectionError("refused"), LMUnavailableError),
        (ReadTimeout(), LMUnavailableError),
        (RateLimitError(), LMUnavailableError),
        (named("ServerError", code=503), LMUnavailableError),
        *((named(name), LMUnavailableError) for name in ("ConnectTimeout", "APIConnectionError", "DeadlineExceeded")),
        (named("AuthenticationError"), LMSetupError),
    ],
)
def test_a_frameworks_failure_is_explained(error: Exception, kind: type[Exception]) -> None:
    assert type(explained(error, "tiny")) is kind and "tiny" in str(explained(error, "tiny"))
    outer = ValueError("wrapped")
    outer.__cause__ = error
    assert type(explained(outer, "tiny")) is kind


def test_what_is_known_already_or_means_nothing_stays() -> None:
    for error in (LMError("ours"), Status(200), Status(700), KeyError("x"), FileNotFoundError("weights")):
        assert explained(error, "tiny") is error
    assert explained(ReadTimeout(), "tiny").timed_out  # type: ignore[attr-defined]
    hidden = ValueError("the cause is hidden")
    hidden.__context__, hidden.__suppress_context__ = Status(401), True
    assert explained(hidden, "tiny") is hidden


@pytest.mark.parametrize(("said", "wait"), [("7", 7.0), ("soon", None), ("-1", None)])
def test_a_server_says_when_to_come_back(said: str, wait: float | None) -> None:
    error = Status(429)
    error.response = type("Response", (), {"headers": {"retry-after": said}})()  # type: ignore[attr-defined]
    assert explained(error, "tiny").retry_after == wait  # type: ignore[attr-defined]


def test_aws_puts_the_status_into_a_mapping() -> None:
    error = Exception("denied")
    error.response = {"ResponseMetadata": {"HTTPStatusCode": 403}}  # type: ignore[attr-defined]
    assert type(explained(error, "tiny")) is LMSetupError


@pytest.mark.parametrize(
    ("error", "was"),
    [
        (NotImplementedError(), True),
        (Status(400), True),
        (Status(500, "unknown response_format"), True),
        (Status(500), False),
        (Status(429), False),
    ],
)
def test_a_refused_request_may_succeed_in_another_form(error: Exception, was: bool) -> None:
    assert refused(error) is was
