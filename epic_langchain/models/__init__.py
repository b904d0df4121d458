"""Adapters from LangChain's models to the core, and from an encoder of the core to LangChain's `Embeddings`."""

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from epic_langchain.models.chat_model import NO_MODEL, RUN_NAME, LangChainLM, calling_with
from epic_langchain.models.encoder import EpicEmbeddings, LangChainEncoder
from epic_plugins.models import Models

_MODELS = Models(
    component=Runnable,
    wrapped=EpicEmbeddings,
    embedding=Embeddings,
    encoder=LangChainEncoder,
    chat=BaseChatModel,
    lm=LangChainLM,
    no_embedding="The embeddings must be LangChain Embeddings, such as OllamaEmbeddings(model=...)",
    no_chat=NO_MODEL,
    argument="embeddings",
)
encoder_of, lm_of, verifier_of = _MODELS.encoder_of, _MODELS.lm_of, _MODELS.verifier_of
memory_of, searched_of = _MODELS.memory_of, _MODELS.searched_of

__all__ = [
    "RUN_NAME",
    "EpicEmbeddings",
    "LangChainEncoder",
    "LangChainLM",
    "calling_with",
    "encoder_of",
    "lm_of",
    "memory_of",
    "searched_of",
    "verifier_of",
]
