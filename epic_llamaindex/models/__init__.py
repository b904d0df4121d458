"""Adapters from LlamaIndex's models to the core, and from an encoder of the core to LlamaIndex's `BaseEmbedding`."""

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseComponent

from epic_llamaindex.models.chat_model import LlamaIndexLM
from epic_llamaindex.models.encoder import EpicEmbedding, LlamaIndexEncoder
from epic_plugins.models import Models

_MODELS = Models(
    component=BaseComponent,
    wrapped=EpicEmbedding,
    embedding=BaseEmbedding,
    encoder=LlamaIndexEncoder,
    chat=LLM,
    lm=LlamaIndexLM,
    no_embedding="embed_model must be a LlamaIndex embedding model, such as OllamaEmbedding(model_name=...)",
    no_chat=(
        "llm must be a LlamaIndex LLM, such as Ollama(model=...), a language model of epic_memory, such as"
        " OllamaLM(...), or a verifier of epic_memory"
    ),
    argument="embed_model",
)
encoder_of, lm_of, verifier_of = _MODELS.encoder_of, _MODELS.lm_of, _MODELS.verifier_of
memory_of, searched_of = _MODELS.memory_of, _MODELS.searched_of

__all__ = [
    "EpicEmbedding",
    "LlamaIndexEncoder",
    "LlamaIndexLM",
    "encoder_of",
    "lm_of",
    "memory_of",
    "searched_of",
    "verifier_of",
]
