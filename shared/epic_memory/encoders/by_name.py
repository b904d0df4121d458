"""Encoders by name: "static", "minilm", "multilingual", "sentence-transformers/MODEL" or "ollama/MODEL"."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from weakref import WeakValueDictionary

from epic_memory.encoders.base import Encoder
from epic_memory.encoders.minilm import MINILM_NAME, MiniLMEncoder, has_minilm
from epic_memory.encoders.multilingual import MULTILINGUAL_NAME, MultilingualEncoder, installed_table
from epic_memory.encoders.sentence_transformers import SentenceTransformerEncoder
from epic_memory.encoders.static import BUNDLED_NAME, default_encoder
from epic_memory.errors import InvalidInputError
from epic_memory.text.language import ENGLISH, languages_of
from epic_memory.types import Preference

_loaded: WeakValueDictionary[str, SentenceTransformerEncoder] = WeakValueDictionary()
_lock = threading.Lock()


def _transformer(model: str) -> SentenceTransformerEncoder:
    """Return a model, which takes long to load and much RAM: it is shared for as long as something refers to it."""
    with _lock:
        known = _loaded.get(model)
        if known is None:
            known = _loaded[model] = SentenceTransformerEncoder(model)
    return known


def _ollama(model: str) -> Encoder:
    # It needs the room of language models, which a memory without a server never loads.
    from epic_memory.encoders.ollama import OllamaEncoder

    return OllamaEncoder(model)


_BUNDLED: dict[str, Callable[[], Encoder]] = {
    "static": default_encoder,
    "minilm": cache(MiniLMEncoder),
    "multilingual": cache(MultilingualEncoder),
}
"""Names of encoders whose weights come with a package; each is loaded once for each process."""
_KINDS: dict[str, tuple[str, Callable[[str], Encoder]]] = {
    "sentence-transformers": ("NAME_OR_FOLDER", _transformer),
    "ollama": ("MODEL", _ollama),
}
"""Prefixes of names: what follows behind the slash, and the function that makes the encoder."""
NAMES = "static, minilm (the default if installed), multilingual (for other languages than English), " + ", or ".join(
    f"{kind}/{model}" for kind, (model, _) in _KINDS.items()
)
"""The known names, for messages and for help."""


def encoder_of(encoder: Encoder | str | None) -> Encoder:
    """Return the encoder with a name; return an encoder unchanged. None is "minilm" if it is installed, else "static".

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
        encoder = "minilm" if has_minilm() else "static"
    if not isinstance(encoder, str):
        if isinstance(encoder, type) or not callable(getattr(encoder, "encode", None)):
            # The message does not show the object itself, because its repr may contain a key.
            kind = f"the class {encoder.__name__}" if isinstance(encoder, type) else type(encoder).__name__
            raise InvalidInputError(
                f"encoder must be an object with a method encode(...), or one of the names {NAMES}; not {kind}. A"
                " model of LangChain or LlamaIndex goes in by an adapter, LangChainEncoder or LlamaIndexEncoder."
            )
        return encoder
    if not is_encoder_name(encoder):
        raise InvalidInputError(f"There is no encoder {encoder!r}. Use {NAMES}.")
    kind, _, model = encoder.strip().partition("/")
    if kind in _KINDS:
        return _KINDS[kind][1](model)
    with _lock:
        return _BUNDLED[kind]()


def encoder_for(encoder: Encoder | str | None, preferences: Iterable[Preference] | None) -> Encoder:
    """Return what `encoder_of` does; for None "multilingual", if it is installed and most are not in English."""
    if encoder is None and preferences and installed_table() is not None:
        languages = languages_of([preference.text for preference in preferences])
        other = [language != ENGLISH for language in languages if language is not None]
        encoder = "multilingual" if 2 * sum(other) > len(other) else None
    return encoder_of(encoder)


def is_encoder_name(name: object) -> bool:
    """Tell whether a value is the name of an encoder, whether or not its model can be loaded."""
    if not isinstance(name, str):
        return False
    kind, _, model = name.strip().partition("/")
    return bool(model) if kind in _KINDS else kind in _BUNDLED and not model


def bundled_encoder_of(described: object) -> str | None:
    """Return the name of the bundled encoder that a file was made with, by its description there; None for another."""
    name = described.get("name") if isinstance(described, Mapping) else None
    return {BUNDLED_NAME: "static", MINILM_NAME: "minilm", MULTILINGUAL_NAME: "multilingual"}.get(name)  # type: ignore[arg-type]
