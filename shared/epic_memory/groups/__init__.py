"""Groups of what a memory can do: its preferences, its facts, its file."""
