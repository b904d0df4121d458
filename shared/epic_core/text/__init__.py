"""Texts: what can be told of them without a model."""
