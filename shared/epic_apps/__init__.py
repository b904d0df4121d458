"""Programs on top of a memory, each behind an extra of its own; they use public names of `epic_memory` only."""
