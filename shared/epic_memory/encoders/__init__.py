"""Encoders: text in, L2-normalised embeddings out."""

from epic_memory.encoders.base import Encoder, aembed, embed
from epic_memory.encoders.by_name import encoder_of
from epic_memory.encoders.minilm import MiniLMEncoder
from epic_memory.encoders.ollama import OllamaEncoder
from epic_memory.encoders.sentence_transformers import SentenceTransformerEncoder
from epic_memory.encoders.static import StaticEncoder, default_encoder

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
