"""Requests to a language model that are each made once: journalled under a digest, exported for another machine."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any

from epic_eval.journal import Journal, Record, key_of, read_lines
from epic_memory.errors import InvalidInputError, LMError
from epic_memory.lm import Completion, LanguageModel, Message, Token
from epic_memory.lm.base import Schema
from epic_memory.lm.client import Complete, RetryPolicy, StructuredClient
from epic_memory.runtime.effects import Effects
from epic_memory.types import Usage


@dataclass(frozen=True)
class Request:
    """A prompt, how long its answer may be, and the JSON schema that a server that can holds the model to."""

    messages: tuple[Message, ...]
    max_tokens: int | None
    schema: Schema | None = field(default=None, hash=False)

    @property
    def digest(self) -> str:
        """The prompt's digest: equal prompts are asked once, whoever needs them."""
        return key_of([(message.role, message.content) for message in self.messages], self.max_tokens)

    def key(self, model: str) -> str:
        """Return the key of a model's answer."""
        return key_of(model, self.digest)


@dataclass
class Asking:
    """Result of asking.

    Attributes:
        asked: Requests that were sent.
        known: Requests that had been answered before.
        failures: Reason to how many requests failed for it; they are asked again the next time.
        usage: Calls, tokens and seconds.
    """

    asked: int = 0
    known: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)

    @property
    def failed(self) -> int:
        """Requests without an answer."""
        return sum(self.failures.values())

    def __str__(self) -> str:
        reasons = "".join(f"; {count} failed: {reason}" for reason, count in self.failures.items())
        tokens = f"{self.usage.prompt_tokens} + {self.usage.completion_tokens} tokens, {self.usage.seconds:.1f} s"
        return f"{self.asked} asked ({tokens}), {self.known} known before{reasons}"


def ask(
    lm: LanguageModel, requests: Iterable[Request], journal: Journal, *, patience: RetryPolicy | None = None
) -> Asking:
    """Ask a model what it has not been asked before; each answer is in the journal as soon as it is there.

    Args:
        lm: The model.
        requests: Equal ones are asked once.
        journal: Holds the answers.
        patience: How a failing request is tried again.
    """
    done = Asking()
    missing: dict[str, Request] = {}
    for request in requests:
        key = request.key(lm.name)
        if (answer_to(request, lm.name, journal) or "").strip():
            done.known += 1
        else:
            missing[key] = request
    journalled: Any = JournalledLM(lm, journal)
    client = StructuredClient(journalled, patience or RetryPolicy())

    def work(request: Request) -> Effects[LMError | None]:
        complete = Complete(
            lm=journalled, messages=list(request.messages), schema=request.schema, max_tokens=request.max_tokens
        )
        try:
            yield from client.answer(complete, done.usage)
        except LMError as error:
            return error
        return None

    for failure in client.stream(work, list(missing.values())):
        if failure is None:
            done.asked += 1
        else:
            done.failures[str(failure)] = done.failures.get(str(failure), 0) + 1
    return done


@dataclass
class ModelCost:
    """Calls of a model and what they took.

    Attributes:
        asked, asked_seconds: Calls that were sent, and the sum of their latencies.
        replayed, replayed_seconds: Calls that a journal answered, and what they took when they were sent.
        prompt_tokens, completion_tokens: Of both.
    """

    asked: int = 0
    replayed: int = 0
    asked_seconds: float = 0.0
    replayed_seconds: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def seconds(self) -> float:
        """The sum of all latencies, whether the call was sent now or before."""
        return self.asked_seconds + self.replayed_seconds

    def add(self, other: ModelCost) -> None:
        """Add another cost to this one."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class JournalledLM:
    """A language model whose answers are journalled with their latencies, so that nothing is asked twice.

    Args:
        lm: The model; whatever else it has is here, too.
        journal: Holds its answers.
    """

    def __init__(self, lm: LanguageModel, journal: Journal) -> None:
        self.lm = lm
        self.journal = journal
        self._cost = ModelCost()
        self._lock = Lock()
        # A call that waits for its turn in the model's own queue would seem to take longer than it does.
        self._turns = BoundedSemaphore(max(1, int(getattr(lm, "concurrency", 1))))
        self._under_way, self._since, self._waited = 0, 0.0, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lm, name)

    def clock(self) -> float:
        """Return seconds of a clock that stands while a call is under way: it measures the work around the calls."""
        with self._lock:
            return (self._since if self._under_way else time.perf_counter()) - self._waited

    def take_cost(self) -> ModelCost:
        """Return what the calls since the last time took."""
        with self._lock:
            cost, self._cost = self._cost, ModelCost()
        return cost

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return the model's answer, asked now or before."""
        key = Request(tuple(messages), max_tokens).key(self.lm.name)
        with self._standing(), self._turns:
            record = self.journal.get(key)
            # An empty answer is none: replayed, it would stop every run that goes on.
            if record is None or "seconds" not in record or not record["text"].strip():
                return self._asked(key, messages, schema, max_tokens)
            tokens = None if record.get("tokens") is None else tuple(Token(*token) for token in record["tokens"])
            counts = {name: int(record[name]) for name in ("prompt_tokens", "completion_tokens")}
            self._count(ModelCost(replayed=1, replayed_seconds=record["seconds"], **counts))
            return Completion(text=record["text"], tokens=tokens, cut=record["cut"], **counts)

    def _asked(
        self, key: str, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None
    ) -> Completion:
        cost, started = ModelCost(asked=1), time.perf_counter()
        try:
            answer = self.lm.complete(messages, schema=schema, max_tokens=max_tokens)
            cost.prompt_tokens, cost.completion_tokens = answer.prompt_tokens, answer.completion_tokens
        finally:
            cost.asked_seconds = time.perf_counter() - started
            self._count(cost)
        self.journal.add(key, {"model": self.lm.name, **asdict(answer), "seconds": cost.asked_seconds})
        return answer

    def _count(self, cost: ModelCost) -> None:
        with self._lock:
            self._cost.add(cost)

    @contextmanager
    def _standing(self) -> Iterator[None]:
        with self._lock:
            if not self._under_way:
                self._since = time.perf_counter()
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                if not self._under_way:
                    self._waited += time.perf_counter() - self._since


def plain_name(model: str) -> str:
    """Return a model's name as journals and tables have it: without the address of its server."""
    return re.sub(r"@https?://\S+$", "", model.strip())


def answer_to(request: Request, model: str, journal: Journal) -> str | None:
    """Return a model's answer, or None if there is none yet."""
    record = journal.get(request.key(model))
    return None if record is None else str(record["text"])


def export_requests(requests: Iterable[Request], model: str, journal: Journal, path: Path) -> int:
    """Write the requests that a model has not answered as JSON lines; return how many.

    Each line has the `key` to answer under, `messages` as chat servers take them, and `max_tokens`; equal requests are
    written once. The order is that of the digests, so that it tells nothing of arms or sets.
    """
    missing = {request.digest: request for request in requests if request.key(model) not in journal}
    lines = []
    for digest, request in sorted(missing.items()):
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        line = {"key": digest, "messages": messages, "max_tokens": request.max_tokens}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def import_answers(path: Path, model: str, journal: Journal) -> int:
    """Take answers to exported requests: JSON lines with `key` and `answer`; return how many were new.

    Raises:
        InvalidInputError: naming a line that has no key or no answer; nothing is taken then.
    """
    records = read_lines(path)
    for number, record in enumerate(records, start=1):
        if not isinstance(record.get("key"), str) or not isinstance(record.get("answer"), str):
            raise InvalidInputError(f'{path}, line {number}: {{"key": ..., "answer": "..."}} is needed.')
    new = 0
    for record in records:
        key = key_of(model, record["key"])
        if key not in journal:
            journal.add(key, _imported(record, model))
            new += 1
    return new


def _imported(record: Record, model: str) -> dict[str, Any]:
    counts = {name: int(record.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")}
    return {"model": model, "text": record["answer"], "cut": False, **counts}


def sent_tokens(requests: Sequence[Request], model: str, journal: Journal) -> float | None:
    """Return the mean prompt tokens of answered requests, estimated from characters where a model counts none."""
    known = [(request, journal.get(request.key(model))) for request in requests]
    counts = [
        record["prompt_tokens"] or sum(len(message.content) for message in request.messages) / 4
        for request, record in known
        if record is not None
    ]
    return sum(counts) / len(counts) if counts else None
