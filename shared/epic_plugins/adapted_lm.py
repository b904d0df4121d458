"""Base class of the plugins' language models, which adapts a framework's model, and the meaning of its failures."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from epic_memory.errors import EpicError, InvalidInputError, LMError, LMUnavailableError
from epic_memory.lm.base import Completion, LimitedLM, Message, Schema
from epic_memory.lm.failures import of_status, said
from epic_memory.lm.http import sendable
from epic_memory.runtime.effects import Attempt, Effects

MOST_ENDED = 100
"""Most connections of ended event loops that a client is assumed to keep."""

_ENDED = "Event loop is closed"
_MOST_CAUSES = 5

# Settings that limit the length of an answer, in the frameworks' various names.
_LIMITS = ("max_tokens", "num_predict", "max_output_tokens", "max_completion_tokens", "max_new_tokens")

_STILL_THINKING = re.compile(r"\s*<think(?:ing)?>(?!.*</think)", re.S)

# Features of a request that a model may refuse.
_SCHEMA, _LIMIT = "schema", "limit"

_NO_SERVER = 0
_REFUSED = (400, 422, 501)
_FORM = re.compile(r"response_format|json_schema|grammar|tool_choice", re.I)
# Statuses for names of exceptions or of their base classes, if the exception carries none; the first match counts.
_NAMES = (
    (_NO_SERVER, r"ConnectTimeout\w*"),
    (408, r"\w*(?:Timeout|TimedOut|DeadlineExceeded)\w*"),
    (_NO_SERVER, r"ConnectError|\w*ConnectionError"),
    (429, r"\w*(?:RateLimit|TooManyRequests|ResourceExhausted|Throttl|Overloaded)\w*"),
    (503, r"TransportError|NetworkError|ModelAPIError|\w*(?:ServiceUnavailable|InternalServer)\w*"),
    (400, r"ModelInvalidRequestError|ContextOverflowError|BadRequest(?:Error)?|InvalidArgument"),
    (401, r"(?:Model)?(?:Authentication|PermissionDenied)(?:Error)?|Unauthenticated|Unauthorized\w*"),
    (404, r"(?:Model)?NotFound(?:Error)?"),
)


class AdaptedLM(LimitedLM):
    """Base of a language model that asks a framework's model.

    A feature that the model refuses is not used again; neither is the limit once it has cut off a model that was still
    thinking.

    Args:
        name: The name under which verdicts are cached.
        concurrency: How many calls are made at once.
        context: Tokens for prompt and answer together, if known.
        structured: Whether the model can be held to a schema.
        limited: Whether the length of an answer can be limited.

    Raises:
        InvalidInputError: if an argument is invalid.
        LMError: on use; its subclass says what can be done.
    """

    def __init__(
        self, name: str, *, concurrency: int, context: int | None, structured: bool = True, limited: bool = True
    ) -> None:
        super().__init__(name, concurrency=concurrency, context=context)
        self._left_out = frozenset([*([] if structured else [_SCHEMA]), *([] if limited else [_LIMIT])])
        self._taken: frozenset[str] = frozenset()

    def _settings(self) -> dict[str, Any]:
        """Return the constructor's arguments beside the model."""
        return {"name": self.name, "concurrency": self.concurrency, "context": self.context}

    @abstractmethod
    def _ask(self, messages: list[dict[str, str]], schema: Schema | None, limit: int | None) -> Any:
        """Return the model's answer to messages with "role" and "content", in the framework's own type."""

    @abstractmethod
    async def _aask(self, messages: list[dict[str, str]], schema: Schema | None, limit: int | None) -> Any:
        """Return an answer as `_ask` does, without blocking the event loop."""

    @abstractmethod
    def _read(self, answer: Any) -> Completion:
        """Return the completion in an answer."""

    @abstractmethod
    def _has_thought(self, answer: Any) -> bool:
        """Tell whether an answer says that the model has spent tokens on thinking."""

    def _only_thought(self, answer: Any, completion: Completion) -> bool:
        """Tell whether an answer was cut off because the model spent its limit on thinking."""
        if not completion.cut or not completion.text:
            return completion.cut
        return self._has_thought(answer) or bool(_STILL_THINKING.match(completion.text))

    def _held(self, error: Exception) -> Any | None:
        """Return the answer that an error contains, or None."""
        return None

    def _refused(self, error: Exception) -> bool:
        """Tell whether a request was refused, so that a different one may succeed."""
        return refused(error)

    def _unstructured(self) -> None:
        """Stop holding the model to schemas from now on."""
        self._left_out |= {_SCHEMA}

    def _completing(
        self, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None
    ) -> Effects[Completion]:
        """Ask with the full request, then without features that the model may have refused."""
        given = {_SCHEMA: schema, _LIMIT: max_tokens}
        wanted = frozenset(name for name, value in given.items() if value is not None) - self._left_out
        # A feature that the model accepted before is not the one it refuses now.
        doubted = sorted(wanted - self._taken, reverse=True)
        ways = [wanted.difference(less) for size in range(3) for less in combinations(doubted, size)]
        sent, ended = sendable(messages), 0
        while True:
            way = ways[0]
            form, limit = schema if _SCHEMA in way else None, max_tokens if _LIMIT in way else None
            answer = yield Attempt(self._ask, self._aask, sent, form, limit)
            if isinstance(answer, Exception):
                error, answer = answer, self._held(answer)
                if answer is None:
                    if of_ended_loop(error) and ended < MOST_ENDED:
                        ended += 1
                    elif len(ways) > 1 and self._refused(error):
                        del ways[0]
                    elif (failure := explained(error, self.name)) is error:
                        raise error
                    else:
                        raise failure from error
                    continue
            completion = self._read(answer)
            if _LIMIT in way and self._only_thought(answer, completion):
                # It did not reach an answer within the limit.
                ways = [way - {_LIMIT}]
                continue
            self._left_out |= wanted - way
            self._taken |= way
            return completion

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def of_ended_loop(error: Exception) -> bool:
    """Tell whether a connection failed because its event loop has ended; clients keep such connections until then."""
    return any(isinstance(cause, RuntimeError) and str(cause) == _ENDED for cause in causes(error))


def causes(error: Exception) -> Iterator[Exception]:
    """Yield an error and the errors that it was raised from."""
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if not isinstance(cause, Exception):
            return
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def limit_of(fields: Iterable[str]) -> str | None:
    """Return a model's own name, among its settings, for the limit of an answer, or None."""
    there = set(fields)
    return next((name for name in _LIMITS if name in there), None)


def own_limit(model: object, setting: str, limit: int) -> bool:
    """Tell whether a model's own limit for answers is at most `limit`."""
    own = getattr(model, setting)
    return isinstance(own, int) and 0 < own <= limit


def checked_name(name: str | None, made: str) -> str:
    """Return the name that was given, else the one made from the model; an empty one is an `InvalidInputError`."""
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise InvalidInputError(f"name must be a text that is not empty, not {name!r}.")
    return made if name is None else name


def name_of(framework: str, kind: str, model: object, attributes: Iterable[str], nameless: Container[str] = ()) -> str:
    """Return `framework:kind:name`, by the first attribute that names the model; `framework:kind` if none does."""
    named = (getattr(model, name, None) for name in attributes)
    found = [value for value in named if isinstance(value, str) and value.strip() and value not in nameless]
    return ":".join([framework, kind, *found[:1]])


def explained(error: Exception, name: str) -> Exception:
    """Return the failure of the model `name` as an `LMError`, or the error itself if its meaning is unknown."""
    if isinstance(error, EpicError):
        return error
    for cause in causes(error):
        found = _meaning(cause, name)
        if found is not None:
            return found
    return error


def refused(error: Exception) -> bool:
    """Tell whether a request was refused, so that a different one may succeed."""
    if isinstance(error, (NotImplementedError, TypeError)):
        return True
    # llama.cpp's server in Python answers with status 500 to an answer format that it does not know.
    return any(
        (status := _status(cause)) in _REFUSED or (status == 500 and _FORM.search(str(cause)))
        for cause in causes(error)
    )


def _meaning(error: Exception, name: str) -> LMError | None:
    status = _status(error)
    if status is None:
        return None
    if status == _NO_SERVER:
        return LMUnavailableError(
            f"No server answers for {name}. Start it, or make the model with its address. ({said(error)})"
        )
    unknown = (
        f"The server does not know the model of {name}. Check its name; with Ollama, pull it: ollama pull MODEL."
        f" ({said(error)})"
    )
    if status == 408:
        return LMUnavailableError(
            f"{name} did not answer in time. Give it longer (the model's own timeout), or take a smaller model."
            f" ({said(error)})",
            timed_out=True,
        )
    headers = getattr(getattr(error, "response", None), "headers", None)
    wait = headers.get("retry-after") if isinstance(headers, Mapping) else None
    return of_status(f"The server of {name}", status, said(error), unknown=unknown, wait=wait)


def _status(error: Exception) -> int | None:
    """Return the HTTP status, from 400 to 599, that an error carries or that its name stands for, or None."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):  # the form of AWS's clients
        metadata = response.get("ResponseMetadata")
        carried = [metadata.get("HTTPStatusCode")] if isinstance(metadata, Mapping) else []
    else:
        carried = [getattr(error, "status_code", None), getattr(response, "status_code", None)]
    carried.append(getattr(error, "code", None))
    for value in carried:
        if isinstance(value, int) and 400 <= value < 600:
            return int(value)
    names = [kind.__name__ for kind in type(error).__mro__]
    return next((status for status, name in _NAMES if any(re.fullmatch(name, one) for one in names)), None)
