"""The base of language models that ask a framework's model, and the meaning of a framework's failures."""

from __future__ import annotations

from typing import Any

import pytest

from epic_memory.errors import LMError, LMSetupError, LMUnavailableError
from epic_memory.lm import Completion
from epic_memory.lm.base import Schema
from epic_plugins.adapted_lm import AdaptedLM, explained, refused
from scripted import Complete


class Status(Exception):  # noqa: N818
    """A failure with a status, as clients of servers have it."""

    def __init__(self, status: int, said: str = "no", **attributes: Any) -> None:
        super().__init__(said)
        self.status_code = status
        vars(self).update(attributes)


class Framework(AdaptedLM):
    """Answers in turn; an exception is raised. `asked` has the schema and the limit of each call."""

    def __init__(self, *answers: Any) -> None:
        super().__init__("framework:tiny", concurrency=2, context=None)
        self.answers = list(answers)
        self.asked: list[tuple[bool, int | None]] = []

    def _ask(self, messages: list[dict[str, str]], schema: Schema | None, limit: int | None) -> Any:
        self.asked.append((schema is not None, limit))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _aask(self, messages: list[dict[str, str]], schema: Schema | None, limit: int | None) -> Any:
        return self._ask(messages, schema, limit)

    def _read(self, answer: Any) -> Completion:
        return Completion(text=answer, cut=answer in ("<think>", "(thoughts)", "(said)"))

    def _has_thought(self, answer: Any) -> bool:
        return bool(answer == "(thoughts)")


LIMITS: dict[str, Any] = {"schema": {"type": "object"}, "max_tokens": 9}


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        (["yes"], [(True, 9)]),
        ([Status(400), "yes"], [(True, 9), (False, 9)]),
        ([Status(400), TypeError(), "yes"], [(True, 9), (False, 9), (True, None)]),
        ([Status(400)] * 3 + ["yes"], [(True, 9), (False, 9), (True, None), (False, None)]),
        (["<think>", "yes"], [(True, 9), (True, None)]),
        (["(thoughts)", "yes"], [(True, 9), (True, None)]),
        ([RuntimeError("Event loop is closed")] * 2 + ["yes"], [(True, 9)] * 3),
    ],
)
async def test_what_is_refused_is_left_out_from_then_on(answers: list[Any], asked: Any, complete: Complete) -> None:
    lm = Framework(*answers, "again")
    assert [(await complete(lm, **LIMITS)).text for _ in range(2)] == ["yes", "again"]
    assert lm.asked == [*asked, asked[-1]]


async def test_a_failure_has_a_meaning_and_its_cause_and_what_was_taken_is_not_doubted(complete: Complete) -> None:
    lm = Framework("yes", Status(400), Status(503, "busy"), KeyError("unknown to us"))
    await complete(lm, **LIMITS)
    for kind, match in (
        (LMError, "400"),
        (LMUnavailableError, r"framework:tiny failed \(503\): busy"),
        (KeyError, "unknown"),
    ):
        with pytest.raises(kind, match=match) as error:
            await complete(lm, **LIMITS)
        assert kind is KeyError or isinstance(error.value.__cause__, Status)
    assert lm.asked == [(True, 9)] * 4


def named(name: str, **attributes: Any) -> Exception:
    """An error of a class of that name, and with these attributes."""
    error = type(name, (Exception,), {})("It failed.")
    vars(error).update(attributes)
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        *((Status(status), LMSetupError) for status in (401, 403, 404)),
        *((Status(status), LMUnavailableError) for status in (408, 409, 425, 429, 500, 503, 599)),
        *((Status(status), LMError) for status in (400, 413, 422)),
        (ConnectionError("refused"), LMUnavailableError),
        (named("ServerError", code=503), LMUnavailableError),
        *((named(name), LMUnavailableError) for name in ("ConnectTimeout", "RateLimitError", "DeadlineExceeded")),
        (named("AuthenticationError"), LMSetupError),
        # AWS puts the status into a mapping.
        (named("ClientError", response={"ResponseMetadata": {"HTTPStatusCode": 403}}), LMSetupError),
    ],
)
def test_a_frameworks_failure_is_explained(error: Exception, kind: type[Exception]) -> None:
    assert type(explained(error, "tiny")) is kind and "tiny" in str(explained(error, "tiny"))
    outer = ValueError("wrapped")
    outer.__cause__ = error
    assert type(explained(outer, "tiny")) is kind


def test_what_is_known_already_or_means_nothing_stays() -> None:
    hidden = ValueError("the cause is hidden")
    hidden.__context__, hidden.__suppress_context__ = Status(401), True
    for error in (LMError("ours"), Status(200), Status(700), KeyError("x"), FileNotFoundError("weights"), hidden):
        assert explained(error, "tiny") is error


@pytest.mark.parametrize(("said", "wait"), [("7", 7.0), ("soon", None), ("-1", None)])
def test_a_server_says_when_to_come_back(said: str, wait: float | None) -> None:
    error: Any = explained(Status(429, response=type("Response", (), {"headers": {"retry-after": said}})()), "tiny")
    assert (error.retry_after, error.timed_out) == (wait, False)
    assert vars(explained(named("ReadTimeout"), "tiny"))["timed_out"]


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
