"""Scorer in this process: log-probabilities of a reference from a GGUF file, by llama-cpp-python (extra `llamacpp`)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epic_core.errors import InvalidInputError, LMError, LMSetupError, MissingExtraError
from epic_core.lm.base import Message
from epic_core.lm.http import sendable
from epic_core.lm.scoring import Scored, checked_reference
from epic_core.runtime.threads import in_thread


class LlamaCppScorer:
    """Scorer that computes log p(reference | messages) in this process: `LlamaCppScorer("smollm2.gguf")`.

    Messages are put into the file's own chat template; those of a file without one are joined by blank lines. One score
    is computed at a time.

    Args:
        model: A `llama_cpp.Llama` made with `logits_all=True`, or the path of a GGUF file.
        context: For a path: how many tokens prompt and reference may have.
        name: Identifies the model in a log; default: the file's name.

    Raises:
        MissingExtraError: without llama-cpp-python.
        LMSetupError: for a file that it cannot load.
    """

    def __init__(self, model: Any, *, context: int = 4096, name: str | None = None) -> None:
        try:
            from llama_cpp import Llama
        except ImportError as error:
            raise MissingExtraError("llama-cpp-python", "llamacpp") from error
        if isinstance(model, (str, Path)):
            try:
                model = Llama(str(model), n_ctx=context, logits_all=True, verbose=False)
            except ValueError as error:
                raise LMSetupError(f"llama.cpp cannot load {str(model)!r}: {error}") from None
        elif not isinstance(model, Llama):
            raise InvalidInputError(f"model must be a llama_cpp.Llama or a path, not {type(model).__name__}.")
        self.name = f"logprob:llamacpp:{name or Path(model.model_path).name}"
        self._model = model
        self._lock = threading.Lock()

    def score(self, messages: Sequence[Message], reference: str) -> Scored:
        """Return log p(reference | messages).

        Raises:
            LMSetupError: for a model that was made without `logits_all=True`, and so has no log-probabilities.
            LMError: if prompt and reference are longer than the model's context, or it fails.
        """
        checked_reference(reference)
        prompt, has_special = self._prompt(messages)
        with self._lock:
            before = self._tokens(prompt, add_bos=not has_special)
            tokens = self._tokens(prompt + reference.strip(), add_bos=not has_special)
            # The last token of the prompt may be another one with the reference behind it.
            pairs = enumerate(zip(before, tokens, strict=False))
            start = next((place for place, (one, other) in pairs if one != other), len(before))
            count = len(tokens) - start
            if not 0 < start < len(tokens):
                raise LMError("The reference has no tokens of its own after this prompt.")
            if len(tokens) > self._model.n_ctx():
                raise LMError(
                    f"Prompt and reference have {len(tokens)} tokens, the model's context {self._model.n_ctx()}."
                    " Give it more: LlamaCppScorer(path, context=...)."
                )
            try:
                self._model.reset()
                self._model.eval(tokens)
            except RuntimeError as error:
                raise LMError(f"llama.cpp failed: {error}") from None
            # A row predicts the token that follows it.
            rows = np.array(self._model.scores[start - 1 : len(tokens) - 1], dtype=np.float64)
        if len(rows) != count or not np.isfinite(rows).all() or not np.ptp(rows, axis=1).all():
            raise LMSetupError(
                "The model has no log-probabilities of the prompt. Make it with Llama(..., logits_all=True), or give"
                " LlamaCppScorer the path of the file."
            )
        top = rows.max(axis=1)
        given = rows[np.arange(count), tokens[start:]] - top - np.log(np.exp(rows - top[:, None]).sum(axis=1))
        return Scored(value=float(given.sum()), tokens=count)

    async def ascore(self, messages: Sequence[Message], reference: str) -> Scored:
        """Return a score as `score` does, without blocking the event loop."""
        return await in_thread(self.score, messages, reference)

    def _prompt(self, messages: Sequence[Message]) -> tuple[str, bool]:
        """Return the prompt, up to where the answer begins, and whether it has its beginning-of-text token."""
        template = self._model.metadata.get("tokenizer.chat_template")
        if template is None:
            return "\n\n".join([*(message.content for message in messages), ""]), False
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        spelt = [
            self._model.detokenize([token], special=True).decode("utf-8", "replace") if token >= 0 else ""
            for token in (self._model.token_eos(), self._model.token_bos())
        ]
        made = Jinja2ChatFormatter(template, eos_token=spelt[0], bos_token=spelt[1])(messages=sendable(messages))
        return made.prompt, made.added_special

    def _tokens(self, text: str, *, add_bos: bool) -> list[int]:
        tokens: list[int] = self._model.tokenize(text.encode("utf-8"), add_bos=add_bos, special=True)
        return tokens
