"""Encoders by name: "static", "sentence-transformers/all-MiniLM-L6-v2" or "ollama/nomic-embed-text"."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from epic_core.encoders.base import Encoder
from epic_core.encoders.static import default_encoder
from epic_core.errors import InvalidInputError

if TYPE_CHECKING:
    from epic_core.encoders.sentence_transformers import SentenceTransformerEncoder

NAMES = "static (default), sentence-transformers/NAME_OR_FOLDER, or ollama/MODEL"
"""The known names, for messages and for help."""

_STATIC = "static"
_KINDS = ("sentence-transformers", "ollama")
# A model takes long to load and much RAM, so it is shared for as long as something still refers to it.
_loaded: WeakValueDictionary[str, SentenceTransformerEncoder] = WeakValueDictionary()
_lock = threading.Lock()


def encoder_of(encoder: Encoder | str | None) -> Encoder:
    """Return the encoder with a name; return an encoder unchanged, and the embedded one for None.

        encoder_of("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2")

    Args:
        encoder: One of `NAMES`. "sentence-transformers/" is followed by what `SentenceTransformerEncoder` takes, a name
            or a folder; "ollama/" by the name of a model that the server at `OLLAMA_HOST` has.

    Raises:
        InvalidInputError: for any other name, and for an object that is not an encoder.
        MissingExtraError: if the package that it needs is not installed.
        EncoderError: if the model cannot be loaded.
    """
    if encoder is None:
        return default_encoder()
    if not isinstance(encoder, str):
        if isinstance(encoder, type) or not callable(getattr(encoder, "encode", None)):
            # The message does not show the object itself, because its repr may contain a key.
            found = f"the class {encoder.__name__}" if isinstance(encoder, type) else type(encoder).__name__
            raise InvalidInputError(
                f"encoder must be an object with a method encode(...), or one of the names {NAMES}; not {found}. A"
                " model of LangChain or LlamaIndex goes in by an adapter, LangChainEncoder or LlamaIndexEncoder."
            )
        return encoder
    kind, model = _parted(encoder)
    if kind == _STATIC:
        return default_encoder()
    if kind == "ollama":
        from epic_core.encoders.ollama import OllamaEncoder

        return OllamaEncoder(model)
    if not kind:
        raise InvalidInputError(f"There is no encoder {encoder!r}. Use {NAMES}.")
    from epic_core.encoders.sentence_transformers import SentenceTransformerEncoder

    with _lock:
        known = _loaded.get(model)
        if known is None:
            known = _loaded[model] = SentenceTransformerEncoder(model)
    return known


def is_encoder_name(name: object) -> bool:
    """Tell whether a value is the name of an encoder, whether or not its model can be loaded."""
    return isinstance(name, str) and bool(_parted(name)[0])


def _parted(name: str) -> tuple[str, str]:
    """Return the kind of an encoder and the name of its model, or two empty texts for an unknown name."""
    kind, _, model = name.strip().partition("/")
    if kind == _STATIC and not model:
        return kind, ""
    return (kind, model) if kind in _KINDS and model else ("", "")
