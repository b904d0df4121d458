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
"""The names that there are, for messages and for help."""

_STATIC = "static"
_KINDS = ("sentence-transformers", "ollama")
# A model takes long to load, and much RAM: as long as somebody has it, it is there for others too.
_loaded: WeakValueDictionary[str, SentenceTransformerEncoder] = WeakValueDictionary()
_lock = threading.Lock()


def encoder_of(encoder: Encoder | str | None) -> Encoder:
    """Return the encoder of a name; an encoder is returned as it is, and None is the embedded one.

        encoder_of("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2")

    Args:
        encoder: `NAMES` says which there are. Behind "sentence-transformers/" goes what `SentenceTransformerEncoder`
            takes, a name or a folder; behind "ollama/" the name of a model that the server at `OLLAMA_HOST` has.

    Raises:
        InvalidInputError: for any other name, and for what is no encoder.
        MissingExtraError: if the package that it takes is not installed.
        EncoderError: if the model cannot be loaded.
    """
    if encoder is None:
        return default_encoder()
    if not isinstance(encoder, str):
        if isinstance(encoder, type) or not callable(getattr(encoder, "encode", None)):
            # Not the object itself: what it prints of itself may hold a key.
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
    """Tell whether something is the name of an encoder, whether or not its model can be loaded."""
    return isinstance(name, str) and bool(_parted(name)[0])


def _parted(name: str) -> tuple[str, str]:
    """Return the kind of an encoder and the name of its model; twice nothing for what is no name of one."""
    kind, _, model = name.strip().partition("/")
    if kind == _STATIC and not model:
        return kind, ""
    return (kind, model) if kind in _KINDS and model else ("", "")
