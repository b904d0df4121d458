"""Answers of a server that speaks OpenAI's protocol: received whole or in parts, up to a limit of size."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from epic_core.errors import LMUnavailableError
from epic_core.lm.base import Completion, Token
from epic_core.lm.http import count

if TYPE_CHECKING:
    import httpx

# The largest answer that is accepted, in bytes.
_MOST_BYTES = 16 * 2**20
_TOO_LONG = "The server does not end its answer, which is longer than it may be."


def whole_answer(text: str, without_key: Callable[[str], str]) -> Completion:
    """Return the completion in the body of an answer."""
    body = json.loads(text)
    if "error" in body and not body.get("choices"):
        raise LMUnavailableError(f"The server failed: {without_key(str(body['error']))[:300]}")
    choice = body["choices"][0]
    text = _text(choice["message"].get("content"))
    return _completion(text, [choice.get("logprobs")], body.get("usage"), choice.get("finish_reason"))


class Body:
    """The body of an answer, which has to arrive within `timeout` seconds from now."""

    def __init__(self, timeout: float) -> None:
        self._until = time.monotonic() + timeout
        self._bytes = bytearray()

    def take(self, piece: bytes) -> bool:
        """Add the next bytes and return False: more may follow."""
        self._bytes += piece
        if len(self._bytes) > _MOST_BYTES:
            raise LMUnavailableError(_TOO_LONG)
        if time.monotonic() > self._until:
            raise LMUnavailableError(
                "The server did not send all of its answer in time. Give it longer (timeout=), or take a smaller"
                " model.",
                timed_out=True,
            )
        return False

    def text(self, answer: httpx.Response) -> str:
        """Return the text received."""
        return self._bytes.decode(answer.encoding or "utf-8", "replace")


class Parts:
    """The parts of an answer that a server sends as events."""

    def __init__(self, without_key: Callable[[str], str], room: int) -> None:
        self._without_key = without_key
        self._room = room
        self._received = 0
        self._line = bytearray()
        self._text: list[str] = []
        self._logprobs: list[Any] = []
        self._usage: Any = None
        self._finish: Any = None
        self._ended = False

    def take(self, piece: bytes) -> bool:
        """Add the next bytes, and tell whether they hold the end."""
        self._received += len(piece)
        if self._received > _MOST_BYTES:
            raise LMUnavailableError(_TOO_LONG)
        self._line += piece
        if b"\n" not in piece:
            return False
        *lines, self._line = self._line.split(b"\n")
        return any(self._take_line(line.decode("utf-8", "replace")) for line in lines)

    def _take_line(self, line: str) -> bool:
        if not line.startswith("data:"):
            return False
        data = line[len("data:") :].strip()
        if data == "[DONE]":
            self._ended = True
            return True
        event = json.loads(data)
        if "error" in event:
            raise LMUnavailableError(f"The server broke off: {self._without_key(str(event['error']))[:300]}")
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices", ())[:1]:
            text = _text((choice.get("delta") or {}).get("content"))
            if text:
                self._text.append(text)
                if len(self._text) > self._room:
                    raise LMUnavailableError(_TOO_LONG)
            self._logprobs.append(choice.get("logprobs"))
            self._finish = choice.get("finish_reason") or self._finish
        return False

    def completion(self) -> Completion:
        """Return the completion, if the server has said that the answer is complete."""
        if self._line and not self._ended:
            self._take_line(self._line.decode("utf-8", "replace"))
        if not self._ended and self._finish is None:
            raise LMUnavailableError("The server broke off in the middle of an answer.")
        return _completion("".join(self._text), self._logprobs, self._usage, self._finish)


def _completion(text: str, logprobs: Iterable[Any], usage: Any, finish: Any) -> Completion:
    counts = usage if isinstance(usage, Mapping) else {}
    return Completion(
        text=text,
        tokens=_tokens(logprobs),
        prompt_tokens=count(counts.get("prompt_tokens")),
        completion_tokens=count(counts.get("completion_tokens")),
        cut=finish == "length",
    )


def _text(content: Any) -> str:
    """Return the text of a message, whose content is text or a list of parts, some of which are text."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        texts = [part.get("text") for part in content if part.get("type") == "text"]
        if all(isinstance(text, str) for text in texts):
            return "".join(texts)
    raise TypeError(f"the content of its message is neither text nor parts of text: {content}")


def _tokens(logprobs: Iterable[Any]) -> tuple[Token, ...] | None:
    """Return the tokens of all parts, or None if there are none or some have no probability."""
    try:
        tokens = tuple(
            Token(str(token["token"]), float(token["logprob"]))
            for given in logprobs
            if given is not None
            for token in given.get("content") or ()
        )
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        return None
    return None if not tokens or any(math.isnan(token.logprob) for token in tokens) else tokens
