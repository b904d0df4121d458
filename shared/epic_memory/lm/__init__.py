"""Language models behind one protocol: messages in, text and token log-probabilities out."""

from epic_memory.lm.base import Completion, LanguageModel, Message, Token
from epic_memory.lm.by_name import lm_of
from epic_memory.lm.llamacpp import LlamaCppLM
from epic_memory.lm.ollama import OllamaLM
from epic_memory.lm.openai_compatible import OpenAICompatibleLM
from epic_memory.lm.scoring import LlamaCppScorer, MetricScorer, Scored, Scorer, VllmScorer

__all__ = [
    "Completion",
    "LanguageModel",
    "LlamaCppLM",
    "LlamaCppScorer",
    "Message",
    "MetricScorer",
    "OllamaLM",
    "OpenAICompatibleLM",
    "Scored",
    "Scorer",
    "Token",
    "VllmScorer",
    "lm_of",
]
