"""Adapters from LlamaIndex's models to the core, and from an encoder of the core to LlamaIndex's `BaseEmbedding`."""

from epic_llamaindex.models.chat_model import LlamaIndexLM, lm_of, verifier_of
from epic_llamaindex.models.encoder import EpicEmbedding, LlamaIndexEncoder, encoder_of

__all__ = ["EpicEmbedding", "LlamaIndexEncoder", "LlamaIndexLM", "encoder_of", "lm_of", "verifier_of"]
