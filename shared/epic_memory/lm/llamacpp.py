"""Language model in this process: llama.cpp with a GGUF file, by the package llama-cpp-python."""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epic_memory.errors import (
    EpicError,
    InvalidInputError,
    LMError,
    LMSetupError,
    LMUnavailableError,
    MissingExtraError,
)
from epic_memory.lm.base import SECONDS, Completion, Message, Schema, Token
from epic_memory.lm.failures import too_slow
from epic_memory.lm.http import check_model, sendable
from epic_memory.lm.limits import LimitedLM
from epic_memory.runtime.calls import Call
from epic_memory.runtime.effects import Effects
from epic_memory.runtime.threads import in_thread

# How many tokens of a prompt are read between two looks at whether the caller still waits.
_PIECE = 64
_MOST_GRAMMARS = 64


class LlamaCppLM(LimitedLM):
    """A model that llama.cpp runs in this process: `LlamaCppLM("qwen3-4b-q4_k_m.gguf")`.

    It is asked at temperature 0, without thinking, in the file's own chat template, and held to a JSON schema by a
    grammar. It answers one call after the other, and stops at the next token when the caller gives up. The file is
    loaded by the first call, and what a prompt has in common with the one before is not read again.

    Args:
        path: A GGUF file of a model that follows instructions.
        timeout: Seconds for an answer as a whole, from the call to the last token.
        context: Tokens for prompt and answer together.
        logprobs: Whether to give the log-probabilities of an answer's tokens.
        options: Further options of `llama_cpp.Llama`, such as `{"n_threads": 4}`.

    Raises:
        MissingExtraError: if llama-cpp-python is not installed.
        LMSetupError: for a path without a GGUF file; on use, for one that llama.cpp cannot load.
        InvalidInputError: for an invalid timeout or context.
        LMUnavailableError: on use, when an answer takes too long.
        LMError: on use, when the prompt does not fit, or llama.cpp fails.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        timeout: float = SECONDS,
        context: int = 4096,
        logprobs: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = checked_file(path)
        check_model("LlamaCppLM", self.path.name, None, timeout)
        super().__init__(f"llama.cpp:{self.path.name}", concurrency=1, context=context)
        package()
        self._timeout = timeout
        self._logprobs = logprobs
        threads = _threads()
        defaults = {"n_ctx": context, "n_gpu_layers": -1, "n_threads": threads, "n_threads_batch": threads}
        self._options = {**defaults, **(options or {})}
        self._model: Any = None
        self._grammars: dict[str, Any] = {}
        # `LimitedLM` lets one thread and one task of each loop through: they must not meet in the model either.
        self._lock = threading.Lock()

    def check(self) -> None:
        """Load the file, unless it is loaded.

        Raises:
            LMSetupError: if llama.cpp cannot load it.
        """
        with self._lock:
            self._loaded()

    def _completing(
        self, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None
    ) -> Effects[Completion]:
        stop = _Stop(self._timeout)
        completion: Completion = yield Call(self._complete, self._acomplete, messages, schema, max_tokens, stop)
        return completion

    async def _acomplete(self, *arguments: Any) -> Completion:
        """Return an answer from a worker thread, which ends at the next token when this task is cancelled."""
        *_, stop = arguments
        work = asyncio.ensure_future(in_thread(self._complete, *arguments))
        try:
            return await asyncio.shield(work)
        finally:
            stop.wanted.set()
            await asyncio.gather(work, return_exceptions=True)

    def _complete(
        self, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None, stop: _Stop
    ) -> Completion:
        while not self._lock.acquire(timeout=0.05):
            stop.check()
        try:
            return self._answer(self._loaded(), messages, schema, max_tokens, stop)
        except EpicError:
            raise
        except Exception as error:
            raise LMError(f"llama.cpp failed on the model {self.path.name!r}: {error}") from error
        finally:
            self._lock.release()

    def _answer(
        self, model: Any, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None, stop: _Stop
    ) -> Completion:
        spelt, has_special = prompt_of(model, messages)
        prompt = tokens_of(model, spelt, add_bos=not has_special)
        room = model.n_ctx() - len(prompt)
        if room < 1:
            raise LMError(
                f"The prompt has {len(prompt)} tokens, the context of {self.name} {model.n_ctx()}. Cut the text"
                " (chunker=WordChunker()), or give the model more: LlamaCppLM(path, context=...)."
            )
        limit = room if max_tokens is None else min(max_tokens, room)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        tokens: list[Token] = []
        count, logprob, cut = 0, 0.0, True
        for token in self._tokens(model, prompt, self._grammar(model, schema), stop):
            if package().llama_vocab_is_eog(package().llama_model_get_vocab(model.model), token):
                cut = False
                break
            count += 1
            logprob += _logprob(model, token) if self._logprobs else 0.0
            # A character may take several tokens: they are one, with the product of their probabilities.
            text = decoder.decode(model.detokenize([token]))
            if text:
                tokens.append(Token(text, min(logprob, 0.0)))
                logprob = 0.0
            if count >= limit:
                break
        text = "".join(token.text for token in tokens) + decoder.decode(b"", final=True)
        given = tuple(tokens) if self._logprobs and tokens else None
        return Completion(text=text, tokens=given, prompt_tokens=len(prompt), completion_tokens=count, cut=cut)

    def _tokens(self, model: Any, prompt: list[int], grammar: Any, stop: _Stop) -> Iterator[int]:
        """Yield the tokens of an answer; check before each, and between pieces of the prompt, whether to stop."""
        stop.check()
        known = model.longest_token_prefix(model.input_ids[: model.n_tokens].tolist(), prompt)
        for end in range(known + _PIECE, len(prompt), _PIECE):
            # The piece is read for its state; the token that is predicted is not used.
            next(model.generate(prompt[:end], temp=0.0))
            stop.check()
        for token in model.generate(prompt, temp=0.0, grammar=grammar):
            yield token
            stop.check()

    def _grammar(self, model: Any, schema: Schema | None) -> Any:
        """Return the grammar of a schema; None for none, or one that llama.cpp has no grammar for."""
        if schema is None:
            return None
        spelt = json.dumps(schema)
        if spelt not in self._grammars:
            if len(self._grammars) >= _MOST_GRAMMARS:
                self._grammars.clear()
            self._grammars[spelt] = _grammar_of(model, spelt)
        return self._grammars[spelt]

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = loaded(self.path, **self._options)
        return self._model

    def __repr__(self) -> str:
        return f"LlamaCppLM({str(self.path)!r})"


class _Stop:
    """End of an answer before it is complete: at a time, or once nobody waits for it."""

    def __init__(self, seconds: float) -> None:
        self.wanted = threading.Event()
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raise an error if the answer is to end now."""
        if self.wanted.is_set():
            raise LMUnavailableError("The call was cancelled.")
        if time.monotonic() > self._end:
            raise too_slow("The model", self._seconds)


def _threads() -> int:
    """Return how many threads compute: half of the cores, as threads that wait for one without a core slow all down."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // 2)


def package() -> Any:
    """Return the package `llama_cpp`; if it is not installed, raise a `MissingExtraError`."""
    try:
        import llama_cpp
    except ImportError as error:
        raise MissingExtraError("llama-cpp-python", "llama-cpp") from error
    return llama_cpp


def checked_file(path: str | Path) -> Path:
    """Return the path of a GGUF file.

    Raises:
        InvalidInputError: for what is no path.
        LMSetupError: if no such file is there.
    """
    if not isinstance(path, (str, Path)) or not str(path).strip():
        raise InvalidInputError(f"A GGUF file is given by its path, not {path!r}.")
    file = Path(path).expanduser()
    try:
        with file.open("rb") as opened:
            begins = opened.read(4)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LMSetupError(f"{str(path)!r} cannot be read: {reason}. Give the path of a GGUF file.") from None
    if begins != b"GGUF":
        raise LMSetupError(f"{str(path)!r} is no GGUF file. llama.cpp runs models in this format only.")
    return file


def loaded(path: Path, **options: Any) -> Any:
    """Return the `llama_cpp.Llama` of a GGUF file; one that llama.cpp cannot load is an `LMSetupError`."""
    try:
        return package().Llama(str(path), verbose=False, **options)
    except (ValueError, RuntimeError, AssertionError) as error:
        raise LMSetupError(f"llama.cpp cannot load {str(path)!r}: {error}") from None


def prompt_of(model: Any, messages: Sequence[Message]) -> tuple[str, bool]:
    """Return messages in the file's chat template, up to where the answer begins, and whether it has its first token.

    Messages to a model without a template are joined by blank lines.
    """
    template = model.metadata.get("tokenizer.chat_template")
    if template is None:
        return "\n\n".join([*(message.content for message in messages), ""]), False
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter

    eos, bos = (
        model.detokenize([token], special=True).decode("utf-8", "replace") if token >= 0 else ""
        for token in (model.token_eos(), model.token_bos())
    )
    formatter = Jinja2ChatFormatter(template, eos_token=eos, bos_token=bos)
    sent = sendable(messages)
    try:
        made = formatter(messages=sent, enable_thinking=False)
    except Exception:
        if [each["role"] for each in sent[:2]] != ["system", "user"]:
            raise
        # Some templates refuse a system message: it becomes part of the user's.
        first = {"role": "user", "content": f"{sent[0]['content']}\n\n{sent[1]['content']}"}
        made = formatter(messages=[first, *sent[2:]], enable_thinking=False)
    return made.prompt, made.added_special


def tokens_of(model: Any, text: str, *, add_bos: bool) -> list[int]:
    """Return the tokens of a text, in which those of the chat template may be spelt out."""
    tokens: list[int] = model.tokenize(text.encode("utf-8"), add_bos=add_bos, special=True)
    return tokens


def _grammar_of(model: Any, schema: str) -> Any:
    """Return the grammar of a schema, or None if llama.cpp does not understand it: generating by it would crash."""
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    try:
        grammar = json_schema_to_gbnf(schema)
    except Exception:
        return None
    vocabulary = package().llama_model_get_vocab(model.model)
    sampler = package().llama_sampler_init_grammar(vocabulary, grammar.encode("utf-8"), b"root")
    if not sampler:
        return None
    package().llama_sampler_free(sampler)
    return package().LlamaGrammar.from_string(grammar, verbose=False)


def _logprob(model: Any, token: int) -> float:
    """Return the log-probability of a token that was just drawn, before the grammar."""
    import numpy as np

    row = package().llama_get_logits_ith(model.ctx, -1)
    logits = np.ctypeslib.as_array(row, shape=(model.n_vocab(),)).astype(np.float64)
    top = logits.max()
    return float(logits[token] - top - np.log(np.exp(logits - top).sum()))
