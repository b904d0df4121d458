"""Base class of the plugins' language models, which adapts a framework's model."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from epic_memory.errors import InvalidInputError
from epic_memory.lm.base import Completion, Message, Schema, Token
from epic_memory.lm.failures import MOST_ENDED, explained, of_ended_loop, refused
from epic_memory.lm.http import sendable
from epic_memory.lm.limits import LimitedLM
from epic_memory.runtime.calls import Attempt
from epic_memory.runtime.effects import Effects

# Settings that limit the length of an answer, in the frameworks' various names.
_LIMITS = ("max_tokens", "num_predict", "max_output_tokens", "max_completion_tokens", "max_new_tokens")

_CUT = {"length", "max_tokens", "max_output_tokens", "model_length"}
_STILL_THINKING = re.compile(r"\s*<think(?:ing)?>(?!.*</think)", re.S)

# Features of a request that a model may refuse.
_SCHEMA, _LIMIT = "schema", "limit"


class AdaptedLM(LimitedLM):
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
        super().__init__(name, concurrency=concurrency, context=context)
        self._left_out = frozenset([*([] if structured else [_SCHEMA]), *([] if limited else [_LIMIT])])
        self._taken: frozenset[str] = frozenset()

    def _settings(self) -> dict[str, Any]:
        """Return the constructor's arguments beside the model."""
        structured = _SCHEMA not in self._left_out
        return {"name": self.name, "concurrency": self.concurrency, "context": self.context, "structured": structured}

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
    """Return the name that was given, else the one made from the model; an empty one is an `InvalidInputError`."""
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise InvalidInputError(f"name must be a text that is not empty, not {name!r}.")
    return made if name is None else name
