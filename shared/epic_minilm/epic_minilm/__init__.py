"""Weights of all-MiniLM-L6-v2 in 8 bits, for epic-memory's encoder "minilm"."""
