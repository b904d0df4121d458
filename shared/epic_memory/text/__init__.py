"""Text analysis without a model: chunks, words, negations and language."""
