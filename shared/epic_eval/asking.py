"""Requests to a language model that are each made once: journalled under a digest, exported for another machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from epic_eval.journal import Journal, Record, key_of, read_lines
from epic_memory.errors import InvalidInputError, LMError
from epic_memory.lm import Completion, LanguageModel, Message, Token
from epic_memory.lm.base import Schema
from epic_memory.lm.client import StructuredClient
from epic_memory.lm.retries import Complete, RetryPolicy
from epic_memory.runtime.effects import Effects
from epic_memory.types import Usage


@dataclass(frozen=True)
class Request:
    """A prompt, how long its answer may be, and the JSON schema that a server that can holds the model to."""

    messages: tuple[Message, ...]
    max_tokens: int
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
        if key in journal:
            done.known += 1
        else:
            missing[key] = request
    client = StructuredClient(lm, patience or RetryPolicy())

    def work(request: Request) -> Effects[tuple[Request, Completion | LMError]]:
        complete = Complete(
            lm=lm, messages=list(request.messages), schema=request.schema, max_tokens=request.max_tokens
        )
        try:
            return request, (yield from client.answer(complete, done.usage))
        except LMError as error:
            return request, error

    for request, answer in client.stream(work, list(missing.values())):
        if isinstance(answer, LMError):
            reason = str(answer)
            done.failures[reason] = done.failures.get(reason, 0) + 1
            continue
        done.asked += 1
        journal.add(
            request.key(lm.name),
            {
                "model": lm.name,
                "text": answer.text,
                "cut": answer.cut,
                "prompt_tokens": answer.prompt_tokens,
                "completion_tokens": answer.completion_tokens,
            },
        )
    return done


class JournalledLM:
    """A language model whose answers are journalled, so that what is built again asks nothing twice.

    Args:
        lm: The model; whatever else it has is here, too.
        journal: Holds its answers.
    """

    def __init__(self, lm: LanguageModel, journal: Journal) -> None:
        self.lm = lm
        self.journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lm, name)

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return the model's answer, asked now or before."""
        key = key_of(self.lm.name, [(message.role, message.content) for message in messages], max_tokens)
        record = self.journal.get(key)
        if record is None:
            answer = self.lm.complete(messages, schema=schema, max_tokens=max_tokens)
            self.journal.add(key, asdict(answer))
            return answer
        tokens = None if record["tokens"] is None else tuple(Token(*token) for token in record["tokens"])
        known = {name: value for name, value in record.items() if name not in ("key", "tokens")}
        return Completion(tokens=tokens, **known)


def answer_to(request: Request, model: str, journal: Journal) -> str | None:
    """Return a model's answer, or None if there is none yet."""
    record = journal.get(request.key(model))
    return None if record is None else str(record["text"])


def export_requests(
    requests: Iterable[Request], model: str, journal: Journal, path: Path, *, shards: int = 1
) -> dict[Path, int]:
    """Write the requests that a model has not answered as JSON lines; return the files with their numbers of lines.

    Each line has the `key` to answer under, `messages` as chat servers take them, and `max_tokens`. The order is that
    of the digests, so that it tells nothing of arms or sets.

    Args:
        requests: Equal ones are written once.
        model: Whose answers the journal is asked for.
        journal: Holds answers.
        path: The file; with shards, NAME_1.jsonl and so on.
        shards: Into how many files of about the same length.
    """
    missing = {request.digest: request for request in requests if request.key(model) not in journal}
    lines = []
    for digest, request in sorted(missing.items()):
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        line = {"key": digest, "messages": messages, "max_tokens": request.max_tokens}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    written = {}
    for shard in range(shards):
        file = path if shards == 1 else path.with_stem(f"{path.stem}_{shard + 1}")
        file.write_text("".join(lines[shard::shards]), encoding="utf-8")
        written[file] = len(lines[shard::shards])
    return written


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
