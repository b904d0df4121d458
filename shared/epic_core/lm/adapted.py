"""Base class of the plugins' language models, which adapts a framework's model."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from epic_core.errors import InvalidInputError
from epic_core.lm.base import Completion, Message, Schema, Token
from epic_core.lm.failures import MOST_ENDED, explained, of_ended_loop, refused
from epic_core.lm.http import checked_limits, sendable
from epic_core.lm.limits import Gate

# Settings that limit the length of an answer, in the frameworks' various names.
_LIMITS = ("max_tokens", "num_predict", "max_output_tokens", "max_completion_tokens", "max_new_tokens")

_CUT = {"length", "max_tokens", "max_output_tokens", "model_length"}
_STILL_THINKING = re.compile(r"\s*<think(?:ing)?>(?!.*</think)", re.S)

# Features of a request that a model may refuse.
_SCHEMA, _LIMIT = "schema", "limit"


class AdaptedLM(ABC):
    """Base of a language model that asks a framework's model.

    A feature that the model refuses is not used again; neither is the limit once it has cut off a model that was still
    thinking.

    Args:
        name: The name under which verdicts are cached.
        concurrency: How many calls are made at once.
        context: Tokens for prompt and answer together, if known.
        structured: Whether the model is held to a schema, where that is possible.
        limited: Whether the length of an answer can be limited.

    Raises:
        InvalidInputError: if an argument is invalid.
        LMError: on use; its subclass says what can be done.
    """

    def __init__(
        self, name: str, *, concurrency: int, context: int | None, structured: bool, limited: bool = True
    ) -> None:
        checked_limits(timeout=1.0, context=context)
        self.name = name
        self.concurrency = concurrency
        self.context = context
        self._gate = Gate(concurrency)
        self._left_out = frozenset([*([] if structured else [_SCHEMA]), *([] if limited else [_LIMIT])])
        self._taken: frozenset[str] = frozenset()

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
    def _only_thought(self, answer: Any, completion: Completion) -> bool:
        """Tell whether an answer was cut off while the model was still thinking."""

    def _held(self, error: Exception) -> Any | None:
        """Return the answer that an error contains, or None."""
        return None

    def _refused(self, error: Exception) -> bool:
        """Tell whether a request was refused, so that a different one may succeed."""
        return refused(error)

    def _unstructured(self) -> None:
        """Stop holding the model to schemas from now on."""
        self._left_out |= {_SCHEMA}

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return the model's answer."""
        attempts = _Attempts(self, schema, max_tokens)
        sent = sendable(messages)
        with self._gate.enter():
            while True:
                try:
                    answer = self._ask(sent, *attempts.wanted())
                except Exception as error:
                    answer = attempts.failed(error)
                    if answer is None:
                        continue
                completion = attempts.completion(answer)
                if completion is not None:
                    return completion

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return an answer as `complete` does, without blocking the event loop."""
        attempts = _Attempts(self, schema, max_tokens)
        sent = sendable(messages)
        async with self._gate.aenter():
            while True:
                try:
                    answer = await self._aask(sent, *attempts.wanted())
                except Exception as error:
                    answer = attempts.failed(error)
                    if answer is None:
                        continue
                completion = attempts.completion(answer)
                if completion is not None:
                    return completion

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class _Attempts:
    """The attempts at one answer: first the full request, then without features that the model may have refused."""

    def __init__(self, lm: AdaptedLM, schema: Schema | None, max_tokens: int | None) -> None:
        self._lm = lm
        self._schema = schema
        self._max_tokens = max_tokens
        self._ended = 0
        given = {_SCHEMA: schema, _LIMIT: max_tokens}
        self._wanted = frozenset(name for name, value in given.items() if value is not None) - lm._left_out
        # A feature that the model accepted before is not the one it refuses now.
        doubted = sorted(self._wanted - lm._taken, reverse=True)
        self._ways = [self._wanted.difference(less) for size in range(3) for less in combinations(doubted, size)]

    def wanted(self) -> tuple[Schema | None, int | None]:
        """Return the schema and the limit of the next call."""
        way = self._ways[0]
        return self._schema if _SCHEMA in way else None, self._max_tokens if _LIMIT in way else None

    def failed(self, error: Exception) -> Any | None:
        """Return the answer that an error contains, or None to try the next call; else raise the error's meaning."""
        held = self._lm._held(error)
        if held is not None:
            return held
        if of_ended_loop(error) and self._ended < MOST_ENDED:
            self._ended += 1
            return None
        if len(self._ways) > 1 and self._lm._refused(error):
            del self._ways[0]
            return None
        failure = explained(error, self._lm.name)
        if failure is error:
            raise error
        raise failure from error

    def completion(self, answer: Any) -> Completion | None:
        """Return the completion, or None if the model has to be asked again because it did not reach an answer."""
        way, lm = self._ways[0], self._lm
        completion = lm._read(answer)
        if _LIMIT in way and lm._only_thought(answer, completion):
            self._ways = [way - {_LIMIT}]
            return None
        lm._left_out |= self._wanted - way
        lm._taken |= way
        return completion


def tokens_of(given: Any) -> tuple[Token, ...] | None:
    """Return an answer's tokens, under "content" (OpenAI) or as a list (Ollama), or None if they are not complete."""
    given = given.get("content") if isinstance(given, Mapping) else getattr(given, "content", given)
    try:
        parts = [part if isinstance(part, Mapping) else vars(part) for part in given or ()]
        tokens = tuple(Token(str(part["token"]), float(part["logprob"])) for part in parts)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return None if not tokens or any(math.isnan(token.logprob) for token in tokens) else tokens


def is_cut(ends: Iterable[object]) -> bool:
    """Tell whether one of the reasons for which an answer ended is its length."""
    return any(str(getattr(end, "name", end)).lower() in _CUT for end in ends)


def still_thinking(text: str) -> bool:
    """Tell whether a text is a thought without an end."""
    return bool(_STILL_THINKING.match(text))


def limit_of(fields: Iterable[str]) -> str | None:
    """Return a model's own name, among its settings, for the limit of an answer, or None."""
    there = set(fields)
    return next((name for name in _LIMITS if name in there), None)


def own_limit(model: object, setting: str, limit: int) -> bool:
    """Tell whether a model's own limit for answers is at most `limit`."""
    own = getattr(model, setting)
    return isinstance(own, int) and 0 < own <= limit


def checked_name(name: str | None, made: str) -> str:
    """Return the name that was given, else the one made from the model.

    Raises:
        InvalidInputError: for a name that is not a text, or empty.
    """
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise InvalidInputError(f"name must be a text that is not empty, not {name!r}.")
    return made if name is None else name
