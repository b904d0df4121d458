"""Adapters from LangChain's models to the core, and from an encoder of the core to LangChain's `Embeddings`."""

from epic_langchain.models.chat_model import RUN_NAME, LangChainLM, calling_with, lm_of, verifier_of
from epic_langchain.models.encoder import EpicEmbeddings, LangChainEncoder, encoder_of

__all__ = [
    "RUN_NAME",
    "EpicEmbeddings",
    "LangChainEncoder",
    "LangChainLM",
    "calling_with",
    "encoder_of",
    "lm_of",
    "verifier_of",
]
