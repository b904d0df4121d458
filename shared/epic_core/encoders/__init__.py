"""Encoders: text in, L2-normalised embeddings out."""

from epic_core.encoders.base import Encoder, aembed, embed
from epic_core.encoders.by_name import encoder_of
from epic_core.encoders.minilm import MiniLMEncoder
from epic_core.encoders.ollama import OllamaEncoder
from epic_core.encoders.sentence_transformers import SentenceTransformerEncoder
from epic_core.encoders.static import StaticEncoder, default_encoder

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
