"""Encoders: text in, L2-normalised embeddings out."""

from typing import TYPE_CHECKING

from epic_memory.encoders.base import Encoder, aembed, embed
from epic_memory.encoders.by_name import encoder_of
from epic_memory.encoders.minilm import MiniLMEncoder
from epic_memory.encoders.sentence_transformers import SentenceTransformerEncoder
from epic_memory.encoders.static import StaticEncoder, default_encoder
from epic_memory.runtime.optional import imported_later

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

__getattr__, __dir__ = imported_later(__name__, {"OllamaEncoder": "ollama"})
