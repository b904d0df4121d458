"""Pair model: a cross-encoder that takes two texts and returns probabilities, or an error that says why not."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.sentence_transformers import weights_digest
from epic_memory.errors import EncoderError, InvalidInputError, MissingExtraError

_TOLERANCE = 1e-5
_WORDS = 250
_HEADS = ("ForSequenceClassification", "ForCausalLM")
_LOGITS = {"Identity": True, "Sigmoid": False, "Softmax": False}


@runtime_checkable
class PairScorer(Protocol):
    """Protocol of a cross-encoder: sentence-transformers' `CrossEncoder`, or another object that scores pairs."""

    def predict(self, pairs: Any, /) -> Any:
        """Return a score for each pair, or a row of scores, one for each label."""
        ...


class PairModel:
    """A cross-encoder, with its name, identity and labels. Arguments and errors are those of `CrossEncoderVerifier`.

    Attributes:
        name: Its name.
        identity: A text that distinguishes its weights from others', or empty if there is none.
        labels: The names of its scores, lower case; empty for one score.
        entails, contradicts: The places of these labels; None if there is none.
        words: How many words of a text it can certainly read next to a preference.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | PairScorer,
        *,
        device: str | None = None,
        batch: int = 32,
        logits: bool | None = None,
        labels: Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        if isinstance(model, (str, os.PathLike)):
            path = os.fspath(model)
            self._model: Any = _loaded(path, device)
            called = path.rstrip("/\\").replace("\\", "/").split("/")[-1]
        elif isinstance(model, type) or not callable(getattr(model, "predict", None)):
            raise InvalidInputError(
                f"A cross-encoder is a name, a folder, or an object with predict(pairs); not {type(model).__name__}."
            )
        else:
            self._model = model
            called = getattr(model, "name", None) or type(model).__name__
        self.name = str(name or called)
        # Before version 4, sentence-transformers had another name for it.
        attribute = "activation_fn" if hasattr(self._model, "activation_fn") else "default_activation_function"
        activation = getattr(self._model, attribute, None)
        self.logits = _LOGITS.get(type(activation).__name__, False) if logits is None else logits
        named = _labels(self._model) if labels is None else tuple(label.strip().lower() for label in labels)
        self.labels = named if len(named) > 1 else ()
        self.entails, self.contradicts = _nli(self.labels, self.name)
        self.identity = _fingerprint(self._model) or str(getattr(self._model, "fingerprint", "") or name or "")
        longest = getattr(self._model, "max_seq_length", None) or getattr(self._model, "max_length", None)
        # A word is at most one and a half tokens, and the preference has to fit next to the text.
        self.words = max(1, min(_WORDS, longest // 2)) if isinstance(longest, int) else _WORDS
        self._batch = batch
        takes = inspect.signature(self._model.predict).parameters
        options = {"batch_size": batch, "show_progress_bar": False}
        self._options = {option: value for option, value in options.items() if option in takes}
        self._lock = threading.Lock()

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return a row for each pair: one probability, or one for each label. NaN if the model gave none.

        Raises:
            ValueError: if the model returns another number of scores than requested, or a score outside [0, 1] as a
                probability.
            Exception: whatever the model raises.
        """
        with self._lock:
            rows = [self._scores(pairs[start : start + self._batch]) for start in range(0, len(pairs), self._batch)]
        scores = np.concatenate(rows)
        scores[~np.isfinite(scores).all(axis=1)] = np.nan
        if self.logits:
            return _softmax(scores) if self.labels else 0.5 * (1.0 + np.tanh(0.5 * scores))
        outside = (scores < -_TOLERANCE) | (scores > 1.0 + _TOLERANCE)
        if outside.any():
            raise ValueError(
                f"a score of {scores[outside][0]:g} is no probability; is it a logit? Then say logits=True"
            )
        return np.clip(scores, 0.0, 1.0)

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        found = self._model.predict(list(pairs), **self._options)
        if hasattr(found, "detach"):
            found = found.detach().cpu()
        scores = np.array(found, dtype=np.float64)
        width = len(self.labels) or 1
        if width == 1 and scores.shape == (len(pairs),):
            scores = scores[:, None]
        if scores.shape != (len(pairs), width):
            hint = "; labels=[...] says what several scores are" if width == 1 and scores.ndim == 2 else ""
            raise ValueError(f"scores of shape {scores.shape} for {len(pairs)} pairs with {width} each{hint}")
        return scores


def _loaded(path: str, device: str | None) -> Any:
    try:
        from sentence_transformers import CrossEncoder
    except ImportError as error:
        raise MissingExtraError("sentence-transformers", "sentence-transformers") from error
    try:
        model: Any = CrossEncoder(path, device=device)
    except Exception as error:
        raise EncoderError(
            f"Cannot load the cross-encoder {path!r}: {error}. "
            "Give a folder that holds a model, or download it first while you are online."
        ) from error
    built = getattr(_config(model), "architectures", None) or ()
    # sentence-transformers gives any other model a head of random numbers, with a warning at most.
    alone = not hasattr(model, "__len__") or len(model) == 1
    if built and alone and not any(architecture.endswith(_HEADS) for architecture in built):
        raise EncoderError(
            f"{path!r} is no cross-encoder but a {built[0]}, without weights that score pairs. Give a model that was "
            "trained to, such as cross-encoder/ms-marco-MiniLM-L6-v2."
        )
    return model


def _config(model: Any) -> Any:
    return getattr(model, "config", None) or getattr(getattr(model, "model", None), "config", None)


def _labels(model: Any) -> tuple[str, ...]:
    named = getattr(_config(model), "id2label", None) or {}
    return tuple(str(named[key]).strip().lower() for key in sorted(named, key=int))


def _nli(labels: tuple[str, ...], name: str) -> tuple[int | None, int | None]:
    """Return the places of entailment and contradiction among the labels."""
    if not labels:
        return None, None
    entails = [place for place, label in enumerate(labels) if label.startswith("entail")]
    contradicts = [place for place, label in enumerate(labels) if label.startswith("contradict")]
    if len(entails) != 1 or len(contradicts) > 1:
        raise InvalidInputError(
            f"The cross-encoder {name} has the labels {', '.join(labels)}; which of them is entailment is not clear."
            " If it is a model of natural language inference, say what its scores are, in order:"
            " labels=['contradiction', 'entailment', 'neutral']."
        )
    return entails[0], contradicts[0] if contradicts else None


def _fingerprint(model: Any) -> str:
    state = getattr(model, "state_dict", None) or getattr(getattr(model, "model", None), "state_dict", None)
    if not callable(state):
        return ""
    weights = state()
    # Runtimes other than torch show no weights.
    return weights_digest(weights) if weights else ""


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    grown = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: NDArray[np.float64] = grown / grown.sum(axis=1, keepdims=True)
    return found
