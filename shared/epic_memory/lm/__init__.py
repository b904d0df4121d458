"""Language models behind one protocol: messages in, text and token log-probabilities out."""

from epic_memory.lm.base import Completion, LanguageModel, Message, Token
from epic_memory.lm.by_name import lm_of
from epic_memory.lm.ollama import OllamaLM
from epic_memory.lm.openai_compatible import OpenAICompatibleLM

__all__ = [
    "Completion",
    "LanguageModel",
    "Message",
    "OllamaLM",
    "OpenAICompatibleLM",
    "Token",
    "lm_of",
]
