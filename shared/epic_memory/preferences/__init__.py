"""Preferences: parsing them for what they like and avoid, and expanding them into their meaning in practice."""
