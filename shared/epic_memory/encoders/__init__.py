"""Encoders: text in, L2-normalised embeddings out."""

from typing import TYPE_CHECKING

from epic_memory.encoders.base import Encoder, aembed, embed
from epic_memory.encoders.by_name import encoder_of
from epic_memory.encoders.minilm import MiniLMEncoder
from epic_memory.encoders.sentence_transformers import SentenceTransformerEncoder
from epic_memory.encoders.static import StaticEncoder, default_encoder

if TYPE_CHECKING:
    from epic_memory.encoders.ollama import OllamaEncoder

__all__ = [
    "Encoder",
    "MiniLMEncoder",
    "OllamaEncoder",
    "SentenceTransformerEncoder",
    "StaticEncoder",
    "aembed",
    "default_encoder",
    "embed",
    "encoder_of",
]


def __getattr__(name: str) -> object:
    if name != "OllamaEncoder":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from epic_memory.encoders.ollama import OllamaEncoder

    return OllamaEncoder
