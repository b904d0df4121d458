"""Preferences: what they like and avoid, and what they mean in practice."""
