"""Groups of what a memory can do: its preferences, what it never keeps, its file."""
